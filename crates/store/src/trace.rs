//! The trace: everything the store saw, in the order it saw it, as a file for the auditor.
//!
//! `docs/trace-format.md` draws every byte. Invariants:
//! - a request is in the trace before it is forwarded, and its completion after it returned, also
//!   if it failed or its caller went away;
//! - nothing is ever dropped: when the disk cannot keep up, callers wait (and the wait is counted);
//! - the trace holds what the cloud sees and nothing else: no message of an error, no content, only
//!   fingerprints of what travelled, which are sealed bytes to begin with.

mod block;
mod decode;
mod encode;
mod event;
mod exchange;
mod fingerprint;
mod public;
mod reader;
mod spare;
mod split;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub(crate) use encode::Placed;
pub use event::{
    Blame, ChunkCells, ChunkSeen, Client, Condition, Done, Event, Heard, LogCall, Mark, Outcome,
    Request, Sent,
};
pub use exchange::{Exchange, Exchanges};
pub use fingerprint::{Fingerprinting, Fingerprints};
pub use public::{JournalConfig, PaceConfig, PublicConfig, RateConfig, TraceClock, VaultConfig};
pub use reader::{TraceError, TraceReader, Truncation};
pub use split::{CellsOf, Shown};
pub use writer::{TraceOptions, TraceSummary, TraceWriter};

/// The fingerprint of a blob in a trace, and of a cell that is fingerprinted whole: xxh3, 64 bits.
///
/// It finds repetitions and mismatches; it is no commitment against someone who seeks collisions.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    Fingerprints::Whole.of(bytes)
}
