//! The request map and the multiset of paths under way.
//!
//! - Of the requests for one block only the first of those that wait reads the block's path; each other
//!   one reads a path of its own that is drawn at random, and takes its answer from the first.
//! - A bucket on any path that has been asked for is not dropped from the subtree: the message may not have
//!   named it, and if it has, what it brings may be older.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

use super::sequencer::Number;
use crate::Access;
use crate::geometry::Geometry;

/// A request and what it asks for.
pub(super) type Queued = (Number, Access);

/// RequestMap: by block, who waits for it in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct RequestMap(HashMap<u32, VecDeque<Queued>>);

impl RequestMap {
    /// Adds a request; whether it is the first for its block, which has to read it.
    pub fn enqueue(&mut self, block: u32, queued: Queued) -> bool {
        let queue = self.0.entry(block).or_default();
        queue.push_back(queued);
        queue.len() == 1
    }

    /// Everybody who waits for `block`; afterwards nobody does.
    pub fn take(&mut self, block: u32) -> VecDeque<Queued> {
        self.0.remove(&block).unwrap_or_default()
    }
}

/// PathReqMultiSet: paths that are about to be asked for, or were and are not yet processed.
#[derive(Debug, Default)]
pub(super) struct PathRequests {
    /// Of those that were asked for.
    by_chunk: HashMap<u32, u32>,
    /// Whether each was asked for.
    under_way: BTreeMap<Number, bool>,
}

impl PathRequests {
    /// Request `number` is about to ask for a path.
    pub fn arrive(&mut self, number: Number) {
        self.under_way.insert(number, false);
    }

    /// It asks for the path to `leaf`; that it does so again changes nothing.
    pub fn ask(&mut self, geometry: &Geometry, number: Number, leaf: u32) {
        if self.under_way.insert(number, true) == Some(true) {
            return;
        }
        for chunk in geometry.chunks_to(leaf) {
            *self.by_chunk.entry(chunk).or_default() += 1;
        }
    }

    /// It has been processed.
    pub fn remove(&mut self, geometry: &Geometry, number: Number, leaf: u32) {
        if self.under_way.remove(&number) != Some(true) {
            return;
        }
        for chunk in geometry.chunks_to(leaf) {
            if let Some(count) = self.by_chunk.get_mut(&chunk) {
                *count -= 1;
                if *count == 0 {
                    self.by_chunk.remove(&chunk);
                }
            }
        }
    }

    /// Whether a path that was asked for goes through `chunk`.
    pub fn go_through(&self, chunk: u32) -> bool {
        self.by_chunk.contains_key(&chunk)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// The oldest request under way.
    pub fn oldest(&self) -> Option<Number> {
        self.under_way.first_key_value().map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::BucketShape;

    #[test]
    fn only_the_first_of_those_that_wait_reads_the_block() {
        let mut requests = RequestMap::default();
        assert!(requests.enqueue(7, (0, Access::Read)));
        assert!(!requests.enqueue(7, (1, Access::Read)));
        assert!(requests.enqueue(8, (2, Access::Read)));
        let numbers: Vec<Number> = requests.take(7).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1]);
        assert!(requests.enqueue(7, (3, Access::Read)));
    }

    #[test]
    fn paths_are_counted_as_often_as_they_are_under_way() {
        let geometry = Geometry::new(64, 8, BucketShape::path(4), 0).unwrap();
        let mut paths = PathRequests::default();
        (0..3).for_each(|number| paths.arrive(number));
        assert!(!paths.go_through(0), "nothing was asked for");
        [0, 1, 1].iter().for_each(|number| paths.ask(&geometry, *number, 3));
        paths.remove(&geometry, 0, 3);
        paths.remove(&geometry, 2, 3);
        assert!(geometry.chunks_to(3).all(|chunk| paths.go_through(chunk)));
        assert_eq!((paths.len(), paths.oldest()), (1, Some(1)));
        paths.remove(&geometry, 1, 3);
        assert!(!geometry.chunks_to(3).any(|chunk| paths.go_through(chunk)));
    }
}
