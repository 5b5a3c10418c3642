//! Departures: what has arrived is journalled together and leaves; from time to time a checkpoint.
//!
//! One task owns the journal. It waits for replies and acknowledgements only where there is no room
//! for more, and at a quiet cut:
//!
//! 1. What has arrived since the last record was cut goes into one record, with what is read for
//!    each access. Up to `records_at_once` records are under way. A record and all before it are
//!    durable and the register knows it before any of that is read. At a fixed rate a record leaves
//!    at every point of a grid, filled up with padding.
//! 2. Its requests leave, in their order (`leaving`).
//! 3. When the plane says that it is time there is a *cut*: departures wait until the last
//!    checkpoint counts and, if the plane cuts quietly, until no access is under way. Then the
//!    state is copied and departures go on. Beside them the checkpoint is written when everything
//!    it refers to is durable, and then adopted: its commit record leaves when every record before
//!    the cut counts and what the last one superseded is gone. So the journal is never longer than
//!    from the cut before last to now.
//! 4. What only the last checkpoint referred to is deleted.
//!
//! The next record leaves when fewer than `records_at_once` are under way, there is room, and no
//! quiet cut is under way: that, and arrivals, is all it depends on. What goes into it, and whether
//! a cut comes after it, is decided at the point before the one at which it leaves, from what had
//! come when replies were last taken.

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_durable::{Checkpoint, Cut, PutAdoption, Section, Vault};
use fogbank_env::Nanos;
use fogbank_store::{DepartureGrid, Store};
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Rate;
use super::arrival::Arrival;
use super::beside::{Beside, Ended, leave_now};
use super::core::Core;
use super::engine::{FailOnDrop, Shared, guarded};
use super::plane::{Codec, Cut as StateCut, Departing, Plane, Record};
use super::records::Landed;
use crate::{Error, Result, blame};

/// See the module.
pub struct Departures<P: Plane> {
    shared: Arc<Shared<P>>,
    vault: Vault,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    /// What has arrived and waits for its record.
    waiting: VecDeque<Arrival>,
    beside: Beside<P>,
    /// A checkpoint that is written and whose commit record has not left.
    written: Option<Checkpoint>,
    /// What lets requests leave, what takes replies, and what sends what is written: as long as
    /// there are departures.
    _tasks: JoinSet<Result<()>>,
    /// The cut of the checkpoint that does not count yet, and the last write-back it comprises.
    cut: Option<(Cut, u64)>,
    rate_grid: Option<RateGrid>,
}

/// The points at which records leave at a fixed rate.
struct RateGrid {
    grid: DepartureGrid,
    rate: Rate,
    next: Nanos,
}

impl RateGrid {
    /// Sets the next point: the first after the last one for which it can be decided yet what
    /// leaves at it. Those that have passed meanwhile are skipped, not caught up.
    fn skip_missed(&mut self) {
        let after = (self.grid.now() + self.grid.quantum()).max(self.next);
        self.next = (after / self.rate.interval + 1) * self.rate.interval;
    }

    /// The same if something else than a record has kept departures past the next point.
    fn skip_passed(&mut self) {
        if self.grid.now() > self.decides_at() {
            self.skip_missed();
        }
    }

    /// Whether replies were being taken until too late for what is decided to leave at the next
    /// point; then it aims at a later one. Where nothing waits for points nothing is late.
    fn was_missed(&mut self) -> bool {
        let room = self.grid.quantum() / 2;
        let missed = room > 0 && self.grid.now() >= self.decides_at() + room;
        if missed {
            self.skip_missed();
        }
        missed
    }

    /// When it is decided what leaves at the next point.
    fn decides_at(&self) -> Nanos {
        self.next.saturating_sub(self.grid.quantum())
    }
}

/// What leaves together.
struct Group {
    arrivals: Vec<Arrival>,
    /// Whether a cut comes after it.
    is_last: bool,
}

