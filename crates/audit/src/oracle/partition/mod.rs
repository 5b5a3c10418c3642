//! `partition`: accesses are served as they come; each reads a cell of every filled level of one
//! partition, and jobs rewrite partitions in the background.
//!
//! The machine goes by what the cloud does and sees, and by what it may know: when accesses arrive
//! and are answered, if the trace has it. It keeps the counters of every partition (`state`) and
//! carries out cuts, jobs and commits as the engine does, but for what is secret. A new store's
//! counters are public (`layout`), so what is filled is known from the first access on.
//!
//! Several records are under way at once, and which partitions one asks shows only when it counts.
//! So there are two states: that of orders and jobs goes ahead, with what counts; that of levels
//! (`pyramid`) follows, with what is shown, in the order in which things happened (`accesses`).
//!
//! | rule | what has to be | what is free in it, and its law |
//! |---|---|---|
//! | `access-per-request` | as many accesses in a message as its record has | |
//! | `cell-per-level` | one cell of every filled level that is not due, or due with quota left | the partition: uniform |
//! | `reads-merged` | of a message, cells of one chunk that follow each other are one read | |
//! | `cell-once` | a cell is read once in a generation | the cell: uniform among those unread |
//! | `early-cell` | a job writes when its cells have come and those of all accesses before it | |
//! | `job-by-durable-orders`, `job-due` | the parts of a record: every partition gets a job whose durable orders touch a stored level, first ready first, as far as the budget goes | |
//! | `job-quota` | a job reads of every source its quota, less early cells | the cells: uniform among those unread |
//! | `job-fixed` | no cell of a source after its job has begun | |
//! | `level-whole` | every destination is written, whole, in its turn | ciphertexts |
//! | `commit-after-barrier` | a commit is in a record when all was written and a barrier has passed | |
//! | `commit-before-read` | a generation is read when its commit is durable | |
//! | `superseded-deleted` | what died before a cut is deleted when its checkpoint counts, and nothing else | |
//! | `end-after-job`, `reply-time` | an access is answered when its cells have come, those of an earlier job of its partition, and all before it were | |
//! | `budget-orders`, `budget-cells` | no access at D, no job at K | |
//! | `replay-identical` | a recovery reads the same cells | |
//!
//! What is free goes to the statistics. An access all of whose levels are in a job reads nothing.
//! Its partition is public and shown by no message, so the proxy's mark says it (decision 0048):
//! for every such access of a record one, just before the record's message leaves. Without marks
//! such a trace is not followed.

mod accesses;
mod config;
mod draws;
mod engine;
mod job;
mod layout;
mod pyramid;
mod recovery;
mod state;
mod writes;

use std::collections::{BTreeMap, VecDeque};

use fogbank_env::{Nanos, Purpose, Randomness, Stream};
use fogbank_store::trace::{ChunkCells, Client, Mark, Request, Sent, TraceClock};
use fogbank_store::{ArrayShape, ChunkName};

use self::accesses::{Access, Record};
pub use self::config::PartitionConfig;
use self::config::check;
pub(super) use self::engine::NAME;
use self::layout::{Layout, is_new, version};
use self::pyramid::Pyramid;
use self::recovery::{Journalled, Replay, Saved};
use self::state::{Counters, State};
use super::blob::JOURNAL;
use super::chain::Parts;
use super::fault::{Refused, Step, Stop, fault};
use super::immediate::instants::Instants;
use super::immediate::stored::Stored;
use super::immediate::turns::Turns;
use super::immediate::{Immediate, Plane, Shell};
use super::replies::{Expected, NOT_WRITTEN};
use crate::Observer;

/// The label of the mark of an access that reads nothing: its place in its record, times 2^32, and
/// its partition.
const READS_NOTHING: &str = "reads-nothing";

/// A cell of a message: its level in one generation (`layout::name`), and its place there.
type CellSeen = (ChunkName, u16);

/// What a message of its own is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Own {
    /// The cells of all accesses of the record of this number.
    Accesses(u64),
    /// The cells of the job of this partition.
    Job(u32),
    /// What jobs write, by partition.
    Write(Vec<(u32, Vec<ChunkName>)>),
    /// The barrier behind what jobs have written.
    Barrier,
    /// What a checkpoint lacks of this partition.
    Lacking(u32),
    /// None: a moment passes.
    Nothing,
}

