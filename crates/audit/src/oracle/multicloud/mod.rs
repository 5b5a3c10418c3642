//! What one cloud of two sees of `multicloud`: all that comes to it, of the client and of the other
//! cloud, in both of its roles.
//!
//! 1. *Reads* are numbered. Of one whose partition has no level yet nobody is told anything: so numbers
//!    are missing while there is such a partition, and no others. Of partitions whose holder this cloud is it is named one
//!    unread cell of each filled level; of the others, which of so many cells is wanted. One that is
//!    repeated, after a session has broken, is the same to the last byte.
//! 2. *Evictions* follow from the partitions of reads. Every batch of them makes a job, when the last
//!    one of the partition was committed. Which levels it reads, which it writes, how many cells each
//!    message has: all of it follows from counters.
//! 3. *A list* of a rebuild has its quota of unread cells of every level, the same on every attempt.
//!    Until the new level counts, reads are of cells on it.
//! 4. *No seed* comes twice, and no cell: neither a cell nor the XOR of two of a message was seen
//!    before, or is that of two that were (`unlinkable`).
//!
//! Free are: the partition of a read, its cells, their order, the index that is wanted, the cells of a
//! list. All else is predicted, but for times and for what of several partitions comes first.
//!
//! How messages stand in a trace is told in `docs/trace-format.md`.

mod config;
mod engine;
mod layout;
mod partition;
mod said;
pub mod simulator;
mod unlinkable;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::trace::{ChunkSeen, Event, Request};
use fogbank_store::{ArrayId, ChunkName};

pub use config::MulticloudConfig;
pub use engine::NAME;

use self::layout::Layout;
use self::partition::{Partition, count};
use self::said::{Named, Said};
use self::unlinkable::Unlinkable;
use super::Machine;
use super::fault::{Refused, Step, Stop, Summary, fault};
use super::shape::below;
use crate::{Observation, Observer};

/// Reads whose messages are kept to compare them with repetitions.
const REPEATED_MAX: u64 = 4096;
/// Every so many accesses the next partition in turn gets an eviction more.
const TURN_EVERY: u8 = 4;

/// See the module.
pub(super) struct Multicloud {
    layout: Layout,
    random: Stream,
    /// The number of the next read.
    next: u64,
    /// Whether any partition had no level when it came.
    had_empty: bool,
    /// What came of the last ones.
    reads: BTreeMap<u64, Read>,
    turn: (u16, u8),
    partitions: Vec<Partition>,
    seeds: HashSet<u64>,
    unlinkable: Unlinkable,
    /// The last place of the client's journal.
    reached: (u64, u64),
    summary: Summary,
}

/// What came of a read.
struct Read {
    said: Said,
    print: u64,
    /// Cells that the other cloud sent for it, if any.
    blinded: Option<(usize, u64)>,
}

impl Multicloud {
    /// A cloud of which nothing was seen yet.
    pub fn new(config: &MulticloudConfig) -> Result<Self, Refused> {
        config.check()?;
        let layout = Layout(config.clone());
        let partitions = (0..config.partitions).map(|at| Partition::new(&layout, at)).collect();
        Ok(Self {
            unlinkable: Unlinkable::default(),
            layout,
            random: Randomness::repeatable(0).stream(Purpose::Shuffle),
            next: 0,
            had_empty: true,
            reads: BTreeMap::new(),
            turn: (0, 0),
            partitions,
            seeds: HashSet::new(),
            reached: (0, 0),
            summary: Summary { openings: 1, ..Summary::default() },
        })
    }