impl<P: Plane> Departures<P> {
    pub fn new(
        shared: Arc<Shared<P>>,
        vault: Vault,
        arrivals: mpsc::UnboundedReceiver<Arrival>,
        tasks: JoinSet<Result<()>>,
    ) -> Self {
        let grid = shared.grid.clone();
        let rate_grid = shared.shell.rate.map(|rate| RateGrid { next: grid.now(), grid, rate });
        Self {
            shared,
            vault,
            arrivals,
            waiting: VecDeque::new(),
            beside: Beside::new(),
            written: None,
            _tasks: tasks,
            cut: None,
            rate_grid,
        }
    }

    /// Serves what arrives until nothing can any more, then closes the store. Whatever goes wrong
    /// ends everything: nothing leaves after it, no piece of a checkpoint either, for all tasks end
    /// with this one; and all who wait are told.
    pub async fn run(self) -> Result<()> {
        // Also when the engine is dropped, and this with it.
        let mut fail_on_drop = FailOnDrop { shared: self.shared.clone(), is_midway: || true };
        let ended = guarded(self.shared.clone(), self.serve_and_close()).await;
        fail_on_drop.is_midway = || false;
        ended
    }

    async fn serve_and_close(mut self) -> Result<()> {
        let shared = self.shared.clone();
        let served = tokio::select! { biased;
            failed = shared.fault.come() => Err(failed),
            served = self.serve_all() => served,
        };
        match served {
            Ok((mark, sections)) => self.close(mark, sections).await,
            // A put that failed has stopped the vault, which then says only that it has stopped.
            Err(Error::Bug(what)) if self.vault.was_given_up() => {
                let error = self.beside.failure().await.unwrap_or(Error::Bug(what));
                Err(self.refuse_all(error))
            }
            Err(error) => Err(self.refuse_all(error)),
        }
    }

    /// Until nothing will arrive any more and everything was answered; then the last cut.
    async fn serve_all(&mut self) -> Result<(u64, Vec<Section>)> {
        self.serve().await?;
        self.finish().await?;
        let cut = self.cut_state().await?;
        self.finish().await?;
        make_durable(&self.shared).await?;
        Ok(cut)
    }

    /// Tells those that have arrived and will not depart.
    fn refuse_all(&mut self, error: Error) -> Error {
        self.shared.fail(&error);
        self.arrivals.close();
        self.take_arrivals();
        self.waiting.drain(..).for_each(|arrival| arrival.refuse(&error));
        error
    }

    async fn serve(&mut self) -> Result<()> {
        self.rate_grid.iter_mut().for_each(RateGrid::skip_missed);
        while let Some(Group { arrivals, is_last }) = self.next_group().await? {
            self.depart(arrivals).await?;
            self.rate_grid.iter_mut().for_each(RateGrid::skip_missed);
            let may_wait = || self.shared.look(|core| core.canary.puts_off_cuts());
            if is_last && !(self.cut.is_some() && may_wait()) {
                self.adopt_last().await?;
                self.begin_checkpoint().await?;
                self.rate_grid.iter_mut().for_each(RateGrid::skip_passed);
            }
        }
        Ok(())
    }

