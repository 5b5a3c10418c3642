//! The beat of the epochs: the only place that talks to the engine.
//!
//! 0. Wait until epochs run ([`crate::Uptime`]): always, unless somebody wants it otherwise.
//! 1. R times: at a point of the grid, freeze a batch; `slack` later, send it; when everything has
//!    arrived, hand the values to the core and beat. If several batches may be under way, the next
//!    one takes the first point after the record of this one is durable and there is room.
//! 2. At the next point, close the epoch; `slack` later, send its write batch, then commit: the
//!    engine's images, the delta or the full checkpoint that is due, the commit record.
//! 3. Answer the epoch, all in one sweep, delete what it superseded, and begin again.
//!
//! Invariant: exactly R reads, one write and one commit an epoch, whatever the core holds. The
//! times at which they are made are functions of the grid and of when the engine completed.
//! After an error of the engine nothing more is sent and everybody is told.
//!
//! Back to back (interval zero, for benchmarks) there is no grid: a call follows the one before as
//! soon as the programs that waited for it have run and transactions have had a moment to go on.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Gauge, Metrics, Nanos, Visibility};
use fogbank_oram::{Address, BatchEngine, Sections};

use crate::checkpoint;
use crate::core::Closing;
use crate::delta::Delta;
use crate::error::{Error, Result};
use crate::grid::{Grid, Point};
use crate::keeping::Keeping;
use crate::settings::Settings;
use crate::shared::Shared;

/// How long a back-to-back driver lets transactions go on between two calls, and how often it looks.
const MOMENT_NANOS: Nanos = 200_000;
const MOMENT_LOOKS: usize = 256;

/// Drives the epochs of one proxy.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    engine: Box<dyn BatchEngine>,
    vault: Option<Keeping>,
    pub(crate) grid: Grid,
    /// When a client was last seen.
    pub(crate) last_present: Option<Nanos>,
    read_batches: usize,
    in_flight: usize,
    /// How many values each batch under way will bring.
    under_way: VecDeque<usize>,
    key_budget: usize,
    figures: Figures,
}

/// Stops the proxy when it goes, unless it has stopped.
struct Told(Arc<Shared>);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(Error::fault("the driver has panicked"));
        }
    }
}

struct Figures {
    epochs: Gauge,
    points_skipped: Gauge,
    reads: Gauge,
    writes: Gauge,
    programs: Gauge,
    aborts: Gauge,
    slack_overruns: Gauge,
}

impl Driver {
    /// A driver whose grid begins now.
    pub(crate) fn new(
        shared: Arc<Shared>,
        engine: Box<dyn BatchEngine>,
        vault: Option<Keeping>,
        settings: &Settings,
        metrics: &Metrics,
    ) -> Self {
        let grid = Grid::from(shared.clock.now(), settings.interval, settings.slack);
        let secret = |name| metrics.gauge(Visibility::Secret, name);
        let figures = Figures {
            epochs: metrics.gauge(Visibility::Public, "epochs"),
            points_skipped: metrics.gauge(Visibility::Public, "grid_points_skipped"),
            reads: secret("blocks_read"),
            writes: secret("blocks_written"),
            programs: secret("programs_committed"),
            aborts: secret("transactions_aborted"),
            slack_overruns: secret("slack_overruns"),
        };
        Self {
            shared,
            engine,
            vault,
            grid,
            last_present: None,
            read_batches: settings.read_batches,
            in_flight: settings.in_flight,
            under_way: VecDeque::new(),
            key_budget: settings.key_budget_bytes,
            figures,
        }
    }

    /// Runs epochs until closed; hands the engine back, between two epochs.
    pub(crate) async fn run(mut self) -> Result<Box<dyn BatchEngine>> {
        // Should this task panic, those who wait are told all the same.
        let _told = Told(self.shared.clone());
        match self.epochs_until_closed().await {
            Ok(()) => Ok(self.engine),
            Err(error) => {
                self.shared.stop(error.clone());
                Err(error)
            }
        }
    }

    async fn epochs_until_closed(&mut self) -> Result<()> {
        while !self.epoch().await? {}
        // Whatever could not be part of the last epoch is told so, and an epoch of dummies follows.
        self.shared.stop(Error::Closed);
        self.epoch().await.map(drop)
    }

    /// One epoch. Whether it was closed as the last one.
    async fn epoch(&mut self) -> Result<bool> {
        self.rest().await;
        for _ in 0..self.read_batches {
            self.read().await?;
        }
        while !self.under_way.is_empty() {
            self.deliver().await?;
        }
        let point = self.next_point().await;
        self.deliver_until(point.freeze).await?;
        self.sweep_until(point.send).await;
        let (closing, last) = self.shared.with(|core| {
            self.figures.aborts.add(core.mvtso.aborts);
            let last = core.closing;
            (core.close_epoch(), last)
        });
        self.shared.beat();
        self.write(closing, point).await?;
        Ok(last)
    }

    async fn read(&mut self) -> Result<()> {
        while self.under_way.len() >= self.in_flight {
            self.deliver().await?;
        }
        let ready = self.engine.ready_to_start().await;
        blamed(self.vault.as_ref(), ready).await?;
        let point = self.next_point().await;
        self.deliver_until(point.freeze).await?;
        let addresses = self.shared.with(|core| core.freeze());
        self.figures.reads.add(addresses.len() as u64);
        let send = self.moment_to_send(point);
        self.deliver_until(send).await?;
        if self.in_flight == 1 {
            let read = self.engine.read_batch(&addresses).await;
            return self.take_in(read, addresses.len()).await;
        }
        let sent = self.engine.start_read(&addresses).await;
        blamed(self.vault.as_ref(), sent).await?;
        self.under_way.push_back(addresses.len());
        Ok(())
    }

