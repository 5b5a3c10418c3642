//! The metadata plane: decides every read of a batch, synchronously, without a payload.
//!
//! One owner, no I/O. Placement needs only block ids and leaves, so evictions are planned while the
//! blocks they move are still in the cloud; payloads are handles that are filled later. The plan is
//! deterministic given the random streams, and the *reads* in it depend on no secret but the leaves
//! of the requests: which is why a journal record of (block, leaf) pairs replays them exactly.

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_seal::Place;
use fogbank_store::{ArrayId, CellReads, ChunkName};
use rand_core::Rng;

use super::bucket::{Buckets, Images, NO_IMAGE, mark};
use super::canary::Canary;
use super::settings::RingSettings;
use crate::geometry::{Geometry, opening_of, tick_of, version};
use crate::position::{FlatPositions, Location};
use crate::slab::{Handle, Handles};
use crate::stash::{Queue, Stash, StashedBlock};

/// Cells that are asked for, or sealed and written, in one call. Several calls are under way at
/// once: together they keep a link or a disk busy, and are little beside what the proxy holds
/// anyway.
pub const WINDOW_BYTES: usize = 2 << 20;

/// One path read of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The block sought, or [`mark::DUMMY`].
    pub block: u32,
    /// The path to read.
    pub leaf: u32,
    /// Where in the reply the value goes; of no use for a dummy.
    pub reply: u32,
}

/// One cell to fetch and what it must turn out to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetch {
    pub place: Place,
    pub opening: u32,
    /// The block in it, or a mark.
    pub block: u32,
    /// Where its payload goes.
    pub payload: Handle,
}

/// Cells to fetch: the message, and what is expected, in the same order.
#[derive(Debug, Default)]
pub(super) struct Reads {
    pub message: CellReads,
    pub fetches: Vec<Fetch>,
}

impl Reads {
    fn push(&mut self, name: ChunkName, slot: u16, block: u32, payload: Handle) {
        self.message.push(name, [slot]);
        self.fetches.push(Fetch::of(&name, slot, block, payload));
    }

    pub fn is_empty(&self) -> bool {
        self.fetches.is_empty()
    }

    fn clear(&mut self) {
        self.message.clear();
        self.fetches.clear();
    }
}

impl Fetch {
    pub fn of(name: &ChunkName, cell: u16, block: u32, payload: Handle) -> Self {
        let place =
            Place { array: name.array.0 as u8, chunk: name.chunk, cell, tick: tick_of(name) };
        Self { place, opening: opening_of(name), block, payload }
    }

    /// The chunk version that the cell is in, as it was asked for.
    pub fn chunk(&self) -> ChunkName {
        let Place { array, chunk, tick, .. } = self.place;
        ChunkName { array: ArrayId(array.into()), chunk, version: version(self.opening, tick) }
    }
}

/// What a batch reads.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Reads in the order of planning: evictions and reshuffles, and path reads unless XORed. In
    /// windows, so that the replies take bounded memory; what is read decides where they end.
    cells: Vec<Reads>,
    /// Path reads that the cloud XORs, and where each path ends.
    pub paths: Reads,
    pub path_ends: Vec<u32>,
    /// Memory of windows that have landed.
    spare: Vec<Reads>,
}

impl Plan {
    /// Where the next read goes, with windows of about `cells_max` cells.
    pub fn window(&mut self, cells_max: usize) -> &mut Reads {
        match self.cells.last() {
            Some(last) if last.fetches.len() < cells_max => {}
            _ => self.cells.push(self.spare.pop().unwrap_or_default()),
        }
        let last = self.cells.len() - 1;
        &mut self.cells[last]
    }

    /// All reads that are not XORed.
    pub fn cell_count(&self) -> usize {
        self.cells.iter().map(|window| window.fetches.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.cells.iter().all(Reads::is_empty) && self.paths.is_empty()
    }

    /// Takes the windows out.
    pub fn take_windows(&mut self) -> Vec<Reads> {
        let mut windows = std::mem::take(&mut self.cells);
        windows.retain(|window| !window.is_empty());
        windows
    }

    /// Takes the XORed paths out, if there are any, and where each ends.
    pub fn take_paths(&mut self) -> Option<(Reads, Vec<u32>)> {
        if self.paths.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut self.paths), std::mem::take(&mut self.path_ends)))
    }

    /// Takes the memory of a window back.
    pub fn give_back(&mut self, mut window: Reads) {
        window.clear();
        self.spare.push(window);
    }
}

