//! Calls leave at points of a grid, so that the time at which one leaves does not tell how long the
//! proxy worked on it.
//!
//! What precedes a call takes longer or shorter with secrets: planning follows the stash, sealing a
//! block costs more than sealing a dummy, handing values over follows how many there are. So a call
//! leaves at the next multiple of the quantum on the clock, and its reply is delivered half a
//! quantum between two multiples, whenever it came. Whatever follows from a reply, be it another
//! call or the choice of a later point, then has the same room for work, half a quantum, and no
//! reply that comes at a moment of the cloud's choosing shortens it. A call that missed its point,
//! since its own task was busy with something else, aims at a later one.
//!
//! Where more has to be done than fits, points are let pass, a public number of them counted from
//! the last reply ([`Store::let_points_pass`]).
//!
//! Calls leave in the order in which they were made, also those that leave at one point: whoever
//! makes two at once (the windows of a batch) knows in which order the cloud has them.
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
pub struct OrderedGridStore<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    quantum: Nanos,
    /// Held by the call that leaves next; the others queue in order.
    turn: Mutex<()>,
    /// When the last reply was to be delivered.
    delivered: AtomicU64,
    /// No call leaves before.
    earliest: AtomicU64,
}

impl<S: Store> OrderedGridStore<S> {
    /// Lets calls leave at multiples of `quantum` on `clock`; at once if it is zero.
    pub fn new(inner: S, clock: Arc<dyn Clock>, quantum: Duration) -> Self {
        let quantum = quantum.as_nanos() as Nanos;
        let (delivered, earliest) = Default::default();
        Self { inner, clock, quantum, turn: Mutex::new(()), delivered, earliest }
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        if self.quantum == 0 {
            return call.perform(&self.inner).await;
        }
        let ready = self.clock.now().max(self.earliest.load(Ordering::Relaxed));
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
        let delivery = delivery_time(self.clock.now(), self.quantum);
        self.delivered.fetch_max(delivery, Ordering::Relaxed);
        self.clock.come_near(delivery).await;
        reply
    }

    /// Counted from when the last reply was to be delivered: whoever is woken late loses nothing.
    fn pass(&self, points: u32) {
        if self.quantum > 0 && points > 0 {
            let next = self.delivered.load(Ordering::Relaxed).next_multiple_of(self.quantum);
            let last = next + u64::from(points - 1) * self.quantum;
            self.earliest.store(last + 1, Ordering::Relaxed);
        }
    }

