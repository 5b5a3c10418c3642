//! What a store sees of an engine that is not there: a tree of buckets read in fixed batches on a
//! fixed grid, honest or with one leak. Only what the leak is about differs between two histories.

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::trace::{ChunkCells, ChunkSeen, Condition, Done, Event, Outcome, Request, Sent};
use fogbank_store::{ArrayId, ArrayShape, ChunkName};
use rand_core::Rng;

const ARRAY: ArrayId = ArrayId(0);
const LEAF_LEVEL: u32 = 8;
const REALS: usize = 4;
const CELLS: u16 = 12;
const PATHS: usize = 8;
/// Batches of an epoch, after which written buckets go out.
const EPOCH: u64 = 4;
const INTERVAL: u64 = 1_000_000;

/// What the busy history gives away that the idle one does not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Leak {
    Nothing,
    /// An access reads a leaf that was read just before.
    HotLeaf,
    /// The same, of one leaf through the whole run.
    OneLeaf,
    /// An access is left out.
    Count,
    /// An access makes its message later.
    Timing,
    /// Cells to be retired are asked for with the real ones first.
    RealsFirst,
    /// An access avoids the half last evicted.
    Place,
    /// An access makes the journal's record longer.
    Blob,
    /// A message with nothing to do is left out.
    Skip,
    /// An access reads the first unread cell.
    FirstCell,
}

pub(super) const LEAKS: [Leak; 8] = [
    Leak::HotLeaf,
    Leak::Count,
    Leak::Timing,
    Leak::RealsFirst,
    Leak::Place,
    Leak::Blob,
    Leak::Skip,
    Leak::FirstCell,
];

/// One run: a leak, in which share of accesses it shows, and a delay that is this run's own.
pub(super) struct Cloud {
    random: Stream,
    leak: Leak,
    share: f64,
    own_delay: u64,
    buckets: Vec<Bucket>,
    written: Vec<u32>,
    evictions: u32,
    last_half: u32,
    hot: u32,
    id: u64,
    now: u64,
    events: Vec<Event>,
}

#[derive(Clone)]
struct Bucket {
    version: u64,
    unread: Vec<u16>,
}

impl Cloud {
    pub(super) fn new(seed: u64, run: u64, leak: Leak, share: f64) -> Self {
        let bucket = Bucket { version: 0, unread: (0..CELLS).collect() };
        let mut cloud = Self {
            random: Randomness::repeatable(seed).split(run).stream(Purpose::Workload),
            leak,
            share,
            own_delay: 0,
            buckets: vec![bucket; (2 << LEAF_LEVEL) - 1],
            written: Vec::new(),
            evictions: 0,
            last_half: 0,
            hot: 0,
            id: 0,
            now: 0,
            events: Vec::new(),
        };
        let chunks = (2 << LEAF_LEVEL) - 1;
        let shape = ArrayShape { chunks, cells_per_chunk: CELLS, cell_bytes: 100 };
        cloud.send(Request::CreateArray { array: ARRAY, shape }, Outcome::Done);
        cloud
    }

    /// Gives the run a delay of its own, other than any other run's.
    pub(super) fn with_own_delay(mut self) -> Self {
        self.own_delay = self.below(100_000);
        self
    }

    /// The events of so many batches.
    pub(super) fn run(mut self, batches: u64) -> Vec<Event> {
        for batch in 0..batches {
            self.batch(batch);
        }
        self.events
    }

    fn batch(&mut self, batch: u64) {
        let leaking: Vec<bool> = (0..PATHS).map(|_| self.chance(self.share)).collect();
        let any = leaking.contains(&true);
        self.now = (self.now / INTERVAL + 1) * INTERVAL + self.below(100_000);
        if batch == 0 || batch.is_multiple_of(50) && self.leak == Leak::HotLeaf {
            self.hot = self.below(1 << LEAF_LEVEL) as u32;
        }
        if self.leak == Leak::Skip && leaking[0] {
            return;
        }
        let mut reads = Vec::new();
        for leaks in leaking.iter().copied() {
            self.access(leaks, &mut reads);
        }
        self.evict(any, &mut reads);
        let leaked =
            |leak| if self.leak == leak { leaking.iter().filter(|&&l| l).count() } else { 0 };
        self.now += 40_000 * leaked(Leak::Timing) as u64;
        let record = 1000 + 16 * leaked(Leak::Blob) as u64;
        let seen = ChunkSeen { bytes: 100, fingerprints: Vec::new() };
        let cells = reads.iter().map(|read: &ChunkCells| read.cells.len()).sum();
        self.send(Request::ReadCells { reads }, Outcome::Cells(vec![Some(seen); cells]));
        let condition = Condition::Always;
        let name = format!("journal/{batch}");
        let put = Request::BlobPut { name, bytes: record, condition, fingerprint: batch };
        self.send(put, Outcome::Put(true));
        if batch % EPOCH == EPOCH - 1 {
            self.write_back();
        }
    }

