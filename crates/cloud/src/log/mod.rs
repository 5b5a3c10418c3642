//! The query log of a site at a server (`fogbank_store::Log`), and the way there.
//!
//! ```text
//! append    session, turn, bytes -> place, or none      publish   place, bytes -> done
//! forget    a place              -> done                follow    a place -> done, events
//! ```
//! 1. *A tenant has one log*, in its own store (`fogbank_store::BlobLog`), opened when somebody
//!    first asks for it. Calls come as those of the store do: token, rate, permits, memory
//!    (`service`).
//! 2. *Follow* stays open. Its events come as frames (`frames`), each when the one before has left;
//!    who takes none for a while is told no more. It ends when the server stops.
//! 3. *Loss*: a call fails as absent, a listener ends so; nothing is asked twice here.
//!
//! Invariants
//! - What the log holds counts for the tenant's quota, and in memory for its part of what all
//!   share.
//! - A client believes no events out of order, and no longer ones than there are.
//! - The log's blobs are among those that the tenant's calls of the store reach: who has the token
//!   may break its log, as it may delete all else. The server then refuses to open it, and goes on.
//!
//! What the server sees: who appends, publishes and listens, when, and how many bytes.

mod client;
mod desk;
mod said;
mod tenant_log;

pub use client::LogClient;
pub(crate) use desk::answer;
pub(crate) use said::{BODY_BYTES_MAX, PATH, Request};
pub(crate) use tenant_log::TenantLog;
