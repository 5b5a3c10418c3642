//! Messages of gRPC that are bytes and nothing else: copied once on their way out, not at all on
//! their way in.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::wire::MESSAGE_BYTES_MAX;

/// Sends lists of pieces, receives bytes.
#[derive(Debug, Clone, Copy)]
pub struct Pieces {
    buffer_bytes: usize,
}

impl Pieces {
    /// For calls of many messages: they share a buffer.
    pub fn many() -> Self {
        Self { buffer_bytes: MESSAGE_BYTES_MAX + SPARE }
    }

    /// For calls of one message: a buffer as long as that.
    pub fn single() -> Self {
        Self { buffer_bytes: SPARE }
    }
}

impl Codec for Pieces {
    type Encode = Vec<Bytes>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Pieces {
    type Item = Vec<Bytes>;
    type Error = Status;

    fn encode(&mut self, pieces: Vec<Bytes>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(pieces.iter().map(Bytes::len).sum());
        pieces.iter().for_each(|piece| out.put_slice(piece));
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(self.buffer_bytes, MESSAGE_BYTES_MAX)
    }
}

impl Decoder for Pieces {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(self.buffer_bytes, MESSAGE_BYTES_MAX)
    }
}

/// What stands around a message in a buffer.
const SPARE: usize = 4 << 10;
