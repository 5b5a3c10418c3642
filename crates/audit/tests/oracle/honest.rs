//! What the engine sends is what the oracle predicts, whatever is asked of it.

use fogbank_oram::ring::RingSettings;
use fogbank_store::Link;

use crate::drive::{ALL, nobody, recorded, recorded_on_beat, replay, settings};

async fn passes(settings: RingSettings, epochs: u32) {
    for workload in ALL {
        let (config, events) = recorded(&settings, workload, epochs).await;
        let summary = replay(&config, &events, &mut nobody());
        let summary = summary.unwrap_or_else(|halt| panic!("{workload:?} {settings:?}: {halt}"));
        assert_eq!((summary.epochs, summary.openings), (epochs.into(), 1));
        let accesses = 2 * settings.shape.read_batch + settings.shape.write_batch;
        assert_eq!(summary.accesses, u64::from(epochs) * accesses as u64);
        assert!(summary.images > 0 && summary.evictions > 0, "{summary:?}");
    }
}

#[tokio::test]
async fn small_buckets() {
    passes(settings(200, (4, 5, 3)), 60).await;
    passes(settings(13, (2, 1, 1)), 60).await;
}

#[tokio::test]
async fn middle_buckets() {
    passes(settings(300, (8, 12, 8)), 60).await;
}

#[tokio::test]
async fn a_cached_top() {
    let cached = RingSettings { cache_bytes: 4 * 3 * 32, ..settings(200, (4, 5, 3)) };
    assert_eq!(cached.geometry().unwrap().cached_levels, 2);
    passes(cached, 60).await;
}

#[tokio::test]
async fn a_tree_too_large_to_fill() {
    let cached = RingSettings { cache_bytes: 1 << 20, ..settings(4000, (4, 5, 3)) };
    passes(cached, 60).await;
}

#[tokio::test]
async fn evictions_fetched_ahead() {
    passes(RingSettings { prefetch: true, ..settings(200, (4, 5, 3)) }, 60).await;
}

#[tokio::test]
async fn combined_paths() {
    passes(RingSettings { xor: true, ..settings(200, (4, 5, 3)) }, 60).await;
    let both = RingSettings { xor: true, prefetch: true, ..settings(300, (8, 12, 8)) };
    passes(both, 60).await;
}

#[tokio::test]
async fn superseded_versions_kept() {
    passes(RingSettings { keep_superseded: true, ..settings(200, (4, 5, 3)) }, 60).await;
}

#[tokio::test(start_paused = true)]
async fn on_the_beat() {
    let links = [Link::instant(), far(3, 0), far(3, 9), far(20, 60)];
    for (at, link) in links.into_iter().enumerate() {
        for option in 0..4 {
            let (prefetch, xor) = (option & 1 == 1, option & 2 == 2);
            let settings = RingSettings { prefetch, xor, ..settings(200, (4, 5, 3)) };
            let (config, events) = recorded_on_beat(&settings, link, 60).await;
            let summary = replay(&config, &events, &mut nobody());
            let summary = summary.unwrap_or_else(|halt| panic!("link {at} {settings:?}: {halt}"));
            assert!(summary.epochs >= 10, "{summary:?}");
            assert_eq!(summary.latest_ns, 0);
        }
    }
}

fn far(round_trip: u64, jitter: u64) -> Link {
    let millis = std::time::Duration::from_millis;
    Link { round_trip: millis(round_trip), jitter: millis(jitter), ..Link::instant() }
}
