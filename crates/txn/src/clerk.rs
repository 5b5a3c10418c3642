//! The clerk: does to the core what the driver asks for, so that the driver need not wait for it.
//!
//! 1. *Freeze*, *close*: it takes the core before any client that waits, claims the ask and fills
//!    it. An ask that was withdrawn meanwhile is counted as missed: its batch was one of padding,
//!    or its epoch goes on for another round of batches.
//! 2. *Values* go to the core; programs that waited for them become ready.
//! 3. When an epoch is durable, or never will be, the [`crate::answers`] leave.
//!
//! Between an ask and its fill stands nothing but whoever has the core at that moment, and then
//! work that the shape bounds. After a missed ask no program is begun until one has been filled, so
//! programs that take long cannot keep the clerk from the core for ever.
//!
//! What the cloud sees: nothing. The driver sends what there is at its points.

use std::sync::Arc;

use fogbank_env::{Gauge, Nanos, compute};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::answers::Answers;
use crate::core::{Core, Unanswered};
use crate::directory::Directory;
use crate::error::Error;
use crate::handover::{Asked, Message, Written};
use crate::shared::Shared;

/// Where there is no grid: how long transactions go on between two calls, and how often the clerk
/// looks whether they all wait. Also where no time passes, as in a simulation, it ends.
const MOMENT_NANOS: Nanos = 1_000_000;
const MOMENT_LOOKS: usize = 4_096;

/// See the module.
pub(crate) struct Clerk {
    pub(crate) shared: Arc<Shared>,
    pub(crate) messages: UnboundedReceiver<Message>,
    pub(crate) answers: UnboundedSender<Answers>,
    /// Aborts of transactions. Secret.
    pub(crate) aborts: Gauge,
    /// Programs that have ended with their epoch. Secret.
    pub(crate) programs: Gauge,
    /// Whether epochs follow each other without a grid.
    pub(crate) back_to_back: bool,
    /// The epoch that is closed and not yet durable.
    pub(crate) unanswered: Option<Unanswered>,
    /// Ends when the epoch before it has been answered.
    pub(crate) leaving: Option<oneshot::Receiver<()>>,
    /// We have erred: the driver is told with the next ask.
    pub(crate) fault: Option<Error>,
}

impl Clerk {
    /// Takes messages until the driver has gone.
    pub(crate) async fn run(mut self) {
        // Should this task panic, those who wait are told all the same.
        let _stop_on_panic = StopOnPanic(self.shared.clone());
        while let Some(message) = self.messages.recv().await {
            let clock = self.shared.clock.clone();
            match message {
                Message::Freeze(_) | Message::Close { .. } if self.back_to_back => {
                    self.let_go_on().await;
                }
                Message::Close { send, .. } => self.let_programs_run(send).await,
                _ => {}
            }
            clock.sleep_until(self.shared.busy_until()).await;
            match message {
                // Without a grid no timer waits for this worker, and a thread aside costs more.
                Message::Freeze(_) | Message::Values(_) if self.back_to_back => self.take(message),
                message => compute(|| self.take(message)),
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Freeze(asked) => {
                let fault = self.fault.clone();
                self.core(|core| match asked.claim() {
                    Some(((), claim)) => claim.fill(fault.map_or_else(|| Ok(core.freeze()), Err)),
                    None => core.miss_batch(),
                });
            }
            Message::Close { ask, last, .. } => self.close(ask, last),
            Message::Values(values) => {
                let delivered = self.core(|core| core.deliver(values));
                self.fault = self.fault.take().or(delivered.err());
                self.shared.beat();
            }
            Message::Ended(outcome) => {
                if outcome.is_ok() {
                    self.core(Core::committed);
                }
                if let Some(unanswered) = self.unanswered.take() {
                    self.programs.add(unanswered.programs.len() as u64);
                    let (all, leaving) = oneshot::channel();
                    self.leaving = Some(leaving);
                    self.answer(Answers::Epoch(unanswered, outcome, all));
                }
            }
            Message::Rest(Some(error)) => {
                self.core(|core| core.rest(error));
                self.shared.beat();
            }
            Message::Rest(None) => self.core(|core| core.resting = None),
            Message::Stop(error) => {
                self.core(|core| core.stop(error));
                self.shared.beat();
                self.shared.wake_sweeper();
            }
        }
    }

    /// Closes the epoch: first what the driver waits for, then the rest.
    fn close(&mut self, asked: Asked<Arc<Directory>, Written>, last: bool) {
        let fault = self.fault.clone();
        let aborts = self.aborts.clone();
        self.unanswered = self.core(|core| {
            let Some((directory, claim)) = asked.claim() else {
                core.miss_close(last);
                return None;
            };
            drop(directory); // the core's is now the only hold on it
            aborts.add(core.mvtso.aborts);
            let hand_over = |written| claim.fill(fault.map_or(Ok(written), Err));
            Some(core.close_epoch(last, hand_over))
        });
        self.shared.beat();
    }

    /// Does something to the core, before any client that waits.
    fn core<T>(&self, action: impl FnOnce(&mut Core) -> T) -> T {
        let (result, refused) = self.shared.with_first(action);
        if !refused.is_empty() {
            self.answer(Answers::Refused(refused));
        }
        result
    }

    fn answer(&self, answers: Answers) {
        // They are there for as long as this is.
        let _gone = self.answers.send(answers);
    }

    /// Lets what is ready run before the epoch closes, with half of the time that is left to spare.
    /// Where a program stages there is none to spare: the epoch makes more entries than any other,
    /// and what is ready would hardly be done.
    async fn let_programs_run(&mut self, send: Nanos) {
        let clock = self.shared.clock.clone();
        let now = clock.now();
        // A worker that waits for the lock would keep the runtime's timers waiting, and the driver.
        if compute(|| self.core(|core| core.has_work() && !core.staging.is_under_way())) {
            clock.sleep_until(now + send.saturating_sub(now) / 2).await;
        }
    }

    /// Without a grid: what waited for an epoch or a batch goes on before anything else leaves.
    async fn let_go_on(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            let _all = leaving.await;
        }
        while self.shared.advance() {
            tokio::task::yield_now().await;
        }
        let clock = self.shared.clock.clone();
        let until = clock.now() + MOMENT_NANOS;
        for _ in 0..MOMENT_LOOKS {
            tokio::task::yield_now().await;
            let quiet = self.core(|core| !core.mvtso.is_anybody_busy());
            if quiet || clock.now() >= until {
                return;
            }
        }
    }
}

/// Stops the proxy when it goes, unless it has stopped.
struct StopOnPanic(Arc<Shared>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.with(|core| core.stop(Error::fault("the clerk has panicked")));
            self.0.beat();
            self.0.wake_sweeper();
        }
    }
}
