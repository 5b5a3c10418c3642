//! The Processor: trusted state and the steps that change it, none of which waits for anything.
//!
//! All of it is behind one lock, which is held for one step at a time and never across I/O or a
//! cipher: metadata moves, and blocks as handles. The two steps that have to be atomic are
//! [`Processor::read_path`] (whether a request is the first for its block, and that it waits from
//! now on) and [`Processor::answer_requests`] (that nobody waits any more, and the block's fresh
//! leaf).

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::{ArrayId, ChunkName};
use rand_core::Rng;

use super::canary::Canary;
use super::journal::{Entry, Kind};
use super::path::Opened;
use super::path_requests::PathRequests;
use super::settings::TaoSettings;
use super::stats::Stats;
use super::subtree::{BucketBlock, Subtree};
use super::writeback::{Superseded, WriteBack};
use crate::geometry::{BLOCK_ID_BYTES, Geometry};
use crate::immediate::arrival::PADDING;
use crate::immediate::requests::{Queued, RequestMap};
use crate::immediate::sequencer::{Number, Sequencer};
use crate::position::FlatPositions;
use crate::slab::{Handle, Handles, Slab};
use crate::stash::{Queue, Stash, StashedBlock};
use crate::{Access, Error, Result};

/// See the module.
pub struct Processor {
    pub geometry: Geometry,
    /// Of this process: what it writes is named by it.
    pub opening: u32,
    /// Accesses under way at once.
    pub under_way_max: usize,
    /// Write-backs not acknowledged, at most.
    pub write_backs_max: usize,
    pub array: ArrayId,
    pub positions: FlatPositions,
    /// The stash, and the top of the tree that stays here.
    pub stash: Stash,
    pub slab: Slab,
    pub handles: Handles,
    pub subtree: Subtree,
    pub requests: RequestMap,
    pub paths: PathRequests,
    /// WriteQueue: leaves flushed since the last write-back, in their order.
    pub write_queue: Vec<u32>,
    /// Flushes so far.
    pub flushes: u64,
    /// k.
    pub write_back_every: usize,
    /// Write-backs so far in this opening: the time stamps.
    pub tick: u64,
    /// The last of them that the last cut comprises.
    pub cut_after: u64,
    /// s: from one cut to the next.
    pub write_backs_a_checkpoint: u64,
    /// Those that have not been acknowledged.
    pub unacknowledged: std::collections::BTreeSet<u64>,
    /// By chunk: the newest version that is known to be there; 0 if none is.
    pub versions: Vec<u64>,
    /// What newer versions have taken the place of.
    pub superseded: Vec<Superseded>,
    pub stats: Stats,
    pub canary: Canary,
    leaves: Stream,
    decoys: Stream,
    zeros: Bytes,
    queue: Queue,
    bin: Vec<StashedBlock>,
}

/// A path that is about to be read, or is being read.
#[derive(Debug)]
pub struct PathRequest {
    pub number: Number,
    pub kind: Kind,
    pub block: u32,
    pub leaf: u32,
}

impl PathRequest {
    /// That of an access that the journal names.
    pub fn again(number: Number, entry: &Entry) -> Self {
        Self { number, kind: entry.kind, block: entry.block, leaf: entry.leaf }
    }
}

impl Processor {
    /// Of an empty store.
    ///
    /// # Errors
    /// Those of [`TaoSettings::geometry`].
    pub fn new(settings: &TaoSettings, random: &Randomness, opening: u32) -> Result<Self> {
        let geometry = settings.geometry()?;
        Ok(Self {
            geometry,
            opening,
            under_way_max: settings.shell.under_way_max,
            write_backs_max: settings.write_backs_max(),
            array: ArrayId(settings.array.into()),
            positions: FlatPositions::new(geometry.capacity),
            stash: Stash::new(geometry.leaf_level(), geometry.cached_levels),
            slab: Slab::new(geometry.plaintext_bytes()),
            handles: Handles::default(),
            subtree: Subtree::default(),
            requests: RequestMap::default(),
            paths: PathRequests::default(),
            write_queue: Vec::new(),
            flushes: 0,
            write_back_every: settings.write_back_every as usize,
            tick: 0,
            cut_after: 0,
            write_backs_a_checkpoint: settings.write_backs_a_checkpoint()?,
            unacknowledged: std::collections::BTreeSet::new(),
            versions: vec![0; geometry.stored_buckets() as usize],
            superseded: Vec::new(),
            stats: Stats::default(),
            canary: Canary::default(),
            leaves: random.stream(Purpose::Leaves),
            decoys: random.stream(Purpose::Padding),
            zeros: vec![0; geometry.value_bytes].into(),
            queue: Queue::default(),
            bin: Vec::new(),
        })
    }