    /// Waits for the oldest batch under way and hands its values over.
    async fn deliver(&mut self) -> Result<()> {
        let read = self.engine.finish_read().await;
        let asked = self.under_way.pop_front().unwrap_or_default();
        self.take_in(read, asked).await
    }

    /// Sleeps, and hands over whatever arrives meanwhile.
    async fn deliver_until(&mut self, deadline: Nanos) -> Result<()> {
        let clock = self.shared.clock.clone();
        loop {
            let read = match self.under_way.is_empty() {
                true => {
                    clock.sleep_until(deadline).await;
                    return Ok(());
                }
                false => tokio::select! { biased;
                    read = self.engine.finish_read() => read,
                    () = clock.sleep_until(deadline) => return Ok(()),
                },
            };
            let asked = self.under_way.pop_front().unwrap_or_default();
            self.take_in(read, asked).await?;
        }
    }

    async fn take_in(
        &mut self,
        read: fogbank_oram::Result<Vec<Option<Bytes>>>,
        asked: usize,
    ) -> Result<()> {
        let values = blamed(self.vault.as_ref(), read).await?;
        if values.len() != asked {
            let reason = "the engine returned another number of values than asked for";
            return Err(Error::fault(reason));
        }
        self.shared.with(|core| core.deliver(values))?;
        self.shared.beat();
        Ok(())
    }

    async fn write(&mut self, closing: Closing, point: Point) -> Result<()> {
        self.figures.writes.add(closing.writes.len() as u64);
        let send = self.moment_to_send(point);
        self.deliver_until(send).await?;
        let made = self.commit(closing.writes, closing.delta).await;
        let outcome = blamed(self.vault.as_ref(), made).await;
        if outcome.is_ok() {
            self.shared.with(|core| core.committed());
        }
        self.figures.programs.add(closing.programs.len() as u64);
        for program in closing.programs {
            program.answer(outcome.clone());
        }
        for answer in closing.committed {
            // The owner may have gone.
            let _ = answer.send(outcome.clone());
        }
        self.figures.epochs.add(1);
        outcome?;
        Ok(self.collect().await?)
    }

    /// The write batch, then everything that has to be durable before anybody is answered.
    async fn commit(
        &mut self,
        writes: Vec<(Address, Option<Bytes>)>,
        directory: Delta,
    ) -> fogbank_oram::Result<()> {
        self.engine.write_batch(writes).await?;
        let mut delta = self.engine.commit().await?;
        let Some(vault) = self.vault.clone() else { return Ok(()) };
        delta.push(directory.into_section(&self.engine.shape()));
        let full = match vault.full_is_due().await? {
            true => Some(self.full()?),
            false => None,
        };
        vault.commit(&delta, full).await
    }

    /// Engine and directory as a full checkpoint. The directory is that of the epoch just closed: the
    /// next one changes it only when it closes.
    fn full(&mut self) -> fogbank_oram::Result<Sections<'_>> {
        let shared = self.shared.clone();
        checkpoint::save(&mut *self.engine, self.key_budget, move |pieces| {
            shared.with(|core| pieces.next(&core.directory))
        })
    }

    /// Lets go of what the epoch superseded.
    async fn collect(&mut self) -> fogbank_oram::Result<()> {
        let Some(vault) = &self.vault else { return Ok(()) };
        tokio::try_join!(biased; self.engine.collect(), vault.collect()).map(drop)
    }

    /// The next point of the grid, which is still to come.
    async fn next_point(&mut self) -> Point {
        if self.grid.is_back_to_back() {
            self.pause_for_a_moment().await;
        }
        let point = self.grid.point(self.shared.clock.now());
        self.figures.points_skipped.set(self.grid.skipped());
        point
    }

    /// When to send. If the work before it took longer than the slack, the send moves to that of a
    /// later point: it never leaves at a time that tells how long the work took.
    fn moment_to_send(&mut self, point: Point) -> Nanos {
        let now = self.shared.clock.now();
        if self.grid.is_back_to_back() || now <= point.send {
            return point.send;
        }
        self.figures.slack_overruns.add(1);
        self.grid.point(now).send
    }

    /// Runs what is ready before the epoch closes, with a quarter of the slack to spare.
    async fn sweep_until(&mut self, send: Nanos) {
        let now = self.shared.clock.now();
        let deadline = now + send.saturating_sub(now) / 4 * 3;
        while self.shared.advance() {
            if !self.grid.is_back_to_back() && self.shared.clock.now() >= deadline {
                return;
            }
        }
    }

    /// Without a grid: what waited for the batch goes on before the next one is frozen.
    async fn pause_for_a_moment(&mut self) {
        while self.shared.advance() {
            tokio::task::yield_now().await;
        }
        let until = self.shared.clock.now() + MOMENT_NANOS;
        for _ in 0..MOMENT_LOOKS {
            tokio::task::yield_now().await;
            let quiet = self.shared.with(|core| !core.mvtso.is_anybody_busy());
            if quiet || self.shared.clock.now() >= until {
                return;
            }
        }
    }
}

/// What the engine says, an error blamed on whom it is to be blamed on.
async fn blamed<T>(vault: Option<&Keeping>, result: fogbank_oram::Result<T>) -> Result<T> {
    match (result, vault) {
        (Err(error), Some(vault)) => Err(vault.blame(error).await.into()),
        (result, _) => Ok(result?),
    }
}
