//! What clients speak to: each protocol behind its own Cargo feature.

#[cfg(feature = "resp")]
pub mod resp;
