//! What the server of a site sees of all clients, held to the auditor's specification of it and to
//! its statistics: their traces, joined by the log.

use std::sync::Arc;
use std::time::Duration;

use fogbank_audit::distinguish::{self, Run};
use fogbank_audit::oracle::hierarchy::HierarchyConfig;
use fogbank_audit::oracle::hierarchy::simulator::{Simulator, Transcript};
use fogbank_audit::report::Report;
use fogbank_audit::{Given, Options, Verdict, audit};
use fogbank_env::{Clock, SystemClock};
use fogbank_oram::ImmediateEngine;
use fogbank_store::trace::Event;
use tokio::task::JoinSet;

use crate::spoiled::{broken, shown, touch_in_order};
use crate::world::World;
use crate::{Histories, work};

/// What the auditor says of the traces of all clients of a world.
fn report(world: &World) -> Report {
    let traces = world.all_traces();
    let given = [Given { label: "site".into(), traces, history: None }];
    audit(&given, &Options::default(), |_| {}).unwrap()
}

/// Whoever has gone has ended its trace by then.
pub async fn rest() {
    let clock = SystemClock::new();
    clock.sleep_until(clock.now() + 120_000_000_000).await;
}

/// What breaks a rule, or fails.
async fn found(world: &World) -> Vec<String> {
    rest().await;
    let report = report(world);
    let breaches = report.breaches.iter().map(|broken| broken.breach.to_string());
    let failed = report.findings.iter().filter(|finding| finding.verdict == Verdict::Failed);
    let failed = failed.map(|finding| format!("{}: {}", finding.check, finding.words));
    let open = report
        .findings
        .iter()
        .filter(|finding| finding.check == "oracle" && finding.verdict == Verdict::TooFew);
    let open = open.map(|finding| finding.words.clone());
    breaches.chain(failed).chain(open).collect()
}

/// So many clients ask so often, and close.
pub async fn worked(world: &World, clients: u64, count: u64) {
    let mut works = JoinSet::new();
    for client in 0..clients {
        let engine = world.join().await.unwrap();
        works.spawn(async move {
            work(engine.clone(), Histories::default(), (client, count)).await.unwrap();
            engine.close().await.unwrap();
        });
    }
    while let Some(done) = works.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn clients_show_what_the_specification_says_and_nothing_else() {
    for (seed, clients) in [(60, 1), (61, 2), (62, 3), (63, 5), (64, 3), (65, 2)] {
        let world = World::recorded(seed);
        worked(&world, clients, 200).await;
        assert_eq!(found(&world).await, [""; 0], "{clients} clients, seed {seed}");
    }
}

/// Some die in the middle of whatever they do, and join again.
#[tokio::test(start_paused = true)]
async fn clients_that_die_show_nothing_else() {
    for seed in 70..80 {
        let world = Arc::new(World::recorded(seed));
        let mut works = JoinSet::new();
        for client in 0..3 {
            let world = world.clone();
            works.spawn(async move {
                for life in 0..3 {
                    let engine = world.join().await.unwrap();
                    let lives = Duration::from_millis(700 + 900 * (client + life));
                    let works = work(engine, Histories::default(), (3 * client + life, 400));
                    let _or_dies = tokio::time::timeout(lives, works).await;
                }
            });
        }
        while works.join_next().await.is_some() {}
        assert_eq!(found(&world).await, [""; 0], "seed {seed}");
    }
}

/// Whoever builds for others shows what it says that it does, though some of those die, too.
#[tokio::test(start_paused = true)]
async fn builders_show_what_the_specification_says_and_nothing_else() {
    for (seed, die_at) in [
        (110, &[u64::MAX][..]),
        (111, &[u64::MAX]),
        (112, &[u64::MAX, u64::MAX]),
        (113, &[150, u64::MAX]),
        (114, &[200]),
        (115, &[90]),
        (116, &[120, 240]),
        (117, &[300, 310]),
    ] {
        let (world, mut builders) = (World::recorded(seed), Vec::new());
        for dies_at in die_at {
            builders.push(world.join_to_build(*dies_at).await.unwrap());
        }
        worked(&world, 2, 100).await;
        worked(&world, 3, 100).await;
        for builder in builders {
            let _or_has_died = builder.close().await;
        }
        assert_eq!(found(&world).await, [""; 0], "seed {seed}, killed at {die_at:?}");
    }
}

/// Of clients that leak in what the server sees some rule says so by its name.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn clients_that_leak_break_a_rule() {
    use crate::world::Leak;
    let mut wrong = Vec::new();
    'leaks: for (leak, rule) in [
        (Leak::WindowOneEpoch, "slot-once"),
        (Leak::FakeLeft, "slot-once"),
        (Leak::TakeoverFreshFakes, "slot-once"),
        (Leak::DuplicateSkips, "tables-of-the-epoch"),
        (Leak::StopsAtHit, "tables-of-the-epoch"),
        (Leak::TouchBeforeAppend, "touch-due"),
        (Leak::TablePickedUp, "touch-due"),
        (Leak::BucketNotPadded, "piece-writes"),
        (Leak::BuildSkipsTouched, "barrier-due"),
        (Leak::FillsAskAnew, "asked-once"),
    ] {
        let mut told = Vec::new();
        for seed in 52..64 {
            told = leaks(seed, leak).await;
            // Where there is one table, a slot twice is a touch twice.
            let is_twice = |found: &String| rule == "slot-once" && found.starts_with("touch-once");
            if told.iter().any(|found| found.starts_with(rule) || is_twice(found)) {
                continue 'leaks;
            }
        }
        wrong.push(format!("{leak:?}: {told:?}"));
    }
    assert_eq!(wrong, [""; 0]);
}

