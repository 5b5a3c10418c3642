//! The public configuration of a run as a person reads it, and what has to be said about it.

use fogbank_store::trace::{PublicConfig, RateConfig, TraceClock, VaultConfig};

use super::words::{bytes, count, duration};
use crate::engine;

/// What a configuration says, by subject.
pub fn lines(config: &PublicConfig) -> Vec<(&'static str, String)> {
    let mut lines = vec![("clock", clock(config.clock).into())];
    match engine::of(config) {
        Ok((_, engine)) => lines.extend(engine.lines(config)),
        Err(_) => lines.push(("engine", blocks(config))),
    }
    lines
}

/// The same in one line.
pub fn line(config: &PublicConfig) -> String {
    let lines = lines(config).into_iter().map(|(subject, what)| format!("{subject}: {what}"));
    lines.collect::<Vec<_>>().join("; ")
}

/// What the configuration itself gives away, if anything.
pub fn caveat(config: &PublicConfig) -> Option<&'static str> {
    engine::of(config).ok().and_then(|(_, engine)| engine.caveat())
}

fn clock(clock: TraceClock) -> &'static str {
    match clock {
        TraceClock::Real => "the machine's",
        TraceClock::Virtual => "virtual",
    }
}

/// What all engines have.
pub(crate) fn blocks(config: &PublicConfig) -> String {
    let PublicConfig { engine, capacity, value_bytes, .. } = config;
    format!("{engine}, {} blocks of {}", count((*capacity).into()), bytes(*value_bytes))
}

/// What engines have that serve accesses as they come.
pub(crate) fn rate_line(rate: Option<RateConfig>) -> String {
    match rate {
        None => "none, every access as it comes".into(),
        Some(rate) => format!("{} every {}", rate.accesses, duration(rate.interval_ns)),
    }
}

/// When messages leave.
pub(crate) fn points(quantum_ns: u64) -> String {
    match quantum_ns {
        0 => "when they are ready".into(),
        quantum => format!("at multiples of {}", duration(quantum)),
    }
}

/// What such an engine gives away that has no rate.
pub(crate) const AS_THEY_COME: &str = "every access as it comes (no rate): how many arrive and \
                                       when is plain to see, and when they are answered";

pub(crate) fn vault_line(vault: &VaultConfig) -> String {
    let (record, grows) = (bytes(vault.commit_bytes), bytes(vault.commit_bytes_an_opening));
    let full = pieces(vault.pieces, vault.piece_bytes, vault.last_piece_bytes);
    format!("commit record of {record}, {grows} more an opening, checkpoints of {full}")
}

pub(crate) fn pieces(pieces: u32, each: u64, last: u64) -> String {
    match pieces {
        1 => bytes(last),
        pieces => format!("{pieces} pieces of {}, the last of {}", bytes(each), bytes(last)),
    }
}
