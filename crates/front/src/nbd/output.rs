//! What goes to a client: replies, as they come, many in one write.

use super::limits::Limits;
use super::reply::{Form, Outcome, encode_refusal, encode_success};
use crate::listening::Wire;
use bytes::{Buf, BytesMut};
use fogbank_env::{Clock, by};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 * 1024;

/// A reply on its way.
pub struct Reply {
    /// In which form.
    pub form: Form,
    /// The client's name for the request.
    pub cookie: u64,
    /// What the request came to.
    pub outcome: Outcome,
    /// What the request held of its connection's room. It is given back when the reply has left.
    pub room: [OwnedSemaphorePermit; 2],
}

/// The half of a connection to which replies go.
pub struct Output {
    stream: WriteHalf<Box<dyn Wire>>,
    buffer: BytesMut,
    clock: Arc<dyn Clock>,
    stall_nanos_max: u64,
}

impl Output {
    /// Nothing has gone yet.
    pub fn new(stream: WriteHalf<Box<dyn Wire>>, clock: Arc<dyn Clock>, limits: &Limits) -> Self {
        Self { stream, buffer: BytesMut::new(), clock, stall_nanos_max: limits.stall_nanos_max }
    }

    /// Writes `replies` as they come, to the last.
    pub async fn run(mut self, mut replies: UnboundedReceiver<Reply>) -> io::Result<()> {
        while let Some(reply) = replies.recv().await {
            self.put(reply).await?;
            while let Ok(reply) = replies.try_recv() {
                self.put(reply).await?;
            }
            self.send().await?;
        }
        self.stream.shutdown().await
    }

    /// Puts a reply behind those that wait, which leave if they are many.
    async fn put(&mut self, reply: Reply) -> io::Result<()> {
        match &reply.outcome {
            Err(refusal) => encode_refusal(reply.form, reply.cookie, *refusal, &mut self.buffer),
            Ok(data) => {
                // It fits: the length of the request did.
                let length = data.iter().map(|part| part.len()).sum::<usize>() as u32;
                encode_success(reply.form, reply.cookie, length, &mut self.buffer);
                for part in data {
                    self.buffer.extend_from_slice(part);
                    self.send_if_many().await?;
                }
            }
        }
        self.send_if_many().await?;
        drop(reply.room);
        Ok(())
    }

    async fn send_if_many(&mut self) -> io::Result<()> {
        if self.buffer.len() < WRITE_BYTES { Ok(()) } else { self.send().await }
    }

    async fn send(&mut self) -> io::Result<()> {
        while !self.buffer.is_empty() {
            let deadline = self.clock.now().saturating_add(self.stall_nanos_max);
            let written = self.stream.write(&self.buffer);
            let written = by(&*self.clock, deadline, written).await;
            match written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => self.buffer.advance(written),
            }
        }
        self.stream.flush().await
    }
}
