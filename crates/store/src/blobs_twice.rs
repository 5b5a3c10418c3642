//! Two stores with the same blobs, so that either of them is enough when the other is lost.
//!
//! For what lies on the trusted disk and nowhere else: a second place for it, on another disk.
//!
//! 1. Whoever opens reads the first alone. Nothing is changed while he does not know yet whether
//!    what he reads is whole and the newest.
//! 2. Before the first change the second is *levelled*: it gets what it lacks and, if it was away
//!    for a while, what it has otherwise. What it has beyond the first stays where it is, for if
//!    the first turns out to be damaged it may be needed.
//! 3. A put goes to both at once, and is done when both have it. A deletion likewise.
//! 4. When what was opened has turned out to be whole, what the second has beyond is deleted
//!    ([`BlobsTwice::settle`]).
//!
//! # Invariants
//!
//! - What was acknowledged is durable in both.
//! - After levelling no name stands for one content in the first and for another in the second: a
//!   name that the second has beyond the first is deleted there before it is put. So what either
//!   holds is what one store may hold after a stop, with what was not acknowledged there or not.
//! - Nothing is deleted in the second before it is known that the first does without it.
//!
//! # What a stop between two writes leaves
//!
//! The first has it: it counts, and levelling brings it to the second. Only the second has it: it
//! was not acknowledged; whoever goes on from the first has never heard of it, and whoever goes on
//! from the second takes it as if the answer had been lost.
//!
//! Which of both failed is told by name ([`StoreError::Near`] of the second). Arrays lie in the
//! first alone. One process at a time uses both, which is for its caller to see to.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, MutexGuard};

use crate::{Call, PutCondition, PutOutcome, Reply, Result, Store, StoreError, store_by_calls};

/// See the module.
pub struct BlobsTwice<S> {
    inner: S,
    second: Arc<dyn Store>,
    /// What the second is called where something is told of it.
    place: String,
    /// Whether names that both have may stand for different contents.
    was_apart: bool,
    /// What the second has beyond the first; `None` until it is levelled.
    beyond: Mutex<Option<BTreeSet<String>>>,
}

impl<S: Store> BlobsTwice<S> {
    /// `inner` and the `second`, which is called by its `place`.
    pub fn new(inner: S, second: Arc<dyn Store>, place: String) -> Self {
        Self { inner, second, place, was_apart: false, beyond: Mutex::default() }
    }

    /// The same, of a second that is new, or was not written for a while: all that both have is
    /// read once and held against each other.
    pub fn after_a_while(self) -> Self {
        Self { was_apart: true, ..self }
    }

    /// Gives the second what it lacks, unless that was done: for whoever changes something beside
    /// both that must not be ahead of either.
    ///
    /// # Errors
    /// As of the stores.
    pub async fn level(&self) -> Result<()> {
        self.levelled().await.map(drop)
    }

    /// Deletes what the second has beyond the first: for whoever has read all that he needs.
    ///
    /// # Errors
    /// As of the stores.
    pub async fn settle(&self) -> Result<()> {
        let mut beyond = self.levelled().await?;
        let Some(names) = beyond.take() else { return Ok(()) };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if !names.is_empty() {
            self.second.blob_delete(&names).await.map_err(|e| self.of_second(e))?;
        }
        *beyond = Some(BTreeSet::new());
        Ok(())
    }

