//! The blobs of a store that keeps a journal: which call of its vault is due, under which name, of
//! which length, and what a stop can have left of it.
//!
//! | | calls |
//! |---|---|
//! | create | put `commit` if absent, barrier |
//! | open | get `commit`, get journal records from place 0 until one is absent, put a takeover record there, barrier, put `commit` if unchanged, barrier, get the full checkpoint and the deltas, newest first, list journal, checkpoints and deltas, delete what is left over |
//! | then | create array while no full checkpoint is there; the open epoch to its end; list chunks, delete those left over |
//! | batch | put the record at the next place if absent, barrier |
//! | commit | put the delta, or the full checkpoint that is due, barrier, put `commit` if unchanged, barrier; when the engine has deleted its part: delete what the commit superseded |
//! | close | the same with a full checkpoint, between two epochs |
//!
//! # What a stop leaves
//!
//! A put that did not end, or that no barrier followed, may be there or not; so may a blob whose
//! deletion did not end. The next opening sees which: it gets the commit record and the journal by
//! name and lists the rest. How many it finds tells how many it has to delete.

use std::collections::BTreeMap;

use fogbank_store::trace::{Condition, JournalConfig, VaultConfig};

use super::fault::{Step, fault};
use super::vault::{COMMIT, Kept};

/// The call that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// No proxy runs.
    Opening,
    JournalGet(u32),
    Takeover,
    TakeoverBarrier,
    Claim,
    ClaimBarrier,
    FullGet(u32),
    /// Of the so-manieth delta from the newest.
    DeltaGet(usize, u32),
    List(Listed),
    Leftovers,
    Array,
    /// The engine's calls, and the journal record of the next batch.
    Batches,
    RecordBarrier,
    CommitPiece(u32),
    CommitBarrier,
    CommitPut,
    CommittedBarrier,
    CollectChunks,
    CollectBlobs,
    SweepList,
    SweepDelete,
    ClosePiece(u32),
    CloseBarrier,
    ClosePut,
    ClosedBarrier,
    CloseDelete,
}

/// What the sweep lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    Journal,
    Full,
    Delta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    Claim,
    Epoch,
    Close,
}

/// What a commit record says, as far as it is public.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    opening: u32,
    sequence: u64,
    epoch: u64,
    /// Opening and number of the newest full checkpoint, and the epoch it ended.
    full: Option<(u32, u64)>,
    full_epoch: u64,
    /// Opening and epoch of the deltas since, oldest first.
    deltas: Vec<(u32, u64)>,
    put: Put,
    kept: Kept,
}

/// What the look at the commit record came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    Lie,
    /// Whether the epoch that was being committed is committed.
    There {
        landed: bool,
    },
}

/// The vault of one store with a journal.
#[derive(Debug)]
pub(super) struct Chain {
    config: VaultConfig,
    journal: JournalConfig,
    pub next: Next,
    record: Option<Record>,
    /// The one that is being put, or whose put nobody knows the end of.
    putting: Option<Record>,
    /// The journal of the open epoch: whether each record is a batch's.
    places: Vec<bool>,
    /// What is there, or may be: then without certainty.
    blobs: BTreeMap<String, (Kept, bool)>,
    /// What the commits of this proxy have superseded.
    superseded: Vec<String>,
    deleting: Vec<String>,
    /// What this proxy has put since its last barrier.
    fresh: Vec<String>,
    /// Names that this opening was shown.
    listed: u64,
    /// The put that failed or was refused: whose bytes are there?
    doubted: Option<String>,
    /// Whether this proxy has claimed the store, or begun to, and not closed it.
    pub up: bool,
    /// Whether the open epoch is that of a proxy before.
    pub recovers: bool,
}

impl Chain {
    pub fn new(config: VaultConfig, journal: JournalConfig) -> Self {
        Self {
            config,
            journal,
            next: Next::Opening,
            record: None,
            putting: None,
            places: Vec::new(),
            blobs: BTreeMap::new(),
            superseded: Vec::new(),
            deleting: Vec::new(),
            fresh: Vec::new(),
            listed: 0,
            doubted: None,
            up: false,
            recovers: false,
        }
    }

    /// The proxy has stopped.
    pub fn stop(&mut self) {
        (self.next, self.up, self.recovers, self.doubted) = (Next::Opening, false, false, None);
        self.superseded.clear();
        self.deleting.clear();
        self.fresh.clear();
    }

