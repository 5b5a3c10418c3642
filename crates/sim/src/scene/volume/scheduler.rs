//! An adversary who schedules every message: a call may land late, and its reply be held back, so
//! that replies, and what is written, come in any order.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos, Stream};
use fogbank_store::{Call, Reply, Result, Store, store_by_calls};

use crate::scene::workload::below;

/// How messages are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// One call in so many is held; 0 for none.
    pub every: u32,
    /// For up to so long on its way, and again on the way back.
    pub most: Duration,
}

/// See the module.
pub(super) struct Scheduling<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    schedule: Schedule,
    stream: Mutex<Stream>,
}

impl<S: Store> Scheduling<S> {
    pub fn new(inner: S, clock: Arc<dyn Clock>, schedule: Schedule, stream: Stream) -> Self {
        Self { inner, clock, schedule, stream: Mutex::new(stream) }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let [there, back] = self.held();
        self.hold(there).await;
        let reply = call.perform(&self.inner).await;
        self.hold(back).await;
        reply
    }

    fn held(&self) -> [Nanos; 2] {
        let Schedule { every, most } = self.schedule;
        let stream = &mut *self.stream.lock();
        if every == 0 || below(stream, every) != 0 {
            return [0; 2];
        }
        [(); 2].map(|()| Nanos::from(below(stream, most.as_millis() as u32 + 1)) * MS)
    }

    async fn hold(&self, by: Nanos) {
        if by > 0 {
            self.clock.sleep_until(self.clock.now() + by).await;
        }
    }
}

store_by_calls!(Scheduling);

const MS: Nanos = 1_000_000;
