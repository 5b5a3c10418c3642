//! All cells of a site, as the traces of all its clients show them: which version of which chunk is
//! of which table, and which slots were touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use fogbank_env::Stream;
use fogbank_store::ChunkName;
use rand_core::Rng;

use super::layout::{Layout, Table};
use super::rules::{Rule, fault};
use crate::oracle::fault::{Step, Stop};
use crate::{Observation, Observer};

/// From the array of a level's tables to that of what is dealt for them.
pub const DEALT: u16 = 64;
/// A session's number stands before its ticks in a version.
pub const TICK_BITS: u32 = 40;
/// Ranks are told in so many parts of a table, which one is drawn where a rank lies in two.
pub const PARTS: u16 = 64;
/// So many epochs after a table was superseded nobody touches it.
const LATE_EPOCHS: u64 = 3;

/// What one touch names.
pub struct Touch {
    slots: Vec<(Table, u32)>,
    /// The client that was first to make it.
    by: u32,
}

/// See the module.
pub struct Cells {
    layout: Layout,
    random: Stream,
    /// By the version of their first chunk.
    claims: BTreeMap<u64, Claim>,
    tables: BTreeMap<Table, Known>,
    touches: u64,
    /// By epoch: touches that name something, each counted once.
    distinct: BTreeMap<u64, u64>,
}

/// Chunks that a session may write.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    pub table: Table,
    pub number: u32,
    pub is_dealt: bool,
    pub first: u32,
    pub count: u32,
}

/// A table that queries touch.
struct Known {
    /// By chunk: the version that counts, once it was seen.
    versions: BTreeMap<u32, u64>,
    unread: Unread,
    /// By slot: what else its touch named.
    touched: BTreeMap<u32, Arc<Touch>>,
}

impl Cells {
    pub fn new(layout: &Layout, random: Stream) -> Self {
        let (claims, tables, touches, distinct) = Default::default();
        Self { layout: layout.clone(), random, claims, tables, touches, distinct }
    }

    pub fn seed(&mut self, random: Stream) {
        self.random = random;
    }

    /// Chunks are claimed for a piece, from a version on. No tick is used twice.
    pub fn claim(&mut self, (table, number): (Table, u32), version: u64) -> Step {
        let (layout, step) = (&self.layout, u64::from(self.layout.chunk_cells(table.level)));
        let writes = layout.piece(table, number).map(|piece| piece.writes).unwrap_or_default();
        let Some(first) = writes.first().copied() else {
            return fault(Rule::ClaimOfPiece, "a piece that writes", format!("{table:?} {number}"));
        };
        let count: u32 = writes.iter().map(|of| of.count).sum();
        let claim = Claim { table, number, is_dealt: first.is_dealt, first: first.first, count };
        let ends = version.saturating_add(u64::from(count) * step);
        let before = self.claims.range(..ends).next_back();
        if let Some((other, of)) = before {
            let step = u64::from(layout.chunk_cells(of.table.level));
            if other + u64::from(of.count) * step > version {
                return fault(
                    Rule::TicksOnce,
                    "ticks that nothing was sealed by",
                    format!("{version:x}"),
                );
            }
        }
        self.claims.insert(version, claim);
        Ok(())
    }

    /// For what a chunk was written.
    pub fn claim_of(&self, name: &ChunkName) -> Result<(Claim, u64), Stop> {
        let found = self.claims.range(..=name.version).next_back();
        let found = found.filter(|(version, claim)| {
            let step = u64::from(self.layout.chunk_cells(claim.table.level));
            let at = name.version - **version;
            let is_chunk = at.is_multiple_of(step) && at / step < claim.count.into();
            is_chunk
                && name.chunk == claim.first + (at / step) as u32
                && array(claim) == name.array.0
        });
        if let Some((version, claim)) = found {
            return Ok((*claim, *version));
        }
        let image = Table { level: self.layout.bottom, index: -1 };
        if self.layout.of.has_image && name.array.0 == u16::from(image.level) {
            // Whoever made the site wrote it, before anybody could join.
            let claim = Claim { table: image, number: 0, is_dealt: false, first: 0, count: 0 };
            return Ok((claim, 0));
        }
        Err(Stop::Unpredictable(MISSING))
    }