    /// The opening that runs or ran last, from 1.
    pub fn opening(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.opening)
    }

    /// Batches in the journal of the open epoch.
    pub fn batches(&self) -> u32 {
        self.places.iter().filter(|batch| **batch).count() as u32
    }

    /// Whether a put failed whose outcome is now looked for.
    pub fn doubts(&self, name: &str) -> bool {
        self.doubted.as_deref() == Some(name)
    }

    /// Whether a put failed and nobody knows yet what became of it.
    pub fn is_doubtful(&self) -> bool {
        self.doubted.is_some()
    }

    fn epoch(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.epoch)
    }

    fn full(&self) -> Option<(u32, u64)> {
        self.record.as_ref().and_then(|record| record.full)
    }

    fn full_is_due(&self) -> bool {
        let full_epoch = self.record.as_ref().map_or(0, |record| record.full_epoch);
        self.epoch() + 1 >= full_epoch + self.journal.full_every.max(1)
    }

    /// Opening and epoch of the so-manieth delta from the newest.
    fn delta(&self, nth: usize) -> Option<(u32, u64)> {
        self.record.as_ref().and_then(|record| record.deltas.iter().rev().nth(nth).copied())
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
            _ => return self.out_of_order(format!("get {name}")),
        };
        if name != expected {
            return fault(self.next.rule(), format!("get {expected}"), format!("get {name}"));
        }
        let piece = matches!(self.next, Next::FullGet(_) | Next::DeltaGet(..));
        Ok(self.blobs.get(name).map(|(kept, _)| *kept).filter(|_| piece))
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
                self.next = Next::ClosePiece(0);
                self.put_piece((0, true), name, kept, condition)
            }
            Next::ClosePiece(piece) => self.put_piece((piece, true), name, kept, condition),
            Next::CommitPiece(piece) => {
                self.put_piece((piece, self.full_is_due()), name, kept, condition)
            }
            Next::Batches if self.recovers => {
                fault("epoch-completed-after-crash", "the rest of the epoch", format!("put {name}"))
            }
            Next::Batches => fault("commit-order", "the images first", format!("put {name}")),
            _ => self.out_of_order(format!("put {name}")),
        }
    }

    fn put_record(&mut self, name: &str, kept: Kept, condition: &Condition) -> Step {
        let expected = record_name(self.epoch() + 1, self.places.len() as u32);
        check_put((&expected, &Condition::IfAbsent), (name, condition), "blob-order")?;
        check_size("journal-size", self.journal.record_bytes, kept.bytes)?;
        self.places.push(self.next == Next::Batches);
        self.up = true;
        self.fresh.push(expected.clone());
        self.blobs.insert(expected, (kept, false));
        Ok(())
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
        let expected = piece_name(kind, (self.opening(), number), piece);
        check_put((&expected, &Condition::Always), (name, condition), "commit-order")?;
        let last = piece + 1 == self.pieces(full);
        let bytes = match (full, last) {
            (true, true) => self.config.last_piece_bytes,
            (true, false) => self.config.piece_bytes,
            (false, true) => self.journal.delta_last_piece_bytes,
            (false, false) => self.journal.delta_piece_bytes,
        };
        check_size(rule, bytes, kept.bytes)?;
        self.fresh.push(expected.clone());
        self.blobs.insert(expected, (kept, false));
        Ok(())
    }

    fn pieces(&self, full: bool) -> u32 {
        if full { self.config.pieces } else { self.journal.delta_pieces }
    }

    fn put_commit(&mut self, put: Put, kept: Kept, condition: &Condition) -> Step {
        let fits = match condition {
            Condition::IfAbsent => self.record.is_none(),
            Condition::IfUnchanged(_) => self.record.is_some(),
            Condition::Always => false,
        };
        if !fits {
            return fault("blob-order", "a conditional put of commit", format!("{condition:?}"));
        }
        let record = self.following(put, kept);
        let grown = self.config.commit_bytes_an_opening * u64::from(record.opening - 1);
        check_size("blob-size", self.config.commit_bytes + grown, kept.bytes)?;
        self.putting = Some(record);
        self.up = true;
        Ok(())
    }

    fn following(&self, put: Put, kept: Kept) -> Record {
        let first = Record {
            opening: 0,
            sequence: 0,
            epoch: 0,
            full: None,
            full_epoch: 0,
            deltas: Vec::new(),
            put,
            kept,
        };
        let mut record = self.record.clone().unwrap_or(first);
        record.sequence += 1;
        (record.put, record.kept) = (put, kept);
        match put {
            Put::Claim => record.opening += 1,
            Put::Epoch | Put::Close => {
                record.epoch += 1;
                if put == Put::Close || self.full_is_due() {
                    record.full = Some((record.opening, record.sequence));
                    record.full_epoch = record.epoch;
                    record.deltas.clear();
                } else {
                    record.deltas.push((record.opening, record.epoch));
                }
            }
        }
        record
    }

    /// A barrier of the vault's.
    pub fn barrier(&self) -> Step {
        match self.next {
            Next::TakeoverBarrier
            | Next::ClaimBarrier
            | Next::RecordBarrier
            | Next::CommitBarrier
            | Next::CommittedBarrier
            | Next::CloseBarrier
            | Next::ClosedBarrier => Ok(()),
            _ => self.out_of_order("barrier"),
        }
    }

    /// A list of blobs.
    pub fn list(&self, prefix: &str) -> Step {
        match self.next {
            Next::List(listed) if prefix == listed.prefix() => Ok(()),
            _ => self.out_of_order(format!("list {prefix}")),
        }
    }

    /// A deletion of blobs.
    pub fn delete(&mut self, names: &[String]) -> Step {
        match self.next {
            Next::Leftovers => self.check_leftovers(names)?,
            Next::CollectBlobs | Next::CloseDelete if names == self.superseded => {}
            _ => return self.out_of_order(format!("delete {names:?}")),
        }
        self.deleting = names.to_vec();
        for name in names {
            self.blobs.entry(name.clone()).and_modify(|(_, certain)| *certain = false);
        }
        Ok(())
    }

    /// As many as were listed and do not count, each of them one that may be there, in the order of
    /// the lists.
    fn check_leftovers(&self, names: &[String]) -> Step {
        let Some(count) = self.leftovers_listed() else { return Ok(()) };
        let rank = |name: &String| (!name.starts_with(JOURNAL), name.clone());
        let known = |name: &String| self.blobs.contains_key(name) && self.is_left_over(name);
        let missing = self.blobs.iter().any(|(name, (_, certain))| {
            *certain && self.is_left_over(name) && !names.contains(name)
        });
        let ordered = names.is_sorted_by(|a, b| rank(a) < rank(b));
        if names.len() as u64 == count && !missing && ordered && names.iter().all(known) {
            return Ok(());
        }
        fault("blob-order", format!("a deletion of {count} left over"), format!("delete {names:?}"))
    }

    /// How many listed blobs are left over; `None` if the cloud listed what cannot be.
    fn leftovers_listed(&self) -> Option<u64> {
        let (left, kept): (Vec<_>, Vec<_>) =
            self.blobs.keys().partition(|name| self.is_left_over(name));
        let count = self.listed.checked_sub(kept.len() as u64)?;
        (count <= left.len() as u64).then_some(count)
    }

    fn is_left_over(&self, name: &str) -> bool {
        if let Some(rest) = name.strip_prefix(JOURNAL) {
            let epoch = rest.split_once('-').and_then(|(epoch, _)| hex(epoch));
            return epoch.is_some_and(|epoch| epoch <= self.epoch());
        }
        let full = self.full().map(|full| container_name(FULL, full));
        let deltas = self.record.iter().flat_map(|record| &record.deltas);
        let mut kept = full.into_iter().chain(deltas.map(|delta| container_name(DELTA, *delta)));
        !kept.any(|kept| name.starts_with(&kept))
    }
}

