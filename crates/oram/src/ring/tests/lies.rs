//! A cloud that lies: one error whatever the lie, whichever cell it hits, and then silence.

use std::sync::Arc;

use bytes::Bytes;

use fogbank_store::ChunkName;

use super::cloud::{Cloud, Lie, Seen};
use super::{engine, settings};
use crate::ring::{RingEngine, RingSettings};
use crate::{Address, BatchEngine, Error, Unverified};

async fn loaded(xor: bool) -> (Arc<Cloud>, RingEngine) {
    let cloud = Arc::new(Cloud::that_xors());
    let settings = RingSettings { xor, ..settings(100, (4, 5, 3)) };
    let mut engine = engine(&cloud, settings, 8).await;
    for first in (0..100).step_by(5) {
        let value = |a: u32| Some(Bytes::from(vec![a as u8; 24]));
        let writes = (first..first + 5).map(|a| (Address(a), value(a))).collect();
        engine.write_batch(writes).await.unwrap();
        engine.commit().await.unwrap();
    }
    (cloud, engine)
}

async fn is_caught(xor: bool, lie: Lie) -> bool {
    let (cloud, mut engine) = loaded(xor).await;
    cloud.lie(lie);
    let found = engine.read_batch(&[Address(1), Address(2), Address(50)]).await;
    if found.is_ok() {
        return false;
    }
    assert!(matches!(found, Err(Error::CloudLied(_))), "{lie:?}: {found:?}");
    cloud.take_seen();
    assert!(matches!(engine.read_batch(&[]).await, Err(Error::CloudLied(_))));
    assert!(matches!(engine.write_batch(Vec::new()).await, Err(Error::CloudLied(_))));
    assert!(matches!(engine.commit().await, Err(Error::CloudLied(_))));
    assert!(matches!(engine.collect().await, Err(Error::CloudLied(_))));
    assert!(engine.save().is_err());
    assert!(cloud.take_seen().is_empty(), "nothing is sent after a lie");
    true
}

/// Cells in the reply to the batch of `is_caught`.
async fn reply_cells(xor: bool) -> u64 {
    let (_, mut engine) = loaded(xor).await;
    let before = engine.stats().cells_received;
    engine.read_batch(&[Address(1), Address(2), Address(50)]).await.unwrap();
    engine.stats().cells_received - before
}

#[tokio::test]
async fn every_cell_is_verified_whether_dummy_or_not() {
    for xor in [false, true] {
        let cells = reply_cells(xor).await;
        assert!(cells > 12, "{cells}");
        for cell in 0..cells {
            let bit = cell as usize * 131;
            for lie in [Lie::Flip(cell, bit), Lie::Shorten(cell), Lie::Deny(cell)] {
                assert!(is_caught(xor, lie).await, "xor {xor}: {lie:?} passed");
            }
            if !xor {
                assert!(is_caught(xor, Lie::Swap(cell)).await, "swapped cell {cell}");
            }
        }
        assert!(is_caught(xor, Lie::Drop).await);
        assert!(!is_caught(xor, Lie::Flip(cells, 0)).await, "the count of cells is right");
    }
}

/// What the cells, or the XORed paths, of a message are called, in its order.
fn places(message: &Seen) -> Vec<Unverified> {
    let each = |reads: &[(ChunkName, Vec<u16>)]| -> Vec<(ChunkName, u16)> {
        reads.iter().flat_map(|(chunk, cells)| cells.iter().map(|cell| (*chunk, *cell))).collect()
    };
    match message {
        Seen::Read(reads) => {
            let cell = |(chunk, cell)| Unverified::Cell { chunk, cell };
            each(reads).into_iter().map(cell).collect()
        }
        Seen::Xor(reads, ends) => {
            let starts = std::iter::once(&0).chain(ends);
            let path = |(start, end): (&u32, &u32)| {
                let of_path = each(&reads[*start as usize..*end as usize]);
                let (chunk, cell) = of_path[0];
                Unverified::Path { chunk, cell, cells: of_path.len() }
            };
            starts.zip(ends).map(path).collect()
        }
        _ => Vec::new(),
    }
}

/// Told is the first place of a message that did not verify, in the order in which the cloud was
/// asked: whichever cells of it are dummies, that says nothing of them.
#[tokio::test]
async fn the_first_place_in_the_order_of_the_message_is_told() {
    for xor in [false, true] {
        for cell in 0..reply_cells(xor).await {
            let (cloud, mut engine) = loaded(xor).await;
            cloud.take_seen();
            cloud.lie(Lie::DenyFrom(cell));
            let found = engine.read_batch(&[Address(1), Address(2), Address(50)]).await;
            let Err(Error::CloudLied(told)) = found else { panic!("{cell}: {found:?}") };
            let messages: Vec<_> = cloud.take_seen().iter().map(places).collect();
            assert_eq!(messages.len(), if xor { 2 } else { 1 });
            let mut first = 0;
            let expected: Vec<_> = messages
                .iter()
                .filter_map(|message| {
                    let at = (cell as usize).saturating_sub(first);
                    first += message.len();
                    message.get(at)
                })
                .collect();
            // Two messages of a batch are two orders: the one whose reply came first.
            assert!(expected.contains(&&told), "xor {xor}, {cell}: {told:?}, not {expected:?}");
        }
    }
}

#[tokio::test]
async fn a_call_dropped_midway_stops_the_engine() {
    let (_, mut engine) = loaded(false).await;
    engine.begin().unwrap();
    assert!(matches!(engine.read_batch(&[]).await, Err(Error::Bug(_))));
    assert!(matches!(engine.commit().await, Err(Error::Bug(_))));
}
