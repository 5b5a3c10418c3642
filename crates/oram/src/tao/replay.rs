//! Recovery: the paths that the journal names are read again, in its order.
//!
//! The cloud saw them read; reading others would show which were decoys. Path ORAM reads whole
//! buckets, so the same leaves are the same reads. They start from the checkpoint's state and its
//! versions of the buckets, which are still there, and end in a state that answers every request
//! that was journalled, so that no write that was acknowledged is lost.
//!
//! A block that the journal reads twice has to be on the second path when its turn comes: after the
//! first it is mapped to the leaf that the second names, as it was when the journal was written.
//! After its last it is mapped to a fresh one, which nobody has seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::journal::{self, Entry, Kind};
use super::processor::{PathRequest, Processor};
use crate::Result;
use crate::immediate::engine::{Progress, Shared};
use crate::immediate::requests::Queued;

/// Paths that are read at once.
const WINDOW: usize = 32;

/// What the replay of an entry does besides reading its path.
#[derive(Debug, Default)]
struct Part {
    /// For a block's own path: the requests that waited for it, in their order.
    requests: Vec<usize>,
    /// The leaf that its next own path in the journal names.
    next_leaf: Option<u32>,
}

/// Reads the paths that `journal` names again and does what it says; whether there were any.
///
/// # Errors
/// As for an access.
pub(super) async fn replay(
    shared: &Arc<Shared<Processor>>,
    journal: Vec<Vec<u8>>,
    progress: &Progress,
) -> Result<bool> {
    let mut entries = Vec::new();
    for record in journal {
        entries.extend(journal::decode(&record, &shared.codec.geometry)?);
    }
    let parts = parts(&entries);
    for (at, (window, parts)) in entries.chunks(WINDOW).zip(parts.chunks(WINDOW)).enumerate() {
        progress(at * WINDOW, entries.len());
        let paths: Vec<PathRequest> = shared.step(|core| {
            let again = window.iter().map(|entry| PathRequest::again(core.arrive(None), entry));
            again.collect()
        });
        for (returned, part) in shared.reread(paths).await?.zip(parts) {
            let (path, buckets) = returned?;
            let requests =
                part.requests.iter().map(|at| (path.number, entries[*at].access.clone()));
            let requests: Vec<Queued> = requests.collect();
            let due = shared.step(|core| {
                core.ended(path.number);
                let (state, answers) = (&mut core.plane, &mut core.sequencer);
                state.synchronise(path.leaf, buckets)?;
                if path.kind == Kind::Own {
                    let fresh = part.next_leaf.unwrap_or_else(|| state.draw_leaf());
                    state.answer_requests(path.block, path.leaf, (requests, fresh), answers)?;
                }
                state.end_path(&path)
            })?;
            shared.let_leave();
            if let Some(due) = due {
                shared.send([due])?;
                shared.until(|core| core.plane.unacknowledged.is_empty()).await?;
            }
        }
    }
    Ok(!entries.is_empty())
}

fn parts(entries: &[Entry]) -> Vec<Part> {
    let mut parts: Vec<Part> = entries.iter().map(|_| Part::default()).collect();
    let mut own: BTreeMap<u32, usize> = BTreeMap::new(); // by block: its last own path
    for (at, entry) in entries.iter().enumerate() {
        match entry.kind {
            Kind::Padding => continue,
            Kind::Decoy => {}
            Kind::Own => {
                if let Some(before) = own.insert(entry.block, at) {
                    parts[before].next_leaf = Some(entry.leaf);
                }
            }
        }
        if let Some(own) = own.get(&entry.block) {
            parts[*own].requests.push(at);
        }
    }
    parts
}
