//! The blobs of a store: which call of its vault is due, under which name, of
//! which length, and what a stop can have left of it.
//!
//! | | calls |
//! |---|---|
//! | create | put `commit` if absent |
//! | open | get `commit` once, get journal records from place 0 until one is absent, put a takeover record there, put `commit` if unchanged, get the full checkpoint and the deltas, newest first |
//! | sweep | list the journal records of the epoch of which the last commit superseded some, get each of these, list checkpoints, list deltas, delete what is left over, takeover records never |
//! | then | create array while no full checkpoint is there; the open epoch to its end; list chunks, delete those left over |
//! | batch | put the record at the next place if absent |
//! | commit | put the delta, or the full checkpoint that is due, put `commit` if unchanged; delete what the commit superseded, batch records of the epoch first, while the engine deletes its part |
//! | close | the same with a full checkpoint, between two epochs; nothing after it |
//!
//! A put is durable when it ends. One whose outcome nobody knows is followed by a get of the same
//! blob, and by a barrier if that shows our bytes.
//!
//! An engine that serves accesses as they come *cuts* ([`Parts`]): its checkpoints are written, and
//! adopted by a commit, beside further journal records. The journal goes on, and starts at the cut
//! from then on; its epoch lasts until the store is closed. An opening gets as many records at once
//! as may be under way, and a takeover leaves room for as many ([`reading`]). When it commits and
//! closes its machine knows; here is what is put and what that supersedes.
//!
//! A process opens a store once, and has a trace of its own: a get of the commit record anywhere
//! but at the beginning of a trace is due only after a put whose outcome nobody knows.
//!
//! # What a stop leaves
//!
//! A put that did not end may be there or not; so may a blob whose deletion did not end. The next
//! opening sees which: it gets the commit record and the journal by name and lists the rest
//! ([`sweep`]).

mod blobs;
mod cut;
pub(super) mod due;
mod ends;
mod next;
mod reading;
mod record;
mod sweep;

use fogbank_store::trace::{Condition, VaultConfig};

use self::blobs::Blobs;
pub(super) use self::next::Next;
pub(super) use self::reading::Read;
use self::reading::Reading;
use self::record::{Put, Record};
use self::sweep::{Counting, Scope, Sweep};
use super::blob::{
    COMMIT, DELTA, FULL, JOURNAL, Kept, check_names, check_put, check_replaces, check_size,
    commit_bytes, container_name, epoch_prefix, piece_name, record_name,
};
use super::fault::{Step, fault};
use super::joint::{Ended, Past};

/// Which deletions after a commit are still to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Collect {
    pub chunks: bool,
    pub blobs: bool,
}

/// Of an engine that cuts: records of the journal have a part an access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// What every part but the first adds.
    pub bytes: u64,
    /// How many there are at most.
    pub most: u32,
    /// Records under way at most: a takeover leaves so many places free.
    pub records_at_once: u32,
}

/// A place of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A record of a batch, or of accesses.
    Batch,
    Takeover,
    /// One that a takeover passed over: what may stand there counts for nobody, and goes with the
    /// epoch.
    Passed,
}

/// The vault of one store.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    config: VaultConfig,
    parts: Option<Parts>,
    pub next: Next,
    record: Option<Record>,
    /// The one that is being put, or whose put nobody knows the end of.
    putting: Option<Record>,
    past: Past,
    /// The journal of the open epoch, from where it starts.
    places: Vec<Place>,
    reading: Reading,
    blobs: Blobs,
    /// What the commits of this process have superseded.
    superseded: Vec<String>,
    sweep: Sweep,
    /// The puts that failed or were refused, in the order in which they are looked for: whose bytes
    /// are there?
    doubted: Vec<String>,
    /// Such a put that turned out to be done, and has to be made durable.
    unsettled: Option<String>,
    /// How many pieces of what is being put have ended.
    pieces_ended: u32,
    /// Which deletions after a commit were not sent yet.
    pub collect: Collect,
    /// Whether this process has claimed the store, or begun to, and not closed it.
    pub up: bool,
    /// Whether the open epoch is that of a process before.
    pub recovers: bool,
    /// The place up to which the checkpoint goes that is being written.
    cut: u32,
}

