//! What the handles and the driver share: the core behind a lock that is never held across an
//! await, the beat that wakes whoever waits, and the sweeper.

use std::sync::{Arc, Mutex, PoisonError};

use fogbank_env::Clock;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::core::Core;
use crate::error::Error;

/// Programs run under one hold of the lock: the longest anybody else waits for it.
pub(crate) const STEPS_OF_A_SWEEP: usize = 256;

/// The shared part of one proxy.
pub(crate) struct Shared {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Beats when a batch has arrived, an epoch has begun or everything has stopped. Wakes in the
    /// order of waiting, so that one seed is one run.
    beat: Notify,
    /// Held by the one transaction, of those that have lost often, whose turn it is.
    pub turn: tokio::sync::Mutex<()>,
    core: Mutex<Core>,
    work: Notify,
}

impl Shared {
    /// Wraps a core.
    pub(crate) fn new(core: Core, clock: Arc<dyn Clock>) -> Arc<Self> {
        let (core, beat, work) = (Mutex::new(core), Notify::new(), Notify::new());
        let turn = tokio::sync::Mutex::new(());
        Arc::new(Self { clock, beat, turn, core, work })
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
            while self.with(|core| core.advance(STEPS_OF_A_SWEEP)) {
                tokio::task::yield_now().await;
            }
        }
    }
}
