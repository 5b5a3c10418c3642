//! tmp
mod frame;
mod limits;
mod number;
mod reply;
pub use frame::{fuzz_parse, Request, Decoder};
pub use limits::Limits;