    /// Gives the second what it lacks, once; what it has beyond.
    async fn levelled(&self) -> Result<MutexGuard<'_, Option<BTreeSet<String>>>> {
        let mut beyond = self.beyond.lock().await;
        if beyond.is_none() {
            let first = BTreeSet::from_iter(self.inner.blob_list("").await?);
            let second = self.second.blob_list("").await.map_err(|e| self.of_second(e))?;
            let second = BTreeSet::from_iter(second);
            let to_look_at = first.iter().filter(|name| self.was_apart || !second.contains(*name));
            for name in to_look_at {
                let Some((data, _)) = self.inner.blob_get(name).await? else { continue };
                if second.contains(name) && self.is_in_second(name, &data).await {
                    continue;
                }
                let put = self.second.blob_put(name, data, PutCondition::Always).await;
                put.map_err(|e| self.of_second(e))?;
            }
            *beyond = Some(second.difference(&first).cloned().collect());
        }
        Ok(beyond)
    }

    /// Whether the second has it as the first has it. What cannot be read there is put anew.
    async fn is_in_second(&self, name: &str, data: &Bytes) -> bool {
        let there = self.second.blob_get(name).await;
        there.is_ok_and(|there| there.is_some_and(|(there, _)| there == *data))
    }

    /// Puts in both at once. They may lie on different disks, and files are written by whichever
    /// thread asks: so the second has one of its own.
    async fn put(&self, name: &str, data: Bytes, condition: PutCondition) -> Result<PutOutcome> {
        let mut beyond = self.levelled().await?;
        if beyond.as_ref().is_some_and(|names| names.contains(name)) {
            self.second.blob_delete(&[name]).await.map_err(|e| self.of_second(e))?;
            beyond.as_mut().map(|names| names.remove(name));
        }
        drop(beyond);
        // A tag is of one store, so the first decides; what it has taken the second has to take.
        if let PutCondition::IfUnchanged(_) = condition {
            let outcome = self.inner.blob_put(name, data.clone(), condition).await?;
            if let PutOutcome::Done(_) = outcome {
                let put = self.second.blob_put(name, data, PutCondition::Always).await;
                put.map_err(|e| self.of_second(e))?;
            }
            return Ok(outcome);
        }
        let (second, named, copy) = (self.second.clone(), name.to_owned(), data.clone());
        let of_second = condition.clone();
        let beside = async move { second.blob_put(&named, copy, of_second).await };
        let beside = tokio::spawn(beside);
        let first = self.inner.blob_put(name, data, condition).await;
        let second = beside.await.unwrap_or_else(|e| Err(StoreError::Absent(e.to_string())));
        let (first, second) = (first?, second.map_err(|e| self.of_second(e))?);
        match (&first, second) {
            (PutOutcome::Done(_), PutOutcome::ConditionFailed)
            | (PutOutcome::ConditionFailed, PutOutcome::Done(_)) => Err(StoreError::Near(format!(
                "{} has another {name} than the first place: something else writes there; \
                     stop it, and start again",
                self.place
            ))),
            _ => Ok(first),
        }
    }

    async fn delete(&self, names: &[&str]) -> Result<()> {
        drop(self.levelled().await?);
        self.inner.blob_delete(names).await?;
        self.second.blob_delete(names).await.map_err(|e| self.of_second(e))
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match call {
            Call::BlobPut(name, data, condition) => {
                Ok(Reply::Put(self.put(name, data, condition).await?))
            }
            Call::BlobDelete(names) => self.delete(names).await.map(|()| Reply::Done),
            Call::Barrier => {
                self.inner.barrier().await?;
                self.second.barrier().await.map_err(|e| self.of_second(e))?;
                Ok(Reply::Done)
            }
            other => other.perform(&self.inner).await,
        }
    }

    fn of_second(&self, error: StoreError) -> StoreError {
        StoreError::Near(format!(
            "{}: {error}; see that this disk is there, has room and lets this user write, and \
             start again",
            self.place
        ))
    }
}

