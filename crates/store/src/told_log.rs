//! A query log whose absence is told, and that it is back ([`Absences`]).

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Clock;

use crate::{Absences, Log, LogEntry, LogEvents, Result, StoreError};

/// Tells when the log inside does not answer.
pub struct ToldLog<L> {
    inner: L,
    clock: Arc<dyn Clock>,
    absences: Arc<Absences>,
}

impl<L: Log> ToldLog<L> {
    /// Tells of `inner` by `absences`.
    pub fn new(inner: L, clock: Arc<dyn Clock>, absences: Arc<Absences>) -> Self {
        Self { inner, clock, absences }
    }

    async fn told<T>(&self, what: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let began = self.clock.now();
        let answer = call.await;
        let now = self.clock.now();
        match &answer {
            Err(StoreError::Absent(why)) => self.absences.failed((began, now), what, why),
            _ => self.absences.answered(now),
        }
        answer
    }
}

#[async_trait]
impl<L: Log> Log for ToldLog<L> {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        self.told("Append", self.inner.append(entry)).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        self.told("Publish", self.inner.publish(place, result)).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        self.told("Follow", self.inner.follow(from)).await
    }

    async fn forget(&self, before: u64) -> Result<()> {
        self.told("Forget", self.inner.forget(before)).await
    }
}
