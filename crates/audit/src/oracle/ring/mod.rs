//! `ring`: batches and epochs by a grid. Free are leaves, slots, ciphertexts, and by a real clock
//! how late a message was.
//!
//! | rule | what has to be | what is free in it, and its law |
//! |---|---|---|
//! | `batches-per-epoch` | R read batches, a write batch, a commit | |
//! | `full-batch`, `full-window` | as many paths as a batch has, in messages of a public size | the leaf: uniform |
//! | `path-consistent`, `stored-only`, `current-version` | stored buckets of one path, in their newest versions | |
//! | `slot-once`, `image-unread` | no cell twice in a version, and none of a bucket that is rewritten | the cell: uniform among those unread |
//! | `reads-per-version`, `reshuffle-due` | after so many reads a bucket is reshuffled, and not before | |
//! | `eviction-due`, `z-read` | every A accesses, along the next path; Z rising cells of each bucket | which Z: uniform among those unread |
//! | `images-written`, `cell-size` | every bucket rewritten in the epoch once, in order | ciphertexts |
//! | `journal-before-read` | no read before its record is durable | |
//! | `commit-order`, `blob-order` | delta or checkpoint, commit, deletions | ciphertexts |
//! | `superseded-deleted` | what a commit superseded, and nothing else | |
//! | `on-grid`, `no-catch-up` | a batch at its point; a point that has passed is skipped | by a real clock: how late |
//! | `waits-for-all` | nothing leaves before all replies are here that it depends on | |
//! | `replay-exact`, `epoch-completed-after-crash` | the same cells again, then dummies to the end of the epoch | |
//! | `silence-after-a-failure`, `silence-after-a-lie` | nothing leaves after either | |
//!
//! # How the leaves are found
//!
//! The trace does not name them. Let R be the set of *live* buckets: stored, and not rewritten in
//! the open epoch.
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
//! So the state is a function of what was shown, and a trace passes exactly if some leaves explain
//! it.
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

mod after_failure;
mod bare;
mod buckets;
mod config;
mod crash_replay;
mod engine;
mod epochs;
mod pace;
mod reads;
mod vault;
mod xor;

use fogbank_env::Nanos;
use fogbank_store::ArrayShape;
use fogbank_store::trace::{ChunkCells, Condition, Done, Event, Request, Sent, TraceClock};

use self::after_failure::Silence;
use self::buckets::Shape;
pub use self::config::RingConfig;
use self::config::check;
pub(super) use self::engine::NAME;
use self::epochs::{Epochs, Lane};
use self::pace::Pace;
use super::chain::Chain;
use super::fault::{self, Refused, Step, Stop, Summary, fault};
use super::{LIE, MIDST, Machine, blob, chain, joint, replies};
use crate::Observer;

/// What waits is part of a batch or of a commit, or of neither.
type Waiting = replies::Waiting<Option<Lane>>;

/// Replays the traces of one store.
pub(super) struct Ring {
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
    summary: Summary,
}

impl Ring {
    /// An oracle for a store of this configuration.
    ///
    /// # Errors
    /// [`Refused`] for one that it does not follow.
    pub fn new(clock: TraceClock, ring: &RingConfig) -> Result<Self, Refused> {
        let shape = check(ring)?;
        let pace = Pace::new(clock, ring);
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
            summary: Summary::default(),
        })
    }
}

impl Machine for Ring {
    fn seed(&mut self, seed: u64) {
        self.epochs.reads.seed(seed);
    }

    fn event(&mut self, event: &Event, out: &mut dyn Observer) -> Result<(), Stop> {
        self.at = event.at();
        match event {
            Event::Sent(sent) => self.sent(sent, out),
            Event::Done(done) => self.done(done),
            Event::Mark(mark) if mark.label == LIE => {
                self.lied();
                Ok(())
            }
            Event::Mark(_) | Event::ClientRequest(_) | Event::ClientReply(_) | Event::Heard(_) => {
                Ok(())
            }
        }
    }

    fn next_trace(&mut self) {
        self.waiting.clear();
        if let Some(chain) = &mut self.chain {
            self.summary.crashes += u32::from(chain.up);
            chain.stop();
        }
        self.epochs.pace.restart();
        self.epochs.lanes.restart();
        self.silence = Silence::No;
    }

    fn summary(&self) -> Summary {
        Summary {
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
impl Ring {
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
            let seen = request.word();
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
            Request::BlobPut { .. } if is_piece(request) => {
                let pieces = |waiting: &Waiting| waiting.lane == Some(Lane::Pieces);
                self.waiting.iter().all(pieces) && self.epochs.lanes.may_put()
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
            _ => is_piece(request).then_some(Lane::Pieces),
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
impl Ring {
    fn done(&mut self, done: &Done) -> Result<(), Stop> {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == done.id) else {
            let seen = format!("request {}", done.id);
            return Ok(fault("reply-fits", "the end of a request", seen)?);
        };
        let waiting = self.waiting.swap_remove(at);
        let reply = waiting.judge(&done.outcome, self.config.cell_bytes)?;
        self.epochs.pace.ended(done.at);
        let delivery_time = self.epochs.pace.delivery_time(done.at);
        if let Some(lane) = waiting.lane {
            self.epochs.lanes.ended(lane, delivery_time);
        }
        if matches!(waiting.lane, None | Some(Lane::Pieces)) {
            self.ended_at = delivery_time;
        }
        match self.chain {
            Some(_) => self.done_vault(&waiting, done, reply)?,
            None => self.done_bare(reply),
        }
        self.spare.push(waiting.prints);
        Ok(())
    }
}

/// Whether a request puts a piece of a checkpoint or a delta.
fn is_piece(request: &Request) -> bool {
    let piece = |name: &str| name.starts_with(blob::FULL) || name.starts_with(blob::DELTA);
    matches!(request, Request::BlobPut { name, .. } if piece(name))
}
