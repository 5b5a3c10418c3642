//! A transaction that has waited takes a new timestamp, if nothing speaks against it.
//!
//! Who reads a hot record at a timestamp that was taken a batch ago, and then writes it, has lost
//! to everybody who has come since. But as long as it has written nothing and what it has read is
//! still the newest there is, its reads might as well have been made now. So it moves to the newest
//! timestamp:
//!
//! 1. Every version it has read has to be the last of its record, and it must not have written,
//!    scanned or counted anything.
//! 2. Its marks move with it, and so does its place among those who depend on what it has read.
//!
//! Otherwise it stays where it is: a reader of older versions can still commit.
//!
//! Invariant: whatever it is shown, before the move and after it, is what is there at its last
//! timestamp.

use crate::mvtso::Mvtso;
use crate::rows::RowId;
use crate::version::Ts;

impl Mvtso {
    /// The timestamp that an active transaction has from now on.
    pub(crate) fn move_to_present(&mut self, ts: Ts) -> Ts {
        if ts == self.newest_ts() || !self.can_move(ts) {
            return ts;
        }
        let Some(now) = self.renumber(ts) else { return ts };
        let Some(txn) = self.txn(now) else { return now };
        let (reads, writers) = (txn.reads.clone(), txn.reads_from.clone());
        for (id, _) in reads {
            let row = self.rows.get_mut(id);
            row.mark(row.newest(), now);
        }
        for writer in writers {
            if let Some(writer) = self.txn_mut(writer) {
                writer.dependants.iter_mut().filter(|d| **d == ts).for_each(|d| *d = now);
            }
        }
        now
    }

    fn can_move(&self, ts: Ts) -> bool {
        let Some(txn) = self.txn(ts) else { return false };
        let is_newest = |&(id, writer): &(RowId, Ts)| {
            let row = self.rows.get(id);
            row.writer_at(row.newest()).unwrap_or(0) == writer
        };
        txn.has_only_read() && txn.reads.iter().all(is_newest)
    }
}
