//! How a store is created, opened and closed: the calls around the epochs, one after the other.
//!
//! | | calls |
//! |---|---|
//! | create | put `commit` if absent, create array, put `commit` |
//! | open | get `commit` once, put `commit` if unchanged, get every piece of the checkpoint (none was written: create array), put `commit` |
//! | close | put every piece, put `commit`, list pieces, delete all others; nothing after it |
//!
//! A commit record whose put was refused is looked at; if it is ours, a barrier follows.
//!
//! Each call waits for the end of the one before. A commit record has a sequence number, which counts
//! puts, and an opening, which counts claims; sizes follow from the configuration and the opening. A
//! process opens a store once, and has a trace of its own. It may claim the store only if the record
//! does not say that somebody runs.

use std::collections::BTreeMap;

use fogbank_store::trace::{Condition, VaultConfig};

use super::blob::{
    COMMIT, FULL, Kept, check_put, check_replaces, check_size, commit_bytes, piece_name,
};
use super::fault::{Step, fault};
use super::joint::{Ended, Looked, Past};

/// What a commit record says, as far as it is public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub opening: u32,
    sequence: u64,
    state: State,
    checkpoint: Option<(u32, u64)>,
    kept: Kept,
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
    /// This process has done nothing yet.
    Opening,
    /// Nothing: it found no store, or has closed it.
    Nothing,
    Claim,
    Piece(u32),
    Array,
    RunPut,
    /// The engine's calls; between two epochs also the first of the closing.
    Epochs,
    PiecePut(u32),
    ClosePut,
    List,
    Delete,
    /// A put was refused: whose record is there?
    Recheck(Put),
    /// It is ours: it has to be durable.
    Settle(Put),
}

/// Which commit record is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Claim,
    Run,
    Close,
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
    past: Past,
    /// Pieces of checkpoints; those that may be gone already have no certainty.
    pieces: BTreeMap<String, (Kept, bool)>,
    /// How many of them the last list had beside those that count, if that can be true.
    others: Option<u64>,
}

impl Vault {
    pub fn new(config: VaultConfig) -> Self {
        Self {
            config,
            next: Next::Opening,
            record: None,
            doubt: None,
            putting: None,
            past: Past::default(),
            pieces: BTreeMap::new(),
            others: None,
        }
    }

    /// Whether a proxy has begun to claim the store and not closed it.
    pub fn is_up(&self) -> bool {
        !matches!(self.next, Next::Opening | Next::Nothing) || self.putting.is_some()
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
    }

    /// The opening that runs or ran last, from 1.
    pub fn opening(&self) -> u32 {
        self.record.as_ref().map_or(0, |record| record.opening)
    }

    /// How far the store came, as far as the traces show.
    pub fn ended(&self) -> Ended {
        let closed = self.record.as_ref().is_some_and(|record| record.state == State::Closed);
        Ended { opening: self.opening(), epoch: None, closed }
    }