    /// What leaves next; `None` when nothing will arrive any more.
    async fn next_group(&mut self) -> Result<Option<Group>> {
        let shared = self.shared.clone();
        // Waited for over everything that ends beside: it is decided at the point at which one
        // ends, too.
        let mut decision = None;
        loop {
            let (room, has_parts) =
                shared.look(|core| (shared.room_in(core), core.plane.has_parts()));
            let (is_free, is_idle) = (self.rate_grid.is_none(), self.waiting.is_empty());
            let waits = is_free && (has_parts || !is_idle);
            let may_leave = has_parts || room > 0;
            decision = match waits && may_leave {
                true => decision.or_else(|| Some(Box::pin(shared.decision()))),
                false => None,
            };
            tokio::select! { biased;
                Some(ended) = self.beside.next() => {
                    let point = shared.grid.last_point();
                    self.take(ended?).await?;
                    // The point for which it waits may have been missed.
                    decision = decision.filter(|_| shared.grid.last_point() == point);
                }
                () = at_rate(&self.rate_grid) => {
                    let _nothing_is_taken = shared.taking.read().await;
                    if !self.rate_grid.as_mut().is_some_and(RateGrid::was_missed) {
                        return Ok(self.at_point());
                    }
                }
                arrived = self.arrivals.recv(), if is_free && !waits => match arrived {
                    Some(arrival) => self.waiting.push_back(arrival),
                    None => return Ok(None),
                },
                // It is decided at a point what leaves at the next.
                Some((point, _nothing_is_taken)) = OptionFuture::from(decision.as_mut()) => {
                    decision = None;
                    if let Some(group) = self.gather(point) {
                        return Ok(Some(group));
                    }
                }
                come = shared.until(|core| shared.room_in(core) > 0 || core.plane.has_parts()),
                    if waits && !may_leave => come?,
                come = shared.until(|core| core.plane.has_parts()),
                    if P::HAS_JOBS && is_free && !waits => come?,
            }
        }
    }

    /// At a point of the grid: always as many accesses, or none if too many are under way.
    fn at_point(&mut self) -> Option<Group> {
        let (point, accesses) =
            self.rate_grid.as_ref().map_or((0, 0), |grid| (grid.decides_at(), grid.rate.accesses));
        self.take_arrivals();
        if self.waiting.is_empty() && self.arrivals.is_closed() {
            return None;
        }
        let accesses = if self.shared.room() >= accesses { accesses } else { 0 };
        let next = |_| self.next_before(point).unwrap_or_else(Arrival::padding);
        let arrivals: Vec<Arrival> = (0..accesses).map(next).collect();
        let is_last = self.checkpoint_is_due() && !arrivals.is_empty();
        Some(Group { arrivals, is_last })
    }

    /// What has arrived, as far as there is room.
    fn gather(&mut self, point: Nanos) -> Option<Group> {
        self.take_arrivals();
        let most = self.shared.room().min(self.shared.group_max);
        let splits = self.shared.look(|core| core.canary.splits_records());
        let mut arrivals: Vec<Arrival> = Vec::new();
        while arrivals.len() < most
            && !(splits && self.is_repeated(&arrivals))
            && let Some(arrival) = self.next_before(point)
        {
            arrivals.push(arrival);
        }
        let is_last = self.checkpoint_is_due();
        let is_none = arrivals.is_empty() && !self.shared.look(|core| core.plane.has_parts());
        (!is_none).then_some(Group { arrivals, is_last })
    }

    fn take_arrivals(&mut self) {
        while let Ok(arrival) = self.arrivals.try_recv() {
            self.waiting.push_back(arrival);
        }
    }

    /// Whether the next that waits asks for a block of these.
    fn is_repeated(&self, arrivals: &[Arrival]) -> bool {
        let next = self.waiting.front();
        next.is_some_and(|next| arrivals.iter().any(|one| one.address == next.address))
    }

    /// The next that waits, if it was here when replies were last taken before `point`.
    fn next_before(&mut self, point: Nanos) -> Option<Arrival> {
        let grid = &self.shared.grid;
        let first = self.waiting.front()?;
        if grid.delivery_time(first.at) > point { None } else { self.waiting.pop_front() }
    }