    fn said(&mut self, said: Said, print: u64, out: &mut dyn Observer) -> Step {
        match said {
            Said::Look { read, partition, .. } | Said::Want { read, partition, .. } => {
                self.is_known(partition)?;
                let is_look = matches!(said, Said::Look { .. });
                self.has_role(partition, is_look)?;
                if self.is_repeated(read, &said, print)? {
                    return Ok(());
                }
                self.observe_partition(read, partition, out)?;
                match &said {
                    Said::Look { places, .. } => {
                        self.is_new_seed(print)?;
                        self.looks(partition, places, out)?;
                    }
                    Said::Want { cells, index, .. } => {
                        self.wants((read, partition), (*cells, *index), out)?;
                    }
                    _ => {}
                }
                self.gives_evictions(partition);
                let blinded = self.reads.get(&read).and_then(|read| read.blinded);
                self.reads.insert(read, Read { said, print, blinded });
                self.fits_blinded(read)?;
                while self.reads.first_key_value().is_some_and(|(at, _)| at + REPEATED_MAX <= read)
                {
                    self.reads.pop_first();
                }
                if self.had_empty {
                    self.partitions.iter_mut().for_each(Partition::looks_at_itself);
                    self.had_empty = self.partitions.iter().any(|of| of.was_empty);
                }
                Ok(())
            }
            Said::Recall { partition, job, sources } => {
                self.begins((partition, true), job, &sources)?;
                self.is_rebuild(job, false)?;
                Ok(())
            }
            // Of a job that was named: the shuffler has lost what it kept.
            Said::Hand { partition, job, sources } => {
                self.has_role(partition, true)?;
                self.of(partition)?.job("hand-of-job", job)?;
                let at = usize::from(partition);
                self.partitions[at].reads(&self.layout, (partition, true), (job, &sources))
            }
            Said::List { partition, job, sources, marks, fetches } => {
                self.begins((partition, true), job, &sources)?;
                self.is_rebuild(job, true)?;
                if fetches != self.layout.refreshes(count(job)) {
                    return fault("refresh-every", "every R-th rebuild", job.to_string());
                }
                if !fetches {
                    self.is_new_seed(print)?;
                }
                self.lists((partition, job), &sources, &marks, out)
            }
            Said::Records { partition, job, count: records } => {
                self.has_role(partition, true)?;
                let due = self.layout.size(self.layout.written(count(job)), count(job)) + 1;
                if records != due {
                    return fault("records-per-cell", due.to_string(), records.to_string());
                }
                self.of(partition)?.job("records-of-job", job)?.is_ready = true;
                Ok(())
            }
            Said::Mix { partition, job, level, sources } => {
                self.begins((partition, false), job, &sources)?;
                self.is_new_seed(print)?;
                let due = self.layout.written(count(job));
                if level == due {
                    Ok(())
                } else {
                    fault("job-level", due.to_string(), level.to_string())
                }
            }
            Said::Strip { partition, job } => {
                self.has_role(partition, false)?;
                self.of(partition)?.job("strip-of-job", job).map(|_| ())
            }
            Said::Commit { partition, job } => {
                self.is_known(partition)?;
                self.summary.epochs += 1;
                self.partitions[usize::from(partition)].commits(&self.layout, job)
            }
            Said::Reached { epoch, place } => {
                if (epoch, place) < self.reached {
                    let seen = format!("{epoch}/{place}");
                    return fault("journal-goes-on", format!("{:?}", self.reached), seen);
                }
                self.reached = (epoch, place);
                Ok(())
            }
        }
    }

    fn is_known(&self, partition: u16) -> Step {
        let all = self.layout.0.partitions;
        if partition < all {
            Ok(())
        } else {
            fault("partition", all.to_string(), partition.to_string())
        }
    }

    fn of(&mut self, partition: u16) -> Step<&mut Partition> {
        self.is_known(partition)?;
        Ok(&mut self.partitions[usize::from(partition)])
    }

    /// Of every other partition a cloud is the holder, of the others the shuffler.
    fn has_role(&self, partition: u16, holder: bool) -> Step {
        let is_holder = partition % 2 == u16::from(self.layout.0.cloud);
        match is_holder == holder {
            true => Ok(()),
            false => fault("role", "the role of this cloud", partition.to_string()),
        }
    }

    /// Reads come in their order; one that came before is the same.
    fn is_repeated(&self, read: u64, said: &Said, print: u64) -> Step<bool> {
        if read >= self.next {
            return match read == self.next || self.had_empty {
                true => Ok(false),
                false => fault("read-number", self.next.to_string(), read.to_string()),
            };
        }
        match self.reads.get(&read) {
            Some(before) if before.said != *said || before.print != print => {
                fault("replay-identical", format!("{:?}", before.said), format!("{said:?}"))
            }
            _ => Ok(true),
        }
    }

    fn observe_partition(&mut self, read: u64, partition: u16, out: &mut dyn Observer) -> Step {
        for _ in self.next..read {
            self.partitions.iter_mut().for_each(Partition::may_be_given);
            self.turns();
            self.summary.accesses += 1;
        }
        if self.had_empty {
            self.partitions.iter_mut().try_for_each(Partition::settles)?;
        }
        self.next = read + 1;
        self.summary.accesses += 1;
        out.observe(&Observation::Path {
            epoch: 0,
            batch: read,
            access: read,
            leaf: partition.into(),
            whole: true,
            shown: true,
            stretch: read,
        });
        Ok(())
    }