    fn access(&mut self, leaks: bool, reads: &mut Vec<ChunkCells>) {
        let leaf = match self.leak {
            Leak::Count if leaks => return,
            Leak::HotLeaf | Leak::OneLeaf if leaks => self.hot,
            Leak::Place if leaks => {
                let half = 1 << (LEAF_LEVEL - 1);
                self.below(half) as u32 + (1 - self.last_half) * half as u32
            }
            _ => self.below(1 << LEAF_LEVEL) as u32,
        };
        for level in 0..=LEAF_LEVEL {
            let chunk = bucket(level, leaf);
            if self.buckets[chunk as usize].unread.len() <= REALS {
                self.retire(chunk, false, reads);
            }
            let unread = self.buckets[chunk as usize].unread.len() as u64;
            let first = leaks && self.leak == Leak::FirstCell;
            let rank = if first { 0 } else { self.below(unread) };
            let bucket = &mut self.buckets[chunk as usize];
            let cells = vec![bucket.unread.remove(rank as usize)];
            reads.push(ChunkCells { chunk: name(chunk, bucket.version), cells });
        }
    }

    fn evict(&mut self, leaks: bool, reads: &mut Vec<ChunkCells>) {
        let leaf = self.evictions.reverse_bits() >> (32 - LEAF_LEVEL);
        self.evictions += 1;
        self.last_half = leaf >> (LEAF_LEVEL - 1);
        (0..=LEAF_LEVEL).for_each(|level| self.retire(bucket(level, leaf), leaks, reads));
    }

    /// Reads Z unread cells of a bucket and gives it a new version.
    fn retire(&mut self, chunk: u32, leaks: bool, reads: &mut Vec<ChunkCells>) {
        let mut cells = Vec::new();
        for _ in 0..REALS {
            let unread = self.buckets[chunk as usize].unread.len() as u64;
            let rank = self.below(unread);
            cells.push(self.buckets[chunk as usize].unread.remove(rank as usize));
        }
        if !(leaks && self.leak == Leak::RealsFirst) {
            cells.sort_unstable();
        }
        let bucket = &mut self.buckets[chunk as usize];
        reads.push(ChunkCells { chunk: name(chunk, bucket.version), cells });
        *bucket = Bucket { version: bucket.version + 1, unread: (0..CELLS).collect() };
        self.written.push(chunk);
    }

    fn write_back(&mut self) {
        let mut written = std::mem::take(&mut self.written);
        written.sort_unstable();
        written.dedup();
        let seen = ChunkSeen { bytes: 100 * u64::from(CELLS), fingerprints: Vec::new() };
        let image =
            |&chunk: &u32| (name(chunk, self.buckets[chunk as usize].version), seen.clone());
        let writes = written.iter().map(image).collect();
        self.send(Request::WriteChunks { writes }, Outcome::Done);
    }

    fn send(&mut self, request: Request, outcome: Outcome) {
        let (id, at) = (self.id, self.now);
        self.events.push(Event::Sent(Sent { id, at, cloud: 0, connection: 0, request }));
        self.now += 50_000 + self.own_delay + self.below(50_000);
        self.events.push(Event::Done(Done { id, at: self.now, outcome }));
        self.id += 1;
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn chance(&mut self, share: f64) -> bool {
        (self.random.next_u64() >> 11) as f64 / ((1u64 << 53) as f64) < share
    }
}

fn bucket(level: u32, leaf: u32) -> u32 {
    (1 << level) - 1 + (leaf >> (LEAF_LEVEL - level))
}

fn name(chunk: u32, version: u64) -> ChunkName {
    ChunkName { array: ARRAY, chunk, version }
}
