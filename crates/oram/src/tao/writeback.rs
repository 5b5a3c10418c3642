//! Write-back: every k-th flush the paths flushed since the last one are written, as the union of
//! their buckets, under the next time stamp. Nothing waits for it, up to a public number of them.
//!
//! A version is (opening, time stamp) and stands in the name of what is written, so write-backs
//! that overtake each other on the way do no harm: the newest that has been acknowledged is the one
//! read. What it takes the place of stays until a checkpoint refers to it no more and no path that
//! names it is under way.

use fogbank_store::ChunkName;

use super::path;
use super::processor::Processor;
use crate::geometry::{tick_of, version};
use crate::immediate::sequencer::Number;

/// Buckets to be written.
#[derive(Debug)]
pub struct WriteBack {
    /// Its time stamp.
    pub tick: u64,
    /// Flushes it comprises.
    pub flushed: u64,
    /// By rising chunk: what to seal.
    pub images: Vec<(u32, Vec<u8>)>,
}

/// A chunk version that a newer one has taken the place of.
#[derive(Debug, Clone, Copy)]
pub struct Superseded {
    pub name: ChunkName,
    /// The write-back of the newer one. A checkpoint that comprises fewer refers to this version,
    /// also if that write-back was acknowledged first.
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
    pub fn acknowledge(&mut self, written: &Written, before: Number) {
        let Written { tick, flushed, chunks } = written;
        let tick = *tick;
        let new = version(self.opening, tick);
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

    /// The versions that no checkpoint refers to once the one that comprises write-back `tick`
    /// counts, and that no path under way names, of which `oldest` is the first. The rest waits for
    /// the next checkpoint.
    pub fn take_superseded(&mut self, tick: u64, oldest: Number) -> Vec<ChunkName> {
        let gone = |old: &Superseded| old.tick <= tick && old.before <= oldest;
        let names = self.superseded.iter().filter(|old| gone(old)).map(|old| old.name).collect();
        self.superseded.retain(|old| !gone(old));
        names
    }
}

/// What is known of a write-back once it is sealed.
#[derive(Debug)]
pub struct Written {
    /// Its time stamp.
    pub tick: u64,
    /// Flushes it comprises.
    pub flushed: u64,
    /// By rising chunk.
    pub chunks: Vec<u32>,
}