    /// The record of `group`, and of what else is to go into one, leaves. There is always room for
    /// another when it returns.
    async fn depart(&mut self, group: Vec<Arrival>) -> Result<()> {
        let shared = self.shared.clone();
        if group.is_empty() && !shared.look(|core| core.plane.has_parts()) {
            return Ok(());
        }
        let behind = self.beside.records.len();
        let Record { parts, requests } = shared.step(|core| {
            let numbered = group.into_iter().map(|Arrival { address, access, reply, .. }| {
                (core.arrive(reply), address, access)
            });
            let accesses: Vec<Departing> = numbered.collect();
            core.plane.depart(accesses)
        })?;
        let record = shared.codec.encode(&parts, behind);
        shared.fault.sound()?;
        let begun = self.vault.begin_record(&record)?;
        let put = async move { Ok(begun.put().await?) };
        self.beside.records.begin(&shared.fault, put, requests).await;
        while self.beside.records.len() >= shared.shell.records_at_once {
            self.one_ends().await?;
        }
        Ok(())
    }

    /// The oldest records are durable: they count, and what they name may leave.
    async fn count(&mut self, (put, records): Landed<Vec<P::Request>>) -> Result<()> {
        self.vault.count(put).await?;
        for requests in records {
            if P::HAS_JOBS {
                self.shared.step(|core| core.plane.is_recorded())?;
            }
            let mut requests = requests.into_iter();
            let left = requests.try_for_each(|one| self.shared.departing.send(one));
            left.map_err(|_| self.shared.fault.reason())?;
        }
        Ok(())
    }

    /// Waits until every record counts.
    async fn count_all(&mut self) -> Result<()> {
        while !self.beside.records.is_empty() {
            self.one_ends().await?;
        }
        Ok(())
    }

    fn checkpoint_is_due(&self) -> bool {
        self.shared.look(|core| core.plane.cut_is_due())
    }

    /// The cut; what follows goes on beside further departures.
    async fn begin_checkpoint(&mut self) -> Result<()> {
        let (mark, sections) = match P::CUTS_QUIETLY {
            true => self.cut_state().await?,
            false => {
                self.take_what_has_come().await?;
                self.cut_now()?
            }
        };
        let (shared, writer) = (self.shared.clone(), self.vault.checkpoint_writer()?);
        self.beside.checkpoints.spawn(async move {
            let writes = async {
                shared.until(|core| core.plane.is_acknowledged(mark)).await?;
                make_durable(&shared).await?;
                shared.fault.sound()?;
                let sections = P::sections(&shared, sections);
                Ok(writer.write(sections).await?)
            };
            // Also before this task ends with departures: a piece that waits for its point is not
            // to leave.
            let written = tokio::select! { biased;
                failed = shared.fault.come() => Err(failed),
                written = writes => written,
            };
            written.inspect_err(|error: &Error| shared.fail(error))
        });
        self.cut = Some((self.vault.cut(), mark));
        Ok(())
    }

    /// Waits until no access is under way and the state can be copied, and copies it. Gives the
    /// last of what is written that it comprises.
    async fn cut_state(&mut self) -> Result<(u64, Vec<Section>)> {
        let shared = self.shared.clone();
        loop {
            self.count_all().await?;
            let is_quiet = |core: &Core<P>| {
                core.under_way.is_empty() && (core.plane.may_cut() || core.plane.has_parts())
            };
            shared.until(is_quiet).await?;
            if !shared.look(|core| core.plane.has_parts()) {
                break;
            }
            // What was begun comes to its end.
            drop(shared.decision().await);
            self.depart(Vec::new()).await?;
        }
        self.cut_now()
    }

    fn cut_now(&self) -> Result<(u64, Vec<Section>)> {
        let StateCut { due, mark, sections } = self.shared.step(|core| core.plane.cut())?;
        self.shared.send(due)?;
        Ok((mark, sections))
    }

    /// The commit record of the checkpoint leaves, if it may: every record before its cut counts,
    /// and what an earlier one superseded is gone, so that no cloud makes a heap of it.
    async fn begin_adoption(&mut self) -> Result<()> {
        let may_leave = |(cut, _): &(Cut, u64)| self.vault.covers(cut);
        if !self.beside.deletions.is_empty() || !self.cut.as_ref().is_some_and(may_leave) {
            return Ok(());
        }
        let Some((checkpoint, (cut, _))) = self.written.take().zip(self.cut) else { return Ok(()) };
        self.shared.fault.sound()?;
        let begun = self.vault.begin_adoption(cut, checkpoint)?;
        leave_now(
            &self.shared.fault,
            &mut self.beside.adoptions,
            async move { Ok(begun.put().await?) },
        )
        .await;
        Ok(())
    }

