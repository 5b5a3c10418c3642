//! The public configuration in the report, and what it gives away itself.

use fogbank_audit::Verdict;
use fogbank_audit::oracle::ring::RingConfig;
use fogbank_audit::report::{html, json, text};
use fogbank_store::trace::{JournalConfig, VaultConfig};

use crate::sample;
use crate::times;

/// A report whose labels have the configuration of the sample, changed.
fn report(change: impl FnOnce(&mut RingConfig)) -> fogbank_audit::report::Report {
    let (mut report, public) = (sample::report(Verdict::Passed, 5, false), sample::config());
    let mut ring: RingConfig = public.tail().expect("a tail of ring");
    ring.quantum_ns = 10_000_000;
    change(&mut ring);
    let public = public.with_tail(&ring);
    report.labels.iter_mut().for_each(|label| label.config = Some(public.clone()));
    report
}

#[test]
fn every_label_has_the_numbers_that_its_shape_follows_from() {
    let journal = JournalConfig {
        record_bytes: 300,
        delta_piece_bytes: 1 << 20,
        delta_pieces: 2,
        delta_last_piece_bytes: 77,
        full_every: 20,
    };
    let vault = VaultConfig {
        commit_bytes: 900,
        commit_bytes_an_opening: 16,
        piece_bytes: 1 << 20,
        pieces: 1,
        last_piece_bytes: 5_000,
        pieces_at_once: 6,
        journal,
    };
    let report = report(|ring| ring.vault = Some(vault));
    let (text, page) = (text(&report), html(&report));
    for part in [
        "20,000 blocks of 512 bytes",
        "Z 40, S 50, A 46",
        "R 3 read batches of b 16, one write batch of b_w 16",
        "interval 60 ms, slack 2 ms, quantum 10 ms",
        "XOR off, prefetch off",
        "commit record of 900 bytes, 16 bytes more an opening, checkpoints of 5 kB",
        "records of 300 bytes, deltas of 2 pieces of 1.05 MB, the last of 77 bytes",
    ] {
        assert_eq!(times(&text, part), report.labels.len(), "{part} in {text}");
        assert_eq!(times(&page, part), report.labels.len(), "{part}");
    }
    assert_eq!(json(&report)["labels"][0]["config"]["read_batch"], sample::BATCH);
    assert!(report.caveats().is_empty());
}

#[test]
fn a_beat_that_shows_the_work_is_a_caveat() {
    type Change = fn(&mut RingConfig);
    let back_to_back: Change = |ring| (ring.interval_ns, ring.quantum_ns) = (0, 0);
    let at_once: Change = |ring| ring.quantum_ns = 0;
    for (change, words) in [(back_to_back, "back to back"), (at_once, "at once")] {
        let report = report(change);
        for told in [text(&report), html(&report)] {
            assert_eq!(times(&told, words), 1, "{told}");
        }
        assert_eq!(json(&report)["caveats"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn without_a_configuration_the_page_says_nothing_of_it() {
    assert_eq!(times(&html(&sample::report(Verdict::Passed, 5, false)), "What is public"), 0);
}
