//! The outside world, passed in: time, randomness, compute, threads for clients, files that only
//! their owner may read, folders that one process has, metrics typed by who may see them, how
//! counts are said to whoever reads, how numbers are read that people type, and what is said where
//! nothing can listen.
//!
//! Everything above this crate takes what it needs from here as an argument. That is what makes a
//! run repeatable from one seed (same seed, same trace) and lets tests run in virtual time.
//! `clippy.toml` bans the direct calls and names the replacement.

mod clock;
mod compute;
mod counted;
mod deadline;
mod folder_lock;
mod listening;
mod lock;
mod metrics;
mod quoted;
mod random;
mod secret_file;
mod threads;
mod timer;
mod typed;

pub use clock::{Clock, Nanos, SystemClock};
pub use compute::{compute, compute_over};
pub use counted::counted;
pub use deadline::by;
pub use folder_lock::FolderLock;
pub use listening::{cannot_listen, free_beside};
pub use lock::{Mutex, RwLock};
pub use metrics::{Gauge, Metrics, Visibility};
pub use quoted::quoted;
pub use random::{Purpose, Randomness, Stream};
pub use secret_file::{create_secret, open_to_others, write_secret};
pub use threads::ClientThreads;
pub use typed::within;
