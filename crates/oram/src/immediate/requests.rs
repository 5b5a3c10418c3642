//! The request map: of the requests for one block only the first of those that wait reads the
//! block; each other one reads what is drawn at random, and takes its answer from the first.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::sequencer::Number;
use crate::Access;

/// A request and what it asks for.
pub(crate) type Queued = (Number, Access);

/// RequestMap: by block, who waits for it in the order of arrival.
#[derive(Debug, Default)]
pub struct RequestMap(HashMap<u32, VecDeque<Queued>>);

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
