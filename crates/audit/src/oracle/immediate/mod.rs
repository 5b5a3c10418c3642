//! What every engine that serves accesses as they come has in common; what it has behind it is a
//! [`Plane`] of its own.
//!
//! 1. The stages of a vault's life: opening, replay, sweep, service, close (`opening`).
//! 2. Requests and their ends (`sent`, `done`); puts of which nobody knows what became of them.
//! 3. Journal records: so many under way at once; at a fixed rate they leave at the points of a
//!    grid (`grid`). They count in their order.
//! 4. Cuts, checkpoints, deletions, closes (`checkpoints`).
//! 5. Instants of a proxy whose messages leave on a grid (`instants`), and the link's pace
//!    (`turns`).
//! 6. Silence after a failure or a lie.
//! 7. What is there in the cloud (`stored`).
//!
//! What is due *at once* may come anywhere within its instant, and so in any order with what else
//! is due in it; of a proxy that keeps to a grid the instants are its points (`instants`). Nothing
//! else is tolerated; so traces by a real clock, in which work takes time, are refused.
//!
//! What no message shows, though it is public, a trace says by marks of the engine
//! ([`Plane::mark`]).
//!
//! | rule | what has to be | what is free in it, and its law |
//! |---|---|---|
//! | `blob-order`, `blob-size` | blobs of a vault by their names, in their order, of public sizes | ciphertexts |
//! | `journal-size`, `record-due`, `records-at-once` | a record of whole parts when one is due, so many at once | |
//! | `cut-due`, `commit-order` | a cut in its turn; its barrier, pieces and commit in theirs | |
//! | `superseded-deleted` | what a commit superseded is deleted after it, and nothing else | |
//! | `array-shape` | arrays of the engine's shape | |
//! | `on-grid` | whatever leaves does so at a point; at a rate, at its own | |
//! | `in-turn` | no message before the link is free for it | |
//! | `silence-after-a-failure`, `silence-after-a-lie` | nothing leaves after either | |

pub(in crate::oracle) mod acts;
mod checkpoints;
mod done;
pub(in crate::oracle) mod grid;
pub(in crate::oracle) mod instants;
pub(in crate::oracle) mod limits;
mod opening;
mod sent;
pub(in crate::oracle) mod stored;
pub(in crate::oracle) mod turns;

use std::collections::VecDeque;
use std::fmt::Debug;

use fogbank_env::Nanos;
use fogbank_store::trace::{Client, Event, Mark, RateConfig, Request, Sent, VaultConfig};
use fogbank_store::{ArrayShape, ChunkName};

use self::checkpoints::{Checkpoint, Deletion};
use self::grid::Grid;
use self::instants::Instants;
use self::stored::Stored;
use super::blob::Kept;
use super::chain::{Chain, Parts};
use super::fault::{Step, Stop, Summary, fault};
use super::replies::Expected;
use super::{LIE, MIDST, Machine, replies};
use crate::Observer;

/// What is due in the life of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The vault's calls, one after the other, and the arrays.
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
pub(super) enum Part<P> {
    Opening,
    /// A piece or record of which it is known what it holds.
    Fetch(Kept),
    /// This place of the journal.
    Journal(u32),
    Array,
    SweepList,
    SweepDelete,
    Record(String),
    /// What is the engine's own.
    Own(P),
    Barrier,
    Piece(String),
    Commit,
    Blobs(u64),
    Chunks(u64),
    /// The look at what became of a put, and the barrier after it.
    Look,
    Settled,
    /// It left at the instant at which silence began: before the proxy saw why, perhaps.
    Unchecked,
}

/// A request under way.
type Waiting<P> = replies::Waiting<Part<P>>;

/// A put of unknown outcome.
#[derive(Debug, Clone)]
struct Doubt<P> {
    name: String,
    kept: Kept,
    part: Part<P>,
    /// Whether our bytes were seen to be there, and no barrier of the engine's own was due then:
    /// the two may leave at one point, and look alike.
    ours: bool,
    is_first: bool,
    under_way: bool,
}

