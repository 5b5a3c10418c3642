//! Paths that have come back: verified, and taken in one step each.
//!
//! 1. What has come by a moment in the middle between two points is taken then, in the order of the
//!    accesses, whatever the order of the replies.
//! 2. Every cell is verified before anything of its path is used.
//! 3. At the next point answers leave. Ciphers and steps have half a quantum until then; what takes longer
//!    (a write-back that is copied, hundreds of paths at once) moves that by whole quanta. Meanwhile nothing
//!    is decided that depends on it.
//!
//! Without a grid every path is taken when it comes.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Nanos, compute};
use fogbank_store::ChunkName;
use rayon::prelude::*;
use tokio::sync::mpsc;

use super::processor::PathRequest;
use super::{Shared, path};
use crate::Result;

/// A path that has come back, unverified.
#[derive(Debug)]
pub(super) struct Returned {
    /// When it came.
    pub at: Nanos,
    pub path: PathRequest,
    pub names: Vec<ChunkName>,
    pub chunks: Vec<Option<Bytes>>,
}

impl Returned {
    fn open(self, shared: &Shared) -> Result<(PathRequest, Vec<path::Opened>)> {
        let opened = path::open(&shared.keys, &shared.geometry, &self.names, self.chunks)?;
        Ok((self.path, opened))
    }

    /// Takes one that nobody else is waited for with.
    pub fn take(self, shared: &Shared) -> Result<()> {
        let opened = self.open(shared)?;
        process(shared, opened)?;
        shared.let_leave();
        Ok(())
    }
}

/// AnswerRequest and Flush, in one step; the write-back that falls due.
fn process(shared: &Shared, (path, buckets): (PathRequest, Vec<path::Opened>)) -> Result<()> {
    let due = shared.step(|core| {
        core.ended(path.number);
        core.plane.path_returned(&path, buckets, &mut core.sequencer)
    })?;
    due.map_or(Ok(()), |due| shared.send(due))
}

/// Takes all that comes.
///
/// # Errors
/// [`crate::Error::CloudLied`] for a cell that does not verify; then nothing of what came with it counts.
pub(super) async fn take_all(
    shared: Arc<Shared>,
    mut returns: mpsc::UnboundedReceiver<Returned>,
) -> Result<()> {
    let mut waiting: Vec<Returned> = Vec::new();
    loop {
        let first = match waiting.iter().map(|returned| returned.at).min() {
            Some(at) => at,
            None => match returns.recv().await {
                Some(returned) => {
                    waiting.push(returned);
                    continue;
                }
                None => return Ok(()),
            },
        };
        // Also after work that has outlasted its room: never at a point, where others decide.
        let point = shared.points.handed_over(first.max(shared.points.now())).await;
        let taking = shared.taking.write().await;
        while let Ok(returned) = returns.try_recv() {
            waiting.push(returned);
        }
        let is_due = |returned: &mut Returned| shared.points.handed_over_at(returned.at) <= point;
        let mut due: Vec<Returned> = waiting.extract_if(.., is_due).collect();
        due.sort_unstable_by_key(|returned| returned.path.number);
        if shared.look(|core| core.canary.takes_by_content()) {
            due.sort_by_key(|returned| returned.path.block);
        }
        let opened = compute(|| {
            let opened = due.into_par_iter().map(|returned| returned.open(&shared));
            opened.collect::<Vec<_>>()
        });
        // The first that failed, in the order in which they were asked for, not of the cores.
        for opened in opened.into_iter().collect::<Result<Vec<_>>>()? {
            process(&shared, opened)?;
        }
        drop(taking);
        if shared.look(|core| core.canary.answers_off_grid()) {
            shared.let_leave();
        }
        shared.points.met(|| ()).await;
        shared.let_leave();
    }
}
