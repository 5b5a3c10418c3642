//! `tao`: accesses are served as they come, many at once. Free are leaves and ciphertexts.
//!
//! The machine goes by what the cloud does and sees, and by what it may know: when accesses arrive and
//! are answered, if the trace has it. From that follow, in virtual time and to the record:
//!
//! 1. Journal records, with so many parts as accesses wait and there is room for, one at a time; and that
//!    their paths leave when a record is durable, at once or at the link's pace (`accesses`, `turns`).
//! 2. The buckets that a path names, and in which versions (`tree`, `subtree`).
//! 3. Write-backs: after which replies, of which buckets, in which messages (`writebacks`).
//! 4. Cuts, checkpoints, deletions, closes (`checkpoints`); points of a fixed rate (`grid`).
//! 5. That answers leave at the last reply to any path up to their own (T3).
//! 6. What an opening reads again after a stop (`recovery`).
//!
//! What is due *at once* may come anywhere within its instant, and so in any order with what else is due
//! in it; of a proxy that keeps to a grid the instants are its points (`instants`). Nothing else is
//! tolerated; so traces by a real clock, in which work takes time, are refused.

mod accesses;
mod checkpoints;
mod config;
mod done;
mod engine;
mod grid;
mod instants;
mod opening;
mod recovery;
mod sent;
mod subtree;
mod tree;
mod turns;
mod writebacks;

use std::collections::BTreeMap;

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::{Event, TraceClock};

use self::accesses::Accesses;
use self::checkpoints::{Checkpoint, Deletion};
pub use self::config::TaoConfig;
use self::config::check;
pub(super) use self::engine::NAME;
use self::grid::Grid;
use self::instants::Instants;
use self::recovery::{Journalled, Replay};
use self::tree::{Shown, Tree};
use self::writebacks::WriteBacks;
use super::blob::Kept;
use super::chain::{Chain, Parts};
use super::fault::{Refused, Step, Stop, Summary, fault};
use super::{LIE, MIDST, Machine, replies};
use crate::Observer;

/// What is due in the life of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The vault's calls, one after the other, and the array.
    Opening,
    Replaying,
    /// The checkpoint after a replay.
    Recovering,
    SweepList,
    SweepDelete(u64),
    Serving,
    Closing,
    Ended,
}

/// What a request is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Opening,
    /// A piece or record of which it is known what it holds.
    Fetch(Kept),
    Array,
    SweepList,
    SweepDelete,
    Record(String),
    Path((u64, usize), Shown),
    Again,
    Images((u64, usize)),
    Barrier,
    Piece(String, bool),
    Commit,
    Blobs(u64),
    Chunks(u64),
    /// The look at what became of a put, and the barrier after it.
    Look,
    Settled,
    /// It left at the instant at which silence began: before the proxy saw why, perhaps.
    Unchecked,
}

type Waiting = replies::Waiting<Part>;

/// Why a pace may be too slow to be followed (`turns`).
const SLOW: &str = "while buckets are written for the first time nobody can tell at this pace which message of a \
                    write-back is its last";

/// A put of unknown outcome.
#[derive(Debug, Clone)]
struct Doubt {
    name: String,
    kept: Kept,
    part: Part,
    /// Whether our bytes were seen to be there.
    ours: bool,
    under_way: bool,
}

/// The machine.
pub(super) struct Tao {
    config: TaoConfig,
    stage: Stage,
    chain: Chain,
    tree: Tree,
    accesses: Accesses,
    write_backs: WriteBacks,
    grid: Grid,
    /// Whether a record is on its way.
    is_recording: bool,
    /// Whether departures have ended: the store is about to be closed.
    has_departed: bool,
    /// Whether there was room for a record when this instant began.
    had_room: bool,
    /// Whether a cut comes after the record that is on its way.
    is_last: bool,
    cut_due: bool,
    cut_after: u64,
    checkpoint: Option<Checkpoint>,
    deletions: Vec<Deletion>,
    /// The versions of the newest checkpoint, and of the one that is being committed.
    saved: Vec<u64>,
    saving: Option<Vec<u64>>,
    /// By name: what was seen of records that the newest checkpoint may not hold.
    journal: BTreeMap<String, Journalled>,
    replay: Replay,
    /// What the sweep deletes.
    swept: Vec<ChunkName>,
    waiting: Vec<Waiting>,
    doubts: Vec<Doubt>,
    oriented: bool,
    /// Nothing may leave any more, by which rule.
    silent: Option<(&'static str, Nanos)>,
    at: Nanos,
    instants: Instants,
    is_ending: bool,
    summary: Summary,
}

impl Tao {
    pub fn new(clock: TraceClock, config: &TaoConfig) -> Result<Self, Refused> {
        let shape = check(clock, config)?;
        let parts = Parts { bytes: config.part_bytes, most: config.parts_max };
        Ok(Self {
            config: config.clone(),
            stage: Stage::Opening,
            chain: Chain::cutting(config.vault.clone(), parts),
            tree: Tree::new(shape, config.array, config.quantum_ns > 0),
            accesses: Accesses::new(config),
            write_backs: WriteBacks::new(config),
            grid: Grid::new(config),
            is_recording: false,
            has_departed: false,
            had_room: false,
            is_last: false,
            cut_due: false,
            cut_after: 0,
            checkpoint: None,
            deletions: Vec::new(),
            saved: vec![0; shape.buckets() as usize],
            saving: None,
            journal: BTreeMap::new(),
            replay: Replay::default(),
            swept: Vec::new(),
            waiting: Vec::new(),
            doubts: Vec::new(),
            oriented: false,
            silent: None,
            at: 0,
            instants: Instants::new(config.quantum_ns),
            is_ending: false,
            summary: Summary::default(),
        })
    }
}

impl Machine for Tao {
    fn seed(&mut self, seed: u64) {
        self.tree.seed(seed);
    }

    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        let known = self.instants.take(event)?;
        known.iter().try_for_each(|(at, event)| self.take(*at, event, out))
    }

