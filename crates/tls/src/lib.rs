//! TLS for what listens and for what connects: one provider, one way to say what is wrong.
//!
//! - A listener takes its certificate and key from PEM files ([`acceptor`]). The user brings them,
//!   or they are made at the first start ([`made`]), signed by themselves.
//! - Who connects to such a server knows the [`Pin`] of its certificate and accepts no other
//!   ([`connector`]): no authority, no name and no date are asked. It shows a [`Token`] inside.
//!
//! What the network sees: that TLS is spoken between two addresses, when, and how much.

mod listening;
mod own;
mod pin;
mod token;

use std::path::PathBuf;

pub use listening::{TlsFiles, acceptor};
pub use own::made;
pub use pin::{Pin, SERVER_NAME, connector};
pub use token::{Token, fresh_seed};

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path} for TLS: {reason}")]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}