    /// No seed serves two purposes.
    fn is_new_seed(&mut self, print: u64) -> Step {
        match self.seeds.insert(print) {
            true => Ok(()),
            false => fault("seed-once", "a seed that never came", format!("{print:x}")),
        }
    }

    /// One unread cell of each level that is filled; while a list is out, one of it.
    fn looks(&mut self, partition: u16, places: &[(u8, u64, u32)], out: &mut dyn Observer) -> Step {
        let (layout, of) = (&self.layout, &mut self.partitions[usize::from(partition)]);
        // From now on the level of the job, if it is named.
        let names_new = of.job.as_ref().is_some_and(|job| {
            job.is_ready && places.iter().any(|(_, written, _)| *written == job.job)
        });
        if names_new {
            of.takes_new(layout);
        }
        let mut named: Vec<Named> = places.iter().map(|(level, job, _)| (*level, *job)).collect();
        named.sort_unstable();
        let filled: Vec<Named> = of.levels.iter().map(|(level, of)| (*level, of.job)).collect();
        if named != filled {
            return fault("cell-per-level", format!("{filled:?}"), format!("{named:?}"));
        }
        let list = of.job.as_ref().filter(|job| !job.counts).and_then(|job| job.list.clone());
        for (level, job, place) in places {
            let Some(held) = of.levels.get_mut(level) else { continue };
            let listed = list.as_ref().and_then(|list| list.get(level));
            if !held.unread.contains(place) {
                return fault("cell-once", "an unread cell", format!("{level}.{job}.{place}"));
            }
            if listed.is_some_and(|listed| !listed.contains(place)) {
                return fault(
                    "cell-listed",
                    "a cell on the list",
                    format!("{level}.{job}.{place}"),
                );
            }
            let may = |cell: &&u32| listed.is_none_or(|listed| listed.contains(*cell));
            let unread = held.unread.iter().filter(may).count() as u16;
            let rank = held.unread.range(..place).filter(may).count() as u16;
            out.observe(&Observation::PathCell {
                chunk: partition.into(),
                level: *level,
                version: *job,
                nth: held.reads,
                cell: *place as u16,
                unread,
                rank,
            });
            held.unread.remove(place);
            held.reads += 1;
            self.summary.cells_read += 1;
        }
        self.observe_order(partition, places, out);
        Ok(())
    }

    /// The order in which levels are named is a draw among all orders.
    fn observe_order(&self, partition: u16, places: &[(u8, u64, u32)], out: &mut dyn Observer) {
        let (mut rank, mut all) = (0u32, 1u32);
        if places.len() > 5 {
            return; // more orders than are counted
        }
        for (at, (level, ..)) in places.iter().enumerate() {
            let before = places[..at].iter().filter(|(other, ..)| other > level).count() as u32;
            rank += before * all;
            all *= at as u32 + 1;
        }
        self.observe_draw(partition, (all, rank), out);
    }

    /// One of so many was drawn that is no cell.
    fn observe_draw(&self, partition: u16, (of, rank): (u32, u32), out: &mut dyn Observer) {
        out.observe(&Observation::PathCell {
            chunk: partition.into(),
            level: self.layout.0.levels.min(15),
            version: self.next,
            nth: 0,
            cell: rank as u16,
            unread: of as u16,
            rank: rank as u16,
        });
    }

    /// As many cells as levels are filled, or will be when the job under way counts.
    fn wants(
        &mut self,
        (read, partition): (u64, u16),
        (cells, index): (u32, u32),
        out: &mut dyn Observer,
    ) -> Step {
        let of = &self.partitions[usize::from(partition)];
        let filled = |done: u64| self.layout.filled(partition, done).len() as u32;
        let next = of.job.as_ref().filter(|job| job.is_ready).map(|job| filled(count(job.job)));
        if cells != filled(of.done) && Some(cells) != next {
            let due = format!("{} or {next:?}", filled(of.done));
            return fault("want-per-level", due, format!("{cells} of read {read}"));
        }
        if index >= cells.max(1) {
            return fault("want-index", format!("below {cells}"), index.to_string());
        }
        self.observe_draw(partition, (cells.max(1), index), out);
        Ok(())
    }

