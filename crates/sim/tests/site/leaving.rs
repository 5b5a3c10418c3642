//! Most clients leave at once, in the middle of what they build: those that stay are not held up.

use std::time::Duration;

use fogbank_durable::shared::SiteParameters;
use fogbank_env::Nanos;
use fogbank_oram::ImmediateEngine;
use fogbank_store::Link;
use tokio::task::JoinSet;

use crate::far::{Far, ask};

const CLIENTS: u64 = 8;
const EPOCH: u32 = 32;
/// So many that levels 0 to 6 are there.
const BLOCKS: u32 = EPOCH << 6;
/// Far enough that a whole table of the largest level takes seconds.
pub const LINK: Link = Link {
    round_trip: Duration::from_millis(20),
    jitter: Duration::ZERO,
    read: Duration::ZERO,
    write: Duration::ZERO,
    up_bytes_per_s: Some(4_000_000),
    down_bytes_per_s: Some(4_000_000),
    losses_per_million: 0,
    resend: Link::RESEND,
};

pub const SITE: SiteParameters = SiteParameters {
    blocks: BLOCKS,
    block_bytes: 1_024,
    epoch: EPOCH,
    growth: 2,
    draw: 8,
    piece: 512,
    kept_epochs: 16,
    public_ms: 1_000,
    quantum_us: 1_000,
    has_image: false,
};

/// The longest query of one client that goes on when the others have left after so many queries,
/// by closing or without a word.
async fn longest_after(queries: u64, is_closed: bool) -> Nanos {
    let mut server = Far::new(SITE).await;
    let (mut engines, mut works) = (Vec::new(), JoinSet::new());
    for _ in 0..CLIENTS {
        engines.push(server.join(LINK).await.engine);
    }
    for (client, engine) in (0..).zip(&engines) {
        works.spawn(ask(engine.clone(), server.clock.clone(), (client, queries + client)));
    }
    while let Some(done) = works.join_next().await {
        done.unwrap();
    }
    let last = engines.pop().unwrap();
    for engine in engines {
        if is_closed {
            engine.close().await.unwrap();
        }
    }
    let mut took = ask(last, server.clock.clone(), (99, 8 * u64::from(EPOCH))).await;
    took.sort_unstable();
    *took.last().unwrap()
}

/// Of eight that seem to live the last one comes after three head starts, each as long as the
/// public time and a little for what the piece moves.
const LAST_OF_EIGHT: Nanos = (1 + 3) * 1_000_000_000;
/// What pieces move, and round trips.
const MOVED: Nanos = 500_000_000;

#[tokio::test(start_paused = true)]
async fn who_stays_is_not_held_up_by_those_who_leave() {
    for queries in [550, 601, 652] {
        let closed = longest_after(queries, true).await;
        let killed = longest_after(queries, false).await;
        println!("{queries} queries: {closed} ns, {killed} ns");
        assert!(closed < MOVED, "{queries} queries of each, then they close: {closed} ns");
        let is_within = killed < LAST_OF_EIGHT + MOVED;
        assert!(is_within, "{queries} queries of each, then they die: {killed} ns");
    }
}
