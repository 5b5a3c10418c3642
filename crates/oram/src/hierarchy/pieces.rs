//! How a build is cut: what each piece of it reads and writes, and to which places it belongs.
//!
//! 1. A table of up to a *piece* of blocks is built by one piece, which reads the sources whole.
//! 2. Of a larger one, every piece of slots of every source is *dealt*: what is newest there goes
//!    to buckets, one for each range of slots of the table, padded to a fixed length.
//! 3. Then each range is *filled*: its buckets are read, and its cells written, fakes among them.
//! 4. A last piece *finishes* the table: it says which versions of all chunks count.
//! 5. All that a build reads and writes is spread evenly over the places of its period, but for
//!    half an epoch at the end in which it is installed. Whose a piece is follows from its places
//!    (`whose`).
//!
//! # Invariants
//! - Everything here follows from the schedule and the table alone.
//! - A bucket has room for what comes to it, but for one chance in 2^90: which blocks of a source
//!   lie in one piece of it, and which go to one range, is decided by two secret orders.
//!
//! Section 8 of the protocol (module).

use std::ops::Range;

use super::schedule::{Schedule, Table};

/// What is done at once, by one client, in its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Slots of a source, which one by its number, go to buckets that begin at this cell.
    Deal(usize, Range<u32>, u32),
    /// Slots of the table are written.
    Fill(Range<u32>),
    /// Says what counts.
    Finish,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Pieces {
    /// Of which table.
    pub table: Table,
    /// Of each source, newest first: its slots, and the cells of a bucket, which are whole chunks.
    pub sources: Vec<(u32, u32)>,
    slots: u32,
    piece: u32,
    /// Slots that are filled by one piece.
    range: u32,
    is_dealt: bool,
    places: Range<u64>,
}

impl Pieces {
    /// Those of a table.
    pub fn new(schedule: &Schedule, table: Table) -> Self {
        let (slots, piece) = (schedule.slots(table), schedule.piece);
        let is_whole = schedule.reals(table.level) <= piece;
        let (is_dealt, range) =
            (!is_whole && table.level > 0, if is_whole { slots } else { piece });
        let chunk = schedule.chunk_cells(table.level);
        let sources = schedule.sources(table).into_iter().map(|source| {
            let (of_source, reals) = (schedule.slots(source), schedule.reals(source.level));
            let room = room((reals, of_source), piece, slots).next_multiple_of(chunk);
            (of_source, if is_dealt { room } else { 0 })
        });
        let sources = sources.collect();
        let epoch = u64::from(schedule.epoch);
        let start = schedule.first_of(schedule.build_starts(table));
        let places = if table.index < 0 {
            start..start // an image is there before the first place
        } else if table.level == 0 {
            start + epoch / 8..start + epoch / 2
        } else {
            let period = schedule.first_of(schedule.installed(table)) - start;
            start..start + period - (epoch / 2).max(period / 16)
        };
        Self { table, sources, slots, piece, range, is_dealt, places }
    }

    /// All pieces, by number.
    pub fn all(&self) -> impl Iterator<Item = Piece> {
        let mut first = 0;
        let deals = self.sources.iter().enumerate().flat_map(move |(source, (slots, bucket))| {
            let pieces = if self.is_dealt { slots.div_ceil(self.piece) } else { 0 };
            (0..pieces).map(move |at| (source, at * self.piece..*slots, *bucket))
        });
        let deals = deals.map(move |(source, slots, bucket)| {
            let begins = first;
            first += bucket * self.ranges();
            let end = slots.start.saturating_add(self.piece).min(slots.end);
            Piece::Deal(source, slots.start..end, begins)
        });
        let fills = (0..self.ranges()).map(|range| {
            let start = range * self.range;
            Piece::Fill(start..start.saturating_add(self.range).min(self.slots))
        });
        let finish = (self.ranges() > 1).then_some(Piece::Finish);
        deals.chain(fills).chain(finish)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.dealt() + self.ranges() + u32::from(self.ranges() > 1)
    }

    /// How many of them deal; they come first.
    pub fn dealt(&self) -> u32 {
        let of = |(slots, _): &(u32, u32)| slots.div_ceil(self.piece);
        if self.is_dealt { self.sources.iter().map(of).sum() } else { 0 }
    }

    /// Ranges of slots that are filled one by one.
    pub fn ranges(&self) -> u32 {
        self.slots.div_ceil(self.range)
    }

    /// Which range a slot is in.
    pub fn range_of(&self, slot: u32) -> usize {
        (slot / self.range) as usize
    }

    /// Cells of all buckets.
    pub fn bucket_cells(&self) -> u32 {
        let of = |(slots, bucket): &(u32, u32)| slots.div_ceil(self.piece) * bucket * self.ranges();
        self.sources.iter().map(of).sum()
    }