    /// Waits until the calls made so far have left, and until the middle between that point and the
    /// next: who makes the next call then has as much room as after a reply.
    async fn left(&self) {
        if self.quantum > 0 {
            drop(self.turn.lock().await);
            self.clock.come_near(delivery_time(self.clock.now(), self.quantum)).await;
        }
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

store_by_calls!(OrderedGridStore, left, pass);

/// When a reply that comes at `at` is delivered: in the middle between two multiples of `quantum`.
pub(crate) fn delivery_time(at: Nanos, quantum: Nanos) -> Nanos {
    let half = quantum / 2;
    (at + half).next_multiple_of(quantum.max(1)) - half
}

/// How often a call that missed its point aims at a later one: a machine that misses them all
/// cannot hide that it does.
pub(crate) const AIMS_MAX: u32 = 8;

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
        let seen = Arc::new(fogbank_env::Mutex::new(Vec::new()));
        let (watch, at) = (seen.clone(), clock.clone());
        let far = crate::Faulty::new(Delay::new(MemoryStore::new(), clock.clone(), link, stream));
        far.on_call(move |_, _| {
            watch.lock().push(at.now() / 1_000);
            None
        });
        let store = OrderedGridStore::new(far, clock.clone(), quantum);
        for work in work_micros {
            clock.sleep_until(clock.now() + work * 1_000).await;
            store.barrier().await.unwrap();
        }
        std::mem::take(&mut seen.lock())
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

    /// Points that are to pass are counted from the reply, however late who asks for it is.
    #[tokio::test(start_paused = true)]
    async fn points_pass_before_a_call() {
        for (late_ms, points, left_ms) in
            [(0, 0, 16), (0, 1, 24), (3, 1, 24), (11, 1, 24), (12, 1, 24), (13, 1, 32), (0, 2, 32)]
        {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let (seen, at) = (Arc::new(AtomicU64::new(0)), clock.clone());
            let (far, last) = (crate::Faulty::new(MemoryStore::new()), seen.clone());
            far.on_call(move |_, _| {
                last.store(at.now() / 1_000_000, Ordering::Relaxed);
                None
            });
            let store = OrderedGridStore::new(far, clock.clone(), QUANTUM);
            clock.sleep_until(1_000_000).await;
            store.barrier().await.unwrap(); // it leaves at 8 ms and is delivered at 12
            clock.sleep_until(clock.now() + late_ms * 1_000_000).await;
            store.let_points_pass(points);
            store.barrier().await.unwrap();
            assert_eq!(seen.load(Ordering::Relaxed), left_ms, "{late_ms} ms late, {points} points");
        }
    }

    /// A cloud that answers one call a moment after another, to see which reply took longer to work
    /// on.
    #[tokio::test(start_paused = true)]
    async fn a_reply_beside_another_does_not_shorten_its_room() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let seen = Arc::new(fogbank_env::Mutex::new(Vec::new()));
        let (watch, at) = (seen.clone(), clock.clone());
        let far = crate::Faulty::new(Late { inner: MemoryStore::new(), clock: clock.clone() });
        far.on_call(move |_, _| {
            watch.lock().push(at.now() / 1_000_000);
            None
        });
        let store = Arc::new(OrderedGridStore::new(far, clock.clone(), QUANTUM));
        for work_ms in [0, 1, 2, 3] {
            clock.sleep_until(clock.now().next_multiple_of(80_000_000)).await;
            seen.lock().clear();
            let start = clock.now() / 1_000_000;
            let other = store.clone();
            let other = tokio::spawn(async move { other.blob_get("slow").await });
            tokio::task::yield_now().await;
            store.barrier().await.unwrap();
            clock.sleep_until(clock.now() + work_ms * 1_000_000).await;
            store.barrier().await.unwrap();
            other.await.unwrap().unwrap();
            let left: Vec<u64> = seen.lock().iter().map(|at| at - start).collect();
            assert_eq!(left, [0, 0, 8], "{work_ms}");
        }
    }

    /// Answers gets after 5 ms, anything else after 3.
    struct Late<S> {
        inner: S,
        clock: Arc<dyn Clock>,
    }

    impl<S: Store> Late<S> {
        async fn call(&self, call: Call<'_>) -> Result<Reply> {
            let ms = if matches!(call, Call::BlobGet(_)) { 5 } else { 3 };
            self.clock.sleep_until(self.clock.now() + ms * 1_000_000).await;
            call.perform(&self.inner).await
        }
    }

    store_by_calls!(Late);

    #[tokio::test(start_paused = true)]
    async fn conforms() {
        let clock = Arc::new(SystemClock::new());
        conformance::run(&OrderedGridStore::new(MemoryStore::new(), clock, QUANTUM)).await;
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
        // A quarter of the quantum is what a machine may be late by; a call that is not on time
        // then is on its way.
        for (late_ms, left_ms) in [(0, 8), (2, 10), (3, 16), (11, 24), (16, 24)] {
            let clock = HeldUp { now: AtomicU64::new(1), by: AtomicU64::new(late_ms * 1_000_000) };
            let clock = Arc::new(clock);
            let (left, at) = (Arc::new(AtomicU64::new(0)), clock.clone());
            let (far, seen) = (crate::Faulty::new(MemoryStore::new()), left.clone());
            far.on_call(move |_, _| {
                seen.store(at.now(), Ordering::Relaxed);
                None
            });
            let store = OrderedGridStore::new(far, clock.clone(), QUANTUM);
            store.barrier().await.unwrap();
            assert_eq!(left.load(Ordering::Relaxed), left_ms * 1_000_000, "{late_ms} ms late");
        }
    }
}