impl Chain {
    pub fn new(config: VaultConfig) -> Self {
        Self {
            config,
            parts: None,
            next: Next::Opening,
            record: None,
            putting: None,
            past: Past::default(),
            places: Vec::new(),
            reading: Reading::default(),
            blobs: Blobs::default(),
            superseded: Vec::new(),
            sweep: Sweep::default(),
            doubted: Vec::new(),
            unsettled: None,
            pieces_ended: 0,
            collect: Collect::default(),
            up: false,
            recovers: false,
            cut: 0,
        }
    }

    /// The vault of an engine that cuts.
    pub fn cutting(config: VaultConfig, parts: Parts) -> Self {
        Self { parts: Some(parts), ..Self::new(config) }
    }

    /// The process has stopped; what comes next is the beginning of another.
    pub fn stop(&mut self) {
        (self.next, self.up, self.recovers) = (Next::Opening, false, false);
        (self.unsettled, self.pieces_ended) = (None, 0);
        self.reading = Reading::default();
        self.doubted.clear();
        self.superseded.clear();
        self.blobs.stop();
    }

    /// The opening that runs or ran last, from 1.
    pub fn opening(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.opening)
    }

    /// How far the store came, as far as the traces show.
    pub fn ended(&self) -> Ended {
        let closed = self.record.as_ref().is_some_and(|record| record.put == Put::Close);
        Ended { opening: self.opening(), epoch: self.epoch(), closed }
    }

    /// Batches in the journal of the open epoch.
    pub fn batches(&self) -> u32 {
        self.places.iter().filter(|of| **of == Place::Batch).count() as u32
    }

    /// Whether a put failed whose outcome is now looked for.
    pub fn doubts(&self, name: &str) -> bool {
        self.doubted.first().is_some_and(|doubted| doubted == name)
    }

    /// Whether a put failed and nobody knows yet what became of it.
    pub fn is_doubtful(&self) -> bool {
        !self.doubted.is_empty()
    }

    fn epoch(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.epoch)
    }

    fn full(&self) -> Option<(u32, u64)> {
        self.record.as_ref().and_then(|record| record.full)
    }

    fn full_is_due(&self) -> bool {
        let full_epoch = self.record.as_ref().map_or(0, |record| record.full_epoch);
        self.epoch() + 1 >= full_epoch + self.config.journal.full_every.max(1)
    }

    /// Opening and epoch of the so-manieth delta from the newest.
    fn delta(&self, nth: usize) -> Option<(u32, u64)> {
        self.record.as_ref().and_then(|record| record.deltas.iter().rev().nth(nth).copied())
    }

    /// The containers that the commit record names.
    fn counting(&self) -> Counting {
        let full = self.full().map(|full| container_name(FULL, full));
        let deltas = self.record.iter().flat_map(|record| &record.deltas);
        let deltas = deltas.map(|delta| container_name(DELTA, *delta));
        Counting { opening: self.opening(), containers: full.into_iter().chain(deltas).collect() }
    }

    /// The place at which the journal of the open epoch starts.
    fn start(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.start)
    }

    /// The place behind all that were taken.
    fn end(&self) -> u32 {
        self.start() + self.places.len() as u32
    }

    /// The records that a sweep lists and looks at.
    fn scope(&self) -> Scope {
        let (epoch, start) = (self.epoch(), self.start());
        let from = self.record.as_ref().map_or(0, |record| record.superseded_from);
        match start {
            0 => Scope { prefix: epoch_prefix(epoch), places: from..u32::MAX },
            start => Scope { prefix: epoch_prefix(epoch + 1), places: from..start },
        }
    }

    /// Stops the replay: something else was due.
    pub fn out_of_order<T>(&self, seen: impl Into<String>) -> Step<T> {
        fault(self.next.rule(), self.next.words(), seen)
    }
}

