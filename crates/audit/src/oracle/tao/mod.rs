//! `tao`: accesses are served as they come, many at once. Free are leaves and ciphertexts.
//!
//! The machine goes by what the cloud does and sees, and by what it may know: when accesses arrive and
//! are answered, if the trace has it. From that follow, in virtual time and to the record:
//!
//! 1. Journal records, with so many parts as accesses wait and there is room for, one at a time; and that
//!    their paths leave when a record is durable, at once (`accesses`).
//! 2. The buckets that a path names, and in which versions (`tree`).
//! 3. Write-backs: after which replies, of which buckets, in which messages (`writebacks`).
//! 4. Cuts, checkpoints, deletions, closes (`checkpoints`); points of a fixed rate (`grid`).
//! 5. That answers leave at the last reply to any path up to their own (T3).
//! 6. What an opening reads again after a stop (`recovery`).
//!
//! What is due *at once* may come anywhere within its instant, and so in any order with what else is due
//! in it. Nothing else is tolerated; so traces by a real clock, in which the order of replies is not that
//! in which the proxy has taken them, are refused.

mod accesses;
mod checkpoints;
mod config;
mod grid;
mod opening;
mod recovery;
mod tree;
mod writebacks;

use std::collections::BTreeMap;

use fogbank_env::Nanos;
use fogbank_store::trace::{
    Blame, Condition, Done, Event, Outcome, Request, Sent, TaoConfig, TraceClock,
};
use fogbank_store::{ArrayShape, ChunkName};

use self::accesses::Accesses;
use self::checkpoints::{Checkpoint, Deletion};
use self::config::check;
use self::grid::Grid;
use self::recovery::{Journalled, Replay};
use self::tree::{Shown, Tree};
use self::writebacks::WriteBacks;
use super::blob::{JOURNAL, Kept, check_put};
use super::chain::{Chain, Next, Parts};
use super::fault::{Refused, Step, Stop, Summary, fault};
use super::replies::{self, Expected, Reply};
use super::{LIE, MIDST, Machine};
use crate::{Observation, Observer};

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
}

type Waiting = replies::Waiting<Part>;

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
            tree: Tree::new(shape, config.array),
            accesses: Accesses::new(config),
            write_backs: WriteBacks::new(config),
            grid: Grid::new(config.rate),
            is_recording: false,
            has_departed: false,
            had_room: false,
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
            summary: Summary::default(),
        })
    }
}

impl Machine for Tao {
    fn seed(&mut self, seed: u64) {
        self.tree.seed(seed);
    }

    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        if event.at() > self.at {
            self.instant_ends(event.at(), out)?;
            self.at = event.at();
            self.had_room = self.accesses.are_waiting();
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

    fn next_trace(&mut self) {
        self.summary.crashes += u32::from(self.chain.up);
        self.chain.stop();
        self.waiting.clear();
        self.doubts.clear();
        self.accesses.restart();
        self.write_backs.restart();
        self.deletions.clear();
        self.replay = Replay::default();
        self.journal.values_mut().for_each(|record| record.number = None);
        self.grid = Grid::new(self.config.rate);
        self.stage = Stage::Opening;
        (self.checkpoint, self.silent) = (None, None);
        (self.is_recording, self.has_departed, self.cut_due) = (false, false, false);
        (self.cut_after, self.at) = (0, 0);
    }

    fn summary(&self) -> Summary {
        Summary { images: self.write_backs.images, ..self.summary }
    }
}

/// Instants.
impl Tao {
    /// Whatever was due at once has to have come.
    fn instant_ends(&mut self, next: Nanos, out: &mut dyn Observer) -> Step {
        if self.silent.is_some() || self.stage == Stage::Opening {
            return Ok(());
        }
        self.window_left()?;
        self.settle_silent(usize::MAX, out);
        self.write_backs.close_full(None, &mut self.tree, self.accesses.put)?;
        self.take_paths();
        self.recovered();
        self.accesses.check_settled()?;
        self.write_backs.check_settled()?;
        self.check_checkpoint_settled()?;
        self.check_record_left(next)
    }

