//! What one cloud of two sees of `multicloud`: all that comes to it, of the client and of the other
//! cloud, in both of its roles.
//!
//! 1. *Reads* are numbered. Of one whose partition has no level yet nobody is told anything: so
//!    numbers are missing while there is such a partition, and no others. Of partitions whose
//!    holder this cloud is it is named one unread cell of each filled level; of the others, which
//!    of so many cells is wanted. One that is repeated, after a session has broken, is the same to
//!    the last byte.
//! 2. *Evictions* follow from the partitions of reads. Every batch of them makes a job, when the
//!    last one of the partition was committed. Which levels it reads, which it writes, how many
//!    cells each message has: all of it follows from counters.
//! 3. *A list* of a rebuild has its quota of unread cells of every level, the same on every
//!    attempt. Until the new level counts, reads are of cells on it.
//! 4. *No seed* comes twice, and no cell: neither a cell nor the XOR of two of a message was seen
//!    before, or is that of two that were (`unlinkable`).
//!
//! A further trace of the cloud goes on with the next read. Until one has come, what does not fit
//! because reads or jobs before it are unknown is told as a trace that is missing (`BY_A_GAP`).
//!
//! Free are: the partition of a read, its cells, their order, the index that is wanted, the cells
//! of a list. All else is predicted, but for times and for what of several partitions comes first.
//!
//! How messages stand in a trace is told in `docs/trace-format.md`.

mod cells;
mod config;
mod engine;
mod jobs;
mod layout;
mod partition;
mod reads;
mod said;
pub mod simulator;
mod unlinkable;

use std::collections::{BTreeMap, HashSet};

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::trace::{Event, Request};

pub use config::MulticloudConfig;
pub use engine::NAME;

use self::layout::Layout;
use self::partition::{Partition, count};
use self::reads::Read;
use self::said::Said;
use self::unlinkable::Unlinkable;
use super::fault::{Fault, Refused, Step, Stop, Summary, fault};
use super::{MIDST, Machine};
use crate::Observer;

/// Rules that what nobody was shown can break, by reads or jobs that are not known.
const BY_A_GAP: [&str; 11] = [
    "read-number",
    "cell-per-level",
    "want-per-level",
    "job-due",
    "job-sources",
    "hand-of-job",
    "list-of-job",
    "records-of-job",
    "strip-of-job",
    "upload-of-job",
    "commit-of-job",
];

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
    /// Whether any job has begun: a new volume has no level before.
    has_begun: bool,
    /// Whether this trace has not shown yet that it follows the one before it.
    may_be_later: bool,
}

impl Multicloud {
    /// A cloud of which nothing was seen yet.
    pub fn new(config: &MulticloudConfig) -> Result<Self, Refused> {
        config.check()?;
        let layout = Layout(config.clone());
        let all = (0..=u16::MAX).take(config.partitions as usize);
        let partitions = all.map(|at| Partition::new(&layout, at)).collect();
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
            has_begun: false,
            may_be_later: false,
        })
    }

    fn said(&mut self, said: Said, print: u64, out: &mut dyn Observer) -> Step {
        match said {
            Said::Look { .. } | Said::Want { .. } => self.is_read(said, print, out),
            Said::Recall { partition, job, sources } => {
                self.begins((partition, true), job, &sources)?;
                self.is_rebuild(job, &sources, false)
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
                self.is_rebuild(job, &sources, true)?;
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
        if u32::from(partition) < all {
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

    /// No seed serves two purposes.
    fn is_new_seed(&mut self, print: u64) -> Step {
        match self.seeds.insert(print) {
            true => Ok(()),
            false => fault("seed-once", "a seed that never came", format!("{print:x}")),
        }
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
            self.turn = (self.layout.after(also), 0);
            self.partitions[usize::from(also)].is_given();
            self.summary.evictions += 1;
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
        let next = self.next;
        let step = match &sent.request {
            Request::BlobPut { name, fingerprint, .. } => match Said::of(name) {
                Some(said) => self.said(said, *fingerprint, out),
                None => fault("message", "a message of the protocol", name.clone()),
            },
            Request::WriteChunks { writes } => {
                writes.iter().try_for_each(|(name, seen)| self.comes(name, seen, out))
            }
            other => fault("message", "a message of the protocol", format!("{other:?}")),
        };
        // What does not fit before any job was seen is of a volume that others have seen before.
        match step {
            Err(_) if !self.has_begun => Err(Stop::Unpredictable(MIDST)),
            Err(fault) if self.may_be_later && BY_A_GAP.contains(&fault.rule) => {
                let Fault { rule, expected, seen } = *fault;
                Err(Stop::Unfollowing(format!("{rule}: expected {expected}, and it shows {seen}")))
            }
            Err(fault) => Err(fault.into()),
            Ok(()) => {
                self.may_be_later &= self.next != next + 1;
                Ok(())
            }
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
        self.may_be_later = true;
    }

    fn summary(&self) -> Summary {
        self.summary
    }
}