store_by_calls!(BlobsTwice);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Faulty, MemoryStore, Operation, conformance};

    type Stores = [Arc<Faulty<Arc<MemoryStore>>>; 2];

    fn stores() -> Stores {
        [0, 1].map(|_| Arc::new(Faulty::new(Arc::new(MemoryStore::new()))))
    }

    /// As whoever opens both, after any stop.
    fn opened(stores: &Stores) -> BlobsTwice<Arc<Faulty<Arc<MemoryStore>>>> {
        BlobsTwice::new(stores[0].clone(), stores[1].clone(), "the second place".into())
    }

    async fn put(store: &dyn Store, name: &str, data: &str) -> Result<PutOutcome> {
        store.blob_put(name, data.to_owned().into(), PutCondition::IfAbsent).await
    }

    async fn held(store: &dyn Store) -> Vec<(String, Bytes)> {
        let mut held = Vec::new();
        for name in store.blob_list("").await.unwrap() {
            let data = store.blob_get(&name).await.unwrap().unwrap().0;
            held.push((name, data));
        }
        held
    }

    fn names(held: &[(String, Bytes)]) -> Vec<&str> {
        held.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[tokio::test]
    async fn conforms_and_both_hold_the_same() {
        let stores = stores();
        let twice = opened(&stores);
        conformance::run(&twice).await;
        twice.settle().await.unwrap();
        assert_eq!(held(&*stores[0]).await, held(&*stores[1]).await);
    }

    /// Whichever of two writes a stop leaves out, what was acknowledged is in both, and after the
    /// next opening both are the same.
    #[tokio::test]
    async fn a_stop_between_two_writes_loses_nothing_acknowledged() {
        for lacks in [0, 1] {
            let stores = stores();
            let twice = opened(&stores);
            put(&twice, "a", "1").await.unwrap();
            stores[lacks].on_call(|call, _| {
                (call.operation() == Operation::BlobPut).then_some(Fault::Before)
            });
            assert!(put(&twice, "b", "2").await.is_err(), "not acknowledged");
            drop(twice);
            stores[lacks].on_call(|_, _| None);
            let [first, second] = [held(&*stores[0]).await, held(&*stores[1]).await];
            assert_eq!(names(if lacks == 0 { &first } else { &second }), ["a"]);
            assert_eq!(names(if lacks == 0 { &second } else { &first }), ["a", "b"]);
            // Read as the first has it, whatever the second has.
            let twice = opened(&stores);
            assert_eq!(held(&twice).await, first);
            assert_eq!(held(&*stores[1]).await, second, "nobody who reads changes anything");
            // It is put otherwise by whoever never heard of it.
            let next = if lacks == 0 { "b" } else { "c" };
            put(&twice, next, "3").await.unwrap();
            twice.settle().await.unwrap();
            let both = [held(&*stores[0]).await, held(&*stores[1]).await];
            assert_eq!(both[0], both[1], "{lacks}");
            assert_eq!(
                names(&both[0]),
                if lacks == 0 { vec!["a", "b"] } else { vec!["a", "b", "c"] }
            );
            assert_eq!(both[1][1].1, if lacks == 0 { "3" } else { "2" });
        }
    }

    /// A first one that has lost something does not take the second one with it.
    #[tokio::test]
    async fn what_the_first_has_lost_stays_in_the_second_until_all_was_read() {
        let stores = stores();
        let twice = opened(&stores);
        for name in ["a", "b"] {
            put(&twice, name, name).await.unwrap();
        }
        stores[0].blob_delete(&["a"]).await.unwrap();
        let twice = opened(&stores);
        put(&twice, "c", "c").await.unwrap();
        twice.blob_delete(&["b"]).await.unwrap();
        assert_eq!(names(&held(&*stores[1]).await), ["a", "c"]);
        twice.settle().await.unwrap();
        assert_eq!(names(&held(&*stores[1]).await), ["c"]);
    }

    /// Either that fails is told, and the second by its name.
    #[tokio::test]
    async fn whichever_fails_nothing_is_done_and_it_is_named() {
        for fails in [0, 1] {
            let stores = stores();
            let twice = opened(&stores);
            put(&twice, "a", "1").await.unwrap();
            stores[fails].on_call(|_, _| Some(Fault::Before));
            let told = [
                put(&twice, "b", "2").await.err(),
                twice.blob_delete(&["a"]).await.err(),
                twice.barrier().await.err(),
            ];
            for told in told {
                let is_of_second =
                    matches!(&told, Some(StoreError::Near(why)) if why.contains("second place"));
                assert_eq!(is_of_second, fails == 1, "{told:?}");
                assert!(told.is_some());
            }
        }
    }

    /// The first went on alone meanwhile, and has put another thing where a stop had left one.
    #[tokio::test]
    async fn a_second_that_was_away_is_held_against_the_first() {
        for was_apart in [false, true] {
            let stores = stores();
            for (store, data) in stores.iter().zip(["first", "second"]) {
                put(&**store, "a", data).await.unwrap();
            }
            let twice = opened(&stores);
            let twice = if was_apart { twice.after_a_while() } else { twice };
            twice.level().await.unwrap();
            let is_same = held(&*stores[0]).await == held(&*stores[1]).await;
            assert_eq!(is_same, was_apart);
        }
    }

    /// Two that hold different things under one name are no two copies.
    #[tokio::test]
    async fn a_second_that_somebody_else_writes_is_told() {
        let stores = stores();
        let twice = opened(&stores);
        put(&twice, "a", "1").await.unwrap();
        put(&*stores[1], "b", "theirs").await.unwrap();
        let told = put(&twice, "b", "2").await.unwrap_err();
        assert!(matches!(&told, StoreError::Near(why) if why.contains("another b")), "{told:?}");
    }
}
