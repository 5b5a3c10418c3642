//! The Redis front end over a store in memory, through real connections.

mod differential;
mod support;
