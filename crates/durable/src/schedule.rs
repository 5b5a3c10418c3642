//! When the next full checkpoint is due: a number that follows from public sizes.

/// Accesses that a recovery may have to plan again.
const REPLAYED_ACCESSES_MAX: u64 = 1 << 18;
/// Deltas that a recovery may have to read, one after the other.
const DELTAS_MAX: u64 = 512;
/// Full checkpoints take at most one part in so many of the traffic.
const TRAFFIC_SHARE: u64 = 100;

/// How many epochs from one full checkpoint to the next: so many that it takes at most a hundredth
/// of the traffic, but not so many that a recovery reads more than 512 deltas or plans more than
/// 2^18 accesses again.
///
/// `full_bytes` and `epoch_bytes` are what a full checkpoint and an epoch move, `epoch_accesses`
/// how many accesses an epoch has: public figures, all of them.
pub fn full_every(full_bytes: u64, epoch_bytes: u64, epoch_accesses: u64) -> u64 {
    let rare = full_bytes.saturating_mul(TRAFFIC_SHARE).div_ceil(epoch_bytes.max(1));
    let often = REPLAYED_ACCESSES_MAX / epoch_accesses.max(1);
    rare.min(often).clamp(1, DELTAS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_checkpoint_is_a_hundredth_of_the_traffic_unless_recovery_would_be_long() {
        assert_eq!(full_every(1_000, 1_000, 100), 100);
        assert_eq!(full_every(1_000_000, 1_000, 4_500), 58);
        assert_eq!(full_every(1_000_000, 1_000, 64), 512);
        assert_eq!(full_every(1, 1_000_000, 4_500), 1);
        assert_eq!(full_every(1, 0, 0), 100);
        assert_eq!(full_every(1, 1, 1 << 20), 1);
    }
}
