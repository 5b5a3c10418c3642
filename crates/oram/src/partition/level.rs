//! A level of a partition in one of its generations: which cells are unread, and what they hold.
//!
//! A secret permutation says in which cells the blocks of a new level lie. What is kept of it is
//! one mark a cell: the list of the blocks is in the order of their places, so the k-th block lies
//! in the k-th cell that is marked. Every other cell is a dummy, also one whose block left the plan
//! before the level counted.
//!
//! Where one of several cells may be read, it is drawn. What is drawn is a function of the key of
//! the opening that made the level, of its name and of how many were drawn before (`Draws`): a
//! recovery draws the same.
//!
//! 8 bytes and less a block: 4 in the list, two marks a cell.
//!
//! # Invariants
//! - No cell is taken twice. Whatever is taken is uniform among the cells not taken yet, for who
//!   knows neither the permutation nor what was asked: of a block's cell the permutation sees to
//!   it, of all others the draw.
//! - Before the level is due it gives one cell an access; from then on its quota, in all.
//! - Whatever is delayed, quota and dummies suffice: a query gives its partition an order in the
//!   same step, so at most 2^l come before the level is due (section 4 of the protocol).
//! - The list is shared with whoever writes a checkpoint, so it is not changed: a block that has
//!   left stays in it until an eighth has, and then another list takes its place.

use std::sync::Arc;

use fogbank_mix::Marks;
use fogbank_seal::{Draws as Stream, KeyRing, PermutationKey};
use fogbank_store::ChunkName;

use super::canary::Canary;
use super::segment::array;
use crate::geometry::{opening_of, tick_of};
use crate::{Error, Result};

/// In a plan: a block that has left it.
pub const HOLE: u32 = u32::MAX;
/// In a message: whichever block the cell holds, if it holds one.
pub const ANY: u32 = u32::MAX - 1;
/// The part of a list that may be of blocks that have left.
const GONE_PART: usize = 8;
/// Blocks that are compared together.
const COMPARED: usize = 64;

/// A cell that is about to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Where it is.
    pub place: u16,
    /// The block that it holds, if it is a live one.
    pub block: Option<u32>,
}

/// A cell of the quota that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRead {
    /// Where it is.
    pub place: u16,
    /// Whether its block has left the level since.
    pub has_left: bool,
}

/// What decides which of several cells is taken.
pub struct Draws<'a> {
    key: &'a PermutationKey,
    named: Named,
    /// Takes the first, always. Nothing does, but a canary.
    is_first: bool,
}

/// The array, the partition and the tick by which a level is named in permutations.
type Named = (u8, u32, u64);

