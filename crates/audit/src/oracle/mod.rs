//! The public state machine of an engine, written apart from it on purpose.
//!
//! Fed with the public configuration and the events of a trace, it predicts every record of it:
//! operation, order, bucket, size, version, the bounds of batches and epochs, names and sizes of
//! blobs, the times of departures. What differs is a [`Breach`] of one rule. What it leaves free goes
//! to the observers: leaves, slots, ciphertexts, and by a real clock how late a message was.
//!
//! # How the leaves are found
//!
//! The trace does not name them. Let R be the set of *live* buckets: stored, and not rewritten in the
//! open epoch.
//!
//! 1. A path read shows exactly the buckets of R on the path to its leaf, from the root, one cell
//!    each. So its first bucket has none of R above it, and each further one has the bucket before
//!    as the nearest of R above it. A bucket with none of R above it begins a new path; any other
//!    either goes on with the path before it or belongs to none. So paths are told apart in one way
//!    only, and a path that stops has to have a leaf below its last bucket to which no further
//!    bucket of R leads.
//! 2. The read that retires a bucket names Z cells, Z > 1, so it is no part of a path (Z = 1 is
//!    refused). Which bucket, and when, follows from the count of accesses (evictions) or from the
//!    path before it (reshuffles).
//! 3. A path may show nothing, if some leaf has nothing of R above it. How many did is not said
//!    where it happens, but R changes only by what is shown: an eviction of buckets that are
//!    all images or were never stored changes no bucket of R, and which buckets are images at the
//!    end of the epoch follows from the count of accesses by then. At an eviction that shows
//!    anything the count is exact, for evictions come every A accesses, and so it is at the end of
//!    the epoch. Paths that showed nothing are therefore counted only when such a moment comes, as
//!    late as can be: R shrinks until the commit, so what could show nothing earlier can do so
//!    later; the count in between is a lower bound, which brings no eviction too early; and since
//!    every change of R and of the read counts was taken from what was shown, a path counted in the
//!    wrong place changes nothing in the state.
//!
//! So the state is a function of what was shown, and a trace passes exactly if some leaves explain it.
//!
//! # Completed leaves
//!
//! Of a path that showed buckets down to `b`, the leaf is one of those below `b` to which nothing
//! further of R leads. Given what was shown, a uniform leaf is uniform among these; so one that is
//! drawn uniformly among them, with randomness of its own, is uniform over all leaves if the leaf
//! read was. And only if: it lies below the same shown bucket, so whatever share of the true leaves
//! differs from uniform between shown buckets differs in the completed ones as well; what differs
//! only within, no cloud can see. A path that showed nothing is drawn among all open leaves. Where
//! an early reshuffle and such paths fall between the same two moments of an exact count, the set
//! they are drawn from may be that of a moment later: larger by leaves below the reshuffled bucket.
//! [`Summary::guessed_paths`] counts the paths that this can have touched.
//!
//! # What is outside
//!
//! Marks are never an input, with one exception: a store that lies in a test may say `lie` where the
//! fingerprints of a reply cannot tell. A trace is that of one process, which opens its store once, at
//! the beginning. How many processes there were its owner knows, so [`Summary::openings`] and
//! [`Summary::crashes`] are to be held against that; a trace that is missing among those given is no
//! breach but [`Halt::Unfollowing`], as far as the traces tell.
//!
//! Tags of conditional puts are not compared with those that the store gave out: replies in a trace have
//! none. A store refuses a wrong one, and then the put of a refused record shows.

mod again;
mod bare;
mod blob;
mod buckets;
mod chain;
mod config;
mod epochs;
mod fault;
mod joint;
mod pace;
mod reads;
mod replay;
mod replies;
mod silence;
mod vault;
mod xor;

pub use fault::{Halt, Refused, Summary};
pub use replay::{ReplayError, replay};

use fogbank_env::Nanos;
use fogbank_store::ArrayShape;
use fogbank_store::trace::{
    ChunkCells, Condition, Done, EngineConfig, Event, PublicConfig, Request, RingConfig, Sent,
};

use self::buckets::Shape;
use self::chain::Chain;
use self::config::check;
use self::epochs::{Epochs, Lane};
use self::fault::{Fault, Step, fault};
use self::pace::Pace;
use self::replies::Waiting;
use self::silence::Silence;
use crate::{Breach, Observer};

/// Replays the traces of one store.
pub struct Oracle {
    config: RingConfig,
    shape: Shape,
    epochs: Epochs,
    /// The vault; a bare engine has none.
    chain: Option<Chain>,
    /// Of a bare engine: whether the array was made.
    made: bool,
    /// Whether anything was seen that tells where in the life of the store this is.
    oriented: bool,
    waiting: Vec<Waiting>,
    spare: Vec<Vec<u64>>,
    silence: Silence,
    /// From when on it is due: what left before, did so before the proxy had the reply.
    silent_from: Nanos,
    /// The time of the event at hand.
    at: Nanos,
    /// When the last message ended that is not one of several under way.
    ended_at: Nanos,
    /// When the first of the deletions after a commit left.
    collects_at: Option<Nanos>,
    events: u64,
    summary: Summary,
}

