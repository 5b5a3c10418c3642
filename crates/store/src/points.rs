//! Points of a grid that many tasks wait for: when something may leave, and when what has come is
//! looked at.
//!
//! For whoever has many messages under way and cannot make each wait for its own turn as
//! [`crate::Paced`] does. Departures are at multiples of the quantum, replies are handed over in the
//! middle between two, so that the work in between always has half a quantum of room (see there).
//! However many wait for one point, one timer runs for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fogbank_env::{Clock, Nanos};
use tokio::sync::Notify;

use crate::paced::handed_over_at;

/// See the module.
pub struct Points {
    clock: Arc<dyn Clock>,
    quantum: Nanos,
    waiting: Arc<Mutex<BTreeMap<Nanos, Arc<Notify>>>>,
}

impl Points {
    /// The multiples of `quantum` on `clock`; nobody waits if it is zero.
    pub fn new(clock: Arc<dyn Clock>, quantum: Duration) -> Self {
        Self { clock, quantum: quantum.as_nanos() as Nanos, waiting: Arc::default() }
    }

    /// Waits for the next point at which something may leave.
    pub async fn departure(&self) {
        if self.quantum > 0 {
            self.wait_for(self.clock.now().next_multiple_of(self.quantum)).await;
        }
    }

    /// Waits until what has come may be looked at.
    pub async fn handed_over(&self) {
        if self.quantum > 0 {
            self.wait_for(handed_over_at(self.clock.now(), self.quantum)).await;
        }
    }

    async fn wait_for(&self, point: Nanos) {
        let come = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let point_comes = waiting.entry(point).or_insert_with(|| self.begin(point));
            point_comes.clone().notified_owned()
        };
        come.await;
    }

    /// A timer for a point that nobody has waited for so far. It runs by itself: whoever was first may
    /// be given up.
    fn begin(&self, point: Nanos) -> Arc<Notify> {
        let (clock, waiting) = (self.clock.clone(), self.waiting.clone());
        tokio::spawn(async move {
            clock.come_near(point).await;
            let come = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&point);
            come.iter().for_each(|come| come.notify_waiters());
        });
        Arc::default()
    }
}

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_go_on_at_one_point() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let points = Points::new(clock.clone(), Duration::from_millis(8));
        for (departs, after_ms, at_ms) in
            [(true, 1, 8), (true, 3, 16), (false, 1, 20), (false, 1, 28), (true, 4, 32)]
        {
            clock.sleep_until(clock.now() + after_ms * 1_000_000).await;
            let wait =
                || if departs { points.wait_for_point(true) } else { points.wait_for_point(false) };
            tokio::join!(wait(), wait(), wait());
            assert_eq!(clock.now() / 1_000_000, at_ms);
        }
        assert!(points.waiting.lock().unwrap().is_empty());
        Points::new(clock.clone(), Duration::ZERO).departure().await;
        assert_eq!(clock.now() / 1_000_000, 32);
    }

    impl Points {
        async fn wait_for_point(&self, departs: bool) {
            if departs { self.departure().await } else { self.handed_over().await }
        }
    }
}
