//! Tries again, blindly and identically, when the store was absent.
//!
//! Identical, because another request would be another thing for the cloud to see: a read that is
//! repeated shows what the first try already showed. When to try is a fixed schedule, a function of
//! the clock and of the failures, which the cloud knows. Only absence is tried again: a store that
//! misbehaved or a caller that erred would do so again.
//!
//! All calls may be done twice without harm but one: a conditional put whose first try was done and
//! whose answer was lost finds its own blob in the way. So when a repeated conditional put fails
//! its condition, the blob is read, and if it is ours the put was done. That takes blobs that no
//! two writers would put alike, which those for commit and fencing are: they bear a fresh salt.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::Clock;

use crate::store_by_calls;
use crate::{Absences, Call, PutCondition, PutOutcome, Reply, Result, Store, StoreError};

/// When to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrySchedule {
    /// How long to wait after each failed try; when they are used up, the failure stands.
    pub waits: Vec<Duration>,
}

impl Default for RetrySchedule {
    /// Six tries within about six seconds.
    fn default() -> Self {
        Self { waits: [100, 300, 900, 1800, 3000].map(Duration::from_millis).to_vec() }
    }
}

/// Repeats calls that the store inside did not answer.
pub struct Retry<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    schedule: RetrySchedule,
    absences: Arc<Absences>,
}

impl<S: Store> Retry<S> {
    /// Repeats the calls to `inner` by `schedule`.
    pub fn new(inner: S, clock: Arc<dyn Clock>, schedule: RetrySchedule) -> Self {
        let absences = Arc::new(Absences::new("the cloud"));
        Self { inner, clock, schedule, absences }
    }

    /// The same; absences are told with those of others at the same cloud.
    pub fn telling(self, absences: Arc<Absences>) -> Self {
        Self { absences, ..self }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match self.attempt(call.clone()).await {
            (Ok(Reply::Put(PutOutcome::ConditionFailed)), true) => {
                let outcome = match call {
                    Call::BlobPut(name, data, condition) => {
                        self.was_it_us(name, &data, &condition).await?
                    }
                    _ => PutOutcome::ConditionFailed,
                };
                Ok(Reply::Put(outcome))
            }
            (reply, _) => reply,
        }
    }

    /// The reply of the last try, and whether it was not the first.
    async fn attempt(&self, call: Call<'_>) -> (Result<Reply>, bool) {
        let mut repeated = false;
        for wait in &self.schedule.waits {
            let began = self.clock.now();
            match self.told(call.clone()).await {
                Err(StoreError::Absent(reason)) => {
                    let (during, what) = ((began, self.clock.now()), call.operation());
                    self.absences.failed(during, &format!("{what:?}"), &reason);
                }
                reply => return (reply, repeated),
            }
            let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            self.clock.sleep_until(self.clock.now().saturating_add(wait)).await;
            repeated = true;
        }
        (self.told(call).await, repeated)
    }

    /// One try; an answer is told.
    async fn told(&self, call: Call<'_>) -> Result<Reply> {
        let reply = call.perform(&self.inner).await;
        if !matches!(reply, Err(StoreError::Absent(_))) {
            self.absences.answered(self.clock.now());
        }
        reply
    }

    async fn was_it_us(
        &self,
        name: &str,
        data: &Bytes,
        condition: &PutCondition,
    ) -> Result<PutOutcome> {
        let there = self.attempt(Call::BlobGet(name)).await.0?.blob()?;
        Ok(condition.settled(there, data))
    }
}

store_by_calls!(Retry);

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;
    use crate::{
        ArrayId, ArrayShape, ChunkName, ChunkWrite, Fault, FaultRule, Faulty, MemoryStore,
        Operation, conformance,
    };

    fn retrying() -> Retry<Faulty<MemoryStore>> {
        let faulty = Faulty::new(MemoryStore::new());
        Retry::new(faulty, Arc::new(SystemClock::new()), RetrySchedule::default())
    }

    #[tokio::test(start_paused = true)]
    async fn conforms_though_every_other_call_fails() {
        for fault in [Fault::Before, Fault::After] {
            let store = retrying();
            store.inner.on_call(move |_, number| (number % 2 == 1).then_some(fault));
            conformance::run(&store).await;
            assert!(store.inner.faults() > 100);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_put_whose_answer_was_lost_is_known_by_its_bytes() {
        let store = retrying();
        let put = Some(Operation::BlobPut);
        store.inner.add(FaultRule::nth(put, 1, Fault::After));
        let ours = store.blob_put("fence", "ours".into(), PutCondition::IfAbsent).await.unwrap();
        assert!(matches!(ours, PutOutcome::Done(_)));
        store.inner.add(FaultRule::nth(put, 1, Fault::Before));
        let theirs = store.blob_put("fence", "late".into(), PutCondition::IfAbsent).await.unwrap();
        assert_eq!(theirs, PutOutcome::ConditionFailed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_done_in_part_is_completed() {
        let store = retrying();
        let shape = ArrayShape { chunks: 9, cells_per_chunk: 1, cell_bytes: 1 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        store.inner.add(FaultRule::nth(Some(Operation::WriteChunks), 1, Fault::Partly(4)));
        let name = |chunk| ChunkName { array: ArrayId(1), chunk, version: 1 };
        let writes = (0..9).map(|c| ChunkWrite { chunk: name(c), data: vec![c as u8].into() });
        store.write_chunks(writes.collect()).await.unwrap();
        assert_eq!(store.list_chunks(ArrayId(1)).await.unwrap().len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_by_schedule() {
        let store = retrying();
        let start = store.clock.now();
        store.inner.add(FaultRule::nth(None, 1, Fault::Down));
        assert!(matches!(store.barrier().await, Err(StoreError::Absent(_))));
        assert_eq!(store.inner.calls(), 6);
        assert!((6100..6110).contains(&((store.clock.now() - start) / 1_000_000)));
    }
}
