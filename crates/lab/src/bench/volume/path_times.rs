//! How long paths take: from asking for one to its reply, the link between included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_env::Clock;
use fogbank_store::{Call, Operation, Reply, Store, StoreError, store_by_calls};

/// A store that times the paths read from it.
pub struct PathTimes<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    paths: AtomicU64,
    nanos: AtomicU64,
}

/// Paths that came back so far, and how long they took, all in all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fetched {
    /// Paths.
    pub paths: u64,
    /// Nanoseconds.
    pub nanos: u64,
}

impl Fetched {
    /// The milliseconds of one, of those since `before`.
    pub fn ms_since(self, before: Fetched) -> f64 {
        (self.nanos - before.nanos) as f64 / (self.paths - before.paths).max(1) as f64 / 1e6
    }
}

impl<S: Store> PathTimes<S> {
    /// Times what is read from `inner`.
    pub fn new(inner: S, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock, paths: 0.into(), nanos: 0.into() }
    }

    /// What has come back so far.
    pub fn fetched(&self) -> Fetched {
        let [paths, nanos] = [&self.paths, &self.nanos].map(|count| count.load(Ordering::Relaxed));
        Fetched { paths, nanos }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        if call.operation() != Operation::ReadChunks {
            return call.perform(&self.inner).await;
        }
        let asked = self.clock.now();
        let reply = call.perform(&self.inner).await?;
        self.nanos.fetch_add(self.clock.now() - asked, Ordering::Relaxed);
        self.paths.fetch_add(1, Ordering::Relaxed);
        Ok(reply)
    }
}

store_by_calls!(PathTimes);
