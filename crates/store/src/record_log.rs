//! A query log whose every call is in a trace before it is forwarded, and everything that it tells
//! before it is told on.
//!
//! As with a store ([`crate::Recorded`]): a trace that cannot be written ends everything.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::record::Underway;
use crate::trace::{LogCall, Placed, TraceWriter, fingerprint};
use crate::{Log, LogEntry, LogEvents, Result};

/// Records all that passes to the log inside, and all that it tells.
pub struct RecordedLog {
    inner: Arc<dyn Log>,
    trace: TraceWriter,
}

impl RecordedLog {
    /// Records what passes to `inner`, in the trace in which the store of the same client is.
    pub fn new(inner: Arc<dyn Log>, trace: TraceWriter) -> Self {
        Self { inner, trace }
    }

    async fn call(
        &self,
        call: LogCall,
        ends: impl Future<Output = Result<Placed>>,
    ) -> Result<Placed> {
        let id = self.trace.log_sent(&call)?;
        let reply = Underway { trace: &self.trace, id }.until(ends).await;
        self.trace.log_done(id, &reply)?;
        reply
    }
}

#[async_trait]
impl Log for RecordedLog {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        let LogEntry { session, turn, bytes } = &entry;
        let (length, fingerprint) = (bytes.len() as u64, fingerprint(bytes));
        let call = LogCall::Append { session: *session, turn: *turn, bytes: length, fingerprint };
        let ends = async { Ok(Placed::At(self.inner.append(entry.clone()).await?)) };
        Ok(match self.call(call, ends).await? {
            Placed::At(place) => place,
            Placed::Done => None,
        })
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        let (bytes, fingerprint) = (result.len() as u64, fingerprint(&result));
        let call = LogCall::Publish { place, bytes, fingerprint };
        let ends = async { self.inner.publish(place, result).await.map(|()| Placed::Done) };
        self.call(call, ends).await.map(|_| ())
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        let id = self.trace.log_sent(&LogCall::Follow { from })?;
        let follows = Underway { trace: &self.trace, id }.until(self.inner.follow(from)).await;
        self.trace.log_done(id, &follows.as_ref().map(|_| Placed::Done).map_err(Clone::clone))?;
        let mut events = follows?;
        let (sender, told) = mpsc::channel(1);
        let trace = self.trace.clone();
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    event = events.recv() => event,
                };
                let Some(event) = event else { return };
                let recorded = match &event {
                    Ok(event) => trace.heard(id, event),
                    Err(_) => Ok(()),
                };
                let is_over = recorded.is_err();
                let event = recorded.and(event);
                if sender.send(event).await.is_err() || is_over {
                    return;
                }
            }
        });
        Ok(told)
    }

    async fn forget(&self, before: u64) -> Result<()> {
        let ends = async { self.inner.forget(before).await.map(|()| Placed::Done) };
        self.call(LogCall::Forget { before }, ends).await.map(|_| ())
    }
}
