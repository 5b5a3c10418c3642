//! Reading a store from one end to the other: to verify all of it, and to copy what it holds.
//!
//! 1. The blocks that are in the proxy: stash and cached top of the tree.
//! 2. Window by window, in the order of chunks, every bucket that was ever written, whole; every
//!    cell of it is opened, dummies and blocks that have been read or overwritten too.
//!
//! What does not verify ends it, at the first in the order of chunks and cells; or, for whoever
//! goes on, is told with the block that is lost. Then the chunks of a reply that is of no use as a
//! whole are asked for again, one by one.
//!
//! What the cloud sees: one read of each current chunk version. Which those are it knows, and that
//! every cell is read tells nothing of any: so a scan may happen between any two epochs. What is
//! read a second time follows from its own replies.

use bytes::Bytes;
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

/// What is in a bucket.
#[derive(Default)]
struct Contents {
    /// Its blocks with their plaintexts.
    blocks: Vec<(u32, Vec<u8>)>,
    /// What does not verify, in the order of the cells, with the block that was there if one was.
    lost: Vec<(Unverified, Option<u32>)>,
}

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
        let written: Vec<ChunkName> = self.stored_chunks().collect();
        let bytes = self.settings.window_bytes * self.settings.windows;
        let window = (bytes / self.planner.geometry.chunk_bytes()).max(1);
        let mut done = 0;
        for window in written.chunks(window) {
            let read = self.read_window(window, into.goes_on()).await?;
            let opened = compute(|| -> Result<Vec<Contents>> {
                let buckets = window.par_iter().zip(&read);
                buckets.map(|(name, cells)| self.open_bucket(name, cells.as_ref())).collect()
            })?;
            for Contents { blocks, lost } in opened {
                for (place, block) in lost {
                    into.lost(place, block.map(Address))?;
                    found += u32::from(block.is_some());
                }
                for (block, plaintext) in &blocks {
                    hand_over(into, *block, plaintext)?;
                    found += 1;
                }
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

    async fn read_window(&self, window: &[ChunkName], goes_on: bool) -> Result<Vec<Option<Bytes>>> {
        let read = self.store.read_chunks(window).await.map_err(blame);
        let read = read.and_then(|read| match read.len() == window.len() {
            true => Ok(read),
            false => Err(miscounted(read.len(), window.len())),
        });
        match read {
            Err(Error::CloudLied(_)) if goes_on => {}
            read => return read,
        }
        let mut chunks = Vec::with_capacity(window.len());
        for name in window {
            chunks.push(match self.store.read_chunks(&[*name]).await.map_err(blame) {
                Ok(mut chunk) => chunk.pop().flatten(),
                Err(Error::CloudLied(_)) => None,
                Err(error) => return Err(error),
            });
        }
        Ok(chunks)
    }

    /// The current version of every bucket that was ever written: public.
    pub(super) fn stored_chunks(&self) -> impl Iterator<Item = ChunkName> + '_ {
        let (array, buckets) = (self.planner.array, &self.planner.buckets);
        let names = (0..buckets.len()).map(move |chunk| ChunkName {
            array,
            chunk,
            version: buckets.head(chunk).version,
        });
        names.filter(|name| name.version != 0)
    }

    /// Opens every cell of a bucket.
    fn open_bucket(&self, name: &ChunkName, cells: Option<&Bytes>) -> Result<Contents> {
        let cells = cells.filter(|cells| cells.len() == self.planner.geometry.chunk_bytes());
        let (cell_bytes, buckets) = (self.planner.geometry.cell_bytes(), &self.planner.buckets);
        let held = usize::from(buckets.head(name.chunk).held);
        let reals = &buckets.reals(name.chunk)[..held];
        let Some(cells) = cells else { return Ok(Contents::none_of(name, reals)) };
        let mut plaintext = vec![0; self.slab.buffer_bytes()];
        let (mut blocks, mut lost) = (Vec::new(), Vec::new());
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
            let counts = counts(block);
            match open_cell(by, (usize::from(*slot), &fetch), &cell, &mut plaintext) {
                Verdict::Forged(_) => lost.push((*slot, counts)),
                verdict => {
                    let place = |_| Unverified::Cell { chunk: *name, cell: *slot };
                    verdict.into_result(place)?;
                    blocks.extend(counts.map(|block| (block, plaintext.clone())));
                }
            }
        }
        // Not in the order in which they are known here, in which blocks come first.
        lost.sort_unstable();
        let place = |(cell, block)| (Unverified::Cell { chunk: *name, cell }, block);
        Ok(Contents { blocks, lost: lost.into_iter().map(place).collect() })
    }
}

impl Contents {
    /// Of a bucket that is not there, which held `reals`.
    fn none_of(name: &ChunkName, reals: &[u32]) -> Self {
        let held: Vec<u32> = reals.iter().copied().filter_map(counts).collect();
        let chunk = || Unverified::Chunk(*name);
        let lost = match &held[..] {
            [] => vec![(chunk(), None)],
            held => held.iter().map(|block| (chunk(), Some(*block))).collect(),
        };
        Self { blocks: Vec::new(), lost }
    }
}

/// The block, unless it is only a mark.
fn counts(block: u32) -> Option<u32> {
    (![mark::DUMMY, mark::STALE, mark::TAKEN].contains(&block)).then_some(block)
}

fn hand_over(into: &mut dyn Scanned, block: u32, plaintext: &[u8]) -> Result<()> {
    let value = plaintext.get(BLOCK_ID_BYTES..);
    let value = value.ok_or_else(|| Error::Bug("a block has no payload".into()))?;
    into.block(Address(block), value)
}