/// A message that is due.
#[derive(Debug)]
enum Due {
    /// Of so many accesses of the record.
    Accesses(usize),
    Job(u32),
    /// Of what a checkpoint lacks of this partition.
    Lacking(u32),
}

impl Due {
    /// The rule that is broken if it does not leave.
    fn rule(&self) -> &'static str {
        match self {
            Self::Accesses(_) => "access-per-request",
            Self::Job(_) => "job-quota",
            Self::Lacking(_) => "replay-identical",
        }
    }
}

/// What `partition` has behind what is shared.
pub(super) struct Partition {
    config: PartitionConfig,
    opening: u32,
    state: State,
    pyramids: Vec<Pyramid>,
    /// The newest checkpoint, and that of the commit under way.
    saved: Option<Saved>,
    committing: Option<Saved>,
    /// Cuts so far.
    cuts: u64,
    stored: Stored,
    /// Whether the proxy marks accesses that read nothing.
    is_marked: bool,
    turns: Turns,
    journal: BTreeMap<String, Journalled>,
    images: u64,
    /// Gives sets of cells an order.
    random: Stream,
    now: Now,
}

/// What ends with a process.
#[derive(Default)]
struct Now {
    /// The checkpoint that is being written.
    saving: Option<Saved>,
    /// Cuts whose checkpoints count: what was dead then may be deleted.
    marks: BTreeMap<u64, u64>,
    /// Arrivals without a record, and without an answer.
    waiting: usize,
    unanswered: VecDeque<(u32, u64)>,
    /// Accesses that have ended and whose answers have not left.
    due_answers: usize,
    /// Accesses under way, and the number of the first of them.
    accesses: VecDeque<Access>,
    first: u64,
    /// Records of which not everything was shown, and how many were cut.
    records: VecDeque<Record>,
    cut_records: u64,
    /// What comes without a message, and from when it counts; without a grid, at any time within
    /// the instant.
    timers: Vec<(Nanos, Own)>,
    silent: VecDeque<(Nanos, Own)>,
    /// Jobs that have begun to write; by their place among them, partitions whose jobs were
    /// written, and those that the barrier under way serves.
    begun: u64,
    acknowledged: Vec<(u64, u32)>,
    served: Vec<(u64, u32)>,
    has_barrier: bool,
    /// Those behind a barrier: their commits are due.
    written: VecDeque<u32>,
    /// Messages of what is written that are under way, and their bytes.
    windows: (u64, u64),
    replay: Replay,
}

impl Partition {
    pub fn machine(
        clock: TraceClock,
        config: &PartitionConfig,
    ) -> Result<Immediate<Self>, Refused> {
        let layout = check(clock, config)?;
        let plane = Self {
            config: config.clone(),
            opening: 0,
            state: State::new(layout, 0),
            pyramids: new_pyramids(&layout, 0),
            saved: None,
            committing: None,
            cuts: 0,
            stored: Stored::default(),
            is_marked: false,
            turns: Turns::new(config.quantum_ns, config.pace.up_bytes_per_s),
            journal: BTreeMap::new(),
            images: 0,
            random: random(0),
            now: Now::default(),
        };
        let shell = Shell {
            vault: config.vault.clone(),
            parts: Parts {
                bytes: config.part_bytes,
                most: config.parts_max,
                records_at_once: config.records_at_once,
            },
            cuts_quietly: false,
            cell_bytes: config.cell_bytes,
            quantum_ns: config.quantum_ns,
            rate: config.rate,
            clients: config.clients,
        };
        let instants = Instants::new(config.quantum_ns).whole();
        Ok(Immediate::new(shell, instants, plane))
    }

    /// Something has come.
    fn comes(&mut self, what: Own, at: Nanos) {
        if self.now.replay.is_at_hand {
            self.now.replay.under_way -= 1;
            return;
        }
        match what {
            Own::Accesses(record) => self.accesses_come(record, at),
            Own::Job(partition) => self.job_comes(partition, at),
            Own::Write(windows) => self.write_ended(&windows),
            Own::Barrier => self.barrier_ended(),
            Own::Lacking(_) | Own::Nothing => {}
        }
        self.end_accesses();
        self.jobs_are_whole();
    }
}

impl Plane for Partition {
    type Part = Own;

    /// A commit counts behind a barrier, and a checkpoint refers to nothing else.
    const IS_DURABLE: bool = true;

    fn seed(&mut self, seed: u64) {
        self.random = random(seed);
    }

