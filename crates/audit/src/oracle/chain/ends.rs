//! Ends of the vault's requests: what is there then, and which call is due next.

use super::{Chain, Collect, DELTA, FULL, JOURNAL, Kept, Next, Place, Put, Record, epoch_prefix};
use super::{piece_name, record_name};
use crate::oracle::blob::COMMIT;
use crate::oracle::joint::{Looked, Stranger};

impl Chain {
    /// The call that was due has ended well.
    pub fn advance(&mut self) {
        self.next = match self.next {
            Next::Takeover => Next::Claim,
            Next::Claim | Next::Opening => {
                self.settle();
                self.after_claim()
            }
            Next::FullGet(piece) if piece + 1 < self.config.pieces => Next::FullGet(piece + 1),
            Next::FullGet(_) => self.delta_from(0),
            Next::DeltaGet(nth, piece) if piece + 1 < self.config.journal.delta_pieces => {
                Next::DeltaGet(nth, piece + 1)
            }
            Next::DeltaGet(nth, _) => self.delta_from(nth + 1),
            Next::RecordList => self.next_look(0),
            Next::RecordGet(nth) => self.next_look(nth + 1),
            Next::FullList => Next::DeltaList,
            Next::DeltaList if self.sweep.is_clean() => self.after_sweep(),
            Next::DeltaList => Next::Leftovers,
            Next::Leftovers => self.after_sweep(),
            Next::Array => self.after_array(),
            // The record of a batch.
            Next::Batches => Next::Batches,
            Next::CommitPiece(_) => match self.is_last_end(self.full_is_due()) {
                true => Next::CommitPut,
                false => self.next,
            },
            Next::CommitPut => {
                self.settle();
                self.collect = Collect { chunks: true, blobs: true };
                Next::Collect
            }
            Next::Collect if self.collect != Collect::default() => Next::Collect,
            Next::Collect => {
                self.forget_superseded();
                self.after_epoch()
            }
            Next::SweepList => Next::SweepDelete,
            Next::SweepDelete => Next::Batches,
            Next::ClosePiece(_) => match self.is_last_end(true) {
                true => Next::ClosePut,
                false => self.next,
            },
            Next::ClosePut => {
                self.settle();
                self.up = false;
                if self.superseded.is_empty() { Next::Nothing } else { Next::CloseDelete }
            }
            Next::CloseDelete => {
                self.forget_superseded();
                Next::Nothing
            }
            Next::JournalGet(_) | Next::Nothing => self.next,
        };
    }