    fn end_trace(&mut self, out: &mut dyn Observer) -> Result<(), Stop> {
        // What was decided in the last quantum may not have left any more.
        self.is_ending = true;
        let known = self.instants.end();
        known.iter().try_for_each(|(at, event)| self.take(*at, event, out))
    }

    fn next_trace(&mut self) {
        self.summary.crashes += u32::from(self.chain.up);
        self.chain.stop();
        self.waiting.clear();
        self.doubts.clear();
        self.accesses.restart();
        self.write_backs.restart();
        self.tree.subtree.restart();
        self.deletions.clear();
        self.replay = Replay::default();
        self.journal.values_mut().for_each(|record| record.number = None);
        self.grid = Grid::new(&self.config);
        self.stage = Stage::Opening;
        (self.checkpoint, self.silent) = (None, None);
        (self.is_recording, self.has_departed) = (false, false);
        (self.is_last, self.cut_due, self.is_ending) = (false, false, false);
        (self.cut_after, self.at) = (0, 0);
    }

    fn summary(&self) -> Summary {
        Summary { images: self.write_backs.images, ..self.summary }
    }
}

/// Instants.
impl Tao {
    /// Takes an event that counts from `at`.
    fn take(&mut self, at: Nanos, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        while at > self.at {
            let next = self.next_turn().map_or(at, |turn| turn.min(at));
            self.instant_ends(next)?;
            self.at = next;
            self.had_room = self.may_record();
        }
        match event {
            Event::Sent(sent) => self.sent(sent, out),
            Event::Done(done) => self.done(done),
            Event::Mark(mark) if mark.label == LIE => {
                self.silence("silence-after-a-lie");
                self.summary.lies += 1;
                Ok(())
            }
            Event::ClientRequest(client) => {
                self.accesses.arrive(client);
                Ok(())
            }
            Event::ClientReply(client) if self.silent.is_none() => {
                Ok(self.accesses.answer(client)?)
            }
            Event::Mark(_) | Event::ClientReply(_) => Ok(()),
        }
    }

    /// When something may leave that waits for its turn alone.
    fn next_turn(&mut self) -> Option<Nanos> {
        let turns = [self.accesses.turn_after(self.at), self.write_backs.turn_after(self.at)];
        turns.into_iter().flatten().min()
    }

    /// Whatever was due at once has to have come.
    fn instant_ends(&mut self, next: Nanos) -> Step {
        if self.silent.is_some() || self.stage == Stage::Opening {
            return Ok(());
        }
        let tree = (&mut self.tree, self.accesses.put);
        self.write_backs.close_full(self.at, None, tree)?;
        self.take_paths();
        self.decide_deletions();
        self.recovered();
        if self.is_ending {
            return Ok(());
        }
        self.accesses.check_settled(self.at)?;
        self.write_backs.check_settled(self.at)?;
        let may_end = self.instants.may_end_after(self.at);
        self.check_checkpoint_settled(may_end)?;
        if may_end { Ok(()) } else { self.check_record_left(next) }
    }

    /// Paths for which there is room.
    pub(super) fn room(&self) -> usize {
        match self.write_backs.under_way() < self.config.write_backs_max as usize {
            true => self.accesses.room(),
            false => 0,
        }
    }

    /// Whether a record of what waits could leave, as far as room goes.
    fn may_record(&self) -> bool {
        self.accesses.may_record(self.room())
    }

    /// Records that were due before `next`.
    fn check_record_left(&mut self, next: Nanos) -> Step {
        let serves = self.stage == Stage::Serving && !self.has_departed;
        if !serves || self.is_recording || self.cut_due || self.commits() {
            return Ok(());
        }
        match self.grid.next() {
            None if self.config.clients && self.may_record() => {
                fault("record-due", "a record of what has arrived, at once", "nothing")
            }
            None => Ok(()),
            Some(_) => {
                while let Some(point) = self.grid.next().filter(|point| *point < next) {
                    // A reply of the very instant may come too late to make room for the point.
                    let on_grid = self.config.quantum_ns > 0;
                    let in_time = on_grid || point > self.at || self.had_room;
                    if in_time && self.may_record() {
                        self.has_departed = true; // only a close may follow
                        return Ok(());
                    }
                    self.grid.after(point);
                }
                Ok(())
            }
        }
    }

    fn silence(&mut self, rule: &'static str) {
        self.silent.get_or_insert((rule, self.at));
    }
}
