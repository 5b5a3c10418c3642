//! A site that is made of what another held: it is like one in which all was written.

use fogbank_oram::{Access, Address, ImmediateEngine};
use fogbank_store::{ArrayId, Store};

use crate::whole::Came;
use crate::world::{BLOCKS, VALUE_BYTES, World};

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
