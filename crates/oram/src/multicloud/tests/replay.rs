//! A replay forgets every entry that it has taken: the journal may be longer than memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::deaths::small;
use super::*;

/// A value that is counted as long as anybody has it.
struct Counted(Bytes, Arc<AtomicUsize>);

impl Counted {
    fn bytes(value: &Bytes, live: &Arc<AtomicUsize>) -> Bytes {
        live.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Self(value.clone(), live.clone()))
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The entry with values that are counted.
fn counted(mut entry: Entry, live: &Arc<AtomicUsize>) -> Entry {
    match &mut entry {
        Entry::Access(AccessEntry { access: Access::Write { bytes, .. }, .. })
        | Entry::Result(_, bytes) => *bytes = Counted::bytes(bytes, live),
        _ => {}
    }
    entry
}

/// The most values at once while a journal of so many accesses is replayed, and how many it has.
/// Whoever `keeps` entries is what this test is to find.
fn most(accesses: u32, keeps: bool) -> (usize, usize) {
    let mut world = small(4, Canary::default());
    for number in 0..accesses {
        let bytes = Bytes::copy_from_slice(&number.to_le_bytes());
        world.arrive(number % 6, Access::Write { offset: 0, bytes }).unwrap();
        world.settle().unwrap();
    }
    let random = Randomness::repeatable(9);
    let of = (keys(4), &random);
    let mut plane =
        MulticloudPlane::recover(Canary::default(), world.settings.clone(), of, (vec![], 2))
            .unwrap();
    let (live, mut kept, mut most, mut values) = (Arc::default(), Vec::new(), 0, 0);
    for entry in world.entries() {
        let entry = counted(entry, &live);
        values += usize::from(matches!(entry, Entry::Access(_) | Entry::Result(..)));
        if keeps {
            kept.push(entry.clone());
        }
        plane.replay(entry).unwrap();
        most = most.max(live.load(Ordering::Relaxed));
    }
    (most, values)
}

#[test]
fn a_replay_of_many_periods_keeps_values_of_the_stash_alone() {
    // Six blocks: each in the stash at most, and the access that writes it anew.
    let bound = 2 * 6;
    for accesses in [50, 400] {
        let (found, values) = most(accesses, false);
        assert!(found <= bound, "{found} of {values}");
        let (found, values) = most(accesses, true);
        assert_eq!(found, values, "whoever keeps them is found");
    }
}
