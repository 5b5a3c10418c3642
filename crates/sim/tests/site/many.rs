//! Many operations: clients that die and join again, over ways that delay, reorder and lose what
//! they send, see one disk.

use std::sync::Arc;

use crate::ways::Ways;
use crate::world::World;
use crate::{Lives, lives};

fn how(clients: u64) -> Lives {
    Lives { clients, lives: 6, longest: 20_000_000_000 }
}

/// Of worlds with so many clients: operations that were answered.
async fn answered(clients: u64, seeds: std::ops::Range<u64>, ways: &Arc<Ways>) -> usize {
    let mut sum = 0;
    for seed in seeds {
        let mut world = World::rough(seed);
        world.ways = ways.clone();
        sum += lives(world, seed, how(clients)).await.unwrap();
    }
    sum
}

/// So many operations in all, at least.
async fn operations(worlds: u64, least: usize) {
    let (ways, mut all) = (Arc::default(), 0);
    for clients in [2, 3, 5, 8] {
        let first = 10_000 * clients;
        let sum = answered(clients, first..first + worlds, &ways).await;
        println!("{clients} clients in {worlds} worlds: {sum} operations answered");
        all += sum;
    }
    let count = ways.count();
    println!("{all} operations answered; messages: {count:?}");
    assert!(all >= least, "{all}");
    // A fifth of a way's time at least, and some of all.
    assert!(count.took / count.sent > 8_000_000, "{count:?}");
    assert!(count.overtaken > count.sent / 20 && count.lost > count.sent / 200, "{count:?}");
}

#[tokio::test(start_paused = true)]
async fn clients_over_rough_ways_see_one_disk() {
    operations(2, 1_000).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "minutes: for changes of a site's engine"]
async fn a_hundred_thousand_operations_by_the_thousand_see_one_disk() {
    operations(60, 100_000).await;
}

/// Clients that answer too early do not see one disk.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn histories_of_clients_that_leak_have_no_order() {
    let mut world = World::rough(2);
    world.leak = Some(crate::world::Leak::AnswersAtOnce);
    let found = lives(world, 2, how(3)).await;
    println!("{found:?}");
    assert!(found.is_err());
}