    fn restart(&mut self) {
        self.now = Now::default();
        self.turns.restart();
    }

    fn array(&self, nth: usize) -> Option<(u16, ArrayShape)> {
        let level = self.state.layout.stored().nth(nth)?;
        let shape = ArrayShape {
            chunks: self.config.partitions * self.state.layout.segments(level),
            cells_per_chunk: self.state.layout.segment(level),
            cell_bytes: self.config.cell_bytes,
        };
        Some((u16::from(level) + 1, shape))
    }

    fn claimed(&mut self, opening: u32) {
        self.opening = opening;
    }

    fn begin_replay(machine: &mut Immediate<Self>) {
        machine.begin_replay();
    }

    fn arrive(&mut self, client: &Client) {
        self.now.waiting += 1;
        self.now.unanswered.push_back((client.connection, client.number));
    }

    fn answer(&mut self, client: &Client) -> Step {
        self.all_come_silent();
        self.check_answer(client)
    }

    fn have_left(&self) -> bool {
        self.now.waiting == 0
    }

    fn may_record(&self) -> bool {
        let room = self.room();
        let may_depart = match self.config.rate {
            Some(rate) => room >= rate.accesses as usize,
            None => self.now.waiting > 0 && room > 0,
        };
        may_depart || self.has_parts()
    }

    fn record(machine: &mut Immediate<Self>, name: &str, of: (usize, bool)) -> Step<(bool, bool)> {
        let (is_last, ends) = machine.plane.put_record(name, of)?;
        machine.has_departed |= ends && !of.1;
        Ok((is_last, ends))
    }

    fn has_parts(&self) -> bool {
        let may_begin = self.state.open_cells < self.config.job_cells_max;
        !self.now.written.is_empty() || (!self.state.ready.is_empty() && may_begin)
    }

    fn recorded(machine: &mut Immediate<Self>, name: &str) {
        machine.plane.record_counts(name, machine.at);
    }

    fn forget_record(&mut self, name: &str) {
        self.journal.remove(name);
    }

    fn before(machine: &mut Immediate<Self>, request: Option<&Request>) -> Result<(), Stop> {
        let is_record = |name: &str| name.starts_with(JOURNAL);
        match request {
            Some(Request::ReadCells { .. }) => {}
            Some(Request::BlobPut { name, .. }) if is_record(name) => {}
            _ => machine.plane.all_come_silent(),
        }
        match (request, machine.plane.next_due()) {
            (None, Some(Due::Accesses(_))) => machine.plane.is_followed(),
            _ => Ok(()),
        }
    }

    fn mark(
        machine: &mut Immediate<Self>,
        mark: &Mark,
        out: &mut dyn Observer,
    ) -> Result<(), Stop> {
        if mark.label == READS_NOTHING { machine.marked(mark, out) } else { Ok(()) }
    }

    fn instant_begins(machine: &mut Immediate<Self>) {
        let (at, plane) = (machine.at, &mut machine.plane);
        let come: Vec<_> = plane.now.timers.extract_if(.., |(when, _)| *when <= at).collect();
        if !come.is_empty() {
            come.into_iter().for_each(|(_, what)| plane.comes(what, at));
            machine.goes_on();
            machine.cut_if_due();
        }
    }

    fn serves(&mut self, at: Nanos) {
        self.write_again(at);
    }

    fn awaits_message(&self) -> bool {
        self.config.quantum_ns == 0 && self.next_due().is_some()
    }

    fn request(
        machine: &mut Immediate<Self>,
        sent: &Sent,
        out: &mut dyn Observer,
    ) -> Result<Option<Own>, Stop> {
        let at = machine.at;
        Ok(Some(match &sent.request {
            Request::ReadCells { reads } => {
                let (layout, asked) = (machine.plane.state.layout, cells_of(reads));
                let asked: Vec<_> = asked.collect();
                if grouped(&asked) != *reads {
                    let due = "cells of one chunk that follow each other in one read";
                    fault("reads-merged", due, format!("{} reads", reads.len()))?;
                }
                let cells: Vec<_> = asked.into_iter().map(|cell| layout.seen(cell)).collect();
                machine.read(&cells, out)?
            }
            Request::WriteChunks { writes } => machine.plane.write(at, writes, out)?,
            Request::Barrier if machine.plane.barrier_is_due() => machine.plane.barrier(),
            Request::Barrier
                if machine.checkpoint.is_none() && machine.plane.next_write().is_some() =>
            {
                let due = format!("what the jobs of {:?} write", machine.plane.next_write());
                fault("level-whole", due, "a barrier")?
            }
            _ => return Ok(None),
        }))
    }

