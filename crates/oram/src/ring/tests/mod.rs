//! The engine through a recording cloud, and its metadata plane alone.

mod cloud;
mod data;
mod epochs;
mod figures;
mod lies;
mod oracle;
mod recovery;
mod replay_time;
mod scan;
mod trace;

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::{Mutex, Purpose, Randomness, Stream};
use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
use rand_core::Rng;

use self::cloud::Cloud;
use super::{ReadJournal, RingEngine, RingSettings};
use crate::geometry::BucketShape;
use crate::{BatchEngine, BatchShape, Result, Section};

/// The keys of `openings` openings of one store.
fn keys(openings: u8) -> Arc<KeyRing> {
    let master = MasterKey::from_bytes(&mut [7; 32]);
    let salts: Vec<Salt> = (1..=openings).map(|opening| Salt([opening; 16])).collect();
    Arc::new(KeyRing::derive(&master, StoreId([3; 16]), &salts).unwrap())
}

/// Small buckets, so that evictions, reshuffles and full buckets are frequent.
fn settings(capacity: u32, bucket: (u16, u16, u16)) -> RingSettings {
    let shape = BatchShape { capacity, value_bytes: 24, read_batch: 8, write_batch: 5 };
    let (reals, dummies, evict_every) = bucket;
    let bucket = Some(BucketShape::new(reals, dummies, evict_every));
    RingSettings { bucket, ..RingSettings::new(shape, 2) }
}

async fn engine(cloud: &Arc<Cloud>, settings: RingSettings, seed: u64) -> RingEngine {
    let randomness = Randomness::repeatable(seed);
    RingEngine::create(cloud.clone(), keys(1), settings, &randomness).await.unwrap()
}

/// All sections of a checkpoint.
fn saved(engine: &mut RingEngine) -> Vec<Section> {
    engine.save().unwrap().map(std::result::Result::unwrap).collect()
}

fn workload(seed: u64) -> Stream {
    Randomness::repeatable(seed).stream(Purpose::Workload)
}

fn below(stream: &mut Stream, bound: u32) -> u32 {
    stream.next_u32() % bound
}

/// Keeps journal records for the test that made it.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<Vec<u8>>>>);

impl Journal {
    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock())
    }
}

#[async_trait]
impl ReadJournal for Journal {
    async fn append(&mut self, record: &[u8]) -> Result<()> {
        self.0.lock().push(record.to_vec());
        Ok(())
    }
}

/// The leaves in a journal record of a read batch.
fn leaves_of(record: &[u8]) -> Vec<u32> {
    record[1..].chunks(8).map(|r| u32::from_le_bytes(r[4..].try_into().unwrap())).collect()
}

/// Pearson's statistic of `counts` against equal expectations, in standard deviations from its
/// mean.
fn chi_square_sigmas(counts: &[u64]) -> f64 {
    let cells = counts.len() as f64;
    let expected = counts.iter().sum::<u64>() as f64 / cells;
    let statistic: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
    (statistic - (cells - 1.0)) / (2.0 * (cells - 1.0)).sqrt()
}