/// Counts kept by the metadata plane.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub accesses: u64,
    pub real_accesses: u64,
    pub path_cells: u64,
    pub evict_cells: u64,
    pub reshuffle_cells: u64,
    pub logical_cells: u64,
    pub evictions: u64,
    pub early_reshuffles: u64,
    pub images: u64,
}

/// The metadata plane.
pub(super) struct Planner {
    pub(super) geometry: Geometry,
    pub(super) array: ArrayId,
    pub(super) positions: FlatPositions,
    pub(super) stash: Stash,
    pub(super) buckets: Buckets,
    pub(super) images: Images,
    pub(super) handles: Handles,
    /// G: evictions so far.
    pub(super) evictions: u64,
    /// Accesses since the last eviction, below A.
    pub(super) round: u32,
    /// What is to be read next.
    pub(super) plan: Plan,
    /// Payloads that no block has any more but that a planned read may still fill.
    pub(super) retired: Vec<Handle>,
    /// Chunk versions that images replace.
    pub(super) superseded: Vec<ChunkName>,
    pub(super) tally: Tally,
    pub(super) scratch: Scratch,
    /// The wrong eviction that the stash test has to catch.
    #[cfg(test)]
    pub(super) shallow_first: bool,
    /// The eviction that places what waited like what it pulled, which the delta test has to catch.
    #[cfg(test)]
    pub(super) all_alike: bool,
    /// Blocks that an eviction pulled and found no place for: none, see `evict`.
    pub(super) displaced: u64,
    /// Whether accesses are replayed: what they read is not asked for again.
    pub(super) replaying: bool,
    /// The fresh leaf of the next block that gets one, if a log says which; drawn if not.
    pub(super) forced_leaf: Option<u32>,
    full: Vec<(u8, u32)>, // level and leaf of buckets with S reads
    pub(super) window_cells: usize,
    pub(super) canary: Canary,
    xor: bool,
    leaves: Stream,
    padding: Stream,
    shuffle: Stream,
}

/// Memory that evictions use again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub unread: Vec<(u16, u32)>,
    pub payloads: Vec<Handle>,
    pub bin: Vec<StashedBlock>,
    pub queues: [Queue; 2],
}

impl Planner {
    pub fn new(geometry: Geometry, settings: &RingSettings, xor: bool, from: &Randomness) -> Self {
        let (reals, slots) = (geometry.bucket.reals, geometry.bucket.slots());
        Self {
            geometry,
            array: ArrayId(settings.array.into()),
            positions: FlatPositions::new(geometry.capacity),
            stash: Stash::new(geometry.leaf_level(), geometry.cached_levels),
            buckets: Buckets::new(geometry.stored_buckets(), reals, slots),
            images: Images::new(reals),
            handles: Handles::default(),
            evictions: 0,
            round: 0,
            plan: Plan::default(),
            retired: Vec::new(),
            superseded: Vec::new(),
            tally: Tally::default(),
            scratch: Scratch::default(),
            #[cfg(test)]
            shallow_first: false,
            #[cfg(test)]
            all_alike: false,
            displaced: 0,
            replaying: false,
            forced_leaf: None,
            full: Vec::new(),
            window_cells: (settings.window_bytes / geometry.cell_bytes()).max(1),
            canary: Canary::default(),
            xor,
            leaves: from.stream(Purpose::Leaves),
            padding: from.stream(Purpose::Padding),
            shuffle: from.stream(Purpose::Shuffle),
        }
    }

    /// Pads `blocks` to `size` requests and puts them in random order. What holds nothing, and what
    /// pads, reads a uniform path.
    pub fn pad_and_shuffle(&mut self, blocks: &[u32], size: usize) -> Vec<Request> {
        let mut requests: Vec<Request> = Vec::with_capacity(size);
        for reply in 0..size as u32 {
            let block = blocks.get(reply as usize).copied().unwrap_or(mark::DUMMY);
            let mapped = if block == mark::DUMMY { None } else { self.positions.leaf(block) };
            let repeated = || requests.iter().any(|request| request.block == block);
            if self.canary.omits(block, mapped, repeated) {
                continue;
            }
            let mapped = mapped.filter(|_| !self.is_served_as_residue(block));
            let leaf = mapped.unwrap_or_else(|| {
                uniform_leaf(&mut self.padding, &self.geometry, &mut self.canary)
            });
            requests.push(Request { block, leaf, reply });
        }
        for i in (1..requests.len()).rev() {
            requests.swap(i, below(&mut self.shuffle, i as u32 + 1) as usize);
        }
        requests
    }

