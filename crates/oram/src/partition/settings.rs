//! What the user decides about a `partition` store: fixed when it is created, but for what is under
//! way, rate and pace.
//!
//! # How many values a checkpoint has room for
//!
//! A block has its value in a checkpoint if it is in no level: it is under way, in a stash, or was
//! taken from one by a job. Public, and never more but with a negligible probability, are
//! 1. what stashes hold when no job is held back ([`Layout::stash_blocks_max`]);
//! 2. one for each access whose order is not carried out: its block left a level, and nothing has
//!    gone into one for it. Of five orders four are of accesses, and no more than D are open;
//! 3. one for each access under way whose order is carried out.
//!
//! No fewer will do. A cloud that holds the jobs of a few partitions until D orders are open, and
//! then the reply of one access, while all others go on, comes to 2 and 3 at once.
//!
//! So D is what can be chosen. Two orders an access under way are some more than are open where
//! nothing is held (1.3 to 1.9 at 50 to 200 ms); more would be room that every checkpoint pays for.
//! E is such that a checkpoint adds a twentieth to what accesses move, or 65,536: a recovery has as
//! much journal in memory, and reads as much again.

use fogbank_durable::{Piecing, VaultSettings};
use fogbank_seal::TAG_BYTES;

use super::layout::Layout;
use super::{journal, state};
use crate::geometry::BLOCK_ID_BYTES;
use crate::immediate::{ShellSettings, Traffic, parts_max};
use crate::{Error, ImmediateShape, Result};

/// Of a checkpoint some pieces are under way at once: it is to be there before the next is cut,
/// however long a round trip is.
pub(super) const PIECES: Piecing = Piecing::usual(4);
/// Accesses that go into one journal record at most, of small blocks.
const GROUP_MAX: usize = 1_024;
/// Records under way at once: throughput is not bounded by one a round trip.
const RECORDS_AT_ONCE: usize = 64;
/// Jobs, and commits, that one record has at most, of small blocks.
const JOBS_MAX: usize = 64;
/// D: orders given and not carried out, at least so many and so many an access under way.
const ORDERS_MIN: u64 = 2_500;
const ORDERS_AN_ACCESS: u64 = 2;
/// K: bytes of cells of jobs that have begun and are not committed.
const JOB_BYTES: usize = 160 << 20;
/// E: accesses from one checkpoint to the next, what one adds to the traffic, and E in steps of
/// this.
const CHECKPOINT_EVERY: std::ops::RangeInclusive<u64> = 8_192..=65_536;
const CHECKPOINT_PART: f64 = 0.05;
const CHECKPOINT_STEP: u64 = 1_024;
/// Parts of records that an access brings: jobs and commits have parts, too.
pub(super) const PARTS_AN_ACCESS: f64 = 1.3;

/// Settings of a [`super::PartitionEngine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSettings {
    /// What every engine of this kind is told.
    pub shell: ShellSettings,
    /// Partitions and levels.
    pub layout: Layout,
    /// E: accesses from one checkpoint to the next.
    pub checkpoint_every: u64,
}

impl PartitionSettings {
    /// A store of this shape, of whose partitions `kept_levels` levels stay in the proxy.
    ///
    /// # Errors
    /// [`Error::Caller`] if there are no blocks, or too many.
    pub fn new(shape: ImmediateShape, kept_levels: u8) -> Result<Self> {
        let settings = Self::of(shape, Layout::new(shape.capacity, kept_levels)?);
        let layout = settings.layout.in_segments(settings.cell_bytes());
        Ok(Self { layout, ..settings }.with_usual_checkpoints())
    }

    /// The settings of a store of this shape and layout, which may be claimed only. Checkpoints
    /// come as often as they ever do.
    pub fn of(shape: ImmediateShape, layout: Layout) -> Self {
        let shell = ShellSettings { records_at_once: RECORDS_AT_ONCE, ..ShellSettings::new(shape) };
        Self { shell, layout, checkpoint_every: *CHECKPOINT_EVERY.start() }
    }

