//! How a store is created, opened and closed: the calls around the epochs, one after the other.
//!
//! | | calls |
//! |---|---|
//! | create | get `commit` (or not), put `commit` if absent, barrier, create array, put `commit`, barrier |
//! | open | get `commit` once or twice, put `commit` if unchanged, barrier, get every piece of the checkpoint (none was written: create array), put `commit`, barrier |
//! | close | put every piece, barrier, put `commit`, barrier, list pieces, delete all others |
//!
//! Each call waits for the end of the one before. A commit record has a sequence number, which counts
//! puts, and an opening, which counts claims; sizes follow from the configuration and the opening. A
//! get of `commit` where no other call is due is a new proxy: whoever ran before has stopped. It may
//! claim the store only if the record does not say that somebody runs.

use std::collections::BTreeMap;

use fogbank_store::trace::{Condition, VaultConfig};

use super::fault::{Step, fault};

/// What a commit record says, as far as it is public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub opening: u32,
    sequence: u64,
    state: State,
    checkpoint: Option<(u32, u64)>,
    bytes: u64,
    pub fingerprint: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Claimed,
    Running,
    Closed,
}

/// The call that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// No proxy runs.
    Opening,
    ClaimBarrier,
    Piece(u32),
    Array,
    RunPut,
    RunBarrier,
    /// The engine's calls; between two epochs also the first of the closing.
    Epochs,
    PiecePut(u32),
    CloseBarrier,
    ClosePut,
    ClosedBarrier,
    List,
    Delete,
    /// A put was refused: whose record is there?
    Recheck(Put),
}

/// Which commit record is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Claim,
    Run,
    Close,
}

/// What a reply to a get has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub bytes: u64,
    pub fingerprint: u64,
}

/// The vault of one store.
#[derive(Debug)]
pub(super) struct Vault {
    config: VaultConfig,
    pub next: Next,
    /// The commit record that is there.
    pub record: Option<Record>,
    /// One that may be there instead: its put never ended.
    pub doubt: Option<Record>,
    /// The one that is being put, or of a put that was refused.
    pub putting: Option<(Put, Record)>,
    /// Whether this proxy has seen the record.
    pub looked: bool,
    /// Pieces of checkpoints; those that may be gone already have no certainty.
    pieces: BTreeMap<String, (Kept, bool)>,
    /// How many of them the last list had.
    listed: Option<u64>,
}

impl Vault {
    pub fn new(config: VaultConfig) -> Self {
        Self {
            config,
            next: Next::Opening,
            record: None,
            doubt: None,
            putting: None,
            looked: false,
            pieces: BTreeMap::new(),
            listed: None,
        }
    }

    /// Whether a proxy has begun to claim the store and not closed it.
    pub fn is_up(&self) -> bool {
        self.next != Next::Opening || self.putting.is_some()
    }

    /// The proxy has stopped; a put under way may have been done.
    pub fn stop(&mut self) {
        if let Some((_, record)) = self.putting.take() {
            self.doubt = Some(record);
        }
        if self.next == Next::Delete {
            let kept = self.kept_names();
            let others = self.pieces.iter_mut().filter(|(name, _)| !kept.contains(name));
            others.for_each(|(_, (_, certain))| *certain = false);
        }
        self.next = Next::Opening;
        self.looked = false;
    }