    fn awaits_barrier(&self) -> bool {
        self.barrier_is_due()
    }

    fn expected(&self, request: &Request) -> Option<(Expected, Vec<u64>)> {
        let Request::ReadCells { reads } = request else { return None };
        let print = |(name, cell): (ChunkName, u16)| match self.stored.prints(&name) {
            Some(prints) => prints.get(usize::from(cell)).copied().unwrap_or(0),
            None if is_new(&name) => NOT_WRITTEN,
            None => 0,
        };
        Some((Expected::Cells, cells_of(reads).map(print).collect()))
    }

    fn ended(machine: &mut Immediate<Self>, part: Own) {
        machine.plane.comes(part, machine.at);
        machine.goes_on();
    }

    fn next_turn(&mut self, at: Nanos) -> Option<Nanos> {
        let timers = self.now.timers.iter().map(|(when, _)| *when).min();
        let turn = self.next_write().map(|_| self.turns.due(at)).filter(|due| *due > at);
        timers.into_iter().chain(turn).min()
    }

    fn check_settled(machine: &mut Immediate<Self>) -> Step {
        machine.plane.check_all_left(machine.at)
    }

    fn is_quiet(&self) -> bool {
        self.have_ended()
    }

    fn may_cut(&self) -> bool {
        self.state.open_cells == 0 && self.state.ready.is_empty()
    }

    fn cut(&mut self) -> u64 {
        (self.state.since_cut, self.cuts) = (0, self.cuts + 1);
        let (nth, until, counted) = (self.cuts, self.next_number(), self.last_counted());
        self.now.saving = Some(Saved { nth, until, counted, ..Saved::default() });
        self.copy_if_shown();
        nth
    }

    /// When all accesses have ended that were cut before.
    fn is_acknowledged(&self, _: u64) -> bool {
        self.now.saving.as_ref().is_none_or(|saving| self.now.first >= saving.until)
    }

    fn committing(&mut self) {
        self.committing = self.now.saving.take();
    }

    fn committed(&mut self) {
        if let Some(saved) = self.committing.take() {
            self.now.marks.insert(saved.nth, saved.mark);
            self.saved = Some(saved);
        }
    }

    fn superseded(&mut self, cut: u64, _: bool) -> Vec<ChunkName> {
        let mark = self.now.marks.remove(&cut).unwrap_or(0);
        let count = mark.saturating_sub(self.state.dropped) as usize;
        self.state.dropped += count as u64;
        self.state.dead.drain(..count.min(self.state.dead.len())).collect()
    }

    fn stored(&mut self) -> &mut Stored {
        &mut self.stored
    }

    fn check_sweep(&self, names: &[ChunkName], of: (u64, u32)) -> Step {
        self.stored.check_sweep(names, of, |name| self.state.is_current(name))
    }

    fn current(&self) -> u64 {
        self.state.current()
    }

    fn images(&self) -> u64 {
        self.images
    }
}

fn random(seed: u64) -> Stream {
    Randomness::repeatable(seed).stream(Purpose::Padding)
}

/// Partitions of a new store, made by this opening.
fn new_pyramids(layout: &Layout, opening: u32) -> Vec<Pyramid> {
    let pyramid = |p| Pyramid::new(layout, layout.first_orders(p), version(opening, 0));
    (0..layout.partitions).map(pyramid).collect()
}

/// The reads of a message: cells of one chunk that follow each other, by place, are one.
fn grouped(cells: &[(ChunkName, u16)]) -> Vec<ChunkCells> {
    let mut reads: Vec<ChunkCells> = Vec::new();
    for (chunk, cell) in cells {
        match reads.last_mut() {
            Some(last) if last.chunk == *chunk && last.cells.last() < Some(cell) => {
                last.cells.push(*cell);
            }
            _ => reads.push(ChunkCells { chunk: *chunk, cells: vec![*cell] }),
        }
    }
    reads
}

/// The cells of a message in their order, by their chunks.
fn cells_of(reads: &[ChunkCells]) -> impl Iterator<Item = (ChunkName, u16)> {
    reads.iter().flat_map(|read| read.cells.iter().map(|cell| (read.chunk, *cell)))
}