    /// Records that were due before `next`.
    fn check_record_left(&mut self, next: Nanos) -> Step {
        let serves = self.stage == Stage::Serving && !self.has_departed;
        if !serves || self.is_recording || self.cut_due || self.commits() {
            return Ok(());
        }
        match self.grid.next() {
            None if self.config.clients && self.accesses.are_waiting() => {
                fault("record-due", "a record of what has arrived, at once", "nothing")
            }
            None => Ok(()),
            Some(_) => {
                while let Some(point) = self.grid.next().filter(|point| *point < next) {
                    // A reply of the very instant may come too late to make room for the point.
                    let in_time = point > self.at || self.had_room;
                    if in_time && self.accesses.are_waiting() {
                        self.has_departed = true; // only a close may follow
                        return Ok(());
                    }
                    self.grid.after(point);
                    self.note_due();
                }
                Ok(())
            }
        }
    }

    /// Up to so many paths that did not show were silent, and are back.
    fn settle_silent(&mut self, most: usize, out: &mut dyn Observer) {
        for _ in 0..self.accesses.silence(most) {
            self.note_path(Shown(None), out);
            self.write_backs.flush(Shown(None), &self.tree);
        }
        self.cut_if_due();
    }

    /// Silent paths that have brought about the message at hand.
    fn settle_before(&mut self, request: &Request, out: &mut dyn Observer) {
        let silent = self.accesses.perhaps_silent();
        if silent == 0 {
            return;
        }
        if let Request::WriteChunks { writes } = request
            && !self.write_backs.has_begun(WriteBacks::tick_of(writes))
        {
            let due =
                (self.config.write_back_every as usize).saturating_sub(self.write_backs.queued());
            if due <= silent {
                self.settle_silent(due, out);
            }
        }
        let cuts = matches!(
            request,
            Request::WriteChunks { .. } | Request::Barrier | Request::BlobPut { .. }
        );
        if self.cut_due && cuts && self.accesses.perhaps_silent() == self.accesses.under_way() {
            self.settle_silent(usize::MAX, out);
        }
    }

    fn silence(&mut self, rule: &'static str) {
        self.silent.get_or_insert((rule, self.at));
    }
}

/// Requests.
impl Tao {
    fn sent(&mut self, sent: &Sent, out: &mut dyn Observer) -> Result<(), Stop> {
        self.summary.requests += 1;
        let request = &sent.request;
        self.orient(request)?;
        if (sent.cloud, sent.connection) != (0, 0) {
            let seen = format!("cloud {} connection {}", sent.cloud, sent.connection);
            fault("unknown-operation", "one cloud and one connection", seen)?;
        }
        let part = match self.look(request) {
            Some(part) => part,
            None => self.part(request, sent.at, out)?,
        };
        let (mut prints, mut put) = (Vec::new(), None);
        let expected = match request {
            Request::ReadChunks { chunks } => {
                prints = self.tree.prints(chunks);
                let bytes = u64::from(self.config.reals) * u64::from(self.config.cell_bytes);
                Expected::Buckets(bytes)
            }
            Request::BlobPut { name, bytes, fingerprint, .. } => {
                put = Some(name.clone());
                let (bytes, fingerprint) = (*bytes, *fingerprint);
                let kind = name.split('/').next().unwrap_or_default();
                out.observe(&Observation::Blob { kind, bytes, fingerprint });
                Expected::Put
            }
            Request::BlobGet { .. } => match part {
                Part::Fetch(piece) => Expected::Piece(Some(piece)),
                _ => Expected::Commit,
            },
            Request::BlobList { .. } => Expected::List,
            Request::ListChunks { .. } => Expected::Chunks,
            _ => Expected::Done,
        };
        self.waiting.push(Waiting { id: sent.id, expected, prints, lane: part, put });
        Ok(())
    }

    /// A trace that begins in the middle of a store's life cannot be followed.
    fn orient(&mut self, request: &Request) -> Result<(), Stop> {
        if self.oriented {
            return Ok(());
        }
        match request {
            Request::BlobGet { .. } => return Ok(()),
            Request::BlobPut { condition: Condition::IfAbsent, .. } => {}
            Request::ReadChunks { .. } | Request::ListChunks { .. } => {}
            _ => return Err(Stop::Unpredictable(MIDST)),
        }
        self.oriented = true;
        Ok(())
    }

    /// What a request looks for: what became of a put, or that it be durable.
    fn look(&mut self, request: &Request) -> Option<Part> {
        let doubts = self.doubts.iter_mut().filter(|doubt| !doubt.under_way);
        let (doubt, part) = match request {
            Request::BlobGet { name } => {
                (doubts.filter(|d| !d.ours && d.name == *name).last()?, Part::Look)
            }
            Request::Barrier => (doubts.filter(|d| d.ours).last()?, Part::Settled),
            _ => return None,
        };
        doubt.under_way = true;
        Some(part)
    }

