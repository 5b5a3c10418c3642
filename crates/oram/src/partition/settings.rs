//! What the user decides about a `partition` store: fixed when it is created, but for what is under
//! way, rate and pace.

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
/// Jobs, and commits, that one record has at most.
pub(super) const JOBS_MAX: usize = 64;
/// D: orders given and not carried out, at least so many and so many an access under way.
const ORDERS_MIN: u64 = 2_500;
const ORDERS_AN_ACCESS: u64 = 4;
/// K: bytes of cells of jobs that have begun and are not committed.
const JOB_BYTES: usize = 160 << 20;
/// E: accesses from one checkpoint to the next, by blocks of the store.
const CHECKPOINT_EVERY: std::ops::RangeInclusive<u64> = 8_192..=65_536;
const BLOCKS_AN_ACCESS: u64 = 64;

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
        Ok(Self::of(shape, Layout::new(shape.capacity, kept_levels)?))
    }

    /// The usual settings of a store of this shape and layout.
    pub fn of(shape: ImmediateShape, layout: Layout) -> Self {
        let every = u64::from(shape.capacity) / BLOCKS_AN_ACCESS;
        Self {
            shell: ShellSettings { records_at_once: RECORDS_AT_ONCE, ..ShellSettings::new(shape) },
            layout,
            checkpoint_every: every.clamp(*CHECKPOINT_EVERY.start(), *CHECKPOINT_EVERY.end()),
        }
    }

    /// The same with another shell.
    pub fn with_shell(mut self, change: impl FnOnce(&mut ShellSettings)) -> Self {
        change(&mut self.shell);
        self
    }

    /// The same with about so many bytes of written levels under way at once.
    pub fn with_write_behind(self, bytes: usize) -> Self {
        let shell = self.shell.clone().with_write_behind(bytes, self.cell_bytes());
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
        self.layout.check()?;
        self.shell.check(self.group_max())
    }

    /// Bytes of a sealed cell.
    pub fn cell_bytes(&self) -> usize {
        BLOCK_ID_BYTES + self.shell.shape.value_bytes + TAG_BYTES
    }

    /// Accesses that go into one journal record at most: fewer of large blocks.
    pub fn group_max(&self) -> usize {
        parts_max(self.part_bytes(), GROUP_MAX)
    }

    /// Blocks that a checkpoint has room for: those of stashes, a cloud that holds all jobs drives
    /// them up by one an access, and those under way.
    pub(super) fn saved_blocks_max(&self) -> usize {
        let held = self.orders_max() * 4 / 5;
        self.layout.stash_blocks_max() + held as usize + self.shell.under_way_max
    }

    /// Records under way at a cut, and the commits and orders in them, at most.
    pub(super) fn uncounted_max(&self) -> (usize, usize, usize) {
        let (records, accesses) = (self.shell.records_at_once, self.shell.under_way_max);
        (records, records * JOBS_MAX, accesses + accesses / 4 + records)
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
            record_parts_max: self.group_max() + 2 * JOBS_MAX,
            records_at_once: self.shell.records_at_once as u32,
            cuts: true,
            full_every: 1,
            pieces: PIECES,
        }
    }

    /// Bytes of a checkpoint.
    pub fn checkpoint_bytes(&self) -> u64 {
        PIECES.checkpoint(state::checkpoint_lengths(self)).total_bytes()
    }

    /// What an access moves on average, all in all.
    pub fn traffic(&self) -> Traffic {
        let (read, written) = self.layout.cells_an_access();
        let checkpoint = self.checkpoint_bytes() as f64;
        // Jobs and commits are parts of records, too: some 0.3 an access.
        let parts = 1.3 * self.part_bytes() as f64;
        let cell = self.cell_bytes() as f64;
        let up_bytes = written * cell + parts + checkpoint / self.checkpoint_every as f64;
        Traffic { up_bytes, down_bytes: read * cell }
    }

    /// Bytes that levels and checkpoints take in the cloud at most: what newer generations have taken
    /// the place of stays until a checkpoint refers to it no more.
    pub fn storage_bytes_max(&self) -> u64 {
        let layout = self.layout;
        let cells: u64 = layout.stored_levels().map(|l| u64::from(layout.cells(l))).sum();
        let (_, written) = layout.cells_an_access();
        let superseded = (2.0 * written * self.checkpoint_every as f64) as u64;
        let cells = cells * u64::from(layout.partitions) + superseded;
        cells * self.cell_bytes() as u64 + 2 * self.checkpoint_bytes()
    }
}
