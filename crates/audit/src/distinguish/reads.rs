//! What one read request shows: places, repeats, cells, and the order they stand in.
//!
//! 1. Chunks are taken in the order of the message and joined to paths: a chunk that lies below the
//!    one before goes on with its path. Reads of one cell and of several, which retire a version,
//!    belong to different paths.
//! 2. Each chunk is held against [`Past`]: when it was last read, which of its cells are unread.
//! 3. A path's end is its leaf, held against the leaves before it and against the half of the tree
//!    that was last retired or written.

use fogbank_store::{ArrayId, ChunkName};

use super::feature::{Feature, Row};
use super::moments::Moments;
use super::past::{Again, LEAVES, Past};
use super::place::{common_levels, descends, fraction, level, turn};

/// The levels from which on a chunk is deep: chunks near the root are read all the time.
const DEEP: u32 = 4;

/// The age that stands for a chunk not known to have been read, and for all above, in windows.
const UNKNOWN_AGE: u64 = 1 << 14;

/// A path as it is being put together.
#[derive(Debug, Clone, Copy)]
struct Path {
    array: ArrayId,
    end: u32,
    length: u32,
    /// The age and the heat of the end.
    age: f64,
    heat: f64,
    /// Whether it reads several cells a chunk.
    retires: bool,
    ranks: Moments,
    ages: Moments,
}

/// What is kept of a path for comparing the first ones of a message with the last.
#[derive(Debug, Clone, Copy)]
struct Passed {
    rank: f64,
    age: f64,
    leaf: f64,
    repeats: f64,
}

/// The reads of one window, and what they are held against.
#[derive(Debug)]
pub(super) struct Reads {
    past: Past,
    open: Option<Path>,
    last_leaf: Option<u32>,
    retired_half: Option<u8>,
    written_half: Option<u8>,
    passed: Vec<Passed>,
    seen: Seen,
    /// The logarithm of every age: one is asked for with each chunk.
    logs: Vec<f32>,
}

/// Sums over one window.
#[derive(Debug, Default)]
struct Seen {
    chunks: u64,
    cells: u64,
    cells_max: usize,
    previous: Option<ChunkName>,
    levels: Moments,
    places: Moments,
    ages: Moments,
    deep_ages: Moments,
    again_inside: u64,
    again_next: u64,
    again_soon: u64,
    same_cell: u64,
    cells_again: u64,
    successors: u64,
    falling: Moments,
    cell_numbers: Moments,
    ranks: Moments,
    first: u64,
    last: u64,
    retired_ranks: Moments,
    unread: Moments,
    retired_at: Moments,
    lengths: Moments,
    leaf_ages: Moments,
    leaf_heats: Moments,
    leaves: Moments,
    turns: [Moments; 3],
    odd: Moments,
    as_retired: Moments,
    as_written: Moments,
    repeats: Moments,
    near: Moments,
    inside: Moments,
    distance: Moments,
    common: Moments,
    rising: Moments,
    steps: Moments,
}

impl Reads {
    pub(super) fn new() -> Self {
        Self {
            past: Past::new(),
            open: None,
            last_leaf: None,
            retired_half: None,
            written_half: None,
            passed: Vec::new(),
            seen: Seen::default(),
            logs: (0..=UNKNOWN_AGE).map(|age| (age as f32).ln_1p()).collect(),
        }
    }

    /// Takes in the read of `cells` of a chunk, of `width` cells if that is known, in `window`. No
    /// cells: the whole chunk.
    pub(super) fn chunk(&mut self, chunk: ChunkName, cells: &[u16], width: u16, window: u64) {
        let retires = cells.len() > 1;
        let seen = &mut self.seen;
        let mut ranks = Moments::default();
        let again = self.past.read(chunk, cells, width, window, |rank| {
            seen.cells_again += u64::from(rank.again);
            let place = (f64::from(rank.rank) + 0.5) / f64::from(rank.unread);
            ranks.add(place);
            if retires {
                return seen.retired_ranks.add(place);
            }
            seen.unread.add(f64::from(rank.unread));
            seen.ranks.add(place);
            seen.first += u64::from(rank.rank == 0);
            seen.last += u64::from(rank.rank + 1 == rank.unread);
        });
        let age = again.age.unwrap_or(UNKNOWN_AGE).min(UNKNOWN_AGE);
        let age = f64::from(self.logs[age as usize]);
        let heat = f64::from(again.heat);
        seen.chunk(chunk, cells, again, age);
        match &mut self.open {
            Some(path)
                if path.array == chunk.array
                    && path.retires == retires
                    && descends(chunk.chunk, path.end) =>
            {
                path.end = chunk.chunk;
                path.length += 1;
                (path.age, path.heat) = (age, heat);
                path.ranks.join(&ranks);
                path.ages.add(age);
            }
            _ => {
                self.close_path();
                let mut ages = Moments::default();
                ages.add(age);
                let (array, end) = (chunk.array, chunk.chunk);
                self.open = Some(Path { array, end, length: 1, age, heat, retires, ranks, ages });
            }
        }
    }

