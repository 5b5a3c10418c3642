//! Messages of gRPC that are bytes and nothing else: copied once on their way out, not at all on
//! their way in.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::wire::MESSAGE_BYTES_MAX;

/// Sends lists of pieces, receives bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pieces;

impl Codec for Pieces {
    type Encode = Vec<Bytes>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
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
        BufferSettings::new(MESSAGE_BYTES_MAX + SPARE, MESSAGE_BYTES_MAX)
    }
}

impl Decoder for Pieces {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(MESSAGE_BYTES_MAX + SPARE, MESSAGE_BYTES_MAX)
    }
}

/// What stands around a message in a buffer.
const SPARE: usize = 4 << 10;