    fn gives_evictions(&mut self, partition: u16) {
        self.partitions[usize::from(partition)].is_given();
        self.summary.evictions += 1;
        self.turns();
    }

    /// Another access: from time to time the next partition in turn gets an eviction more.
    fn turns(&mut self) {
        self.turn.1 += 1;
        if self.turn.1 == TURN_EVERY {
            let also = self.turn.0;
            self.turn = ((also + 1) % self.layout.0.partitions, 0);
            self.partitions[usize::from(also)].is_given();
            self.summary.evictions += 1;
        }
    }

    fn begins(&mut self, (partition, holder): (u16, bool), job: u64, sources: &[Named]) -> Step {
        self.is_known(partition)?;
        self.has_role(partition, holder)?;
        let of = &mut self.partitions[usize::from(partition)];
        of.begins(&self.layout, job)?;
        of.reads(&self.layout, (partition, holder), (job, sources))
    }

    /// Only a rebuild of the top that reads anything has a list.
    fn is_rebuild(&self, job: u64, has_list: bool) -> Step {
        let is_top = self.layout.written(count(job)) == self.layout.top();
        match has_list && !is_top {
            false => Ok(()),
            true => fault("list-of-rebuild", "a job that reads whole levels", job.to_string()),
        }
    }

    /// Of each level its quota of unread cells, the same on every attempt.
    fn lists(
        &mut self,
        (partition, job): (u16, u64),
        sources: &[Named],
        marks: &[u64],
        out: &mut dyn Observer,
    ) -> Step {
        let has = |cell: u32| {
            marks.get(cell as usize / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1)
        };
        let (mut list, mut first) = (BTreeMap::new(), 0);
        for (level, written) in sources {
            let size = self.layout.size(*level, count(*written));
            let cells: BTreeSet<u32> = (0..size).filter(|cell| has(first + cell)).collect();
            let quota = self.layout.quota(*level);
            if cells.len() as u32 != quota {
                return fault("list-quota", quota.to_string(), cells.len().to_string());
            }
            list.insert(*level, cells);
            first += size;
        }
        let of = &mut self.partitions[usize::from(partition)];
        let before = of.job("list-of-job", job)?.list.replace(list.clone());
        if let Some(before) = before {
            return match before == list {
                true => Ok(()),
                false => fault("list-same", "the list of the first attempt", job.to_string()),
            };
        }
        if is_later_attempt(job) {
            // What it was told of the first was lost, and reads on the list came since: they are shown
            // before it here.
            return Ok(());
        }
        for (level, cells) in list {
            let held = &self.partitions[usize::from(partition)].levels[&level];
            if let Some(read) = cells.iter().find(|cell| !held.unread.contains(cell)) {
                return fault("list-unread", "unread cells", format!("{level}: {read}"));
            }
            // In a random order each is uniform among those left, if the set is.
            let (mut left, mut drawn): (Vec<u32>, Vec<u32>) =
                (held.unread.iter().copied().collect(), cells.into_iter().collect());
            while !drawn.is_empty() {
                let cell = drawn.swap_remove(below(&mut self.random, drawn.len() as u32) as usize);
                let Ok(rank) = left.binary_search(&cell) else { continue };
                out.observe(&Observation::PathCell {
                    chunk: partition.into(),
                    level,
                    version: held.job,
                    nth: held.reads,
                    cell: cell as u16,
                    unread: left.len() as u16,
                    rank: rank as u16,
                });
                left.remove(rank);
            }
        }
        Ok(())
    }

