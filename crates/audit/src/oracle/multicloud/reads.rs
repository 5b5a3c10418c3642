//! Reads: which number, which cells in which order, which of them is wanted, and the cells
//! themselves.

use super::Multicloud;
use super::partition::{Partition, count};
use super::said::{Named, Said};
use crate::oracle::fault::{Step, fault};
use crate::{Observation, Observer};

/// Reads whose messages are kept to compare them with repetitions.
const REPEATED_MAX: u64 = 4096;

/// What came of a read.
pub(super) struct Read {
    said: Said,
    print: u64,
    /// Cells that the other cloud sent for it, if any.
    blinded: Option<(usize, u64)>,
}

impl Multicloud {
    /// A read is named to this cloud, in either role.
    pub(super) fn is_read(&mut self, said: Said, print: u64, out: &mut dyn Observer) -> Step {
        let (Said::Look { read, partition, .. } | Said::Want { read, partition, .. }) = said else {
            return Ok(());
        };
        self.is_known(partition)?;
        let is_look = matches!(said, Said::Look { .. });
        self.has_role(partition, is_look)?;
        if self.is_repeated(read, &said, print)? {
            return Ok(());
        }
        self.observe_partition(read, partition, out)?;
        match &said {
            Said::Look { places, .. } => {
                self.is_new_seed(print)?;
                self.looks(partition, places, out)?;
            }
            Said::Want { cells, index, .. } => {
                self.wants((read, partition), (*cells, *index), out)?;
            }
            _ => {}
        }
        self.gives_evictions(partition);
        let blinded = self.reads.get(&read).and_then(|read| read.blinded);
        self.reads.insert(read, Read { said, print, blinded });
        self.fits_blinded(read)?;
        while self.reads.first_key_value().is_some_and(|(at, _)| at + REPEATED_MAX <= read) {
            self.reads.pop_first();
        }
        if self.had_empty {
            self.partitions.iter_mut().for_each(Partition::looks_at_itself);
            self.had_empty = self.partitions.iter().any(|of| of.was_empty);
        }
        Ok(())
    }

    /// Reads come in their order; one that came before is the same.
    fn is_repeated(&self, read: u64, said: &Said, print: u64) -> Step<bool> {
        if read >= self.next {
            return match read == self.next || self.had_empty {
                true => Ok(false),
                false => fault("read-number", self.next.to_string(), read.to_string()),
            };
        }
        match self.reads.get(&read) {
            Some(before) if before.said != *said || before.print != print => {
                fault("replay-identical", format!("{:?}", before.said), format!("{said:?}"))
            }
            _ => Ok(true),
        }
    }

    fn observe_partition(&mut self, read: u64, partition: u16, out: &mut dyn Observer) -> Step {
        for _ in self.next..read {
            self.partitions.iter_mut().for_each(Partition::may_be_given);
            self.turns();
            self.summary.accesses += 1;
        }
        self.next = read + 1;
        self.summary.accesses += 1;
        if self.had_empty {
            // A read of a partition without levels shows nothing: what is shown is not uniform.
            return self.partitions.iter_mut().try_for_each(Partition::settles);
        }
        out.observe(&Observation::Path {
            epoch: 0,
            batch: read,
            access: read,
            leaf: partition.into(),
            whole: true,
            shown: true,
            stretch: read,
        });
        Ok(())
    }

