//! A grid of points in time that many wait for: when something may leave, and when what has come
//! may be looked at.
//!
//! For whoever has many messages under way and cannot make each wait for its own turn, as
//! [`crate::OrderedGridStore`] does.
//!
//! - Departures are at multiples of the quantum.
//! - What comes is delivered in the middle between two of them. So the work that follows has half a
//!   quantum of room (see there).
//! - One timer runs for a point, however many wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos};
use tokio::sync::Notify;

use crate::ordered_grid_store::{AIMS_MAX, delivery_time};
use crate::store_by_calls;
use crate::{Call, Reply, Result, Store};

/// See the module. All clones are one.
#[derive(Clone)]
pub struct DepartureGrid {
    clock: Arc<dyn Clock>,
    quantum: Nanos,
    waiting: Arc<Mutex<BTreeMap<Nanos, Arc<Notify>>>>,
}

impl DepartureGrid {
    /// The multiples of `quantum` on `clock`; nobody waits if it is zero.
    pub fn new(clock: Arc<dyn Clock>, quantum: Duration) -> Self {
        Self { clock, quantum: quantum.as_nanos() as Nanos, waiting: Arc::default() }
    }

    /// From one point to the next; zero if nobody waits.
    pub fn quantum(&self) -> Nanos {
        self.quantum
    }

    /// The time, to note when something came.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// The last point that has passed.
    pub fn last_point(&self) -> Nanos {
        let now = self.clock.now();
        now - now.checked_rem(self.quantum).unwrap_or(0)
    }

    /// Waits for the next point at which something may leave, and returns it. What is done at a
    /// point takes time, so what it brings about leaves at the next one.
    pub async fn departure(&self) -> Nanos {
        let now = self.clock.now();
        let passed = now.checked_div(self.quantum);
        let point = passed.map_or(now, |passed| (passed + 1) * self.quantum);
        self.wait_for(point).await;
        point
    }

    /// Waits for the next point that can be used, and returns it with what `ready` returns. `ready`
    /// is done at the point, shortly before something leaves. Whoever is woken late, or had to wait
    /// for something else since, aims at a later point.
    pub async fn next_usable_point<T>(&self, mut ready: impl FnMut() -> T) -> (Nanos, T) {
        let aims = if self.quantum == 0 { 1 } else { AIMS_MAX };
        for _ in 1..aims {
            let point = self.departure().await;
            let done = ready();
            if self.clock.now() <= point + self.quantum / 4 {
                return (point, done);
            }
        }
        (self.departure().await, ready())
    }

    /// Waits for a point of the caller's, as little longer as the machine can manage.
    pub async fn come(&self, point: Nanos) {
        self.clock.arrive_at(point).await;
    }

    /// Waits until about a point of the caller's, without keeping a core.
    pub async fn come_near(&self, point: Nanos) {
        self.clock.come_near(point).await;
    }

    /// Waits until `point` is the next one; not at all if it is, has passed, or there is none.
    pub async fn wait_until_before(&self, point: Option<Nanos>) {
        let Some(between) = point.map(|point| point.saturating_sub(self.quantum / 2)) else {
            return;
        };
        if between > self.clock.now() {
            self.wait_for(between).await;
        }
    }

    /// Waits until what came at `at` may be looked at, and returns when that is.
    pub async fn wait_for_delivery(&self, at: Nanos) -> Nanos {
        let point = self.delivery_time(at);
        self.wait_for(point).await;
        point
    }

    /// When what came at `at` may be looked at.
    pub fn delivery_time(&self, at: Nanos) -> Nanos {
        if self.quantum == 0 { at } else { delivery_time(at, self.quantum) }
    }

    async fn wait_for(&self, point: Nanos) {
        if self.quantum == 0 {
            return;
        }
        let come = {
            let mut waiting = self.waiting.lock();
            let point_comes = waiting.entry(point).or_insert_with(|| self.begin(point));
            point_comes.clone().notified_owned()
        };
        come.await;
    }

    /// A timer for a point that nobody has waited for so far. It runs by itself: whoever was first
    /// may be given up.
    fn begin(&self, point: Nanos) -> Arc<Notify> {
        let (clock, waiting) = (self.clock.clone(), self.waiting.clone());
        tokio::spawn(async move {
            clock.come_near(point).await;
            let come = waiting.lock().remove(&point);
            come.iter().for_each(|come| come.notify_waiters());
        });
        Arc::default()
    }
}

