//! A site that is made of what another held: it is like one in which all was written.

use bytes::Bytes;
use fogbank_durable::shared::Site;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::hierarchy::{Take, finish_with};
use fogbank_oram::{Access, Address, Error, ImmediateEngine};
use fogbank_store::{ArrayId, ChunkWrite, DepartureGrid, PutCondition, Store};
use std::sync::Arc;
use std::time::Duration;

use crate::whole::Came;
use crate::world::{BLOCKS, SITE, VALUE_BYTES, World, master};

#[tokio::test(start_paused = true)]
async fn a_site_of_another_s_blocks_is_read_and_written_by_all() {
    for seed in [40, 41] {
        let world = World::of_another(seed);
        let first = world.join().await.unwrap();
        let mut written: Vec<u8> = (0..BLOCKS).map(|block| block as u8 + 1).collect();
        written[0] = 0;
        // Whoever joins at any time, from the first epoch to long after the image has gone.
        for round in 0..60_u32 {
            let engine = match round % 3 {
                0 => first.clone(),
                _ => world.join().await.unwrap(),
            };
            for query in 0..6 {
                let block = (round * 11 + query * 5) % BLOCKS;
                let read = engine.submit(Address(block), Access::Read).await.unwrap();
                let whole = vec![written[block as usize]; VALUE_BYTES];
                assert_eq!(read, whole, "block {block} in round {round}");
                let value = 100 + (round + query) as u8;
                if query % 2 == 0 {
                    let bytes = vec![value; VALUE_BYTES].into();
                    let access = Access::Write { offset: 0, bytes };
                    engine.submit(Address(block), access).await.unwrap();
                    written[block as usize] = value;
                }
            }
            let came = Came::of(&engine).await.unwrap();
            for (block, value) in (0..).zip(&written) {
                assert_eq!(came.first_byte(block), *value, "block {block} in round {round}");
            }
            if round % 3 != 0 {
                engine.close().await.unwrap();
            }
        }
        world.has_built();
        first.close().await.unwrap();
        // Nothing of the image is left: its chunks were the first that were written there.
        let claims = world.store.blob_list("claim/03/ffffffffffffffff/").await.unwrap();
        assert_eq!(claims, Vec::<String>::new());
        let image = world.image.lock().clone();
        let left = world.store.list_chunks(ArrayId(3)).await.unwrap();
        assert!(!image.is_empty() && left.iter().all(|chunk| !image.contains(&chunk.version)));
    }
}

/// A restore that was stopped when its image was whole leaves one that opens, too. A server that
/// keeps it, and shows it to one client and the one of the second try to another, is noticed by
/// whoever is shown the first: when the site is new, and when it has gone on.
#[tokio::test(start_paused = true)]
async fn a_server_that_shows_two_images_is_noticed() {
    for places in [0, 60] {
        // 1. The first try, of which the server keeps all.
        let world = World::of_another(42);
        let (manifest, old) = first_try(&world).await;
        // 2. The second has other blocks.
        second_try(&world).await;
        let honest = world.join().await.unwrap();
        for place in 0..places {
            let read = honest.submit(Address(place % BLOCKS), Access::Read).await.unwrap();
            assert_eq!(read, vec![200; VALUE_BYTES]);
        }
        // 3. The next one is shown the first.
        let (newer, _) = world.store.blob_get(MANIFEST).await.unwrap().unwrap();
        let show = async |manifest: Bytes| {
            let put = world.store.blob_put(MANIFEST, manifest, PutCondition::Always).await;
            put.unwrap();
        };
        world.store.write_chunks(old).await.unwrap();
        show(manifest).await;
        let fooled = world.join().await.err();
        assert!(matches!(fooled, Some(Error::CloudLied(_))), "{places}: {fooled:?}");
        show(newer).await;
        world.join().await.unwrap();
    }
}

/// A server that hides an image, accepts the next and then has the first again, while whoever
/// restores is still there: what superblock 1 names is what was sealed, not what is there.
#[tokio::test(start_paused = true)]
async fn a_restore_names_the_image_that_it_has_sealed() {
    let world = World::of_another(43);
    let (manifest, old) = first_try(&world).await;
    let store = world.store.clone();
    let server = tokio::spawn(async move {
        let clock = SystemClock::new();
        while store.blob_get(MANIFEST).await.unwrap().is_none() {
            clock.sleep_until(clock.now() + 10_000).await; // within two points of the grid
        }
        let is_early = store.blob_get(FIRST).await.unwrap().is_none();
        store.blob_put(MANIFEST, manifest, PutCondition::Always).await.unwrap();
        store.write_chunks(old).await.unwrap();
        is_early
    });
    second_try(&world).await;
    assert!(server.await.unwrap(), "the superblock was there before");
    let fooled = world.join().await.err();
    assert!(matches!(fooled, Some(Error::CloudLied(_))), "{fooled:?}");
}

const MANIFEST: &str = "manifest/03/ffffffffffffffff";
const FIRST: &str = "superblock/0000000000000001";

/// A restore that was stopped just before its end, of which the server hides that its image is
/// whole: manifest and chunks.
async fn first_try(world: &World) -> (Bytes, Vec<ChunkWrite>) {
    drop(world.join().await.unwrap());
    let names = world.store.list_chunks(ArrayId(3)).await.unwrap();
    let old = world.store.read_chunks(&names).await.unwrap().into_iter().flatten();
    let old = names.iter().zip(old).map(|(chunk, data)| ChunkWrite { chunk: *chunk, data });
    let old = old.collect();
    let (manifest, _) = world.store.blob_get(MANIFEST).await.unwrap().unwrap();
    world.store.blob_delete(&[MANIFEST, FIRST]).await.unwrap();
    (manifest, old)
}

/// Another, of other blocks.
async fn second_try(world: &World) {
    let mut salts = Randomness::repeatable(4_200).stream(Purpose::Incarnation);
    let store: Arc<dyn Store> = world.store.clone();
    let site = Site::begin(&store, (&master(), SITE), world.parameters(), &mut salts).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let grid = DepartureGrid::new(clock, Duration::from_millis(1));
    let blocks = |take: &mut Take<'_>| {
        (0..BLOCKS).try_for_each(|block| take(block, vec![200; VALUE_BYTES].into()))
    };
    finish_with(site.unwrap(), &grid, blocks, |_, _| {}).await.unwrap();
}