/// Requests.
impl Chain {
    /// A get of a blob. Returns what it has to return, `None` if only the reply tells.
    pub fn get(&mut self, name: &str) -> Step<Option<Kept>> {
        let expected = match self.next {
            _ if self.doubts(name) => return Ok(None),
            Next::Opening => COMMIT.into(),
            Next::JournalGet(place) => record_name(self.epoch() + 1, place),
            Next::FullGet(piece) => piece_name(FULL, self.full().unwrap_or_default(), piece),
            Next::DeltaGet(nth, piece) => {
                piece_name(DELTA, self.delta(nth).unwrap_or_default(), piece)
            }
            Next::RecordGet(_) => {
                self.sweep.look(name, &self.blobs, &self.scope())?;
                return Ok(None);
            }
            _ => return self.out_of_order(format!("get {name}")),
        };
        if name != expected {
            return fault(self.next.rule(), format!("get {expected}"), format!("get {name}"));
        }
        let piece = matches!(self.next, Next::FullGet(_) | Next::DeltaGet(..));
        Ok(self.blobs.get(name).map(|blob| blob.kept).filter(|_| piece))
    }

    /// A put of a blob; `between` if no epoch is open.
    pub fn put(&mut self, name: &str, kept: Kept, condition: &Condition, between: bool) -> Step {
        match self.next {
            Next::Opening if name == COMMIT && self.record.is_none() => {
                self.put_commit(Put::Claim, kept, condition)
            }
            Next::Claim if name == COMMIT => self.put_commit(Put::Claim, kept, condition),
            Next::CommitPut if name == COMMIT => self.put_commit(Put::Epoch, kept, condition),
            Next::ClosePut if name == COMMIT => self.put_commit(Put::Close, kept, condition),
            Next::Takeover | Next::Batches if name.starts_with(JOURNAL) => {
                self.put_record(name, kept, condition)
            }
            Next::Batches if name.starts_with(FULL) && between => {
                self.put_piece((0, true), name, kept, condition)?;
                self.next = Next::ClosePiece(1);
                Ok(())
            }
            Next::ClosePiece(piece) => {
                self.put_piece((piece, true), name, kept, condition)?;
                self.next = Next::ClosePiece(piece + 1);
                Ok(())
            }
            Next::CommitPiece(piece) => {
                self.put_piece((piece, self.full_is_due()), name, kept, condition)?;
                self.next = Next::CommitPiece(piece + 1);
                Ok(())
            }
            Next::Batches if self.recovers => {
                fault("epoch-completed-after-crash", "the rest of the epoch", format!("put {name}"))
            }
            Next::Batches => fault("commit-order", "the images first", format!("put {name}")),
            _ => self.out_of_order(format!("put {name}")),
        }
    }

    fn put_record(&mut self, name: &str, kept: Kept, condition: &Condition) -> Step {
        let expected = record_name(self.epoch() + 1, self.end());
        check_put((&expected, &Condition::IfAbsent), (name, condition), "blob-order")?;
        let batch = self.next == Next::Batches;
        match self.parts {
            Some(parts) if batch => drop(self.accesses(parts, kept.bytes)?),
            _ => check_size("journal-size", self.config.journal.record_bytes, kept.bytes)?,
        }
        match batch {
            true => self.places.push(Place::Batch),
            false => {
                let passed = self.parts.map_or(0, |parts| parts.records_at_once.saturating_sub(1));
                self.places.push(Place::Takeover);
                self.places.extend((0..passed).map(|_| Place::Passed));
            }
        }
        self.up = true;
        self.blobs.put(expected, kept, !batch);
        Ok(())
    }