    /// Holds a request against what is due.
    fn part(&mut self, request: &Request, at: Nanos, out: &mut dyn Observer) -> Result<Part, Stop> {
        if let Some((rule, from)) = self.silent
            && at > from
        {
            fault(rule, "nothing more", format!("{:?}", request.operation()))?;
        }
        if self.stage == Stage::Opening {
            return Ok(self.opening_call(request)?);
        }
        let tick = match request {
            Request::WriteChunks { writes } => Some(WriteBacks::tick_of(writes)),
            _ => None,
        };
        if self.silent.is_none() {
            self.write_backs.close_full(tick, &mut self.tree, self.accesses.put)?;
        }
        if !matches!(request, Request::ReadChunks { .. }) {
            self.window_left()?;
        }
        self.take_paths();
        self.recovered();
        self.settle_before(request, out);
        Ok(match request {
            Request::ReadChunks { chunks } if self.is_replaying() => {
                self.read_again(chunks, out)?
            }
            Request::ReadChunks { chunks } => {
                let of = self.accesses.path()?;
                let shown = self.tree.path(chunks)?;
                self.note_path(shown, out);
                if let Some(record) =
                    self.journal.values_mut().rfind(|one| one.number == Some(of.0))
                {
                    record.paths.push(shown);
                }
                Part::Path(of, shown)
            }
            Request::WriteChunks { writes } => {
                let tick = WriteBacks::tick_of(writes);
                if !self.write_backs.has_begun(tick) {
                    self.close_if_idle();
                }
                Part::Images(self.write_backs.send(writes, &mut self.tree, out)?)
            }
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                let kept = Kept { bytes: *bytes, fingerprint: *fingerprint };
                match name.starts_with(JOURNAL) {
                    true => self.record((name, kept, condition), at)?,
                    false => self.put_checkpoint((name, kept, condition))?,
                }
            }
            Request::Barrier => self.barrier()?,
            Request::BlobDelete { names } => self.delete_blobs(names)?,
            Request::DeleteChunks { chunks } => match self.stage {
                Stage::SweepDelete(count) => self.sweep(chunks, count)?,
                _ => self.delete_chunks(chunks)?,
            },
            Request::ListChunks { array } if array.0 == self.config.array => {
                if self.stage != Stage::SweepList {
                    let due = format!("{:?}", self.stage);
                    fault("blob-order", due, "list chunks")?;
                }
                Part::SweepList
            }
            _ => {
                let seen = format!("{:?}", request.operation());
                fault("unknown-operation", "an operation of the protocol", seen)?
            }
        })
    }

    fn is_replaying(&self) -> bool {
        matches!(self.stage, Stage::Replaying | Stage::Recovering)
    }

    /// A journal record is put.
    fn record(&mut self, put: (&str, Kept, &Condition), at: Nanos) -> Step<Part> {
        let (name, kept, condition) = put;
        let seen = || format!("put {name}");
        if self.stage != Stage::Serving || self.has_departed {
            return fault("record-due", format!("no record while {:?}", self.stage), seen());
        }
        if self.is_recording {
            return fault("one-record", "the end of the record before", seen());
        }
        if self.cut_due {
            return fault("cut-due", "no record before the cut", seen());
        }
        if self.commits() {
            return fault("commit-order", "the commit", seen());
        }
        if let Some(point) = self.grid.next().filter(|point| *point != at) {
            return fault("on-grid", format!("{point} ns"), format!("{at} ns"));
        }
        let due = self.chain.next_record();
        check_put((&due, &Condition::IfAbsent), (name, condition), "blob-order")?;
        let parts = self.chain.accesses_of(kept.bytes)? as usize;
        self.accesses.record(parts)?;
        self.chain.put(name, kept, condition, false)?;
        let number = Some(self.accesses.put - 1);
        let journalled = Journalled { number, parts, paths: Vec::new() };
        self.journal.insert(name.into(), journalled);
        self.is_recording = true;
        self.summary.read_batches += 1;
        Ok(Part::Record(name.into()))
    }
}

