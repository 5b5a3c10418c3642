//! Figures of the metadata plane alone: cells an access, and the tail of the stash.

use fogbank_env::Randomness;

use super::{below, workload};
use crate::geometry::{BucketShape, Geometry, version};
use crate::position::Location;
use crate::ring::RingSettings;
use crate::ring::bucket::mark;
use crate::ring::plan::Planner;
use crate::{BatchShape, ring};

/// A metadata plane without payloads, keys or a cloud.
pub struct Plane {
    pub planner: Planner,
    epoch_buffer: bool,
    tick: u64,
    evicted_at: Vec<u64>, // by block: evictions when it was last accessed
    read: u64,
    written: u64,
}

impl Plane {
    pub fn new(settings: &RingSettings, geometry: Geometry, seed: u64) -> Self {
        let planner = Planner::new(geometry, settings, settings.xor, &Randomness::repeatable(seed));
        let evicted_at = vec![0; geometry.capacity as usize];
        let epoch_buffer = settings.epoch_buffer;
        Self { planner, epoch_buffer, tick: 0, evicted_at, read: 0, written: 0 }
    }

    pub fn load(&mut self) {
        for block in 0..self.planner.geometry.capacity {
            self.put(block);
        }
    }

    pub fn put(&mut self, block: u32) {
        let payload = self.planner.handles.claim();
        self.planner.put(block, payload);
        self.planner.count_access();
        self.done();
    }

    /// One access of `block` on its path; `mark::DUMMY` pads.
    pub fn access(&mut self, block: u32) {
        if block != mark::DUMMY {
            self.evicted_at[block as usize] = self.planner.evictions;
        }
        for request in self.planner.pad_and_shuffle(&[block], 1) {
            self.planner.access(&request);
        }
        self.done();
    }

    /// Whether an eviction has left `block` in the stash.
    pub fn is_residue(&self, block: u32) -> bool {
        matches!(self.planner.positions.location(block), Some(Location::Stash { .. }))
            && self.evicted_at[block as usize] != self.planner.evictions
    }

    pub fn commit(&mut self) {
        self.tick += 1;
        let images = self.planner.images.by_chunk();
        let slots = usize::from(self.planner.geometry.bucket.slots());
        self.written += (images.len() * slots) as u64;
        let orders = vec![0; images.len() * slots];
        self.planner.settle(version(1, self.tick), &images, &orders);
        self.planner.superseded.clear();
    }

    fn done(&mut self) {
        let plan = &mut self.planner.plan;
        self.read += (plan.cell_count() + plan.path_ends.len()) as u64;
        plan.take_windows().into_iter().for_each(|window| plan.give_back(window));
        drop(plan.take_paths());
        for handle in std::mem::take(&mut self.planner.retired) {
            self.planner.handles.release(handle);
        }
        if !self.epoch_buffer && !self.planner.images.is_empty() {
            self.commit();
        }
    }
}

/// Cells an access in steady state: R batches of 500 reads and one of `writes`.
fn cells_per_access(adjust: impl Fn(&mut RingSettings), batches: usize, writes: usize) -> f64 {
    let shape =
        BatchShape { capacity: 100_000, value_bytes: 1024, read_batch: 500, write_batch: 500 };
    let mut settings =
        RingSettings { bucket: Some(BucketShape::OBLADI), ..RingSettings::new(shape, batches) };
    adjust(&mut settings);
    let mut plane = Plane::new(&settings, settings.geometry().unwrap(), 1);
    let mut random = workload(9);
    plane.load();
    plane.commit();
    let all_buckets_written = 2048 * 168;
    let (mut accesses, warm) = (0, all_buckets_written / (batches * 500 + writes));
    for epoch in 0..warm + warm / 3 {
        if epoch == warm {
            (accesses, plane.read, plane.written) = (0, 0, 0);
        }
        for _ in 0..batches * 500 {
            plane.access(below(&mut random, 100_000));
        }
        for _ in 0..writes {
            plane.put(below(&mut random, 100_000));
        }
        plane.commit();
        accesses += batches * 500 + writes;
    }
    let (most, bound) = (plane.planner.stash.len_max(), plane.planner.geometry.stash_blocks_max());
    assert!(most <= bound as usize, "the stash held {most}, above its bound {bound}");
    (plane.read + plane.written) as f64 / accesses as f64
}

#[track_caller]
fn near(found: f64, expected: f64, share: f64) {
    println!("{found:.2} cells an access, expected {expected}");
    assert!((found / expected - 1.0).abs() <= share, "{found} is not near {expected}");
}

#[test]
fn buffered_epochs_move_as_many_cells_as_published() {
    near(cells_per_access(|_| {}, 8, 500), 25.4, 0.03);
    near(cells_per_access(|_| {}, 1, 500), 29.0, 0.03);
}

