//! What each of two clouds sees, held to the auditor's specification of it and to its statistics:
//! everything that comes to that cloud, of the engine as it serves, dies and goes on.

use fogbank_audit::oracle::multicloud::MulticloudConfig;
use fogbank_audit::oracle::multicloud::simulator::Simulator;
use fogbank_audit::oracle::{Halt, Oracle};
use fogbank_audit::statistics::{Battery, Levels};
use fogbank_audit::{Observation, Verdict};
use fogbank_env::{Clock, SystemClock};
use fogbank_mix::{Shape, traced};
use fogbank_oram::Error;
#[cfg(feature = "canaries")]
use fogbank_oram::multicloud::canary::Leak;
use fogbank_store::trace::{Event, PublicConfig, Request, Sent, TraceClock};

use super::engines::{Kind, World};
use super::history::{History, Workload};
use super::{ACCESSES, fault, life, look};

/// What is public of the view of a cloud.
fn public(cloud: usize, shape: &Shape) -> PublicConfig {
    traced::public(TraceClock::Virtual, cloud as u8, shape)
}

/// What breaks the specification of a cloud first, if anything does; and what fails of its
/// statistics.
fn found(config: &PublicConfig, events: &[Event]) -> Vec<String> {
    let mut oracle = Oracle::new(config).unwrap();
    let mut battery = Battery::new(config, "a cloud").unwrap();
    let told = events
        .iter()
        .try_for_each(|event| {
            oracle.event(event, &mut |seen: &Observation<'_>| {
                fogbank_audit::Observer::observe(&mut battery, seen);
            })
        })
        .and_then(|()| oracle.end_trace(&mut |_: &Observation<'_>| {}));
    let mut found: Vec<String> = told.err().map(|halt| halt.to_string()).into_iter().collect();
    let (findings, _) = battery.finish(&Levels::for_traces(1));
    let failed = findings.into_iter().filter(|finding| finding.verdict == Verdict::Failed);
    found.extend(failed.map(|finding| finding.check.to_string()));
    found
}

/// Both clouds of `world`, by name, with what is found in their views.
fn audited(world: &World, least: usize) -> Vec<String> {
    let shape = world.public().unwrap();
    let mut all = Vec::new();
    for cloud in [0, 1] {
        let events = world.clouds.view(cloud);
        assert!(events.len() >= least, "cloud {cloud} has seen {} messages", events.len());
        let found = found(&public(cloud, &shape), &events);
        all.extend(found.into_iter().map(|found| format!("cloud {cloud}: {found}")));
    }
    all
}

/// One life of so many accesses, all of which are answered. From time to time nobody asks, so that
/// a session that has ended is open again.
async fn lived(world: &World, seed: u64, accesses: usize) -> Result<(), Error> {
    world.clouds.is_watched();
    let engine = world.open(world.cloud.clone()).await?;
    let (mut history, mut work) = (History::new(), Workload::new(seed));
    let clock = SystemClock::new();
    for _ in 0..accesses / 24 {
        history.run(&*engine, &mut work, 24).await?;
        clock.sleep_until(clock.now() + 100_000_000).await;
    }
    engine.close().await
}

#[tokio::test(start_paused = true)]
async fn each_cloud_sees_what_its_specification_says_and_nothing_else() {
    for seed in 0..4 {
        let world = World::new(Kind::Multicloud);
        lived(&world, seed, 1_500).await.unwrap();
        assert_eq!(audited(&world, 2_000), [""; 0], "{seed}");
    }
}

/// However lives end: the client dies at a call, or a cloud stops, and all is done again.
#[tokio::test(start_paused = true)]
async fn deaths_show_nothing_else() {
    for dies in (1..).step_by(7) {
        let (world, mut history) = (World::new(Kind::Multicloud), History::new());
        world.clouds.is_watched();
        let lived = life(&world, &mut history, dies, fault(dies)).await;
        look(&world, &mut history).await;
        assert_eq!(audited(&world, 0), [""; 0], "{dies}");
        if lived {
            break;
        }
    }
    for (after, at) in (1..200).step_by(23).flat_map(|after| [(after, 0), (after, 1)]) {
        let world = World::new(Kind::Multicloud);
        world.clouds.stops_after(after, at);
        lived(&world, after, ACCESSES).await.unwrap();
        assert_eq!(audited(&world, 40), [""; 0], "{at} after {after}");
    }
}

/// Of three traces the second was forgotten: no leak is told.
#[tokio::test(start_paused = true)]
async fn a_trace_that_is_missing_is_told_as_such() {
    let world = World::new(Kind::Multicloud);
    lived(&world, 1, 3_000).await.unwrap();
    let shape = world.public().unwrap();
    for cloud in [0, 1] {
        let (config, events) = (public(cloud, &shape), world.clouds.view(cloud));
        let hear = |oracle: &mut Oracle, events: &[Event]| {
            events.iter().try_for_each(|event| oracle.event(event, &mut |_: &Observation<'_>| {}))
        };
        for from in (events.len() / 2..events.len()).step_by(601) {
            for missing in [0, 60, 500] {
                let Some(after) = events.get(from + missing..) else { continue };
                let mut oracle = Oracle::new(&config).unwrap();
                hear(&mut oracle, &events[..from]).unwrap();
                oracle.next_trace();
                match hear(&mut oracle, after) {
                    Ok(()) => assert!(missing == 0 || after.len() < 60, "{from} {missing}"),
                    Err(Halt::Unfollowing { .. }) => assert!(missing > 0, "{from}"),
                    Err(halt) => panic!("cloud {cloud}, {missing} from {from}: {halt}"),
                }
            }
        }
        // What no gap explains is a leak in the first message, too: a seed that came before.
        let seed = |event: &Event| match event {
            Event::Sent(Sent { request: Request::BlobPut { name, fingerprint, .. }, .. }) => {
                name.starts_with("look/").then_some(*fingerprint)
            }
            _ => None,
        };
        let first = events.iter().find_map(seed).unwrap();
        let from = events.len() / 2
            + events[events.len() / 2..].iter().position(|e| seed(e).is_some()).unwrap();
        let mut repeats = events[from].clone();
        let Event::Sent(Sent { request: Request::BlobPut { fingerprint, .. }, .. }) = &mut repeats
        else {
            panic!("a message")
        };
        *fingerprint = first;
        let mut oracle = Oracle::new(&config).unwrap();
        hear(&mut oracle, &events[..from]).unwrap();
        oracle.next_trace();
        let told = hear(&mut oracle, &[repeats]);
        assert!(matches!(&told, Err(Halt::Breach(of)) if of.rule == "seed-once"), "{told:?}");
    }
}

/// A program that knows nothing but what is public writes what a cloud could have been sent.
#[test]
fn what_a_simulator_writes_is_what_the_specification_says() {
    let world = World::new(Kind::Multicloud);
    let shape = world.public().unwrap();
    for cloud in [0, 1] {
        let config = public(cloud, &shape);
        let tail: MulticloudConfig = config.tail().unwrap();
        let events = Simulator::new(&tail, 7).unwrap().accesses(20_000).unwrap();
        assert_eq!(found(&config, &events), [""; 0], "cloud {cloud}");
    }
}

/// Leaks of what a cloud is sent are found by the checks that are meant for them, at the cloud that
/// can see them.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn each_leak_is_found_by_its_check() {
    let mut missed = Vec::new();
    for (leak, check) in [
        (Leak::ReadPadTwice, "seed-once"),
        (Leak::CarryPadTwice, "seed-once"),
        (Leak::OutsideList, "cell-listed"),
        (Leak::RefreshOfReals, "list-quota"),
        (Leak::FirstDummy, "slot-ranks"),
        (Leak::WantedFirst, "slot-ranks"),
        (Leak::ConstantIndex, "slot-ranks"),
    ] {
        let mut world = World::new(Kind::Multicloud);
        world.leak = Some(leak);
        let _it_may_break_itself = lived(&world, 1, 6_000).await;
        let found = audited(&world, 40);
        if !found.iter().any(|found| found.contains(check)) {
            missed.push(format!("{leak:?}: {check} is not in {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
