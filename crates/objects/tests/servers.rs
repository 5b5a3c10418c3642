//! Every kind of object store, by real servers that run on this machine: what the suite of back ends asks
//! for, what happens when one dies in the middle, and what is said of wrong settings.

#![allow(clippy::unwrap_used)] // a test

#[path = "server/mod.rs"]
mod server;

use std::sync::Arc;

use fogbank_env::SystemClock;
use fogbank_objects::{ObjectsOptions, ObjectsStore};
use fogbank_store::conformance;

use server::Server;

/// Opens the store of a fresh server under `prefix`.
async fn open(server: &Server, prefix: &str) -> ObjectsStore {
    let url = server.url(prefix).parse().unwrap();
    let clock = Arc::new(SystemClock::new());
    ObjectsStore::open(&url, &server.environment(), ObjectsOptions::default(), clock).await.unwrap()
}

async fn conforms(server: &Server) {
    conformance::run(&open(server, "suite/one").await).await;
}

#[tokio::test]
async fn s3_in_memory_conforms() {
    conforms(&Server::gofakes3()).await;
}

#[tokio::test]
async fn s3_with_signatures_conforms() {
    conforms(&Server::versitygw()).await;
}

#[tokio::test]
async fn azure_conforms() {
    conforms(&Server::azurite()).await;
}
