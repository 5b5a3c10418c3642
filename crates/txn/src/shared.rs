//! What the handles, the clerk and the sweeper share: the core behind a lock that is never held
//! across an await, the beat that wakes whoever waits, and the sweeper. The driver has no part in
//! it: all that it shares with clients are [`Signals`] and the handover.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use fogbank_env::{Clock, Mutex, Nanos, compute};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::core::{Core, Refused};
use crate::gate::Gate;
use crate::retry_locks::RetryLocks;
use crate::uptime::Uptime;

/// Programs run under one hold of the lock ...
const STEPS_OF_A_SWEEP: usize = 256;
/// ... and how long a hold goes on beginning another: the clerk and other clients wait for it.
const HOLD_NANOS_MAX: Nanos = 200_000;

/// The shared part of one proxy.
pub(crate) struct Shared {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// What the driver looks at.
    pub signals: Arc<Signals>,
    /// Beats when a batch has arrived, an epoch has begun or everything has stopped. Wakes in the
    /// order of waiting, so that one seed is one run.
    beat: Notify,
    /// Of those that have lost often.
    pub retry_locks: RetryLocks,
    core: Gate<Core>,
    work: Notify,
    /// When the work done so far ends, where the clock says what work costs.
    busy_until: AtomicU64,
}

/// What the driver looks at without waiting for anybody.
#[derive(Default)]
pub(crate) struct Signals {
    /// The proxy is being closed: nothing is admitted any more.
    pub closing: AtomicBool,
    present: AtomicUsize,
    uptime: Mutex<Uptime>,
}

impl Signals {
    /// Whether any client is here.
    pub(crate) fn is_anybody_present(&self) -> bool {
        self.present.load(Ordering::Relaxed) > 0
    }

    /// Whether the proxy is being closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// When epochs run.
    pub(crate) fn uptime(&self) -> Uptime {
        self.uptime.lock().clone()
    }

    /// Epochs run when `uptime` says so.
    pub(crate) fn run_when(&self, uptime: Uptime) {
        *self.uptime.lock() = uptime;
    }
}

/// A client that is here, for as long as this is kept.
pub(crate) struct Presence(Arc<Shared>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.signals.present.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Wraps a core.
    pub(crate) fn new(core: Core, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            signals: Arc::default(),
            beat: Notify::new(),
            retry_locks: RetryLocks::default(),
            core: Gate::new(core),
            work: Notify::new(),
            busy_until: AtomicU64::new(0),
        })
    }

    /// Counts a client.
    pub(crate) fn welcome(self: &Arc<Self>) -> Presence {
        self.signals.present.fetch_add(1, Ordering::Relaxed);
        Presence(self.clone())
    }

    /// From now on nothing is admitted.
    pub(crate) fn begin_to_close(&self) {
        self.with(|core| core.closing = true);
        self.signals.closing.store(true, Ordering::Release);
    }

    /// Does something to the core for a client. Programs it refused are answered after the lock is
    /// released; programs it made ready are left to the sweeper.
    pub(crate) fn with<T>(&self, action: impl FnOnce(&mut Core) -> T) -> T {
        let (result, refused) = self.act(&mut self.core.client().core, action);
        refused.into_iter().for_each(Refused::answer);
        result
    }

    /// Does something to the core for the clerk, before any client that waits. Programs it refused
    /// are the caller's to answer.
    pub(crate) fn with_first<T>(&self, action: impl FnOnce(&mut Core) -> T) -> (T, Vec<Refused>) {
        self.act(&mut self.core.clerk(), action)
    }

    fn act<T>(&self, core: &mut Core, action: impl FnOnce(&mut Core) -> T) -> (T, Vec<Refused>) {
        core.now_ms = self.clock.wall_ms();
        let result = action(core);
        let (refused, work) = (std::mem::take(&mut core.refused), core.has_work());
        self.spend(core.take_units());
        if work {
            self.work.notify_one();
        }
        (result, refused)
    }

    /// Accounts for work, where the clock says what work costs.
    fn spend(&self, units: u64) {
        let cost = self.clock.work(units);
        if cost > 0 {
            let until = self.busy_until.load(Ordering::Relaxed).max(self.clock.now()) + cost;
            self.busy_until.store(until, Ordering::Relaxed);
        }
    }

    /// Until when the core is busy with what was done to it.
    pub(crate) fn busy_until(&self) -> Nanos {
        self.busy_until.load(Ordering::Relaxed)
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

    /// Lets the sweeper look, also at whether it is to end.
    pub(crate) fn wake_sweeper(&self) {
        self.work.notify_one();
    }

    /// Runs programs as they become ready, a bounded number under each hold of the lock.
    pub(crate) async fn sweep(self: Arc<Self>) {
        loop {
            self.work.notified().await;
            // Where clients have no threads of their own, waiting here must not hold up the timers.
            if compute(|| self.with(|core| core.stopped.is_some())) {
                return;
            }
            while compute(|| self.advance()) {
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
