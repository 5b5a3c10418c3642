//! A session that builds: the others write hardly anything but what they ask for, and nothing is
//! lost when it goes.

use std::sync::atomic::Ordering;

use fogbank_durable::shared::Coming;
use fogbank_oram::ImmediateEngine;
use fogbank_store::Link;
use tokio::task::JoinSet;

use crate::far::{Client, Far, ask};
use crate::leaving::{LINK, SITE};
use crate::world::World;
use crate::{Histories, hold, work};

const CLIENTS: u64 = 3;
/// So many that all levels are built more than once.
const QUERIES: u64 = 1_500;

/// Has clients ask so often each, and says what each took at most.
async fn asked(server: &Far, clients: &[Client], (seed, queries): (u64, u64)) -> u64 {
    let mut works = JoinSet::new();
    for (client, of) in (seed..).zip(clients) {
        works.spawn(ask(of.engine.clone(), server.clock.clone(), (client, queries)));
    }
    works.join_all().await.concat().into_iter().max().unwrap()
}

fn each(of: &[Client]) -> f64 {
    let written: u64 = of.iter().map(|client| client.written.load(Ordering::Relaxed)).sum();
    written as f64 / (CLIENTS * QUERIES) as f64
}

/// Cells that clients write for a query of theirs, and those that so many builders do.
async fn cells(builders: usize) -> [f64; 2] {
    let mut server = Far::new(SITE).await;
    let (mut builds, mut clients) = (Vec::new(), Vec::new());
    for _ in 0..builders {
        builds.push(
            server.join_as(Link { round_trip: LINK.round_trip, ..NEAR }, Coming::Build).await,
        );
    }
    for _ in 0..CLIENTS {
        clients.push(server.join(LINK).await);
    }
    let longest = asked(&server, &clients, (0, QUERIES)).await;
    let found = [each(&clients), each(&builds)];
    println!("{builders} builders: {found:.1?} cells a query, {longest} ns at most");
    found
}

const NEAR: Link = Link { up_bytes_per_s: None, down_bytes_per_s: None, ..LINK };

#[tokio::test(start_paused = true)]
async fn clients_beside_a_builder_write_hardly_anything() {
    let [alone, _] = cells(0).await;
    let [beside, one] = cells(1).await;
    let [beside_two, two] = cells(2).await;
    assert!(alone > 8.0 && beside < 1.0 && beside_two < 1.0, "{alone} {beside} {beside_two}");
    // All is built, and nothing twice. That each builder lives takes an entry or two an epoch.
    assert!(one > 0.9 * alone && one < 1.1 * alone && two < 1.15 * alone, "{alone} {one} {two}");
}

/// The longest query when the builder goes after so many of each, by closing or without a word.
async fn longest_when_it_goes(queries: u64, is_closed: bool) -> u64 {
    let mut server = Far::new(SITE).await;
    let builder = server.join_as(LINK, Coming::Build).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(server.join(LINK).await);
    }
    asked(&server, &clients, (0, queries)).await;
    if is_closed {
        builder.engine.close().await.unwrap();
    }
    drop(builder);
    asked(&server, &clients, (100, 8 * u64::from(SITE.epoch))).await
}

#[tokio::test(start_paused = true)]
async fn queries_wait_for_a_builder_that_dies_no_longer_than_for_a_client() {
    for queries in [450, 501, 552] {
        let closed = longest_when_it_goes(queries, true).await;
        let killed = longest_when_it_goes(queries, false).await;
        println!("{queries} queries: {closed} ns, {killed} ns");
        assert!(closed < 1_000_000_000, "{queries} queries of each, then it closes: {closed} ns");
        assert!(killed < 4_000_000_000, "{queries} queries of each, then it dies: {killed} ns");
    }
}

/// Clients work beside builders that die at these calls, and what they see is one disk.
async fn lives(seed: u64, die_at: &[u64]) {
    let (world, histories) = (World::new(seed), Histories::default());
    let (mut builders, mut works) = (Vec::new(), JoinSet::new());
    for dies_at in die_at {
        builders.push(world.join_to_build(*dies_at).await); // it may die of that
    }
    for client in 0..2 {
        let (engine, histories) = (world.join().await.unwrap(), histories.clone());
        works.spawn(async move {
            work(engine.clone(), histories, (seed * 100 + client, 130)).await.unwrap();
            engine.close().await.unwrap();
        });
    }
    works.join_all().await;
    let words = format!("seed {seed}, killed at {die_at:?}");
    assert!(hold(&histories, &words) >= 260, "{words}");
    world.has_built();
}

#[tokio::test(start_paused = true)]
async fn a_builder_may_be_killed_at_any_call() {
    for (seed, dies_at) in (200..).zip((8..420).step_by(6)) {
        lives(seed, &[dies_at]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_builder_goes_on_for_one_that_is_killed() {
    for (seed, dies_at) in (300..).zip((8..420).step_by(14)) {
        lives(seed, &[dies_at, u64::MAX]).await;
    }
}