/// What is found of three clients that leak something, of which the first dies, so that others take
/// its places over.
#[cfg(feature = "canaries")]
async fn leaks(seed: u64, leak: crate::world::Leak) -> Vec<String> {
    let mut world = World::recorded(seed);
    world.leak = Some(leak);
    let mut works = JoinSet::new();
    for client in 0..3 {
        let engine = world.join().await.unwrap();
        works.spawn(async move {
            let works = work(engine, Histories::default(), (client, 300));
            let lives = Duration::from_secs(if client == 0 { 1 } else { 100 });
            let _whatever_comes_of_it = tokio::time::timeout(lives, works).await;
        });
    }
    while works.join_next().await.is_some() {}
    let found = found(&world).await;
    std::mem::forget(world); // it would say so, too
    found
}

/// Runs of the engine, and what a program writes that is told only what is public of them: nobody
/// tells them apart. One that draws badly, which breaks no rule, is told from both.
#[tokio::test(start_paused = true)]
async fn what_a_simulator_writes_is_not_told_from_what_clients_show() {
    let mut runs = Vec::new();
    let options = distinguish::Options::default();
    // All of one kind: messages at every point, builds in pieces.
    for seed in (0..8).map(|run| 102 + 6 * run) {
        let world = World::recorded(seed);
        worked(&world, 3, 250).await;
        rest().await;
        let (config, events) = shown(&world);
        let of_site: HierarchyConfig = config.tail().unwrap();
        let transcript = Transcript::of(&of_site, events.clone()).unwrap();
        let drawn = Simulator::new(&of_site, seed).unwrap().plays(&transcript).unwrap();
        assert_eq!(broken(&config, &drawn), None, "{seed}");
        assert_ne!(drawn, events);
        let mut in_order = drawn.clone();
        touch_in_order(&mut in_order);
        assert_eq!(broken(&config, &in_order), None, "{seed}");
        let read = |label: &str, events: Vec<Event>| {
            let events = events.into_iter().map(Ok::<_, ()>);
            Run::read(label, Some(&config), events, &options).unwrap()
        };
        let labelled = [("engine", events), ("simulator", drawn), ("in order", in_order)];
        runs.extend(labelled.map(|(label, events)| read(label, events)));
    }
    let mut told = distinguish::distinguish(&runs, &options).findings();
    told.retain(|finding| finding.check == "two-histories");
    assert_eq!(told.len(), 3);
    for finding in told {
        let is_bad = finding.subject.ends_with("in order");
        assert_eq!(finding.verdict == Verdict::Failed, is_bad, "{}", finding.words);
        println!("{}", finding.words);
    }
}