/// An end of the replay, with or without a place in the trace.
enum Stop {
    Fault(Box<Fault>),
    Unpredictable(&'static str),
    Unfollowing(String),
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Self {
        Stop::Fault(fault)
    }
}

impl Oracle {
    /// An oracle for a store of this configuration.
    ///
    /// # Errors
    /// [`Refused`] for one that it does not follow.
    pub fn new(config: &PublicConfig) -> Result<Self, Refused> {
        let EngineConfig::Ring(ring) = &config.engine;
        let shape = check(ring)?;
        let pace = Pace::new(config.clock, ring);
        Ok(Self {
            config: ring.clone(),
            shape,
            epochs: Epochs::new(ring.clone(), pace, shape),
            chain: ring.vault.clone().map(Chain::new),
            made: false,
            oriented: false,
            waiting: Vec::new(),
            spare: Vec::new(),
            silence: Silence::No,
            silent_from: 0,
            at: 0,
            ended_at: 0,
            collects_at: None,
            events: 0,
            summary: Summary::default(),
        })
    }

    /// The same, with another seed for what completes leaves: two runs that are compared need two, or
    /// they would agree where nothing of the leaf was shown.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.epochs.reads.seed(seed);
        self
    }

    /// Takes in the next event.
    ///
    /// # Errors
    /// [`Halt`]; nothing may be taken in after that.
    pub fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Halt> {
        self.at = event.at();
        let taken = match event {
            Event::Sent(sent) => self.sent(sent, out),
            Event::Done(done) => self.done(done),
            Event::Mark(mark) if mark.label == LIE => {
                self.lied();
                Ok(())
            }
            Event::Mark(_) | Event::ClientRequest(_) | Event::ClientReply(_) => Ok(()),
        };
        let (number, at) = (self.events, event.at());
        self.events += 1;
        taken.map_err(|stop| match stop {
            Stop::Unpredictable(reason) => Halt::Unpredictable { event: number, reason },
            Stop::Unfollowing(reason) => Halt::Unfollowing { event: number, reason },
            Stop::Fault(fault) => {
                let Fault { rule, expected, seen } = *fault;
                Halt::Breach(Breach { rule, event: number, at, expected, seen })
            }
        })
    }

    /// What follows is a further trace of the same store, by a later process with its own clock.
    pub fn next_trace(&mut self) {
        self.waiting.clear();
        if let Some(chain) = &mut self.chain {
            self.summary.crashes += u32::from(chain.up);
            chain.stop();
        }
        self.epochs.pace.restart();
        self.epochs.lanes.restart();
        self.silence = Silence::No;
    }

    /// What was seen so far.
    pub fn summary(&self) -> Summary {
        Summary {
            events: self.events,
            epochs: self.epochs.epoch,
            latest_ns: self.epochs.latest_ns(),
            requests: self.summary.requests,
            openings: self.summary.openings,
            closings: self.summary.closings,
            crashes: self.summary.crashes,
            lies: self.summary.lies,
            ..self.epochs.reads.tally
        }
    }
}

/// Requests.
impl Oracle {
    fn sent(&mut self, sent: &Sent, out: &mut dyn Observer) -> Result<(), Stop> {
        self.summary.requests += 1;
        self.orient(&sent.request)?;
        if (sent.cloud, sent.connection) != (0, 0) {
            let seen = format!("cloud {} connection {}", sent.cloud, sent.connection);
            fault("unknown-operation", "one cloud and one connection", seen)?;
        }
        let sibling = self.may_be_sent(&sent.request, sent.at)?;
        let expected = match self.chain {
            Some(_) => self.request_vault(&sent.request, sent.at, sibling, out)?,
            None => self.request_bare(&sent.request, sent.at, sibling, out)?,
        };
        let mut prints = self.spare.pop().unwrap_or_default();
        prints.clear();
        self.note_reads(&sent.request, sibling, &mut prints);
        let put = match &sent.request {
            Request::BlobPut { name, .. } => Some(name.clone()),
            _ => None,
        };
        let lane = self.lane(&sent.request);
        if let Some(lane) = lane {
            self.epochs.lanes.sent(lane);
        }
        self.waiting.push(Waiting { id: sent.id, expected, prints, lane, put });
        Ok(())
    }

    /// A trace that begins in the middle of a store's life cannot be followed.
    fn orient(&mut self, request: &Request) -> Result<(), Stop> {
        if self.oriented {
            return Ok(());
        }
        match request {
            Request::BlobGet { .. } | Request::CreateArray { .. } => {}
            Request::BlobPut { condition: Condition::IfAbsent, .. } => {}
            Request::ReadChunks { .. } | Request::DropArray { .. } | Request::ListChunks { .. } => {
            }
            _ => return Err(Stop::Unpredictable(MIDST)),
        }
        self.oriented = !matches!(request, Request::BlobGet { .. });
        Ok(())
    }

