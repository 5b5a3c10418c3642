//! A store whose every request is in a trace before it is forwarded.
//!
//! The end is recorded too: what came back by lengths and fingerprints, a failure by blame, a
//! caller that went away. If the trace cannot be written, nothing is forwarded any more: what the
//! cloud sees and the trace does not would be invisible to the auditor.

use crate::store_by_calls;
use crate::trace::TraceWriter;
use crate::{Call, Reply, Result, Store};

/// Records all that passes to the store inside.
pub struct Recorded<S> {
    inner: S,
    trace: TraceWriter,
    cloud: u8,
    connection: u32,
}

impl<S: Store> Recorded<S> {
    /// Records what passes to `inner`, as cloud 0 and connection 0. It belongs innermost among the
    /// wrappers that repeat or change requests, so that the trace has what the cloud really sees.
    pub fn new(inner: S, trace: TraceWriter) -> Self {
        Self { inner, trace, cloud: 0, connection: 0 }
    }

    /// The same, as another of the engine's clouds.
    pub fn cloud(self, cloud: u8) -> Self {
        Self { cloud, ..self }
    }

    /// The same, as another connection.
    pub fn connection(self, connection: u32) -> Self {
        Self { connection, ..self }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let chunks = match &call {
            Call::ReadChunks(chunks) => *chunks,
            _ => &[],
        };
        let id = self.trace.sent(self.cloud, self.connection, &call)?;
        let reply = Underway { trace: &self.trace, id }.until(call.perform(&self.inner)).await;
        self.trace.done(id, self.cloud, chunks, &reply)?;
        reply
    }
}

store_by_calls!(Recorded);

/// A request whose caller may go away: then the trace says so.
pub(crate) struct Underway<'a> {
    pub trace: &'a TraceWriter,
    pub id: u64,
}

impl Underway<'_> {
    /// The end of it, if the caller stays for it.
    pub(crate) async fn until<T>(self, ends: impl Future<Output = T>) -> T {
        let ended = ends.await;
        std::mem::forget(self); // holds borrows only: nothing leaks
        ended
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let _ = self.trace.abandoned(self.id); // the next request meets a trace that failed
    }
}
