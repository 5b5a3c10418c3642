//! What clients ask for, as draws of key numbers.

use fogbank_env::Stream;
use rand_core::Rng;

/// What clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Nothing.
    Idle,
    /// One record, read and written.
    OneHotKey,
    /// All records alike, read and written.
    Uniform,
    /// All records in their order, read.
    Scan,
    /// Few records often and many rarely (Zipf, exponent 1), read and written.
    Zipf,
    /// Only what is not there.
    AllAbsent,
    /// All records alike, written without being read.
    AllWrites,
    /// Interactive transactions on few records that abort one another, and themselves. Of an engine
    /// alone it is reads that come to nothing: uniform reads and no writes.
    AbortStorm,
    /// Programs that keep the proxy busy for longer than from one point of the grid to the next:
    /// each goes through all names again and again, and writes a record. Of an engine alone,
    /// uniform.
    LongPrograms,
    /// Programs that change more records than an epoch writes: half of them all are deleted, or put
    /// back. Of an engine alone, uniform.
    LargePrograms,
}

/// How much clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intensity {
    /// One client that pauses for an epoch after every answer; of an engine one slot a batch.
    Light,
    /// More than the batches hold.
    Saturated,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::OneHotKey,
        Self::Uniform,
        Self::Scan,
        Self::Zipf,
        Self::AllAbsent,
        Self::AllWrites,
        Self::AbortStorm,
        Self::LongPrograms,
        Self::LargePrograms,
    ];

    /// A stable name, in kebab case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::OneHotKey => "one-hot-key",
            Self::Uniform => "uniform",
            Self::Scan => "scan",
            Self::Zipf => "zipf",
            Self::AllAbsent => "all-absent",
            Self::AllWrites => "all-writes",
            Self::AbortStorm => "abort-storm",
            Self::LongPrograms => "long-programs",
            Self::LargePrograms => "large-programs",
        }
    }

    /// Whether what is asked for was put there before.
    pub(super) fn is_filled(self) -> bool {
        self != Self::Idle
    }

    /// Whether clients change what they read.
    pub(super) fn updates(self) -> bool {
        matches!(self, Self::OneHotKey | Self::Uniform | Self::Zipf)
    }
}

/// Draws key numbers for one workload.
pub(super) struct Keys {
    workload: Workload,
    count: u32,
    weights: Vec<f64>, // cumulative, for Zipf
    cursor: u32,
}

impl Keys {
    /// Keys below `count`; what is absent is numbered from there on. A scan begins at `cursor`.
    pub fn new(workload: Workload, count: u32, cursor: u32) -> Self {
        let mut sum = 0.0;
        let weight = |rank: u32| {
            sum += 1.0 / f64::from(rank + 1);
            sum
        };
        let ranks = if workload == Workload::Zipf { count } else { 0 };
        Self { workload, count, weights: (0..ranks).map(weight).collect(), cursor }
    }

    /// The next key asked for.
    pub fn next(&mut self, stream: &mut Stream) -> u32 {
        match self.workload {
            Workload::OneHotKey | Workload::Idle => 0,
            Workload::Scan => {
                self.cursor += 1;
                (self.cursor - 1) % self.count
            }
            Workload::Zipf => {
                let whole = self.weights.last().copied().unwrap_or(1.0);
                let draw = f64::from(stream.next_u32()) / f64::from(u32::MAX) * whole;
                self.weights.partition_point(|weight| *weight < draw) as u32
            }
            Workload::AllAbsent => self.count + below(stream, self.count),
            Workload::Uniform
            | Workload::AllWrites
            | Workload::AbortStorm
            | Workload::LongPrograms
            | Workload::LargePrograms => below(stream, self.count),
        }
    }
}

/// A draw below `bound`; the bias of 2^-32 is of no matter for a workload.
pub(super) fn below(stream: &mut Stream, bound: u32) -> u32 {
    ((u64::from(stream.next_u32()) * u64::from(bound)) >> 32) as u32
}
