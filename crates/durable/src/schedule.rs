//! When the next full checkpoint is due: a number that follows from public sizes.

/// Accesses that a recovery may have to plan again.
const REPLAYED_ACCESSES_MAX: u64 = 1 << 18;
/// Full checkpoints take at most one part in so many of the traffic.
const TRAFFIC_SHARE: u64 = 20;

/// How many epochs from one full checkpoint to the next: so many that it takes at most a twentieth
/// of the traffic, but not so many that a recovery plans more than 2^18 accesses again.
///
/// `full_bytes` and `epoch_bytes` are what a full checkpoint and an epoch move, `epoch_accesses` how
/// many accesses an epoch has: public figures, all of them.
pub fn full_every(full_bytes: u64, epoch_bytes: u64, epoch_accesses: u64) -> u64 {
    let rare = full_bytes.saturating_mul(TRAFFIC_SHARE).div_ceil(epoch_bytes.max(1));
    let often = REPLAYED_ACCESSES_MAX / epoch_accesses.max(1);
    rare.min(often).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_checkpoint_is_a_twentieth_of_the_traffic_unless_replay_would_be_long() {
        assert_eq!(full_every(1_000, 1_000, 100), 20);
        assert_eq!(full_every(1_000_000, 1_000, 4_500), 58);
        assert_eq!(full_every(1, 1_000_000, 4_500), 1);
        assert_eq!(full_every(1, 0, 0), 20);
        assert_eq!(full_every(1, 1, 1 << 20), 1);
    }
}