impl<'a> Draws<'a> {
    /// Those of the `level` of a `partition` in one generation.
    ///
    /// # Errors
    /// [`Error::Bug`] if no opening has made it.
    pub fn of(
        (keys, canary): (&'a KeyRing, &Canary),
        (partition, level, version): (u32, u8, u64),
    ) -> Result<Self> {
        let name = ChunkName { array: array(level), chunk: partition, version };
        let keys = keys.of(opening_of(&name));
        let key = keys.ok_or_else(|| Error::Bug("a level of no opening".into()))?.permutation();
        let named = (name.array.0 as u8, partition, tick_of(&name));
        Ok(Self { key, named, is_first: canary.lays_in_order() })
    }

    /// The places of so many cells by rank: the blocks of a new level take the first.
    pub fn order(&self, cells: u16) -> Vec<u16> {
        let mut places = vec![0; cells.into()];
        let (array, partition, tick) = self.named;
        self.key.order(array, partition, tick, &mut places);
        if self.is_first {
            places.sort_unstable();
        }
        places
    }

    /// One of so many, when so many were drawn before.
    fn one(&self, nth: u16, of: u16) -> u32 {
        if self.is_first { 0 } else { self.stream(nth).below(of.into()) }
    }

    /// So many of `of`, all at once; all if there are no more.
    fn some(&self, nth: u16, mut of: Vec<u16>, most: usize) -> Vec<u16> {
        let (mut stream, len) = (self.stream(nth), of.len());
        for at in 0..if self.is_first { 0 } else { most.min(len) } {
            of.swap(at, at + stream.below((len - at) as u32) as usize);
        }
        of.truncate(most);
        of
    }

    fn stream(&self, nth: u16) -> Stream {
        let (array, partition, tick) = self.named;
        self.key.draws(array, partition, tick, nth)
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Level {
    /// The version of its chunk: its generation.
    pub version: u64,
    /// In the order of places. Among them may be some that have left.
    list: Arc<[u32]>,
    /// The cells of those in the list.
    listed: Marks,
    unread: Marks,
    /// Cells of blocks of the level that were read nevertheless: they stood in for dummies.
    kept: Vec<u16>,
    /// Blocks of the level whose cells are unread, and dummies that are.
    unread_live: u16,
    unread_dummies: u16,
    /// Cells that were drawn.
    pub drawn: u16,
    /// Cells read by accesses before it was due.
    pub asked: u16,
    /// Once it is due and was asked: what its quota lacks.
    pub left: Option<u16>,
    /// What was read of its quota.
    pub due_reads: Vec<DueRead>,
}

impl Level {
    /// A level just written: `plan` by rank, [`HOLE`] for those that left it, whose cells are
    /// those of `places`.
    pub fn new(version: u64, plan: &[u32], places: &[u16]) -> Self {
        let cells = places.len();
        let mut laid: Vec<(u16, u32)> = places.iter().copied().zip(plan.iter().copied()).collect();
        laid.retain(|(_, block)| *block != HOLE);
        laid.sort_unstable();
        let mut unread = Marks::none(cells);
        (0..cells as u32).for_each(|place| unread.set(place));
        Self::saved(version, laid.into_iter(), unread, cells)
    }

    /// One of a checkpoint: the blocks of the level by place, and the cells that are unread. Of
    /// what was asked of it nothing is known yet.
    pub fn saved(
        version: u64,
        laid: impl ExactSizeIterator<Item = (u16, u32)>,
        unread: Marks,
        cells: usize,
    ) -> Self {
        let (mut listed, mut kept, blocks) = (Marks::none(cells), Vec::new(), laid.len() as u16);
        let note = |(place, block): (u16, u32)| {
            listed.set(place.into());
            kept.extend((!unread.has(place.into())).then_some(place));
            block
        };
        let list = laid.map(note).collect();
        let unread_live = blocks - kept.len() as u16;
        let unread_dummies = unread.count() as u16 - unread_live;
        Self {
            version,
            list,
            listed,
            unread,
            kept,
            unread_live,
            unread_dummies,
            drawn: 0,
            asked: 0,
            left: None,
            due_reads: Vec::new(),
        }
    }

    /// The cell for an access to a level that is not due: `wanted` if it is here and unread, else
    /// a dummy.
    ///
    /// # Errors
    /// [`Error::Bug`] if `dummies` accesses have been here: it should have been due.
    pub fn take_for_access(
        &mut self,
        wanted: Option<Taken>,
        dummies: u16,
        draws: &Draws<'_>,
    ) -> Result<Taken> {
        if self.asked >= dummies {
            return Err(Error::Bug("a level that is not due has no dummy left".into()));
        }
        self.asked += 1;
        match wanted.filter(|wanted| self.is_unread(wanted.place)) {
            Some(wanted) => Ok(self.take_live(wanted)),
            None => self.take_dummy(draws),
        }
    }

    /// The early cell for an access to a level that is due: one of the `quota` that its job would
    /// read. `None` if there is none left.
    ///
    /// # Errors
    /// [`Error::Bug`] if the quota cannot be met.
    pub fn take_early(
        &mut self,
        wanted: Option<Taken>,
        quota: u16,
        draws: &Draws<'_>,
    ) -> Result<Option<Taken>> {
        let left = *self.left.get_or_insert(quota);
        self.left = Some(left.saturating_sub(1));
        let taken = match wanted.filter(|wanted| self.is_unread(wanted.place)) {
            _ if left == 0 => None,
            Some(wanted) => Some(self.take_live(wanted)),
            // What is left is all live: one of those fills in, for the job.
            None if left <= self.unread_live => self.take_any_live(draws),
            None => Some(self.take_dummy(draws)?),
        };
        let read = taken.map(|taken| DueRead { place: taken.place, has_left: false });
        self.due_reads.extend(read);
        Ok(taken)
    }

    /// The rest of the `quota`, for a job: every unread live cell, then dummies. Its blocks are
    /// those of the job from now on.
    ///
    /// # Errors
    /// [`Error::Bug`] if it cannot be met.
    pub fn take_rest(&mut self, quota: u16, draws: &Draws<'_>) -> Result<Vec<Taken>> {
        let left = self.left.replace(0).unwrap_or(quota);
        if self.unread_live > left {
            return Err(Error::Bug("a level has more live blocks than its quota".into()));
        }
        let mut taken = Vec::with_capacity(left.into());
        let unread = self.laid().filter(|(place, _)| self.is_unread(*place));
        taken.extend(unread.map(|(place, block)| Taken { place, block: Some(block) }));
        taken.iter().for_each(|taken| self.unread.clear(taken.place.into()));
        self.unread_live = 0;
        (self.list, self.listed, self.kept) = (Arc::default(), self.none(), Vec::new());
        // Those that are drawn last: nobody draws a cell of a source.
        let wanted = usize::from(left) - taken.len();
        let dummies = draws.some(self.drawn, self.unread_dummies(), wanted);
        if dummies.len() < wanted {
            return Err(none_left());
        }
        self.unread_dummies -= wanted as u16;
        self.drawn += wanted as u16;
        dummies.iter().for_each(|place| self.unread.clear((*place).into()));
        taken.extend(dummies.into_iter().map(|place| Taken { place, block: None }));
        let reads = taken.iter().map(|taken| DueRead { place: taken.place, has_left: false });
        self.due_reads.extend(reads);
        Ok(taken)
    }

    /// The places of dummies that are unread: with those just `taken`, all that might have been.
    pub fn dummies_before(&self, taken: &[Taken]) -> Vec<u16> {
        let dummies = taken.iter().filter(|taken| taken.block.is_none());
        dummies.map(|taken| taken.place).chain(self.unread_dummies()).collect()
    }

    fn unread_dummies(&self) -> Vec<u16> {
        let unread = self.unread.iter().filter(|place| !self.listed.has(*place));
        unread.map(|place| place as u16).collect()
    }

    /// The block of this cell has left the level; the cell has been taken before.
    ///
    /// # Errors
    /// [`Error::Bug`] if it has not.
    pub fn forget(&mut self, place: u16) -> Result<()> {
        let at = self.kept.iter().position(|kept| *kept == place);
        self.kept
            .swap_remove(at.ok_or_else(|| Error::Bug("a block left its level unread".into()))?);
        let read = self.due_reads.iter_mut().find(|read| read.place == place);
        read.into_iter().for_each(|read| read.has_left = true);
        let blocks = usize::from(self.unread_live) + self.kept.len();
        if (self.list.len() - blocks) * GONE_PART > self.list.len() {
            let laid: Vec<(u16, u32)> = self.laid().collect();
            self.list = laid.iter().map(|(_, block)| *block).collect();
            self.listed = self.none();
            laid.iter().for_each(|(place, _)| self.listed.set((*place).into()));
        }
        Ok(())
    }

    /// The cell of `block`, if it is one of the level. All of the list is looked through, wherever
    /// the block is: how long that takes is not to tell.
    pub fn find(&self, block: u32) -> Option<Taken> {
        let is_in = |some: &[u32]| some.iter().fold(false, |is_in, id| is_in | (*id == block));
        let chunks = (0..).step_by(COMPARED).zip(self.list.chunks(COMPARED));
        let chunk =
            chunks.fold(None, |found, (at, some)| if is_in(some) { Some(at) } else { found })?;
        let at = chunk + self.list.get(chunk..)?.iter().position(|id| *id == block)?;
        let place = self.listed.nth(at as u32)? as u16;
        self.is_here(place).then_some(Taken { place, block: Some(block) })
    }

    /// What was read of its quota, and what recovery wants of that: the block of a live cell; of a
    /// source of a job, whose blocks are the job's now, any; nothing of cells whose block has left.
    pub fn lacking(&self, is_source: bool) -> Vec<Taken> {
        let held: Vec<(u16, u32)> =
            self.laid().filter(|(place, _)| !self.is_unread(*place)).collect();
        let block = |place: u16| {
            let at = held.binary_search_by_key(&place, |(place, _)| *place).ok()?;
            Some(held[at].1)
        };
        let wanted = |read: &DueRead| match (read.has_left, is_source) {
            (true, _) => None,
            (false, true) => Some(ANY),
            (false, false) => block(read.place),
        };
        self.due_reads.iter().map(|read| Taken { place: read.place, block: wanted(read) }).collect()
    }

    /// Its blocks with their places, in the order of these.
    pub fn laid(&self) -> impl Iterator<Item = (u16, u32)> {
        let listed = self.listed.iter().map(|place| place as u16).zip(self.list.iter().copied());
        listed.filter(|(place, _)| self.is_here(*place))
    }

    /// The same without places, of a level that no block has left: a long list, gone through fast.
    pub fn list(&self) -> &[u32] {
        &self.list
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        usize::from(self.unread_live) + self.kept.len()
    }

    /// The cells that nobody has read.
    pub fn unread(&self) -> &Marks {
        &self.unread
    }

    /// A dummy that was taken is to be taken once more. Nobody wants that, but a canary.
    pub fn keep_dummy(&mut self, place: u16) {
        self.unread.set(place.into());
        self.unread_dummies += 1;
        self.drawn -= 1;
    }

    fn none(&self) -> Marks {
        Marks::of(vec![0; self.unread.words().len()])
    }

    fn is_unread(&self, place: u16) -> bool {
        self.unread.has(place.into())
    }

    /// Whether the block of a cell that is listed has not left.
    fn is_here(&self, place: u16) -> bool {
        self.is_unread(place) || self.kept.contains(&place)
    }

    fn take_live(&mut self, taken: Taken) -> Taken {
        self.unread.clear(taken.place.into());
        self.unread_live -= 1;
        self.kept.push(taken.place);
        taken
    }

    fn take_any_live(&mut self, draws: &Draws<'_>) -> Option<Taken> {
        let drawn = draws.one(self.drawn, self.unread_live);
        self.drawn += 1;
        let mut unread = self.laid().filter(|(place, _)| self.is_unread(*place));
        let (place, block) = unread.nth(drawn as usize)?;
        drop(unread);
        Some(self.take_live(Taken { place, block: Some(block) }))
    }

    fn take_dummy(&mut self, draws: &Draws<'_>) -> Result<Taken> {
        self.unread_dummies = self.unread_dummies.checked_sub(1).ok_or_else(none_left)?;
        let drawn = draws.one(self.drawn, self.unread_dummies + 1);
        self.drawn += 1;
        let place = self.unread.nth_without(&self.listed, drawn).ok_or_else(none_left)?;
        self.unread.clear(place);
        Ok(Taken { place: place as u16, block: None })
    }
}

fn none_left() -> Error {
    Error::Bug("a level has no unread dummy left".into())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use fogbank_seal::{MasterKey, Salt, StoreId};

    use super::*;
    use crate::geometry::version;

    fn keys() -> KeyRing {
        let master = MasterKey::from_bytes(&mut [7; 32]);
        KeyRing::derive(&master, StoreId([1; 16]), &[Salt([2; 16])]).unwrap()
    }

    fn draws(keys: &KeyRing, until: u64) -> Draws<'_> {
        let named = (3, 2, version(keys.current().0, until));
        Draws::of((keys, &Canary::default()), named).unwrap()
    }

    fn level(draws: &Draws<'_>, cells: u16, plan: &[u32]) -> Level {
        Level::new(1, plan, &draws.order(cells))
    }

    #[test]
    fn an_access_takes_its_block_or_a_dummy() {
        let keys = keys();
        let draws = draws(&keys, 1);
        // Room for four; the second has left its plan, so its cell is a dummy.
        let mut level = level(&draws, 8, &[10, HOLE, 12]);
        assert_eq!(level.find(HOLE), None);
        let mut taken = Vec::new();
        for wanted in [None, level.find(12), level.find(12), None] {
            taken.push(level.take_for_access(wanted, 4, &draws).unwrap());
        }
        let places: BTreeSet<u16> = taken.iter().map(|taken| taken.place).collect();
        let blocks: Vec<_> = taken.iter().map(|taken| taken.block).collect();
        assert_eq!((places.len(), blocks), (4, vec![None, Some(12), None, None]));
        assert!(level.take_for_access(None, 4, &draws).is_err());
        level.forget(taken[1].place).unwrap();
        let unread = level.find(10).unwrap().place;
        assert!(level.forget(unread).is_err() && level.forget(taken[1].place).is_err());
        assert_eq!((level.find(12), level.blocks()), (None, 1));
        assert!(level.laid().eq([(unread, 10)]));
    }

    /// Early cells and the job's come to the quota, whatever is live; every live one is among them.
    #[test]
    fn a_due_level_gives_its_quota() {
        let keys = keys();
        for (until, (live, wanted)) in (1..).zip([(0, 0), (1, 1), (3, 0), (3, 2), (4, 4)]) {
            let draws = draws(&keys, until);
            let mut level = level(&draws, 8, &(0..live).collect::<Vec<_>>());
            let mut taken = Vec::new();
            taken.push(level.take_for_access(None, 4, &draws).unwrap());
            for block in 0..wanted {
                taken.extend(level.take_early(level.find(block), 4, &draws).unwrap());
            }
            taken.extend(level.take_early(None, 4, &draws).unwrap());
            let early = taken.len() - 1;
            taken.extend(level.take_rest(4, &draws).unwrap());
            assert_eq!((taken.len() - 1, level.left), (4, Some(0)), "{live} {wanted} {early}");
            assert_eq!(level.take_early(None, 4, &draws).unwrap(), None);
            let places: BTreeSet<u16> = taken.iter().map(|taken| taken.place).collect();
            assert_eq!(places.len(), 5, "no cell twice");
            let blocks = taken.iter().filter(|taken| taken.block.is_some()).count();
            assert_eq!((blocks, level.due_reads.len()), (live as usize, 4));
        }
    }

    /// The list is made anew when an eighth has left, and nothing is lost by it.
    #[test]
    fn what_has_left_takes_no_room() {
        let keys = keys();
        let draws = draws(&keys, 1);
        let plan: Vec<u32> = (100..164).collect();
        let mut level = level(&draws, 128, &plan);
        let places: BTreeMap<u32, u16> =
            level.laid().map(|(place, block)| (block, place)).collect();
        for (left, block) in (1..).zip(plan.iter().copied()) {
            let taken = level.take_for_access(level.find(block), 64, &draws).unwrap();
            assert_eq!(taken, Taken { place: places[&block], block: Some(block) });
            level.forget(taken.place).unwrap();
            let (has, listed) = (level.blocks(), level.list.len());
            assert_eq!(has, plan.len() - left);
            assert!((listed - has) * GONE_PART <= listed, "{has} of {listed}");
            let found = plan.iter().filter(|block| level.find(**block).is_some());
            assert!(found.eq(&plan[left..]), "{left}");
        }
    }

    /// Whatever is taken is uniform: the cell of a block, a dummy, what stands in for a dummy, and
    /// what a job takes of dummies. Chi-square over eight cells, one in 10^9.
    #[test]
    fn every_cell_is_taken_as_often() {
        const LEVELS: u64 = 4_000;
        let keys = keys();
        let mut counts = [[0_u64; 8]; 4];
        for until in 0..LEVELS {
            let draws = draws(&keys, until);
            let mut of = level(&draws, 8, &[10, 11, 12]);
            let wanted = of.take_for_access(of.find(10), 4, &draws).unwrap();
            let dummy = of.take_for_access(None, 4, &draws).unwrap();
            let mut full = level(&draws, 8, &[10, 11, 12, 13]);
            let stands_in = full.take_early(None, 4, &draws).unwrap().unwrap();
            let rest = of.take_rest(4, &draws).unwrap();
            let drawn = rest.iter().find(|taken| taken.block.is_none()).unwrap();
            for (counts, taken) in counts.iter_mut().zip([&wanted, &dummy, &stands_in, drawn]) {
                counts[usize::from(taken.place)] += 1;
            }
        }
        let excess = |counts: &[u64; 8]| {
            let each = LEVELS as f64 / 8.0;
            let sum: f64 = counts.iter().map(|count| (*count as f64 - each).powi(2) / each).sum();
            (sum - 7.0) / 14.0_f64.sqrt()
        };
        for counts in counts {
            assert!(excess(&counts) < 10.0, "{counts:?}");
        }
        // The canary: what is first is taken.
        let mut counts = [0; 8];
        for until in 0..LEVELS {
            let draws = Draws { is_first: true, ..draws(&keys, until) };
            let mut level = level(&draws, 8, &[10, 11, 12]);
            counts[usize::from(level.take_for_access(None, 4, &draws).unwrap().place)] += 1;
        }
        assert!(excess(&counts) > 10.0);
    }

    /// One that is saved and made again takes the same cells.
    #[test]
    fn a_level_of_a_checkpoint_goes_on_as_it_was() {
        let keys = keys();
        let draws = draws(&keys, 1);
        let mut level = level(&draws, 16, &(0..8).collect::<Vec<_>>());
        for block in [Some(3), None, Some(5)] {
            let taken =
                level.take_for_access(block.and_then(|b| level.find(b)), 8, &draws).unwrap();
            if block == Some(3) {
                level.forget(taken.place).unwrap();
            }
        }
        let laid: Vec<_> = level.laid().collect();
        let mut again = Level::saved(1, laid.into_iter(), level.unread().clone(), 16);
        (again.drawn, again.asked) = (level.drawn, level.asked);
        for block in [None, Some(5), Some(3), Some(0), None] {
            let taken = [&mut level, &mut again].map(|level| {
                let wanted = block.and_then(|block| level.find(block));
                level.take_for_access(wanted, 8, &draws).unwrap()
            });
            assert_eq!(taken[0], taken[1], "{block:?}");
        }
        assert_eq!(level.take_rest(8, &draws), again.take_rest(8, &draws));
    }
}
