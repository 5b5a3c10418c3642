//! Recovery: what the journal names is read again, in its order.
//!
//! A record is taken as it was in life: what had taken effect then takes effect; its jobs are planned
//! again and its accesses cut again, with what they drew then, so the same cells are read. In life
//! accesses may have ended later; they end at once here, so a block that was under way
//! is in a stash, where no job of the journal looks for it.
//!
//! Jobs without a commit are written anew, under this opening.

use std::sync::Arc;

use futures_util::future::try_join_all;

use super::codec::Asked;
use super::journal::{self, Again, Part, Read};
use super::orders::Effects;
use super::plane::PartitionPlane;
use crate::immediate::core::Core;
use crate::immediate::engine::{Progress, Shared};
use crate::immediate::plane::{Codec, Message, Plane};
use crate::{Error, Result};

/// Reads again what `journal` names and does what it says; whether a checkpoint is needed: if there
/// was anything, or if the store is new and its positions stand nowhere.
///
/// # Errors
/// As for an access.
pub(super) async fn replay(
    shared: &Arc<Shared<PartitionPlane>>,
    journal: &[Vec<u8>],
    progress: &Progress,
) -> Result<bool> {
    let (layout, value_bytes) = (shared.codec.settings.layout, shared.shell.shape.value_bytes);
    let is_new = shared.look(|core| core.plane.is_new);
    if is_new && !journal.is_empty() {
        return Err(Error::Bug("a journal without a checkpoint".into()));
    }
    for (at, record) in journal.iter().enumerate() {
        progress(at, journal.len());
        // 1. What counted when it was cut counts.
        let (behind, record) = journal::decode(record, &layout, value_bytes)?;
        while shared.look(|core| core.plane.uncounted.len() > behind) {
            shared.step(|core| core.plane.is_recorded())?;
        }
        // 2. What the record says is planned again.
        let (parts, asked) = shared.step(|core| plan_again(core, record))?;
        shared.step(|core| core.plane.uncounted.push_back(Effects::of(&parts)));
        // 3. The same cells are read again.
        let (_, nothing_is_taken) = shared.at_point().await;
        shared.sound()?;
        let messages: Vec<Message> = asked.iter().map(Asked::message).collect();
        drop(nothing_is_taken);
        let replies =
            try_join_all(messages.iter().map(|message| message.send(&*shared.bare))).await;
        shared.points.handed_over(shared.points.now()).await;
        for ((asked, message), reply) in asked.into_iter().zip(&messages).zip(replies?) {
            let opened = shared.codec.open(&asked, message, reply)?;
            shared.step(|core| core.take(asked, opened))?;
        }
        shared.let_leave();
    }
    while shared.look(|core| !core.plane.uncounted.is_empty()) {
        shared.step(|core| core.plane.is_recorded())?;
    }
    let due = shared.step(|core| core.plane.images_again())?;
    shared.send(due)?;
    Ok(is_new || !journal.is_empty())
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
                    levels.iter_mut().flatten().for_each(|level| level.next_dummy += 1);
                }
                let is_drawn = is_duplicate || block.is_none();
                let drawn = (is_drawn.then_some(partition), to);
                let part = core.plane.cut_drawn(block, access, drawn)?;
                let same = part.cells.iter().map(|cell| (cell.level, cell.rank));
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
