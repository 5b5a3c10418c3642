//! `fogbank-cloud`, a storage server of our own that nobody has to trust, and the way to it.
//!
//! The server keeps what a [`fogbank_store::Store`] keeps, for many tenants, on its disk or in
//! memory; the client is a store. In between is gRPC over TLS (decision 0021): one method, one call
//! of it a call of the store, whole batches as streams of messages (`wire`, `reply`; docs/format.md
//! draws the bytes).
//!
//! 1. *tenants*: the operator adds one (`fogbank-cloud tenant add`); that makes a token and a file
//!    for the client with it and the pin of the server's certificate;
//! 2. *opening*: the client makes a fixed number of connections, accepts the one certificate
//!    pinned, and shows the token (`client`);
//! 3. *calls*: received whole and bounded, done on the tenant's own store, answered in portions
//!    (`service`);
//! 4. *the query log* of a tenant, which lies in its store, beside those (`log`).
//!
//! Invariants
//! - Nobody without a tenant's token reaches anything of that tenant; a tenant reaches nothing of
//!   another.
//! - Whatever arrives, on either end: memory, connections, calls and times are bounded, and nothing
//!   panics.
//! - A call is acknowledged when all of it is done, and only then.
//!
//! What the server sees is what a store sees, and the connections: how many, fixed, and when one is
//! made again. This crate cannot name a key: it does not depend on the crate that holds them.

mod bucket;
mod cache;
mod client;
mod codec;
mod credentials;
mod dial;
mod figures;
mod frames;
mod log;
mod mix;
mod pool;
mod quota;
mod reply;
pub mod roster;
mod server;
mod service;
mod tenant;
mod wire;

pub use client::{CONNECTIONS, CloudStore};
pub use credentials::{Address, Credentials, SCHEME, VARIABLE};
pub use dial::NOT_PINNED;
pub use log::LogClient;
pub use mix::MixClient;
pub use pool::Pool;
pub use quota::Allowance;
pub use server::{CloudServer, ServerError, ServerSettings, identity};
pub use tenant::{Announced, Common, Keeping, Overlay, Share, Tenants};
pub use wire::fuzz_request;
