//! What a volume in two clouds moves and takes, from its public settings alone (section 9 of the
//! protocol). Bytes between the clouds are not the client's.

use fogbank_mix::Shape;

use super::journal;
use super::settings::{MulticloudSettings, RECORDS_AT_ONCE};
use crate::immediate::Traffic;
use crate::memory::{BESIDE_A_VALUE, ProxyMemory, SEALED_PIECES_BYTES};
use crate::turn::EVICTIONS;
use crate::{ImmediateShape, Result};

/// Bytes of messages beside cells, records and places.
const LOOK_BYTES: f64 = 48.0;
const PLACE_BYTES: f64 = 13.0;
const WANT_BYTES: f64 = 24.0;
pub(super) const DIGEST_BYTES: f64 = 32.0;
pub(super) const RECORD_BYTES: f64 = 16.0;
/// What names a job: to be mixed, recalled or carried, uploaded, recorded, and committed at both.
const JOB_BYTES: f64 = 180.0;
/// A block of a checkpoint, and of memory: its position.
const POSITION_BYTES: f64 = crate::position::POSITION_BYTES as f64;
/// A block in a cell, in memory: what it is.
const ID_BYTES: f64 = 4.0;
/// Of a cell: whether it has a block, and whether it is an unread dummy.
const MARK_BYTES: f64 = 1.0 / 8.0;
/// A partition beside its levels.
const PARTITION_BYTES: f64 = 512.0;
/// Entries of an access: itself, and its result.
const ENTRIES: f64 = 2.0;
/// Accesses from one checkpoint to the next are a multiple of this.
const CHECKPOINT_STEP: u64 = 8_192;
/// The name of a record, in memory.
const NAME_BYTES: f64 = 56.0;

/// Entries of jobs an access: that each begins, and that it is done.
fn job_entries(shape: &Shape) -> f64 {
    2.0 * EVICTIONS / shape.batch() as f64
}

/// Averages over a cycle of evictions.
pub(super) struct Cycle {
    /// Filled levels.
    pub(super) levels: f64,
    /// Cells written an eviction.
    pub(super) written: f64,
    /// Cells that jobs read an eviction.
    pub(super) read: f64,
    /// Of these, what rebuilds of the top that are no refresh move between the clouds.
    pub(super) moved: f64,
    /// Cells of a partition.
    pub(super) cells: f64,
}

impl Cycle {
    pub(super) fn of(shape: &Shape) -> Self {
        let (cycle, batch, top) = (shape.cycle(), shape.batch(), shape.top());
        let (mut written, mut read, mut moved, mut filled, mut cells) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let kept = 1.0 - 1.0 / f64::from(shape.refresh_every);
        let jobs = (cycle / batch) as f64;
        // One that is full: some cycles after its first.
        let first = shape.first(0) + 2 * cycle;
        for count in (first + batch..=first + cycle).step_by(batch as usize) {
            let level = shape.written(count);
            written += f64::from(shape.size(level, count));
            for (level, by) in shape.sources(0, count) {
                let cells = if shape.written(count) == top {
                    shape.quota(level)
                } else {
                    shape.size(level, by)
                };
                read += f64::from(cells);
                if shape.written(count) == top {
                    moved += kept * f64::from(cells);
                }
            }
            for (level, by) in shape.filled(0, count) {
                filled += 1.0 / jobs;
                cells += f64::from(shape.size(level, by)) / jobs;
            }
        }
        let evictions = cycle as f64;
        let [written, read, moved] = [written, read, moved].map(|cells| cells / evictions);
        Self { levels: filled, written, read, moved, cells }
    }
}

