//! What nobody needs any longer is removed, whoever has left it.
//!
//! 1. Before a client writes anything for a piece, it *claims*: it puts a name that says which
//!    table and piece, and the version of its first chunk, from which those of the others follow.
//! 2. Whoever puts superblock k goes through the claims of the levels in which tables come or go:
//!    - of a table that is not installed by then: nothing. Somebody may put what was written for
//!      it.
//!    - of one that queries touch: what its manifest does not name goes, and all that was dealt for
//!      it.
//!    - of one that no query of epoch k - 1 or later touches: all goes, and the claim itself.
//! 3. So do objects of pieces of tables that are installed, and what was kept long enough: the log,
//!    and what tables were found by.
//!
//! # Invariants
//! - Nothing goes that anybody can still need. A claim's versions are of one session's ticks, which
//!   no other has, so they are of that table and piece alone. What counts of an installed table was
//!   said once, by its manifest, which the superblock names: what that does not name is never read,
//!   whoever writes it and however late (a builder that slept, one that took over, equal plaintexts
//!   under other versions). Who builds of a table, who joins and who touches for a place of the
//!   epoch before all read tables that queries of epoch k - 1 or later touch.
//! - Whoever sweeps late, with an older k, removes less: what is installed or superseded stays so.
//! - All is found by names, so what a sweep that was cut short has left, the next of the level
//!   finds.
//!
//! What is left: of a table that is being built, what those have written who were killed meanwhile,
//! one piece each, until it is installed; and what a builder writes that slept until its claim
//! went, and is killed then.
//!
//! # What the cloud sees
//! Lists and deletes, which follow from k and from who claimed what. A claim that the cloud makes
//! up has chunks deleted that it could delete itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use fogbank_durable::shared::{Object, Site};
use fogbank_seal::Mark;
use fogbank_store::{DepartureGrid, Log};

use super::cells::{Cells, Run};
use super::listening::forget;
use super::pieces::{Piece, Pieces};
use super::schedule::{Schedule, Table};
use crate::Result;

/// What is left when superblock `number` is there.
pub struct Remains {
    pub site: Arc<Site>,
    pub cells: Arc<Cells>,
    pub log: Arc<dyn Log>,
    pub grid: DepartureGrid,
    pub schedule: Schedule,
    pub number: u64,
}

impl Remains {
    /// Removes it; and, in case that whoever had to was stopped, what went a superblock before.
    ///
    /// # Errors
    /// By blame.
    pub async fn remove(&self) -> Result<()> {
        let Self { schedule, number, .. } = *self;
        let mut levels = BTreeSet::new();
        for back in 0..2 {
            let comes = schedule.installing(number.saturating_sub(back));
            let goes = schedule.superseding(number.saturating_sub(back + 1));
            levels.extend(comes.into_iter().chain(goes).map(|table| table.level));
        }
        for level in levels {
            self.sweep(level).await?;
        }
        let kept = u64::from(self.site.parameters().kept_epochs);
        if let Some(epoch) = number.checked_sub(kept) {
            forget(&*self.log, &self.grid, schedule.first_of(epoch)).await?;
            self.site.delete(&kept_until(&schedule, epoch)).await?;
        }
        Ok(())
    }

    /// Step 2 of the module, for a level.
    async fn sweep(&self, level: u8) -> Result<()> {
        let mut gone = Vec::new();
        for object in self.site.of_builds(level).await? {
            let (Object::Claim(_, index, ..) | Object::Piece(_, index, _)) = object else {
                continue;
            };
            let table = Table { level, index };
            if !is_installed(&self.schedule, table, self.number) {
                continue;
            }
            let is_superseded = self.schedule.superseded(table) < self.number;
            if let Object::Claim(_, _, piece, version) = object {
                self.discard(table, (piece, version), is_superseded).await?;
                if !is_superseded {
                    continue;
                }
            }
            gone.push(object);
        }
        if !gone.is_empty() {
            self.site.delete(&gone).await?;
        }
        Ok(())
    }