/// What an engine is behind all that is shared.
pub(super) trait Plane: Sized + Send {
    /// What a message of its own is part of.
    type Part: Debug + Clone + PartialEq + Send;

    /// Whether what a checkpoint refers to is durable without a barrier before it.
    const IS_DURABLE: bool = false;

    /// Another seed for what is completed at random.
    fn seed(&mut self, seed: u64);
    /// What comes next is another process.
    fn restart(&mut self);

    /// The arrays, in the order in which they are made.
    fn array(&self, nth: usize) -> Option<(u16, ArrayShape)>;
    /// The store is claimed by this opening.
    fn claimed(&mut self, opening: u32);
    /// The store is open: what the journal names is read again, if it names anything.
    fn begin_replay(machine: &mut Immediate<Self>);

    /// An access arrives, or is answered at `at`.
    fn arrive(&mut self, client: &Client);
    fn answer(&mut self, client: &Client) -> Step;
    /// Whether nothing waits for a record.
    fn have_left(&self) -> bool;
    /// Whether a record is due now, as far as what waits and room go.
    fn may_record(&self) -> bool;
    /// A record of so many parts is put under `name`, to bring to its end what was begun or to
    /// serve; whether a cut comes after it, and whether it was one that brings what was begun to
    /// its end.
    fn record(
        machine: &mut Immediate<Self>,
        name: &str,
        parts: (usize, bool),
    ) -> Step<(bool, bool)>;
    /// Whether there is something for a record beside accesses.
    fn has_parts(&self) -> bool {
        false
    }
    /// It is durable.
    fn recorded(machine: &mut Immediate<Self>, name: &str);
    /// It stands in no journal any more.
    fn forget_record(&mut self, name: &str);

    /// The proxy says what no message shows.
    fn mark(
        _machine: &mut Immediate<Self>,
        _mark: &Mark,
        _out: &mut dyn Observer,
    ) -> Result<(), Stop> {
        Ok(())
    }
    /// An instant begins.
    fn instant_begins(_machine: &mut Immediate<Self>) {}
    /// The store is swept, and serves.
    fn serves(&mut self, _at: Nanos) {}
    /// Whether a message of its own is due that leaves before anything else is decided, wherever it
    /// stands within the instant.
    fn awaits_message(&self) -> bool {
        false
    }
    /// What is about to be taken in: all that had to come before has come.
    fn before(machine: &mut Immediate<Self>, request: Option<&Request>) -> Result<(), Stop>;
    /// A request of its own; `None` if it is none.
    fn request(
        machine: &mut Immediate<Self>,
        sent: &Sent,
        out: &mut dyn Observer,
    ) -> Result<Option<Self::Part>, Stop>;
    /// Whether a barrier of its own is due.
    fn awaits_barrier(&self) -> bool {
        false
    }
    /// What its reply has to be, with the fingerprints of the cells.
    fn expected(&self, request: &Request) -> Option<(Expected, Vec<u64>)>;
    /// What could have left before this reply, and has not, will not.
    fn passed_over(_machine: &mut Immediate<Self>, _part: &Part<Self::Part>) -> Step {
        Ok(())
    }
    /// A request of its own has ended well.
    fn ended(machine: &mut Immediate<Self>, part: Self::Part);
    /// When something may leave that waits for its turn alone.
    fn next_turn(&mut self, at: Nanos) -> Option<Nanos>;
    /// What should have left by `at` and has not.
    fn check_settled(machine: &mut Immediate<Self>) -> Step;

    /// Whether no access is under way.
    fn is_quiet(&self) -> bool;
    /// Whether the state can be copied then.
    fn may_cut(&self) -> bool {
        true
    }
    /// Whether nothing at all is under way.
    fn is_idle(&self) -> bool {
        true
    }
    /// A cut, up to the returned mark.
    fn cut(&mut self) -> u64;
    /// Whether everything written up to it was acknowledged.
    fn is_acknowledged(&self, mark: u64) -> bool;
    /// The commit of the cut is put; it counts.
    fn committing(&mut self);
    fn committed(&mut self);
    /// What nothing refers to once the checkpoint of `mark` counts.
    fn superseded(&mut self, mark: u64, closes: bool) -> Vec<ChunkName>;