impl MulticloudSettings {
    /// What an access moves over the client's links with both clouds together.
    ///
    /// # Errors
    /// [`crate::Error::Caller`] if there is no such volume.
    pub fn traffic(&self) -> Result<Traffic> {
        let (shape, cell) = (self.public()?, self.cell_bytes()? as f64);
        let Cycle { levels, written, read, .. } = Cycle::of(&shape);
        let refreshes = self.refresh_traffic()?;
        let up_bytes = LOOK_BYTES
            + PLACE_BYTES * levels
            + WANT_BYTES
            + EVICTIONS * (cell + JOB_BYTES / shape.batch() as f64)
            + EVICTIONS * RECORD_BYTES * written
            + refreshes.up_bytes;
        let down_bytes = cell
            + DIGEST_BYTES
            + RECORD_BYTES * levels
            + EVICTIONS * RECORD_BYTES * read
            + refreshes.down_bytes;
        Ok(Traffic { up_bytes, down_bytes })
    }

    /// The part of refreshes in it.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn refresh_traffic(&self) -> Result<Traffic> {
        let (shape, cell) = (self.public()?, self.cell_bytes()? as f64);
        let an_access = EVICTIONS / shape.refresh_cycle() as f64;
        let listed: f64 = shape.stored_levels().map(|level| f64::from(shape.quota(level))).sum();
        let up_bytes = an_access * f64::from(shape.top_blocks) * cell;
        Ok(Traffic { up_bytes, down_bytes: an_access * listed * cell })
    }

    /// How many tops an access has rebuilt on average.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn tops_an_access(&self) -> Result<f64> {
        Ok(EVICTIONS / self.public()?.cycle() as f64)
    }

    /// Cells that an access moves between the clouds: a cell of every level, levels that are
    /// written, and what rebuilds of the top move.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn cells_between(&self) -> Result<f64> {
        let Cycle { levels, written, moved, .. } = Cycle::of(&self.public()?);
        Ok(levels + EVICTIONS * (written + moved))
    }

    /// Bytes of all levels at their holders, of both clouds together; twice while jobs write anew.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn storage_bytes_max(&self) -> Result<u64> {
        let shape = self.public()?;
        let cells = f64::from(shape.partitions) * Cycle::of(&shape).cells;
        Ok((2.0 * cells * (self.cell_bytes()? as f64 + RECORD_BYTES)) as u64)
    }

    /// Bytes of the journal at most, if nothing is repeated: what came since the last checkpoint
    /// but one. An access writes what it departs with, and what it ends with. If one at a time is
    /// under way each entry has a record of its own, which is padded.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn journal_bytes(&self) -> Result<u64> {
        let shape = self.public()?;
        let alone = |bytes: usize| bytes.next_multiple_of(journal::UNIT_BYTES) as f64;
        let access: f64 = journal::access_entries_bytes(&shape).map(alone).iter().sum();
        let of_jobs = job_entries(&shape) * alone(1);
        Ok((2.0 * self.checkpoint_every as f64 * (access + of_jobs)) as u64)
    }

    /// Bytes that a recovery reads of it: once to see that it is the newest, once to replay it.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn journal_read_bytes(&self) -> Result<u64> {
        Ok(2 * self.journal_bytes()?)
    }

    /// Bytes that an access writes to the trusted disk, with its part of a checkpoint, if many are
    /// under way.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn trusted_bytes_an_access(&self) -> Result<f64> {
        let shape = self.public()?;
        let access: usize = journal::access_entries_bytes(&shape).iter().sum();
        let of_jobs = EVICTIONS * (4 + 1 + 2 + 8 + 4 + 4) as f64;
        Ok(access as f64 + of_jobs + self.checkpoint_bytes_an_access()?)
    }

    /// Bytes of checkpoints an access. A period is over when there are as many entries as accesses
    /// alone have: those of jobs count, too.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn checkpoint_bytes_an_access(&self) -> Result<f64> {
        let accesses =
            self.checkpoint_every as f64 * ENTRIES / (ENTRIES + job_entries(&self.public()?));
        Ok(self.checkpoint_bytes()? as f64 / accesses)
    }

    /// The same with checkpoints as often as is usual: as seldom as it takes for an access to write
    /// no more than a block of them, or one page of its disk if that is longer.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn with_usual_checkpoints(self) -> Result<Self> {
        let often = Self { checkpoint_every: CHECKPOINT_STEP, ..self };
        let bound = often.shape.value_bytes.max(journal::UNIT_BYTES) as f64;
        let steps = (often.checkpoint_bytes_an_access()? / bound).ceil().max(1.0);
        Ok(Self { checkpoint_every: steps as u64 * CHECKPOINT_STEP, ..often })
    }

    /// Bytes on the trusted disk at most: the journal, and a checkpoint beside the one that it is
    /// to take the place of.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn trusted_bytes_max(&self) -> Result<u64> {
        Ok(self.journal_bytes()? + 2 * self.checkpoint_bytes()?)
    }

    /// Bytes of a checkpoint at most, but for accesses under way.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn checkpoint_bytes(&self) -> Result<u64> {
        let ImmediateShape { capacity, value_bytes } = self.shape;
        let values = self.saved_blocks_max() as f64 * (4 + value_bytes) as f64;
        let flat = POSITION_BYTES * f64::from(capacity) + self.known_bytes(MARK_BYTES)?;
        Ok((values + flat + self.lists_bytes()?) as u64)
    }

    /// What the client keeps in memory.
    ///
    /// # Errors
    /// As [`MulticloudSettings::traffic`].
    pub fn memory(&self) -> Result<ProxyMemory> {
        let ImmediateShape { capacity, value_bytes } = self.shape;
        let positions = POSITION_BYTES * f64::from(capacity);
        let (held, saved) = (self.known_bytes(2.0 * MARK_BYTES)?, self.known_bytes(MARK_BYTES)?);
        let known = ID_BYTES * f64::from(capacity) + held + self.lists_bytes()?;
        let state = positions + known;
        let value = value_bytes as f64 + BESIDE_A_VALUE;
        let values = (self.saved_blocks_max() + self.at_once()?) as f64 * value;
        // Lists do not change, so they are not copied for a checkpoint.
        let checkpoint = positions + saved + SEALED_PIECES_BYTES;
        // Positions have their room when it is read; of the rest one takes the place of the other.
        let read = self.checkpoint_bytes()? as f64;
        let kept = self.saved_blocks_max() as f64 * (4 + value_bytes) as f64;
        let opening = positions + read.max(known + kept) + SEALED_PIECES_BYTES;
        // Of records no more than are read ahead, sealed and opened; their names while they are
        // listed.
        let records = 2.0 * self.checkpoint_every as f64 * (ENTRIES + job_entries(&self.public()?));
        let read = 2.0 * f64::from(RECORDS_AT_ONCE) * self.record_bytes_max()? as f64;
        let journal = read + records * NAME_BYTES;
        Ok(ProxyMemory { state, values, checkpoint, opening, journal })
    }

    /// What is known of partitions, with so many bytes a cell, but for lists.
    fn known_bytes(&self, a_cell: f64) -> Result<f64> {
        let cells = Cycle::of(&self.public()?).cells;
        Ok(f64::from(self.layout.partitions) * (cells * a_cell + PARTITION_BYTES))
    }

    /// Of each rebuild of the top since the last refresh a mark a cell that it read: half of R on
    /// average, of levels that are all filled.
    fn lists_bytes(&self) -> Result<f64> {
        let (shape, partitions) = (self.public()?, f64::from(self.layout.partitions));
        let Cycle { cells, .. } = Cycle::of(&shape);
        let lists = f64::from(shape.refresh_every) / 2.0;
        Ok(partitions * lists * (cells + shape.cycle() as f64) * MARK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the protocol: 2.53 blocks at 1e5, and 2.55 at a gigabyte of 4 KiB. A cell of 16
    /// bytes more than a block, and names of jobs, are in ours.
    #[test]
    fn an_access_moves_what_the_protocol_says() {
        for (capacity, blocks) in [(100_000, 2.53), (1 << 18, 2.55), (1_000_000, 2.54)] {
            let shape = ImmediateShape { capacity, value_bytes: 4096 };
            let settings = MulticloudSettings::new(shape, 3).unwrap();
            let Traffic { up_bytes, down_bytes } = settings.traffic().unwrap();
            let ours = (up_bytes + down_bytes) / 4096.0;
            assert!((ours / blocks - 1.0).abs() < 0.05, "{capacity}: {ours}");
        }
    }

    /// What a client of a terabyte keeps, and its trusted disk.
    #[test]
    fn a_client_of_a_terabyte_has_room() {
        let shape = ImmediateShape { capacity: 244_140_625, value_bytes: 4096 };
        let settings = MulticloudSettings::new(shape, 3).unwrap();
        let (memory, checkpoint) =
            (settings.memory().unwrap(), settings.checkpoint_bytes().unwrap());
        assert!(memory.total() < 8.6e9, "{memory:?} of {}", memory.total());
        assert!(checkpoint < 6_000_000_000, "{checkpoint}");
    }

    /// Whatever the size, an access writes no more than a block of checkpoints, or a page of the
    /// disk if that is longer, and they are no more seldom than that takes. What a recovery holds
    /// of the journal is the names of its records.
    #[test]
    fn checkpoints_cost_an_access_a_block_whatever_the_size() {
        let mut there = 0;
        for value_bytes in [512, 4096, 65_536] {
            for capacity in (12..=28).map(|bits| 1 << bits) {
                let shape = ImmediateShape { capacity, value_bytes };
                let usual = MulticloudSettings::new(shape, 3);
                let Ok(usual) = usual else { continue }; // no server takes its tops
                there += 1;
                let bound = value_bytes.max(4096) as f64;
                let of = |every| {
                    let settings = MulticloudSettings { checkpoint_every: every, ..usual.clone() };
                    settings.checkpoint_bytes_an_access().unwrap()
                };
                let every = usual.checkpoint_every;
                assert!(of(every) <= bound, "{capacity}: {}", of(every));
                let is_least = every == CHECKPOINT_STEP;
                assert!(is_least || of(every - CHECKPOINT_STEP) > bound, "{capacity}: {every}");
                let (memory, journal) = (usual.memory().unwrap(), usual.journal_bytes().unwrap());
                let names = 2.0 * every as f64 * 3.0 * NAME_BYTES;
                assert!(memory.journal < names + 2e7 + 16.0 * value_bytes as f64, "{memory:?}");
                // Of a journal as of checkpoints: it is not longer than some of those.
                let checkpoints = 20.0 * usual.checkpoint_bytes().unwrap() as f64;
                assert!(is_least || (journal as f64) < checkpoints, "{capacity}: {journal}");
            }
        }
        assert!(there > 40, "{there}");
    }

    /// Whatever the size, an access moves less than 2.75 blocks.
    #[test]
    fn an_access_moves_as_much_whatever_the_size() {
        for capacity in (12..=28).map(|bits| 1 << bits) {
            let shape = ImmediateShape { capacity, value_bytes: 4096 };
            let Traffic { up_bytes, down_bytes } =
                MulticloudSettings::new(shape, 3).unwrap().traffic().unwrap();
            let blocks = (up_bytes + down_bytes) / 4096.0;
            assert!((2.4..2.75).contains(&blocks), "{capacity}: {blocks}");
        }
    }

    /// The same table, between the clouds; the last column is what e = 8 adds.
    #[test]
    fn the_clouds_move_what_the_protocol_says() {
        for (capacity, cells) in [(100_000, 17.6), (1 << 18, 18.4), (1_000_000, 19.3)] {
            let shape = ImmediateShape { capacity, value_bytes: 4096 };
            let settings = MulticloudSettings::new(shape, 3).unwrap();
            for (extra, adds) in [(0, 0.0), (8, 1.6)] {
                let ours =
                    MulticloudSettings { extra, ..settings.clone() }.cells_between().unwrap();
                assert!((ours / (cells + adds) - 1.0).abs() < 0.05, "{capacity} {extra}: {ours}");
            }
        }
    }
}