    /// The accesses of a record of so many bytes.
    fn accesses(&self, parts: Parts, bytes: u64) -> Step<u32> {
        let first = self.config.journal.record_bytes;
        let further = bytes.checked_sub(first).filter(|more| more % parts.bytes.max(1) == 0);
        match further.map(|more| more / parts.bytes.max(1) + 1) {
            Some(count) if count <= parts.most.into() => Ok(count as u32),
            _ => {
                let (each, most) = (parts.bytes, parts.most);
                let due = format!("{first} bytes and {each} for each further of {most} accesses");
                fault("journal-size", due, format!("{bytes} bytes"))
            }
        }
    }

    fn put_piece(
        &mut self,
        (piece, full): (u32, bool),
        name: &str,
        kept: Kept,
        condition: &Condition,
    ) -> Step {
        let sequence = self.record.as_ref().map_or(0, |record| record.sequence) + 1;
        let (rule, kind, number) = match full {
            true => ("blob-size", FULL, sequence),
            false => ("delta-size", DELTA, self.epoch() + 1),
        };
        if piece >= self.pieces(full) {
            return fault("commit-order", "the end of the pieces", format!("put {name}"));
        }
        let expected = piece_name(kind, (self.opening(), number), piece);
        check_put((&expected, &Condition::Always), (name, condition), "commit-order")?;
        let last = piece + 1 == self.pieces(full);
        let bytes = match (full, last) {
            (true, true) => self.config.last_piece_bytes,
            (true, false) => self.config.piece_bytes,
            (false, true) => self.config.journal.delta_last_piece_bytes,
            (false, false) => self.config.journal.delta_piece_bytes,
        };
        check_size(rule, bytes, kept.bytes)?;
        self.blobs.put(expected, kept, false);
        Ok(())
    }

    fn pieces(&self, full: bool) -> u32 {
        if full { self.config.pieces } else { self.config.journal.delta_pieces }
    }

    fn put_commit(&mut self, put: Put, kept: Kept, condition: &Condition) -> Step {
        check_replaces(self.record.is_some(), condition)?;
        let full = matches!(put, Put::Close | Put::Adopt(_)) || self.full_is_due();
        let record = Record::following(self.record.as_ref(), put, full, kept);
        check_size("blob-size", commit_bytes(&self.config, record.opening), kept.bytes)?;
        self.putting = Some(record);
        self.past.put(kept);
        self.up = true;
        Ok(())
    }

    /// Whether a barrier of the vault's is due.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled.is_some()
    }

    /// A list of blobs.
    pub fn list(&mut self, prefix: &str) -> Step {
        if matches!(self.next, Next::RecordGet(_)) && self.sweep.may_have_looked() {
            self.next = Next::FullList;
        }
        let expected = match self.next {
            Next::RecordList => self.scope().prefix,
            Next::FullList => FULL.into(),
            Next::DeltaList => DELTA.into(),
            _ => return self.out_of_order(format!("list {prefix}")),
        };
        if prefix == expected {
            return Ok(());
        }
        fault(self.next.rule(), format!("list {expected}"), format!("list {prefix}"))
    }

    /// A deletion of blobs.
    pub fn delete(&mut self, names: &[String]) -> Step {
        match self.next {
            Next::Leftovers => self.sweep.check(names, (&self.blobs, &self.counting()))?,
            Next::Collect if !self.collect.blobs => return self.out_of_order("a second deletion"),
            Next::Collect | Next::CloseDelete => {
                check_names(self.next.rule(), &self.superseded, names)?;
                self.collect.blobs = false;
            }
            _ => {
                let first = names.first().map_or("nothing", String::as_str);
                return self.out_of_order(format!("delete {first} and what follows it"));
            }
        }
        self.blobs.delete(names);
        Ok(())
    }

    /// Whether the sweep deletes only if a lie of the cloud has told it to.
    pub fn may_delete_nothing(&self) -> bool {
        self.next == Next::Leftovers && self.sweep.is_open()
    }
}
