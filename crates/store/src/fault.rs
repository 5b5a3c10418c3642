//! A store that fails when it is told to: before a call, after it, or in its middle.
//!
//! "After" is the failure that matters most: the store has done it and the caller does not know.

use std::cmp::Ordering;

use crate::store_by_calls;
use crate::{Call, ChunkWrite, Operation, Reply, Result, Store, StoreError};
use fogbank_env::Mutex;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The store never heard of it.
    Before,
    /// The store did it, and the answer was lost.
    After,
    /// The first so many chunks of a write or a deletion, or blobs of a deletion, were done; other
    /// calls fail as [`Fault::Before`].
    Partly(usize),
    /// As [`Fault::Before`], and so does every call after it until [`Faulty::heal`].
    Down,
    /// The store never heard of it, and its operator has to allow more.
    Refused,
    /// No answer ever comes.
    Hang,
}

impl Fault {
    /// What becomes of a call of a process whose call number `last` this fault ends.
    pub fn ends_a_life(self, last: u64, number: u64) -> Option<Self> {
        match number.cmp(&last) {
            Ordering::Less => None,
            Ordering::Equal => Some(self),
            Ordering::Greater => Some(Self::Down),
        }
    }
}

/// Which calls fail, and how.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// The calls that count; all if `None`.
    pub operation: Option<Operation>,
    /// The first of them to fail, from 1.
    pub nth: u64,
    /// How many fail in a row.
    pub times: u64,
    /// How they fail.
    pub fault: Fault,
}

impl FaultRule {
    /// The `nth` call (from 1) of a kind fails once.
    pub fn nth(operation: Option<Operation>, nth: u64, fault: Fault) -> Self {
        Self { operation, nth, times: 1, fault }
    }
}

/// Decides about each call: its operation and its number, from 1.
type Hook = Box<dyn FnMut(&Call<'_>, u64) -> Option<Fault> + Send>;

/// Fails by rule; otherwise the store inside.
pub struct Faulty<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: u64,
    faults: u64,
    down: bool,
    /// Rules with the calls that each has counted.
    rules: Vec<(FaultRule, u64)>,
    hook: Option<Hook>,
}

impl<S: Store> Faulty<S> {
    /// A store that does not fail yet.
    pub fn new(inner: S) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// A store that is gone after so many calls, counted from 1; `fault` says what becomes of the
    /// last.
    pub fn dying(inner: S, last: u64, fault: Fault) -> Self {
        let faulty = Self::new(inner);
        faulty.on_call(move |_, number| fault.ends_a_life(last, number));
        faulty
    }

    /// Adds a rule, which counts from the next call on.
    pub fn add(&self, rule: FaultRule) {
        self.state.lock().rules.push((rule, 0));
    }

    /// Asks `hook` about each call that no rule fails.
    pub fn on_call(&self, hook: impl FnMut(&Call<'_>, u64) -> Option<Fault> + Send + 'static) {
        self.state.lock().hook = Some(Box::new(hook));
    }

    /// Forgets all rules and the hook; a store that was down is up again.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        *state = State { calls: state.calls, faults: state.faults, ..State::default() };
    }

    /// Calls so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Calls that failed by rule.
    pub fn faults(&self) -> u64 {
        self.state.lock().faults
    }

    /// The store inside, for a look past the failures.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let fault = self.state.lock().fault(&call);
        let failed = || Err(StoreError::Absent("a fault was injected".into()));
        match fault {
            None => call.perform(&self.inner).await,
            Some(Fault::Before | Fault::Down) => failed(),
            Some(Fault::Refused) => Err(StoreError::Refused("a quota is used up".into())),
            Some(Fault::After) => {
                call.perform(&self.inner).await?;
                failed()
            }
            Some(Fault::Partly(count)) => {
                if let Some(part) = first(call, count) {
                    part.perform(&self.inner).await?;
                }
                failed()
            }
            Some(Fault::Hang) => std::future::pending().await,
        }
    }
}

store_by_calls!(Faulty);

impl State {
    fn fault(&mut self, call: &Call<'_>) -> Option<Fault> {
        self.calls += 1;
        let mut fault = self.down.then_some(Fault::Down);
        for (rule, counted) in &mut self.rules {
            if rule.operation.is_none_or(|operation| operation == call.operation()) {
                *counted += 1;
                if *counted >= rule.nth && *counted - rule.nth < rule.times {
                    fault = fault.or(Some(rule.fault));
                }
            }
        }
        if let (None, Some(hook)) = (fault, &mut self.hook) {
            fault = hook(call, self.calls);
        }
        self.down |= fault == Some(Fault::Down);
        self.faults += u64::from(fault.is_some());
        fault
    }
}

/// The call cut to its first items, if it has any.
fn first(call: Call<'_>, count: usize) -> Option<Call<'_>> {
    match call {
        Call::WriteChunks(writes) => {
            let part: Vec<ChunkWrite> = writes.into_iter().take(count).collect();
            Some(Call::WriteChunks(part))
        }
        Call::DeleteChunks(chunks) => Some(Call::DeleteChunks(&chunks[..count.min(chunks.len())])),
        Call::BlobDelete(names) => Some(Call::BlobDelete(&names[..count.min(names.len())])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayId, ArrayShape, ChunkName, MemoryStore, conformance};

    #[tokio::test]
    async fn conforms_while_nothing_fails() {
        conformance::run(&Faulty::new(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn fails_as_told() {
        let store = Faulty::new(MemoryStore::new());
        let shape = ArrayShape { chunks: 9, cells_per_chunk: 1, cell_bytes: 1 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        let write = async |version| {
            let chunk = |chunk| ChunkName { array: ArrayId(1), chunk, version };
            let writes = (0..3).map(|c| ChunkWrite { chunk: chunk(c), data: vec![1].into() });
            let result = store.write_chunks(writes.collect()).await;
            let there = store.inner().list_chunks(ArrayId(1)).await.unwrap();
            (result.is_ok(), there.iter().filter(|name| name.version == version).count())
        };
        let writes = Some(Operation::WriteChunks);
        store.add(FaultRule::nth(writes, 2, Fault::Before));
        store.add(FaultRule::nth(writes, 3, Fault::After));
        store.add(FaultRule::nth(writes, 4, Fault::Partly(2)));
        store.add(FaultRule::nth(writes, 6, Fault::Down));
        assert_eq!(write(1).await, (true, 3));
        assert_eq!(write(2).await, (false, 0));
        assert_eq!(write(3).await, (false, 3));
        assert_eq!(write(4).await, (false, 2));
        assert_eq!(write(5).await, (true, 3));
        assert_eq!(write(6).await, (false, 0));
        assert!(store.barrier().await.is_err(), "down is down for every call");
        assert_eq!(store.faults(), 5);
        store.heal();
        assert_eq!(write(7).await, (true, 3));
        store.on_call(|call, _| (call.operation() == Operation::Barrier).then_some(Fault::After));
        assert!(store.barrier().await.is_err());
        assert_eq!(write(8).await, (true, 3));
    }
}
