//! Calls leave at points of a grid, so that the time at which one leaves does not tell how long the
//! proxy worked on it.
//!
//! What precedes a call takes longer or shorter with secrets: planning follows the stash, sealing a
//! block costs more than sealing a dummy. So a call waits for the next multiple of the quantum on the
//! clock; and a call that follows the end of another (a write after a read, a deletion after a
//! barrier) for the first multiple at least half a quantum after that end, which leaves its cause,
//! public as it is, always the same room for work. A call that missed its point, since its own task
//! was busy with something else, aims at a later one.
//!
//! Calls leave in the order in which they were made, also those that leave at one point: whoever makes
//! two at once (the windows of a batch) knows in which order the cloud has them.
//!
//! What the cloud sees: departures at multiples of the quantum. Work that outlasts its room moves a
//! departure by one or more whole quanta, which it sees; so the quantum has to be generous.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use fogbank_env::{Clock, Nanos};
use tokio::sync::Mutex;

use crate::store_by_calls;
use crate::{Call, Reply, Result, Store};

/// Lets calls through to the store inside at multiples of a quantum.
pub struct Paced<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    quantum: Nanos,
    /// When the last call that ended did so.
    ended: AtomicU64,
    /// Held by the call that leaves next; the others queue in order.
    turn: Mutex<()>,
}

impl<S: Store> Paced<S> {
    /// Lets calls leave at multiples of `quantum` on `clock`; at once if it is zero.
    pub fn new(inner: S, clock: Arc<dyn Clock>, quantum: Duration) -> Self {
        let quantum = quantum.as_nanos() as Nanos;
        Self { inner, clock, quantum, ended: AtomicU64::new(0), turn: Mutex::new(()) }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        if self.quantum == 0 {
            return call.perform(&self.inner).await;
        }
        let room_after_cause = self.ended.load(Ordering::Relaxed) + self.quantum / 2;
        let ready = self.clock.now().max(room_after_cause);
        let mut leaving = pin!(call.perform(&self.inner));
        let turn = self.turn.lock().await;
        self.arrive(ready).await;
        // It leaves with its first poll; only then is it the turn of the next.
        let left = poll_fn(|cx| match leaving.as_mut().poll(cx) {
            Poll::Ready(reply) => Poll::Ready(Some(reply)),
            Poll::Pending => Poll::Ready(None),
        });
        let at_once = left.await;
        drop(turn);
        let reply = match at_once {
            Some(reply) => reply,
            None => leaving.await,
        };
        self.ended.fetch_max(self.clock.now(), Ordering::Relaxed);
        reply
    }

    /// Sleeps until the first point from `ready` on that is met.
    async fn arrive(&self, mut ready: Nanos) {
        for _ in 0..AIMS_MAX {
            let point = ready.next_multiple_of(self.quantum);
            self.clock.arrive_at(point).await;
            // Whoever works beside this call in one task may have held it up.
            ready = self.clock.now();
            if ready <= point + self.quantum / 4 {
                break;
            }
        }
    }
}

store_by_calls!(Paced);

/// How often a call that missed its point aims at a later one: a machine that misses them all cannot
/// hide that it does.
const AIMS_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use fogbank_env::SystemClock;

    use super::*;
    use crate::{Delay, Link, MemoryStore, conformance};

    const QUANTUM: Duration = Duration::from_millis(8);

    /// Departures of three calls in a row over a link of 3 ms, each after `work` of the proxy.
    async fn departures(quantum: Duration, work_micros: [u64; 3]) -> Vec<u64> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(3), ..Link::instant() };
        let stream = fogbank_env::Randomness::repeatable(1).stream(fogbank_env::Purpose::Workload);
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (watch, at) = (seen.clone(), clock.clone());
        let far = crate::Faulty::new(Delay::new(MemoryStore::new(), clock.clone(), link, stream));
        far.on_call(move |_, _| {
            watch.lock().unwrap().push(at.now() / 1_000);
            None
        });
        let store = Paced::new(far, clock.clone(), quantum);
        for work in work_micros {
            clock.sleep_until(clock.now() + work * 1_000).await;
            store.barrier().await.unwrap();
        }
        std::mem::take(&mut seen.lock().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn work_within_its_room_is_not_seen() {
        let idle = departures(QUANTUM, [10, 0, 0]).await;
        let busy = departures(QUANTUM, [3_000, 2_000, 3_900]).await;
        assert_eq!(idle, [8_000, 16_000, 24_000]);
        assert_eq!(busy, idle);
        // The canary: without the pace the same work is plain to see.
        let bare = [[10, 0, 0], [3_000, 2_000, 3_900]].map(|w| departures(Duration::ZERO, w));
        let [idle, busy] = bare;
        assert_ne!(idle.await, busy.await);
    }

    #[tokio::test(start_paused = true)]
    async fn conforms() {
        let clock = Arc::new(SystemClock::new());
        conformance::run(&Paced::new(MemoryStore::new(), clock, QUANTUM)).await;
    }

    /// A clock that is held up at its first point, as by a task that is busy with something else.
    struct HeldUp {
        now: AtomicU64,
        by: AtomicU64,
    }

    impl Clock for HeldUp {
        fn now(&self) -> Nanos {
            self.now.load(Ordering::Relaxed)
        }

        fn wall_ms(&self) -> u64 {
            0
        }

        fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            let late = self.by.swap(0, Ordering::Relaxed);
            self.now.fetch_max(deadline + late, Ordering::Relaxed);
            Box::pin(std::future::ready(()))
        }
    }

    #[tokio::test]
    async fn a_call_that_missed_its_point_leaves_at_a_later_one() {
        // A quarter of the quantum is what a machine may be late by; a call that is not on time then
        // is on its way.
        for (late_ms, left_ms) in [(0, 8), (2, 10), (3, 16), (11, 24), (16, 24)] {
            let clock = HeldUp { now: AtomicU64::new(1), by: AtomicU64::new(late_ms * 1_000_000) };
            let clock = Arc::new(clock);
            let store = Paced::new(MemoryStore::new(), clock.clone(), QUANTUM);
            store.barrier().await.unwrap();
            assert_eq!(clock.now(), left_ms * 1_000_000, "{late_ms} ms late");
        }
    }
}