/// A store whose calls leave and whose replies are delivered by a [`DepartureGrid`], however many
/// are under way.
pub struct GridStore<S> {
    inner: S,
    grid: DepartureGrid,
}

impl<S: Store> GridStore<S> {
    /// Puts `inner` behind `grid`.
    pub fn new(inner: S, grid: DepartureGrid) -> Self {
        Self { inner, grid }
    }

    /// Calls made so far leave at the next point.
    async fn left(&self) {
        let (point, ()) = self.grid.next_usable_point(|| ()).await;
        self.grid.wait_for_delivery(point).await;
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        self.grid.next_usable_point(|| ()).await;
        let reply = call.perform(&self.inner).await;
        self.grid.wait_for_delivery(self.grid.now()).await;
        reply
    }
}

store_by_calls!(GridStore, left);

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;
    use crate::{Delay, Link, MemoryStore, conformance};

    const QUANTUM: Duration = Duration::from_millis(8);

    fn ms(clock: &dyn Clock) -> u64 {
        clock.now() / 1_000_000
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_go_on_at_one_point() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let grid = DepartureGrid::new(clock.clone(), QUANTUM);
        for (departs, after_ms, at_ms) in
            [(true, 1, 8), (true, 3, 16), (false, 1, 20), (false, 1, 28), (true, 4, 40)]
        {
            clock.sleep_until(clock.now() + after_ms * 1_000_000).await;
            let wait = || async {
                match departs {
                    true => grid.departure().await,
                    false => grid.wait_for_delivery(grid.now()).await,
                }
            };
            let (first, ..) = tokio::join!(wait(), wait(), wait());
            assert_eq!((first / 1_000_000, ms(&*clock)), (at_ms, at_ms));
        }
        assert!(grid.waiting.lock().is_empty());
        DepartureGrid::new(clock.clone(), Duration::ZERO).departure().await;
        assert_eq!(ms(&*clock), 40);
    }

    /// Calls of which each takes work before it: all leave at points, and their replies come
    /// between two.
    #[tokio::test(start_paused = true)]
    async fn calls_leave_at_points_however_many_are_under_way() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(3), ..Link::instant() };
        let stream = fogbank_env::Randomness::repeatable(1).stream(fogbank_env::Purpose::Workload);
        let left = Arc::new(Mutex::new(Vec::new()));
        let (note, at) = (left.clone(), clock.clone());
        let far = crate::Faulty::new(Delay::new(MemoryStore::new(), clock.clone(), link, stream));
        far.on_call(move |_, _| {
            note.lock().push(ms(&*at));
            None
        });
        let store = GridStore::new(far, DepartureGrid::new(clock.clone(), QUANTUM));
        let calls = [0, 2, 5, 7, 8].map(|work_ms| {
            let (store, clock) = (&store, &clock);
            async move {
                clock.sleep_until(clock.now() + work_ms * 1_000_000).await;
                store.barrier().await.unwrap();
                ms(&**clock)
            }
        });
        let [a, b, c, d, e] = calls;
        let came = tokio::join!(a, b, c, d, e);
        assert_eq!(*left.lock(), [8, 8, 8, 8, 16]);
        assert_eq!(came, (12, 12, 12, 12, 20));
    }

    /// Whoever makes the next call has the room that a reply leaves.
    #[tokio::test(start_paused = true)]
    async fn what_has_left_leaves_room_for_the_next() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = GridStore::new(MemoryStore::new(), DepartureGrid::new(clock.clone(), QUANTUM));
        let (put, ()) = tokio::join!(store.barrier(), store.all_left());
        put.unwrap();
        assert_eq!(ms(&*clock), 12);
        store.all_left().await;
        assert_eq!(ms(&*clock), 20);
    }

    /// Whoever is held up between a point and what leaves at it waits for the next.
    #[tokio::test]
    #[allow(clippy::disallowed_methods)] // holds the thread on purpose
    async fn a_point_that_was_missed_is_not_used() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let grid = DepartureGrid::new(clock.clone(), Duration::from_millis(40));
        let mut tries = Vec::new();
        grid.next_usable_point(|| {
            tries.push(clock.now() / 40_000_000);
            if tries.len() < 3 {
                std::thread::sleep(Duration::from_millis(20));
            }
        })
        .await;
        assert!(tries.len() >= 3 && tries.is_sorted_by(|a, b| a < b), "{tries:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn conforms() {
        let grid = DepartureGrid::new(Arc::new(SystemClock::new()), QUANTUM);
        conformance::run(&GridStore::new(MemoryStore::new(), grid)).await;
    }
}
