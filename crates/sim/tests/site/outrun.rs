//! A client that joins from so far away that others have moved on by then: it says so, and accuses
//! nobody. When they ask less it joins.

use std::time::Duration;

use fogbank_env::{Clock, SystemClock};
use fogbank_oram::{Error, ImmediateEngine};
use tokio::task::JoinSet;

use crate::world::World;
use crate::{Histories, work};

const FAR: Duration = Duration::from_millis(60);

#[tokio::test(start_paused = true)]
async fn who_is_outrun_accuses_nobody() {
    let world = World::new(403); // not in pieces, so that it goes on fast
    let mut works = JoinSet::new();
    for client in 0..3 {
        let engine = world.join().await.unwrap();
        works.spawn(work(engine, Histories::default(), (client, u64::MAX)));
    }
    let clock = SystemClock::new();
    clock.sleep_until(clock.now() + 5_000_000_000).await;
    let joined = world.join_over(world.register(), FAR).await.err();
    println!("{joined:?}");
    assert!(matches!(joined, Some(Error::Refused(_))), "{joined:?}");
    works.shutdown().await;
    let engine = world.join_over(world.register(), FAR).await.unwrap();
    engine.close().await.unwrap();
}