    /// The slot that a cell is.
    pub fn slot_of(&self, name: &ChunkName, cell: u16) -> Result<(Table, u32), Stop> {
        let (claim, _) = self.claim_of(name)?;
        let cells = self.layout.chunk_cells(claim.table.level);
        if claim.is_dealt {
            let seen = format!("{name:?}");
            return Ok(fault(Rule::TouchOfTable, "cells of a table", seen)?);
        }
        Ok((claim.table, name.chunk.saturating_mul(cells) + u32::from(cell)))
    }

    /// A touch of client `by` names these slots, in chunks of these versions: one unread of each
    /// table, or those of a touch before, which was another client's.
    pub fn touch(
        &mut self,
        (epoch, by): (u64, u32),
        slots: Vec<(Table, u32)>,
        versions: &[ChunkName],
        out: &mut dyn Observer,
    ) -> Step {
        for ((table, slot), name) in slots.iter().zip(versions) {
            let layout = &self.layout;
            let of_table = layout.slots(*table);
            let known = self.tables.entry(*table).or_insert_with(|| Known::new(of_table));
            if *slot >= of_table {
                return fault(Rule::SlotOfTable, format!("below {of_table}"), slot.to_string());
            }
            let counts = *known.versions.entry(name.chunk).or_insert(name.version);
            if counts != name.version {
                let seen = format!("{:x} of chunk {} of {table:?}", name.version, name.chunk);
                return fault(Rule::OneVersion, format!("{counts:x}"), seen);
            }
        }
        let before = |(table, slot): &(Table, u32)| self.tables.get(table)?.touched.get(slot);
        let again: Vec<Option<&Arc<Touch>>> = slots.iter().map(before).collect();
        if let Some(first) = again.iter().flatten().next() {
            let is_same = again.iter().all(|of| of.is_some_and(|of| Arc::ptr_eq(of, first)));
            if is_same && first.slots.len() == slots.len() {
                if first.by == by {
                    let seen = format!("{:?} by the client that has made it", slots.first());
                    return fault(Rule::TouchOnce, "a touch of another place", seen);
                }
                return Ok(());
            }
            let at = again.iter().position(Option::is_some).unwrap_or_default();
            let seen = format!("{:?} in two touches", slots[at]);
            return fault(Rule::SlotOnce, "slots that no other touch names", seen);
        }
        if !slots.is_empty() {
            let distinct = self.distinct.entry(self.layout.group_of(epoch).0).or_default();
            *distinct += 1;
        }
        self.observe(epoch, &Arc::new(Touch { slots, by }), out);
        Ok(())
    }

    /// Of an epoch all of whose results are there every place was touched: no two touches of places
    /// are the same.
    pub fn has_touched_all(&self, epoch: u64) -> Step {
        let layout = &self.layout;
        let (first, epochs) = layout.group_of(epoch);
        let due = layout.first_of(epochs);
        let seen = self.distinct.get(&first).copied().unwrap_or_default();
        if layout.tables(epoch).is_empty() || seen == due {
            return Ok(());
        }
        fault(Rule::TouchOfEach, format!("{due} touches of epoch {epoch}"), seen.to_string())
    }

