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
//! fingerprints of a reply cannot tell. A get of the commit record where no call of a running proxy
//! is due is what the cloud sees of a new proxy; whether there was one its owner knows, so
//! [`Summary::openings`] and [`Summary::crashes`] are to be held against that.

mod again;
mod buckets;
mod chain;
mod epochs;
mod fault;
mod journalled;
mod pace;
mod reads;
mod replay;
mod replies;
mod vault;
mod xor;

pub use fault::{Halt, Refused, Summary};
pub use replay::{ReplayError, replay};

use fogbank_env::Nanos;
use fogbank_store::ArrayShape;
use fogbank_store::trace::{
    ChunkCells, Condition, Done, EngineConfig, Event, Outcome, PublicConfig, Request, RingConfig,
    Sent,
};

use self::buckets::{Buckets, Shape};
use self::chain::Chain;
use self::epochs::Epochs;
use self::fault::{Fault, Step, fault};
use self::pace::Pace;
use self::replies::{Expected, Reply, Waiting};
use self::vault::{COMMIT, Kept, Next, Vault};
use crate::{Breach, Observation, Observer};

/// Replays the traces of one store.
pub struct Oracle {
    config: RingConfig,
    shape: Shape,
    epochs: Epochs,
    /// The vault of a store without a journal.
    vault: Option<Vault>,
    /// The vault of one with a journal.
    chain: Option<Chain>,
    /// Without a vault: whether the array was made.
    made: bool,
    /// Whether anything was seen that tells where in the life of the store this is.
    oriented: bool,
    waiting: Vec<Waiting>,
    spare: Vec<Vec<u64>>,
    /// Requests of a proxy that has stopped.
    orphans: Vec<u64>,
    silence: Silence,
    events: u64,
    summary: Summary,
}

/// Why nothing more may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Silence {
    No,
    /// A reply was a lie; `window` if the next window of the message leaves all the same.
    Lied {
        window: bool,
    },
    Failed,
}

/// An end of the replay, with or without a place in the trace.
enum Stop {
    Fault(Box<Fault>),
    Unpredictable(&'static str),
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
            vault: ring.vault.clone().filter(|vault| vault.journal.is_none()).map(Vault::new),
            chain: chain(ring),
            made: false,
            oriented: false,
            waiting: Vec::new(),
            spare: Vec::new(),
            orphans: Vec::new(),
            silence: Silence::No,
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
        let taken = match event {
            Event::Sent(sent) => self.sent(sent, out),
            Event::Done(done) => self.done(done),
            Event::Mark(mark) if mark.label == LIE => {
                self.lied(false);
                Ok(())
            }
            Event::Mark(_) | Event::ClientRequest(_) | Event::ClientReply(_) => Ok(()),
        };
        let (number, at) = (self.events, event.at());
        self.events += 1;
        taken.map_err(|stop| match stop {
            Stop::Unpredictable(reason) => Halt::Unpredictable { event: number, reason },
            Stop::Fault(fault) => {
                let Fault { rule, expected, seen } = *fault;
                Halt::Breach(Breach { rule, event: number, at, expected, seen })
            }
        })
    }

