//! What a site moves, stores and has every client know in the long run, reckoned from its schedule.
//!
//! All levels are taken to be full. Tables of a level come in a pattern that repeats every G of
//! them; the bottom of a site that goes on has the bottom before it among its sources.

use super::numbers::bytes_of;
use super::pieces::Pieces;
use super::schedule::{Schedule, Table};

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Cells that a query touches.
    pub touched: f64,
    /// Cells that builds read for each query, of all clients together.
    pub read: f64,
    /// Cells that builds write for each query.
    pub written: f64,
    /// Chunks that have as many cells as are read, and as are written.
    pub chunks: [f64; 2],
    /// Cells at the server, at most.
    pub stored: u64,
    /// Bytes by which a client knows what tables hold and where, at most.
    pub known_bytes: u64,
}

/// Bytes of an entry and of a result of a site, as they are stored.
pub use super::sealed::stored_bytes;

impl Cost {
    /// That of a site of this schedule.
    pub fn of(schedule: &Schedule) -> Self {
        let levels = (0..=schedule.bottom()).map(|level| of_level(schedule, level));
        levels.fold(Self::default(), |sum, of| Self {
            touched: sum.touched + of.touched,
            read: sum.read + of.read,
            written: sum.written + of.written,
            chunks: [0, 1].map(|way| sum.chunks[way] + of.chunks[way]),
            stored: sum.stored + of.stored,
            known_bytes: sum.known_bytes + of.known_bytes,
        })
    }
}

fn of_level(schedule: &Schedule, level: u8) -> Cost {
    let growth = i64::from(schedule.growth);
    let tables = |indices: std::ops::Range<i64>| indices.map(move |index| Table { level, index });
    // One round of the pattern, and those beside it that live at the same time.
    let (round, near) = (tables(2 * growth..3 * growth), || tables(1..5 * growth));
    let covers = u64::from(schedule.growth).pow(level.into()) * schedule.growth as u64;
    let queries = (covers * u64::from(schedule.epoch)) as f64;
    let (mut fakes, mut read, mut written) = (0, 0, 0);
    for table in round {
        let pieces = Pieces::new(schedule, table);
        let [reads, writes] = pieces
            .all()
            .map(|piece| pieces.moves(&piece))
            .fold([0, 0], |[read, written], [reads, writes]| [read + reads, written + writes]);
        // A fake for every query that touches it.
        fakes += u64::from(schedule.fakes(table));
        (read, written) = (read + reads, written + writes);
    }
    let at = |epoch: u64| {
        let is_there = |table: &Table| {
            (schedule.build_starts(*table)..=schedule.superseded(*table)).contains(&epoch)
        };
        let (mut stored, mut known) = (0, 0);
        for table in near().filter(is_there) {
            let slots = u64::from(schedule.slots(table));
            let is_built = schedule.installed(table) <= epoch;
            let dealt = if is_built { 0 } else { Pieces::new(schedule, table).bucket_cells() };
            stored += slots + u64::from(dealt);
            let (reals, slots) = (schedule.reals(level), slots as u32);
            known += bytes_of(reals, schedule.blocks) + bytes_of(reals, slots);
            known += bytes_of(schedule.fakes(table), slots);
        }
        (stored, known)
    };
    // Most is there when a build starts.
    let starts = tables(2 * growth..4 * growth).map(|table| at(schedule.build_starts(table)));
    let (stored, known) = starts.fold((0, 0), |(a, b), (c, d)| (a.max(c), b.max(d)));
    let [read, written] = [read, written].map(|cells| cells as f64 / queries);
    Cost {
        touched: fakes as f64 / queries,
        read,
        written,
        chunks: [read, written].map(|cells| cells / f64::from(schedule.chunk_cells(level))),
        stored,
        known_bytes: known,
    }
}
