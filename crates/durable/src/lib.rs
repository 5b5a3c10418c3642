//! What survives a stop: the commit record, checkpoints, the freshness register and the fence.
//!
//! Knows no engine and no transaction; serves all of them. The life of a store:
//!
//! 1. *create*: draw store id and salt, put the commit record if absent, bump the register;
//! 2. *open*: read the commit record, hold it against the register, put a new one with a fresh salt
//!    if unchanged (the store is *claimed*), bump the register; only then is the checkpoint read;
//! 3. *run*: put a record that says so, bump the register; only then are arrays read or written. A
//!    claim that came to nothing can be claimed again, a run that was not closed cannot;
//! 4. *close*: write a full padded checkpoint in pieces of one size, put a commit record that names
//!    it by digest if unchanged, bump the register, delete what it supersedes.
//!
//! Invariants
//! - A conditional put of the commit record precedes the first read and the first write of every
//!   opening, so two proxies never work on one store: the later one takes the record, the earlier
//!   one's next put fails ([`Error::Fenced`]).
//! - The register is never behind what was acknowledged; a commit record that the register does
//!   not know (but for the one put that a stop may have interrupted) is refused.
//! - Every length is a function of public configuration.
//!
//! What the cloud sees: the commit record's public part (format, store id, configuration, number
//! and salts of openings, claimed, running or closed) and constant-size sealed blobs.

mod commit;
mod container;
mod error;
mod register;
mod section;
mod vault;

pub use commit::commit_bytes;
pub use container::Pieces;
pub use error::Error;
pub use register::{FileRegister, MemoryRegister, Register, RegisterValue};
pub use section::{Section, SectionReader, SectionWriter, take};
pub use vault::{Restored, Vault};

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;
