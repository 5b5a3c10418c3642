//! The Redis protocol: RESP2 and RESP3 over TCP or TLS, on the transaction layer.
//!
//! What happens to a command
//! 1. `frame` takes it off the connection's bytes, within `limits`.
//! 2. `connection` looks it up in the table of `command`s, checks its arity, and either answers it
//!    on the spot or submits it as a `program`; between `MULTI` and `EXEC` it is kept.
//! 3. The program runs on the newest state through a `keyspace`, which knows types, existence and
//!    expiry, over records whose places `layout` defines.
//! 4. When its epoch has committed, the `reply` leaves in the order of the requests.
//!
//! Invariants
//! - Commands of one connection take effect in the order sent, and share epochs.
//! - A command is one transaction; the body of `MULTI` is one transaction inside one epoch; `EXEC`
//!   answers nil exactly if a watched key has changed since `WATCH`.
//! - An expired, flushed or deleted key is absent at once; the `janitor` takes back what it held,
//!   some of it in every epoch.
//! - Malformed input ends one connection and nothing else.
//!
//! What an observer sees. The cloud: nothing that depends on a command; its traffic is shaped
//! below. The network to the client is on the trusted side: there replies leave at the ends of
//! epochs, in clear unless TLS is on. Names, values and arrival figures are in no log, and `INFO`
//! prints no figure that depends on the data unless it is told to.

mod client;
mod command;
mod connection;
mod filling;
mod frame;
mod janitor;
mod keyspace;
mod layout;
mod limits;
mod listener;
mod number;
mod own;
mod pattern;
mod program;
mod refusal;
mod reply;
mod scan;
mod told;
mod unfinished;
mod untaken;
mod watcher;

pub use crate::listening::{Error, Place};
pub use filling::{Content, Filled, records_of};
pub use fogbank_tls::TlsFiles;
pub use frame::fuzz_parse;
pub use limits::Limits;
pub use listener::{Listener, Settings, serve};
pub use refusal::Advisor;
pub use told::told;
pub use watcher::Watcher;

/// Where a string named `name` is kept in a store that was never flushed, with the attribute of one
/// that does not expire: for whoever fills a store before it serves.
pub fn place_of_string(name: &[u8]) -> (fogbank_txn::Key, u64) {
    (fogbank_txn::Key::new(&layout::shared_group(0, layout::Role::Strings), name), 0)
}
