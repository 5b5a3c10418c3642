//! The end of an epoch: every image is given slots, sealed, and written once.
//!
//! Which buckets are written, and their sizes, follow from the paths read and evicted. The write is
//! cut into windows of bounded memory, some of which are under way while others are sealed; what it
//! supersedes is deleted only once it is durable.
//!
//! A point of the grid passes before the first leaves: what the last reply brought about, and the
//! sealing, have a quantum and a half.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::compute;
use fogbank_seal::{IncarnationKeys, Place, TAG_BYTES};
use fogbank_store::{ChunkName, ChunkWrite, Store};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rayon::prelude::*;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::RingEngine;
use super::bucket::{Bucket, BucketBlock, Images, NO_IMAGE};
use super::plan::Planner;
use crate::geometry::{BLOCK_ID_BYTES, Geometry, version};
use crate::slab::Slab;
use crate::{Error, Result, blame, blame_new, of_task};

/// Points that pass before the first image of a write-back leaves.
pub(super) const IMAGE_POINTS: u32 = 1;

impl RingEngine {
    /// Writes every image, waits until that is durable, and lets go of what it supersedes.
    pub(super) async fn write_back(&mut self) -> Result<()> {
        let images = self.planner.images.by_chunk();
        if !images.is_empty() {
            self.write_images(&images).await?;
        }
        self.store.barrier().await.map_err(blame)?;
        if !self.settings.keep_superseded {
            self.delete_superseded().await?;
        }
        Ok(())
    }

    /// Deletes the chunk versions that nothing refers to any more.
    pub(super) async fn delete_superseded(&mut self) -> Result<()> {
        let superseded = std::mem::take(&mut self.planner.superseded);
        if !superseded.is_empty() {
            self.store.delete_chunks(&superseded).await.map_err(blame)?;
        }
        Ok(())
    }

    async fn write_images(&mut self, images: &[u32]) -> Result<()> {
        let tick = self.next_tick()?;
        let geometry = self.planner.geometry;
        let slots = usize::from(geometry.bucket.slots());
        let mut orders = vec![0; images.len() * slots];
        let window = (self.settings.window_bytes / geometry.chunk_bytes()).max(1);
        self.store.let_points_pass(IMAGE_POINTS);
        // They are written beside the sealing, which so holds none of them up.
        let (sealed, written) = mpsc::channel(1);
        let mut writing = JoinSet::new();
        writing.spawn(write_windows(self.store.clone(), written, self.settings.windows));
        for (images, orders) in images.chunks(window).zip(orders.chunks_mut(window * slots)) {
            let writes = compute(|| self.seal_images(tick, images, orders));
            self.moved.cells_written += (writes.len() * slots) as u64;
            self.moved.write_calls += 1;
            if sealed.send(writes).await.is_err() {
                break; // it has failed, and says so
            }
        }
        drop(sealed);
        writing.join_next().await.map_or(Ok(()), of_task)?;
        let (opening, _) = self.keys.current();
        compute(|| self.planner.settle(version(opening, tick), images, &orders));
        Ok(())
    }

    /// The number of this write-back; none is ever used twice in an opening.
    fn next_tick(&mut self) -> Result<u64> {
        if self.tick + 1 >= 1 << fogbank_seal::TICK_BITS {
            return Err(Error::Bug("this opening has used up its write-backs: open again".into()));
        }
        self.tick += 1;
        Ok(self.tick)
    }

    /// Seals images on all cores and leaves the order of the slots of each in `orders`.
    fn seal_images(&self, tick: u64, images: &[u32], orders: &mut [u16]) -> Vec<ChunkWrite> {
        let (opening, keys) = self.keys.current();
        let sealing = Sealing {
            keys,
            geometry: &self.planner.geometry,
            images: &self.planner.images,
            slab: &self.slab,
            array: self.settings.array,
            tick,
            order_tick: self.planner.canary.order_tick(tick),
        };
        let slots = usize::from(sealing.geometry.bucket.slots());
        let each = images.par_iter().zip(orders.par_chunks_mut(slots));
        each.map(|(image, order)| {
            let chunk = sealing.images.chunk(*image);
            let name =
                ChunkName { array: self.planner.array, chunk, version: version(opening, tick) };
            ChunkWrite { chunk: name, data: sealing.seal(*image, chunk, order) }
        })
        .collect()
    }
}

/// What sealing an image takes.
struct Sealing<'a> {
    keys: &'a IncarnationKeys,
    geometry: &'a Geometry,
    images: &'a Images,
    slab: &'a Slab,
    array: u8,
    tick: u64,
    order_tick: u64,
}

impl Sealing<'_> {
    /// Draws the order of the slots and seals blocks and dummies into them, slot by slot.
    fn seal(&self, image: u32, chunk: u32, order: &mut [u16]) -> Bytes {
        self.keys.permutation().order(self.array, chunk, self.order_tick, order);
        let kept = self.images.kept(image);
        let mut by_slot: Vec<Option<&BucketBlock>> = vec![None; order.len()];
        for (kept, slot) in kept.iter().zip(&*order) {
            by_slot[usize::from(*slot)] = Some(kept);
        }
        let dummy = self.dummy();
        let mut data = Vec::with_capacity(self.geometry.chunk_bytes());
        for (cell, kept) in by_slot.into_iter().enumerate() {
            let start = data.len();
            data.extend_from_slice(kept.map_or(&dummy[..], |kept| self.slab.get(kept.payload)));
            data.extend_from_slice(&[0; TAG_BYTES]);
            let place = Place { array: self.array, chunk, cell: cell as u16, tick: self.tick };
            self.keys.cells().seal(place, &mut data[start..]);
        }
        Bytes::from(data)
    }

    fn dummy(&self) -> Vec<u8> {
        let mut dummy = vec![0; self.geometry.plaintext_bytes()];
        dummy[..BLOCK_ID_BYTES].copy_from_slice(&u64::MAX.to_le_bytes());
        dummy
    }
}

/// Writes windows in the order in which they come, `at_once` under way.
async fn write_windows(
    store: Arc<dyn Store>,
    mut sealed: mpsc::Receiver<Vec<ChunkWrite>>,
    at_once: usize,
) -> Result<()> {
    let mut writing = FuturesUnordered::new();
    loop {
        tokio::select! { biased;
            Some(written) = writing.next() => {
                let written: fogbank_store::Result<()> = written;
                written.map_err(blame_new)?;
            }
            Some(window) = sealed.recv(), if writing.len() < at_once.max(1) => {
                writing.push(store.write_chunks(window));
            }
            else => return Ok(()),
        }
    }
}

impl Planner {
    /// Makes the images the stored buckets: `images` in turn with the `orders` of their slots.
    pub(super) fn settle(&mut self, version: u64, images: &[u32], orders: &[u16]) {
        let slots = usize::from(self.geometry.bucket.slots());
        for (image, order) in images.iter().zip(orders.chunks(slots)) {
            let chunk = self.images.chunk(*image);
            let kept = self.images.kept(*image);
            let held = kept.len() as u16;
            for (real, kept) in self.buckets.reals_mut(chunk).iter_mut().zip(kept) {
                *real = kept.block;
                self.handles.release(kept.payload);
            }
            self.buckets.order_mut(chunk).copy_from_slice(order);
            self.canary.order_dummies(&mut self.buckets.order_mut(chunk)[usize::from(held)..]);
            *self.buckets.head_mut(chunk) =
                Bucket { version, image: NO_IMAGE, reads: 0, held, next_dummy: held };
        }
        self.images.clear();
    }
}