    /// What follows is a further trace of the same store, by a later process with its own clock.
    pub fn next_trace(&mut self) {
        self.orphans.clear();
        self.stop();
        self.orphans.clear();
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

    /// The proxy that ran has stopped.
    fn stop(&mut self) {
        self.orphans.extend(self.waiting.drain(..).map(|waiting| waiting.id));
        if let Some(vault) = &mut self.vault {
            self.summary.crashes += u32::from(vault.is_up());
            vault.stop();
        }
        if let Some(chain) = &mut self.chain {
            self.summary.crashes += u32::from(chain.up);
            chain.stop();
        }
        self.epochs.pace.restart();
        self.silence = Silence::No;
    }

    fn lied(&mut self, window: bool) {
        self.summary.lies += 1;
        if self.silence == Silence::No {
            self.silence = Silence::Lied { window };
        }
    }
}

/// The vault of a store with a journal, if it is one.
fn chain(config: &RingConfig) -> Option<Chain> {
    let vault = config.vault.clone()?;
    let journal = vault.journal.clone()?;
    Some(Chain::new(vault, journal))
}

/// Checks a configuration; every derived number then fits its type.
fn check(config: &RingConfig) -> Result<Shape, Refused> {
    let refuse = |reason| Err(Refused(reason));
    if !config.epoch_buffer {
        return refuse("rewritten buckets are written through");
    }
    if config.reals < 2 {
        return refuse("Z is below 2: a path read cannot be told from one that retires a bucket");
    }
    let sound = config.leaf_level <= 28
        && config.cached_levels <= config.leaf_level
        && (1..=4096).contains(&config.reals)
        && (1..=4096).contains(&config.dummies)
        && config.evict_every > 0
        && config.read_batches > 0
        && config.read_batch > 0
        && config.read_batches <= READ_BATCHES_MAX
        && accesses(config).is_some_and(|accesses| accesses <= EPOCH_ACCESSES_MAX)
        && config.window_cells > 0
        && config.window_chunks > 0;
    let times = [config.interval_ns, config.slack_ns, config.quantum_ns];
    let few = |pieces: u32| (1..=PIECES_MAX).contains(&pieces);
    let pieces = config.vault.as_ref().is_none_or(|vault| {
        let journal = vault.journal.as_ref();
        few(vault.pieces) && journal.is_none_or(|journal| few(journal.delta_pieces))
    });
    let journalled = config.vault.as_ref().is_some_and(|vault| vault.journal.is_some());
    if journalled && !config.keep_superseded {
        return refuse("a store with a journal keeps what an epoch supersedes until its commit");
    }
    if !sound || !pieces || times.iter().any(|time| *time > TIME_MAX) {
        return refuse("a number is out of its limits");
    }
    let shape = Shape {
        leaf_level: config.leaf_level,
        cached_levels: config.cached_levels,
        reals: config.reals,
        dummies: config.dummies,
    };
    if Buckets::bytes(shape) > MEMORY_MAX {
        return refuse("the state of its buckets would not fit the memory");
    }
    Ok(shape)
}

/// Accesses of an epoch.
fn accesses(config: &RingConfig) -> Option<u64> {
    let reads = u64::from(config.read_batches).checked_mul(config.read_batch.into())?;
    reads.checked_add(config.write_batch.into())
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
        self.meet_a_new_proxy(&sent.request);
        self.meet_an_opening(&sent.request);
        let sibling = self.may_be_sent(&sent.request, sent.at)?;
        let (expected, paced) = self.request(&sent.request, sent.at, sibling, out)?;
        let mut prints = self.spare.pop().unwrap_or_default();
        prints.clear();
        self.note_reads(&sent.request, sibling, &mut prints);
        let put = match &sent.request {
            Request::BlobPut { name, .. } if self.chain.is_some() => Some(name.clone()),
            _ => None,
        };
        self.waiting.push(Waiting { id: sent.id, expected, paced, prints, put });
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

    /// A get of the commit record that is not due is a new proxy.
    fn meet_a_new_proxy(&mut self, request: &Request) {
        let Some(vault) = &self.vault else { return };
        let looks = matches!(request, Request::BlobGet { name } if name == COMMIT);
        if looks && !matches!(vault.next, Next::Recheck(_)) {
            let looking = self.waiting.iter().any(|waiting| waiting.expected == Expected::Commit);
            if !looking {
                self.stop();
            }
        }
    }

    /// Whether a request may leave now; and if so, whether together with the one before.
    fn may_be_sent(&mut self, request: &Request, at: Nanos) -> Step<bool> {
        let sibling = match request {
            Request::ReadCells { .. } | Request::ReadXor { .. } => {
                let xors = matches!(request, Request::ReadXor { .. });
                self.epochs.repeats_sibling()
                    || self.epochs.is_sibling(xors, at, self.waiting.is_empty())
            }
            _ => false,
        };
        if self.silence != Silence::No && !sibling {
            self.hold_silence(request)?;
        }
        if !self.waiting.is_empty() && !sibling {
            let seen = format!("{:?}", request.operation());
            return fault("waits-for-all", "the end of the request before", seen);
        }
        Ok(sibling)
    }

    fn hold_silence(&mut self, request: &Request) -> Step {
        let seen = format!("{:?}", request.operation());
        match (&mut self.silence, request) {
            (Silence::Lied { window }, Request::ReadCells { .. }) if *window => {
                *window = false;
                Ok(())
            }
            (Silence::Failed, _) => fault("silence-after-a-failure", "nothing more", seen),
            _ => fault("silence-after-a-lie", "nothing more", seen),
        }
    }

    /// Holds a request against what is due. Returns the reply it has to have, and whether it is the
    /// engine's.
    fn request(
        &mut self,
        request: &Request,
        at: Nanos,
        sibling: bool,
        out: &mut dyn Observer,
    ) -> Step<(Expected, bool)> {
        if self.chain.is_some() {
            return Ok((self.request_journalled(request, at, sibling, out)?, true));
        }
        match request {
            Request::CreateArray { array, shape } => {
                self.create_array(array.0, *shape, at)?;
                Ok((Expected::Done, true))
            }
            Request::ReadCells { reads } => {
                self.check_running("read cells")?;
                self.epochs.read(reads, at, sibling, out)?;
                Ok((Expected::Cells, true))
            }
            Request::ReadXor { reads, groups } => {
                self.check_running("read XOR")?;
                self.epochs.read_paths(reads, groups, at, sibling, out)?;
                Ok((Expected::Combined(groups.len()), true))
            }
            Request::WriteChunks { writes } => {
                self.check_running("write chunks")?;
                self.epochs.write(writes, at, out)?;
                Ok((Expected::Done, true))
            }
            Request::DeleteChunks { chunks } => {
                self.check_running("delete chunks")?;
                self.epochs.delete(chunks, at, out)?;
                Ok((Expected::Done, true))
            }
            Request::Barrier => self.barrier(at, out),
            Request::BlobGet { .. }
            | Request::BlobPut { .. }
            | Request::BlobDelete { .. }
            | Request::BlobList { .. } => Ok((self.blob(request, at, out)?, false)),
            _ => {
                let seen = format!("{:?}", request.operation());
                fault("unknown-operation", "an operation of the protocol", seen)
            }
        }
    }

    fn create_array(&mut self, array: u16, shape: ArrayShape, at: Nanos) -> Step {
        let due = match &self.vault {
            Some(vault) if vault.next == Next::Array => Ok(()),
            None if !self.made => Ok(()),
            Some(vault) => Err(vault.next.words()),
            None => Err(self.epochs.due().1.into()),
        };
        if let Err(due) = due {
            return fault("blob-order", due, "create array");
        }
        self.check_array(array, shape)?;
        let pace = &mut self.epochs.pace;
        if self.vault.is_some() { pace.further(at) } else { pace.owners(at) }.map(drop)
    }

    fn check_array(&self, array: u16, shape: ArrayShape) -> Step {
        let (chunks, cells_per_chunk) = (self.shape.buckets(), self.shape.slots());
        let cell_bytes = self.config.cell_bytes;
        let expected = ArrayShape { chunks, cells_per_chunk, cell_bytes };
        if array != self.config.array || shape != expected {
            return fault("array-shape", format!("{expected:?}"), format!("{array}: {shape:?}"));
        }
        Ok(())
    }

    fn check_running(&self, seen: &str) -> Step {
        match &self.vault {
            Some(vault) if vault.next != Next::Epochs => {
                fault("blob-order", vault.next.words(), seen)
            }
            None if !self.made => fault("blob-order", "create array", seen),
            _ => Ok(()),
        }
    }

    fn barrier(&mut self, at: Nanos, out: &mut dyn Observer) -> Step<(Expected, bool)> {
        match &mut self.vault {
            Some(vault) if vault.next != Next::Epochs => {
                vault.barrier()?;
                self.epochs.pace.unpaced(at)?;
                Ok((Expected::Done, false))
            }
            _ => {
                self.check_running("barrier")?;
                self.epochs.barrier(at, out)?;
                Ok((Expected::Done, true))
            }
        }
    }

    fn blob(&mut self, request: &Request, at: Nanos, out: &mut dyn Observer) -> Step<Expected> {
        let Some(vault) = &mut self.vault else {
            return fault("unknown-operation", "no blobs without a vault", "a blob");
        };
        if vault.next == Next::Epochs && !self.epochs.is_between() {
            let (rule, words) = self.epochs.due();
            return fault(rule, words, format!("{:?}", request.operation()));
        }
        let free = matches!(vault.next, Next::Opening | Next::Epochs);
        let expected = match request {
            Request::BlobGet { name } => match vault.get(name)? {
                None => Expected::Commit,
                Some(piece) => Expected::Piece(Some(piece)),
            },
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                vault.put(name, Kept { bytes: *bytes, fingerprint: *fingerprint }, condition)?;
                let kind = name.split('/').next().unwrap_or_default();
                let (bytes, fingerprint) = (*bytes, *fingerprint);
                out.observe(&Observation::Blob { kind, bytes, fingerprint });
                if name == COMMIT { Expected::CommitPut } else { Expected::PiecePut }
            }
            Request::BlobDelete { names } => {
                vault.delete(names)?;
                Expected::Done
            }
            Request::BlobList { prefix } => {
                vault.list(prefix)?;
                Expected::List
            }
            _ => Expected::Done,
        };
        if !free {
            self.epochs.pace.unpaced(at)?;
        }
        Ok(expected)
    }

