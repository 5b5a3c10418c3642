//! Draws that workloads share.

use fogbank_env::Stream;
use rand::RngExt;
use rand_distr::{Distribution as _, Zipf};

/// One of `kinds`, by its part of a hundred.
pub fn kind(kinds: &[(&str, u32)], stream: &mut Stream) -> usize {
    let all: u32 = kinds.iter().map(|(_, part)| part).sum();
    let mut at = stream.random_range(0..all.max(1));
    for (index, (_, part)) in kinds.iter().enumerate() {
        if at < *part {
            return index;
        }
        at -= part;
    }
    0
}

/// Whether something happens that does so with this probability.
pub fn happens(probability: f64, stream: &mut Stream) -> bool {
    stream.random_bool(probability)
}

/// A number from `from` to `to`, both included.
pub fn between(from: u32, to: u32, stream: &mut Stream) -> u32 {
    stream.random_range(from..=to)
}

/// From 0 up to `of`: zipfian with exponent `skew`, the less, the more often.
pub fn rank(of: u32, skew: f64, stream: &mut Stream) -> u32 {
    let of = of.max(1);
    // From 1 record on, and with an exponent above 0, there always is one.
    let rank = Zipf::new(f64::from(of), skew).map_or(1.0, |zipf| zipf.sample(stream));
    (rank as u32).clamp(1, of) - 1
}

/// Where a rank lies among `of` records, so that ranks near one another lie anywhere: a hash, the
/// finish of SplitMix64.
pub fn scattered(rank: u32, of: u32) -> u32 {
    let mut hash = u64::from(rank).wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((hash ^ (hash >> 31)) % u64::from(of.max(1))) as u32
}

/// Letters and digits, from `from` to `to` of them.
pub fn text(from: u32, to: u32, stream: &mut Stream) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let len = between(from, to, stream);
    (0..len).map(|_| LETTERS[stream.random_range(0..LETTERS.len())]).collect()
}

#[cfg(test)]
mod tests {
    use fogbank_env::{Purpose, Randomness};

    use super::*;

    #[test]
    fn kinds_come_as_often_as_their_parts_say() {
        let kinds = [("a", 45), ("b", 5), ("c", 50)];
        let mut stream = Randomness::repeatable(1).stream(Purpose::Workload);
        let mut counts = [0; 3];
        (0..10_000).for_each(|_| counts[kind(&kinds, &mut stream)] += 1);
        for (count, (_, part)) in counts.iter().zip(kinds) {
            let expected = f64::from(part) * 100.0;
            assert!((f64::from(*count) - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}");
        }
    }
}
