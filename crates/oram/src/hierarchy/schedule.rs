//! Which table lives when: arithmetic on the epoch, so that no object is read to know it.
//!
//! # Invariants
//! - The tables of epoch k cover epochs 0 .. k - 2 exactly once; the window covers the rest.
//! - A table has a fake for every place whose query touches it.
//! - The sources of a build live as long as it.
//!
//! Section 1 of the protocol (module).

use crate::{Error, Result};

/// A table: its level, and which of the level's. `index` -1 at the bottom is the image that a site
/// may start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table {
    /// 0 is made of one epoch; the bottom holds all addresses.
    pub level: u8,
    /// It covers epochs `index * G^level` up to those of the next.
    pub index: i64,
}

/// Slots that no table has: its build has one piece.
pub const WHOLE: u32 = 1 << 31;
/// Cells of a chunk, at most, and their bytes, about: what a query waits for that comes behind it.
const CHUNK_CELLS: u32 = 64;
const CHUNK_BYTES: u32 = 256 << 10;

/// Everything that follows from the public parameters of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// N: addresses, at least 1.
    pub blocks: u32,
    /// T: places of an epoch, at least 1.
    pub epoch: u32,
    /// G: tables of a level that make one of the next, at least 2.
    pub growth: u32,
    /// M: places whose fakes are drawn together; T is a multiple of it.
    pub draw: u32,
    /// Whether a site starts from an image: a bottom that is there from the first query on.
    pub has_image: bool,
    /// Slots of a table that a builder has before it at once, at most.
    pub piece: u32,
    /// Cells of a chunk, at most.
    chunk: u32,
    bottom: u8,
}

impl Schedule {
    /// The schedule of a site.
    ///
    /// # Errors
    /// [`Error::Caller`] for parameters of which there is no site.
    pub fn new(blocks: u32, epoch: u32, growth: u32, draw: u32, has_image: bool) -> Result<Self> {
        let fits = blocks > 0 && (2..=16).contains(&growth) && (1..=1 << 16).contains(&epoch);
        if !fits || draw == 0 || !epoch.is_multiple_of(draw) {
            return Err(Error::Caller(format!(
                "no site has {blocks} blocks, epochs of {epoch} places, growth {growth} and fakes \
                 drawn for {draw} places"
            )));
        }
        let holds = |level: u32| u64::from(epoch) * u64::from(growth).pow(level);
        let bottom = (1..=32).find(|level| holds(*level) >= u64::from(blocks));
        let bottom = bottom.ok_or_else(|| Error::Bug("a site has no bottom".into()))? as u8;
        let (piece, chunk) = (WHOLE, CHUNK_CELLS);
        let schedule = Self { blocks, epoch, growth, draw, has_image, piece, chunk, bottom };
        if u64::from(u32::MAX) < schedule.slots_max() {
            return Err(Error::Caller(format!("{blocks} blocks are too many for a site")));
        }
        Ok(schedule)
    }

    /// The same where a builder has `piece` slots before it at once, at least 1.
    ///
    /// # Errors
    /// [`Error::Caller`] if pieces cannot be made of whole chunks.
    pub fn in_pieces(self, piece: u32) -> Result<Self> {
        if piece == 0 || (piece > CHUNK_CELLS && !piece.is_multiple_of(CHUNK_CELLS)) {
            return Err(Error::Caller(format!("no site has pieces of {piece} slots")));
        }
        Ok(Self { piece, ..self })
    }

    /// The same for blocks of so many bytes, of which a chunk holds fewer if they are large.
    pub fn of_blocks(self, block_bytes: u32) -> Self {
        let fit = (CHUNK_BYTES / block_bytes.max(1)).clamp(1, CHUNK_CELLS);
        Self { chunk: 1 << fit.ilog2(), ..self }
    }

    /// L: the level that holds all addresses, at least 1.
    pub fn bottom(&self) -> u8 {
        self.bottom
    }

    /// The epoch of a place.
    pub fn epoch_of(&self, place: u64) -> u64 {
        place / u64::from(self.epoch)
    }

    /// The first place of an epoch.
    pub fn first_of(&self, epoch: u64) -> u64 {
        epoch * u64::from(self.epoch)
    }

    /// The image that a site starts from.
    pub fn image(&self) -> Table {
        Table { level: self.bottom, index: -1 }
    }

