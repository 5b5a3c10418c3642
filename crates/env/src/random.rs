//! Randomness, one independent stream a purpose.
//!
//! Streams are separate so that a change in how often one part draws does not shift what another
//! part draws: two runs with one seed stay comparable after an unrelated change.

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

/// What a stream of randomness is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The master key of a new installation.
    MasterKey = 1,
    /// The salt of one incarnation of the proxy, and the name of a new store.
    Incarnation = 2,
    /// Fresh leaves of blocks.
    Leaves = 3,
    /// Padding requests: leaves of dummy reads.
    Padding = 4,
    /// The order of requests within a batch.
    Shuffle = 5,
    /// Which free block a new record takes.
    Allocation = 6,
    /// Test and benchmark workloads.
    Workload = 7,
    /// Faults injected by tests.
    Faults = 8,
}

/// A stream of randomness fit for keys: ChaCha with 12 rounds.
pub type Stream = ChaCha12Rng;

/// Where all randomness comes from.
#[derive(Debug, Clone)]
pub struct Randomness {
    seed: [u8; 32],
}

impl Randomness {
    /// Fresh randomness for a real run, seeded by the caller from the system's source.
    ///
    /// The seed is an argument because this crate knows no system source: the binary takes it from
    /// the cryptography library's.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self { seed }
    }

    /// Repeatable randomness for tests and simulation. Never for a real store.
    pub fn repeatable(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self { seed: bytes }
    }

    /// The stream for `purpose`: always the same one for the same seed.
    pub fn stream(&self, purpose: Purpose) -> Stream {
        let mut stream = ChaCha12Rng::from_seed(self.seed);
        stream.set_stream(purpose as u64);
        stream
    }

    /// Randomness independent of this one, for the part numbered `index` (a second proxy, a
    /// client).
    pub fn split(&self, index: u64) -> Self {
        let mut stream = ChaCha12Rng::from_seed(self.seed);
        stream.set_stream((1 << 63) | index);
        let mut seed = [0; 32];
        stream.fill_bytes(&mut seed);
        Self { seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_purpose() {
        let draw = |r: &Randomness, p| r.stream(p).next_u64();
        let (a, b) = (Randomness::repeatable(7), Randomness::repeatable(8));
        assert_eq!(draw(&a, Purpose::Leaves), draw(&a.clone(), Purpose::Leaves));
        assert_ne!(draw(&a, Purpose::Leaves), draw(&a, Purpose::Padding));
        assert_ne!(draw(&a, Purpose::Leaves), draw(&b, Purpose::Leaves));
        assert_ne!(draw(&a.split(0), Purpose::Leaves), draw(&a.split(1), Purpose::Leaves));
    }
}
