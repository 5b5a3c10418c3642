//! A level of a partition in one of its generations: which ranks are unread, and what they hold.
//!
//! Live blocks have the ranks 0, 1, .. in the order of the plan that made the level; every other
//! rank is a dummy, also one whose block left the plan before the level counted. A secret
//! permutation maps ranks to places. Cells are chosen by rank, never by place, so a cell that is
//! shown is uniform among those not shown yet.
//!
//! # Invariants
//! - No rank is taken twice.
//! - Before the level is due it gives one cell an access; from then on its quota, in all.
//! - Whatever is delayed, quota and dummies suffice: a query gives its partition an order in the
//!   same step, so at most 2^l come before the level is due (section 4 of the protocol).

use fogbank_seal::PermutationKey;

use crate::{Error, Result};

/// In a plan: a block that has left it. In a level: a dummy that is unread.
pub const HOLE: u32 = u32::MAX;
/// In a level: a block that has left it. Its cell was read.
const GONE: u32 = u32::MAX - 1;
/// In a message: whichever block the cell holds, if it holds one.
pub const ANY: u32 = u32::MAX - 2;
/// Set where the cell of a live block was read.
const READ: u32 = 1 << 31;

/// A cell that is about to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Its rank.
    pub rank: u16,
    /// The block that it holds, if it is a live one.
    pub block: Option<u32>,
}

/// What a checkpoint says of a level beside its live blocks. Bits are of ranks.
#[derive(Debug, Clone, Default)]
pub struct Saved {
    /// Ranks that may be live.
    pub live: u16,
    pub next_dummy: u16,
    /// That at which it fell due.
    pub first_dummy: u16,
    pub asked: u16,
    /// What its quota lacks, if it is due and was asked.
    pub left: Option<u16>,
    /// Those whose block has left.
    pub gone: Vec<u8>,
    /// Those read since it is due.
    pub due_reads: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub struct Level {
    /// The version of its chunk: its generation.
    pub version: u64,
    /// By rank: the block, with [`READ`] once its cell was read; [`HOLE`] or [`GONE`]. Ranks beyond
    /// are dummies.
    live: Vec<u32>,
    unread_live: u16,
    /// Where to look for the next unread live cell.
    next_live: u16,
    /// Where to look for the next unread dummy. Ranks below are taken or live.
    pub next_dummy: u16,
    cells: u16,
    /// Cells read by accesses before it was due.
    pub asked: u16,
    /// Once it is due: what its quota lacks.
    pub left: Option<u16>,
    /// What was read of its quota, and the next dummy when that began.
    due_reads: Vec<u16>,
    first_dummy: u16,
    places: Option<Box<[u16]>>,
}

impl Level {
    /// A level just written: `live` by rank, [`HOLE`] for those that left the plan.
    pub fn new(version: u64, cells: u16, live: Vec<u32>) -> Self {
        let unread_live = live.iter().filter(|block| **block != HOLE).count() as u16;
        Self {
            version,
            live,
            unread_live,
            next_live: 0,
            next_dummy: 0,
            cells,
            asked: 0,
            left: None,
            due_reads: Vec::new(),
            first_dummy: 0,
            places: None,
        }
    }

    /// The cell for an access to a level that is not due: `wanted` if it is here and unread, else
    /// the next dummy.
    ///
    /// # Errors
    /// [`Error::Bug`] if `dummies` accesses have been here: it should have been due.
    pub fn take_for_access(&mut self, wanted: Option<u16>, dummies: u16) -> Result<Taken> {
        if self.asked >= dummies {
            return Err(Error::Bug("a level that is not due has no dummy left".into()));
        }
        self.asked += 1;
        match wanted.filter(|rank| self.is_unread(*rank)) {
            Some(rank) => Ok(self.take_live(rank)),
            None => self.take_dummy(),
        }
    }

    /// The early cell for an access to a level that is due: one of the `quota` that its job would
    /// read. `None` if there is none left.
    ///
    /// # Errors
    /// [`Error::Bug`] if the quota cannot be met.
    pub fn take_early(&mut self, wanted: Option<u16>, quota: u16) -> Result<Option<Taken>> {
        let left = self.is_due(quota);
        self.left = Some(left.saturating_sub(1));
        let taken = match wanted.filter(|rank| self.is_unread(*rank)) {
            _ if left == 0 => None,
            Some(rank) => Some(self.take_live(rank)),
            // What is left is all live: one of those fills in, for the job.
            None if left <= self.unread_live => self.take_next_live(),
            None => Some(self.take_dummy()?),
        };
        self.due_reads.extend(taken.map(|taken| taken.rank));
        Ok(taken)
    }

