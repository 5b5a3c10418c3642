//! What comes of honest runs: nothing, and probabilities spread evenly.

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_audit::statistics::{Battery, Levels, runs_independent};
use fogbank_audit::{Finding, Observation, Observer, Verdict};
use fogbank_env::{Purpose, Randomness};
use rand_core::Rng;
use statrs::function::erf::erfc;

use super::synthetic::{Leak, Synthetic, config};
use super::{audit, failures, lenient, named};

#[test]
fn honest_runs_raise_no_alarm() {
    let mut digests = Vec::new();
    for seed in 0..200 {
        let (findings, digest) = audit(&Synthetic::new(seed, Leak::Nothing), 2_000);
        assert_eq!(failures(&findings), [""; 0], "seed {seed}");
        digests.push(digest);
    }
    for pair in digests.chunks(10) {
        assert_eq!(failures(&runs_independent(pair, &lenient())), [""; 0]);
    }
}

/// The probability of the worst of the tests of a finding, as that of the worst of so many
/// independent ones: even if they are, on the safe side if they are not.
fn spread(finding: &Finding) -> f64 {
    let p = |z: f64| erfc(z / std::f64::consts::SQRT_2);
    let levels = Levels::default();
    let tests = levels.fail / f64::from(levels.findings) / p(finding.threshold);
    1.0 - (1.0 - p(finding.figure)).powf(tests.round().max(1.0))
}

#[test]
fn probabilities_are_spread_evenly_over_seeds() {
    const SEEDS: usize = 500;
    // Of these the tests are independent, or one. Those of the others lean on one another, count
    // too few things or guard against dependence: they may be too quiet, never too loud.
    let even = [
        "leaves-lagged",
        "leaves-repeat-in-batch",
        "leaves-repeat-across-batches",
        "slot-ranks",
        "retired-ranks",
        "slots-across-versions",
    ];
    let quiet = ["leaves-uniform", "leaves-against-last-evicted", "departures", "gaps"];
    // Of 500 even ones a distance above this comes once in 50,000 times.
    let distance_max = 2.4 / (SEEDS as f64).sqrt();
    let runs: Vec<_> = (0..SEEDS as u64)
        .map(|seed| audit(&Synthetic::new(1000 + seed, Leak::Nothing), 3_000).0)
        .collect();
    for check in even.into_iter().chain(quiet) {
        let mut all: Vec<_> = runs.iter().map(|findings| spread(named(findings, check))).collect();
        all.sort_by(f64::total_cmp);
        let (mut loud, mut soft) = (0.0_f64, 0.0_f64);
        for (i, p) in all.iter().enumerate() {
            loud = loud.max((i + 1) as f64 / SEEDS as f64 - p);
            soft = soft.max(p - i as f64 / SEEDS as f64);
        }
        assert!(loud < distance_max, "{check}: too loud by {loud}");
        assert!(soft < distance_max || quiet.contains(&check), "{check}: too quiet by {soft}");
    }
}

/// A trace may claim any shape.
#[test]
fn odd_shapes_are_no_panic() {
    for (leaf_level, cells) in [(0, 0), (0, 1), (1, 2), (255, 1), (20, u16::MAX), (31, 1000)] {
        let config = config(leaf_level);
        let mut ring: RingConfig = config.tail().unwrap();
        (ring.reals, ring.dummies, ring.read_batches) = (cells, cells, 0);
        let mut battery = Battery::new(&config.with_tail(&ring), "odd").unwrap();
        Synthetic::new(1, Leak::Nothing).observe(100, &mut battery);
        assert_eq!(battery.finish(&lenient()).0.len() as u32, Battery::FINDINGS);
    }
}

#[test]
fn too_little_data_is_no_pass() {
    let mut battery = Battery::new(&config(5), "short").unwrap();
    Synthetic::new(1, Leak::Nothing).observe(400, &mut battery);
    let (findings, _) = battery.finish(&Levels::default());
    for finding in findings.iter().filter(|finding| finding.smallest_leak.is_some()) {
        let short = finding.check != "ciphertexts-fresh";
        assert_eq!(finding.verdict == Verdict::TooFew, short, "{finding:?}");
    }
}

/// Half of the leaves show nothing, and are observed when their batch is over.
#[test]
fn young_idle_stores_raise_no_alarm() {
    let run = |seed| {
        let mut random = Randomness::repeatable(seed).stream(Purpose::Leaves);
        let mut battery = Battery::new(&config(5), "young").unwrap();
        let mut access = 0;
        for batch in 0..20_000 {
            let mut leaves: Vec<u32> = (0..8).map(|_| random.next_u32() >> 27).collect();
            leaves.sort_by_key(|leaf| *leaf < 16);
            for leaf in leaves {
                let (epoch, stretch, shown) = (batch / 4, batch, leaf >= 16);
                let whole = shown;
                battery.observe(&Observation::Path {
                    epoch,
                    batch,
                    access,
                    leaf,
                    whole,
                    shown,
                    stretch,
                });
                access += 1;
            }
        }
        battery.finish(&lenient())
    };
    let ((findings, first), (_, second)) = (run(1), run(2));
    assert_eq!(failures(&findings), [""; 0]);
    assert_eq!(failures(&runs_independent(&[first, second], &lenient())), [""; 0]);
}
