//! Whose turn it is: beside the partition that an access shows, every fourth access gives an
//! eviction to the next partition in turn.

/// Accesses from one turn to the next.
const EVERY: u8 = 4;
/// nu: evictions an access.
pub const EVICTIONS: f64 = 1.0 + 1.0 / EVERY as f64;

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// The partition whose turn is next.
    pub next: u32,
    /// Accesses since the last turn.
    pub since: u8,
}

impl Turn {
    /// An access comes: which of so many partitions has its turn then, if any.
    pub fn of_access(&mut self, partitions: u32) -> Option<u32> {
        self.since += 1;
        if self.since < EVERY {
            return None;
        }
        let turn = self.next;
        *self = Self { next: (turn + 1) % partitions, since: 0 };
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_access_is_the_turn_of_the_next() {
        let mut turn = Turn { next: 1, since: 2 };
        let turns: Vec<_> = (0..10).map(|_| turn.of_access(3)).collect();
        let due = [1, 5, 9].map(|at| turns[at]);
        assert_eq!(due, [Some(1), Some(2), Some(0)]);
        assert_eq!(turns.iter().flatten().count(), 3);
        assert_eq!(turn, Turn { next: 1, since: 0 });
    }
}