    /// It is due: what its quota lacks.
    fn is_due(&mut self, quota: u16) -> u16 {
        if self.left.is_none() {
            self.first_dummy = self.next_dummy;
        }
        *self.left.get_or_insert(quota)
    }

    /// The rest of the `quota`, for a job: every unread live cell, then dummies.
    ///
    /// # Errors
    /// [`Error::Bug`] if it cannot be met.
    pub fn take_rest(&mut self, quota: u16) -> Result<Vec<Taken>> {
        let left = self.is_due(quota);
        self.left = Some(0);
        let mut taken = Vec::with_capacity(left.into());
        while let Some(live) = self.take_next_live() {
            taken.push(live);
        }
        if taken.len() > left.into() {
            return Err(Error::Bug("a level has more live blocks than its quota".into()));
        }
        while taken.len() < left.into() {
            taken.push(self.take_dummy()?);
        }
        self.due_reads.extend(taken.iter().map(|taken| taken.rank));
        Ok(taken)
    }

    /// Dummies that are unread: with those just `taken`, all that might have been.
    pub fn dummies_before<'a>(&'a self, taken: &'a [Taken]) -> impl Iterator<Item = u16> + 'a {
        let is_dummy =
            |rank: &u16| self.live.get(usize::from(*rank)).is_none_or(|slot| *slot == HOLE);
        let dummies = taken.iter().filter(|taken| taken.block.is_none());
        dummies.map(|taken| taken.rank).chain((self.next_dummy..self.cells).filter(is_dummy))
    }

    /// The block of `rank` has left the level; its cell has been taken before.
    ///
    /// # Errors
    /// [`Error::Bug`] if it has not.
    pub fn forget(&mut self, rank: u16) -> Result<()> {
        match self.live.get_mut(usize::from(rank)) {
            Some(slot) if *slot & READ != 0 && *slot < GONE => *slot = GONE,
            _ => return Err(Error::Bug("a block left its level unread".into())),
        }
        Ok(())
    }

    /// One of a checkpoint: `live` by rank, [`HOLE`] for those that hold no block of the level now.
    pub fn saved(version: u64, cells: u16, mut live: Vec<u32>, saved: &Saved) -> Self {
        let &Saved { next_dummy, first_dummy, asked, left, .. } = saved;
        let mut due_reads = Vec::new();
        for (rank, slot) in live.iter_mut().enumerate() {
            let is_read = has(&saved.due_reads, rank);
            match *slot {
                HOLE if has(&saved.gone, rank) => *slot = GONE,
                HOLE => {}
                _ if is_read => *slot |= READ,
                _ => {}
            }
            due_reads.extend(is_read.then_some(rank as u16));
        }
        if left.is_some() {
            due_reads.extend((live.len() as u16).max(first_dummy)..next_dummy);
        }
        let unread_live = live.iter().filter(|slot| **slot & READ == 0).count() as u16;
        let level = Self::new(version, cells, live);
        Self { unread_live, next_dummy, first_dummy, asked, left, due_reads, ..level }
    }

    /// What a checkpoint says of it beside its live blocks: bits of the ranks up to `room`.
    pub fn save(&self, room: u16) -> Saved {
        let bytes = usize::from(room).div_ceil(8);
        let (mut gone, mut due_reads) = (vec![0u8; bytes], vec![0u8; bytes]);
        let set = |bits: &mut [u8], rank: usize| bits[rank / 8] |= 1 << (rank % 8);
        let ranks = 0..self.live.len();
        ranks.filter(|rank| self.live[*rank] == GONE).for_each(|rank| set(&mut gone, rank));
        let read = self.due_reads.iter().map(|rank| usize::from(*rank));
        read.filter(|rank| *rank < self.live.len()).for_each(|rank| set(&mut due_reads, rank));
        let &Self { next_dummy, first_dummy, asked, left, .. } = self;
        let live = self.live.len() as u16;
        Saved { live, next_dummy, first_dummy, asked, left, gone, due_reads }
    }

