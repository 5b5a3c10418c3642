//! Reading a store from one end to the other: to verify all of it, and to copy what it holds.
//!
//! 1. The blocks that are in the proxy: stash and cached top of the tree.
//! 2. Window by window, in the order of chunks, every bucket that was ever written, whole; every cell
//!    of it is opened, dummies and blocks that have been read or overwritten too.
//!
//! What the cloud sees: one read of each current chunk version. Which those are it knows, and that
//! every cell is read tells nothing of any: so a scan may happen between any two epochs.

use fogbank_env::compute;
use fogbank_store::{Cell, ChunkName};
use rayon::prelude::*;

use super::RingEngine;
use super::bucket::mark;
use super::execute::{Verdict, open_cell};
use super::plan::Fetch;
use crate::geometry::BLOCK_ID_BYTES;
use crate::slab::Handle;
use crate::{Address, Error, Result, Scanned, Unverified, blame, miscounted};

/// Blocks of a bucket with their plaintexts.
type Blocks = Vec<(u32, Vec<u8>)>;

impl RingEngine {
    /// Reads and verifies every cell of the store and hands over every block. Between epochs only.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if anything is missing or does not verify, [`Error::Bug`] if a block is
    /// not where it should be; the engine has stopped then. [`Error::Caller`] within an epoch.
    pub(super) async fn scan_between_epochs(&mut self, into: &mut dyn Scanned) -> Result<()> {
        if !self.planner.images.is_empty() {
            return Err(Error::Caller("a store is scanned between epochs only".into()));
        }
        self.begin()?;
        let result = self.scan_all(into).await;
        self.finish(result)
    }

    async fn scan_all(&mut self, into: &mut dyn Scanned) -> Result<()> {
        let mut found = self.planner.stash.len() as u32;
        for held in self.planner.stash.iter() {
            hand_over(into, held.block, self.slab.get(held.payload))?;
        }
        let written: Vec<ChunkName> = self.written().collect();
        let bytes = self.settings.window_bytes * self.settings.windows;
        let window = (bytes / self.planner.geometry.chunk_bytes()).max(1);
        let mut done = 0;
        for window in written.chunks(window) {
            let read = self.store.read_chunks(window).await.map_err(blame)?;
            if read.len() != window.len() {
                return Err(miscounted(read.len(), window.len()));
            }
            let opened = compute(|| -> Result<Vec<Blocks>> {
                let buckets = window.par_iter().zip(&read);
                buckets.map(|(name, cells)| self.open_bucket(name, cells.as_ref())).collect()
            })?;
            for (block, plaintext) in opened.iter().flatten() {
                hand_over(into, *block, plaintext)?;
                found += 1;
            }
            done += window.len() as u32;
            into.progress(done, written.len() as u32);
        }
        let mapped = (0..self.planner.geometry.capacity)
            .filter(|block| self.planner.positions.leaf(*block).is_some());
        if mapped.count() as u32 != found {
            return Err(Error::Bug("the store holds another number of blocks than mapped".into()));
        }
        Ok(())
    }

    /// The current version of every bucket that was ever written.
    fn written(&self) -> impl Iterator<Item = ChunkName> + '_ {
        let (array, buckets) = (self.planner.array, &self.planner.buckets);
        let names = (0..buckets.len()).map(move |chunk| ChunkName {
            array,
            chunk,
            version: buckets.head(chunk).version,
        });
        names.filter(|name| name.version != 0)
    }

    /// Opens every cell of a bucket; returns the blocks that are in it.
    fn open_bucket(&self, name: &ChunkName, cells: Option<&bytes::Bytes>) -> Result<Blocks> {
        let cells = cells.filter(|cells| cells.len() == self.planner.geometry.chunk_bytes());
        let cells = cells.ok_or(Error::CloudLied(Unverified::Chunk(*name)))?;
        let (cell_bytes, buckets) = (self.planner.geometry.cell_bytes(), &self.planner.buckets);
        let held = usize::from(buckets.head(name.chunk).held);
        let reals = &buckets.reals(name.chunk)[..held];
        let mut plaintext = vec![0; self.slab.buffer_bytes()];
        let (mut blocks, mut worst) = (Blocks::new(), Verdict::Sound);
        for (index, slot) in buckets.order(name.chunk).iter().enumerate() {
            // What a slot held that has been read since is known no more, and must verify all the
            // same.
            let block = match reals.get(index) {
                None => mark::DUMMY,
                Some(&mark::TAKEN) => mark::STALE,
                Some(block) => *block,
            };
            let start = usize::from(*slot) * cell_bytes;
            let cell = Cell::Bytes(cells.slice(start..start + cell_bytes));
            let fetch = Fetch::of(name, *slot, block, Handle::NONE);
            let by = (&*self.keys, self.planner.canary.trust());
            worst = worst.max(open_cell(by, (usize::from(*slot), &fetch), &cell, &mut plaintext));
            if block != mark::DUMMY && block != mark::STALE {
                blocks.push((block, plaintext.clone()));
            }
        }
        let place = |slot| Unverified::Cell { chunk: *name, cell: slot as u16 };
        worst.into_result(place).map(|()| blocks)
    }
}

fn hand_over(into: &mut dyn Scanned, block: u32, plaintext: &[u8]) -> Result<()> {
    let value = plaintext.get(BLOCK_ID_BYTES..);
    let value = value.ok_or_else(|| Error::Bug("a block has no payload".into()))?;
    into.block(Address(block), value)
}