    /// ReadPath, up to the message: decides which path is read. The first request for a block reads
    /// the block's own path; one that finds another waiting reads a decoy; both are uniform leaves.
    pub fn read_path(
        &mut self,
        number: Number,
        block: u32,
        access: Access,
    ) -> (PathRequest, Entry) {
        let kind = match block {
            PADDING => Kind::Padding,
            _ if self.requests.enqueue(block, (number, access.clone())) => Kind::Own,
            _ => Kind::Decoy,
        };
        let reads_own = kind == Kind::Own || (kind == Kind::Decoy && self.canary.reads_twice());
        let own = reads_own.then(|| self.positions.leaf(block)).flatten();
        let leaf = own.unwrap_or_else(|| self.draw_decoy());
        let entry = Entry { kind, block, leaf, access };
        (PathRequest { number, kind, block, leaf }, entry)
    }

    /// The message, which leaves now: every bucket of the path that was ever written and is not
    /// here, in the newest version known; and the lowest that was written, so that all see where a
    /// path leads.
    pub fn path_buckets(&mut self, path: &PathRequest) -> Vec<ChunkName> {
        self.paths.ask(&self.geometry, path.number, path.leaf);
        let name = |chunk: u32| {
            let version = self.versions[chunk as usize];
            ChunkName { array: self.array, chunk, version }
        };
        let asks_for_all = path.kind == Kind::Decoy && self.canary.asks_for_all();
        let names = self.geometry.chunks_to(path.leaf).map(name);
        let mut names: Vec<ChunkName> = names.filter(|name| name.version != 0).collect();
        let lowest = names.last().copied();
        let is_here = |name: &ChunkName| self.subtree.get(name.chunk).is_some();
        names.retain(|name| asks_for_all || Some(*name) == lowest || !is_here(name));
        names
    }

    /// AnswerRequest and Flush, when the path has come back; the write-back that falls due by it.
    ///
    /// # Errors
    /// [`Error::Bug`] if an invariant does not hold.
    pub fn path_returned(
        &mut self,
        path: &PathRequest,
        buckets: Vec<Opened>,
        answers: &mut Sequencer,
    ) -> Result<Option<WriteBack>> {
        // 1. What is here is fresher than what came; what is not here, came.
        self.synchronise(path.leaf, buckets)?;
        // 2. If this was the block's own path, all who wait for the block are served.
        if path.kind == Kind::Own {
            let requests = self.requests.take(path.block);
            let fresh = self.draw_leaf();
            let fresh = if self.canary.keeps_leaf() { path.leaf } else { fresh };
            self.answer_requests(path.block, path.leaf, (requests, fresh), answers)?;
        }
        // 3. Blocks go down the path as far as they may; every k-th time paths are written back.
        self.end_path(path)
    }

    /// The steps after a path's requests have been served.
    pub fn end_path(&mut self, path: &PathRequest) -> Result<Option<WriteBack>> {
        self.paths.remove(&self.geometry, path.number, path.leaf);
        self.flush(path.leaf)?;
        if path.kind == Kind::Decoy && self.canary.keeps_decoys() {
            self.write_queue.pop();
        }
        Ok((self.write_queue.len() >= self.write_back_every).then(|| self.begin_write_back()))
    }

    /// Buckets of the path that are not here come here.
    pub fn synchronise(&mut self, leaf: u32, buckets: Vec<Opened>) -> Result<()> {
        for Opened { name, blocks } in buckets {
            if self.subtree.get(name.chunk).is_some() {
                continue;
            }
            if self.versions[name.chunk as usize] != name.version && !self.canary.is_set() {
                return Err(Error::Bug("a bucket came in an old version".into()));
            }
            let kept = blocks.into_iter().map(|(block, plaintext)| {
                let payload = self.handles.claim();
                self.slab.put(payload, plaintext);
                BucketBlock { block, payload }
            });
            self.subtree.insert(name.chunk, kept.collect());
        }
        // Those that were never written are empty; the others were here when the path was asked
        // for.
        for chunk in self.geometry.chunks_to(leaf) {
            if self.subtree.get(chunk).is_none() {
                if self.versions[chunk as usize] != 0 && !self.canary.is_set() {
                    return Err(not_here());
                }
                self.subtree.insert(chunk, Vec::new());
            }
        }
        Ok(())
    }

