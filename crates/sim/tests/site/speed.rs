//! How fast a site is in virtual time, where neither the machine nor what else runs on it counts:
//! the protocol, the links, and what builds put in the way of queries.

use std::time::Duration;

use fogbank_durable::shared::SiteParameters;
use fogbank_env::Nanos;
use fogbank_oram::{Access, Address, ImmediateEngine};
use fogbank_store::Link;
use tokio::task::JoinSet;

use crate::far::{Far, ask};

/// 50 ms and 125 MB/s.
const LINK: Link = Link {
    round_trip: Duration::from_millis(50),
    jitter: Duration::ZERO,
    read: Duration::ZERO,
    write: Duration::ZERO,
    up_bytes_per_s: Some(125_000_000),
    down_bytes_per_s: Some(125_000_000),
    losses_per_million: 0,
    resend: Link::RESEND,
};
const NONE: Link =
    Link { round_trip: Duration::ZERO, up_bytes_per_s: None, down_bytes_per_s: None, ..LINK };

/// So many clients of a site of `blocks` blocks of 4 KiB, whose tables of all levels are full: the
/// queries a second, and the mean and the 99th percentile of what a query takes, in milliseconds,
/// of so many queries of each.
async fn speed(blocks: u32, piece: u32, clients: u64, queries: u64) -> [f64; 3] {
    let site = SiteParameters {
        blocks,
        block_bytes: 4_096,
        epoch: 256,
        growth: 2,
        draw: 8,
        piece,
        kept_epochs: 64,
        public_ms: 1_000,
        quantum_us: 1_000,
        has_image: false,
    };
    let mut server = Far::new(site).await;
    // 1. All blocks are written, and then some, until the first table of the largest level is
    //    there.
    let loads = server.join(NONE).await.engine;
    let mut under_way = Vec::new();
    for place in 0..2 * u64::from(blocks) {
        let access = Access::Write { offset: 0, bytes: vec![1].into() };
        under_way.push(loads.submit(Address(place as u32 % blocks), access));
        if under_way.len() == 64 {
            for ticket in under_way.drain(..) {
                ticket.await.unwrap();
            }
        }
    }
    loads.close().await.unwrap();
    // 2. Others go on, half of the time until the next one is there without a link.
    let mut joined = Vec::new();
    for _ in 0..clients {
        joined.push(server.join(NONE).await);
    }
    let works = |rounds: u64| {
        let mut works = JoinSet::new();
        for (client, of) in (0..).zip(&joined) {
            let seed = client + 1_000 * rounds;
            works.spawn(ask(of.engine.clone(), server.clock.clone(), (seed, rounds)));
        }
        works
    };
    works(u64::from(blocks) / 4 / clients).join_all().await;
    joined.iter().for_each(|client| client.way.set_link(LINK));
    works(16).join_all().await;
    // 3. They are measured.
    let begun = server.clock.now();
    let mut took: Vec<Nanos> = works(queries).join_all().await.concat();
    let seconds = (server.clock.now() - begun) as f64 / 1e9;
    took.sort_unstable();
    let mean = took.iter().sum::<Nanos>() as f64 / took.len() as f64 / 1e6;
    let p99 = took[took.len() * 99 / 100] as f64 / 1e6;
    let found = [took.len() as f64 / seconds, mean, p99];
    println!("{blocks} blocks, {clients} clients: {found:.1?}, {} at most", took[took.len() - 1]);
    found
}

#[tokio::test(start_paused = true)]
async fn queries_of_many_clients_do_not_wait_for_builds() {
    // So small that half an epoch is all the time that its builds have to spare: some queries wait
    // for a superblock, none for what is done anew. When a build's order is there depends on how
    // busy this machine is.
    let [per_s, mean, p99] = speed(2_048, 1_024, 30, 60).await;
    assert!(per_s > 175.0 && mean < 166.0 && p99 < 4.0 * mean, "{per_s} {mean} {p99}");
}

#[tokio::test(start_paused = true)]
async fn one_client_waits_for_two_round_trips() {
    let [_, mean, p99] = speed(1_024, 1_024, 1, 600).await;
    assert!(mean < 115.0 && p99 < 1.1 * mean, "{mean} {p99}");
}

#[tokio::test(start_paused = true)]
#[ignore = "minutes: for changes of the pace of builds"]
async fn queries_of_many_clients_do_not_wait_for_builds_of_many_levels() {
    let [per_s, mean, p99] = speed(16_384, 4_096, 30, 300).await;
    assert!(per_s > 180.0 && mean < 166.0 && p99 < 1.3 * mean, "{per_s} {mean} {p99}");
}
