//! Who comes to work where a site has moved ends, however long ago that was said; until somebody
//! says that nothing came of it.

use fogbank_durable::shared::{Coming, SiteParameters};
use fogbank_env::Nanos;
use fogbank_oram::{Access, Address, Error, ImmediateEngine};

use crate::far::Far;
use crate::leaving::{LINK, SITE};

const EPOCH: u64 = 8;
/// Between two queries, in which epochs are closed.
const PAUSE: Nanos = 200_000_000;
const SMALL: SiteParameters =
    SiteParameters { blocks: 64, epoch: EPOCH as u32, draw: 4, public_ms: 100, ..SITE };

/// One that comes for `coming` asks for so many blocks, one after the other, and leaves.
async fn asks(server: &mut Far, coming: Coming, queries: u64) {
    let engine = server.join_as(LINK, coming).await.engine;
    for query in 0..queries {
        engine.submit(Address(query as u32 % SMALL.blocks), Access::Read).await.unwrap();
        server.clock.sleep_until(server.clock.now() + PAUSE).await;
    }
    engine.close().await.unwrap();
}

async fn has_moved(server: &mut Far) -> bool {
    let mut refused = 0;
    for coming in [Coming::Work, Coming::Build] {
        match server.try_join_as(LINK, coming).await {
            Ok(client) => client.engine.close().await.unwrap(),
            Err(error) => {
                assert_eq!(error, Error::Moved);
                refused += 1;
            }
        }
    }
    assert_ne!(refused, 1);
    refused > 0
}

#[tokio::test(start_paused = true)]
async fn nobody_works_where_a_site_has_moved_until_somebody_takes_it_back() {
    let mut server = Far::new(SMALL).await;
    asks(&mut server, Coming::Work, 3 * EPOCH).await;
    assert!(!has_moved(&mut server).await);
    asks(&mut server, Coming::Move, 0).await;
    // At once, and when no entry that anybody follows says so any more: readers go on.
    for queries in [0, EPOCH / 2, EPOCH, 6 * EPOCH] {
        asks(&mut server, Coming::Read, queries).await;
        assert!(has_moved(&mut server).await, "{queries}");
    }
    asks(&mut server, Coming::Stay, 0).await;
    for queries in [0, EPOCH / 2, EPOCH, 6 * EPOCH] {
        asks(&mut server, Coming::Work, queries).await;
        assert!(!has_moved(&mut server).await, "{queries}");
    }
}

/// Whoever moves it and hears that it stays has moved nothing.
#[tokio::test(start_paused = true)]
async fn who_moves_a_site_ends_when_another_says_that_it_stays() {
    let mut server = Far::new(SMALL).await;
    asks(&mut server, Coming::Work, EPOCH).await;
    let mover = server.join_as(LINK, Coming::Move).await.engine;
    mover.submit(Address(0), Access::Read).await.unwrap();
    asks(&mut server, Coming::Stay, 0).await;
    let told = mover.submit(Address(0), Access::Read).await.unwrap_err();
    assert!(matches!(&told, Error::Caller(why) if why.contains("stays")), "{told}");
    assert!(!has_moved(&mut server).await);
}
