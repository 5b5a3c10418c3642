//! Write-back: every k-th flush the paths flushed since the last one are written, as the union of
//! their buckets, under the next time stamp. Nothing waits for it, up to a public number of them.
//!
//! A version is (opening, time stamp) and stands in the name of what is written, so write-backs that
//! overtake each other on the way do no harm: the newest that has been acknowledged is the one read.
//! What it takes the place of stays until a checkpoint refers to it no more and no path that names it
//! is under way.
//!
//! Write-backs leave one after the other, in messages of a public size by rising bucket, of which so many
//! are under way at once, whosever they are: a journal record waits behind these few and no more. Where the
//! link's rate is known each leaves when it is its turn, so nothing else waits in the link behind many.

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_env::{Nanos, compute};
use fogbank_store::{ChunkName, ChunkWrite, LinkPacer, Store};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rayon::prelude::*;
use tokio::sync::mpsc;

use super::processor::Processor;
use super::{Shared, path};
use crate::geometry::{tick_of, version};
use crate::immediate::core::Core;
use crate::immediate::sequencer::Number;
use crate::{Result, blame};

impl Core<Processor> {
    /// What no checkpoint refers to once the one that comprises write-back `tick` counts.
    pub(super) fn superseded(&mut self, tick: u64) -> Vec<ChunkName> {
        self.plane.take_superseded(tick, self.under_way.oldest())
    }
}

/// Buckets to be written.
#[derive(Debug)]
pub(super) struct WriteBack {
    /// Its time stamp.
    pub tick: u64,
    /// Flushes it comprises.
    pub flushed: u64,
    /// By rising chunk: what to seal.
    pub images: Vec<(u32, Vec<u8>)>,
}

/// A chunk version that a newer one has taken the place of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Superseded {
    pub name: ChunkName,
    /// The write-back of the newer one. A checkpoint that comprises fewer refers to this version, also
    /// if that write-back was acknowledged first.
    pub tick: u64,
    /// Requests that had arrived when it was acknowledged: older ones may still read this version.
    pub before: Number,
}

impl Processor {
    /// Takes the leaves of the queue, and copies of their buckets as they are now.
    pub fn begin_write_back(&mut self) -> WriteBack {
        self.tick += 1;
        let (tick, flushed) = (self.tick, self.flushes);
        self.unacknowledged.insert(tick);
        let leaves = std::mem::take(&mut self.write_queue);
        let mut chunks: Vec<u32> =
            leaves.iter().flat_map(|leaf| self.geometry.chunks_to(*leaf)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        let mut images = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let Some(node) = self.subtree.get_mut(chunk) else { continue };
            node.sent = tick;
            let blocks = node.blocks.iter().map(|kept| self.slab.get(kept.payload));
            images.push((chunk, path::image(&self.geometry, blocks)));
        }
        self.stats.write_backs += 1;
        self.stats.buckets_written += images.len() as u64;
        WriteBack { tick, flushed, images }
    }

    /// The write-back of `chunks` has been acknowledged.
    ///
    /// Requests from number `before` on arrive later.
    pub fn acknowledge(&mut self, opening: u32, written: &Written, before: Number) {
        let Written { tick, flushed, chunks } = written;
        let tick = *tick;
        let new = version(opening, tick);
        self.unacknowledged.remove(&tick);
        for chunk in chunks {
            let known = &mut self.versions[*chunk as usize];
            let old = (*known).min(new);
            *known = (*known).max(new);
            if old != 0 {
                let name = |version| ChunkName { array: self.array, chunk: *chunk, version };
                let (name, tick) = (name(old), tick_of(&name(*known)));
                self.superseded.push(Superseded { name, tick, before });
            }
            let is_empty =
                |chunk| self.subtree.get(chunk).is_some_and(|node| node.blocks.is_empty());
            if self.canary.keeps_empty() && is_empty(*chunk) {
                continue;
            }
            let dropped = match self.canary.drops_early() {
                false => self.subtree.drop_if_settled(*chunk, *flushed, &self.paths),
                true => self.subtree.drop_early(*chunk),
            };
            for kept in dropped.iter().flat_map(|node| &node.blocks) {
                self.handles.release(kept.payload);
            }
        }
    }

    /// Whether write-backs up to `tick` have been acknowledged.
    pub fn is_acknowledged(&self, tick: u64) -> bool {
        self.unacknowledged.first().is_none_or(|first| *first > tick)
    }

    /// Whether the cloud is to keep this version, of whichever opening it is.
    pub fn is_current(&self, name: &ChunkName) -> bool {
        self.versions.get(name.chunk as usize) == Some(&name.version)
    }

