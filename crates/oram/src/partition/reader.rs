//! An access is cut: which partition it shows, and which cells of it.
//!
//! - Of a level that is not due: the block's cell if it is there, else the next dummy.
//! - Of a level that is due, that no job reads and whose quota is not met: the block's cell if it
//!   is there and unread; else a dummy, or a live one if only those are left. This is an *early
//!   cell*.
//! - Of a level whose quota is met, or that a job reads: none.
//!
//! A block that is under way is shown by none: such an access is a *duplicate* and shows a
//! partition drawn for it alone. What is done is the same either way, so nothing shows which
//! accesses are.
//!
//! Protocol, section 4; ObliviStore, section 4.2 (ReadPartition).

use super::level::{Draws, HOLE, Taken};
use super::plane::{Cell, PartitionPlane, UnderWay, not_filled};
use crate::immediate::sequencer::Number;
use crate::position::Home;
use crate::{Access, Error, Result};

/// An access as it goes into a record and into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPart {
    /// Its number.
    pub number: Number,
    /// The block, if anybody asked for one.
    pub block: Option<u32>,
    /// What to do with it.
    pub access: Access,
    /// Whether its block was under way, so that its partition was drawn.
    pub is_duplicate: bool,
    /// The partition that it shows.
    pub partition: u32,
    /// The partition to which the block goes if no later access asks for it before it ends.
    pub to: u32,
    /// What it reads.
    pub cells: Vec<Cell>,
    /// The other partition to which it gives an order, if it gives two.
    pub also: Option<u32>,
}

impl PartitionPlane {
    /// Cuts the access of the next number, for `block` or for nobody.
    ///
    /// # Errors
    /// [`Error::Bug`] if an invariant does not hold.
    pub fn cut_access(&mut self, block: Option<u32>, access: Access) -> Result<AccessPart> {
        let is_own = block.is_some_and(|block| !self.waiting.contains_key(&block));
        let (mut decoy, to) = (self.draw_decoy(), self.draw_partition());
        if let Some(block) = block.filter(|_| self.canary.shows_twice()) {
            decoy = self.positions[block as usize].into();
        }
        self.cut_drawn(block, access, ((!is_own).then_some(decoy), to))
    }

    /// The same for what was drawn: the partition shown if it is not the block's own, and the one
    /// to go to. Drawn now, or in the life that a journal tells of; there a block that was under
    /// way may have ended by now, and is in a stash.
    pub(super) fn cut_drawn(
        &mut self,
        block: Option<u32>,
        access: Access,
        (decoy, to): (Option<u32>, u32),
    ) -> Result<AccessPart> {
        // 1. Its partition: the block's own, or one drawn for it.
        let held = block.filter(|block| !self.waiting.contains_key(block));
        let held = held.map(|block| (block, self.home(block)));
        let own = held.map(|(_, (partition, _))| partition);
        let partition =
            decoy.or(own).ok_or_else(|| Error::Bug("an access has no partition".into()))?;
        // 2. One cell of every filled level, by the table; the block leaves whatever it is in.
        let home = held.filter(|_| decoy.is_none()).and_then(|(_, (_, home))| home);
        if held.is_none() {
            // As much is looked through for a duplicate, or for nobody.
            std::hint::black_box(self.pyramids[partition as usize].find(block.unwrap_or(HOLE)));
        }
        let is_here = matches!(home, Some(Home::Stash | Home::Job { .. }));
        let cells = match is_here && self.canary.sends_nothing() {
            true => Vec::new(),
            false => self.pick(partition, (block, home))?,
        };
        if let Some((block, (partition, home))) = held {
            self.leave(block, partition, home)?;
        }
        if let Some(block) = block {
            *self.waiting.entry(block).or_insert(0) += 1;
        }
        // 3. The partition gets an order for it; every fourth access gives the next one another.
        let number = self.first + self.accesses.len() as u64;
        let awaits = self.pyramids[partition as usize].job.as_ref().map(|job| job.until);
        let also = self.give_orders(partition);
        let part = AccessPart {
            number,
            block,
            access,
            is_duplicate: block.is_some() && decoy.is_some(),
            partition,
            to,
            cells,
            also,
        };
        self.stats.accesses += 1;
        self.stats.cells_asked += part.cells.len() as u64;
        self.stats.secret.duplicates += u64::from(part.is_duplicate);
        self.accesses.push_back(UnderWay {
            block,
            access: part.access.clone(),
            partition,
            to,
            has_come: false,
            awaits,
        });
        Ok(part)
    }

    fn pick(
        &mut self,
        partition: u32,
        (block, home): (Option<u32>, Option<Home>),
    ) -> Result<Vec<Cell>> {
        let layout = self.layout;
        let pyramid = &self.pyramids[partition as usize];
        let is_late = pyramid.job.is_none() && self.canary.marks_late();
        let (given, done) = (if is_late { pyramid.done } else { pyramid.given }, pyramid.done);
        let mut cells = Vec::with_capacity(layout.levels.into());
        for level in layout.filled(done) {
            let wanted = match home {
                Some(Home::Level { level: at, rank: place }) if at == level => {
                    Some(Taken { place, block })
                }
                _ => None,
            };
            let held = self.pyramids[partition as usize].level(level).ok_or_else(not_filled)?;
            let of = (partition, level, held.version);
            let draws = Draws::of((&self.keys, &self.canary), of)?;
            let taken = match layout.is_due(level, given, done) {
                false => Some(held.take_for_access(wanted, layout.dummies(level), &draws)?),
                true => held.take_early(wanted, layout.room(level), &draws)?,
            };
            let taken = match taken {
                None if self.canary.reads_sources() => {
                    Some(held.take_for_access(None, u16::MAX, &draws)?)
                }
                taken => taken,
            };
            if let Some(dummy) = taken.filter(|t| t.block.is_none() && self.canary.keeps_dummy()) {
                held.keep_dummy(dummy.place);
            }
            cells.extend(self.cells(partition, level, taken)?);
        }
        Ok(cells)
    }

    /// `block` is under way from now on.
    fn leave(&mut self, block: u32, partition: u32, home: Option<Home>) -> Result<()> {
        let pyramid = &mut self.pyramids[partition as usize];
        match home {
            Some(Home::Level { level, rank: place }) => {
                pyramid.level(level).ok_or_else(not_filled)?.forget(place)?;
            }
            Some(Home::Stash) if pyramid.unstash(block) => {}
            Some(Home::Stash) => return Err(Error::Bug("a block is in no stash".into())),
            Some(Home::Job { level, rank }) => {
                let job = pyramid.job.as_mut();
                job.ok_or_else(|| Error::Bug("a block is in no job".into()))?.forget(level, rank);
            }
            Some(Home::UnderWay) | None => {
                return Err(Error::Bug("a block is in no partition".into()));
            }
        }
        Ok(())
    }
}
