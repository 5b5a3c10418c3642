//! What follows from the public numbers of a site alone: which table lives when, and how its build
//! is cut.
//!
//! Sections 1 and 8 of the protocol of `hierarchy`, written apart from the engine on purpose.

use std::ops::Range;

use super::HierarchyConfig;

/// A table: its level, and which of the level's; -1 at the bottom is the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table {
    pub level: u8,
    pub index: i64,
}

/// A run of whole chunks in an array, which one request of a build moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// Of the table's own array, or of what is dealt for it.
    pub is_dealt: bool,
    pub table: Table,
    pub first: u32,
    pub count: u32,
    /// Cells that the piece has moved before.
    pub moved: u64,
}

/// What one piece of a build does.
#[derive(Debug, Clone)]
pub struct Piece {
    pub reads: Vec<Chunks>,
    pub writes: Vec<Chunks>,
    /// Cells that it moves in all.
    pub moves: u64,
    /// From which place to which it goes on.
    pub places: Range<u64>,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Layout {
    pub of: HierarchyConfig,
    pub bottom: u8,
}

impl Layout {
    pub fn new(config: &HierarchyConfig) -> Self {
        let holds = |level: &u8| {
            let width = u64::from(config.growth).saturating_pow(u32::from(*level));
            u64::from(config.epoch).saturating_mul(width) >= u64::from(config.blocks)
        };
        let bottom = (1..32).find(holds).unwrap_or(31);
        Self { of: config.clone(), bottom }
    }

    /// G to the level: epochs that a table covers.
    pub fn width(&self, level: u8) -> u64 {
        u64::from(self.of.growth).saturating_pow(level.into())
    }

    pub fn first_of(&self, epoch: u64) -> u64 {
        epoch.saturating_mul(self.of.epoch.into())
    }

    pub fn epoch_of(&self, place: u64) -> u64 {
        place / u64::from(self.of.epoch)
    }

    /// The first of the epochs that no touch tells from this one, and how many they are.
    pub fn group_of(&self, epoch: u64) -> (u64, u64) {
        if epoch < 2 { (0, 2) } else { (epoch, 1) }
    }

    pub fn installed(&self, table: Table) -> u64 {
        let Ok(index) = u64::try_from(table.index) else { return 0 };
        let width = self.width(table.level);
        let waits = (width - 1) / (u64::from(self.of.growth) - 1);
        width.saturating_mul(index.saturating_add(1)).saturating_add(1 + waits)
    }

    /// What takes its place, and is made of it.
    pub fn parent(&self, Table { level, index }: Table) -> Table {
        if level == self.bottom {
            return Table { level, index: index.saturating_add(1) };
        }
        Table { level: level + 1, index: index.div_euclid(self.of.growth.into()) }
    }

    pub fn superseded(&self, table: Table) -> u64 {
        self.installed(self.parent(table))
    }

    /// Newest first.
    pub fn sources(&self, table: Table) -> Vec<Table> {
        let Table { level: level @ 1.., index: index @ 0.. } = table else { return Vec::new() };
        let growth = i64::from(self.of.growth);
        let first = index.saturating_mul(growth);
        let below = (0..growth).rev().map(|at| Table { level: level - 1, index: first + at });
        let mut sources: Vec<Table> = below.collect();
        if level == self.bottom && (index > 0 || self.of.has_image) {
            sources.push(Table { level, index: index - 1 });
        }
        sources
    }

    /// The epoch in which its build starts.
    pub fn starts(&self, table: Table) -> u64 {
        match self.sources(table).first() {
            Some(newest) => self.installed(*newest),
            None => table.index.unsigned_abs() + 1,
        }
    }

    pub fn reals(&self, level: u8) -> u32 {
        let holds = u64::from(self.of.epoch).saturating_mul(self.width(level));
        holds.min(self.of.blocks.into()) as u32
    }

    pub fn slots(&self, table: Table) -> u32 {
        let epochs = self.superseded(table).saturating_sub(self.installed(table));
        self.reals(table.level) + self.first_of(epochs) as u32
    }

    /// Tables of a level of every kind.
    fn kinds(&self, level: u8) -> impl Iterator<Item = Table> {
        let first = if level == self.bottom && self.of.has_image { -1 } else { 0 };
        (first..2 * i64::from(self.of.growth)).map(move |index| Table { level, index })
    }

    /// Those of an epoch, newest first: they cover all epochs before the window, each once.
    pub fn tables(&self, epoch: u64) -> Vec<Table> {
        let mut tables = Vec::new();
        for level in 0..=self.bottom {
            let newest = (epoch / self.width(level)) as i64;
            let oldest = if level == self.bottom && self.of.has_image { -1 } else { 0 };
            let some = (oldest.max(newest - 2 * i64::from(self.of.growth) - 2)..=newest).rev();
            let lives =
                |table: &Table| (self.installed(*table)..self.superseded(*table)).contains(&epoch);
            tables.extend(some.map(|index| Table { level, index }).filter(lives));
        }
        tables
    }

