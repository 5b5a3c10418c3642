//! What comes from a client: requests, and the bytes of writes.
//!
//! Room for bytes is made when they come: a client that claims many and sends none gets none.

use super::limits::Limits;
use super::request::{BYTES, Request};
use super::span::Span;
use crate::listening::Wire;
use bytes::{Buf, Bytes, BytesMut};
use fogbank_env::{Clock, by};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, ReadHalf};

/// Room made for requests at a time.
const READ_BYTES: usize = 16 * 1024;

/// The half of a connection from which requests come.
pub struct Input {
    stream: ReadHalf<Box<dyn Wire>>,
    buffer: BytesMut,
    clock: Arc<dyn Clock>,
    stall_nanos_max: u64,
}

impl Input {
    /// Nothing has come yet.
    pub fn new(stream: ReadHalf<Box<dyn Wire>>, clock: Arc<dyn Clock>, limits: &Limits) -> Self {
        Self { stream, buffer: BytesMut::new(), clock, stall_nanos_max: limits.stall_nanos_max }
    }

    /// The next request; `None` if the client has gone. May be given up and called again.
    pub async fn request(&mut self) -> io::Result<Option<Request>> {
        while self.buffer.len() < BYTES {
            let is_idle = self.buffer.is_empty();
            self.buffer.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.buffer);
            // Between requests a client may take its time.
            let read = if is_idle {
                read.await?
            } else {
                in_time(&*self.clock, self.stall_nanos_max, read).await?
            };
            if read == 0 {
                return Ok(None);
            }
        }
        let mut header = [0; BYTES];
        self.buffer.copy_to_slice(&mut header);
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "this is no request");
        Request::decode(&header).map(Some).ok_or_else(malformed)
    }

    /// The bytes of a write, in such pieces.
    pub async fn payload(&mut self, pieces: impl Iterator<Item = Span>) -> io::Result<Vec<Bytes>> {
        let mut payload = Vec::new();
        for piece in pieces {
            payload.push(self.piece(piece.length as usize).await?);
        }
        Ok(payload)
    }

    async fn piece(&mut self, length: usize) -> io::Result<Bytes> {
        let buffered = length.min(self.buffer.len());
        if buffered == length {
            return Ok(self.buffer.split_to(length).freeze());
        }
        let mut piece = BytesMut::with_capacity(length);
        piece.extend_from_slice(&self.buffer);
        self.buffer.clear();
        while piece.len() < length {
            let mut rest = (&mut self.stream).take((length - piece.len()) as u64);
            let read = rest.read_buf(&mut piece);
            if in_time(&*self.clock, self.stall_nanos_max, read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(piece.freeze())
    }
}

async fn in_time(
    clock: &dyn Clock,
    nanos_max: u64,
    read: impl Future<Output = io::Result<usize>>,
) -> io::Result<usize> {
    let deadline = clock.now().saturating_add(nanos_max);
    by(clock, deadline, read).await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
}