/// Ends of requests.
impl Chain {
    /// The call that was due has ended well.
    pub fn advance(&mut self) {
        self.next = match self.next {
            Next::Takeover => Next::TakeoverBarrier,
            Next::TakeoverBarrier => self.durable(Next::Claim),
            Next::Claim | Next::Opening => Next::ClaimBarrier,
            Next::ClaimBarrier => {
                self.settle();
                self.after_claim()
            }
            Next::FullGet(piece) if piece + 1 < self.config.pieces => Next::FullGet(piece + 1),
            Next::FullGet(_) => self.delta_from(0),
            Next::DeltaGet(nth, piece) if piece + 1 < self.journal.delta_pieces => {
                Next::DeltaGet(nth, piece + 1)
            }
            Next::DeltaGet(nth, _) => self.delta_from(nth + 1),
            Next::List(Listed::Journal) => Next::List(Listed::Full),
            Next::List(Listed::Full) => Next::List(Listed::Delta),
            Next::List(Listed::Delta) if self.leftovers_listed() == Some(0) => self.after_sweep(),
            Next::List(Listed::Delta) => Next::Leftovers,
            Next::Leftovers => {
                self.forget_leftovers();
                self.after_sweep()
            }
            Next::Array => self.after_array(),
            // The record of a batch.
            Next::Batches => Next::RecordBarrier,
            Next::RecordBarrier => self.durable(Next::Batches),
            Next::CommitPiece(piece) if piece + 1 < self.pieces(self.full_is_due()) => {
                Next::CommitPiece(piece + 1)
            }
            Next::CommitPiece(_) => Next::CommitBarrier,
            Next::CommitBarrier => self.durable(Next::CommitPut),
            Next::CommitPut => Next::CommittedBarrier,
            Next::CommittedBarrier => {
                self.settle();
                Next::CollectChunks
            }
            Next::CollectChunks => Next::CollectBlobs,
            Next::CollectBlobs => {
                self.forget_deleted();
                self.after_epoch()
            }
            Next::SweepList => Next::SweepDelete,
            Next::SweepDelete => Next::Batches,
            Next::ClosePiece(piece) if piece + 1 < self.config.pieces => {
                Next::ClosePiece(piece + 1)
            }
            Next::ClosePiece(_) => Next::CloseBarrier,
            Next::CloseBarrier => self.durable(Next::ClosePut),
            Next::ClosePut => Next::ClosedBarrier,
            Next::ClosedBarrier => {
                self.settle();
                self.up = false;
                if self.superseded.is_empty() { Next::Opening } else { Next::CloseDelete }
            }
            Next::CloseDelete => {
                self.forget_deleted();
                Next::Opening
            }
            Next::JournalGet(_) => self.next,
        };
    }

