//! The public configuration of a run as a person reads it, and what has to be said about it.

use fogbank_env::Nanos;
use fogbank_store::trace::{EngineConfig, PublicConfig, RingConfig, TraceClock, VaultConfig};

use super::words::{bytes, count, duration};

/// What a configuration says, by subject.
pub fn lines(config: &PublicConfig) -> Vec<(&'static str, String)> {
    let EngineConfig::Ring(ring) = &config.engine;
    let mut lines = vec![
        ("clock", clock(config.clock).into()),
        ("engine", engine(ring)),
        ("buckets", format!("Z {}, S {}, A {}", ring.reals, ring.dummies, ring.evict_every)),
        ("epochs", epochs(ring)),
        ("beat", beat(ring)),
        ("options", options(ring)),
    ];
    lines.extend(vault(ring.vault.as_ref()));
    lines
}

/// The same in one line.
pub fn line(config: &PublicConfig) -> String {
    let lines = lines(config).into_iter().map(|(subject, what)| format!("{subject}: {what}"));
    lines.collect::<Vec<_>>().join("; ")
}

/// What the configuration itself gives away, if anything.
pub fn caveat(config: &PublicConfig) -> Option<&'static str> {
    let EngineConfig::Ring(ring) = &config.engine;
    match (ring.interval_ns, ring.quantum_ns) {
        (0, _) => Some(BACK_TO_BACK),
        (_, 0) => Some(NO_QUANTUM),
        _ => None,
    }
}

const BACK_TO_BACK: &str = "back to back (interval 0): times of departures follow the work, which \
                            depends on what clients do; timing checks do not apply";
const NO_QUANTUM: &str = "departures at once (quantum 0): between the points of the epochs, times of \
                          departures follow the work, which depends on what clients do; timing \
                          checks do not apply";

fn clock(clock: TraceClock) -> &'static str {
    match clock {
        TraceClock::Real => "the machine's",
        TraceClock::Virtual => "virtual",
    }
}

fn engine(ring: &RingConfig) -> String {
    format!(
        "ring, {} blocks of {}, tree of {} levels, cells of {}",
        count(ring.capacity.into()),
        bytes(ring.value_bytes),
        u32::from(ring.leaf_level) + 1,
        bytes(ring.cell_bytes.into()),
    )
}

fn epochs(ring: &RingConfig) -> String {
    let (batches, reads, writes) = (ring.read_batches, ring.read_batch, ring.write_batch);
    format!("R {batches} read batches of b {reads}, one write batch of b_w {writes}")
}

fn beat(ring: &RingConfig) -> String {
    let time = |nanos: Nanos| if nanos == 0 { "0".into() } else { duration(nanos) };
    let (interval, slack) = (time(ring.interval_ns), time(ring.slack_ns));
    format!("interval {interval}, slack {slack}, quantum {}", time(ring.quantum_ns))
}

fn options(ring: &RingConfig) -> String {
    let on = |on: bool| if on { "on" } else { "off" };
    format!(
        "XOR {}, prefetch {}, {} levels in the proxy, epoch buffer {}, superseded versions {}, \
         windows of {} cells and {} buckets, {} of them and {} read batches under way",
        on(ring.xor),
        on(ring.prefetch),
        ring.cached_levels,
        on(ring.epoch_buffer),
        if ring.keep_superseded { "kept until the commit" } else { "deleted with their epoch" },
        count(ring.window_cells.into()),
        count(ring.window_chunks.into()),
        count(ring.windows.into()),
        count(ring.in_flight.into()),
    )
}

fn vault(vault: Option<&VaultConfig>) -> [(&'static str, String); 2] {
    let pieces = |pieces: u32, each: u64, last: u64| match pieces {
        1 => bytes(last),
        pieces => format!("{pieces} pieces of {}, the last of {}", bytes(each), bytes(last)),
    };
    let Some(vault) = vault else {
        return [("vault", "none, a bare engine".into()), ("journal", "none".into())];
    };
    let full = pieces(vault.pieces, vault.piece_bytes, vault.last_piece_bytes);
    let journal = &vault.journal;
    let (each, last) = (journal.delta_piece_bytes, journal.delta_last_piece_bytes);
    let journal = format!(
        "records of {}, deltas of {}, a full checkpoint every {} epochs",
        bytes(journal.record_bytes),
        pieces(journal.delta_pieces, each, last),
        count(journal.full_every),
    );
    let (record, grows) = (bytes(vault.commit_bytes), bytes(vault.commit_bytes_an_opening));
    let vault =
        format!("commit record of {record}, {grows} more an opening, checkpoints of {full}");
    [("vault", vault), ("journal", journal)]
}
