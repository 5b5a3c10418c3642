//! What every immediate engine is told beside what is its own: fixed when a store is created, but
//! for what is under way, rate and pace.

use std::time::Duration;

use fogbank_env::Nanos;
use fogbank_store::trace::{PaceConfig, RateConfig};

use super::ImmediateShape;
use crate::{Error, Result};

/// About how long a record may become: what comes behind one waits for it.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// Messages in which a write-back leaves: larger ones cost no less a byte, and what comes behind
/// one waits.
const WINDOW_BYTES_MAX: usize = 256 << 10;
/// The same of what jobs write, some of whose chunks are longer.
const JOBS_WINDOW_BYTES_MAX: usize = 1 << 20;
/// About as many of them are under way, or a message that ends would leave a hole.
const WINDOWS: usize = 32;
/// Never fewer, however large a bucket is: each waits for a round trip.
const WINDOWS_MIN: usize = 4;

/// A fixed rate: so many accesses at every point of a grid, whatever was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// From one point to the next.
    pub interval: Nanos,
    /// Accesses at each: 1 to as many as a record has parts.
    pub accesses: usize,
}

/// What the link carries each way, in bytes a second: what is written leaves, and what is read is
/// asked for, no faster, so that small messages do not wait in the link behind them. `None` where
/// the link never fills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkRate {
    /// Towards the cloud.
    pub up_bytes_per_s: Option<u64>,
    /// From the cloud.
    pub down_bytes_per_s: Option<u64>,
}

/// Bytes that an access moves, averaged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// Towards the store: what is written, journal and checkpoints.
    pub up_bytes: f64,
    /// From the store: what is read.
    pub down_bytes: f64,
}

/// What the shell of an engine is told. Public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellSettings {
    /// Capacity and block size.
    pub shape: ImmediateShape,
    /// Accesses under way at once; further accesses wait their turn.
    pub under_way_max: usize,
    /// Journal records under way at once. Never changed in the life of a store.
    pub records_at_once: usize,
    /// About how many bytes of what is written go into one message: what comes behind one waits for
    /// it.
    pub window_bytes: usize,
    /// How many such messages are under way at once.
    pub windows: usize,
    /// Where jobs write: no further one leaves while so many bytes are under way.
    pub bytes_at_once: usize,
    /// Whatever leaves does so at multiples of this, so that its moment does not tell how long the
    /// proxy worked; zero lets everything leave as soon as it can. The vault has to be opened on a
    /// store that keeps to the same points ([`fogbank_store::GridStore`]).
    pub quantum: Duration,
    /// A fixed rate; `None` serves every access as it comes.
    pub rate: Option<Rate>,
    /// What the link carries. Needs a quantum.
    pub pace: LinkRate,
}

/// Accesses that go into one journal record at most: `most` of small parts, fewer of large ones.
pub(crate) fn parts_max(part_bytes: usize, most: usize) -> usize {
    (RECORD_BYTES_MAX / part_bytes).clamp(1, most)
}

impl ShellSettings {
    /// Sixty-four accesses under way, no grid, no rate, a link that never fills.
    pub fn new(shape: ImmediateShape) -> Self {
        Self {
            shape,
            under_way_max: 64,
            records_at_once: 1,
            window_bytes: WINDOW_BYTES_MAX,
            windows: WINDOWS,
            bytes_at_once: WINDOWS * WINDOW_BYTES_MAX,
            quantum: Duration::ZERO,
            rate: None,
            pace: LinkRate::default(),
        }
    }

    /// The same with about so many bytes under way towards the cloud at once, four chunks at least:
    /// more than the link carries until they have been acknowledged, or it stands idle.
    pub(crate) fn with_write_behind(self, bytes: usize, chunk_bytes: usize) -> Self {
        let chunks = (bytes / WINDOWS).min(WINDOW_BYTES_MAX) / chunk_bytes;
        let window_bytes = chunks.max(1) * chunk_bytes;
        let windows = bytes.div_ceil(window_bytes).max(WINDOWS_MIN);
        Self { window_bytes, windows, ..self }
    }

    /// The same for an engine with jobs: about so many bytes under way, in as many messages as are
    /// worth while; two at least where a chunk is larger, or the link would stand idle while one is
    /// acknowledged.
    pub(crate) fn with_jobs_behind(self, bytes: usize, chunk_bytes: usize) -> Self {
        let window_bytes = bytes.div_ceil(WINDOWS).min(JOBS_WINDOW_BYTES_MAX);
        let bytes_at_once = bytes.max(2 * chunk_bytes);
        Self { window_bytes, windows: WINDOWS, bytes_at_once, ..self }
    }

    /// Chunks in a message at most.
    pub(crate) fn window_chunks(&self, chunk_bytes: usize) -> usize {
        self.window_bytes.div_ceil(chunk_bytes).max(1)
    }

    /// Rate and pace as the head of a trace says them.
    pub(crate) fn flow(&self) -> (Option<RateConfig>, PaceConfig) {
        let LinkRate { up_bytes_per_s, down_bytes_per_s } = self.pace;
        let rate = |Rate { interval, accesses }| RateConfig {
            interval_ns: interval,
            accesses: accesses as u32,
        };
        (self.rate.map(rate), PaceConfig { up_bytes_per_s, down_bytes_per_s })
    }

    /// Whether an engine whose records have so many parts can keep to them.
    ///
    /// # Errors
    /// [`Error::Caller`] naming what cannot be.
    pub(crate) fn check(&self, parts_max: usize) -> Result<()> {
        let most = parts_max.min(self.under_way_max);
        let quantum = self.quantum.as_nanos() as Nanos;
        let counts = |rate: Rate| rate.interval > 0 && (1..=most).contains(&rate.accesses);
        if self.under_way_max == 0 || self.records_at_once == 0 || !self.rate.is_none_or(counts) {
            return Err(Error::Caller(format!(
                "accesses under way are at least one; a fixed rate has 1 to {most} at every point"
            )));
        }
        let LinkRate { up_bytes_per_s, down_bytes_per_s } = self.pace;
        let rates = [up_bytes_per_s, down_bytes_per_s];
        if rates.contains(&Some(0)) || (quantum == 0 && rates.iter().any(Option::is_some)) {
            let words = "a pace is at least a byte a second and needs a quantum";
            return Err(Error::Caller(words.into()));
        }
        let fits = |rate: Rate| quantum == 0 || rate.interval.is_multiple_of(quantum);
        if !self.rate.is_none_or(fits) {
            let words = "the interval of a fixed rate is a multiple of the quantum";
            return Err(Error::Caller(words.into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_needs_a_quantum_and_a_rate() {
        let shape = ImmediateShape { capacity: 16, value_bytes: 16 };
        let of = |down_bytes_per_s, quantum_ms| {
            let pace = LinkRate { down_bytes_per_s, ..LinkRate::default() };
            let quantum = Duration::from_millis(quantum_ms);
            ShellSettings { pace, quantum, ..ShellSettings::new(shape) }.check(1).is_ok()
        };
        assert_eq!([of(None, 0), of(Some(1), 1)], [true, true]);
        assert_eq!([of(Some(1), 0), of(Some(0), 1)], [false, false]);
    }
}
