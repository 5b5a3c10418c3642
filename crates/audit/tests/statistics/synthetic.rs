//! A toy of the public state machine, and leaks of known size planted in it.

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_audit::{Observation, Observer};
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::trace::{PublicConfig, TraceClock};
use rand_core::Rng;

/// What a run gives away, and in which share of its accesses, cells or reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Leak {
    Nothing,
    /// Reads the leaf that was read so many reads before.
    RepeatsLeaf {
        share: f64,
        lag: usize,
    },
    /// Reads a leaf of this batch again.
    RepeatsInBatch {
        share: f64,
    },
    /// Reads the leaf that had the same place so many batches before.
    RepeatsAcross {
        share: f64,
        batches: usize,
    },
    /// Reads the first half of the tree with a probability higher by this.
    LeansToHalf {
        shift: f64,
    },
    /// Reads the half evicted last with a probability higher by this.
    LeansToEvicted {
        shift: f64,
    },
    /// Reads the leaf that every other such run reads at this place.
    RepeatsRun {
        share: f64,
    },
    /// Leaves of a generator with 16 bits of state.
    WeakLeaves,
    /// Takes the first unread cell.
    FrontCell {
        share: f64,
    },
    /// Retires the first Z unread cells.
    FrontRetired {
        share: f64,
    },
    /// Takes the cell that was the n-th in the version before, if it is unread.
    ReusedPermutation {
        share: f64,
    },
    /// Takes the cell of the same number, if it is unread.
    NoPermutation {
        share: f64,
    },
    /// Writes so many ciphertexts a second time.
    CopiedCells {
        copies: u64,
    },
    /// The commit record of the last epoch has one byte more.
    LongBlob,
    /// Departures of the second half are later in this share of cases.
    LateUnderLoad {
        share: f64,
    },
    /// This share of messages misses its point by three.
    MissesPoints {
        share: f64,
    },
}

#[derive(Debug, Clone)]
pub struct Synthetic {
    pub config: PublicConfig,
    pub ring: RingConfig,
    pub seed: u64,
    pub leak: Leak,
    /// Without them a run is far cheaper.
    pub cells: bool,
}

impl Synthetic {
    pub fn new(seed: u64, leak: Leak) -> Self {
        let config = config(5);
        Self { ring: config.tail().expect("a tail of ring"), config, seed, leak, cells: true }
    }

    pub fn leaves_only(seed: u64, leak: Leak) -> Self {
        Self { cells: false, ..Self::new(seed, leak) }
    }

    fn ring(&self) -> &RingConfig {
        &self.ring
    }

    pub fn observe(&self, accesses: u64, observer: &mut impl Observer) {
        Run::new(self, accesses).go(observer);
    }
}

/// A small shape: Z = 4, S = 6, A = 3, batches of 8, four to an epoch and 8 write slots.
pub fn config(leaf_level: u8) -> PublicConfig {
    let ring = RingConfig {
        read_batches: 4,
        read_batch: 8,
        write_batch: 8,
        interval_ns: 1_000_000,
        slack_ns: 0,
        quantum_ns: 250_000,
        reals: 4,
        dummies: 6,
        evict_every: 3,
        leaf_level,
        cached_levels: 0,
        array: 1,
        cell_bytes: 128,
        window_cells: 1 << 16,
        window_chunks: 1 << 16,
        image_points: 0,
        windows: 1,
        in_flight: 1,
        pauses: false,
        epoch_buffer: true,
        prefetch: false,
        xor: false,
        keep_superseded: false,
        vault: None,
    };
    PublicConfig::new(TraceClock::Real, "ring", (64, 64), ring)
}

#[derive(Debug, Clone, Default)]
struct Bucket {
    version: u64,
    unread: Vec<u16>,
    chosen: Vec<u16>,
    before: Vec<u16>,
}

struct Run<'a> {
    of: &'a Synthetic,
    accesses: u64,
    random: Stream,
    /// What is planted draws for itself, so that the honest part stays as it was.
    planted: Stream,
    weak: u16,
    /// The same in all runs.
    common: Stream,
    leaves: Vec<u32>,
    evicted: u32,
    evictions: u32,
    buckets: Vec<Bucket>,
    images: u64,
    copied: Vec<u64>,
    epoch: u64,
    epochs: u64,
}