    /// One access of a read batch: ReadPath, then EvictPath if it is due, then EarlyReshuffle.
    /// Returns where the block's payload is or will be.
    pub fn access(&mut self, request: &Request) -> Option<Handle> {
        self.tally.real_accesses += u64::from(request.block != mark::DUMMY);
        let payload = self.read_path(request);
        self.count_access();
        self.reshuffle_full();
        payload
    }

    /// One slot of the write batch: no path is read; the block goes to the stash under a fresh leaf
    /// and an old copy becomes stale.
    pub fn put(&mut self, block: u32, payload: Handle) {
        self.forget(block);
        let fresh = self.fresh_leaf();
        let leaf = self.canary.note_write(block, self.evictions).unwrap_or(fresh);
        self.hold(StashedBlock { block, leaf, payload });
    }

    /// Empties an address: an old copy becomes stale.
    pub fn forget(&mut self, block: u32) {
        let Some(leaf) = self.positions.leaf(block) else { return };
        match self.positions.location(block) {
            Some(Location::Bucket { level, index }) => self.make_stale(level, leaf, index),
            Some(Location::Stash { index }) => {
                let payload = self.unhold(leaf, index).payload;
                self.retired.push(payload);
            }
            None => {}
        }
        self.positions.clear(block);
    }

    /// Counts an access, real or padding; every A-th is followed by an eviction.
    pub fn count_access(&mut self) {
        self.tally.accesses += 1;
        self.round += 1;
        if self.round == u32::from(self.geometry.bucket.evict_every) {
            self.round = 0;
            self.evict_path();
        }
    }

    /// ReadPath: one unread slot of every stored bucket on the path, the block's own where it is
    /// and a dummy elsewhere, also when the block is in the stash or nowhere.
    fn read_path(&mut self, request: &Request) -> Option<Handle> {
        let mapped = request.block != mark::DUMMY
            && self.positions.leaf(request.block) == Some(request.leaf);
        let location = if mapped { self.positions.location(request.block) } else { None };
        let sought = match location {
            Some(Location::Bucket { level, index }) => Some((level, index)),
            _ => None,
        };
        let mut payload = None;
        for level in self.geometry.cached_levels..self.geometry.tree.levels() {
            let index = sought.and_then(|(at, index)| (at == level).then_some(index));
            let found = self.read_bucket(level, request, index);
            payload = payload.or(found);
        }
        self.end_path();
        if let Some(Location::Stash { index }) = location {
            payload = Some(self.unhold(request.leaf, index).payload);
        }
        let payload = payload?;
        self.canary.note_read(request.block, request.leaf, self.evictions);
        let leaf = self.fresh_leaf();
        self.hold(StashedBlock { block: request.block, leaf, payload });
        Some(payload)
    }

    fn fresh_leaf(&mut self) -> u32 {
        let given = self.forced_leaf.take();
        given.unwrap_or_else(|| uniform_leaf(&mut self.leaves, &self.geometry, &mut self.canary))
    }

