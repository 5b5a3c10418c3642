//! The Redis front end over a store in memory, through real connections.

mod connections;
mod differential;
mod expiry;
mod full;
mod keyspace;
mod own;
mod real_redis;
mod requests;
mod server_commands;
mod support;
mod transactions;
mod watcher;
