//! Departures: what has arrived is journalled together and leaves; from time to time a checkpoint.
//!
//! One task owns the journal. It waits for no write-back, and for paths only where there is no room for
//! more and at the cut:
//!
//! 1. What has arrived while the last record was on its way goes into one record, with what is read
//!    for each access. The record is durable and the register bumped before any of the paths leaves.
//!    At a fixed rate a record leaves at every point of a grid, filled up with padding.
//! 2. Every path is a task of its own.
//! 3. After a public number of write-backs there is a *cut*: departures wait until no path is under
//!    way, what has been flushed is written back, and the state is copied. They go on at once; beside
//!    them the checkpoint is written when everything it refers to is durable, and then adopted.
//! 4. What only the last checkpoint referred to is deleted.
//!
//! The next record leaves when the one before is durable, there is room, and no cut or commit is under
//! way: that, and arrivals, is all it depends on.

use std::sync::Arc;

use fogbank_durable::{Checkpoint, Cut, Section, Vault};
use fogbank_env::{Clock, Nanos};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::journal::{self, PADDING};
use super::processor::PathRequest;
use super::sequencer::Reply;
use super::settings::{GROUP_MAX, Rate};
use super::writeback::write_back;
use super::{Shared, serve_path, state};
use crate::{Access, Address, Error, Result, blame, of_task};

/// An access that somebody has submitted.
#[derive(Debug)]
pub(super) struct Arrival {
    pub address: Address,
    pub access: Access,
    pub reply: Reply,
}

impl Arrival {
    fn padding() -> Self {
        Self { address: Address(PADDING), access: Access::Read, reply: None }
    }

    /// Tells whoever waits for it that it will not be served.
    pub fn refuse(self, error: &Error) {
        if let Some(reply) = self.reply {
            let _nobody_waits = reply.send(Err(error.clone()));
        }
    }
}

/// See the module.
pub(super) struct Departures {
    shared: Arc<Shared>,
    vault: Vault,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    tasks: JoinSet<Result<()>>,
    checkpoints: JoinSet<Result<Checkpoint>>,
    /// The cut of the checkpoint that is being written, and the last write-back it comprises.
    cut: Option<(Cut, u64)>,
    /// The last write-back of the last cut.
    cut_after: u64,
    write_backs_a_checkpoint: u64,
    pace: Option<Grid>,
}

/// The points at which records leave at a fixed rate.
struct Grid {
    clock: Arc<dyn Clock>,
    rate: Rate,
    next: Nanos,
}

impl Grid {
    /// Sets the next point. Those that have passed meanwhile are skipped, not caught up.
    fn skip_missed(&mut self) {
        let after = self.clock.now().max(self.next);
        self.next = (after / self.rate.interval + 1) * self.rate.interval;
    }

    /// The same if something else than a record has kept departures past the next point.
    fn skip_passed(&mut self) {
        if self.clock.now() > self.next {
            self.skip_missed();
        }
    }
}

/// Tells whoever waits when the departures end in whatever way: also by a panic, and when the engine is
/// dropped.
struct Ending {
    shared: Arc<Shared>,
    is_orderly: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.is_orderly {
            self.shared.fail(&Error::Bug("the engine ended midway".into()));
        }
    }
}

impl Departures {
    pub fn new(
        shared: Arc<Shared>,
        vault: Vault,
        clock: Arc<dyn Clock>,
        arrivals: mpsc::UnboundedReceiver<Arrival>,
    ) -> Result<Self> {
        let pace = shared.settings.rate.map(|rate| Grid { next: clock.now(), clock, rate });
        let write_backs_a_checkpoint = shared.settings.write_backs_a_checkpoint()?;
        let cut_after = shared.look(|state| state.tick);
        let (tasks, checkpoints) = (JoinSet::new(), JoinSet::new());
        let cut = None;
        Ok(Self {
            shared,
            vault,
            arrivals,
            tasks,
            checkpoints,
            cut,
            cut_after,
            write_backs_a_checkpoint,
            pace,
        })
    }

