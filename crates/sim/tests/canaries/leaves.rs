//! What shows in the leaves that are read.

use std::collections::BTreeMap;

use fogbank_sim::scene::{Canary, Scene};

use crate::view::View;
use crate::{leaky_and_honest, play};

/// How far the share of path reads in the half of the tree that was evicted last is from a half, in
/// standard deviations. Which half a path is in shows in any of its buckets but the root; where
/// none is asked for, all were reshuffled within the batch, which tells it as well. To leave those
/// paths out would favour the half that was evicted last: its buckets have had fewer reads.
fn sigmas_to_last_evicted(view: &View) -> f64 {
    let (mut same, mut all) = (0.0, 0.0_f64);
    for batch in view.batches() {
        // An epoch has two points and ends with an eviction; the halves take turns.
        let evicted = (batch.at / 120_000_000 % 2) as u32;
        let is_evicted = |chunk| f64::from(u8::from(half(chunk) == evicted));
        for path in batch.path_cells.chunk_by(|_, (next, _)| next.chunk != 0) {
            all += 1.0;
            same += match path {
                [_, .., (lowest, _)] => is_evicted(lowest.chunk),
                _ => {
                    let reshuffled = batch.retired.iter().map(|(name, _)| name.chunk);
                    let halves: Vec<f64> =
                        reshuffled.filter(|c| [1, 2].contains(c)).map(is_evicted).collect();
                    match halves[..] {
                        [] => 0.5, // nothing is stored yet
                        _ => halves.iter().sum::<f64>() / halves.len() as f64,
                    }
                }
            };
        }
    }
    (same - all / 2.0) / (all / 4.0).sqrt()
}

/// The half of the tree in which a bucket below the root is.
fn half(chunk: u32) -> u32 {
    let level = (chunk + 1).ilog2();
    (chunk + 1 - (1 << level)) >> (level - 1)
}

#[test]
fn residue_that_skips_its_read_leans_to_the_last_eviction() {
    let canary = Canary::ResidueSkipsRead;
    let leaky = Scene { epochs: 20_000, ..canary.scene(1) };
    let honest = Scene { canary: None, ..leaky.clone() };
    let (leaky, honest) = (play(&leaky), play(&honest));
    let (leaky, honest) = (sigmas_to_last_evicted(&leaky), sigmas_to_last_evicted(&honest));
    assert!(leaky > 4.5 && honest.abs() < 3.5, "{leaky} {honest}");
}

/// In how many batches the commonest leaf is read.
fn commonest(view: &View) -> usize {
    let mut batches = BTreeMap::new();
    for mut leaves in view.leaves_read() {
        leaves.sort_unstable();
        leaves.dedup();
        leaves.iter().for_each(|leaf| *batches.entry(*leaf).or_default() += 1);
    }
    batches.values().copied().max().unwrap_or(0)
}

#[test]
fn a_block_that_keeps_its_leaf_repeats_it() {
    let (leaky, honest) = leaky_and_honest(Canary::NoRemapOnWrite, 1);
    let (leaky, honest) = (commonest(&leaky), commonest(&honest));
    assert!(leaky > 60 && honest < 25, "{leaky} {honest}");
}

/// Leaves that were also read three messages before: by the same batch of the epoch before.
fn repeats_across(view: &View) -> usize {
    let leaves = view.leaves_read();
    leaves.windows(4).map(|w| w[3].iter().filter(|leaf| w[0].contains(leaf)).count()).sum()
}

#[test]
fn a_rare_leak_is_there() {
    let (leaky, honest) = leaky_and_honest(Canary::RareNoRemap { every: 4 }, 1);
    let (leaky, honest) = (repeats_across(&leaky), repeats_across(&honest));
    assert!(leaky > honest + 70, "{leaky} {honest}");
}

#[test]
fn one_seed_for_all_runs_reads_the_same_leaves_in_all() {
    let canary = Canary::ConstantSeed;
    let idle = |view: &View| view.leaves_read().into_iter().take(12).collect::<Vec<_>>();
    let ((one, honest_one), (other, honest_other)) =
        (leaky_and_honest(canary, 1), leaky_and_honest(canary, 2));
    assert_eq!(idle(&one), idle(&other));
    assert_ne!(idle(&honest_one), idle(&honest_other));
}

/// The share of batches of which no two leaves are the same.
fn distinct(view: &View) -> f64 {
    let mut whole = view.leaves_read();
    whole.retain(|leaves| leaves.len() == 8);
    let all = whole.len() as f64;
    whole.retain_mut(|leaves| {
        leaves.sort_unstable();
        leaves.is_sorted_by(|a, b| a < b)
    });
    whole.len() as f64 / all
}

#[test]
fn low_bits_of_a_congruential_generator_never_repeat_within_their_period() {
    let (leaky, honest) = leaky_and_honest(Canary::CongruentialLeaves, 1);
    let (leaky, honest) = (distinct(&leaky), distinct(&honest));
    assert!(leaky > 0.99 && honest < 0.05, "{leaky} {honest}");
}

#[test]
fn a_modulo_leaves_half_the_tree_unread() {
    let high = |view: &View| view.leaves_read().concat().iter().filter(|l| **l >= 100).count();
    let (leaky, honest) = leaky_and_honest(Canary::ModuloLeaves, 1);
    assert_eq!(high(&leaky), 0);
    assert!(high(&honest) > 500, "{}", high(&honest));
}

/// Batches that read one leaf only.
fn of_one_leaf(view: &View) -> usize {
    let leaves = view.leaves_read();
    leaves
        .iter()
        .filter(|leaves| leaves.len() > 5 && leaves.iter().all(|l| l == &leaves[0]))
        .count()
}

#[test]
fn duplicates_read_one_path_many_times() {
    let (leaky, honest) = leaky_and_honest(Canary::DuplicatesRead, 1);
    assert!(of_one_leaf(&leaky) > 20, "{}", of_one_leaf(&leaky));
    assert_eq!(of_one_leaf(&honest), 0);
}

/// The fewest cells of the root that a read batch asks for, once the store is filled.
fn paths_min(view: &View) -> usize {
    let of_root = |batch: &crate::view::Batch| {
        batch.path_cells.iter().filter(|(name, _)| name.chunk == 0).count()
    };
    let batches = view.batches();
    let reads = batches.iter().filter(|batch| !batch.path_cells.is_empty());
    reads.skip(10).map(of_root).min().unwrap_or(0)
}

#[test]
fn what_is_left_out_is_missing_from_the_batch() {
    for canary in [Canary::DuplicatesOmitted, Canary::AbsentSkipsRead] {
        let (leaky, honest) = leaky_and_honest(canary, 1);
        assert_eq!(paths_min(&honest), 15);
        assert!(paths_min(&leaky) < 15, "{}: {}", canary.name(), paths_min(&leaky));
    }
}
