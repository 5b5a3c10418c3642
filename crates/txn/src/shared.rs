//! What the handles and the driver share: the core behind a lock that is never held across an
//! await, the beat that wakes whoever waits, and the sweeper.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fogbank_env::{Clock, Nanos};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::core::Core;
use crate::error::Error;
use crate::turns::Turns;

/// Programs run under one hold of the lock ...
const STEPS_OF_A_SWEEP: usize = 256;
/// ... and how long a hold goes on beginning another. The driver waits for the lock at every point
/// of the grid: what holds it for longer than the slack makes a send late, and the cloud sees that.
const HOLD_NANOS_MAX: Nanos = 200_000;

/// The shared part of one proxy.
pub(crate) struct Shared {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Beats when a batch has arrived, an epoch has begun or everything has stopped. Wakes in the
    /// order of waiting, so that one seed is one run.
    beat: Notify,
    /// Of those that have lost often.
    pub turns: Turns,
    core: Mutex<Core>,
    work: Notify,
    present: AtomicUsize,
}

/// A client that is here, for as long as this is kept.
pub(crate) struct Presence(Arc<Shared>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Wraps a core.
    pub(crate) fn new(core: Core, clock: Arc<dyn Clock>) -> Arc<Self> {
        let (core, beat, work) = (Mutex::new(core), Notify::new(), Notify::new());
        let turns = Turns::default();
        Arc::new(Self { clock, beat, turns, core, work, present: AtomicUsize::new(0) })
    }

    /// Counts a client.
    pub(crate) fn welcome(self: &Arc<Self>) -> Presence {
        self.present.fetch_add(1, Ordering::Relaxed);
        Presence(self.clone())
    }

    /// Whether any client is here.
    pub(crate) fn is_anybody_present(&self) -> bool {
        self.present.load(Ordering::Relaxed) > 0
    }

    /// Does something to the core. Programs it refused are answered after the lock is released;
    /// programs it made ready are left to the sweeper.
    pub(crate) fn with<T>(&self, action: impl FnOnce(&mut Core) -> T) -> T {
        let now_ms = self.clock.wall_ms();
        let (result, refused, work) = {
            let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            core.now_ms = now_ms;
            let result = action(&mut core);
            (result, std::mem::take(&mut core.refused), core.has_work())
        };
        for (body, error) in refused {
            body.answer(Err(error));
        }
        if work {
            self.work.notify_one();
        }
        result
    }

    /// Admits and runs what can be, under one hold of the lock. Whether there is more to do.
    pub(crate) fn advance(&self) -> bool {
        let until = self.clock.now() + HOLD_NANOS_MAX;
        self.with(|core| {
            for _ in 0..STEPS_OF_A_SWEEP {
                if !core.advance(1) {
                    return false;
                }
                if self.clock.now() >= until {
                    break;
                }
            }
            true
        })
    }

    /// Wakes everybody who waits for the next beat.
    pub(crate) fn beat(&self) {
        self.beat.notify_waiters();
    }

    /// Completes with the first beat after this call, also if it is awaited only later.
    pub(crate) fn next_beat(&self) -> Notified<'_> {
        self.beat.notified()
    }

    /// Ends everything with an error.
    pub(crate) fn stop(&self, error: Error) {
        self.with(|core| core.stop(error));
        self.beat();
        self.work.notify_one();
    }

    /// Runs programs as they become ready, a bounded number under each hold of the lock.
    pub(crate) async fn sweep(self: Arc<Self>) {
        loop {
            self.work.notified().await;
            if self.with(|core| core.stopped.is_some()) {
                return;
            }
            while self.advance() {
                tokio::task::yield_now().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};

    use fogbank_env::Randomness;
    use fogbank_oram::BatchShape;

    use super::*;
    use crate::directory::Directory;
    use crate::error::Pause;
    use crate::program::submission;
    use crate::settings::Settings;
    use crate::view::View;

    /// A clock that only the work moves.
    #[derive(Default)]
    struct WorkClock(AtomicU64);

    impl Clock for WorkClock {
        fn now(&self) -> Nanos {
            self.0.load(Ordering::Relaxed)
        }

        fn wall_ms(&self) -> u64 {
            0
        }

        fn sleep_until(&self, _: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(ready(()))
        }
    }

    /// A hold was bounded by a number of programs alone: 256 scans of all keys held the lock for
    /// seconds, and the driver, which needs it at each point of the grid, sent that much later.
    #[test]
    fn programs_that_take_long_do_not_share_one_hold_of_the_lock() {
        let shape = BatchShape { capacity: 8, value_bytes: 8, read_batch: 1, write_batch: 1 };
        let random = Randomness::repeatable(1);
        let core = Core::new(Settings::default(), shape, Directory::default(), &random);
        let clock = Arc::new(WorkClock::default());
        let shared = Shared::new(core, clock.clone());
        let session = shared.with(|core| core.schedule.open_session());
        shared.with(|core| core.drained = true); // nothing runs as it arrives
        for _ in 0..10 {
            let clock = clock.clone();
            let long = move |_: &mut View<'_>| -> Result<(), Pause> {
                clock.0.fetch_add(HOLD_NANOS_MAX / 2, Ordering::Relaxed);
                Ok(())
            };
            shared.with(|core| core.submit(session, submission(long).0));
        }
        shared.with(|core| core.drained = false);
        for holds in 1..5 {
            assert!(shared.advance());
            assert_eq!(clock.now(), holds * HOLD_NANOS_MAX);
        }
        assert!(!(shared.advance() && shared.advance()));
    }
}
