//! PathReqMultiSet: the paths under way.
//!
//! A bucket on any path that has been asked for is not dropped from the subtree: the message may
//! not have named it, and if it has, what it brings may be older.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::geometry::Geometry;
use crate::immediate::sequencer::Number;

/// PathReqMultiSet: paths that were asked for and are not yet processed.
#[derive(Debug, Default)]
pub struct PathRequests {
    by_chunk: HashMap<u32, u32>,
    asked: BTreeSet<Number>,
}

impl PathRequests {
    /// Request `number` asks for the path to `leaf`; that it does so again changes nothing.
    pub fn ask(&mut self, geometry: &Geometry, number: Number, leaf: u32) {
        if !self.asked.insert(number) {
            return;
        }
        for chunk in geometry.chunks_to(leaf) {
            *self.by_chunk.entry(chunk).or_default() += 1;
        }
    }

    /// It has been processed.
    pub fn remove(&mut self, geometry: &Geometry, number: Number, leaf: u32) {
        if !self.asked.remove(&number) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::BucketShape;

    #[test]
    fn paths_are_counted_as_often_as_they_are_under_way() {
        let geometry = Geometry::new(64, 8, BucketShape::path(4), 0).unwrap();
        let mut paths = PathRequests::default();
        assert!(!paths.go_through(0), "nothing was asked for");
        paths.remove(&geometry, 2, 3);
        [0, 1, 1].iter().for_each(|number| paths.ask(&geometry, *number, 3));
        paths.remove(&geometry, 0, 3);
        assert!(geometry.chunks_to(3).all(|chunk| paths.go_through(chunk)));
        paths.remove(&geometry, 1, 3);
        assert!(!geometry.chunks_to(3).any(|chunk| paths.go_through(chunk)));
    }
}
