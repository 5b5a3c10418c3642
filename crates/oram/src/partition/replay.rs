//! Recovery: what a checkpoint lacks is read again, then what the journal names, in its order.
//!
//! A checkpoint lacks the values that stand in cells of quotas: what accesses and jobs read of
//! levels that were due when it was cut. All these cells are read again, partition by partition,
//! whatever they hold. Which they are is public: a record that counts names each, read before or
//! not.
//!
//! Within a partition levels come from the lowest. A block may stand in two cells, an old one in a
//! level that it left; the true one is in the lower level, and the first value counts.
//!
//! A record is taken as it was in life: what had taken effect then takes effect; its jobs are
//! planned again and its accesses cut again, with what they drew then, so the same cells are read.
//! In life accesses may have ended later; they end at once here, so a block that was under way is
//! in a stash, where no job of the journal looks for it.
//!
//! Jobs without a commit are written anew, under this opening, when another checkpoint counts and
//! the store is swept.

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::hash_map::Entry;

use super::codec::Asked;
use super::journal::{self, Again, Part, Read};
use super::orders::Effects;
use super::plane::{Cell, PartitionPlane};
use crate::geometry::tick_of;
use crate::immediate::core::Core;
use crate::immediate::engine::{Progress, Shared};
use crate::{Error, Result};

/// Messages under way at once that bring what a checkpoint lacks.
const MESSAGES_AT_ONCE: usize = 32;

/// Reads again what a checkpoint lacks, then what `journal` names, and does what that says. Tells
/// whether another checkpoint is needed: if there was anything, or if the store is new and its
/// positions stand nowhere.
///
/// # Errors
/// As for an access.
pub(super) async fn replay(
    shared: &Arc<Shared<PartitionPlane>>,
    journal: Vec<Vec<u8>>,
    progress: &Progress,
) -> Result<bool> {
    let (layout, value_bytes) = (shared.codec.settings.layout, shared.shell.shape.value_bytes);
    let is_new = shared.look(|core| core.plane.is_new);
    let records = journal.len();
    if is_new && records > 0 {
        return Err(Error::Bug("a journal without a checkpoint".into()));
    }
    // What a restored checkpoint holds as open is done now, and its sources die: another checkpoint
    // has to count before they are swept.
    let was_open = shared.look(|core| core.plane.is_open());
    read_lacking(shared).await?;
    // Each goes when it is done: there may be much of it, and what it brings takes memory, too.
    for (at, record) in journal.into_iter().enumerate() {
        progress(at, records);
        // 1. What counted when it was cut counts.
        let (behind, record) = journal::decode(&record, &layout, value_bytes)?;
        while shared.look(|core| core.plane.uncounted.len() > behind) {
            shared.step(|core| core.plane.count_oldest())?;
        }
        // 2. What the record says is planned again.
        let (parts, asked) = shared.step(|core| plan_again(core, record))?;
        shared.step(|core| core.plane.uncounted.push_back(Effects::of(&parts)));
        // 3. The same cells are read again.
        read(shared, asked).await?;
        shared.let_leave();
    }
    while shared.look(|core| !core.plane.uncounted.is_empty()) {
        shared.step(|core| core.plane.count_oldest())?;
    }
    Ok(is_new || was_open || records > 0)
}

/// Sends these messages, and takes what comes.
async fn read(shared: &Shared<PartitionPlane>, asked: Vec<Asked>) -> Result<()> {
    for returned in shared.reread(asked).await? {
        let (asked, opened) = returned?;
        shared.step(|core| core.take(asked, opened))?;
    }
    Ok(())
}

/// Reads again what the checkpoint lacks: a message a partition, some at once.
async fn read_lacking(shared: &Shared<PartitionPlane>) -> Result<()> {
    let partitions = shared.codec.settings.layout.partitions;
    let (mut asked, mut jobs) = (Vec::new(), Vec::new());
    for partition in 0..partitions {
        let cells = shared.look(|core| core.plane.lacking(partition))?;
        if !cells.is_empty() {
            asked.push(Asked::Lacking(partition, cells));
        }
        jobs.extend(shared.look(|core| core.plane.has_job(partition)).then_some(partition));
        let are_all = partition + 1 == partitions;
        // Where nothing lacks nobody waits for a point: what lacks is public.
        if asked.len() == MESSAGES_AT_ONCE || (are_all && !asked.is_empty()) {
            read(shared, std::mem::take(&mut asked)).await?;
        }
    }
    let zeros = Bytes::from(vec![0; shared.shell.shape.value_bytes]);
    jobs.into_iter()
        .try_for_each(|partition| shared.step(|core| core.plane.lacks_nothing(partition, &zeros)))
}