    /// Cells come: how many there are follows from counters, and none was seen before.
    fn comes(&mut self, name: &ChunkName, seen: &ChunkSeen, out: &mut dyn Observer) -> Step {
        let (partition, job, cells) = (name.chunk as u16, name.version, &seen.fingerprints);
        let size = self.layout.size(self.layout.written(count(job)), count(job)) as usize;
        let ArrayId(kind) = name.array;
        let (is_holder, due) = match kind {
            UPLOAD => {
                self.has_role(partition, false)?;
                self.of(partition)?.job("upload-of-job", job)?.is_ready = true;
                (false, self.layout.uploads(count(job)) as usize)
            }
            BLINDED => {
                let each = u64::from(self.layout.0.cell_bytes);
                if each * cells.len() as u64 != seen.bytes {
                    return fault("cell-bytes", each.to_string(), seen.bytes.to_string());
                }
                return self.blinded(job, cells, out);
            }
            MOVED => {
                let sources = self.layout.sources(partition, count(job));
                let quotas = sources.iter().map(|(level, _)| self.layout.quota(*level));
                (false, quotas.sum::<u32>() as usize)
            }
            HANDED => {
                let sources = self.layout.sources(partition, count(job));
                let sizes =
                    sources.iter().map(|(level, written)| self.layout.size(*level, *written));
                (false, sizes.sum::<u32>() as usize)
            }
            LEVEL => (true, size),
            _ => return fault("kind", "what a cloud is sent", kind.to_string()),
        };
        self.is_known(partition)?;
        self.has_role(partition, is_holder)?;
        if cells.len() != due {
            return fault("cells-by-counters", due.to_string(), cells.len().to_string());
        }
        // What was handed over is as it was stored: the shuffler made it, and knows every byte.
        if kind != HANDED {
            self.unlinkable.comes(cells)?;
            out.observe(&Observation::Image {
                chunk: partition.into(),
                version: job,
                fingerprints: cells,
            });
        }
        self.summary.images += 1;
        Ok(())
    }

    /// The cells of a read, which may come before it is named, and again.
    fn blinded(&mut self, read: u64, cells: &[u64], out: &mut dyn Observer) -> Step {
        let print = cells.iter().fold(0u64, |all, print| all.rotate_left(7) ^ print);
        let came = (cells.len(), print);
        let known = self.reads.get(&read).and_then(|read| read.blinded);
        if known.is_some_and(|known| known != came) {
            return fault("blinded-identical", format!("{known:?}"), format!("{came:?}"));
        }
        if known.is_some() || read + REPEATED_MAX < self.next {
            return Ok(());
        }
        self.unlinkable.comes(cells)?;
        out.observe(&Observation::Image { chunk: 0, version: read, fingerprints: cells });
        match self.reads.get_mut(&read) {
            Some(of) => of.blinded = Some(came),
            None => {
                let said = Said::Reached { epoch: 0, place: 0 }; // not named yet
                self.reads.insert(read, Read { said, print: 0, blinded: Some(came) });
            }
        }
        self.fits_blinded(read)
    }

    fn fits_blinded(&self, read: u64) -> Step {
        let Some(Read { said: Said::Want { cells, .. }, blinded: Some((came, _)), .. }) =
            self.reads.get(&read)
        else {
            return Ok(());
        };
        match *cells as usize == *came {
            true => Ok(()),
            false => fault("cells-by-counters", cells.to_string(), came.to_string()),
        }
    }
}

impl Machine for Multicloud {
    fn seed(&mut self, seed: u64) {
        self.random = Randomness::repeatable(seed).stream(Purpose::Shuffle);
    }

    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        let Event::Sent(sent) = event else { return Ok(()) };
        self.summary.requests += 1;
        match &sent.request {
            Request::BlobPut { name, fingerprint, .. } => {
                let Some(said) = Said::of(name) else {
                    return Ok(fault("message", "a message of the protocol", name.clone())?);
                };
                Ok(self.said(said, *fingerprint, out)?)
            }
            Request::WriteChunks { writes } => {
                Ok(writes.iter().try_for_each(|(name, seen)| self.comes(name, seen, out))?)
            }
            other => Ok(fault("message", "a message of the protocol", format!("{other:?}"))?),
        }
    }

    fn end_trace(&mut self, _: &mut dyn Observer) -> Result<(), Stop> {
        // Jobs that are due begin with the access that makes them so.
        for (at, of) in self.partitions.iter().enumerate() {
            if of.job.is_none() && of.given >= of.done + 2 * self.layout.batch() {
                let (due, given) = (of.done + self.layout.batch(), of.given);
                return Ok(fault(
                    "job-due",
                    format!("the job to {due} of {at}"),
                    given.to_string(),
                )?);
            }
        }
        Ok(())
    }

    fn next_trace(&mut self) {
        self.summary.openings += 1;
    }

    fn summary(&self) -> Summary {
        self.summary
    }
}

fn is_later_attempt(job: u64) -> bool {
    job & 0xffff > 0
}

/// Kinds of what has cells.
const UPLOAD: u16 = 0;
const BLINDED: u16 = 1;
const MOVED: u16 = 2;
const HANDED: u16 = 3;
const LEVEL: u16 = 4;