    /// The checkpoint counts from now on.
    async fn adopted(&mut self, adoption: PutAdoption) -> Result<()> {
        self.vault.end_adoption(adoption).await?;
        let (_, mark) = self.cut.take().ok_or_else(|| Error::Bug("no cut".into()))?;
        self.shared.step(|core| core.plane.has_checkpoint());
        let (shared, blobs) = (self.shared.clone(), self.vault.take_superseded());
        let deletes = async move {
            shared.fault.sound()?;
            blobs.delete().await?;
            shared.delete(|core| core.plane.superseded(mark, core.under_way.oldest())).await
        };
        self.beside.deletions.spawn(guarded(self.shared.clone(), deletes));
        Ok(())
    }

    /// The last checkpoint holds everything, and nothing else is under way.
    async fn close(self, mark: u64, sections: Vec<Section>) -> Result<()> {
        let sections = P::sections(&self.shared, sections);
        self.vault.close(sections).await?;
        self.shared.delete(|core| core.plane.superseded(mark, core.under_way.oldest())).await
    }

    /// A checkpoint now, before anything is served: what was replayed needs no replay again.
    pub async fn checkpoint(&mut self) -> Result<()> {
        self.begin_checkpoint().await?;
        self.finish().await
    }

    /// Waits until the last checkpoint counts, if it does not. It may wait for accesses whose
    /// records have not landed.
    async fn adopt_last(&mut self) -> Result<()> {
        while self.cut.is_some() {
            self.one_ends().await?;
        }
        Ok(())
    }

    /// Waits until something comes to its end that goes on beside; whether there was anything.
    async fn one_ends(&mut self) -> Result<bool> {
        let Some(ended) = self.beside.next().await else { return Ok(false) };
        self.take(ended?).await?;
        Ok(true)
    }

    /// Takes all that has come to its end: a cut does not depend on what was looked at first.
    async fn take_what_has_come(&mut self) -> Result<()> {
        while let Some(Some(ended)) = self.beside.next().now_or_never() {
            self.take(ended?).await?;
        }
        Ok(())
    }

    /// Something has come to its end that went on beside.
    async fn take(&mut self, ended: Ended<P>) -> Result<()> {
        match ended {
            Ended::Written(checkpoint) => self.written = Some(checkpoint),
            Ended::Put(adoption) => self.adopted(*adoption).await?,
            Ended::Deleted => {}
            Ended::Landed(landed) => self.count(landed).await?,
        }
        self.begin_adoption().await
    }

    /// Waits for the checkpoint that is being written, if there is one, and for all that goes on
    /// beside.
    async fn finish(&mut self) -> Result<()> {
        while self.one_ends().await? {}
        let is_over = |core: &Core<P>| {
            core.under_way.is_empty()
                && core.plane.is_acknowledged(u64::MAX)
                && core.sequencer.is_empty()
        };
        self.shared.until(is_over).await
    }
}

/// What a checkpoint refers to is durable when it is written. Of an engine with jobs it is already:
/// a commit counts only behind a barrier, and nothing else is referred to.
async fn make_durable<P: Plane>(shared: &Shared<P>) -> Result<()> {
    match P::HAS_JOBS {
        true => Ok(()),
        false => shared.store.barrier().await.map_err(blame),
    }
}

/// When it is decided what leaves at the next point of the grid, if there is one.
async fn at_rate(grid: &Option<RateGrid>) {
    match grid {
        Some(grid) => grid.grid.come(grid.decides_at()).await,
        None => std::future::pending().await,
    }
}
