//! What survives a stop: the commit record, checkpoints, the freshness register and the fence.
//!
//! Knows no engine and no transaction; serves all of them. The life of a store:
//!
//! 1. *create*: note in the register which store is being made, put the first commit record if
//!    absent, bump the register;
//! 2. *open* ([`Opening::recover`]): verify commit record and journal against the register, take
//!    the next place of the journal, claim the store with a fresh salt, read checkpoint and deltas.
//!    It is the same whether the store was closed or its proxy was killed;
//! 3. *a batch* ([`Vault::append`]): journal what is about to be read, bump the register;
//! 4. *an epoch* ([`Vault::commit_epoch`], [`Vault::collect`]): delta or full checkpoint, commit
//!    record, register; then what is superseded is deleted;
//! 5. *close*: the same with a full checkpoint.
//!
//! Invariants
//! - What the cloud sees read stands in the journal before, under the digest of the register.
//! - Two proxies never work on one store: the later one takes a place of the journal and the commit
//!   record, the earlier one's next put fails ([`Error::Fenced`]). That it failed for that reason
//!   is said on proof alone: the register's, or that of a record which the key opens and which
//!   names what the earlier one put. A cloud that only says so has lied.
//! - The register is never ahead of the cloud, and behind it by one object at most, of the
//!   journal by as many records as may be under way at once; a state that it
//!   does not know is refused.
//! - Every length is a function of public configuration.
//! - After a failure nothing more is sent.
//!
//! What the cloud sees: the commit record's public part (format, store id, configuration, number
//! and salts of openings, claimed, running or closed), how many epochs and batches there were, and
//! constant-size sealed blobs.

mod backup;
mod commit;
mod committed;
mod container;
mod error;
mod freshness;
mod inspect;
mod journal;
mod link;
mod opening;
mod piece_writer;
mod public;
mod put;
mod quorum;
mod register;
mod register_file;
mod schedule;
mod section;
pub mod shared;
mod sweep;
mod vault;

pub use backup::{BackupError, BackupReader, BackupWriter};
pub use commit::{State, commit_bytes};
pub use committed::{ALL_BUT_COMMIT, Committed, JOURNAL_PREFIX, missing_record};
pub use container::Pieces;
pub use error::{Blob, Error, Suspicion};
pub use fogbank_held::{Ballot, Held, PeerDown, RegisterPeer, SlotFile, Stamp};
pub use inspect::{Inspected, Standing, inspect};
pub use journal::{Journalled, journal_bytes};
pub use opening::{Opening, Recovered};
pub use quorum::QuorumRegister;
pub use register::{MemoryRegister, Register, RegisterValue};
pub use register_file::FileRegister;
pub use schedule::full_every;
pub use section::{Section, SectionReader, SectionWriter, Sections, take};
pub use vault::{
    BegunAdoption, BegunRecord, Checkpoint, CheckpointWriter, Cut, Piecing, PutAdoption, PutRecord,
    Superseded, Vault, VaultSettings,
};

/// The result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
