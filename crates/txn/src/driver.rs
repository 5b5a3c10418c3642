//! The beat of the epochs: the only place that talks to the engine.
//!
//! 0. Wait until epochs run ([`crate::Uptime`]): always, unless somebody wants it otherwise.
//! 1. R times: at a point of the grid, ask the clerk for a batch; `slack` later, send what it has
//!    handed over, or padding; when everything has arrived, tell the clerk. If several batches may
//!    be under way, the next one takes the first point after the record of this one is durable and
//!    there is room.
//! 2. At the next point, ask for the writes of the epoch; `slack` later, send what was handed over,
//!    or an empty write batch, then commit: the engine's images, the delta or the full checkpoint
//!    that is due, the commit record.
//! 3. Tell the clerk, delete what the epoch superseded, and begin again.
//!
//! Invariants: exactly R reads, one write and one commit an epoch, whatever the core holds. The
//! driver waits for the clock, the engine and what the clerk has claimed, and for nothing else: it
//! shares no lock with clients. So the times of its calls are functions of the grid and of when the
//! engine completed. After an error of the engine nothing more is sent and everybody is told.
//!
//! An epoch that the clerk could not close in time is an epoch of the store in which nothing was
//! written; what clients did in it goes on in the next.
//!
//! Back to back (interval zero, for benchmarks) there is no grid: a call follows the one before as
//! soon as the programs that waited for it have run and transactions have had a moment to go on.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, Gauge, Metrics, Nanos, Visibility};
use fogbank_oram::{Address, BatchEngine, Sections};

use crate::checkpoint;
use crate::delta::Delta;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::grid::{Grid, Point};
use crate::handover::{Ask, Handover, Message, Taken, Written, ask};
use crate::settings::Settings;
use crate::shared::Signals;
use crate::shared_vault::SharedVault;

/// Drives the epochs of one proxy.
pub(crate) struct Driver {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) clerk: Handover,
    engine: Box<dyn BatchEngine>,
    vault: Option<SharedVault>,
    pub(crate) grid: Grid,
    /// When a client was last seen.
    pub(crate) last_present: Option<Nanos>,
    read_batches: usize,
    in_flight: usize,
    /// How many values each batch under way will bring.
    under_way: VecDeque<usize>,
    /// Epochs that still run for what was accepted, once the proxy is being closed.
    closing_epochs: usize,
    /// As it was after the last epoch that was closed in time.
    directory: Option<Arc<Directory>>,
    key_budget: usize,
    figures: Figures,
}

/// Stops the proxy when it goes, unless it has stopped.
struct StopOnPanic(Handover);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _gone = self.0.send(Message::Stop(Error::fault("the driver has panicked")));
        }
    }
}

struct Figures {
    epochs: Gauge,
    points_skipped: Gauge,
    reads: Gauge,
    writes: Gauge,
    slack_overruns: Gauge,
    asks_missed: Gauge,
}

impl Driver {
    /// A driver whose grid begins now, over the state that `directory` is of.
    pub(crate) fn new(
        (clock, signals, clerk): (Arc<dyn Clock>, Arc<Signals>, Handover),
        engine: Box<dyn BatchEngine>,
        vault: Option<SharedVault>,
        directory: Arc<Directory>,
        settings: &Settings,
        metrics: &Metrics,
    ) -> Self {
        let grid = Grid::from(clock.now(), settings.interval, settings.slack);
        let secret = |name| metrics.gauge(Visibility::Secret, name);
        let figures = Figures {
            epochs: metrics.gauge(Visibility::Public, "epochs"),
            points_skipped: metrics.gauge(Visibility::Public, "grid_points_skipped"),
            reads: secret("blocks_read"),
            writes: secret("blocks_written"),
            slack_overruns: secret("slack_overruns"),
            asks_missed: secret("asks_missed"),
        };
        Self {
            clock,
            signals,
            clerk,
            engine,
            vault,
            grid,
            last_present: None,
            read_batches: settings.read_batches,
            in_flight: settings.in_flight,
            under_way: VecDeque::new(),
            closing_epochs: settings.closing_epochs,
            directory: Some(directory),
            key_budget: settings.key_budget_bytes,
            figures,
        }
    }

    /// Runs epochs until closed; hands the engine back, between two epochs.
    pub(crate) async fn run(mut self) -> Result<Box<dyn BatchEngine>> {
        // Should this task panic, those who wait are told all the same.
        let _stop_on_panic = StopOnPanic(self.clerk.clone());
        let ended = self.epochs_until_closed().await;
        if let Err(error) = &ended {
            self.clerk.send(Message::Stop(error.clone()))?;
        }
        ended.map(|()| self.engine)
    }

    async fn epochs_until_closed(&mut self) -> Result<()> {
        while !self.epoch().await? {}
        // Whatever could not be part of the last epoch is told so, and an epoch of dummies follows.
        self.clerk.send(Message::Stop(Error::Closed))?;
        self.epoch().await.map(drop)
    }

    /// One epoch. Whether it was closed as the last one.
    async fn epoch(&mut self) -> Result<bool> {
        self.rest().await?;
        for _ in 0..self.read_batches {
            self.read().await?;
        }
        while !self.under_way.is_empty() {
            self.deliver().await?;
        }
        let point = self.next_point();
        self.deliver_until(point.freeze).await?;
        let last = self.is_last();
        let directory = self.directory.take().ok_or_else(no_directory)?;
        let (writes, asked) = ask(directory);
        self.clerk.send(Message::Close { ask: asked, send: point.send, last })?;
        self.write(writes, point).await?;
        Ok(last)
    }

