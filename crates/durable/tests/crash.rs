//! A proxy that dies before, after or within any of its calls, and another that dies recovering.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use fogbank_durable::{Error, Pieces, commit_bytes, journal_bytes};
use fogbank_store::{Fault, Store};
use world::{CONFIG, Promised, SETTINGS, World, delta, full, kinds};

const FAULTS: [Fault; 4] = [Fault::Before, Fault::After, Fault::Partly(1), Fault::Partly(2)];

/// A world whose proxy died at its call number `dies`; `None` if it lived to the end.
async fn after_death(dies: u64, fault: Fault) -> (World, Promised, bool) {
    let (world, mut promised) = (World::default(), Promised::default());
    let lived = promised.live(&world, world.dying(dies, fault), 3).await;
    if let Err(error) = &lived {
        assert!(matches!(error, Error::Absent(_)), "{error:?}");
    }
    (world, promised, lived.is_ok())
}

/// Two more lives without an accident: everything promised is there, nothing is left over.
async fn goes_on(world: &World, promised: &mut Promised) {
    for _ in 0..2 {
        promised.live(world, world.healthy(), 2).await.unwrap();
        promised.open(world, world.healthy()).await.unwrap();
    }
    promised.live(world, world.healthy(), 0).await.unwrap();
    let mut names = world.names().await;
    let all = names.len();
    for name in std::mem::take(&mut names) {
        let (data, _) = world.cloud.blob_get(&name).await.unwrap().unwrap();
        if !(name.starts_with("journal/") && data[0] == TAKEOVER) {
            names.push(name);
        }
    }
    assert_eq!(kinds(&names), ["checkpoint", "commit"], "{names:?}");
    assert!((all - names.len()) as u64 <= *world.openings.lock(), "one an opening");
}

const TAKEOVER: u8 = 2;

#[tokio::test]
async fn every_death_leaves_exactly_what_was_promised() {
    for fault in FAULTS {
        let mut dies = 1;
        loop {
            let (world, mut promised, lived) = after_death(dies, fault).await;
            goes_on(&world, &mut promised).await;
            if lived {
                break;
            }
            dies += 1;
        }
        assert!(dies > 20, "{dies} calls are no life");
    }
}

#[tokio::test]
async fn deaths_of_the_recovering_proxy_change_nothing() {
    let (mut dies, mut nested) = (1, 0);
    loop {
        for first in [Fault::Before, Fault::After] {
            for second in FAULTS {
                for again in 1.. {
                    let (world, mut promised, _) = after_death(dies, first).await;
                    // Twice in the same place: two openings that came to nothing, then one that
                    // does.
                    for _ in 0..2 {
                        let _ = promised.open(&world, world.dying(again, second)).await;
                    }
                    let recovered = promised.open(&world, world.dying(again, second)).await.is_ok();
                    goes_on(&world, &mut promised).await;
                    nested += 1;
                    if recovered {
                        break;
                    }
                }
            }
        }
        if after_death(dies, Fault::Before).await.2 {
            break;
        }
        dies += 3;
    }
    assert!(nested > 800, "{nested}");
}

#[tokio::test]
async fn every_kind_of_blob_has_one_length() {
    for dies in (1..80).step_by(3) {
        let (world, mut promised, _) = after_death(dies, Fault::After).await;
        goes_on(&world, &mut promised).await;
        let lengths = world.lengths.lock();
        for (kind, lengths) in lengths.iter() {
            let public: Vec<usize> =
                (1..20).map(|opening| commit_bytes(CONFIG.len(), opening) as usize).collect();
            let pieces = |of: Pieces| vec![of.last_bytes, of.bytes];
            let public = match &kind[..] {
                "commit" => {
                    assert!(lengths.iter().all(|length| public.contains(length)));
                    continue;
                }
                "journal" => vec![journal_bytes(SETTINGS.record_bytes)],
                "delta" => pieces(SETTINGS.pieces.delta(delta(0).iter().map(|s| s.padded_len))),
                _ => pieces(SETTINGS.pieces.checkpoint(full(&[]).iter().map(|s| s.padded_len))),
            };
            let lengths: Vec<u64> = lengths.iter().map(|length| *length as u64).collect();
            assert_eq!(lengths, public, "{kind}");
        }
        assert_eq!(lengths.len(), 4);
    }
}
