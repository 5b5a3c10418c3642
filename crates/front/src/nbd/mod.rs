//! The protocol of network block devices (NBD): a disk over TCP, TLS or a socket in a folder, on
//! any engine that serves accesses as they come.
//!
//! What happens to a request
//! 1. The `handshake` haggles `option`s until the client takes the disk; if TLS is wanted, it comes
//!    before anything else.
//! 2. The `connection` takes a `request` off the stream, within `limits`, a write with all its
//!    bytes.
//! 3. The `disk` cuts its range into pieces of so many blocks, and every block is one access; a
//!    part of a block is one access that patches it. A piece waits in turn until accesses may be
//!    under way, so that requests interleave, of this connection and of others.
//! 4. When the last of its blocks has been answered the `reply` leaves. Replies leave in the order
//!    in which requests end.
//!
//! Invariants
//! - A request of any length at any offset is right, and takes effect block by block, each at once.
//!   A read and a write that overlap and are under way together may each come first in each block.
//! - A write that did not arrive whole does nothing. One that is not acknowledged may have been
//!   done in some of its blocks and not in others, as on any disk.
//! - What is acknowledged is durable and seen by every connection, because an engine answers an
//!   access when both are so. That is all that a flush, FUA and several connections to one disk
//!   promise, so they send nothing to the engine. A flush must cover the writes whose replies have
//!   left before; ours also waits for those that came before it on its connection, because there
//!   are clients that send both together and take the reply of the flush for that of all. It waits
//!   for reads alike.
//! - When a request is taken, and when it and a flush behind it are answered, follows from how many
//!   blocks are asked for and when the engine answers, never from whether they are read or written.
//! - Memory and accesses under way are bounded for each connection by itself, so that one which
//!   does not take its replies holds up nobody else. Nothing is allocated for bytes that have not
//!   come, beyond one piece.
//! - Malformed input ends one connection and nothing else.
//!
//! What an observer sees. The cloud: how many accesses there are, and when, which for the engines
//! of this shape is public. So the number of blocks that a request touches is to be seen, and that
//! it came; not which blocks, nor whether it read, wrote, zeroed or trimmed them. A flush is not to
//! be seen. The network to the client is on the trusted side, in clear unless TLS is on. No offset
//! and no byte of the disk is in a log.

mod connection;
mod disk;
mod export;
mod handshake;
mod input;
mod limits;
mod listener;
mod option;
mod order;
mod output;
mod reply;
mod request;
mod span;

pub use crate::listening::{Error, Place};
pub use fogbank_tls::TlsFiles;
pub use limits::Limits;
pub use listener::{Listener, Settings, serve, serve_stream};

/// Takes `bytes` for what a client sends, an option and then a request, and decodes them: for
/// fuzzing.
///
/// # Panics
/// If what was decoded and what was there are not the same.
pub fn fuzz_decode(bytes: &[u8]) {
    option::fuzz_decode(bytes);
    request::fuzz_decode(bytes);
}
