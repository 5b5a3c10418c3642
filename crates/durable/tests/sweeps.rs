//! Sweeps whose lists were cut off: what a list left out a later opening finds.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::sync::Arc;

use fogbank_store::{Call, Fault, Faulty, Reply, Store, StoreError, store_by_calls};
use world::{Promised, World};

/// Lists at most so many containers of a kind, the newest first: what counts before what is left
/// over.
struct ShortLists<S> {
    inner: S,
    names_max: usize,
}

impl<S: Store> ShortLists<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        let cut = matches!(&call, Call::BlobList(prefix) if !prefix.starts_with("journal/"));
        let reply = call.perform(&self.inner).await?;
        Ok(match reply {
            Reply::BlobNames(mut names) if cut => {
                names.sort_unstable_by(|a, b| b.cmp(a));
                names.truncate(self.names_max);
                Reply::BlobNames(names)
            }
            other => other,
        })
    }
}

store_by_calls!(ShortLists);

async fn containers(world: &World) -> usize {
    let names = world.names().await;
    names.iter().filter(|name| !name.starts_with("journal/") && *name != "commit").count()
}

/// An opening and a close; how many containers there are then.
async fn opened_and_closed(world: &World, promised: &mut Promised, names_max: usize) -> usize {
    let store = Arc::new(ShortLists { inner: world.healthy(), names_max });
    promised.live(world, store, 0).await.unwrap();
    containers(world).await
}

#[tokio::test]
async fn what_a_list_left_out_later_openings_sweep() {
    let (world, mut promised) = (World { whole: true, ..World::default() }, Promised::default());
    promised.live(&world, world.healthy(), 2).await.unwrap();
    // Proxies that see nothing to sweep and die before what they wrote counts.
    for of in ["delta/", "checkpoint/"].repeat(5) {
        let dying = Faulty::new(world.cloud.clone());
        let mut dead = false;
        dying.on_call(move |call, _| {
            let dies = matches!(call, Call::BlobPut(name, ..) if name.starts_with(of));
            let fault = if dead { Some(Fault::Down) } else { dies.then_some(Fault::After) };
            dead |= dies;
            fault
        });
        let store = Arc::new(ShortLists { inner: dying, names_max: 0 });
        assert!(promised.live(&world, store, 3).await.is_err(), "it died");
    }
    let before = opened_and_closed(&world, &mut promised, 0).await;
    assert!(before >= 10, "{before} containers are left");
    // The canary: a list of nothing, time and again.
    assert_eq!(opened_and_closed(&world, &mut promised, 0).await, before);
    // One that counts, and one that does not.
    let (mut left, mut openings) = (before, 0);
    while left > 1 {
        let now = opened_and_closed(&world, &mut promised, 2).await;
        assert!(now < left, "an opening swept nothing of {left}");
        (left, openings) = (now, openings + 1);
    }
    assert!(openings > 3, "one list had everything");
    promised.open(&world, world.healthy()).await.unwrap();
}
