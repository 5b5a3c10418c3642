//! Jobs: when they fall due, what they read, and which cells a rebuild of the top lists.

use std::collections::{BTreeMap, BTreeSet};

use super::Multicloud;
use super::partition::count;
use super::said::Named;
use crate::oracle::fault::{Step, fault};
use crate::oracle::shape::below;
use crate::{Observation, Observer};

impl Multicloud {
    pub(super) fn begins(
        &mut self,
        (partition, holder): (u16, bool),
        job: u64,
        sources: &[Named],
    ) -> Step {
        self.is_known(partition)?;
        self.has_role(partition, holder)?;
        let of = &mut self.partitions[usize::from(partition)];
        of.begins(&self.layout, job)?;
        of.reads(&self.layout, (partition, holder), (job, sources))?;
        self.has_begun = true;
        Ok(())
    }

    /// A rebuild of the top that reads anything has a list, and no other job.
    pub(super) fn is_rebuild(&self, job: u64, sources: &[Named], has_list: bool) -> Step {
        let is_top = self.layout.written(count(job)) == self.layout.top();
        match (is_top && !sources.is_empty(), has_list) {
            (true, false) => fault("list-of-rebuild", "a list of cells", job.to_string()),
            (false, true) => fault("list-of-rebuild", "a job that reads all", job.to_string()),
            _ => Ok(()),
        }
    }

    /// Of each level its quota of unread cells, the same on every attempt.
    pub(super) fn lists(
        &mut self,
        (partition, job): (u16, u64),
        sources: &[Named],
        marks: &[u64],
        out: &mut dyn Observer,
    ) -> Step {
        let has = |cell: u32| {
            marks.get(cell as usize / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1)
        };
        let (mut list, mut first) = (BTreeMap::new(), 0);
        for (level, written) in sources {
            let size = self.layout.size(*level, count(*written));
            let cells: BTreeSet<u32> = (0..size).filter(|cell| has(first + cell)).collect();
            let quota = self.layout.quota(*level);
            if cells.len() as u32 != quota {
                return fault("list-quota", quota.to_string(), cells.len().to_string());
            }
            list.insert(*level, cells);
            first += size;
        }
        let of = &mut self.partitions[usize::from(partition)];
        let before = of.job("list-of-job", job)?.list.replace(list.clone());
        if let Some(before) = before {
            return match before == list {
                true => Ok(()),
                false => fault("list-same", "the list of the first attempt", job.to_string()),
            };
        }
        if is_later_attempt(job) {
            // What it was told of the first was lost, and reads on the list came since: they are
            // shown before it here.
            return Ok(());
        }
        for (level, cells) in list {
            let held = &self.partitions[usize::from(partition)].levels[&level];
            if let Some(read) = cells.iter().find(|cell| !held.unread.contains(cell)) {
                return fault("list-unread", "unread cells", format!("{level}: {read}"));
            }
            // In a random order each is uniform among those left, if the set is.
            let (mut left, mut drawn): (Vec<u32>, Vec<u32>) =
                (held.unread.iter().copied().collect(), cells.into_iter().collect());
            while !drawn.is_empty() {
                let cell = drawn.swap_remove(below(&mut self.random, drawn.len() as u32) as usize);
                let Ok(rank) = left.binary_search(&cell) else { continue };
                out.observe(&Observation::PathCell {
                    chunk: partition.into(),
                    level,
                    version: held.job,
                    nth: held.reads,
                    cell: cell as u16,
                    unread: left.len() as u16,
                    rank: rank as u16,
                });
                left.remove(rank);
            }
        }
        Ok(())
    }
}

fn is_later_attempt(job: u64) -> bool {
    job & 0xffff > 0
}