    fn after_claim(&self) -> Next {
        match (self.record.as_ref(), self.full()) {
            (Some(record), _) if record.sequence == 1 => Next::Array,
            (_, Some(_)) => Next::FullGet(0),
            (_, None) => self.delta_from(0),
        }
    }

    fn delta_from(&self, nth: usize) -> Next {
        match self.delta(nth) {
            Some(_) => Next::DeltaGet(nth, 0),
            None => Next::List(Listed::Journal),
        }
    }

    fn after_sweep(&self) -> Next {
        if self.full().is_none() { Next::Array } else { self.after_array() }
    }

    fn after_array(&self) -> Next {
        if self.recovers { Next::Batches } else { Next::SweepList }
    }

    /// What comes when an epoch is committed and what it superseded is deleted.
    fn after_epoch(&mut self) -> Next {
        match std::mem::take(&mut self.recovers) {
            true => Next::SweepList,
            false => Next::Batches,
        }
    }

    /// What this proxy has put is durable.
    fn durable(&mut self, next: Next) -> Next {
        for name in self.fresh.drain(..) {
            self.blobs.entry(name).and_modify(|(_, certain)| *certain = true);
        }
        next
    }

    /// The record that was put is durable: what it superseded is known.
    fn settle(&mut self) {
        let Some(record) = self.putting.take() else { return };
        if record.put != Put::Claim {
            let (epoch, places) = (self.epoch() + 1, self.places.len() as u32);
            self.superseded.extend((0..places).map(|place| record_name(epoch, place)));
            if record.deltas.is_empty() {
                self.supersede_containers();
            }
            self.places.clear();
        }
        self.record = Some(record);
    }

    fn supersede_containers(&mut self) {
        let Some(record) = &self.record else { return };
        for delta in &record.deltas {
            let pieces = 0..self.journal.delta_pieces;
            self.superseded.extend(pieces.map(|piece| piece_name(DELTA, *delta, piece)));
        }
        if let Some(full) = record.full {
            let pieces = 0..self.config.pieces;
            self.superseded.extend(pieces.map(|piece| piece_name(FULL, full, piece)));
        }
    }

    fn forget_deleted(&mut self) {
        for name in self.deleting.drain(..) {
            self.blobs.remove(&name);
        }
        self.superseded.clear();
    }

    fn forget_leftovers(&mut self) {
        let left: Vec<String> =
            self.blobs.keys().filter(|name| self.is_left_over(name)).cloned().collect();
        left.iter().for_each(|name| {
            self.blobs.remove(name);
        });
        self.deleting.clear();
    }

    /// The end of a put. Whether it was done; otherwise the proxy looks whose bytes are there.
    pub fn put_ended(&mut self, name: &str, done: bool) {
        match done {
            true => self.advance(),
            false => self.doubted = Some(name.into()),
        }
    }

    /// The look after a put of unknown outcome. Whether the proxy goes on.
    pub fn rechecked(&mut self, seen: Option<Kept>) -> bool {
        let Some(name) = self.doubted.take() else { return false };
        let ours = match name.as_str() {
            COMMIT => self.putting.as_ref().map(|record| record.kept),
            name => self.blobs.get(name).map(|(kept, _)| *kept),
        };
        let goes_on = ours.is_some() && ours == seen;
        if goes_on {
            self.advance();
        }
        goes_on
    }

