//! The only crate that holds the user's keys.
//!
//! What a sealed cell promises: nobody without the key learns anything of its content but its
//! length, and it opens only at the place and version it was sealed for, in the incarnation of the
//! proxy that sealed it. What it does not promise: that it is the *latest* version; freshness comes
//! from versions that the proxy computes and from the register (`fogbank-durable`).
//!
//! Invariants
//! 1. No (key, nonce) pair ever seals two plaintexts. Every opening of a store draws a fresh
//!    128-bit salt and derives its own keys from (master, store, salt); within an opening the nonce
//!    of a cell is its place (array, chunk, cell, tick) and a tick is used for one write-back only.
//!    Of a volume in two clouds it is the upload place, whose job has a number of its own; of a
//!    site that many clients share it is a tick of the session, whose key has a salt of its own.
//!    A key file under a passphrase has a salt of its own, and so a key that seals nothing else.
//! 2. Key material is erased when dropped and never printed.

mod blob;
mod cell;
mod digest;
mod hex;
mod key;
mod key_file;
mod passphrase;
mod permute;
mod register;
mod shared;
mod split;
mod system;
mod wrapped;

pub use blob::{BlobKey, BlobPlace};
pub use cell::{CellKey, Forged, Place, TAG_BYTES, TICK_BITS};
pub use digest::{Digest, Digesting, digest};
pub use key::{IncarnationKeys, KeyRing, MasterKey, Salt, StoreId};
pub use key_file::{KeyFile, KeyFileError, load_or_create, read_key_file, write_key};
pub use passphrase::{LONGEST, Passphrase, PassphraseError};
pub use permute::{Draws, PermutationKey};
pub use register::RegisterKey;
pub use shared::{HEADER_BYTES, Mark, OrderKey, Sealer, SessionKey, SiteKeys, Ticks};
pub use split::{RecordPlace, SeedFor, SplitKeys, UploadPlace};
pub use system::system_seed;
pub use wrapped::{Effort, WrappedKey, wrap_key};
