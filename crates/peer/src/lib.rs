//! A server that keeps a copy of the freshness register, and the way to it.
//!
//! A proxy keeps its register at a majority of 2f + 1 of these in trust domains of others
//! (`QuorumRegister` of the crate `durable` has the protocol among them). This crate is one of
//! them, and the network in between:
//!
//! 1. *first start*: the server makes a certificate of its own and a token, 32 random bytes, and
//!    writes both, with where it listens, as one line into the file `address`;
//! 2. *greeting*: the proxy connects by TLS, accepts the one certificate whose SHA-256 it knows,
//!    and shows the token;
//! 3. *calls*: read and write of what is held under a name, one at a time; what a call changed is
//!    durable on the server's disk before it is answered;
//! 4. *client*: every call ends within a second; until then it connects again as often as it takes,
//!    which is safe since the same write twice is one.
//!
//! Invariants
//! - What has been promised or written is there after any stop of the server (`held`).
//! - Nobody without the token reaches anything of a store; nobody who does not know a store's name,
//!   which follows from its key, reaches that store.
//! - Whatever arrives, memory, disk and connections are bounded (`wire`, `server`).
//!
//! What the server sees: names, how often each is read and written and when - the beat of a store
//! and its openings, which are public - and sealed values of constant length. What the network
//! sees: TLS records of constant lengths at those times. The cloud sees nothing of it.

mod address;
mod client;
mod held;
mod server;
mod wire;

pub use address::{AddressError, PeerAddress, parse_list};
pub use client::TlsPeer;
pub use fogbank_tls::Token;
pub use held::HeldFiles;
pub use server::{Bound, Desk, Desks, RegisterServer, ServerError, write_address};