    /// What is there in the cloud.
    fn stored(&mut self) -> &mut Stored;
    /// How many versions an opening leaves.
    fn current(&self) -> u64;
    /// Holds the deletion of so many versions by an opening against what may be left over.
    fn check_sweep(&self, names: &[ChunkName], of: (u64, u32)) -> Step;

    /// Images written so far.
    fn images(&self) -> u64;
}

/// What the configuration says of it.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    pub vault: VaultConfig,
    pub parts: Parts,
    pub cell_bytes: u32,
    /// Whether a cut waits until no access is under way.
    pub cuts_quietly: bool,
    pub quantum_ns: Nanos,
    pub rate: Option<RateConfig>,
    /// Whether arrivals and answers are in the trace.
    pub clients: bool,
}

/// The machine.
pub(super) struct Immediate<P: Plane> {
    instants: Instants,
    pub shell: Shell,
    pub plane: P,
    pub stage: Stage,
    pub chain: Chain,
    pub grid: Grid,
    /// Arrays that were made by this process.
    arrays: usize,
    /// Records that do not count, oldest first, and whether each is durable.
    recording: VecDeque<(String, bool)>,
    /// Whether the last one brings to its end what was begun, at no point of the rate.
    is_extra: bool,
    /// Whether departures have ended: the store is about to be closed.
    pub has_departed: bool,
    /// Whether there was room for a record when this instant began.
    had_room: bool,
    /// Whether no access was under way then, so that all answers had left.
    was_quiet: bool,
    pub cut_due: bool,
    pub checkpoint: Option<Checkpoint>,
    deletions: Vec<Deletion>,
    /// Versions listed so far, and what the sweep deletes.
    listed: (usize, u64),
    swept: Vec<ChunkName>,
    waiting: Vec<Waiting<P::Part>>,
    doubts: Vec<Doubt<P::Part>>,
    oriented: bool,
    /// Nothing may leave any more, by which rule.
    silent: Option<(&'static str, Nanos)>,
    pub at: Nanos,
    pub is_ending: bool,
    pub summary: Summary,
}

impl<P: Plane> Immediate<P> {
    pub fn new(shell: Shell, instants: Instants, plane: P) -> Self {
        Self {
            instants,
            chain: Chain::cutting(shell.vault.clone(), shell.parts),
            grid: Grid::new(shell.rate, shell.quantum_ns),
            shell,
            plane,
            stage: Stage::Opening,
            arrays: 0,
            recording: VecDeque::new(),
            is_extra: false,
            has_departed: false,
            had_room: false,
            was_quiet: false,
            cut_due: false,
            checkpoint: None,
            deletions: Vec::new(),
            listed: (0, 0),
            swept: Vec::new(),
            waiting: Vec::new(),
            doubts: Vec::new(),
            oriented: false,
            silent: None,
            at: 0,
            is_ending: false,
            summary: Summary::default(),
        }
    }

    /// Takes events in their order, but for messages that leave before anything else is decided.
    fn take_all(&mut self, known: Vec<(Nanos, Event)>, out: &mut dyn Observer) -> Result<(), Stop> {
        let mut known = VecDeque::from(known);
        while let Some((at, _)) = known.front() {
            let awaits = *at == self.at && self.plane.awaits_message();
            let is_now = |(when, event): &(Nanos, Event)| *when == self.at && is_message(event);
            let next = known.iter().position(is_now).filter(|_| awaits).unwrap_or(0);
            let Some((at, event)) = known.remove(next) else { break };
            self.take((at, &event), out)?;
        }
        Ok(())
    }

