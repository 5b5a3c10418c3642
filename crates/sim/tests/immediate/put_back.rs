//! One of two clouds has lost what it had acknowledged, or an older state of it was put back, under
//! a client that runs or before the next opening. That is a lie, of that cloud, and no refusal;
//! unless nothing has been acknowledged since that the client still needs: then all is as it was.

use std::sync::Arc;

use fogbank_env::{Clock, SystemClock, by};
use fogbank_oram::Error;
use fogbank_store::{MemoryStore, Store};

use super::clouds::TwoClouds;
use super::engines::{Kind, World};
use super::history::{History, Workload, read_all};

const SECOND: u64 = 1_000_000_000;
/// Accesses from one image to the next, and images.
const APART: usize = 7;
const IMAGES: usize = 8;

/// A volume, and images of the state of a cloud, the newest last.
struct Lived {
    world: World,
    stores: [Arc<MemoryStore>; 2],
    history: History,
    images: Vec<MemoryStore>,
}

async fn lived(cloud: usize) -> Lived {
    let (mut world, mut history) = (World::new(Kind::Multicloud), History::new());
    let stores = [0, 1].map(|_| Arc::new(MemoryStore::new()));
    world.clouds = Arc::new(TwoClouds::over(stores.clone().map(|of| of as Arc<dyn Store>)));
    let (mut work, mut images) = (Workload::new(21), vec![MemoryStore::new()]);
    let engine = world.open(world.cloud.clone()).await.unwrap();
    for _ in 0..IMAGES {
        history.run(&*engine, &mut work, APART).await.unwrap();
        images.push(stores[cloud].image());
    }
    drop(engine);
    let clock = SystemClock::new();
    clock.sleep_until(clock.now() + SECOND).await; // whatever still goes on
    Lived { world, stores, history, images }
}

/// What becomes of a volume of which this image of a cloud is put back: before it is opened, or
/// when it has been.
async fn told(lived: &mut Lived, cloud: usize, image: &MemoryStore, runs: bool) -> Option<Error> {
    let Lived { world, history, .. } = lived;
    let puts_back = || world.clouds.puts_back(cloud, Arc::new(image.image()));
    let served = async {
        if !runs {
            puts_back();
        }
        let engine = world.open(world.cloud.clone()).await?;
        if runs {
            puts_back();
        }
        let found = read_all(&*engine).await?;
        history.check(found).unwrap_or_else(|what| panic!("{cloud}, {runs}: {what}"));
        engine.close().await
    };
    let clock = SystemClock::new();
    by(&clock, clock.now() + 600 * SECOND, served).await.expect("it ends").err()
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_put_back_is_a_lie_of_that_cloud() {
    let mut lies = 0;
    for (cloud, name) in [(0, "the first cloud"), (1, "the second cloud")] {
        for (age, runs) in (0..=IMAGES).flat_map(|age| [(age, false), (age, true)]) {
            let mut lived = lived(cloud).await;
            // The newest is what was there: of it nothing may be told.
            let image = match age {
                0 => lived.stores[cloud].image(),
                age => lived.images[IMAGES - age].image(),
            };
            let told = told(&mut lived, cloud, &image, runs).await;
            match told {
                None => assert!(age < IMAGES, "{cloud}: an empty cloud is served"),
                Some(Error::CloudLied(why)) => {
                    let why = why.to_string();
                    assert!(age > 0 && why.contains(name), "{cloud}, {age}: {why}");
                    lies += 1;
                }
                Some(other) => panic!("{cloud}, {age} images old: {other:?}"),
            }
        }
    }
    assert!(lies > 2 * IMAGES, "{lies}");
}