    /// Notes the fingerprints that the cells of the reply have to have; with a journal also what was
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
            self.epochs.again.note(request, prints, sibling);
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
            return Ok(self.done_after_stop(done)?);
        };
        let waiting = self.waiting.swap_remove(at);
        let reply = waiting.judge(&done.outcome, self.config.cell_bytes)?;
        self.epochs.pace.ended(done.at, waiting.paced);
        if self.chain.is_some() {
            self.done_journalled(&waiting, done, reply)?;
            self.spare.push(waiting.prints);
            return Ok(());
        }
        match reply {
            Reply::Failed | Reply::Abandoned => self.silence = Silence::Failed,
            Reply::Lie => {
                let window = waiting.expected == Expected::Cells && self.epochs.window_is_full();
                self.lied(window);
            }
            Reply::Looked(seen) => self.looked(seen)?,
            _ if waiting.paced => self.engine_message_ended(),
            _ => self.vault_message_ended(reply),
        }
        self.spare.push(waiting.prints);
        Ok(())
    }

    /// A proxy that has stopped gets no reply.
    fn done_after_stop(&mut self, done: &Done) -> Step {
        let known = self.orphans.contains(&done.id);
        match (known, &done.outcome) {
            (true, Outcome::Abandoned) => Ok(()),
            (true, _) => fault("waits-for-all", "the end of a request before a new proxy", "later"),
            (false, _) => {
                fault("reply-fits", "the end of a request", format!("request {}", done.id))
            }
        }
    }

    fn looked(&mut self, seen: Option<Kept>) -> Result<(), Stop> {
        let Some(vault) = &mut self.vault else { return Ok(()) };
        if !self.oriented && seen.is_some() {
            return Err(Stop::Unpredictable(MIDST));
        }
        self.oriented = true;
        match vault.next {
            Next::Recheck(_) => {
                if !vault.rechecked(seen) {
                    self.silence = Silence::Failed;
                }
            }
            _ => {
                if !vault.looked_at(seen) {
                    self.lied(false);
                }
            }
        }
        Ok(())
    }

    fn engine_message_ended(&mut self) {
        match &mut self.vault {
            Some(vault) if vault.next == Next::Array => vault.advance(),
            None if !self.made => {
                self.made = true;
                self.summary.openings = 1;
                self.epochs.start(1);
            }
            _ if self.waiting.is_empty() => self.epochs.message_ended(),
            _ => {}
        }
    }

    fn vault_message_ended(&mut self, reply: Reply) {
        let Some(vault) = &mut self.vault else { return };
        let was = vault.next;
        match reply {
            Reply::Put(done) => vault.put_ended(done),
            Reply::Listed(names) => vault.list_ended(names),
            _ => vault.advance(),
        }
        match (was, vault.next) {
            (Next::Opening, Next::ClaimBarrier) => self.summary.openings += 1,
            (Next::RunBarrier, Next::Epochs) => self.epochs.start(vault.opening()),
            (Next::ClosePut, Next::ClosedBarrier) => self.summary.closings += 1,
            _ => {}
        }
    }
}

/// The mark of a store that lies.
const LIE: &str = "lie";
/// Why a trace cannot be followed.
const MIDST: &str = "the trace begins after the store was made, and nothing before it was given";
/// Batches and accesses of an epoch, and pieces of a checkpoint: a hostile head must not buy hours.
const READ_BATCHES_MAX: u32 = 10_000;
const EPOCH_ACCESSES_MAX: u64 = 1 << 24;
const PIECES_MAX: u32 = 1 << 20;
/// Longer times are a mistake.
const TIME_MAX: Nanos = 1 << 50;
/// Larger states are refused.
const MEMORY_MAX: u64 = 4 << 30;
