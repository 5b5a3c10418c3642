//! What the processes of the binaries ask of the system: how memory is allocated (decision 0015),
//! and how soon a thread gets a core (decision 0041). Nothing else in the project is unsafe. And
//! how they speak to whoever started them.

mod allocator;
mod slices;
mod words;

pub use allocator::{keep_large_buffers, share_arenas};
pub use slices::{short_slices, usual_slices};
pub use words::{to_error, to_output};