    /// The opening that runs or ran last, from 1.
    pub fn opening(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.opening)
    }

    /// A get of a blob. Returns the piece it has to return, if it is one.
    pub fn get(&mut self, name: &str) -> Step<Option<Kept>> {
        match self.next {
            Next::Opening | Next::Recheck(_) if name == COMMIT => Ok(None),
            Next::Piece(piece) => {
                let (opening, sequence) = self.checkpoint();
                let expected = piece_name(opening, sequence, piece);
                if name != expected {
                    return fault("blob-order", format!("get {expected}"), format!("get {name}"));
                }
                Ok(self.pieces.get(name).map(|(kept, _)| *kept))
            }
            next => fault("blob-order", next.words(), format!("get {name}")),
        }
    }

    fn checkpoint(&self) -> (u32, u64) {
        self.record.as_ref().and_then(|record| record.checkpoint).unwrap_or_default()
    }

    /// A put of a blob.
    pub fn put(&mut self, name: &str, kept: Kept, condition: &Condition) -> Step {
        match self.next {
            Next::Opening if name == COMMIT => self.put_claim(kept, condition),
            Next::RunPut if name == COMMIT => self.put_record(Put::Run, kept, condition),
            Next::ClosePut if name == COMMIT => self.put_record(Put::Close, kept, condition),
            Next::Epochs => self.put_piece(0, name, kept, condition),
            Next::PiecePut(piece) => self.put_piece(piece, name, kept, condition),
            next => fault("blob-order", next.words(), format!("put {name}")),
        }
    }

    fn put_claim(&mut self, kept: Kept, condition: &Condition) -> Step {
        match &self.record {
            None => self.put_record(Put::Claim, kept, condition),
            Some(_) if !self.looked => fault("blob-order", "get commit", "put commit"),
            Some(record) if record.state == State::Running => {
                fault("blob-order", "no claim of a store that was not closed", "put commit")
            }
            Some(_) => self.put_record(Put::Claim, kept, condition),
        }
    }

    fn put_record(&mut self, put: Put, kept: Kept, condition: &Condition) -> Step {
        let fits = match (&self.record, condition) {
            (None, Condition::IfAbsent) | (Some(_), Condition::IfUnchanged(_)) => true,
            (None | Some(_), _) => false,
        };
        if !fits {
            return fault("blob-order", "a conditional put of commit", format!("{condition:?}"));
        }
        let record = self.following(put, kept);
        let grown = self.config.commit_bytes_an_opening * u64::from(record.opening - 1);
        check_size(self.config.commit_bytes + grown, kept.bytes)?;
        self.putting = Some((put, record));
        Ok(())
    }

    fn following(&self, put: Put, kept: Kept) -> Record {
        let last = self.record.as_ref();
        let claims = u32::from(put == Put::Claim);
        let (opening, sequence) = (self.opening() + claims, last.map_or(0, |r| r.sequence) + 1);
        let (state, checkpoint) = match put {
            Put::Claim => (State::Claimed, last.and_then(|r| r.checkpoint)),
            Put::Run => (State::Running, last.and_then(|r| r.checkpoint)),
            Put::Close => (State::Closed, Some((opening, sequence))),
        };
        let Kept { bytes, fingerprint } = kept;
        Record { opening, sequence, state, checkpoint, bytes, fingerprint }
    }

    fn put_piece(&mut self, piece: u32, name: &str, kept: Kept, condition: &Condition) -> Step {
        let sequence = self.record.as_ref().map_or(0, |r| r.sequence) + 1;
        let expected = piece_name(self.opening(), sequence, piece);
        if name != expected || *condition != Condition::Always {
            return fault("blob-order", format!("put {expected}"), format!("put {name}"));
        }
        let last = piece + 1 == self.config.pieces;
        check_size(
            if last { self.config.last_piece_bytes } else { self.config.piece_bytes },
            kept.bytes,
        )?;
        self.pieces.insert(expected, (kept, true));
        self.next = Next::PiecePut(piece);
        Ok(())
    }

    /// A barrier.
    pub fn barrier(&mut self) -> Step {
        match self.next {
            Next::ClaimBarrier | Next::RunBarrier | Next::CloseBarrier | Next::ClosedBarrier => {
                Ok(())
            }
            next => fault("blob-order", next.words(), "barrier"),
        }
    }

    /// A list of blobs.
    pub fn list(&self, prefix: &str) -> Step {
        match self.next {
            Next::List if prefix == PREFIX => Ok(()),
            next => fault("blob-order", next.words(), format!("list {prefix}")),
        }
    }

    /// A deletion of blobs: all that were listed but for the newest checkpoint.
    pub fn delete(&mut self, names: &[String]) -> Step {
        if self.next != Next::Delete {
            return fault("blob-order", self.next.words(), "delete blobs");
        }
        let kept = self.kept_names();
        let others = self.pieces.iter().filter(|(name, _)| !kept.contains(name));
        let missing = others.clone().any(|(name, (_, certain))| *certain && !names.contains(name));
        let known = |name: &String| self.pieces.contains_key(name) && !kept.contains(name);
        let honest = self.listed == Some((names.len() + kept.len()) as u64);
        let sound =
            honest && !missing && names.is_sorted_by(|a, b| a < b) && names.iter().all(known);
        if sound {
            return Ok(());
        }
        // A cloud that lists other names than it was given decides itself what is deleted.
        let expected = others.count() + kept.len();
        if self.listed != Some(expected as u64) && self.pieces.values().all(|(_, certain)| *certain)
        {
            return Ok(());
        }
        fault("blob-order", "a deletion of every older piece", format!("delete {names:?}"))
    }

    fn kept_names(&self) -> Vec<String> {
        let (opening, sequence) = self.checkpoint();
        (0..self.config.pieces).map(|piece| piece_name(opening, sequence, piece)).collect()
    }

    /// The call that was due has ended well.
    pub fn advance(&mut self) {
        self.next = match self.next {
            Next::Opening => Next::ClaimBarrier,
            Next::Recheck(put) => put.barrier(),
            Next::ClaimBarrier if self.checkpoint() == (0, 0) => Next::Array,
            Next::ClaimBarrier => Next::Piece(0),
            Next::Piece(piece) if piece + 1 < self.config.pieces => Next::Piece(piece + 1),
            Next::Piece(_) | Next::Array => Next::RunPut,
            Next::RunPut => Next::RunBarrier,
            Next::RunBarrier | Next::Epochs => Next::Epochs,
            Next::PiecePut(piece) if piece + 1 < self.config.pieces => Next::PiecePut(piece + 1),
            Next::PiecePut(_) => Next::CloseBarrier,
            Next::CloseBarrier => Next::ClosePut,
            Next::ClosePut => Next::ClosedBarrier,
            Next::ClosedBarrier => Next::List,
            Next::List => Next::Delete,
            Next::Delete => {
                let kept = self.kept_names();
                self.pieces.retain(|name, _| kept.contains(name));
                Next::Opening
            }
        };
        if self.next == Next::Opening {
            self.looked = false;
        }
    }

    /// The end of a put of the commit record. Whether the proxy goes on.
    pub fn put_ended(&mut self, done: bool) {
        let Some((put, record)) = self.putting.take() else { return };
        if done {
            self.record = Some(record);
            self.next = put.barrier();
        } else {
            self.putting = Some((put, record));
            self.next = Next::Recheck(put);
        }
    }

    /// The end of a list.
    pub fn list_ended(&mut self, names: u64) {
        self.listed = Some(names);
        self.advance();
    }

    /// The reply to a get of the commit record; whether it is what is there.
    pub fn looked_at(&mut self, seen: Option<Kept>) -> bool {
        let is = |record: &Record| {
            seen == Some(Kept { bytes: record.bytes, fingerprint: record.fingerprint })
        };
        if self.doubt.as_ref().is_some_and(is) {
            self.record = self.doubt.take();
        }
        self.doubt = None;
        self.looked = true;
        self.record.as_ref().map_or(seen.is_none(), is)
    }

    /// The reply to a look after a put was refused. Whether the proxy goes on.
    pub fn rechecked(&mut self, seen: Option<Kept>) -> bool {
        let Some((put, record)) = self.putting.take() else { return false };
        let ours = seen == Some(Kept { bytes: record.bytes, fingerprint: record.fingerprint });
        if ours {
            self.record = Some(record);
            self.next = put.barrier();
        }
        ours
    }
}

