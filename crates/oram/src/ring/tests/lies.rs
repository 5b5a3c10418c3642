//! A cloud that lies: one error whatever the lie, whichever cell it hits, and then silence.

use std::sync::Arc;

use bytes::Bytes;

use super::cloud::{Cloud, Lie};
use super::{engine, settings};
use crate::ring::{RingEngine, RingSettings};
use crate::{Address, BatchEngine, Error};

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
    assert!(matches!(found, Err(Error::CloudLied)), "{lie:?}: {found:?}");
    cloud.take_seen();
    assert!(matches!(engine.read_batch(&[]).await, Err(Error::CloudLied)));
    assert!(matches!(engine.write_batch(Vec::new()).await, Err(Error::CloudLied)));
    assert!(matches!(engine.commit().await, Err(Error::CloudLied)));
    assert!(matches!(engine.collect().await, Err(Error::CloudLied)));
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

#[tokio::test]
async fn a_call_dropped_midway_stops_the_engine() {
    let (_, mut engine) = loaded(false).await;
    engine.begin().unwrap();
    assert!(matches!(engine.read_batch(&[]).await, Err(Error::Bug(_))));
    assert!(matches!(engine.commit().await, Err(Error::Bug(_))));
}