    /// Those that an epoch is the first to touch, newest first.
    pub fn installing(&self, epoch: u64) -> Vec<Table> {
        let comes = |table: &Table| table.index >= 0 && self.installed(*table) == epoch;
        self.tables(epoch).into_iter().filter(comes).collect()
    }

    /// The epoch whose tables these are, by the newest of them.
    pub fn epoch_by(&self, newest: Option<&Table>) -> u64 {
        match newest {
            Some(Table { level, index: index @ 0.. }) => {
                (index.unsigned_abs() + 1).saturating_mul(self.width(*level)) + 1
            }
            _ => 1,
        }
    }

    pub fn chunk_cells(&self, level: u8) -> u32 {
        let most = self.kinds(level).map(|table| self.slots(table)).max();
        self.of.chunk_cells.min(most.unwrap_or(1)).max(1)
    }

    pub fn chunk_bytes(&self, level: u8) -> u64 {
        u64::from(self.chunk_cells(level)) * u64::from(self.of.cell_bytes)
    }

    /// Chunks of an array of a level.
    pub fn chunks(&self, level: u8, is_dealt: bool) -> u32 {
        let cells = self.kinds(level).map(|table| match is_dealt {
            false => self.slots(table),
            true if table.index < 0 => 0,
            true => self.cut(table).dealt_cells(),
        });
        cells.max().unwrap_or(0).div_ceil(self.chunk_cells(level))
    }

    /// Cells of a request of a build.
    fn request(&self, level: u8) -> u32 {
        let chunks = u64::from(self.of.request_bytes) / self.chunk_bytes(level).max(1);
        chunks.max(1) as u32 * self.chunk_cells(level)
    }

    /// How the build of a table is cut.
    pub fn cut(&self, table: Table) -> Cut {
        let slots = self.slots(table);
        let is_whole = self.reals(table.level) <= self.of.piece;
        let is_dealt = !is_whole && table.level > 0;
        let range = if is_whole { slots } else { self.of.piece };
        let chunk = self.chunk_cells(table.level);
        let sources = self.sources(table).into_iter().map(|source| {
            let of_source = self.slots(source);
            let room = room((self.reals(source.level), of_source), self.of.piece, slots);
            (source, of_source, if is_dealt { room.next_multiple_of(chunk) } else { 0 })
        });
        Cut { slots, range, is_dealt, piece: self.of.piece, sources: sources.collect() }
    }

    /// From where to where a build goes on, in places.
    fn places(&self, table: Table) -> Range<u64> {
        let (start, epoch) = (self.first_of(self.starts(table)), u64::from(self.of.epoch));
        if table.level == 0 {
            return start + epoch / 8..start + epoch / 2;
        }
        let period = self.first_of(self.installed(table)).saturating_sub(start);
        start..start + period.saturating_sub((epoch / 2).max(period / 16))
    }

    /// A piece of the build of a table; `None` if there is none of this number.
    pub fn piece(&self, table: Table, number: u32) -> Option<Piece> {
        if table.index < 0 {
            return None;
        }
        let cut = self.cut(table);
        let (places, all) = (self.places(table), cut.moved_before(cut.count()));
        let at = |moved: u64| {
            let whole = u128::from(places.end - places.start);
            places.start + (whole * u128::from(moved) / u128::from(all.max(1))) as u64
        };
        let before = cut.moved_before(number);
        let own = cut.moved_before(number + 1) - before;
        let places = at(before)..at(before + own);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        if let Some((source, first)) = cut.deal(number) {
            let (of, slots, bucket) = cut.sources[source];
            let some = first..first.saturating_add(cut.piece).min(slots);
            self.requests((of, false), some, &mut reads);
            let cells = bucket * cut.ranges();
            let begins = cut.dealt_before(number);
            self.requests((table, true), begins..begins + cells, &mut writes);
        } else if let Some(range) = number.checked_sub(cut.deals()).filter(|at| *at < cut.ranges())
        {
            if cut.is_dealt {
                for deal in 0..cut.deals() {
                    let Some((source, _)) = cut.deal(deal) else { continue };
                    let bucket = cut.sources[source].2;
                    let begins = cut.dealt_before(deal) + range * bucket;
                    // Of a bucket the requests begin at its own first cell.
                    let step = self.request(table.level);
                    for cell in (0..bucket).step_by(step as usize) {
                        let end = (cell + step).min(bucket);
                        self.requests((table, true), begins + cell..begins + end, &mut reads);
                    }
                }
            } else {
                for (of, slots, _) in &cut.sources {
                    self.requests((*of, false), 0..*slots, &mut reads);
                }
            }
            let start = range * cut.range;
            let end = start.saturating_add(cut.range).min(cut.slots);
            self.requests((table, false), start..end, &mut writes);
        } else if number + 1 != cut.count() {
            return None;
        }
        let mut moved = 0;
        for of in reads.iter_mut().chain(&mut writes) {
            (of.moved, moved) = (moved, moved + of.moved);
        }
        Some(Piece { reads, writes, moves: moved, places })
    }