    /// A piece has ended, of several under way. Whether it was the last.
    fn is_last_end(&mut self, full: bool) -> bool {
        self.pieces_ended += 1;
        let last = self.pieces_ended == self.pieces(full);
        if last {
            self.pieces_ended = 0;
        }
        last
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
            None => Next::RecordList,
        }
    }

    fn next_look(&self, nth: u64) -> Next {
        if self.sweep.has_looked() { Next::FullList } else { Next::RecordGet(nth) }
    }

    fn after_sweep(&mut self) -> Next {
        self.blobs.deleted();
        if self.sweep.is_true() {
            let gone = self.sweep.gone(&self.scope(), (&self.blobs, &self.counting()));
            gone.iter().for_each(|name| self.blobs.forget(name));
        }
        let made = self.full().is_some() && self.parts.is_none();
        if made { self.after_array() } else { Next::Array }
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

    /// The record that was put is there: what it superseded is known. Takeover records stay, or a
    /// proxy that was held for epochs would find its next place free.
    pub(super) fn settle(&mut self) {
        let Some(record) = self.putting.take() else { return };
        if record.put != Put::Claim {
            let (epoch, start) = (self.epoch() + 1, self.start());
            let held = self.places.drain(..self.held_by(&record));
            let batches = (start..).zip(held).filter(|(_, of)| *of != Place::Takeover);
            self.superseded.extend(batches.map(|(place, _)| record_name(epoch, place)));
            if record.deltas.is_empty() {
                self.supersede_containers();
            }
            self.forget_records(&record);
        }
        self.record = Some(record);
    }

    /// How many places of the journal at hand `record` supersedes.
    fn held_by(&self, record: &Record) -> usize {
        match record.put {
            Put::Claim => 0,
            Put::Adopt(start) => start.saturating_sub(self.start()) as usize,
            Put::Epoch | Put::Close => self.places.len(),
        }
        .min(self.places.len())
    }

    /// No opening will ever list records of an epoch before that of `record`.
    fn forget_records(&mut self, record: &Record) {
        self.blobs.forget_records_before(&epoch_prefix(record.epoch), JOURNAL);
    }

    fn supersede_containers(&mut self) {
        let Some(record) = &self.record else { return };
        for delta in &record.deltas {
            let pieces = 0..self.config.journal.delta_pieces;
            self.superseded.extend(pieces.map(|piece| piece_name(DELTA, *delta, piece)));
        }
        if let Some(full) = record.full {
            let pieces = 0..self.config.pieces;
            self.superseded.extend(pieces.map(|piece| piece_name(FULL, full, piece)));
        }
    }

    fn forget_superseded(&mut self) {
        self.blobs.deleted();
        self.superseded.clear();
    }

    /// The end of a put. Whether it was done; otherwise the proxy looks whose bytes are there.
    pub fn put_ended(&mut self, name: &str, done: bool) {
        if done {
            self.blobs.landed(name);
            return self.advance();
        }
        self.doubted.push(name.into());
        self.doubted.sort_unstable(); // pieces are looked for by rising number
    }

    /// What was put, and looked for, is durable.
    pub fn put_settled(&mut self) {
        if let Some(name) = self.unsettled.take() {
            self.blobs.landed(&name);
        }
        self.advance();
    }

    /// The look after a put of unknown outcome. Whether the proxy goes on.
    pub fn rechecked(&mut self, seen: Option<Kept>) -> bool {
        if self.doubted.is_empty() {
            return false;
        }
        let name = self.doubted.remove(0);
        let ours = match name.as_str() {
            COMMIT => self.putting.as_ref().map(|record| record.kept),
            name => self.blobs.get(name).map(|blob| blob.kept),
        };
        self.unsettled = Some(name).filter(|_| ours.is_some() && ours == seen);
        self.is_unsettled()
    }

    /// The end of a list; whether it can be true.
    pub fn list_ended(&mut self, names: u64) -> bool {
        let blobs = (&self.blobs, &self.counting());
        let possible = match self.next {
            Next::RecordList => self.sweep.records_listed(names, &self.blobs, &self.scope()),
            Next::FullList => self.sweep.pieces_listed(FULL, names, blobs),
            _ => self.sweep.pieces_listed(DELTA, names, blobs),
        };
        self.advance();
        possible
    }

    /// The reply to the look at a listed record; whether it is the one that was put.
    pub fn record_looked(&mut self, seen: Option<Kept>) -> bool {
        let known = self.sweep.looked(seen, &self.blobs);
        self.advance();
        known
    }

    /// The reply to the get of the commit record with which a process begins.
    pub fn looked_at(&mut self, seen: Option<Kept>) -> Looked {
        let is = |record: &Record| seen == Some(record.kept);
        let mut landed = false;
        match self.putting.take() {
            Some(record) if is(&record) => {
                landed = matches!(record.put, Put::Epoch | Put::Adopt(_));
                self.places.drain(..self.held_by(&record));
                self.forget_records(&record);
                self.record = Some(record);
            }
            _ => {}
        }
        if !self.record.as_ref().map_or(seen.is_none(), is) {
            return self.past.meet(seen);
        }
        let start = self.record.as_ref().map(|record| record.start);
        self.next = start.map_or(Next::Nothing, Next::JournalGet);
        Looked::True { landed }
    }

    /// The reply to a get of the journal.
    pub fn journal_looked(&mut self, seen: Option<Kept>) -> Looked {
        let Next::JournalGet(place) = self.next else { return Looked::Lie };
        let (name, nth) = (record_name(self.epoch() + 1, place), (place - self.start()) as usize);
        let known = self.blobs.get(&name);
        match (seen, known) {
            (Some(seen), Some(blob)) if blob.kept == seen => {
                let of = self.places.get(nth).copied();
                self.next = Next::JournalGet(self.behind(place, of));
            }
            (Some(_), None) => return Looked::Strange(Stranger::Record),
            (None, known) if known.is_none_or(|blob| !blob.certain) => {
                self.blobs.forget(&name);
                self.places.truncate(nth);
                self.recovers = self.batches() > 0;
                self.next = Next::Takeover;
            }
            _ => return Looked::Lie,
        }
        Looked::True { landed: false }
    }
}