    /// Whether a request may leave now; and if so, whether together with the one before.
    fn may_be_sent(&mut self, request: &Request, at: Nanos) -> Result<bool, Stop> {
        let sibling = match request {
            Request::ReadCells { .. } | Request::ReadXor { .. } => {
                let xors = matches!(request, Request::ReadXor { .. });
                self.epochs.repeats_sibling()
                    || self.epochs.is_sibling(xors, at, self.waiting.is_empty())
            }
            _ => false,
        };
        if self.silence != Silence::No && !sibling && at >= self.silent_from {
            self.hold_silence(request)?;
        }
        if !self.waiting.is_empty() && !sibling && !self.may_leave_beside(request) {
            let seen = format!("{:?}", request.operation());
            fault("waits-for-all", "the end of the request before", seen)?;
        }
        Ok(sibling)
    }

    /// Whether a request may leave while those that wait are under way.
    fn may_leave_beside(&self, request: &Request) -> bool {
        let reads = |lane| matches!(lane, Some(Lane::Window(_) | Lane::Paths(_)));
        match request {
            Request::ReadCells { .. } | Request::ReadXor { .. } => {
                self.waiting.iter().all(|waiting| reads(waiting.lane)) && self.epochs.may_read()
            }
            Request::WriteChunks { .. } => {
                let images = |waiting: &Waiting| waiting.lane == Some(Lane::Images);
                self.waiting.iter().all(images) && self.epochs.lanes.may_write()
            }
            Request::BlobPut { .. } if self.is_record(request) => {
                self.waiting.iter().all(|waiting| reads(waiting.lane)) && self.epochs.may_record()
            }
            Request::BlobGet { .. } | Request::Barrier if self.looks_for_a_put(request) => {
                self.waiting.iter().all(|waiting| reads(waiting.lane))
            }
            _ => self.is_second_deletion(request),
        }
    }

    fn lane(&self, request: &Request) -> Option<Lane> {
        match request {
            Request::ReadCells { .. } => Some(Lane::Window(self.epochs.lanes.reading())),
            Request::ReadXor { .. } => Some(Lane::Paths(self.epochs.lanes.reading())),
            Request::WriteChunks { .. } => Some(Lane::Images),
            _ => None,
        }
    }

    /// Holds the making of an array against the tree.
    fn check_array(&self, array: u16, shape: ArrayShape) -> Step {
        let (chunks, cells_per_chunk) = (self.shape.buckets(), self.shape.slots());
        let cell_bytes = self.config.cell_bytes;
        let expected = ArrayShape { chunks, cells_per_chunk, cell_bytes };
        if array != self.config.array || shape != expected {
            return fault("array-shape", format!("{expected:?}"), format!("{array}: {shape:?}"));
        }
        Ok(())
    }

    /// Notes the fingerprints that the cells of the reply have to have; with a vault also what was
    /// read, for it may come again.
    fn note_reads(&mut self, request: &Request, sibling: bool, prints: &mut Vec<u64>) {
        let reads = match request {
            Request::ReadCells { reads } => &reads[..],
            Request::ReadXor { .. } => &[],
            _ => return,
        };
        if let Some(before) = self.epochs.again.prints() {
            prints.extend(before);
            return;
        }
        self.remember(reads, prints);
        if self.chain.is_some() {
            let batch = self.epochs.lanes.reading();
            self.epochs.again.note(request, prints, sibling, batch);
        }
    }

    /// The fingerprints that the reply has to have.
    fn remember(&self, reads: &[ChunkCells], prints: &mut Vec<u64>) {
        let buckets = &self.epochs.reads.buckets;
        for read in reads {
            prints.extend(read.cells.iter().map(|cell| buckets.print(read.chunk.chunk, *cell)));
        }
    }
}

/// Replies.
impl Oracle {
    fn done(&mut self, done: &Done) -> Result<(), Stop> {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == done.id) else {
            let seen = format!("request {}", done.id);
            return Ok(fault("reply-fits", "the end of a request", seen)?);
        };
        let waiting = self.waiting.swap_remove(at);
        let reply = waiting.judge(&done.outcome, self.config.cell_bytes)?;
        self.epochs.pace.ended(done.at);
        let handed_over = self.epochs.pace.handed_over(done.at);
        match waiting.lane {
            Some(lane) => self.epochs.lanes.ended(lane, handed_over),
            None => self.ended_at = handed_over,
        }
        match self.chain {
            Some(_) => self.done_vault(&waiting, done, reply)?,
            None => self.done_bare(reply),
        }
        self.spare.push(waiting.prints);
        Ok(())
    }
}

/// The mark of a store that lies.
const LIE: &str = "lie";
/// Why a trace cannot be followed.
const MIDST: &str = "the trace begins after the store was made, and nothing before it was given";
