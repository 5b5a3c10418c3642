//! The transaction layer over a map that checks the engine's contract, in virtual time.

mod interactive;
mod isolation;
mod overflow;
mod programs;
mod records;
mod shape;
mod support;
