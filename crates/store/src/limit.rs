//! At most so many calls under way: what a service allows, or what keeps a disk from thrashing.

use tokio::sync::Semaphore;

use crate::store_by_calls;
use crate::{Call, Reply, Result, Store, StoreError};

/// Lets a bounded number of calls through to the store inside; others wait in order of coming.
pub struct Limit<S> {
    inner: S,
    permits: Semaphore,
}

impl<S: Store> Limit<S> {
    /// At most `calls_max` calls at once, and at least one.
    pub fn new(inner: S, calls_max: usize) -> Self {
        let permits = Semaphore::new(calls_max.clamp(1, Semaphore::MAX_PERMITS));
        Self { inner, permits }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| StoreError::Absent("the store is closed".into()))?;
        call.perform(&self.inner).await
    }
}

store_by_calls!(Limit);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fogbank_env::{Clock, Purpose, Randomness, SystemClock};

    use super::*;
    use crate::{Delay, Link, MemoryStore, conformance};

    #[tokio::test(start_paused = true)]
    async fn conforms_and_lets_two_through_at_a_time() {
        let clock = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(100), ..Link::instant() };
        let randomness = Randomness::repeatable(1).stream(Purpose::Workload);
        let delayed = Delay::new(MemoryStore::new(), clock.clone(), link, randomness);
        let store = Arc::new(Limit::new(delayed, 2));
        conformance::run(&store).await;
        let start = clock.now();
        let calls = (0..6).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.barrier().await })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
        assert!((300..310).contains(&((clock.now() - start) / 1_000_000)));
    }
}