    /// Ends the message: the last path is whole.
    pub(super) fn close_path(&mut self) {
        let Some(path) = self.open.take() else { return };
        if path.retires {
            self.retired_half = turn(path.end, 0).or(self.retired_half);
            self.seen.retired_at.add(self.passed.len() as f64);
            return;
        }
        let leaf = path.end;
        let ago = self.past.leaf(path.array, leaf);
        let seen = &mut self.seen;
        let here = self.passed.len();
        seen.lengths.add(f64::from(path.length));
        seen.leaf_ages.add(path.age);
        seen.leaf_heats.add(path.heat);
        seen.leaf(leaf, self.last_leaf);
        let half = turn(leaf, 0);
        seen.as_retired.add_share(half.zip(self.retired_half).map(|(a, b)| a == b));
        seen.as_written.add_share(half.zip(self.written_half).map(|(a, b)| a == b));
        seen.repeats.add_share(Some(ago.is_some()));
        seen.near.add_share(Some(ago.is_some_and(|ago| ago <= 8)));
        seen.inside.add_share(Some(ago.is_some_and(|ago| ago <= here)));
        seen.distance.add(ago.unwrap_or(LEAVES + 1) as f64);
        self.last_leaf = Some(leaf);
        self.passed.push(Passed {
            rank: path.ranks.mean_or(0.5),
            age: path.ages.mean_or(0.0),
            leaf: fraction(leaf),
            repeats: f64::from(u8::from(ago.is_some())),
        });
    }

    /// Takes in that a chunk was written.
    pub(super) fn written(&mut self, chunk: u32) {
        self.written_half = turn(chunk, 0).or(self.written_half);
    }

    /// Writes the window's features and begins the next.
    pub(super) fn finish(&mut self, row: &mut Row) {
        self.close_path();
        self.seen.write(row);
        for (feature, of) in [
            (Feature::RankOrder, (|p| p.rank) as fn(&Passed) -> f64),
            (Feature::AgeOrder, |p| p.age),
            (Feature::LeafOrder, |p| p.leaf),
            (Feature::RepeatOrder, |p| p.repeats),
        ] {
            row.set(feature, order(&self.passed, of));
        }
        row.set(Feature::Paths, self.passed.len() as f64);
        let paths = self.passed.len().max(1) as f64;
        row.set(Feature::RetiredAt, self.seen.retired_at.mean_or(0.0) / paths);
        self.passed.clear();
        self.seen = Seen::default();
    }
}

impl Seen {
    fn chunk(&mut self, chunk: ChunkName, cells: &[u16], again: Again, age: f64) {
        self.chunks += 1;
        self.cells += cells.len() as u64;
        self.cells_max = self.cells_max.max(cells.len());
        let level = level(chunk.chunk);
        self.levels.add(f64::from(level));
        self.places.add(fraction(chunk.chunk));
        self.ages.add(age);
        if level >= DEEP {
            self.deep_ages.add(age);
        }
        self.again_inside += u64::from(again.age == Some(0));
        self.again_next += u64::from(again.age == Some(1));
        self.again_soon += u64::from(again.age.is_some_and(|age| (1..=8).contains(&age)));
        self.same_cell += u64::from(again.same_cell);
        let follows = |before: ChunkName| before.chunk.checked_add(1) == Some(chunk.chunk);
        self.successors += u64::from(self.previous.is_some_and(follows));
        self.previous = Some(chunk);
        cells.iter().for_each(|&cell| self.cell_numbers.add(f64::from(cell)));
        cells.windows(2).for_each(|pair| self.falling.add_share(Some(pair[0] > pair[1])));
    }