/// Replies.
impl Tao {
    fn done(&mut self, done: &Done) -> Result<(), Stop> {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == done.id) else {
            let seen = format!("request {}", done.id);
            return Ok(fault("reply-fits", "the end of a request", seen)?);
        };
        let waiting = self.waiting.swap_remove(at);
        let reply = waiting.judge(&done.outcome, self.config.cell_bytes)?;
        if self.silent.is_some() {
            return Ok(());
        }
        if !matches!(reply, Reply::Failed | Reply::Abandoned) {
            self.passed_over(&waiting.lane)?;
        }
        match reply {
            Reply::Lie => {
                self.summary.lies += 1;
                self.silence("silence-after-a-lie");
            }
            Reply::Failed if is_absence(&done.outcome) && waiting.put.is_some() => {
                self.doubt(waiting);
            }
            Reply::Put(false) => self.doubt(waiting),
            Reply::Failed | Reply::Abandoned => self.silence("silence-after-a-failure"),
            Reply::Looked(seen) if waiting.lane == Part::Look => self.looked(seen),
            reply if matches!(waiting.lane, Part::Opening | Part::Fetch(_)) => {
                self.opening_ended(&waiting, reply)?
            }
            _ if waiting.lane == Part::Settled => self.settled(),
            Reply::Listed(names) => self.swept(names),
            _ => self.ended(waiting.lane),
        }
        Ok(())
    }

    /// What could have left before this reply and has not, will not.
    fn passed_over(&mut self, part: &Part) -> Step {
        let tick = match part {
            Part::Images((tick, _)) => Some(*tick),
            _ => None,
        };
        self.write_backs.close_full(tick, &mut self.tree, self.accesses.put)?;
        if *part == Part::Again { self.window_left() } else { Ok(()) }
    }

    /// A put whose outcome nobody knows.
    fn doubt(&mut self, waiting: Waiting) {
        if waiting.lane == Part::Opening {
            return self.opening_doubt(&waiting);
        }
        let name = waiting.put.unwrap_or_default();
        let Some(kept) = self.chain.putting(&name) else {
            return self.silence("silence-after-a-failure");
        };
        let (part, ours, under_way) = (waiting.lane, false, false);
        self.doubts.push(Doubt { name, kept, part, ours, under_way });
    }

    fn looked(&mut self, seen: Option<Kept>) {
        let Some(at) = self.doubts.iter().position(|doubt| doubt.under_way && !doubt.ours) else {
            return;
        };
        if seen == Some(self.doubts[at].kept) {
            (self.doubts[at].ours, self.doubts[at].under_way) = (true, false);
        } else {
            self.silence("silence-after-a-failure");
        }
    }

    fn settled(&mut self) {
        let Some(at) = self.doubts.iter().position(|doubt| doubt.under_way && doubt.ours) else {
            return;
        };
        let part = self.doubts.remove(at).part;
        self.ended(part);
    }

    /// A request has ended well.
    fn ended(&mut self, part: Part) {
        match part {
            Part::Record(name) => {
                self.chain.landed(&name);
                self.is_recording = false;
                self.accesses.durable(self.tree.is_open());
                self.grid.after(self.at);
                self.note_due();
            }
            Part::Path(of, shown) => {
                self.accesses.back(of);
                self.write_backs.flush(shown, &self.tree);
                self.cut_if_due();
            }
            Part::Again => self.again_ended(),
            Part::Images(message) => {
                self.write_backs.ended(message, &mut self.tree, self.accesses.put);
                self.take_paths();
            }
            Part::Barrier => self.barrier_ended(),
            Part::Piece(name, last) => self.piece_ended(&name, last),
            Part::Commit => self.commit_ended(),
            Part::Blobs(number) => self.blobs_deleted(number),
            Part::Chunks(number) => self.chunks_deleted(number),
            Part::Array => {
                self.chain.next = Next::Batches;
                self.begin_replay();
            }
            Part::SweepDelete => self.sweep_ended(),
            Part::Opening | Part::Fetch(_) | Part::SweepList | Part::Look | Part::Settled => {}
        }
    }

    /// The checkpoint that was being committed counts.
    fn committed(&mut self) {
        if let Some(saved) = self.saving.take() {
            self.saved = saved;
        }
    }

    /// Holds the making of the array against the tree.
    fn check_array(&self, array: u16, shape: ArrayShape) -> Step {
        let (chunks, cells_per_chunk) = (self.tree.shape.buckets(), self.tree.shape.slots());
        let cell_bytes = self.config.cell_bytes;
        let expected = ArrayShape { chunks, cells_per_chunk, cell_bytes };
        if array != self.config.array || shape != expected {
            return fault("array-shape", format!("{expected:?}"), format!("{array}: {shape:?}"));
        }
        Ok(())
    }
}

/// Whether the store may have done it all the same.
fn is_absence(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Blame::Absent))
}
