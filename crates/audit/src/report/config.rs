//! The public configuration of a run as a person reads it, and what has to be said about it.

use fogbank_env::Nanos;
use fogbank_store::trace::{
    EngineConfig, PaceConfig, PublicConfig, RingConfig, TaoConfig, TraceClock, VaultConfig,
};

use super::words::{bytes, count, duration};

/// What a configuration says, by subject.
pub fn lines(config: &PublicConfig) -> Vec<(&'static str, String)> {
    let mut lines = vec![("clock", clock(config.clock).into())];
    match &config.engine {
        EngineConfig::Ring(ring) => lines.extend(ring_lines(ring)),
        EngineConfig::Tao(tao) => lines.extend(tao_lines(tao)),
    }
    lines
}

fn ring_lines(ring: &RingConfig) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("engine", engine(ring)),
        ("buckets", format!("Z {}, S {}, A {}", ring.reals, ring.dummies, ring.evict_every)),
        ("epochs", epochs(ring)),
        ("beat", beat(ring)),
        ("options", options(ring)),
    ];
    lines.extend(vault(ring.vault.as_ref()));
    lines
}

fn tao_lines(tao: &TaoConfig) -> Vec<(&'static str, String)> {
    let rate = match tao.rate {
        None => "none, every access as it comes".into(),
        Some(rate) => format!("{} every {}", rate.accesses, duration(rate.interval_ns)),
    };
    vec![
        (
            "engine",
            format!(
                "tao, {} blocks of {}, tree of {} levels, {} of them in the proxy, cells of {}",
                count(tao.capacity.into()),
                bytes(tao.value_bytes),
                u32::from(tao.leaf_level) + 1,
                tao.cached_levels,
                bytes(tao.cell_bytes.into()),
            ),
        ),
        ("buckets", format!("Z {}", tao.reals)),
        ("rate", rate),
        ("pace", pace(tao)),
        (
            "write-back",
            format!(
                "every {} paths, in windows of {} buckets, {} of them under way; {} paths under way \
                 and {} write-backs not acknowledged at most",
                count(tao.write_back_every.into()),
                count(tao.window_chunks.into()),
                count(tao.windows.into()),
                count(tao.under_way_max.into()),
                count(tao.write_backs_max.into()),
            ),
        ),
        ("vault", vault_line(&tao.vault)),
        (
            "journal",
            format!(
                "records of {} and {} more an access, a checkpoint every {} write-backs",
                bytes(tao.vault.journal.record_bytes),
                bytes(tao.part_bytes),
                count(tao.write_backs_a_checkpoint),
            ),
        ),
    ]
}

fn pace(tao: &TaoConfig) -> String {
    let of =
        |rate: Option<u64>| rate.map_or("no limit".into(), |rate| format!("{}/s", bytes(rate)));
    let PaceConfig { up_bytes_per_s, down_bytes_per_s } = tao.pace;
    let points = match tao.quantum_ns {
        0 => "when they are ready".into(),
        quantum => format!("at multiples of {}", duration(quantum)),
    };
    let (up, down) = (of(up_bytes_per_s), of(down_bytes_per_s));
    format!("messages leave {points}; write-backs: {up}, paths: {down}")
}

/// The same in one line.
pub fn line(config: &PublicConfig) -> String {
    let lines = lines(config).into_iter().map(|(subject, what)| format!("{subject}: {what}"));
    lines.collect::<Vec<_>>().join("; ")
}

/// What the configuration itself gives away, if anything.
pub fn caveat(config: &PublicConfig) -> Option<&'static str> {
    let ring = match &config.engine {
        EngineConfig::Ring(ring) => ring,
        EngineConfig::Tao(tao) if tao.rate.is_some() => return None,
        EngineConfig::Tao(_) => return Some(AS_THEY_COME),
    };
    match (ring.interval_ns, ring.quantum_ns) {
        (0, _) => Some(BACK_TO_BACK),
        (_, 0) => Some(NO_QUANTUM),
        _ => None,
    }
}

const BACK_TO_BACK: &str = "back to back (interval 0): times of departures follow the work, which \
                            depends on what clients do; timing checks do not apply";
const AS_THEY_COME: &str = "every access as it comes (no rate): how many arrive and when is plain to \
                            see, and when they are answered";
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
    let Some(vault) = vault else {
        return [("vault", "none, a bare engine".into()), ("journal", "none".into())];
    };
    let journal = &vault.journal;
    let (each, last) = (journal.delta_piece_bytes, journal.delta_last_piece_bytes);
    let journal = format!(
        "records of {}, deltas of {}, a full checkpoint every {} epochs",
        bytes(journal.record_bytes),
        pieces(journal.delta_pieces, each, last),
        count(journal.full_every),
    );
    [("vault", vault_line(vault)), ("journal", journal)]
}

fn vault_line(vault: &VaultConfig) -> String {
    let (record, grows) = (bytes(vault.commit_bytes), bytes(vault.commit_bytes_an_opening));
    let full = pieces(vault.pieces, vault.piece_bytes, vault.last_piece_bytes);
    format!("commit record of {record}, {grows} more an opening, checkpoints of {full}")
}

fn pieces(pieces: u32, each: u64, last: u64) -> String {
    match pieces {
        1 => bytes(last),
        pieces => format!("{pieces} pieces of {}, the last of {}", bytes(each), bytes(last)),
    }
}