    /// Serves what arrives until nothing can any more, then closes the store. Whatever goes wrong ends
    /// everything: nothing leaves after it, and all who wait are told.
    pub async fn run(mut self) -> Result<()> {
        let mut ending = Ending { shared: self.shared.clone(), is_orderly: false };
        let ended = match self.serve().await {
            Ok(()) => self.close().await,
            Err(error) => Err(self.refuse_all(error)),
        };
        ending.is_orderly = ended.is_ok();
        ended.inspect_err(|error| ending.shared.fail(error))
    }

    /// Tells those that have arrived and will not depart.
    fn refuse_all(&mut self, error: Error) -> Error {
        self.shared.fail(&error);
        self.arrivals.close();
        while let Ok(arrival) = self.arrivals.try_recv() {
            arrival.refuse(&error);
        }
        error
    }

    async fn serve(&mut self) -> Result<()> {
        self.pace.iter_mut().for_each(Grid::skip_missed);
        while let Some(mut group) = self.next_group().await? {
            self.gather(&mut group).await;
            self.depart(group).await?;
            self.pace.iter_mut().for_each(Grid::skip_missed);
            if self.cut.is_none() && self.checkpoint_is_due() {
                self.begin_checkpoint().await?;
                self.pace.iter_mut().for_each(Grid::skip_passed);
            }
        }
        Ok(())
    }

    /// What leaves next; `None` when nothing will arrive any more.
    async fn next_group(&mut self) -> Result<Option<Vec<Arrival>>> {
        loop {
            let room = self.shared.room();
            tokio::select! { biased;
                Some(done) = self.tasks.join_next() => of_task(done)?,
                Some(written) = self.checkpoints.join_next() => {
                    self.adopt(of_task(written)?).await?;
                    self.pace.iter_mut().for_each(Grid::skip_passed);
                }
                () = next_point(&self.pace) => return Ok(self.at_point()),
                arrived = self.arrivals.recv(), if room > 0 && self.pace.is_none() => {
                    return Ok(arrived.map(|first| vec![first]));
                }
                () = self.shared.room_comes(), if room == 0 && self.pace.is_none() => {}
            }
        }
    }

    /// At a point of the grid: always as many accesses, or none if too many paths are under way.
    fn at_point(&mut self) -> Option<Vec<Arrival>> {
        let accesses = self.pace.as_ref().map_or(0, |pace| pace.rate.accesses);
        let room = self.shared.room();
        let mut group = Vec::with_capacity(accesses);
        while room >= accesses && group.len() < accesses {
            match self.arrivals.try_recv() {
                Ok(arrival) => group.push(arrival),
                Err(mpsc::error::TryRecvError::Disconnected) if group.is_empty() => return None,
                Err(_) => group.push(Arrival::padding()),
            }
        }
        Some(group)
    }

    /// What has arrived is looked at between two points of the grid, with what has come until then, as
    /// far as there is room: paths may have come back since it was looked whether there is any.
    async fn gather(&mut self, group: &mut Vec<Arrival>) {
        if self.pace.is_some() || group.is_empty() {
            return;
        }
        self.shared.points.handed_over().await;
        let most = self.shared.room().min(GROUP_MAX);
        while group.len() < most
            && let Ok(arrival) = self.arrivals.try_recv()
        {
            group.push(arrival);
        }
    }

