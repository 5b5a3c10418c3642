//! Which reads go into the next batch.
//!
//! 1. A record is asked for once however many wait for it; what is here or under way is not asked
//!    for again (the version cache of Obladi, section 6.3: it ends with the epoch).
//! 2. At its point of the grid a batch is frozen: first the reads of the eldest waiting program,
//!    then interactive transactions by the age of their first attempt (their epoch is running
//!    out), of which a quarter of the batch is kept for programs, then programs in the order of
//!    arrival, then hints, which fill padding only.
//! 3. All blocks of a record go into one batch. One that does not fit the rest waits at the front
//!    of its queue and is the first of the next batch; shorter ones behind it may fill the rest.
//! 4. A read that nobody waits for any more is dropped when its turn comes.
//! 5. What a program reads that needs more than an epoch's batches is asked for as hints are, but
//!    has the first claim on half of a batch: it gets on, and so does everybody else.
//!
//! Invariants: addresses within a batch are distinct, since rows hold distinct addresses and a row
//! is taken once; at most `read_batch` of them. What the cloud sees: a batch of the fixed size,
//! padded and shuffled by the engine, whatever is in it.

use std::collections::{BTreeMap, VecDeque};

use fogbank_oram::Address;

use crate::row::{Load, Row};
use crate::rows::{RowId, Rows};

/// Records looked at beyond the first that does not fit.
const LOOK_PAST_MAX: usize = 64;
/// This part of a batch is kept for programs when both kinds wait.
const PROGRAM_SHARE: usize = 4;

/// Who asks for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The eldest program.
    Eldest,
    /// The eldest program, if all batches of an epoch would not be enough for it.
    Large,
    /// An interactive transaction, by when its first attempt began.
    Interactive {
        /// Smaller goes first.
        age: u64,
    },
    /// A program.
    Program,
}

/// The read queues of one epoch.
#[derive(Debug, Default)]
pub(crate) struct Batcher {
    eldest: VecDeque<RowId>,
    interactive: BTreeMap<(u64, u64), RowId>,
    programs: VecDeque<RowId>,
    hints: VecDeque<RowId>,
    asked: u64,
    blocks_queued: usize,
}

/// A frozen batch: the rows in it and all their addresses in order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The rows.
    pub rows: Vec<RowId>,
    /// Their addresses, one after another.
    pub addresses: Vec<Address>,
}

impl Batcher {
    /// Asks for a record that is not here. One more waits for it.
    pub(crate) fn ask(&mut self, rows: &mut Rows, id: RowId, asker: Asker) {
        let row = rows.get_mut(id);
        row.interest += 1;
        match row.load {
            Load::Here(_) | Load::InFlight => return,
            Load::Cold if asker == Asker::Large => {
                row.load = Load::Hinted;
                return self.hints.push_back(id);
            }
            // Somebody else has asked for it, and is served sooner.
            Load::Hinted | Load::Queued if asker == Asker::Large => return,
            Load::Cold | Load::Hinted => {
                row.load = Load::Queued;
                self.blocks_queued += row.base_blocks();
            }
            // Asked for before: only an asker who goes ahead of that one queues it again.
            Load::Queued if asker == Asker::Program => return,
            Load::Queued => {}
        }
        match asker {
            Asker::Eldest | Asker::Large => self.eldest.push_back(id),
            Asker::Interactive { age } => {
                self.asked += 1;
                self.interactive.insert((age, self.asked), id);
            }
            Asker::Program => self.programs.push_back(id),
        }
    }

    /// One fewer waits for a record.
    pub(crate) fn abandon(&mut self, rows: &mut Rows, id: RowId) {
        let row = rows.get_mut(id);
        row.interest = row.interest.saturating_sub(1);
        if row.interest == 0 && row.load == Load::Queued {
            row.load = Load::Cold;
            self.blocks_queued -= row.base_blocks();
        }
    }

    /// A record that may fill padding.
    pub(crate) fn hint(&mut self, rows: &mut Rows, id: RowId) {
        let row = rows.get_mut(id);
        if row.load == Load::Cold {
            row.load = Load::Hinted;
            self.hints.push_back(id);
        }
    }

    /// Blocks that somebody waits for and that are in no batch yet.
    pub(crate) fn blocks_queued(&self) -> usize {
        self.blocks_queued
    }

    /// Takes the next batch of at most `size` blocks; so many of them are for hints before anything
    /// else.
    pub(crate) fn freeze(&mut self, rows: &mut Rows, size: usize, hints_first: usize) -> Batch {
        let mut filling = Filling { batch: Batch::default(), size };
        filling.take_queue(&mut self.hints, rows, hints_first, Load::Hinted);
        let hinted = filling.batch.addresses.len();
        filling.take_queue(&mut self.eldest, rows, size, Load::Queued);
        let kept = if self.programs.is_empty() { 0 } else { size / PROGRAM_SHARE };
        filling.take_map(&mut self.interactive, rows, size - kept);
        filling.take_queue(&mut self.programs, rows, size, Load::Queued);
        filling.take_map(&mut self.interactive, rows, size);
        self.blocks_queued -= filling.batch.addresses.len() - hinted;
        filling.take_queue(&mut self.hints, rows, size, Load::Hinted);
        filling.batch
    }
}

struct Filling {
    batch: Batch,
    size: usize,
}

enum Turn {
    Taken,
    NotWanted,
    DoesNotFit,
}

impl Filling {
    fn take_queue(
        &mut self,
        queue: &mut VecDeque<RowId>,
        rows: &mut Rows,
        up_to: usize,
        wanted: Load,
    ) {
        let mut passed = Vec::new();
        while self.batch.addresses.len() < up_to && passed.len() < LOOK_PAST_MAX {
            let Some(id) = queue.pop_front() else { break };
            if matches!(self.turn(rows.get_mut(id), id, up_to, &wanted), Turn::DoesNotFit) {
                passed.push(id);
            }
        }
        passed.into_iter().rev().for_each(|id| queue.push_front(id));
    }

    fn take_map(&mut self, queue: &mut BTreeMap<(u64, u64), RowId>, rows: &mut Rows, up_to: usize) {
        let mut passed = Vec::new();
        while self.batch.addresses.len() < up_to && passed.len() < LOOK_PAST_MAX {
            let Some((place, id)) = queue.pop_first() else { break };
            if matches!(self.turn(rows.get_mut(id), id, up_to, &Load::Queued), Turn::DoesNotFit) {
                passed.push((place, id));
            }
        }
        queue.extend(passed);
    }

    fn turn(&mut self, row: &mut Row, id: RowId, up_to: usize, wanted: &Load) -> Turn {
        if row.load != *wanted {
            return Turn::NotWanted;
        }
        let Some(base) = &row.base else { return Turn::NotWanted };
        if self.batch.addresses.len() + base.blocks.len() > up_to.min(self.size) {
            return Turn::DoesNotFit;
        }
        self.batch.addresses.extend(&base.blocks);
        self.batch.rows.push(id);
        row.load = Load::InFlight;
        Turn::Taken
    }
}