    /// The end of a list.
    pub fn list_ended(&mut self, names: u64) {
        if self.next == Next::List(Listed::Journal) {
            self.listed = 0;
        }
        self.listed = self.listed.saturating_add(names);
        self.advance();
    }

    /// The reply to the get of the commit record of a new proxy.
    pub fn looked_at(&mut self, seen: Option<Kept>) -> Looked {
        let is = |record: &Record| seen == Some(record.kept);
        let mut landed = false;
        match self.putting.take() {
            Some(record) if is(&record) => {
                landed = record.put == Put::Epoch;
                if record.put != Put::Claim {
                    self.places.clear();
                }
                self.record = Some(record);
            }
            _ => {}
        }
        if !self.record.as_ref().map_or(seen.is_none(), is) {
            return Looked::Lie;
        }
        if self.record.is_some() {
            self.next = Next::JournalGet(0);
        }
        Looked::There { landed }
    }

    /// The reply to a get of the journal; whether it is what is there.
    pub fn journal_looked(&mut self, seen: Option<Kept>) -> bool {
        let Next::JournalGet(place) = self.next else { return false };
        let name = record_name(self.epoch() + 1, place);
        let known = self.blobs.get(&name).copied();
        match seen {
            Some(seen) if known.is_some_and(|(kept, _)| kept == seen) => {
                self.next = Next::JournalGet(place + 1);
                true
            }
            None if known.is_none_or(|(_, certain)| !certain) => {
                self.blobs.remove(&name);
                self.places.truncate(place as usize);
                self.recovers = self.batches() > 0;
                self.next = Next::Takeover;
                true
            }
            _ => false,
        }
    }
}

impl Listed {
    fn prefix(self) -> &'static str {
        match self {
            Self::Journal => JOURNAL,
            Self::Full => FULL,
            Self::Delta => DELTA,
        }
    }
}

impl Next {
    /// The rule that another call than this one breaks.
    pub fn rule(self) -> &'static str {
        match self {
            Self::RecordBarrier => "journal-before-read",
            Self::CommitPiece(_)
            | Self::CommitBarrier
            | Self::CommitPut
            | Self::CommittedBarrier
            | Self::CollectChunks
            | Self::CollectBlobs => "commit-order",
            _ => "blob-order",
        }
    }

    pub fn words(self) -> String {
        match self {
            Self::Opening => "get commit".into(),
            Self::JournalGet(place) => format!("get of the journal record at place {place}"),
            Self::Takeover => "put of a takeover record".into(),
            Self::FullGet(piece) => format!("get of piece {piece} of the full checkpoint"),
            Self::DeltaGet(nth, piece) => format!("get of piece {piece} of delta {nth}"),
            Self::List(listed) => format!("list {}", listed.prefix()),
            Self::Array => "create array".into(),
            Self::Batches => "the next message of an epoch".into(),
            Self::CommitPiece(piece) => format!("put of piece {piece} of what the epoch changed"),
            Self::ClosePiece(piece) => format!("put of piece {piece}"),
            Self::Claim | Self::CommitPut | Self::ClosePut => "put commit".into(),
            Self::CollectChunks | Self::SweepDelete => "the deletion of old bucket versions".into(),
            Self::SweepList => "list chunks".into(),
            Self::Leftovers | Self::CollectBlobs | Self::CloseDelete => {
                "the deletion of superseded blobs".into()
            }
            _ => "barrier".into(),
        }
    }
}

fn check_put(
    (name, condition): (&str, &Condition),
    seen: (&str, &Condition),
    rule: &'static str,
) -> Step {
    if seen == (name, condition) {
        return Ok(());
    }
    let words = |(name, condition)| format!("put {name}, {condition:?}");
    fault(rule, words((name, condition)), words(seen))
}

fn check_size(rule: &'static str, expected: u64, bytes: u64) -> Step {
    if expected == bytes {
        return Ok(());
    }
    fault(rule, format!("{expected} bytes"), format!("{bytes} bytes"))
}

fn record_name(epoch: u64, place: u32) -> String {
    format!("{JOURNAL}{epoch:016x}-{place:06x}")
}

fn container_name(prefix: &str, (opening, number): (u32, u64)) -> String {
    format!("{prefix}{opening:08x}-{number:016x}/")
}

fn piece_name(prefix: &str, container: (u32, u64), piece: u32) -> String {
    format!("{}{piece:06}", container_name(prefix, container))
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

const JOURNAL: &str = "journal/";
const FULL: &str = "checkpoint/";
const DELTA: &str = "delta/";