    fn leaf(&mut self, leaf: u32, before: Option<u32>) {
        let place = fraction(leaf);
        self.leaves.add(place);
        for (at, turns) in self.turns.iter_mut().enumerate() {
            turns.add_share(turn(leaf, at as u32).map(|turn| turn == 1));
        }
        self.odd.add_share(Some(leaf & 1 == 0));
        let Some(before) = before else { return };
        self.common.add(f64::from(common_levels(leaf, before)));
        self.rising.add_share(Some(place > fraction(before)));
        self.steps.add((place - fraction(before)).abs());
    }

    fn write(&self, row: &mut Row) {
        let chunks = self.chunks.max(1) as f64;
        let ranked = self.ranks.count().max(1.0);
        let mut set = |feature, value| row.set(feature, value);
        set(Feature::ChunksRead, self.chunks as f64);
        set(Feature::CellsRead, self.cells as f64);
        set(Feature::CellsMax, self.cells_max as f64);
        set(Feature::DistinctChunks, 1.0 - self.again_inside as f64 / chunks);
        set(Feature::LevelMean, self.levels.mean_or(0.0));
        set(Feature::LevelSpread, self.levels.spread());
        set(Feature::LevelMax, self.levels.max_or(0.0));
        set(Feature::PlaceMean, self.places.mean_or(0.5));
        set(Feature::ChunkAge, self.ages.mean_or(0.0));
        set(Feature::ChunkAgeDeep, self.deep_ages.mean_or(0.0));
        set(Feature::ReadAgainNext, self.again_next as f64 / chunks);
        set(Feature::ReadAgainSoon, self.again_soon as f64 / chunks);
        set(Feature::SameCell, self.same_cell as f64 / chunks);
        set(Feature::CellAgain, self.cells_again as f64 / self.cells.max(1) as f64);
        set(Feature::Successors, self.successors as f64 / chunks);
        set(Feature::CellsFalling, self.falling.mean_or(0.0));
        set(Feature::CellMean, self.cell_numbers.mean_or(0.0));
        set(Feature::RankMean, self.ranks.mean_or(0.5));
        set(Feature::RankSpread, self.ranks.spread());
        set(Feature::RankFirst, self.first as f64 / ranked);
        set(Feature::RankLast, self.last as f64 / ranked);
        set(Feature::RetiredRankMean, self.retired_ranks.mean_or(0.5));
        set(Feature::UnreadMean, self.unread.mean_or(0.0));
        self.write_leaves(row);
    }

    fn write_leaves(&self, row: &mut Row) {
        let mut set = |feature, value| row.set(feature, value);
        set(Feature::PathLength, self.lengths.mean_or(0.0));
        set(Feature::LeafAge, self.leaf_ages.mean_or(0.0));
        set(Feature::LeafAgeMin, self.leaf_ages.min_or(0.0));
        set(Feature::LeafHeat, self.leaf_heats.mean_or(0.0));
        set(Feature::LeafHeatMax, self.leaf_heats.max_or(0.0));
        set(Feature::LeafMean, self.leaves.mean_or(0.5));
        set(Feature::LeafSpread, self.leaves.spread());
        set(Feature::LeafMin, self.leaves.min_or(0.5));
        set(Feature::LeafMax, self.leaves.max_or(0.5));
        set(Feature::RightHalf, self.turns[0].mean_or(0.5));
        set(Feature::SecondBit, self.turns[1].mean_or(0.5));
        set(Feature::ThirdBit, self.turns[2].mean_or(0.5));
        set(Feature::LastBit, self.odd.mean_or(0.5));
        set(Feature::SameHalfAsRetired, self.as_retired.mean_or(0.5));
        set(Feature::SameHalfAsWritten, self.as_written.mean_or(0.5));
        set(Feature::LeafRepeats, self.repeats.mean_or(0.0));
        set(Feature::LeafRepeatsNear, self.near.mean_or(0.0));
        set(Feature::LeafRepeatsInside, self.inside.mean_or(0.0));
        set(Feature::LeafDistance, self.distance.mean_or((LEAVES + 1) as f64));
        set(Feature::CommonPath, self.common.mean_or(0.0));
        set(Feature::Rising, self.rising.mean_or(0.5));
        set(Feature::StepMean, self.steps.mean_or(0.0));
    }
}

/// The mean over the first half of a message's paths less that over the second.
fn order(passed: &[Passed], of: fn(&Passed) -> f64) -> f64 {
    let (first, last) = passed.split_at(passed.len() / 2);
    let mean = |paths: &[Passed]| {
        let mut moments = Moments::default();
        paths.iter().for_each(|path| moments.add(of(path)));
        moments.mean_or(0.0)
    };
    if first.is_empty() { 0.0 } else { mean(first) - mean(last) }
}