#[test]
fn without_the_buffer_it_is_plain_ring_oram() {
    near(cells_per_access(|settings| settings.epoch_buffer = false, 1, 0), 40.8, 0.03);
}

#[test]
fn the_cached_top_and_xor_halve_it() {
    let cached = cells_per_access(|settings| settings.cache_bytes = 32 << 20, 8, 500);
    println!("{cached:.2} cells an access with 32 MiB of cache");
    assert!(cached <= 13.5, "{cached}");
    let xor = cells_per_access(|settings| settings.xor = true, 8, 500);
    println!("{xor:.2} cells an access with XOR");
    assert!(xor < 20.5, "{xor}");
}

/// Bits by which one more block in the residue is less likely, from a scan of a full tree.
///
/// The tree is small enough to be fast and large enough that the slope does not depend on it.
fn tail_slope(reals: u16, evict_every: u16, evictions: u64, shallow_first: bool) -> f64 {
    let bucket = BucketShape::new(reals, 4 * evict_every, evict_every);
    let capacity = u32::from(evict_every) << 7;
    let geometry = Geometry::new(capacity, 1, bucket, 0).unwrap();
    assert_eq!(geometry.leaf_level(), 8);
    let shape = BatchShape { capacity, value_bytes: 1, read_batch: 1, write_batch: 1 };
    let mut plane = Plane::new(&RingSettings::new(shape, 1), geometry, 4);
    plane.planner.shallow_first = shallow_first;
    plane.load();
    let (mut residues, mut seen) = (vec![0u64; 4096], plane.planner.evictions);
    for access in 0..evictions * u64::from(evict_every) {
        plane.put((access % u64::from(capacity)) as u32);
        if plane.planner.evictions != seen && access > 4 * u64::from(capacity) {
            seen = plane.planner.evictions;
            residues[plane.planner.stash.len().min(4095)] += 1;
        }
    }
    slope_of_tail(&residues)
}

/// The least-squares slope of -log2 Pr[residue > R] where the tail is thin but well counted.
fn slope_of_tail(residues: &[u64]) -> f64 {
    let all: u64 = residues.iter().sum();
    let mut above = all;
    let mut points = Vec::new();
    for (residue, count) in residues.iter().enumerate() {
        above -= count;
        if above * 16 < all && above >= 15 {
            points.push((residue as f64, (all as f64 / above as f64).log2()));
        }
    }
    let n = points.len() as f64;
    if n < 3.0 {
        return 0.0;
    }
    let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let covariance: f64 = points.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
    covariance / points.iter().map(|(x, _)| (x - mx).powi(2)).sum::<f64>()
}

#[track_caller]
fn has_slope(reals: u16, evict_every: u16, evictions: u64, simulated: f64) {
    let slope = tail_slope(reals, evict_every, evictions, false);
    println!("Z={reals} A={evict_every}: {slope:.2} bits a block, expected {simulated}");
    assert!((slope / simulated - 1.0).abs() < 0.15, "Z={reals} A={evict_every}: {slope}");
}

#[test]
fn the_stash_has_the_simulated_tail_with_small_buckets() {
    has_slope(4, 3, 10_000_000, 2.55);
}

#[test]
fn the_stash_has_the_simulated_tail_with_larger_buckets() {
    has_slope(8, 8, 4_000_000, 2.11);
}

/// The canary: an eviction that fills the root first is correct for the data, and this catches it.
#[test]
fn an_eviction_that_fills_the_root_first_is_caught() {
    let slope = tail_slope(4, 3, 40_000, true);
    println!("shallow first: {slope:.2} bits a block");
    assert!(slope < 2.55 * 0.85, "{slope}");
}

/// Not a check: how long planning takes. Run by name with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn plan_time() {
    use fogbank_env::{Clock, SystemClock};
    let shape =
        BatchShape { capacity: 100_000, value_bytes: 1024, read_batch: 500, write_batch: 500 };
    let settings =
        RingSettings { bucket: Some(BucketShape::OBLADI), ..ring::RingSettings::new(shape, 8) };
    let mut plane = Plane::new(&settings, settings.geometry().unwrap(), 1);
    let (mut random, clock) = (workload(9), SystemClock::new());
    plane.load();
    plane.commit();
    for _ in 0..60 {
        let start = clock.now();
        for _ in 0..4000 {
            plane.access(below(&mut random, 100_000));
        }
        for _ in 0..500 {
            plane.put(below(&mut random, 100_000));
        }
        let planned = clock.now();
        plane.commit();
        let settled = clock.now();
        println!("plan {} us, settle {} us", (planned - start) / 1000, (settled - planned) / 1000);
    }
}