    /// Reads one bucket of a path: the block at `index` or a dummy. An image answers without a
    /// message; a bucket never written is skipped.
    fn read_bucket(&mut self, level: u8, request: &Request, index: Option<u16>) -> Option<Handle> {
        let chunk = self.geometry.chunk(level, request.leaf);
        let head = self.buckets.head_mut(chunk);
        if head.image != NO_IMAGE {
            self.tally.logical_cells += 1;
            let image = head.image;
            return index.map(|index| self.take_from_image(image, level, index));
        }
        if head.version == 0 {
            return None;
        }
        self.tally.logical_cells += 1;
        self.tally.path_cells += 1;
        head.reads += 1;
        let bucket = self.geometry.bucket;
        if head.reads == self.canary.reads_max(bucket.dummies, head.held < bucket.reals) {
            self.full.push((level, request.leaf));
        }
        let name = ChunkName { array: self.array, chunk, version: head.version };
        if self.replaying {
            return self.take_unasked(chunk, index);
        }
        let reads = match self.xor {
            true => &mut self.plan.paths,
            false => self.plan.window(self.window_cells),
        };
        match index {
            Some(index) => {
                let payload = self.handles.claim();
                let slot = self.buckets.take_real(chunk, index);
                reads.push(name, slot, request.block, payload);
                Some(payload)
            }
            None => {
                reads.push(name, self.buckets.take_dummy(chunk), mark::DUMMY, Handle::NONE);
                if self.canary.forgets_read() {
                    self.buckets.head_mut(chunk).next_dummy -= 1;
                }
                None
            }
        }
    }

    /// As a read of the bucket at `chunk` that is not sent.
    fn take_unasked(&mut self, chunk: u32, index: Option<u16>) -> Option<Handle> {
        let Some(index) = index else {
            self.buckets.head_mut(chunk).next_dummy += 1;
            return None;
        };
        self.buckets.take_real(chunk, index);
        Some(self.handles.claim())
    }

    /// Marks where the cells of one XORed path end; a path without cells asks for nothing.
    fn end_path(&mut self) {
        let end = self.plan.paths.message.len() as u32;
        if end > self.plan.path_ends.last().copied().unwrap_or(0) {
            self.plan.path_ends.push(end);
        }
    }

    /// EarlyReshuffle: rewrites the buckets that have served S reads.
    fn reshuffle_full(&mut self) {
        while let Some((level, leaf)) = self.full.pop() {
            if self.buckets.head(self.geometry.chunk(level, leaf)).image == NO_IMAGE {
                self.reshuffle(level, leaf);
            }
        }
    }

    fn take_from_image(&mut self, image: u32, level: u8, index: u16) -> Handle {
        let (kept, moved) = self.images.remove(image, index);
        if let Some(moved) = moved {
            self.positions.set_location(moved, Location::Bucket { level, index });
        }
        kept.payload
    }

    fn make_stale(&mut self, level: u8, leaf: u32, index: u16) {
        let chunk = self.geometry.chunk(level, leaf);
        match self.buckets.head(chunk).image {
            NO_IMAGE => self.buckets.reals_mut(chunk)[usize::from(index)] = mark::STALE,
            image => {
                let payload = self.take_from_image(image, level, index);
                self.retired.push(payload);
            }
        }
    }

    /// Whether a canary keeps the block's path from being read.
    fn is_served_as_residue(&self, block: u32) -> bool {
        self.canary.serves_residue(block, self.positions.location(block), self.evictions)
    }

    /// The leaf a block is mapped to; none for a dummy.
    pub(super) fn mapped_to(&self, block: u32) -> Option<u32> {
        if block == mark::DUMMY { None } else { self.positions.leaf(block) }
    }

    /// Gives payloads back that no planned read can fill any more.
    pub(super) fn release_retired(&mut self) {
        for handle in self.retired.drain(..) {
            self.handles.release(handle);
        }
    }

    /// Takes a block into the stash.
    pub(super) fn hold(&mut self, held: StashedBlock) {
        let index = self.stash.push(held);
        self.positions.set_leaf(held.block, held.leaf);
        self.positions.set_location(held.block, Location::Stash { index });
    }

    /// Takes a block out of the stash.
    pub(super) fn unhold(&mut self, leaf: u32, index: u32) -> StashedBlock {
        let (held, moved) = self.stash.remove(leaf, index);
        if let Some(moved) = moved {
            self.positions.set_location(moved, Location::Stash { index });
        }
        held
    }
}

fn uniform_leaf(stream: &mut Stream, geometry: &Geometry, canary: &mut Canary) -> u32 {
    canary.draw(stream.next_u32()) & (geometry.tree.leaves() - 1)
}

/// A uniform draw below `bound` (multiply-shift with rejection).
fn below(stream: &mut Stream, bound: u32) -> u32 {
    let threshold = bound.wrapping_neg() % bound;
    loop {
        let product = u64::from(stream.next_u32()) * u64::from(bound);
        if product as u32 >= threshold {
            return (product >> 32) as u32;
        }
    }
}
