//! Paths leave: in their order, at points, each in its turn where the link's rate is known.
//!
//! 1. Paths whose record is durable queue here.
//! 2. At a point at which nothing is being taken, those leave whose turn it is. What a message names is
//!    decided then: the buckets of the path that are not here, in the newest versions known, and its lowest.
//! 3. Each message leaves by a task of its own, which waits for the reply and hands it over to be taken
//!    (`returns`).

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_store::{ChunkName, LinkPacer, Store};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::journal::Kind;
use super::processor::PathRequest;
use super::returns::Returned;
use super::{Shared, guarded};
use crate::{Result, blame, of_task};

/// Lets paths leave as long as the engine runs.
///
/// # Errors
/// As for an access.
pub(super) async fn leave_all(
    shared: Arc<Shared>,
    mut departing: mpsc::UnboundedReceiver<PathRequest>,
) -> Result<()> {
    let mut turns =
        LinkPacer::new(shared.points.quantum(), shared.settings.shell.pace.down_bytes_per_s);
    let mut waiting = VecDeque::new();
    let mut reads = JoinSet::new();
    loop {
        while let Some(ended) = reads.try_join_next() {
            of_task(ended)?;
        }
        if waiting.is_empty() {
            let path = departing.recv().await.ok_or_else(|| shared.fault())?;
            waiting.push_back(path);
        }
        shared.points.approach(turns.soonest()).await;
        let (point, nothing_is_taken) = shared.at_point().await;
        while let Ok(path) = departing.try_recv() {
            waiting.push_back(path);
        }
        let is_hasty = |path: &PathRequest| {
            shared.look(|core| core.canary.skips_turns(path.kind == Kind::Decoy))
        };
        while waiting.front().is_some_and(|path| turns.are_free(point) || is_hasty(path))
            && let Some(path) = waiting.pop_front()
        {
            shared.sound()?;
            if shared.look(|core| core.canary.skips(path.kind == Kind::Decoy)) {
                shared.step(|core| core.ended(path.number));
                shared.let_leave();
                continue;
            }
            // Where nothing waits for points that is decided when the message leaves.
            let names =
                nothing_is_taken.as_ref().map(|_| shared.look(|core| core.plane.ask(&path)));
            let count = names.as_ref().map_or(0, Vec::len);
            turns.take(point, (count * shared.geometry.chunk_bytes()) as u64);
            reads.spawn(guarded(shared.clone(), serve_path(shared.clone(), path, names)));
        }
        drop(nothing_is_taken);
    }
}

/// One access from its departure on: the protocol's steps 3 to 6. Nobody waits for the 7th.
async fn serve_path(
    shared: Arc<Shared>,
    path: PathRequest,
    names: Option<Vec<ChunkName>>,
) -> Result<()> {
    // 3. The message leaves; what comes is not verified yet.
    shared.sound()?;
    let names = names.unwrap_or_else(|| shared.look(|core| core.plane.ask(&path)));
    let read = shared.bare.read_chunks(&names).await.map_err(blame);
    let at = shared.points.now();
    if read.is_err() {
        shared.points.handed_over(at).await;
    }
    let returned = Returned { at, path, names, chunks: read? };
    if shared.points.quantum() == 0 {
        return returned.take(&shared);
    }
    // 3. to 6. With others that come between two points.
    shared.returned.send(returned).map_err(|_| shared.fault())
}
