//! The vault's call that is due, as a program makes it that knows nothing but what the cloud knows.
//! Bytes and tags are the caller's.

use fogbank_store::trace::{Condition, Request};

use super::{COMMIT, Chain, DELTA, FULL, Next, commit_bytes, piece_name};

/// A put of so many bytes.
pub(in crate::oracle) fn put(name: String, bytes: u64, condition: Condition) -> Request {
    Request::BlobPut { name, bytes, condition, fingerprint: 0 }
}

/// The record that is there is replaced; its tag is the caller's.
pub(in crate::oracle) const REPLACES: Condition = Condition::IfUnchanged(String::new());

impl Chain {
    /// The call of an opening, but for arrays; `listed` are the blobs that its lists have shown.
    pub fn due(&self, listed: &[String]) -> Option<Request> {
        let get = |name| Some(Request::BlobGet { name });
        let list = |prefix: &str| Some(Request::BlobList { prefix: prefix.into() });
        match self.next {
            Next::Opening if self.record.is_none() => {
                Some(put(COMMIT.into(), commit_bytes(&self.config, 1), Condition::IfAbsent))
            }
            Next::Opening => get(COMMIT.into()),
            Next::JournalGet(_) if self.asks() => get(self.due_place()?.1),
            Next::Takeover => {
                let bytes = self.config.journal.record_bytes;
                Some(put(self.next_record(), bytes, Condition::IfAbsent))
            }
            Next::Claim => {
                Some(put(COMMIT.into(), commit_bytes(&self.config, self.opening() + 1), REPLACES))
            }
            Next::FullGet(piece) => get(piece_name(FULL, self.full()?, piece)),
            Next::DeltaGet(nth, piece) => get(piece_name(DELTA, self.delta(nth)?, piece)),
            Next::RecordList => list(&self.scope().prefix),
            Next::RecordGet(nth) => {
                let scope = self.scope();
                let next = listed.iter().filter(|name| scope.holds(name)).nth(nth as usize);
                next.map_or_else(|| list(FULL), |name| get(name.clone()))
            }
            Next::FullList => list(FULL),
            Next::DeltaList => list(DELTA),
            Next::Leftovers => {
                let left = self.sweep.left_over(listed, &self.counting());
                Some(Request::BlobDelete { names: left })
            }
            _ => None,
        }
    }

    /// A piece of the checkpoint that is being written.
    pub fn due_piece(&self, piece: u32) -> Request {
        let sequence = self.record.as_ref().map_or(0, |record| record.sequence) + 1;
        let is_last = piece + 1 == self.config.pieces;
        let bytes = if is_last { self.config.last_piece_bytes } else { self.config.piece_bytes };
        put(piece_name(FULL, (self.opening(), sequence), piece), bytes, Condition::Always)
    }

    /// The commit record that adopts it.
    pub fn due_commit(&self) -> Request {
        put(COMMIT.into(), commit_bytes(&self.config, self.opening()), REPLACES)
    }

    /// A record of so many parts.
    pub fn due_record(&self, parts: usize) -> Request {
        let further = parts.saturating_sub(1) as u64;
        let each = self.parts.map_or(0, |parts| parts.bytes);
        let bytes = self.config.journal.record_bytes + further * each;
        put(self.next_record(), bytes, Condition::IfAbsent)
    }
}