    /// Deletes what was written by a claim, but for what the table's manifest names.
    async fn discard(
        &self,
        table: Table,
        (piece, version): (u32, u64),
        is_superseded: bool,
    ) -> Result<()> {
        let pieces = Pieces::new(&self.schedule, table);
        let Some(piece) = pieces.all().nth(piece as usize) else { return Ok(()) };
        let (first, is_dealt) = match &piece {
            Piece::Deal(_, _, first) => (*first, true),
            Piece::Fill(slots) => (slots.start, false),
            Piece::Finish => return Ok(()),
        };
        let named = match is_dealt || is_superseded {
            true => Some(Vec::new()),
            false => self.cells.named(table),
        };
        // Whoever has not read the manifest leaves it to another.
        let Some(named) = named else { return Ok(()) };
        let [_, written] = pieces.moves(&piece);
        let step = self.schedule.chunk_cells(table.level) as usize;
        let all = (0..written).step_by(step);
        let versions: Vec<u64> = all.map_while(|at| version.checked_add(at)).collect();
        let run = Run { table, is_dealt, start: Mark::default() };
        self.cells.delete(&run, first, &versions, &named).await
    }
}

/// What tables were found by that was kept until `epoch`, and until the one before.
fn kept_until(schedule: &Schedule, epoch: u64) -> Vec<Object> {
    let of_table =
        |Table { level, index }| [Object::Index(level, index), Object::Manifest(level, index)];
    let before = epoch.saturating_sub(1);
    let gone = (before..=epoch).flat_map(|epoch| schedule.superseding(epoch));
    let first = schedule.oldest_start(before.saturating_sub(1));
    let marks = (first..schedule.oldest_start(epoch)).map(Object::Marks);
    gone.flat_map(of_table).chain(marks).collect()
}

/// Whether `table` is installed by superblock `number`. It comes from a name that the cloud may
/// have made up: none that is installed by then has a larger index, and with one nothing is
/// reckoned.
fn is_installed(schedule: &Schedule, table: Table, number: u64) -> bool {
    if schedule.has_image && table == schedule.image() {
        return true;
    }
    let is_possible = u64::try_from(table.index).is_ok_and(|index| index <= number);
    is_possible && schedule.installed(table) <= number
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever had to remove something may have been stopped: the next one finds it, too.
    #[test]
    fn what_was_not_removed_at_its_epoch_is_at_the_next() {
        let schedule = Schedule::new(64, 4, 2, 4, true).unwrap();
        let all = |epochs: std::ops::RangeInclusive<u64>| {
            let all = epochs.flat_map(|epoch| kept_until(&schedule, epoch));
            all.collect::<BTreeSet<Object>>()
        };
        assert!(all(1..=200).len() > 300);
        for skipped in 2..199 {
            let others = &all(1..=skipped - 1) | &all(skipped + 1..=200);
            assert_eq!(others, all(1..=200), "without {skipped}");
        }
    }

    /// A claim's name is the cloud's to make up: an index that no table has yet is passed over,
    /// however large it is.
    #[test]
    fn a_table_that_cannot_be_is_not_gone_through() {
        let schedule = Schedule::new(64, 4, 2, 4, true).unwrap();
        for index in [9, 1 << 40, i64::MAX - 1, i64::MAX, -1, i64::MIN] {
            for level in 0..4 {
                let is_image = schedule.image() == Table { level, index };
                assert!(
                    is_image || !is_installed(&schedule, Table { level, index }, 8),
                    "{level} {index}"
                );
            }
        }
        assert!(is_installed(&schedule, schedule.image(), 1));
        let first = Table { level: 0, index: 0 };
        let installed = schedule.installed(first);
        assert!(is_installed(&schedule, first, installed));
        assert!(!is_installed(&schedule, first, installed - 1));
    }
}
