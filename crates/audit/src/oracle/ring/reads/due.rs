//! What falls due: evictions, every A accesses, and reshuffles of what a path wore out; and the
//! reads of Z cells that they bring.

use super::{Entry, Reads, check_version, named};
use crate::oracle::fault::{Step, fault};
use crate::{Observation, Observer};

/// Why a bucket is read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Eviction,
    Reshuffle,
}

impl Due {
    pub fn rule(self) -> &'static str {
        match self {
            Due::Eviction => "eviction-due",
            Due::Reshuffle => "reshuffle-due",
        }
    }
}

/// What falls due.
impl Reads {
    /// Counts an access; every A-th is followed by an eviction, and that by the reshuffles of what
    /// the access wore out.
    pub(super) fn count(&mut self, out: &mut dyn Observer) {
        self.left = self.left.saturating_sub(1);
        self.tally.accesses += 1;
        if self.tally.accesses.is_multiple_of(self.evict_every) {
            let leaf = self.buckets.shape.eviction_leaf(self.tally.evictions);
            self.tally.evictions += 1;
            out.observe(&Observation::Evicted { leaf, access: self.tally.accesses - 1 });
            self.evict(leaf);
        }
    }

    fn evict(&mut self, leaf: u32) {
        let before = self.due.len();
        for chunk in self.buckets.path(leaf) {
            self.rewrite(chunk, Due::Eviction);
        }
        if self.due.len() > before {
            self.uncertain = false;
            self.stretch += 1;
            self.settle_full();
        }
    }

    /// The buckets that the last path wore out are reshuffled, the deepest first, but for those
    /// that an eviction has taken.
    pub(super) fn settle_full(&mut self) {
        while let Some(chunk) = self.full.pop() {
            if self.buckets.live(chunk) {
                self.tally.reshuffles += 1;
                self.uncertain = true;
                self.rewrite(chunk, Due::Reshuffle);
            }
        }
    }

    /// What the evictions of the next `accesses` will rewrite is read now.
    pub fn fetch_ahead(&mut self, accesses: u64) {
        let round = self.tally.accesses % self.evict_every;
        let evictions = (round + accesses) / self.evict_every;
        for eviction in self.tally.evictions..self.tally.evictions + evictions {
            let leaf = self.buckets.shape.eviction_leaf(eviction);
            for chunk in self.buckets.path(leaf) {
                if self.buckets.live(chunk) {
                    self.rewrite(chunk, Due::Eviction);
                }
            }
        }
    }

    pub fn anything_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The bucket will be written at the end of the epoch; if it is live it is read before.
    fn rewrite(&mut self, chunk: u32, due: Due) {
        let Some(bucket) = self.buckets.get(chunk).copied() else { return };
        if bucket.image {
            return;
        }
        self.images.push(chunk);
        if self.buckets.rewrite(chunk) {
            self.superseded.push((chunk, bucket.version));
            self.due.push_back((chunk, due));
        }
    }

    /// After how many accesses of this batch the next eviction that shows anything falls due, and
    /// the first bucket it reads.
    pub(super) fn next_visible(&self) -> Option<(u64, u32)> {
        let mut accesses = self.evict_every - self.tally.accesses % self.evict_every;
        let mut eviction = self.tally.evictions;
        while accesses <= self.left {
            let leaf = self.buckets.shape.eviction_leaf(eviction);
            if let Some(chunk) = self.buckets.first_live(leaf) {
                return Some((accesses, chunk));
            }
            accesses += self.evict_every;
            eviction += 1;
        }
        None
    }
}

/// Reads that retire a bucket.
impl Reads {
    /// The read of Z cells of one bucket. `reach` is asked for further accesses if no eviction that
    /// shows anything falls due in this batch; it says whether there were any.
    pub fn retiring(
        &mut self,
        entry: Entry<'_>,
        out: &mut dyn Observer,
        mut reach: impl FnMut(&mut Self, &mut dyn Observer) -> Step<bool>,
    ) -> Step {
        let bucket = self.stored(&entry)?;
        self.end_path(out)?;
        if self.due.is_empty() {
            match self.full.last() {
                Some(full) if *full == entry.chunk => self.settle_full(),
                _ => self.bring_eviction(&entry, out, &mut reach)?,
            }
        }
        let Some((chunk, due)) = self.due.pop_front() else {
            return fault("eviction-due", "no eviction", named(&entry));
        };
        if chunk != entry.chunk {
            return fault(due.rule(), format!("a read of bucket {chunk}"), named(&entry));
        }
        check_version(bucket.version, &entry)?;
        self.retire(&entry, out)
    }

    /// Brings the next eviction that shows anything about, by accesses that show nothing.
    fn bring_eviction(
        &mut self,
        entry: &Entry<'_>,
        out: &mut dyn Observer,
        reach: &mut impl FnMut(&mut Self, &mut dyn Observer) -> Step<bool>,
    ) -> Step {
        loop {
            if let Some((accesses, chunk)) = self.next_visible() {
                if chunk != entry.chunk {
                    return match self.full.last() {
                        Some(full) => {
                            let expected = format!("the reshuffle of bucket {full}");
                            fault("reshuffle-due", expected, named(entry))
                        }
                        None if self.is_evicted_next(entry.chunk) => {
                            fault("eviction-due", format!("bucket {chunk}"), named(entry))
                        }
                        None => fault("reshuffle-due", "no reshuffle yet", named(entry)),
                    };
                }
                return self.pass(accesses, out);
            }
            if let Some(full) = self.full.last() {
                return fault("reshuffle-due", format!("bucket {full}"), named(entry));
            }
            if !reach(self, out)? {
                return fault("eviction-due", "no eviction", named(entry));
            }
            if !self.due.is_empty() {
                return Ok(());
            }
        }
    }

    /// Whether a bucket is on the path of the eviction that comes next, shown or not.
    fn is_evicted_next(&self, chunk: u32) -> bool {
        let Some((accesses, _)) = self.next_visible() else { return false };
        let until = self.tally.accesses + accesses;
        let eviction = until / self.evict_every - 1;
        let leaf = self.buckets.shape.eviction_leaf(eviction);
        self.buckets.path(leaf).any(|on_path| on_path == chunk)
    }

    /// The read itself: exactly Z cells, rising, none read before.
    fn retire(&mut self, entry: &Entry<'_>, out: &mut dyn Observer) -> Step {
        let shape = self.buckets.shape;
        let rising = entry.cells.windows(2).all(|pair| pair[0] < pair[1]);
        if entry.cells.len() != usize::from(shape.reals) || !rising {
            let seen = format!("{} with cells {:?}", named(entry), entry.cells);
            return fault("z-read", format!("{} rising cells", shape.reals), seen);
        }
        let mut ranks = std::mem::take(&mut self.ranks);
        ranks.clear();
        let mut unread = 0;
        for (before, cell) in entry.cells.iter().enumerate() {
            let place =
                if *cell < shape.slots() { self.buckets.take(entry.chunk, *cell) } else { None };
            let Some(place) = place else {
                return fault("slot-once", "cells that were not read before", named(entry));
            };
            unread = unread.max(place.unread);
            ranks.push(place.rank + before as u16);
        }
        self.tally.cells_read += entry.cells.len() as u64;
        out.observe(&Observation::Retired {
            chunk: entry.chunk,
            level: shape.level(entry.chunk),
            version: entry.version,
            unread,
            ranks: &ranks,
        });
        self.ranks = ranks;
        Ok(())
    }
}