    /// One unread cell of each level that is filled; while a list is out, one of it.
    fn looks(&mut self, partition: u16, places: &[(u8, u64, u32)], out: &mut dyn Observer) -> Step {
        let (layout, of) = (&self.layout, &mut self.partitions[usize::from(partition)]);
        // From now on the level of the job, if it is named.
        let names_new = of.job.as_ref().is_some_and(|job| {
            job.is_ready && places.iter().any(|(_, written, _)| *written == job.job)
        });
        if names_new {
            of.takes_new(layout);
        }
        let mut named: Vec<Named> = places.iter().map(|(level, job, _)| (*level, *job)).collect();
        named.sort_unstable();
        let filled: Vec<Named> = of.levels.iter().map(|(level, of)| (*level, of.job)).collect();
        if named != filled {
            return fault("cell-per-level", format!("{filled:?}"), format!("{named:?}"));
        }
        let list = of.job.as_ref().filter(|job| !job.counts).and_then(|job| job.list.clone());
        for (level, job, place) in places {
            let Some(held) = of.levels.get_mut(level) else { continue };
            let listed = list.as_ref().and_then(|list| list.get(level));
            if !held.unread.contains(place) {
                return fault("cell-once", "an unread cell", format!("{level}.{job}.{place}"));
            }
            if listed.is_some_and(|listed| !listed.contains(place)) {
                return fault(
                    "cell-listed",
                    "a cell on the list",
                    format!("{level}.{job}.{place}"),
                );
            }
            let may = |cell: &&u32| listed.is_none_or(|listed| listed.contains(*cell));
            let unread = held.unread.iter().filter(may).count() as u16;
            let rank = held.unread.range(..place).filter(may).count() as u16;
            out.observe(&Observation::PathCell {
                chunk: partition.into(),
                level: *level,
                version: *job,
                nth: held.reads,
                cell: *place as u16,
                unread,
                rank,
            });
            held.unread.remove(place);
            held.reads += 1;
            self.summary.cells_read += 1;
        }
        self.observe_order(partition, places, out);
        Ok(())
    }

    /// The order in which levels are named is a draw among all orders.
    fn observe_order(&self, partition: u16, places: &[(u8, u64, u32)], out: &mut dyn Observer) {
        let (mut rank, mut all) = (0u32, 1u32);
        if places.len() > 5 {
            return; // more orders than are counted
        }
        for (at, (level, ..)) in places.iter().enumerate() {
            let before = places[..at].iter().filter(|(other, ..)| other > level).count() as u32;
            rank += before * all;
            all *= at as u32 + 1;
        }
        self.observe_draw(partition, (all, rank), out);
    }

    /// One of so many was drawn that is no cell.
    fn observe_draw(&self, partition: u16, (of, rank): (u32, u32), out: &mut dyn Observer) {
        out.observe(&Observation::PathCell {
            chunk: partition.into(),
            level: self.layout.0.levels.min(15),
            version: self.next,
            nth: 0,
            cell: rank as u16,
            unread: of as u16,
            rank: rank as u16,
        });
    }

    /// As many cells as levels are filled, or will be when the job under way counts.
    fn wants(
        &mut self,
        (read, partition): (u64, u16),
        (cells, index): (u32, u32),
        out: &mut dyn Observer,
    ) -> Step {
        let of = &self.partitions[usize::from(partition)];
        let filled = |done: u64| self.layout.filled(partition, done).len() as u32;
        let next = of.job.as_ref().filter(|job| job.is_ready).map(|job| filled(count(job.job)));
        if cells != filled(of.done) && Some(cells) != next {
            let due = format!("{} or {next:?}", filled(of.done));
            return fault("want-per-level", due, format!("{cells} of read {read}"));
        }
        if index >= cells.max(1) {
            return fault("want-index", format!("below {cells}"), index.to_string());
        }
        self.observe_draw(partition, (cells.max(1), index), out);
        Ok(())
    }

    /// The cells of a read, which may come before it is named, and again.
    pub(super) fn blinded(&mut self, read: u64, cells: &[u64], out: &mut dyn Observer) -> Step {
        let print = cells.iter().fold(0u64, |all, print| all.rotate_left(7) ^ print);
        let came = (cells.len(), print);
        let known = self.reads.get(&read).and_then(|read| read.blinded);
        if known.is_some_and(|known| known != came) {
            return fault("blinded-identical", format!("{known:?}"), format!("{came:?}"));
        }
        if known.is_some() || read.saturating_add(REPEATED_MAX) < self.next {
            return Ok(());
        }
        self.unlinkable.comes(cells)?;
        out.observe(&Observation::Image { chunk: 0, version: read, fingerprints: cells });
        match self.reads.get_mut(&read) {
            Some(of) => of.blinded = Some(came),
            None => {
                let said = Said::Reached { epoch: 0, place: 0 }; // not named yet
                self.reads.insert(read, Read { said, print: 0, blinded: Some(came) });
            }
        }
        self.fits_blinded(read)
    }

    fn fits_blinded(&self, read: u64) -> Step {
        let Some(Read { said: Said::Want { cells, .. }, blinded: Some((came, _)), .. }) =
            self.reads.get(&read)
        else {
            return Ok(());
        };
        match *cells as usize == *came {
            true => Ok(()),
            false => fault("cells-by-counters", cells.to_string(), came.to_string()),
        }
    }
}
