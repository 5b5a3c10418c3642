//! What becomes of messages on their ways, counted; and a way to the store on which they take a
//! time of their own, overtake each other, and some are lost.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos, Stream, SystemClock};
use fogbank_store::{Call, Reply, Result, Store, StoreError, store_by_calls};
use rand_core::Rng;

/// Messages of some worlds, to the store, to the log and back.
#[derive(Default)]
pub struct Ways(Mutex<Count>);

#[derive(Debug, Default, Clone, Copy)]
pub struct Count {
    pub sent: u64,
    /// What all have taken.
    pub took: Nanos,
    /// Those that came after one that was sent later.
    pub overtaken: u64,
    /// Requests, answers and streams of events that went nowhere.
    pub lost: u64,
    /// The last one sent of those that have come.
    newest: u64,
}

impl Ways {
    pub fn count(&self) -> Count {
        *self.0.lock()
    }

    /// Brings a message there in so long.
    pub async fn pass(&self, clock: &SystemClock, time: Nanos) {
        let number = {
            let mut count = self.0.lock();
            count.sent += 1;
            count.took += time;
            count.sent
        };
        clock.sleep_until(clock.now() + time).await;
        let mut count = self.0.lock();
        count.overtaken += u64::from(number < count.newest);
        count.newest = number.max(count.newest);
    }

    pub fn lose(&self) {
        self.0.lock().lost += 1;
    }
}

/// See the module.
pub struct RoughWay<S> {
    inner: S,
    ways: Arc<Ways>,
    clock: SystemClock,
    dice: Mutex<Stream>,
    late: Nanos,
}

/// Of so many calls two are lost: one before it is done, and one after.
const ONE_IN: u64 = 60;

impl<S: Store> RoughWay<S> {
    /// A message takes `late` at most.
    pub fn new(inner: S, ways: Arc<Ways>, dice: Stream, late: Duration) -> Self {
        let (clock, late) = (SystemClock::new(), late.as_nanos() as Nanos);
        Self { inner, ways, clock, dice: Mutex::new(dice), late }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let [there, back, fate] = std::array::from_fn(|_| self.dice.lock().next_u64());
        let lost = || {
            self.ways.lose();
            Err(StoreError::Absent("a message was lost".into()))
        };
        self.ways.pass(&self.clock, there % self.late).await;
        if fate % ONE_IN == 0 {
            return lost();
        }
        let reply = call.perform(&self.inner).await;
        self.ways.pass(&self.clock, back % self.late).await;
        if fate % ONE_IN == 1 { lost() } else { reply }
    }
}

store_by_calls!(RoughWay);
