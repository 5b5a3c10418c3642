//! A piece of a build that somebody else does, in an honest run.

use std::collections::BTreeMap;

use fogbank_oram::ImmediateEngine;
use fogbank_store::trace::{Event, LogCall, Request, Sent};

use super::{broken, put, request, shown};
use crate::audited::{rest, worked};
use crate::world::World;

/// A client claims a piece that has just begun, at a place that it has logged itself; but somebody
/// is there that builds.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_a_piece_of_a_builder_breaks_a_rule() {
    let world = World::recorded(92); // in pieces
    let builder = world.join_to_build(u64::MAX).await.unwrap();
    worked(&world, 1, 300).await;
    builder.close().await.unwrap();
    rest().await;
    let (config, events) = shown(&world);
    assert_eq!(broken(&config, &events), None);
    let [builds, asks] = [0, 1];
    let session = events.iter().find_map(|event| match event {
        Event::Sent(Sent { connection, request: Request::Log(call), .. })
            if *connection == asks =>
        {
            if let LogCall::Append { session, .. } = call {
                Some(u64::from(*session))
            } else {
                None
            }
        }
        _ => None,
    });
    let session = session.unwrap();
    // How much of the log one has heard with an event.
    let heard = |who: u32, event: &Event| match event {
        Event::Heard(heard) if !heard.is_result && heard.id % 2 == u64::from(who) => {
            Some(heard.place)
        }
        _ => None,
    };
    let is_claim = |event: &Event| request(event).is_some_and(put("claim"));
    let claims = (0..2 * events.len() / 3).filter(|at| is_claim(&events[*at]));
    let mut found = BTreeMap::<_, usize>::new();
    for at in claims.step_by(4) {
        let mut event = events[at].clone();
        let Event::Sent(Sent { id, connection, request, .. }) = &mut event else { panic!() };
        let Request::BlobPut { name, .. } = request else { panic!() };
        if *connection != builds {
            continue;
        }
        let (piece, _) = name.rsplit_once('/').unwrap();
        // One that it does anyway is late, or began when the builder had been silent for an epoch.
        let does = |event: &Event| match event {
            Event::Sent(Sent { connection, request: Request::BlobPut { name, .. }, .. }) => {
                *connection == asks && name.starts_with("claim") && name.contains(piece)
            }
            _ => false,
        };
        if events.iter().any(does) {
            continue;
        }
        *name = format!("{piece}/{:016x}", (session << 40) + (1 << 39));
        (*id, *connection) = (*id + (1 << 40), asks);
        // The client claims when it has heard as much as the builder then had.
        let known = events[..at].iter().rev().find_map(|event| heard(builds, event)).unwrap();
        let knows = events.iter().position(|event| heard(asks, event) == Some(known));
        let Some(knows) = knows else { continue };
        let mut spoilt = events.clone();
        spoilt.insert(at.max(knows) + 1, event);
        *found.entry(broken(&config, &spoilt)).or_default() += 1;
    }
    println!("{found:?}");
    assert!(found[&Some("whose".to_owned())] * 2 > found.values().sum(), "{found:?}");
    assert!(found.keys().flatten().all(|rule| rule == "whose"), "{found:?}");
}
