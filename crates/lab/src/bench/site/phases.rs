//! What a query waits for, as the calls of its client show it, which has one under way.
//!
//! Its entry is appended and heard; its cells are asked for, which waits for a superblock where it
//! is missing; they come; what was found is published. The rest of its time it waits for the
//! results of places before its own, and for points of the grid.

use std::sync::Arc;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos};
use fogbank_oram::hierarchy::level_of;
use fogbank_store::{Call, ChunkWrite, Operation, Reply, Store, StoreError, store_by_calls};

/// The phases that are told apart, in their order.
pub const NAMES: [&str; 4] = ["to be heard", "to touch", "to be touched", "to publish"];

/// The times of one client's queries, or of several clients'.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// By phase, of all queries together.
    pub nanos: [Nanos; NAMES.len()],
    /// Queries.
    pub count: u64,
}

impl Times {
    /// Those since `before`.
    pub fn since(self, before: Self) -> Self {
        let nanos = std::array::from_fn(|at| self.nanos[at] - before.nanos[at]);
        Self { nanos, count: self.count - before.count }
    }

    /// Those of another client, too.
    pub fn and(self, other: Self) -> Self {
        let nanos = std::array::from_fn(|at| self.nanos[at] + other.nanos[at]);
        Self { nanos, count: self.count + other.count }
    }
}

/// Notes when a client does what.
pub struct Phases {
    clock: Arc<dyn Clock>,
    state: Mutex<(Vec<Nanos>, Bytes, Times)>,
}

impl Phases {
    /// Of a client that has done nothing yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default() }
    }

    /// So far.
    pub fn times(&self) -> Times {
        self.state.lock().2
    }

    /// An entry leaves.
    pub fn appends(&self, entry: &Bytes) {
        let (mut state, now) = (self.state.lock(), self.clock.now());
        (state.0, state.1) = (vec![now], entry.clone());
    }

    /// An entry is heard.
    pub fn hears(&self, entry: &Bytes) {
        if self.state.lock().1 == *entry {
            self.comes(1);
        }
    }

    /// The result of a place leaves.
    pub fn publishes(&self) {
        self.comes(NAMES.len());
    }

    /// What is number `at` of a query comes, if those before it have.
    fn comes(&self, at: usize) {
        let (moments, _, times) = &mut *self.state.lock();
        if moments.len() != at {
            return;
        }
        moments.push(self.clock.now()); // under the lock, so that none is before another
        if at == NAMES.len() {
            for (sum, pair) in times.nanos.iter_mut().zip(moments.windows(2)) {
                *sum += pair[1] - pair[0];
            }
            times.count += 1;
            moments.clear();
        }
    }
}

/// A store that notes when cells are touched, and how much is written for one level.
pub struct Timed<S> {
    inner: S,
    phases: Arc<Phases>,
    level: u8,
    written: AtomicU64,
}

impl<S: Store> Timed<S> {
    /// Notes the first in `phases`, the second of this level.
    pub fn new(inner: S, phases: Arc<Phases>, level: u8) -> Self {
        Self { inner, phases, level, written: AtomicU64::new(0) }
    }

    /// Bytes that were written for tables of the level, and for what becomes of them.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        let touches = call.operation() == Operation::ReadCells;
        if touches {
            self.phases.comes(2);
        }
        if let Call::WriteChunks(writes) = &call {
            let is_its = |write: &&ChunkWrite| level_of(write.chunk.array) == self.level;
            let bytes = writes.iter().filter(is_its).map(|write| write.data.len() as u64).sum();
            self.written.fetch_add(bytes, Ordering::Relaxed);
        }
        let reply = call.perform(&self.inner).await;
        if touches {
            self.phases.comes(3);
        }
        reply
    }
}

store_by_calls!(Timed);
