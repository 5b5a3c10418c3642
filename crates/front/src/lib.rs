//! What clients speak to: each protocol behind its own Cargo feature, all of them listening alike.

#[cfg(feature = "listening")]
mod listening;
#[cfg(feature = "nbd")]
pub mod nbd;
#[cfg(feature = "resp")]
pub mod resp;

#[cfg(feature = "listening")]
pub use listening::is_of_this_machine;
