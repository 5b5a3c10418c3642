//! One of two clouds lies to the other, and then, or at once, does what it can not to be told by
//! name: it breaks its own session, opens none any more, or takes nothing from the other, whose
//! session ends for that.

use std::time::Duration;

use fogbank_mix::session::SessionError;
use fogbank_oram::{Access, Address, Error};

use super::clouds::{LIE_NANOS, Liar};
use super::engines::{Kind, World};
use super::history::{History, Workload};

#[tokio::test(start_paused = true)]
async fn whoever_has_lied_is_told_by_name_whatever_it_does_then() {
    let ends = [
        SessionError::Absent("it has gone".into()),
        SessionError::Refused("it does not want that".into()),
        SessionError::Misbehaved("it is confused".into()),
        SessionError::Fenced,
    ];
    for (cloud, name) in [(0, "the first cloud has lied"), (1, "the second cloud has lied")] {
        // One that takes nothing from the other at once may end its session before the answer has
        // left.
        let ways = |then| [(false, 0), (false, LIE_NANOS), (true, LIE_NANOS)].map(|of| (then, of));
        for (then, (refuses, after)) in ends.iter().flat_map(ways) {
            let world = World::new(Kind::Multicloud);
            let (mut history, mut work) = (History::new(), Workload::new(5));
            let engine = world.open(world.cloud.clone()).await.unwrap();
            history.run(&*engine, &mut work, 40).await.unwrap();
            world.clouds.has_liar(Liar { cloud, spares: 0, then: then.clone(), refuses, after });
            let told = history.run(&*engine, &mut work, 40).await;
            let is_named =
                matches!(&told, Err(Error::CloudLied(why)) if why.to_string().contains(name));
            assert!(is_named, "{then:?}, {refuses}, {after}: {told:?}");
        }
    }
}

/// Reads that come with the lie, before it, are not answered any more: nothing leaves after it.
#[tokio::test(start_paused = true)]
async fn nothing_leaves_at_the_moment_of_a_lie() {
    for cloud in [0, 1] {
        let mut world = World::new(Kind::Multicloud);
        world.quantum = Duration::from_millis(1);
        let (mut history, mut work) = (History::new(), Workload::new(6));
        let engine = world.open(world.cloud.clone()).await.unwrap();
        history.run(&*engine, &mut work, 40).await.unwrap();
        let then = SessionError::Absent("it has gone".into());
        let (refuses, after) = (false, LIE_NANOS);
        world.clouds.has_liar(Liar { cloud, spares: 3, then, refuses, after });
        world.clouds.holds(50_000_000);
        let asked: Vec<_> = (0..12).map(|of| engine.submit(Address(of), Access::Read)).collect();
        for ticket in asked {
            let told = ticket.await;
            assert!(matches!(told, Err(Error::CloudLied(_))), "{cloud}: {told:?}");
        }
    }
}
