//! `partition`: ObliviStore's square root of N small pyramids, shuffled in the background.
//!
//! # The protocol, one access
//!
//! 1. It is cut into a record, in the order of arrival. It shows the partition of its block, or one
//!    drawn at random if the block is under way already; and it is fixed which cells it reads: one
//!    of every filled level of that partition (`reader`).
//! 2. The partition is given an order, and every fourth access gives one to the next in turn
//!    (`orders`).
//! 3. When the record is durable the cells are read, all in one message.
//! 4. The access ends when its cells have come, those of a job of its partition cut before it, and
//!    all accesses before it have ended. Its block goes to the stash of a partition drawn at
//!    random.
//! 5. A partition whose durable orders touch a stored level gets a *job* (`job`): it reads a fixed
//!    quota of the levels that they merge, and writes whole the levels that they leave. Orders that
//!    wait are carried out by one job. Jobs of different partitions do not wait for each other.
//! 6. When the job's commit is durable, what it has written takes the place of what it has read.
//!
//! Levels below c0 never leave the proxy: their blocks wait in the stash of the partition.
//!
//! # Invariants
//!
//! - No cell is read for two purposes, no generation of a level is written twice.
//! - A block is in one level, stash or job of its partition, or under way.
//! - The partition of a block was drawn when it was last asked for, and has been shown by nobody.
//! - Whatever is delayed, no level runs out of dummies: it joins its job when it is due (`level`).
//!
//! # What the cloud sees
//!
//! Of each access a uniform partition and a uniform unread cell of each of its filled levels; of
//! each job a partition and the counter that it reaches, from which everything follows; and times.
//!
//! # Departures from the paper
//!
//! A level that is due gives its cells to accesses on account of its job (early cells), so that
//! nobody waits for a level without dummies. A job is due by durable orders only. The top has
//! 2^(L-1) dummies in place of C.
//!
//! Paper: ObliviStore, sections 3 to 5; SSS for the pyramids.

// Nothing but tests stands on it yet.
#![cfg_attr(not(test), allow(dead_code))]

mod job;
mod layout;
mod level;
mod orders;
mod plane;
mod position;
mod pyramid;
mod reader;

#[cfg(test)]
mod tests;

pub use layout::Layout;