    /// The versions that no checkpoint refers to once the one that comprises write-back `tick` counts,
    /// and that no path under way names, of which `oldest` is the first. The rest waits for the next checkpoint.
    pub fn take_superseded(&mut self, tick: u64, oldest: Number) -> Vec<ChunkName> {
        let gone = |old: &Superseded| old.tick <= tick && old.before <= oldest;
        let names = self.superseded.iter().filter(|old| gone(old)).map(|old| old.name).collect();
        self.superseded.retain(|old| !gone(old));
        names
    }
}

/// What is known of a write-back once it is sealed.
#[derive(Debug)]
pub(super) struct Written {
    /// Its time stamp.
    pub tick: u64,
    /// Flushes it comprises.
    pub flushed: u64,
    /// By rising chunk.
    pub chunks: Vec<u32>,
}

/// A write-back that is being sent.
pub(super) struct Sending {
    written: Written,
    /// Messages that have not ended.
    left: usize,
}

/// A write-back that is sealed: what is known of it, and its messages.
pub(super) type Sealed = (Sending, Vec<Vec<ChunkWrite>>);

/// Seals write-backs as they fall due, until nobody can bring any more. A task of its own: messages under way
/// are not to wait for a cipher.
pub(super) async fn seal_all(
    shared: Arc<Shared>,
    mut due: mpsc::UnboundedReceiver<WriteBack>,
    sealed: mpsc::UnboundedSender<Sealed>,
) -> Result<()> {
    while let Some(due) = due.recv().await {
        sealed.send(seal(&shared, due)).map_err(|_| shared.fault())?;
    }
    Ok(())
}

/// Sends write-backs, one after the other, until nobody can bring any more.
///
/// # Errors
/// As for an access.
pub(super) async fn send_all(
    shared: Arc<Shared>,
    mut sealed: mpsc::UnboundedReceiver<Sealed>,
) -> Result<()> {
    let opening = shared.keys.current().0;
    let most = shared.settings.shell.windows.max(1);
    let (mut queue, mut under_way) = (VecDeque::new(), FuturesUnordered::new());
    let mut sending: Vec<Sending> = Vec::new();
    let mut turns =
        LinkPacer::new(shared.points.quantum(), shared.settings.shell.pace.up_bytes_per_s);
    loop {
        let may_leave = !queue.is_empty() && under_way.len() < most;
        let ended = tokio::select! { biased;
            Some(ended) = under_way.next() => ended?,
            Some((begun, windows)) = sealed.recv() => {
                let tick = begun.written.tick;
                queue.extend(windows.into_iter().map(|window| (tick, window)));
                sending.push(begun);
                if sending.last().is_some_and(|begun| begun.left > 0) {
                    continue;
                }
                tick // there was nothing to send
            }
            point = turn(&shared, &turns), if may_leave => {
                shared.sound()?;
                while under_way.len() < most
                    && turns.are_free(point)
                    && let Some((tick, window)) = queue.pop_front()
                {
                    turns.take(point, window.iter().map(|write| write.data.len() as u64).sum());
                    under_way.push(send(&shared, tick, window));
                }
                continue;
            }
            else => return Ok(()),
        };
        let Some(at) = sending.iter().position(|one| one.written.tick == ended) else { continue };
        sending[at].left = sending[at].left.saturating_sub(1);
        if sending[at].left == 0 {
            let written = sending.swap_remove(at).written;
            shared.step(|core| {
                core.plane.acknowledge(opening, &written, core.sequencer.next());
            });
        }
    }
}

/// Waits for the point at which the next message of a write-back leaves.
async fn turn(shared: &Shared, turns: &LinkPacer) -> Nanos {
    shared.points.approach(turns.soonest()).await;
    if shared.look(|core| core.canary.is_late()) {
        shared.points.departure().await;
    }
    shared.points.met(|| ()).await.0
}

/// Sends a message of a write-back now; returns which one's when it has ended.
async fn send(shared: &Shared, tick: u64, window: Vec<ChunkWrite>) -> Result<u64> {
    let sent = shared.bare.write_chunks(window).await.map_err(blame);
    shared.points.handed_over(shared.points.now()).await;
    sent.map(|()| tick)
}

/// Seals a write-back; the messages of which it consists.
fn seal(shared: &Shared, due: WriteBack) -> Sealed {
    let WriteBack { tick, flushed, images } = due;
    let (opening, geometry) = (shared.keys.current().0, shared.geometry);
    let chunks: Vec<u32> = images.iter().map(|(chunk, _)| *chunk).collect();
    let writes = compute(|| {
        let sealed = images.into_par_iter().map(|(chunk, image)| {
            let name = ChunkName { array: shared.array, chunk, version: version(opening, tick) };
            path::seal(&shared.keys, &geometry, name, image)
        });
        sealed.collect::<Vec<_>>()
    });
    let window = shared.settings.shell.window_chunks(geometry.chunk_bytes());
    let windows: Vec<_> = writes.chunks(window).map(<[_]>::to_vec).collect();
    (Sending { written: Written { tick, flushed, chunks }, left: windows.len() }, windows)
}
