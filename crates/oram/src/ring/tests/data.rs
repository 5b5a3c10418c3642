//! What is written is what is read, in every mode.

use std::sync::Arc;

use fogbank_env::Randomness;

use super::cloud::Cloud;
use super::keys;
use crate::geometry::BucketShape;
use crate::ring::{RingEngine, RingSettings};
use crate::{BatchShape, conformance};

async fn make(shape: BatchShape, adjust: impl Fn(&mut RingSettings)) -> RingEngine {
    let mut settings = RingSettings::new(shape, 2);
    adjust(&mut settings);
    let cloud = Arc::new(Cloud::that_xors());
    let randomness = Randomness::repeatable(u64::from(shape.capacity));
    RingEngine::create(cloud, keys(1), settings, &randomness).await.unwrap()
}

#[tokio::test]
async fn as_chosen() {
    conformance::run(|shape| make(shape, |_| {})).await;
}

#[tokio::test]
async fn with_the_least_buckets() {
    conformance::run(|shape| make(shape, |s| s.bucket = Some(BucketShape::new(1, 1, 1)))).await;
}

#[tokio::test]
async fn with_the_smallest_proven_buckets() {
    conformance::run(|shape| make(shape, |s| s.bucket = Some(BucketShape::PROVEN[0]))).await;
}

#[tokio::test]
async fn without_the_epochs_buffer() {
    let adjust = |s: &mut RingSettings| {
        s.bucket = Some(BucketShape::PROVEN[0]);
        s.epoch_buffer = false;
    };
    conformance::run(|shape| make(shape, adjust)).await;
}

#[tokio::test]
async fn with_the_top_cached() {
    let adjust = |s: &mut RingSettings| {
        s.bucket = Some(BucketShape::PROVEN[0]);
        s.cache_bytes = u64::MAX;
    };
    conformance::run(|shape| make(shape, adjust)).await;
}

#[tokio::test]
async fn with_evictions_fetched_ahead() {
    let adjust = |s: &mut RingSettings| {
        s.bucket = Some(BucketShape::PROVEN[0]);
        s.prefetch = true;
        s.cache_bytes = 1000;
    };
    conformance::run(|shape| make(shape, adjust)).await;
}

#[tokio::test]
async fn with_xored_paths() {
    let adjust = |s: &mut RingSettings| {
        s.bucket = Some(BucketShape::PROVEN[0]);
        s.xor = true;
    };
    conformance::run(|shape| make(shape, adjust)).await;
    let cached = |s: &mut RingSettings| {
        adjust(s);
        s.cache_bytes = 2000;
        s.epoch_buffer = false;
    };
    conformance::run(|shape| make(shape, cached)).await;
}

#[tokio::test]
async fn with_logged_epochs() {
    let adjust = |s: &mut RingSettings| {
        s.bucket = Some(BucketShape::PROVEN[0]);
        s.read_batches = 1100; // as many as the suite makes in one epoch
        s.log_epochs = true;
    };
    conformance::run(|shape| make(shape, adjust)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_threads() {
    conformance::run(|shape| make(shape, |s| s.bucket = Some(BucketShape::PROVEN[1]))).await;
}