    /// The same with checkpoints as often as is usual for its layout and shell.
    pub fn with_usual_checkpoints(self) -> Self {
        let Traffic { up_bytes, down_bytes } = self.traffic_beside_checkpoints();
        let added = CHECKPOINT_PART * (up_bytes + down_bytes);
        let every = (self.checkpoint_bytes() as f64 / added).ceil() as u64;
        let every = every.next_multiple_of(CHECKPOINT_STEP);
        let checkpoint_every = every.clamp(*CHECKPOINT_EVERY.start(), *CHECKPOINT_EVERY.end());
        Self { checkpoint_every, ..self }
    }

    /// The same with another shell.
    pub fn with_shell(mut self, change: impl FnOnce(&mut ShellSettings)) -> Self {
        change(&mut self.shell);
        self
    }

    /// The same with about so many bytes of written levels under way at once.
    pub fn with_write_behind(self, bytes: usize) -> Self {
        let longest = self.layout.stored_levels().map(|level| self.layout.segment(level)).max();
        let chunk_bytes = usize::from(longest.unwrap_or(0)) * self.cell_bytes();
        let shell = self.shell.clone().with_jobs_behind(bytes, chunk_bytes);
        Self { shell, ..self }
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings outside the limits.
    pub fn check(&self) -> Result<()> {
        if self.checkpoint_every == 0 {
            return Err(Error::Caller("a checkpoint comes after at least one access".into()));
        }
        // A record says in two bytes how many were under way, and so does a checkpoint.
        if u16::try_from(self.shell.records_at_once).is_err() {
            return Err(Error::Caller(format!("at most {} records are under way", u16::MAX)));
        }
        self.layout.check()?;
        self.shell.check(self.group_max())
    }

    /// Bytes of a sealed cell.
    pub fn cell_bytes(&self) -> usize {
        BLOCK_ID_BYTES + self.shell.shape.value_bytes + TAG_BYTES
    }

    /// Accesses that go into one journal record at most: fewer of large blocks. With the commits
    /// and jobs beside them a record is no longer than what comes behind one can wait for, but for
    /// that it has room for one of each.
    pub fn group_max(&self) -> usize {
        let others = 2 * self.jobs_max();
        let parts = parts_max(self.part_bytes(), GROUP_MAX + others);
        parts.saturating_sub(others).max(1)
    }

    /// Jobs, and commits, that go into one journal record at most: together half of its parts.
    pub(super) fn jobs_max(&self) -> usize {
        (parts_max(self.part_bytes(), 4 * JOBS_MAX) / 4).max(1)
    }

    /// Blocks that a checkpoint has room for with their values. See the module.
    pub(super) fn saved_blocks_max(&self) -> usize {
        let blocks =
            self.layout.stash_blocks_max() + self.held_max() as usize + self.shell.under_way_max;
        // Each is somewhere once.
        blocks.min(self.layout.blocks as usize)
    }

    /// Accesses whose orders are not carried out, at most.
    fn held_max(&self) -> u64 {
        self.orders_max() * 4 / 5
    }

    /// Records under way at a cut, and the commits and orders in them, at most.
    pub(super) fn uncounted_max(&self) -> (usize, usize, usize) {
        let (records, accesses) = (self.shell.records_at_once, self.shell.under_way_max);
        // A partition has no more than one job.
        let commits = (records * self.jobs_max()).min(self.layout.partitions as usize);
        (records, commits, accesses + accesses / 4 + records)
    }

    /// Bytes of a part of a record.
    pub fn part_bytes(&self) -> usize {
        journal::part_bytes(&self.layout, self.shell.shape.value_bytes)
    }

    /// D: orders given and not carried out, at most.
    pub fn orders_max(&self) -> u64 {
        (ORDERS_AN_ACCESS * self.shell.under_way_max as u64).max(ORDERS_MIN)
    }

    /// K: cells of jobs that have begun and are not committed, at most, but for one job.
    pub fn job_cells_max(&self) -> u64 {
        (JOB_BYTES / self.cell_bytes()).max(1) as u64
    }

    /// What the store's vault is opened with.
    pub fn vault(&self) -> VaultSettings {
        VaultSettings {
            record_bytes: self.part_bytes(),
            record_parts_max: self.group_max() + 2 * self.jobs_max(),
            records_at_once: self.shell.records_at_once as u32,
            full_every: 1,
            pieces: PIECES,
            journal_is_near: false,
        }
    }

    /// Bytes of a checkpoint.
    pub fn checkpoint_bytes(&self) -> u64 {
        PIECES.checkpoint(state::checkpoint_lengths(self)).total_bytes()
    }

    /// What an access moves on average, all in all.
    pub fn traffic(&self) -> Traffic {
        let Traffic { up_bytes, down_bytes } = self.traffic_beside_checkpoints();
        let checkpoint = self.checkpoint_bytes() as f64;
        Traffic { up_bytes: up_bytes + checkpoint / self.checkpoint_every as f64, down_bytes }
    }

    fn traffic_beside_checkpoints(&self) -> Traffic {
        let (read, written) = self.layout.cells_an_access();
        let parts = PARTS_AN_ACCESS * self.part_bytes() as f64;
        let cell = self.cell_bytes() as f64;
        Traffic { up_bytes: written * cell + parts, down_bytes: read * cell }
    }

    /// Bytes that levels and checkpoints take in the cloud at most. What newer generations have
    /// taken the place of stays until a checkpoint refers to it no more. What jobs write stands
    /// beside what they read, also if they were open at the cut.
    pub fn storage_bytes_max(&self) -> u64 {
        let layout = self.layout;
        let cells: u64 = layout.stored_levels().map(|l| u64::from(layout.cells(l))).sum();
        let (_, written) = layout.cells_an_access();
        let accesses = 2 * self.checkpoint_every + self.held_max();
        let superseded = (written * accesses as f64) as u64;
        let cells = cells * u64::from(layout.partitions) + superseded;
        cells * self.cell_bytes() as u64 + 2 * self.checkpoint_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value_bytes: usize) -> PartitionSettings {
        PartitionSettings::new(ImmediateShape { capacity: 256, value_bytes }, 2).unwrap()
    }

    #[test]
    fn a_record_has_so_many_parts_and_no_more_than_two_mebibytes() {
        assert_eq!((of(64).group_max(), of(64).jobs_max()), (1024, 64));
        for value_bytes in [512, 4 << 10, 64 << 10, 512 << 10, 1 << 20] {
            let (settings, vault) = (of(value_bytes), of(value_bytes).vault());
            let (accesses, jobs) = (settings.group_max(), settings.jobs_max());
            assert!(accesses >= 1 && jobs >= 1 && accesses >= jobs, "{value_bytes}");
            assert_eq!(vault.record_parts_max, accesses + 2 * jobs);
            let bytes = vault.record_parts_max * vault.record_bytes;
            assert!(bytes <= 2 << 20 || vault.record_parts_max == 3, "{value_bytes}: {bytes}");
        }
        // Not by being cautious: one more of each kind would not fit.
        assert!(
            (of(4096).group_max() + 2 * of(4096).jobs_max() + 3) * of(4096).part_bytes() > 2 << 20
        );
    }

    /// As long as a recovery does not need more memory for it.
    #[test]
    fn checkpoints_add_a_twentieth() {
        for (capacity, kept_levels, under_way_max) in
            [(100_000, 3, 64), (1 << 18, 5, 1_024), (1_000_000, 3, 1_024), (10_000_000, 2, 1_024)]
        {
            let shape = ImmediateShape { capacity, value_bytes: 4_096 };
            let settings = PartitionSettings::new(shape, kept_levels).unwrap();
            let settings = settings.with_shell(|shell| shell.under_way_max = under_way_max);
            let settings = settings.with_usual_checkpoints();
            let beside = settings.traffic_beside_checkpoints();
            let added = settings.checkpoint_bytes() as f64 / settings.checkpoint_every as f64;
            let part = added / (beside.up_bytes + beside.down_bytes);
            assert!(part <= CHECKPOINT_PART, "{capacity}: {part}");
            let fewer = settings.checkpoint_every - CHECKPOINT_STEP;
            let is_least = part * settings.checkpoint_every as f64 / fewer as f64 > CHECKPOINT_PART;
            assert!(is_least || settings.checkpoint_every == 8_192, "{capacity}: {part}");
        }
    }

    #[test]
    fn more_records_than_a_record_can_count_are_refused() {
        let with = |records| of(64).with_shell(|shell| shell.records_at_once = records).check();
        assert!(with(1).is_ok() && with(65_535).is_ok());
        for records in [0, 65_536, usize::MAX] {
            assert!(matches!(with(records), Err(Error::Caller(_))), "{records}");
        }
    }
}
