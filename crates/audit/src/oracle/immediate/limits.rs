//! What every engine of this kind is told in the head of a trace, and within which limits: a trace
//! comes from anywhere, and its head must not buy hours or memory.

use fogbank_env::Nanos;
use fogbank_store::trace::{RateConfig, VaultConfig};

/// Longer times are a mistake.
const TIME_MAX: Nanos = 1 << 50;
const BYTES_MAX: u64 = 1 << 48;

/// From one to `most`.
pub(in crate::oracle) fn few(number: u32, most: u32) -> bool {
    (1..=most).contains(&number)
}

/// Whether a quantum, a rate, accesses under way, those of a record, and their bytes can be.
pub(in crate::oracle) fn are_sound(
    vault: &VaultConfig,
    (quantum_ns, rate): (Nanos, Option<RateConfig>),
    (under_way_max, accesses_max): (u32, u32),
    part_bytes: u64,
) -> bool {
    let bytes = [
        vault.commit_bytes,
        vault.commit_bytes_an_opening,
        vault.piece_bytes,
        vault.last_piece_bytes,
        vault.journal.record_bytes,
        part_bytes,
    ];
    let can_be = |rate: RateConfig| {
        (1..=TIME_MAX).contains(&rate.interval_ns)
            && few(rate.accesses, accesses_max)
            && (quantum_ns == 0 || rate.interval_ns.is_multiple_of(quantum_ns))
    };
    quantum_ns <= TIME_MAX
        && rate.is_none_or(can_be)
        && few(under_way_max, 1 << 16)
        && few(accesses_max, 1 << 16)
        && few(vault.pieces, 1 << 20)
        && bytes.iter().all(|bytes| *bytes < BYTES_MAX)
}
