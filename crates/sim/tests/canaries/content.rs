//! What shows in how much is written.

use std::collections::BTreeSet;

use fogbank_sim::scene::Canary;
use fogbank_store::trace::Request;

use crate::leaky_and_honest;
use crate::view::View;

#[test]
fn an_unpadded_write_batch_evicts_less() {
    // At the lowest level an eviction writes one bucket; early reshuffles there are rare.
    let images = |view: &View| {
        view.images().concat().iter().filter(|name| view.leaf(name.chunk).is_some()).count()
    };
    let (leaky, honest) = leaky_and_honest(Canary::UnpaddedWrites, 1);
    let (leaky, honest) = (images(&leaky), images(&honest));
    assert!(leaky * 5 < honest * 4, "{leaky} {honest}");
}

#[test]
fn an_unpadded_stash_makes_the_checkpoint_shorter() {
    let checkpoint = |view: &View| {
        let puts = view.sent().filter_map(|sent| match &sent.request {
            Request::BlobPut { name, bytes, .. } if name.starts_with("checkpoint/") => Some(*bytes),
            _ => None,
        });
        puts.collect::<Vec<_>>()
    };
    let (leaky, honest) = leaky_and_honest(Canary::UnpaddedStash, 1);
    let vault = honest.config.vault.clone().unwrap();
    let (leaky, honest) = (checkpoint(&leaky), checkpoint(&honest));
    assert_eq!((vault.pieces, &honest), (1, &vec![vault.last_piece_bytes; honest.len()]));
    // That of the close; those before are the driver's.
    assert!(leaky.len() == honest.len() && leaky.last() < honest.last());
}

#[test]
fn buckets_are_written_once_an_epoch_unless_written_through() {
    // Writes of the root: it is on every path.
    let roots = |view: &View| view.images().concat().iter().filter(|n| n.chunk == 0).count();
    let (leaky, honest) = leaky_and_honest(Canary::WrittenThrough, 1);
    assert_eq!(roots(&honest), 101);
    assert!(roots(&leaky) > 200, "{}", roots(&leaky));
}

#[test]
fn what_is_kept_is_not_deleted() {
    let deletions = |view: &View| {
        view.sent().filter(|sent| matches!(sent.request, Request::DeleteChunks { .. })).count()
    };
    let (leaky, honest) = leaky_and_honest(Canary::SupersededKept, 1);
    assert_eq!((deletions(&leaky), deletions(&honest)), (0, 100));
}

#[test]
fn a_ciphertext_that_is_kept_is_written_again() {
    let repeats = |view: &View| {
        let mut seen = BTreeSet::new();
        let prints = view.sent().flat_map(|sent| match &sent.request {
            Request::WriteChunks { writes } => {
                writes.iter().flat_map(|(_, seen)| seen.fingerprints.clone()).collect()
            }
            _ => Vec::new(),
        });
        prints.filter(|print| !seen.insert(*print)).count()
    };
    let (leaky, honest) = leaky_and_honest(Canary::CiphertextKept, 1);
    assert!(repeats(&leaky) > 1_000 && repeats(&honest) == 0, "{}", repeats(&leaky));
    assert_eq!(leaky.played.stopped, None);
}