    /// What is free in a touch: which of the unread.
    fn observe(&mut self, epoch: u64, touch: &Arc<Touch>, out: &mut dyn Observer) {
        let access = self.touches;
        self.touches += 1;
        for (at, (table, slot)) in touch.slots.iter().enumerate() {
            let Some(known) = self.tables.get_mut(table) else { continue };
            let nth = known.touched.len();
            let (rank, unread) = known.unread.take(*slot);
            known.touched.insert(*slot, touch.clone());
            let part = part(&mut self.random, rank, unread, PARTS.into());
            let chunk = u32::from(table.level) << 24 | (table.index as u32 & 0x00ff_ffff);
            out.observe(&Observation::PathCell {
                chunk,
                level: table.level,
                version: table.index.unsigned_abs(),
                nth: nth.min(u16::MAX.into()) as u16,
                cell: part as u16,
                unread: PARTS,
                rank: part as u16,
            });
            if at + 1 == touch.slots.len() {
                out.observe(&Observation::Path {
                    epoch,
                    batch: epoch,
                    access,
                    leaf: part as u32,
                    whole: true,
                    shown: true,
                    stretch: access,
                });
            }
        }
    }

    /// Superblock `number` is there: tables that nobody touches any longer are forgotten.
    pub fn forget(&mut self, number: u64) {
        let layout = &self.layout;
        self.tables.retain(|table, _| layout.superseded(*table) + LATE_EPOCHS >= number);
    }

    /// Whether a chunk is known to count, of a table that queries of epoch `number - 1` touch.
    pub fn is_named(&self, name: &ChunkName, table: Table, number: u64) -> bool {
        let known = self.tables.get(&table).and_then(|known| known.versions.get(&name.chunk));
        known == Some(&name.version) && self.layout.superseded(table) >= number
    }
}

/// The array of what is claimed.
pub fn array(claim: &Claim) -> u16 {
    u16::from(claim.table.level) + if claim.is_dealt { DEALT } else { 0 }
}

/// Which of so many equal parts of the unread a rank lies in; where in two, a fair draw says.
fn part(random: &mut Stream, rank: u32, unread: u32, parts: u64) -> u64 {
    let within = u64::from(random.next_u32());
    let at = (u128::from(rank) << 32 | u128::from(within)) * u128::from(parts);
    ((at / u128::from(unread.max(1))) >> 32) as u64
}

impl Known {
    fn new(slots: u32) -> Self {
        let (versions, touched) = Default::default();
        Self { versions, unread: Unread::new(slots), touched }
    }
}

/// Slots that were not touched: a tree of sums, by which a slot's rank is found.
struct Unread {
    sums: Vec<u32>,
    left: u32,
}

impl Unread {
    fn new(slots: u32) -> Self {
        let sum = |at: u32| 1 << at.trailing_zeros();
        let sums = std::iter::once(0).chain((1..=slots).map(sum)).collect();
        Self { sums, left: slots }
    }

    /// Takes a slot that is there: its rank, and of how many.
    fn take(&mut self, slot: u32) -> (u32, u32) {
        let (mut rank, mut at) = (0, slot as usize);
        while at > 0 {
            rank += self.sums[at];
            at &= at - 1;
        }
        let (left, mut at) = (self.left, slot as usize + 1);
        while let Some(sum) = self.sums.get_mut(at) {
            *sum -= 1;
            at += at & at.wrapping_neg();
        }
        self.left -= 1;
        (rank, left)
    }
}

/// Why traces cannot be followed.
pub const MISSING: &str =
    "something comes from a client of the site whose trace was not given, or whose trace is cut";

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};

    use super::*;

    #[test]
    fn ranks_are_those_among_what_is_left() {
        let mut unread = Unread::new(7);
        let taken = [3, 0, 6, 5, 1, 2, 4].map(|slot| unread.take(slot));
        assert_eq!(taken, [(3, 7), (0, 6), (4, 5), (3, 4), (0, 3), (0, 2), (0, 1)]);
    }

    #[test]
    fn parts_of_uniform_ranks_are_uniform() {
        let mut random = Randomness::repeatable(1).stream(Purpose::Shuffle);
        let mut counts = [0; 4];
        for rank in (0..7).cycle().take(70_000) {
            counts[part(&mut random, rank, 7, 4) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (17_000..18_000).contains(count)), "{counts:?}");
    }
}
