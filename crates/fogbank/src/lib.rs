//! Fogbank: storage in a cloud that cannot see what you touch.
//!
//! This crate is the embedded face: open a store, run transactions, close it. The binary of the
//! same name serves the same thing to Redis clients.
//!
//! ```no_run
//! use fogbank::{Key, OpenOptions, Place};
//!
//! # async fn run() -> fogbank::Result<()> {
//! let opened = OpenOptions::new(Place::local("clinic-data")).open().await?;
//! let key = Key::new(b"patient", b"17");
//! opened
//!     .proxy()
//!     .transact(|txn| {
//!         let key = key.clone();
//!         async move { txn.put(&key, "biopsy: benign".into(), 0).await }
//!     })
//!     .await?;
//! opened.close().await
//! # }
//! ```

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // programs say what is to be read

pub mod args;
pub mod backup;
pub mod config;
pub mod dashboard;
mod disk;
mod engines;
mod error;
pub mod fill;
mod filled;
pub mod history;
pub mod limits;
pub mod link;
pub mod load;
mod new_folder;
pub mod object_default;
mod open;
mod opened;
mod place;
pub mod plan;
pub mod preset;
pub mod recording;
pub mod registers;
mod room;
pub mod schedule;
mod second_journal;
pub mod side_check;
pub mod site;
mod stored;
pub mod traffic;
pub mod volume;

pub use disk::{Disk, disk_size};
pub use error::{Error, Result};
pub use fogbank_env::counted;
pub use fogbank_txn::{Key, KeyRange, Proxy, Record, Stat, Transaction, Uptime};
pub use open::OpenOptions;
pub use opened::{AtRest, Opened, Recovery, Resting};
pub use place::{Place, across_a_link, check_access, check_url, lock_trusted_side, open_store};
pub use stored::{Presence, Stored, presence, presence_at};