    /// The first epoch whose queries touch it: its sources are there, and one period of theirs has
    /// passed.
    pub fn installed(&self, table: Table) -> u64 {
        let Ok(index) = u64::try_from(table.index) else { return 0 };
        let width = self.width(table.level);
        width * (index + 1) + 1 + (width - 1) / (u64::from(self.growth) - 1)
    }

    /// The first epoch whose queries touch it no longer. It may go one superblock later.
    pub fn superseded(&self, table: Table) -> u64 {
        let growth = i64::from(self.growth);
        self.installed(match table {
            Table { level, index } if level == self.bottom => Table { level, index: index + 1 },
            Table { level, index } => Table { level: level + 1, index: index.div_euclid(growth) },
        })
    }

    /// The first epoch in which it is built. An image is there.
    pub fn build_starts(&self, table: Table) -> u64 {
        match table {
            Table { index: ..0, .. } => 0,
            Table { level: 0, index } => index as u64 + 1,
            _ => self.sources(table).first().map_or(0, |newest| self.installed(*newest)),
        }
    }

    /// What it is made of, newest first; level 0 is made of the log.
    pub fn sources(&self, table: Table) -> Vec<Table> {
        let Table { level: 1.., index: 0.. } = table else { return Vec::new() };
        let growth = i64::from(self.growth);
        let of = |r| Table { level: table.level - 1, index: growth * table.index + r };
        let mut sources: Vec<Table> = (0..growth).rev().map(of).collect();
        if table.level == self.bottom && (table.index > 0 || self.has_image) {
            sources.push(Table { level: table.level, index: table.index - 1 });
        }
        sources
    }

    /// Slots that hold a block or a filler.
    pub fn reals(&self, level: u8) -> u32 {
        u64::from(self.blocks).min(self.holds(level)) as u32
    }

    /// Slots that hold nothing: one for every query that touches the table.
    pub fn fakes(&self, table: Table) -> u32 {
        (u64::from(self.epoch) * (self.superseded(table) - self.installed(table))) as u32
    }

    /// All slots of a table.
    pub fn slots(&self, table: Table) -> u32 {
        self.reals(table.level) + self.fakes(table)
    }

    /// The tables of an epoch, newest first.
    pub fn tables(&self, epoch: u64) -> Vec<Table> {
        self.near(epoch)
            .filter(|table| (self.installed(*table)..self.superseded(*table)).contains(&epoch))
            .collect()
    }

    /// The tables that queries touch first in an epoch, newest first.
    pub fn installing(&self, epoch: u64) -> Vec<Table> {
        let installs = |table: &Table| table.index >= 0 && self.installed(*table) == epoch;
        self.near(epoch).filter(installs).collect()
    }

    /// The tables that superblock `epoch` names: those that it installs, newest first, and the
    /// image as long as it is touched, so that it is the same for all whenever they come.
    pub fn named(&self, epoch: u64) -> Vec<Table> {
        let image = self.image();
        let has_image = self.has_image && self.superseded(image) > epoch;
        let mut named = self.installing(epoch);
        named.extend(has_image.then_some(image));
        named
    }

    /// The tables that no query touches any longer from an epoch on.
    pub fn superseding(&self, epoch: u64) -> Vec<Table> {
        self.near(epoch).filter(|table| self.superseded(*table) == epoch).collect()
    }

    /// The first epoch of which something is known by a table that queries of `epoch` touch: that
    /// in which its build started.
    pub fn oldest_start(&self, epoch: u64) -> u64 {
        let starts = self.tables(epoch).into_iter().map(|table| self.build_starts(table));
        starts.min().unwrap_or(epoch)
    }

    /// Slots of the largest table of a level.
    pub fn slots_of(&self, level: u8) -> u32 {
        self.kinds_of(level).map(|table| self.slots(table)).max().unwrap_or_default()
    }

    /// Cells of a chunk, of all tables of a level.
    pub fn chunk_cells(&self, level: u8) -> u32 {
        self.chunk_cells_max().min(self.slots_of(level))
    }

    /// Cells of a chunk, of tables of whatever level, at most.
    pub fn chunk_cells_max(&self) -> u32 {
        self.chunk.min(self.piece)
    }

    /// Tables of a level of every kind that there is: all others are like one of them.
    pub fn kinds_of(&self, level: u8) -> impl Iterator<Item = Table> {
        let first = if level == self.bottom && self.has_image { -1 } else { 0 };
        (first..2 * i64::from(self.growth)).map(move |index| Table { level, index })
    }