    /// What was read of its quota, and what recovery wants of that: the block of a live cell; of a
    /// source of a job, whose blocks are the job's now, any; nothing of cells whose block has left.
    pub fn due_reads(&self, is_source: bool) -> impl Iterator<Item = Taken> {
        self.due_reads.iter().map(move |rank| {
            let block = match self.live.get(usize::from(*rank)) {
                None | Some(&GONE) => None,
                Some(&HOLE) => is_source.then_some(ANY),
                Some(slot) => Some(slot & !READ),
            };
            Taken { rank: *rank, block }
        })
    }

    /// The blocks that it holds, by rank.
    pub fn blocks(&self) -> impl Iterator<Item = u32> {
        self.live.iter().filter(|block| **block < GONE).map(|block| block & !READ)
    }

    /// The place of `rank`, under the key of the opening that made the level.
    pub fn place(&mut self, rank: u16, key: &PermutationKey, (array, chunk, tick): Named) -> u16 {
        let places = self.places.get_or_insert_with(|| {
            let mut places = vec![0; usize::from(self.cells)].into_boxed_slice();
            key.order(array, chunk, tick, &mut places);
            places
        });
        places[usize::from(rank)]
    }

    fn is_unread(&self, rank: u16) -> bool {
        self.live.get(usize::from(rank)).is_some_and(|slot| slot & READ == 0)
    }

    fn take_live(&mut self, rank: u16) -> Taken {
        let slot = &mut self.live[usize::from(rank)];
        let block = *slot;
        *slot |= READ;
        self.unread_live -= 1;
        Taken { rank, block: Some(block) }
    }

    fn take_next_live(&mut self) -> Option<Taken> {
        let from = usize::from(self.next_live);
        let found = self.live.iter().skip(from).position(|slot| slot & READ == 0);
        self.next_live = found.map_or(self.live.len(), |at| from + at) as u16;
        found.map(|_| self.take_live(self.next_live))
    }

    fn take_dummy(&mut self) -> Result<Taken> {
        let from = usize::from(self.next_dummy);
        let hole = self.live.iter().skip(from).position(|slot| *slot == HOLE);
        let rank = hole.map_or(self.live.len().max(from), |at| from + at) as u16;
        if rank >= self.cells {
            return Err(Error::Bug("a level has no unread dummy left".into()));
        }
        self.next_dummy = rank + 1;
        Ok(Taken { rank, block: None })
    }
}

fn has(bits: &[u8], rank: usize) -> bool {
    bits.get(rank / 8).is_some_and(|byte| byte >> (rank % 8) & 1 == 1)
}

/// The array, the chunk and the tick by which a place is named in nonces and permutations.
pub type Named = (u8, u32, u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(taken: &[Taken]) -> Vec<u16> {
        taken.iter().map(|taken| taken.rank).collect()
    }

    #[test]
    fn an_access_takes_its_block_or_the_next_dummy() {
        // Room for four; the second has left its plan, so its cell is a dummy.
        let mut level = Level::new(1, 8, vec![10, HOLE, 12]);
        let mut taken = Vec::new();
        for wanted in [None, Some(2), Some(2), None] {
            taken.push(level.take_for_access(wanted, 4).unwrap());
        }
        assert_eq!(ranks(&taken), [1, 2, 3, 4]);
        assert_eq!(taken[1].block, Some(12));
        assert!(level.take_for_access(None, 4).is_err());
        level.forget(2).unwrap();
        assert!(level.forget(0).is_err() && level.forget(2).is_err());
        assert_eq!(level.blocks().collect::<Vec<_>>(), [10]);
    }

    /// Early cells and the job's come to the quota, whatever is live; every live one is among them.
    #[test]
    fn a_due_level_gives_its_quota() {
        for (live, wanted) in [(0, 0), (1, 1), (3, 0), (3, 2), (4, 4)] {
            let mut level = Level::new(1, 8, (0..live).collect());
            let mut taken = Vec::new();
            taken.push(level.take_for_access(None, 4).unwrap());
            for rank in 0..wanted {
                taken.extend(level.take_early(Some(rank), 4).unwrap());
            }
            taken.extend(level.take_early(None, 4).unwrap());
            let early = taken.len() - 1;
            taken.extend(level.take_rest(4).unwrap());
            assert_eq!((taken.len() - 1, level.left), (4, Some(0)), "{live} {wanted} {early}");
            assert_eq!(level.take_early(None, 4).unwrap(), None);
            let mut ranks = ranks(&taken);
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), 5, "no rank twice");
            let blocks = taken.iter().filter(|taken| taken.block.is_some()).count();
            assert_eq!(blocks, live as usize);
        }
    }
}