    /// ReadPath for every one of `group`.
    async fn depart(&mut self, group: Vec<Arrival>) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        // 1. Which paths are read is decided, and journalled before any of them leaves.
        let (paths, entries): (Vec<PathRequest>, Vec<_>) = self.shared.step(|state| {
            let paths = group
                .into_iter()
                .map(|arrival| state.read_path(arrival.address.0, arrival.access, arrival.reply));
            paths.unzip()
        });
        let record = journal::encode(entries.iter(), self.shared.geometry.value_bytes);
        self.shared.points.departure().await;
        self.shared.sound()?;
        tokio::select! { biased;
            failed = first_failure(&mut self.tasks) => return Err(failed),
            appended = self.vault.append(&record) => appended?,
        }
        // 2. They leave.
        self.shared.points.departure().await;
        self.shared.sound()?;
        for path in paths {
            self.tasks.spawn(serve_path(self.shared.clone(), path));
        }
        Ok(())
    }

    fn checkpoint_is_due(&self) -> bool {
        self.shared.look(|state| state.tick) >= self.cut_after + self.write_backs_a_checkpoint
    }

    /// The cut; what follows goes on beside further departures.
    async fn begin_checkpoint(&mut self) -> Result<()> {
        let (tick, sections) = self.cut_state().await?;
        let (shared, writer) = (self.shared.clone(), self.vault.checkpoint_writer()?);
        self.checkpoints.spawn(async move {
            let written = async {
                shared.until(|state| state.unacknowledged.first().is_none_or(|t| *t > tick)).await;
                shared.sound()?;
                shared.store.barrier().await.map_err(blame)?;
                shared.sound()?;
                Ok(writer.write(Section::each(sections)).await?)
            };
            written.await.inspect_err(|error: &Error| shared.fail(error))
        });
        self.cut = Some((self.vault.cut(), tick));
        self.cut_after = tick;
        Ok(())
    }

    /// Waits until no path is under way, has everything flushed written back, and copies the state.
    /// Returns the last write-back it comprises.
    async fn cut_state(&mut self) -> Result<(u64, Vec<Section>)> {
        let shared = self.shared.clone();
        let answered = shared.until(|state| state.paths.len() == 0);
        tokio::select! { biased;
            failed = first_failure(&mut self.tasks) => return Err(failed),
            () = answered => {}
        }
        let opening = shared.keys.current().0;
        let (due, tick, sections) = shared.step(|state| {
            let due = (!state.write_queue.is_empty()).then(|| state.begin_write_back());
            state::save(state, opening).map(|sections| (due, state.tick, sections))
        })?;
        if let Some(due) = due {
            self.tasks.spawn(async move {
                let written = write_back(&shared, due).await;
                written.inspect_err(|error| shared.fail(error))
            });
        }
        Ok((tick, sections))
    }

    /// The checkpoint counts from now on.
    async fn adopt(&mut self, checkpoint: Checkpoint) -> Result<()> {
        self.shared.points.departure().await;
        self.shared.sound()?;
        let (cut, tick) = self.cut.take().ok_or_else(|| Error::Bug("no cut".into()))?;
        self.vault.adopt(cut, checkpoint).await?;
        let chunks = self.shared.step(|state| {
            state.stats.checkpoints += 1;
            state.take_superseded(tick)
        });
        let (shared, blobs) = (self.shared.clone(), self.vault.take_superseded());
        self.tasks.spawn(async move {
            let deleted = async {
                blobs.delete().await?;
                shared.sound()?;
                shared.delete(&chunks).await
            };
            deleted.await.inspect_err(|error: &Error| shared.fail(error))
        });
        Ok(())
    }

    /// Everything that has arrived is answered, and the last checkpoint holds all of it.
    async fn close(mut self) -> Result<()> {
        self.finish_checkpoint().await?;
        let (tick, sections) = self.cut_state().await?;
        while let Some(done) = self.tasks.join_next().await {
            of_task(done)?;
        }
        self.shared.store.barrier().await.map_err(blame)?;
        self.vault.close(Section::each(sections)).await?;
        let chunks = self.shared.look(|state| state.take_superseded(tick));
        self.shared.delete(&chunks).await
    }

    /// A checkpoint now, before anything is served: what was replayed needs no replay again.
    pub async fn checkpoint(&mut self) -> Result<()> {
        self.begin_checkpoint().await?;
        self.finish_checkpoint().await
    }

    /// Waits for the checkpoint that is being written, if there is one, and for all that goes on beside.
    async fn finish_checkpoint(&mut self) -> Result<()> {
        loop {
            tokio::select! { biased;
                Some(done) = self.tasks.join_next() => of_task(done)?,
                Some(written) = self.checkpoints.join_next() => self.adopt(of_task(written)?).await?,
                else => return Ok(()),
            }
        }
    }
}

/// The next point of the grid, if there is one.
async fn next_point(pace: &Option<Grid>) {
    match pace {
        Some(grid) => grid.clock.arrive_at(grid.next).await,
        None => std::future::pending().await,
    }
}

/// The first of these tasks that fails; those that end well are taken off.
async fn first_failure(tasks: &mut JoinSet<Result<()>>) -> Error {
    loop {
        match tasks.join_next().await {
            Some(done) => {
                if let Err(error) = of_task(done) {
                    return error;
                }
            }
            None => std::future::pending().await,
        }
    }
}