    /// The tables whose build starts with an epoch, small ones first.
    pub fn starting(&self, epoch: u64) -> Vec<Table> {
        let starts = |table: &Table| table.index >= 0 && self.build_starts(*table) == epoch;
        self.near(epoch).filter(starts).collect()
    }

    /// The tables that an epoch may have to do with: level by level, newest first.
    fn near(&self, epoch: u64) -> impl Iterator<Item = Table> {
        let growth = i64::from(self.growth);
        (0..=self.bottom).flat_map(move |level| {
            let newest = (epoch / self.width(level)) as i64;
            let oldest = if level == self.bottom && self.has_image { -1 } else { 0 };
            let first = oldest.max(newest - 2 * growth - 2);
            (first..=newest).rev().map(move |index| Table { level, index })
        })
    }

    /// Epochs that a table of this level covers.
    fn width(&self, level: u8) -> u64 {
        u64::from(self.growth).pow(level.into())
    }

    fn holds(&self, level: u8) -> u64 {
        u64::from(self.epoch) * self.width(level)
    }

    /// The slots of the largest table there is.
    fn slots_max(&self) -> u64 {
        let bottom = Table { level: self.bottom, index: 0 };
        let image = u64::from(self.epoch) * self.installed(bottom);
        u64::from(self.blocks) + image.max(self.holds(self.bottom) * u64::from(self.growth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Schedule> {
        [2, 3, 4].into_iter().flat_map(|growth: u32| {
            [(4, 4), (4 * growth.pow(3), 4), (4 * growth.pow(3) + 1, 4), (7, 1)]
                .into_iter()
                .flat_map(move |(blocks, epoch)| {
                    [true, false]
                        .map(|image| Schedule::new(blocks, epoch, growth, 1, image).unwrap())
                })
        })
    }

    #[test]
    fn the_tables_of_an_epoch_cover_what_is_before_the_window_once() {
        for s in all() {
            for epoch in 0..3 * s.width(s.bottom) + 40 {
                let mut upto = epoch.saturating_sub(1);
                for table in s.tables(epoch) {
                    let width = s.width(table.level);
                    assert_eq!((table.index + 1) as u64 * width, upto, "{s:?} {epoch} {table:?}");
                    upto = if table.level == s.bottom { 0 } else { upto - width };
                }
                assert_eq!(upto, 0, "{s:?} {epoch}");
                let has_bottom = s.tables(epoch).last().is_some_and(|t| t.level == s.bottom);
                assert!(has_bottom || !s.has_image, "{s:?} {epoch}");
            }
        }
    }

    #[test]
    fn sources_live_as_long_as_the_build() {
        for s in all() {
            for epoch in 0..3 * s.width(s.bottom) + 40 {
                for table in s.starting(epoch) {
                    assert!(epoch < s.installed(table));
                    for source in s.sources(table) {
                        assert!(s.installed(source) <= epoch, "{s:?} {table:?} {source:?}");
                        assert!(s.superseded(source) >= s.installed(table), "{source:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn fakes_are_those_of_the_formula() {
        for s in all() {
            let growth = u64::from(s.growth);
            for (level, index) in (0..s.bottom).flat_map(|l| (0..2 * growth).map(move |i| (l, i))) {
                let table = Table { level, index: index as i64 };
                let expected = (growth - index % growth) * s.holds(level);
                assert_eq!(u64::from(s.fakes(table)), expected, "{s:?} {table:?}");
            }
            let next = Table { level: s.bottom, index: 1 };
            assert_eq!(u64::from(s.fakes(next)), s.holds(s.bottom));
        }
    }

    #[test]
    fn chunks_are_as_large_whatever_blocks_are() {
        let schedule = Schedule::new(1 << 16, 256, 2, 8, false).unwrap();
        let cells = [512, 4_096, 5_000, 16_384, 32_768, 1 << 20]
            .map(|bytes| schedule.of_blocks(bytes).chunk_cells(3));
        assert_eq!(cells, [64, 64, 32, 16, 8, 1]);
    }

    #[test]
    fn what_is_no_site_is_refused() {
        for (blocks, epoch, growth, draw) in [
            (0, 4, 2, 4),
            (4, 0, 2, 1),
            (4, 4, 1, 4),
            (4, 4, 2, 3),
            (4, 4, 2, 0),
            (u32::MAX, 4, 2, 4),
        ] {
            let refused = Schedule::new(blocks, epoch, growth, draw, true);
            assert!(matches!(refused, Err(Error::Caller(_))), "{refused:?}");
        }
    }
}