    /// Whether the epoch that closes now is the last that may hold anything: so many after the
    /// proxy was told to close, whatever there is to do.
    fn is_last(&mut self) -> bool {
        if !self.signals.is_closing() {
            return false;
        }
        let last = self.closing_epochs == 0;
        self.closing_epochs = self.closing_epochs.saturating_sub(1);
        last
    }

    async fn read(&mut self) -> Result<()> {
        while self.under_way.len() >= self.in_flight {
            self.deliver().await?;
        }
        let ready = self.engine.ready_to_start().await;
        blamed(self.vault.as_ref(), ready).await?;
        let point = self.next_point();
        self.deliver_until(point.freeze).await?;
        let (batch, asked) = ask(());
        self.clerk.send(Message::Freeze(asked))?;
        let addresses = self.handed_over(batch, point).await?.unwrap_or_default();
        self.figures.reads.add(addresses.len() as u64);
        if self.in_flight == 1 {
            let read = self.engine.read_batch(&addresses).await;
            return self.take_in(read, addresses.len()).await;
        }
        let sent = self.engine.start_read(&addresses).await;
        blamed(self.vault.as_ref(), sent).await?;
        self.under_way.push_back(addresses.len());
        Ok(())
    }

    /// Sleeps until something is to leave; what the clerk has handed over by then, or what was
    /// given with the ask. If the clerk had only begun, the send moves to that of a later point: it
    /// never leaves at a time that tells how long the work took.
    async fn handed_over<G, T>(
        &mut self,
        asked: Ask<G, T>,
        point: Point,
    ) -> Result<std::result::Result<T, G>> {
        if self.grid.is_back_to_back() {
            asked.wait().await;
        }
        // Woken late, it still gives the clerk its time: what woke it late was no client.
        let slack = point.send - point.freeze;
        self.deliver_until(point.send.max(self.clock.now() + slack)).await?;
        match asked.take().await? {
            Taken::Filled(there) => Ok(Ok(there)),
            Taken::Late(there) => {
                self.figures.slack_overruns.add(1);
                let later = self.grid.point(self.clock.now());
                self.deliver_until(later.send).await?;
                Ok(Ok(there))
            }
            Taken::Withdrawn(given) => {
                self.figures.asks_missed.add(1);
                Ok(Err(given))
            }
        }
    }

    /// Waits for the oldest batch under way and hands its values over.
    async fn deliver(&mut self) -> Result<()> {
        let read = self.engine.finish_read().await;
        let asked = self.under_way.pop_front().unwrap_or_default();
        self.take_in(read, asked).await
    }

    /// Sleeps, and hands over whatever arrives meanwhile.
    async fn deliver_until(&mut self, deadline: Nanos) -> Result<()> {
        let clock = self.clock.clone();
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
        self.clerk.send(Message::Values(values))
    }

    async fn write(&mut self, asked: Ask<Arc<Directory>, Written>, point: Point) -> Result<()> {
        let written = self.handed_over(asked, point).await?;
        let is_closed = written.is_ok();
        let nothing = |directory| Written { directory, ..Written::default() };
        let Written { writes, delta, directory } = written.unwrap_or_else(nothing);
        self.directory = Some(directory);
        self.figures.writes.add(writes.len() as u64);
        let made = self.commit(writes, delta).await;
        let outcome = blamed(self.vault.as_ref(), made).await;
        if is_closed {
            self.clerk.send(Message::Ended(outcome.clone()))?;
        }
        self.figures.epochs.add(1);
        outcome?;
        Ok(self.collect().await?)
    }

    /// The write batch, then everything that has to be durable before anybody is answered.
    async fn commit(
        &mut self,
        writes: Vec<(Address, Option<Bytes>)>,
        changes: Delta,
    ) -> fogbank_oram::Result<()> {
        self.engine.write_batch(writes).await?;
        let mut delta = self.engine.commit().await?;
        let Some(vault) = self.vault.clone() else { return Ok(()) };
        delta.push(changes.into_section(&self.engine.shape()));
        let full = match vault.full_is_due().await? {
            true => Some(self.full()?),
            false => None,
        };
        vault.commit(&delta, full).await
    }

    /// Engine and directory as a full checkpoint. The directory is that of the epoch just closed:
    /// it does not change as long as the driver holds it.
    fn full(&mut self) -> fogbank_oram::Result<Sections<'_>> {
        let directory = self.directory.clone().unwrap_or_default();
        checkpoint::save(&mut *self.engine, self.key_budget, move |pieces| pieces.next(&directory))
    }

    /// Lets go of what the epoch superseded.
    async fn collect(&mut self) -> fogbank_oram::Result<()> {
        let Some(vault) = &self.vault else { return Ok(()) };
        tokio::try_join!(biased; self.engine.collect(), vault.collect()).map(drop)
    }

    /// The next point of the grid, which is still to come.
    fn next_point(&mut self) -> Point {
        let point = self.grid.point(self.clock.now());
        self.figures.points_skipped.set(self.grid.skipped());
        point
    }
}

fn no_directory() -> Error {
    Error::fault("the driver has given the directory away")
}

/// What the engine says, an error blamed on whom it is to be blamed on.
async fn blamed<T>(vault: Option<&SharedVault>, result: fogbank_oram::Result<T>) -> Result<T> {
    match (result, vault) {
        (Err(error), Some(vault)) => Err(vault.blame(error).await.into()),
        (result, _) => Ok(result?),
    }
}