    /// Requests for cells of an array, from the first of a chunk on. What each moves stands where
    /// what was moved before it will.
    fn requests(&self, (table, is_dealt): (Table, bool), cells: Range<u32>, out: &mut Vec<Chunks>) {
        let (chunk, step) = (self.chunk_cells(table.level), self.request(table.level));
        for at in cells.clone().step_by(step as usize) {
            let end = at.saturating_add(step).min(cells.end);
            let (first, count) = (at / chunk, (end - at).div_ceil(chunk));
            out.push(Chunks { is_dealt, table, first, count, moved: (end - at).into() });
        }
    }
}

/// How the build of a table is cut into pieces: those that deal, those that fill, and one that
/// finishes, if more than one fills.
#[derive(Debug, Clone)]
pub struct Cut {
    pub slots: u32,
    /// Slots that one piece fills.
    range: u32,
    is_dealt: bool,
    piece: u32,
    /// Each with its slots and the cells of a bucket of it.
    sources: Vec<(Table, u32, u32)>,
}

impl Cut {
    pub fn ranges(&self) -> u32 {
        self.slots.div_ceil(self.range.max(1))
    }

    /// Pieces that deal.
    pub fn deals(&self) -> u32 {
        let of = |(_, slots, _): &(Table, u32, u32)| slots.div_ceil(self.piece);
        if self.is_dealt { self.sources.iter().map(of).sum() } else { 0 }
    }

    pub fn count(&self) -> u32 {
        self.deals() + self.ranges() + u32::from(self.ranges() > 1)
    }

    /// The source and its first slot, of a piece that deals.
    fn deal(&self, number: u32) -> Option<(usize, u32)> {
        let mut before = 0;
        for (at, (_, slots, _)) in self.sources.iter().enumerate().filter(|_| self.is_dealt) {
            let pieces = slots.div_ceil(self.piece);
            if number < before + pieces {
                return Some((at, (number - before) * self.piece));
            }
            before += pieces;
        }
        None
    }

    /// Cells that pieces before this one deal.
    fn dealt_before(&self, number: u32) -> u32 {
        let buckets = (0..number).filter_map(|at| self.deal(at)).map(|(at, _)| self.sources[at].2);
        buckets.sum::<u32>() * self.ranges()
    }

    pub fn dealt_cells(&self) -> u32 {
        self.dealt_before(self.deals())
    }

    /// The piece that reads a slot of a source, if one deals it.
    pub fn dealing(&self, of: Table, slot: u32) -> Option<u32> {
        let mut before = 0;
        for (source, slots, _) in self.sources.iter().filter(|_| self.is_dealt) {
            if *source == of {
                return Some(before + slot / self.piece);
            }
            before += slots.div_ceil(self.piece);
        }
        None
    }

    /// The piece that reads a cell that was dealt.
    pub fn filling(&self, cell: u32) -> Option<u32> {
        let mut begins = 0;
        for deal in 0..self.deals() {
            let bucket = self.sources[self.deal(deal)?.0].2;
            let cells = bucket * self.ranges();
            if cell < begins + cells {
                return Some(self.deals() + (cell - begins) / bucket.max(1));
            }
            begins += cells;
        }
        None
    }

    /// Cells that a piece reads and writes.
    fn moves(&self, number: u32) -> u64 {
        if let Some((at, first)) = self.deal(number) {
            let (_, slots, bucket) = self.sources[at];
            let read = slots.min(first.saturating_add(self.piece)) - first;
            return u64::from(read) + u64::from(bucket) * u64::from(self.ranges());
        }
        let Some(range) = number.checked_sub(self.deals()).filter(|at| *at < self.ranges()) else {
            return 0;
        };
        let start = u64::from(range) * u64::from(self.range);
        let written = (start + u64::from(self.range)).min(self.slots.into()) - start;
        let read = self.sources.iter().map(|(_, slots, bucket)| match self.is_dealt {
            true => u64::from(slots.div_ceil(self.piece)) * u64::from(*bucket),
            false => u64::from(*slots),
        });
        written + read.sum::<u64>()
    }

    fn moved_before(&self, number: u32) -> u64 {
        (0..number).map(|at| self.moves(at)).sum()
    }
}

/// Cells of a bucket: what one piece of a source, of so many reals and slots, deals to one range,
/// but for one chance in 2^90 by Bernstein's bound.
fn room((reals, of_source): (u32, u32), piece: u32, slots: u32) -> u32 {
    let (from, to) = (piece.min(of_source), piece.min(slots));
    let products = u128::from(reals) * u128::from(from) * u128::from(to);
    let mean = products.div_ceil(u128::from(of_source.max(1)) * u128::from(slots.max(1))) as u64;
    let room = mean + 22 + (433 + 125 * mean).isqrt();
    room.min(from.min(to).min(reals).into()) as u32
}