impl<'a> Run<'a> {
    fn new(of: &'a Synthetic, accesses: u64) -> Self {
        let ring = of.ring();
        let cells = ring.reals + ring.dummies;
        let fresh = Bucket { unread: (0..cells).collect(), ..Bucket::default() };
        let an_epoch = u64::from(ring.read_batches * ring.read_batch + ring.write_batch);
        let random = Randomness::repeatable(of.seed);
        Self {
            of,
            accesses,
            planted: random.stream(Purpose::Faults),
            random: random.stream(Purpose::Leaves),
            common: Randomness::repeatable(u64::MAX).stream(Purpose::Leaves),
            weak: of.seed as u16 ^ 12345,
            leaves: Vec::new(),
            evicted: 0,
            evictions: 0,
            buckets: vec![fresh; (2 << ring.leaf_level) - 1],
            images: 0,
            copied: Vec::new(),
            epoch: 0,
            epochs: accesses.div_ceil(an_epoch),
        }
    }

    fn go(mut self, observer: &mut impl Observer) {
        let ring = self.of.ring();
        let (mut access, mut batch) = (0, 0);
        while access < self.accesses {
            for number in 0..ring.read_batches {
                self.depart(number, observer);
                for _ in 0..ring.read_batch {
                    self.read(batch, access, observer);
                    access += 1;
                    self.evict_if_due(access, observer);
                }
                batch += 1;
            }
            self.depart(ring.read_batches, observer);
            for _ in 0..ring.write_batch {
                access += 1;
                self.evict_if_due(access, observer);
            }
            self.commit(observer);
            self.epoch += 1;
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// Whether the leak shows this time.
    fn shows(&mut self, share: f64) -> bool {
        f64::from(self.planted.next_u32()) < share * 2.0_f64.powi(32)
    }

    fn depart(&mut self, batch: u32, observer: &mut impl Observer) {
        let cause = self.epoch * 10_000_000 + u64::from(batch) * 1_000_000;
        let mut late = 50_000 + u64::from(self.below(40_000));
        if let Leak::LateUnderLoad { share } = self.of.leak
            && self.epoch >= self.epochs / 2
            && self.shows(share)
        {
            late = 100_000;
        }
        let misses = match self.of.leak {
            Leak::MissesPoints { share } => self.shows(share),
            _ => false,
        };
        let missed = if misses { 3 } else { 0 };
        observer.observe(&Observation::Departed {
            at: cause + late,
            cause,
            missed,
            epoch: self.epoch,
            batch,
        });
    }

    fn read(&mut self, batch: u64, access: u64, observer: &mut impl Observer) {
        let leaf = self.leaf();
        self.leaves.push(leaf);
        let epoch = self.epoch;
        observer.observe(&Observation::Path {
            epoch,
            batch,
            access,
            leaf,
            whole: true,
            shown: true,
            stretch: batch,
        });
        if self.of.cells {
            let deepest = self.of.ring().leaf_level;
            for level in 0..=deepest {
                self.take(level, leaf >> (deepest - level), observer);
            }
        }
    }

    fn leaf(&mut self) -> u32 {
        let ring = self.of.ring();
        let honest = self.below(1 << ring.leaf_level);
        let top = 1 << (ring.leaf_level - 1);
        let (read, place) = (self.leaves.len(), self.leaves.len() % ring.read_batch as usize);
        let earlier = |back: usize| (read >= back).then(|| read - back);
        let back = 1 + self.below(place.max(1) as u32) as usize;
        let leak = self.of.leak;
        let common = self.common.next_u32() >> (32 - ring.leaf_level);
        match leak {
            Leak::RepeatsRun { share } if self.shows(share) => common,
            Leak::RepeatsLeaf { share, lag } => match earlier(lag) {
                Some(at) if self.shows(share) => self.leaves[at],
                _ => honest,
            },
            // The first of a batch has none to repeat: the others make up for it.
            Leak::RepeatsInBatch { share } => {
                let size = f64::from(ring.read_batch);
                let repeats = place > 0 && self.shows(share * size / (size - 1.0));
                if repeats { self.leaves[read - back] } else { honest }
            }
            Leak::RepeatsAcross { share, batches } => {
                match earlier(batches * ring.read_batch as usize) {
                    Some(at) if self.shows(share) => self.leaves[at],
                    _ => honest,
                }
            }
            Leak::LeansToHalf { shift } if self.shows(2.0 * shift) => honest & !top,
            Leak::LeansToEvicted { shift } if self.shows(2.0 * shift) => {
                honest & !top | self.evicted & top
            }
            Leak::WeakLeaves => {
                self.weak = self.weak.wrapping_mul(25_173).wrapping_add(13_849);
                u32::from(self.weak) & ((1 << ring.leaf_level) - 1)
            }
            _ => honest,
        }
    }

    fn take(&mut self, level: u8, index: u32, observer: &mut impl Observer) {
        let chunk = (1 << level) - 1 + index;
        let unread = self.buckets[chunk as usize].unread.len() as u32;
        let honest = self.below(unread);
        let rank = self.planted_rank(chunk as usize).unwrap_or(honest);
        let bucket = &mut self.buckets[chunk as usize];
        let nth = bucket.chosen.len() as u16;
        let cell = bucket.unread.remove(rank as usize);
        bucket.chosen.push(cell);
        observer.observe(&Observation::PathCell {
            chunk,
            level,
            version: bucket.version,
            nth,
            cell,
            unread: unread as u16,
            rank: rank as u16,
        });
        if nth + 1 == self.of.ring().dummies {
            self.rewrite(level, chunk, observer);
        }
    }

    fn planted_rank(&mut self, chunk: usize) -> Option<u32> {
        let (share, bucket) = match self.of.leak {
            Leak::FrontCell { share } => return self.shows(share).then_some(0),
            Leak::ReusedPermutation { share } | Leak::NoPermutation { share } => {
                (share, &self.buckets[chunk])
            }
            _ => return None,
        };
        let nth = bucket.chosen.len();
        let cell = match self.of.leak {
            Leak::NoPermutation { .. } => nth as u16,
            _ => *bucket.before.get(nth)?,
        };
        let rank = bucket.unread.iter().position(|&unread| unread == cell)? as u32;
        self.shows(share).then_some(rank)
    }

    fn evict_if_due(&mut self, access: u64, observer: &mut impl Observer) {
        let ring = self.of.ring();
        if !access.is_multiple_of(ring.evict_every.into()) {
            return;
        }
        let deepest = ring.leaf_level;
        let mask = (1 << deepest) - 1;
        self.evicted = (self.evictions & mask).reverse_bits() >> (32 - u32::from(deepest));
        self.evictions += 1;
        observer.observe(&Observation::Evicted { leaf: self.evicted, access });
        if self.of.cells {
            for level in 0..=deepest {
                let chunk = (1 << level) - 1 + (self.evicted >> (deepest - level));
                self.rewrite(level, chunk, observer);
            }
        }
    }

    fn rewrite(&mut self, level: u8, chunk: u32, observer: &mut impl Observer) {
        let ring = self.of.ring();
        let unread = self.buckets[chunk as usize].unread.len() as u32;
        let leak = self.of.leak;
        let ranks = match leak {
            Leak::FrontRetired { share } if self.shows(share) => (0..ring.reals).collect(),
            _ => self.subset(unread, ring.reals.into()),
        };
        let version = self.buckets[chunk as usize].version;
        let retired =
            Observation::Retired { chunk, level, version, unread: unread as u16, ranks: &ranks };
        observer.observe(&retired);
        let bucket = &mut self.buckets[chunk as usize];
        bucket.version += 1;
        bucket.unread = (0..ring.reals + ring.dummies).collect();
        bucket.before = std::mem::take(&mut bucket.chosen);
        self.image(chunk, version + 1, observer);
    }

    fn subset(&mut self, of: u32, mut wanted: u32) -> Vec<u16> {
        let mut ranks = Vec::new();
        for rank in 0..of {
            if self.below(of - rank) < wanted {
                ranks.push(rank as u16);
                wanted -= 1;
            }
        }
        ranks
    }

    fn image(&mut self, chunk: u32, version: u64, observer: &mut impl Observer) {
        let ring = self.of.ring();
        let mut fingerprints: Vec<u64> =
            (0..ring.reals + ring.dummies).map(|_| self.random.next_u64()).collect();
        if let Leak::CopiedCells { copies } = self.of.leak {
            self.copied.push(fingerprints[0]);
            if self.images > 50 && self.images <= 50 + copies {
                fingerprints[1] = self.copied[self.images as usize - 50];
            }
        }
        self.images += 1;
        observer.observe(&Observation::Image { chunk, version, fingerprints: &fingerprints });
    }

    fn commit(&mut self, observer: &mut impl Observer) {
        self.depart(self.of.ring().read_batches + 1, observer);
        let last = self.epoch + 1 == self.epochs;
        let bytes = 500 + u64::from(last && self.of.leak == Leak::LongBlob);
        let fingerprint = self.random.next_u64();
        observer.observe(&Observation::Blob { kind: "commit", bytes, fingerprint });
    }
}