impl Put {
    fn barrier(self) -> Next {
        match self {
            Put::Claim => Next::ClaimBarrier,
            Put::Run => Next::RunBarrier,
            Put::Close => Next::ClosedBarrier,
        }
    }
}

impl Next {
    pub fn words(self) -> String {
        match self {
            Next::Opening => "get commit".into(),
            Next::Piece(piece) => format!("get of piece {piece}"),
            Next::PiecePut(piece) => format!("put of piece {piece}"),
            Next::Array => "create array".into(),
            Next::RunPut | Next::ClosePut => "put commit".into(),
            Next::Epochs => "the next message of an epoch".into(),
            Next::List => "list checkpoint/".into(),
            Next::Delete => "delete blobs".into(),
            Next::Recheck(_) => "get commit".into(),
            _ => "barrier".into(),
        }
    }
}

fn check_size(expected: u64, bytes: u64) -> Step {
    if expected == bytes {
        return Ok(());
    }
    fault("blob-size", format!("{expected} bytes"), format!("{bytes} bytes"))
}

fn piece_name(opening: u32, sequence: u64, piece: u32) -> String {
    format!("{PREFIX}{opening:08x}-{sequence:016x}/{piece:06}")
}

const PREFIX: &str = "checkpoint/";
pub(super) const COMMIT: &str = "commit";
