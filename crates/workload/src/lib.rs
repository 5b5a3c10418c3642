//! Applications to measure with: TPC-C, SmallBank, FreeHealth, YCSB and those that a file
//! describes, and the clients that run them.
//!
//! 1. A [`Workload`] says which records there are at first and draws transactions.
//! 2. A [`Database`] runs them: Fogbank, the same transaction layer without privacy, Redis,
//!    PostgreSQL.
//! 3. Clients measure it ([`drive`]), each with a stream of randomness of its own.
//! 4. The workload holds the database against its own rules ([`Workload::check`]). A run whose
//!    check fails is worth nothing, however fast it was.
//!
//! Every database gets the same transactions from the same seed, with the same statements.

mod attempt;
pub mod chance;
mod database;
pub mod drive;
pub mod file;
mod fogbank;
pub mod freehealth;
mod nopriv;
mod observed;
mod pool;
mod postgresql;
pub mod record;
pub mod redis;
#[cfg(test)]
mod serial;
pub mod servers;
pub mod smallbank;
pub mod tpcc;
mod workload;
pub mod ycsb;

pub use database::{Database, Effect, Error, Performed, Procedure, Result, Statements};
pub use fogbank::Fogbank;
pub use observed::Observed;
pub use postgresql::Postgresql;
pub use redis::Redis;
pub use workload::{Ledger, Records, Workload, read_all};