    /// A get of a blob. Returns the piece it has to return, if it is one.
    pub fn get(&mut self, name: &str) -> Step<Option<Kept>> {
        match self.next {
            Next::Opening | Next::Recheck(_) if name == COMMIT => Ok(None),
            Next::Piece(piece) => {
                let (opening, sequence) = self.checkpoint();
                let expected = piece_name(FULL, (opening, sequence), piece);
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
            Next::Opening if name == COMMIT && self.record.is_none() => {
                self.put_record(Put::Claim, kept, condition)
            }
            Next::Claim if name == COMMIT => self.put_claim(kept, condition),
            Next::RunPut if name == COMMIT => self.put_record(Put::Run, kept, condition),
            Next::ClosePut if name == COMMIT => self.put_record(Put::Close, kept, condition),
            Next::Epochs => self.put_piece(0, name, kept, condition),
            Next::PiecePut(piece) => self.put_piece(piece, name, kept, condition),
            next => fault("blob-order", next.words(), format!("put {name}")),
        }
    }

    fn put_claim(&mut self, kept: Kept, condition: &Condition) -> Step {
        if self.record.as_ref().is_some_and(|record| record.state == State::Running) {
            return fault("blob-order", "no claim of a store that was not closed", "put commit");
        }
        self.put_record(Put::Claim, kept, condition)
    }

    fn put_record(&mut self, put: Put, kept: Kept, condition: &Condition) -> Step {
        check_replaces(self.record.is_some(), condition)?;
        let record = self.following(put, kept);
        check_size("blob-size", commit_bytes(&self.config, record.opening), kept.bytes)?;
        self.putting = Some((put, record));
        self.past.put(kept);
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
        Record { opening, sequence, state, checkpoint, kept }
    }

    fn put_piece(&mut self, piece: u32, name: &str, kept: Kept, condition: &Condition) -> Step {
        let sequence = self.record.as_ref().map_or(0, |r| r.sequence) + 1;
        let expected = piece_name(FULL, (self.opening(), sequence), piece);
        check_put((&expected, &Condition::Always), (name, condition), "blob-order")?;
        let last = piece + 1 == self.config.pieces;
        let bytes = if last { self.config.last_piece_bytes } else { self.config.piece_bytes };
        check_size("blob-size", bytes, kept.bytes)?;
        self.pieces.insert(expected, (kept, true));
        self.next = Next::PiecePut(piece);
        Ok(())
    }

    /// A barrier.
    pub fn barrier(&mut self) -> Step {
        match self.next {
            Next::Settle(_) => Ok(()),
            next => fault("blob-order", next.words(), "barrier"),
        }
    }

    /// A list of blobs.
    pub fn list(&self, prefix: &str) -> Step {
        match self.next {
            Next::List if prefix == FULL => Ok(()),
            next => fault("blob-order", next.words(), format!("list {prefix}")),
        }
    }

    /// A deletion of blobs: all that were listed but for the newest checkpoint. If the list cannot be
    /// true, the cloud has chosen itself what is deleted, but nothing that counts may be.
    pub fn delete(&mut self, names: &[String]) -> Step {
        if self.next != Next::Delete {
            return fault("blob-order", self.next.words(), "delete blobs");
        }
        let kept = self.kept_names();
        if let Some(name) = names.iter().find(|name| kept.contains(name)) {
            return fault("blob-order", "nothing that counts", format!("delete {name}"));
        }
        let Some(count) = self.others else { return Ok(()) };
        let mut rest = names;
        for (name, (_, certain)) in self.pieces.iter().filter(|(name, _)| !kept.contains(name)) {
            match rest.split_first() {
                Some((first, further)) if first == name => rest = further,
                _ if *certain => return fault("blob-order", format!("delete {name}"), words(rest)),
                _ => {}
            }
        }
        if !rest.is_empty() || names.len() as u64 != count {
            let seen = format!("{} names, {} at its end", names.len(), words(rest));
            let due = format!("delete {count} older pieces, as many as the list had to spare");
            return fault("blob-order", due, seen);
        }
        Ok(())
    }

    fn kept_names(&self) -> Vec<String> {
        let checkpoint = self.checkpoint();
        (0..self.config.pieces).map(|piece| piece_name(FULL, checkpoint, piece)).collect()
    }

    /// The call that was due has ended well.
    pub fn advance(&mut self) {
        self.next = match self.next {
            Next::Opening | Next::Claim => self.after(Put::Claim),
            Next::Recheck(put) | Next::Settle(put) => self.after(put),
            Next::Piece(piece) if piece + 1 < self.config.pieces => Next::Piece(piece + 1),
            Next::Piece(_) | Next::Array => Next::RunPut,
            Next::RunPut => self.after(Put::Run),
            Next::Epochs => Next::Epochs,
            Next::PiecePut(piece) if piece + 1 < self.config.pieces => Next::PiecePut(piece + 1),
            Next::PiecePut(_) => Next::ClosePut,
            Next::ClosePut => self.after(Put::Close),
            Next::List => Next::Delete,
            Next::Delete => {
                let kept = self.kept_names();
                self.pieces.retain(|name, _| kept.contains(name));
                Next::Nothing
            }
            Next::Nothing => Next::Nothing,
        };
    }

    fn after(&self, put: Put) -> Next {
        match put {
            Put::Claim if self.checkpoint() == (0, 0) => Next::Array,
            Put::Claim => Next::Piece(0),
            Put::Run => Next::Epochs,
            Put::Close => Next::List,
        }
    }

    /// The end of a put of the commit record. Whether the proxy goes on.
    pub fn put_ended(&mut self, done: bool) {
        let Some((put, record)) = self.putting.take() else { return };
        if done {
            self.record = Some(record);
            self.next = self.after(put);
        } else {
            self.putting = Some((put, record));
            self.next = Next::Recheck(put);
        }
    }

    /// The end of a list; whether it can be true.
    pub fn list_ended(&mut self, names: u64) -> bool {
        let kept = self.kept_names();
        let others = self.pieces.iter().filter(|(name, _)| !kept.contains(name));
        let least = others.clone().filter(|(_, (_, certain))| *certain).count() as u64;
        let possible = least..=others.count() as u64;
        let count = names.checked_sub(kept.len() as u64);
        self.others = count.filter(|count| possible.contains(count));
        self.advance();
        self.others.is_some()
    }

    /// The reply to the get of the commit record with which a process begins.
    pub fn looked_at(&mut self, seen: Option<Kept>) -> Looked {
        let is = |record: &Record| seen == Some(record.kept);
        if self.doubt.as_ref().is_some_and(is) {
            self.record = self.doubt.take();
        }
        self.doubt = None;
        if !self.record.as_ref().map_or(seen.is_none(), is) {
            return self.past.meet(seen);
        }
        self.next = if self.record.is_some() { Next::Claim } else { Next::Nothing };
        Looked::True { landed: false }
    }

    /// The reply to a look after a put was refused. Whether the proxy goes on.
    pub fn rechecked(&mut self, seen: Option<Kept>) -> bool {
        let Some((put, record)) = self.putting.take() else { return false };
        let ours = seen == Some(record.kept);
        if ours {
            self.record = Some(record);
            self.next = Next::Settle(put);
        }
        ours
    }
}

impl Next {
    pub fn words(self) -> String {
        match self {
            Next::Opening => "get commit".into(),
            Next::Piece(piece) => format!("get of piece {piece}"),
            Next::PiecePut(piece) => format!("put of piece {piece}"),
            Next::Array => "create array".into(),
            Next::Nothing => "nothing more from this process".into(),
            Next::Claim | Next::RunPut | Next::ClosePut => "put commit".into(),
            Next::Epochs => "the next message of an epoch".into(),
            Next::List => "list checkpoint/".into(),
            Next::Delete => "delete blobs".into(),
            Next::Recheck(_) => "get commit".into(),
            _ => "barrier".into(),
        }
    }
}

/// The first of the names that are left of a deletion.
fn words(rest: &[String]) -> String {
    rest.first().map_or("the end of the call".into(), |name| format!("delete {name}"))
}
