//! What the processes of the binaries ask of the system: how memory is allocated (decision 0015),
//! and how soon a thread gets a core (decision 0041). Nothing else in the project is unsafe. And
//! how they speak with whoever started them.

mod allocator;
mod environment;
mod slices;
mod typed;
mod words;

pub use allocator::{keep_large_buffers, share_arenas};
pub use environment::SETTINGS;
pub use slices::{short_slices, usual_slices};
pub use typed::typed;
pub use words::{to_error, to_output};

/// The version, with the commit that a release is built from.
pub const VERSION: &str = env!("FOGBANK_VERSION");