    /// Takes an event that counts from `at`.
    pub fn take(
        &mut self,
        (at, event): (Nanos, &Event),
        out: &mut dyn Observer,
    ) -> Result<(), Stop> {
        while at > self.at {
            let turns = [self.plane.next_turn(self.at), self.next_piece()];
            let next = turns.into_iter().flatten().fold(at, Nanos::min);
            self.instant_ends(next)?;
            self.at = next;
            self.was_quiet = self.plane.is_quiet();
            P::instant_begins(self);
            self.had_room = self.plane.may_record();
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
                self.plane.arrive(client);
                Ok(())
            }
            Event::ClientReply(client) if self.silent.is_none() => Ok(self.plane.answer(client)?),
            Event::Mark(mark) if self.silent.is_none() => P::mark(self, mark, out),
            Event::Mark(_) | Event::ClientReply(_) | Event::Heard(_) => Ok(()),
        }
    }

    /// Whatever was due at once has to have come.
    fn instant_ends(&mut self, next: Nanos) -> Result<(), Stop> {
        if self.silent.is_some() || self.stage == Stage::Opening {
            return Ok(());
        }
        P::before(self, None)?;
        self.cut_if_due();
        self.decide_deletions();
        self.recovered();
        if self.is_ending {
            return Ok(());
        }
        P::check_settled(self)?;
        let may_end = self.instants.may_end_after(self.at);
        self.check_checkpoint_settled(may_end)?;
        if !may_end {
            self.check_record_left(next)?;
        }
        Ok(())
    }

    /// Records that were due before `next`.
    fn check_record_left(&mut self, next: Nanos) -> Step {
        let serves = self.stage == Stage::Serving && !self.has_departed;
        if self.may_end_begun() {
            return fault("record-due", "a record of what is written, at once", "nothing");
        }
        if !serves || !self.has_place() || self.cut_due {
            return Ok(());
        }
        match self.grid.next() {
            None if self.plane.has_parts() && self.plane.have_left() => {
                self.has_departed = true; // only a close may follow
                Ok(())
            }
            None if self.shell.clients && self.plane.may_record() => {
                fault("record-due", "a record of what has arrived, at once", "nothing")
            }
            None => Ok(()),
            Some(_) => {
                while let Some(point) = self.grid.next().filter(|point| *point < next) {
                    // A reply of the very instant may come too late to make room for the point.
                    let on_grid = self.shell.quantum_ns > 0;
                    let in_time = on_grid || point > self.at || self.had_room;
                    if in_time && self.plane.may_record() {
                        self.has_departed = true; // only a close may follow
                        return Ok(());
                    }
                    self.grid.after(point);
                }
                Ok(())
            }
        }
    }

    /// Whether another record may be under way.
    pub fn has_place(&self) -> bool {
        self.recording.len() < self.shell.parts.records_at_once as usize
    }

    pub fn silence(&mut self, rule: &'static str) {
        self.silent.get_or_insert((rule, self.at));
    }
}

impl<P: Plane> Machine for Immediate<P> {
    fn seed(&mut self, seed: u64) {
        self.plane.seed(seed);
    }

    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        let known = self.instants.take(event)?;
        self.take_all(known, out)
    }

    fn end_trace(&mut self, out: &mut dyn Observer) -> Result<(), Stop> {
        // What was decided in the last quantum may not have left any more.
        self.is_ending = true;
        let known = self.instants.end();
        self.take_all(known, out)
    }

    fn next_trace(&mut self) {
        self.summary.crashes += u32::from(self.chain.up);
        self.chain.stop();
        self.waiting.clear();
        self.doubts.clear();
        self.plane.restart();
        self.deletions.clear();
        self.grid = Grid::new(self.shell.rate, self.shell.quantum_ns);
        self.stage = Stage::Opening;
        (self.checkpoint, self.silent) = (None, None);
        self.recording.clear();
        (self.has_departed, self.cut_due, self.is_ending) = (false, false, false);
        (self.arrays, self.listed, self.at) = (0, (0, 0), 0);
    }

    fn summary(&self) -> Summary {
        Summary { images: self.plane.images(), ..self.summary }
    }
}

/// Whether it is a message of cells, or what the proxy says of one.
fn is_message(event: &Event) -> bool {
    match event {
        Event::Sent(sent) => matches!(sent.request, Request::ReadCells { .. }),
        Event::Mark(mark) => mark.label != LIE,
        _ => false,
    }
}