impl PartitionPlane {
    /// Whether a job is open, a level is due, or something will take effect.
    fn is_open(&self) -> bool {
        self.open_orders > 0 || self.open_cells > 0 || !self.uncounted.is_empty()
    }

    fn has_job(&self, partition: u32) -> bool {
        self.pyramids[partition as usize].job.is_some()
    }

    /// The cells of quotas that were read of `partition`, by level and place.
    ///
    /// # Errors
    /// [`Error::Bug`] if a level is older than one above it: the first value of a block would not
    /// be the newest.
    pub(super) fn lacking(&self, partition: u32) -> Result<Vec<Cell>> {
        let (mut lacking, mut below) = (Vec::new(), u64::MAX);
        for level in self.layout.stored_levels() {
            let pyramid = &self.pyramids[partition as usize];
            let Some(held) = &pyramid.levels[usize::from(level)] else { continue };
            if std::mem::replace(&mut below, held.version) < held.version {
                return Err(Error::Bug("a level is older than one above it".into()));
            }
            let is_source = pyramid.job.as_ref().is_some_and(|job| job.sources().contains(&level));
            let taken = held.lacking(is_source);
            let from = lacking.len();
            lacking.extend(self.cells(partition, level, taken)?);
            lacking[from..].sort_unstable_by_key(|cell: &Cell| cell.place);
        }
        Ok(lacking)
    }

    /// Values that a checkpoint lacked have come. One that it has is newer than any in a cell.
    pub(super) fn take_lacking(&mut self, partition: u32, opened: Vec<(u32, Bytes)>) {
        for (block, value) in opened {
            let is_here = block < self.layout.blocks
                && u32::from(self.positions[block as usize]) == partition;
            if is_here {
                self.values.entry(block).or_insert(value);
            }
        }
    }

    /// All cells of the job of `partition` have come. Blocks of a level that nobody has written, of
    /// a store just made, hold zeros.
    fn lacks_nothing(&mut self, partition: u32, zeros: &Bytes) -> Result<()> {
        let pyramid = &mut self.pyramids[partition as usize];
        let Some(job) = &pyramid.job else { return Ok(()) };
        let is_first = |level: &u8| {
            let held = pyramid.levels[usize::from(*level)].as_ref();
            let chunks = |version| self.layout.chunks(partition, *level, version);
            held.is_some_and(|held| chunks(held.version).all(|name| tick_of(&name) == 0))
        };
        let has_zeros = job.sources().iter().any(is_first);
        for block in job.planned().chain(job.overflow.iter().copied()) {
            let value = self.values.entry(block);
            match has_zeros {
                true => _ = value.or_insert_with(|| zeros.clone()),
                false if matches!(value, Entry::Vacant(_)) => {
                    return Err(Error::Bug("no cell holds a block".into()));
                }
                false => {}
            }
        }
        self.job_came(partition, None);
        Ok(())
    }
}

fn plan_again(
    core: &mut Core<PartitionPlane>,
    record: Vec<Read>,
) -> Result<(Vec<Part>, Vec<Asked>)> {
    let (mut parts, mut jobs, mut accesses) = (Vec::new(), Vec::new(), Vec::new());
    for part in record {
        parts.push(match part {
            Read::Commit(commit) => Part::Commit(commit),
            Read::Job(partition, until, from_stash) => {
                let job = core.plane.plan_job(partition, until, from_stash.clone())?;
                if job.from_stash != from_stash {
                    return Err(differs());
                }
                jobs.push(Asked::Job(job.clone()));
                Part::Job(job)
            }
            Read::Access(Again { block, access, is_duplicate, partition, to, cells }) => {
                core.arrive(None);
                if core.plane.canary.reads_others() {
                    let levels = &mut core.plane.pyramids[partition as usize].levels;
                    levels.iter_mut().flatten().for_each(|level| level.drawn += 1);
                }
                let is_drawn = is_duplicate || block.is_none();
                let drawn = (is_drawn.then_some(partition), to);
                let part = core.plane.cut_drawn(block, access, drawn)?;
                let same = part.cells.iter().map(|cell| (cell.level, cell.place));
                let is_same = same.eq(cells) || core.plane.canary.reads_others();
                if part.partition != partition || !is_same {
                    return Err(differs());
                }
                accesses.push(part.clone());
                Part::Access(part)
            }
        });
    }
    let asked = (!accesses.is_empty()).then_some(Asked::Accesses(accesses));
    Ok((parts, asked.into_iter().chain(jobs).collect()))
}

fn differs() -> Error {
    Error::Bug("a recovery would read other cells than the journal names".into())
}