    /// Cells that a piece reads, and those that it writes.
    pub fn moves(&self, piece: &Piece) -> [u64; 2] {
        match piece {
            Piece::Deal(source, slots, _) => {
                let buckets = u64::from(self.sources[*source].1) * u64::from(self.ranges());
                [slots.len() as u64, buckets]
            }
            Piece::Fill(slots) if self.is_dealt => {
                let of = |(slots, bucket): &(u32, u32)| slots.div_ceil(self.piece) * bucket;
                [self.sources.iter().map(of).map(u64::from).sum(), slots.len() as u64]
            }
            Piece::Fill(slots) => {
                let read = self.sources.iter().map(|(slots, _)| u64::from(*slots)).sum();
                [read, slots.len() as u64]
            }
            Piece::Finish => [0, 0],
        }
    }

    /// By number: from which place to which each piece goes on. It belongs to who logged the first.
    pub fn places(&self) -> Vec<Range<u64>> {
        let costs = self.all().map(|piece| self.moves(&piece).iter().sum::<u64>());
        let costs: Vec<u64> = costs.collect();
        let (total, period) = (costs.iter().sum::<u64>(), self.places.end - self.places.start);
        let at = |moved: u64| self.places.start + share(period, moved, total);
        let mut moved = 0;
        let mut piece = |cost: u64| {
            let before = moved;
            moved += cost;
            at(before)..at(moved)
        };
        costs.iter().map(|cost| piece(*cost)).collect()
    }
}

/// So many of `whole` as `part` is of `of`, rounded down.
pub fn share(whole: u64, part: u64, of: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(of.max(1))) as u64
}

/// Room for what one piece of a source, which has so many reals and slots, deals to one range of a
/// table of `slots`. Each real goes there by two draws of which none makes another likelier, so by
/// Bernstein's bound no more than mean + l / 3 + sqrt(l * l / 9 + 2 * l * mean) do, but for e^-l,
/// with l = 90 ln 2.
fn room((reals, of_source): (u32, u32), piece: u32, slots: u32) -> u32 {
    let (from, to) = (piece.min(of_source), piece.min(slots));
    let products = u128::from(reals) * u128::from(from) * u128::from(to);
    let mean = products.div_ceil(u128::from(of_source) * u128::from(slots)) as u64;
    let room = mean + 21 + (433 + 125 * mean).isqrt() + 1;
    room.min(from.min(to).min(reals).into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_and_write_all_of_a_build_within_its_period() {
        for (blocks, piece, image) in [(1_000, 128, true), (1_000, 128, false), (300, 64, true)] {
            let schedule =
                Schedule::new(blocks, 16, 2, 4, image).unwrap().in_pieces(piece).unwrap();
            for table in (0..900).flat_map(|epoch| schedule.starting(epoch)) {
                let pieces = Pieces::new(&schedule, table);
                let all: Vec<Piece> = pieces.all().collect();
                assert_eq!(all.len(), pieces.count() as usize, "{table:?}");
                let [mut read, mut written, mut cell] = [0, 0, 0];
                for piece in &all {
                    match piece {
                        Piece::Deal(source, slots, first) => {
                            assert_eq!(*first, cell);
                            assert!(slots.len() <= schedule.piece as usize);
                            cell += pieces.sources[*source].1 * pieces.ranges();
                            read += slots.len() as u32;
                        }
                        Piece::Fill(slots) => {
                            assert_eq!(slots.start, written);
                            written = slots.end;
                        }
                        Piece::Finish => assert!(pieces.ranges() > 1),
                    }
                }
                let sources = schedule.sources(table).into_iter();
                let of_sources: u32 = sources.map(|source| schedule.slots(source)).sum();
                assert_eq!(written, schedule.slots(table));
                let is_dealt = pieces.dealt() > 0;
                assert_eq!(read, if is_dealt { of_sources } else { 0 }, "{table:?}");
                assert_eq!(cell, pieces.bucket_cells());
                let places = pieces.places();
                assert!(places.windows(2).all(|pair| pair[0].end == pair[1].start));
                let starts = schedule.first_of(schedule.build_starts(table));
                let needed = schedule.first_of(schedule.installed(table));
                let last = places.last().unwrap().end;
                assert!(places[0].start >= starts && last + 8 <= needed, "{table:?}");
                assert!(last + u64::from(schedule.epoch) / 4 <= needed);
            }
        }
    }

    #[test]
    fn buckets_have_room_to_spare_and_not_much() {
        // A gigabyte of blocks of 4 KiB, in pieces of 128 MiB.
        let found = room((1 << 18, 1 << 19), 1 << 15, 1 << 19);
        assert!((1_350..1_450).contains(&found), "{found}");
        assert_eq!(room((4, 8), 8, 24), 4);
    }
}