    /// Serves all requests for `block` in their order, and maps it to `fresh`. The path to `leaf`,
    /// to which it was mapped, is here.
    pub fn answer_requests(
        &mut self,
        block: u32,
        leaf: u32,
        (requests, fresh): (impl IntoIterator<Item = Queued>, u32),
        answers: &mut Sequencer,
    ) -> Result<()> {
        let mut payload = match self.positions.leaf(block) {
            None => None,
            Some(_) => match self.take_block(block, leaf) {
                None if self.canary.is_set() => None,
                None => return Err(Error::Bug("a block is not on its path".into())),
                found => found,
            },
        };
        for (number, access) in requests {
            let is_swap = matches!(access, Access::Swap { .. });
            if is_swap {
                self.answer(number, payload, answers);
            }
            if access.changes() {
                let payload = *payload.get_or_insert_with(|| {
                    let payload = self.handles.claim();
                    self.slab.fill(payload, block, &self.zeros);
                    payload
                });
                access.patch(&mut self.slab.get_mut(payload)[BLOCK_ID_BYTES..]);
            }
            if !is_swap {
                self.answer(number, payload, answers);
            }
        }
        match payload {
            Some(payload) => {
                self.positions.set_leaf(block, fresh);
                self.stash.push(StashedBlock { block, leaf: fresh, payload });
            }
            None => self.positions.clear(block),
        }
        Ok(())
    }

    /// The answer is the block as it is now, zeros if there is none.
    fn answer(&self, number: Number, payload: Option<Handle>, answers: &mut Sequencer) {
        answers.answer(number, || match payload {
            Some(payload) => Bytes::copy_from_slice(&self.slab.get(payload)[BLOCK_ID_BYTES..]),
            None => self.zeros.clone(),
        });
    }

    /// Flush: the blocks of the path, and those that wait above it, go as deep along it as they
    /// may.
    pub fn flush(&mut self, leaf: u32) -> Result<()> {
        self.flushes += 1;
        let (mut bin, mut queue) = (std::mem::take(&mut self.bin), std::mem::take(&mut self.queue));
        bin.clear();
        self.stash.drain_bin(leaf, &mut bin);
        for chunk in self.geometry.chunks_to(leaf) {
            let node = self.subtree.get_mut(chunk).ok_or_else(not_here)?;
            for BucketBlock { block, payload } in node.blocks.drain(..) {
                let leaf = self.positions.leaf(block).ok_or_else(not_here)?;
                bin.push(StashedBlock { block, leaf, payload });
            }
        }
        queue.fill(self.geometry.tree, leaf, &bin);
        let room = usize::from(self.geometry.bucket.reals);
        for level in (self.geometry.cached_levels..self.geometry.tree.levels()).rev() {
            let chunk = self.geometry.chunk(level, leaf);
            let node = self.subtree.get_mut(chunk).ok_or_else(not_here)?;
            while node.blocks.len() < room
                && let Some(StashedBlock { block, payload, .. }) = queue.head(level)
            {
                node.blocks.push(BucketBlock { block, payload });
                queue.advance();
            }
            node.flushed = self.flushes;
        }
        queue.rest().iter().for_each(|held| _ = self.stash.push(*held));
        (self.bin, self.queue) = (bin, queue);
        self.write_queue.push(leaf);
        self.stash.note_size();
        self.stats.note(&self.stash, &self.subtree);
        if self.stash.len() > self.geometry.stash_blocks_max() as usize {
            return Err(Error::Bug("the stash is above its bound".into()));
        }
        Ok(())
    }

    /// Takes the block out of stash or bucket, wherever on the path to `leaf` it is.
    fn take_block(&mut self, block: u32, leaf: u32) -> Option<Handle> {
        let waiting = self.stash.bin_of(leaf).iter().position(|held| held.block == block);
        if let Some(index) = waiting {
            return Some(self.stash.remove(leaf, index as u32).0.payload);
        }
        for chunk in self.geometry.chunks_to(leaf) {
            let Some(node) = self.subtree.get_mut(chunk) else { continue };
            if let Some(index) = node.blocks.iter().position(|kept| kept.block == block) {
                return Some(node.blocks.swap_remove(index).payload);
            }
        }
        None
    }

    pub fn draw_leaf(&mut self) -> u32 {
        self.leaves.next_u32() & (self.geometry.tree.leaves() - 1)
    }

    fn draw_decoy(&mut self) -> u32 {
        self.decoys.next_u32() & (self.geometry.tree.leaves() - 1)
    }
}

fn not_here() -> Error {
    Error::Bug("a bucket or block of the path is not here".into())
}
