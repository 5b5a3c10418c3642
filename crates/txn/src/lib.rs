//! Transactions over a batched engine: epochs, MVTSO, batcher, key directory.
//!
//! This is the proxy of Obladi (Crooks et al., OSDI 2018, section 6). Time is cut into epochs; each
//! makes exactly R read batches, one write batch and one commit of the engine, at points of an
//! absolute grid, whatever clients do. Within an epoch:
//!
//! 1. Transactions read and write versions of records in memory under multiversion timestamp
//!    ordering ([`Transaction`], interactive), or run as a whole on the newest state ([`Program`],
//!    whose body the proxy knows). A transaction that has waited, and has only read, moves to the
//!    newest timestamp ([`timestamp_renewal`]).
//! 2. What they read of the store waits for the next batch that has room. Batches hold distinct
//!    addresses, each read once an epoch; everything else is served from memory.
//! 3. When the epoch ends, unfinished transactions abort, with all that read from them. The last
//!    version of every record goes into the write batch.
//!    What a program changes beyond that is staged in several epochs ([`staging`]).
//! 4. Only after the engine has committed does anybody get an answer.
//!
//! Invariants:
//!
//! - The calls to the engine and their times depend on the settings, the clock and the engine's own
//!   completions alone. Conflicts, aborts, hits, full batches and clients that vanish change which
//!   addresses are inside a call, never its shape: the engine pads and shuffles.
//! - Nobody is answered from a state that is not durable.
//! - An epoch is serialisable in the order of timestamps, and epochs follow each other.
//! - The write batch cannot overflow: its slots are reserved when writes are made.
//!
//! What the cloud sees: nothing from this crate but the beat.
//!
//! A [`Ticker`] makes an engine for disks of it, by programs of one block each.
//!
//! The pure part ([`core`] and what it uses: no clock, no I/O, no async) sits behind one lock that
//! is never held across an await. [`driver`] alone owns the engine, and never takes that lock: the
//! [`clerk`] does for it what it asks for, and what is not there at its point leaves as padding
//! ([`handover`]). So nothing that clients ask for delays a departure.

mod addresses;
mod answers;
mod batcher;
mod checkpoint;
mod clerk;
mod core;
mod delta;
mod directory;
mod dispatch;
mod driver;
mod error;
mod filling;
mod footprint;
mod gate;
mod grid;
mod handover;
#[cfg(test)]
mod histories;
mod key;
mod limits;
mod merge;
mod mvtso;
mod nopriv;
mod predicate;
mod program;
mod proxy;
mod quota;
mod reads;
mod record;
mod recovery;
mod relocate;
mod retry;
mod retry_locks;
mod row;
mod rows;
mod schedule;
mod settings;
mod shared;
mod shared_vault;
mod stage;
mod staging;
mod statement;
mod ticker;
mod timestamp_renewal;
mod transaction;
mod uptime;
mod version;
mod view;
mod watch;

pub use checkpoint::{FIRST_TAG as FIRST_SECTION_TAG, checkpoint_lengths};
pub use delta::delta_length;
pub use error::{Bound, Error, Lack, Pause, Result};
pub use filling::Filling;
pub use footprint::{Footprint, Observer, Trail};
pub use key::{Key, KeyRange};
pub use limits::Limits;
pub use nopriv::{NoPriv, PlainTransaction};
pub use program::Program;
pub use proxy::{Closed, Proxy, Session};
pub use record::{Record, Stat};
pub use relocate::{Moved, Moving};
pub use settings::{Components, Settings};
pub use shared_vault::SharedVault;
pub use ticker::{BLOCK_KEY_BYTES, Ticker};
pub use transaction::{Savepoint, Transaction};
pub use uptime::{Hours, Uptime};
pub use view::View;
pub use watch::Watch;
