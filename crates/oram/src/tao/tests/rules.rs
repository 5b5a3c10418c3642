//! The rules of the protocol, seen from the cloud (T1 to T7 of the notes on tree engines).

use std::collections::BTreeSet;
use std::time::Duration;

use fogbank_env::Clock;

use super::data::run;
use super::scheduler::{Event, Scheduler};
use super::*;
use crate::geometry::BucketShape;
use crate::immediate::plane::Plane as _;
use crate::immediate::sequencer::Sequencer;
use crate::tao::journal::Kind;
use crate::tao::processor::{PathRequest, Processor};
use crate::tao::state;

/// A store in which every bucket has been written.
async fn warm(capacity: u32) -> World {
    let world = World::default();
    let engine = world.open(world.cloud.clone(), settings(capacity)).await.unwrap();
    let (mut model, mut work) = (Model::new(capacity), Workload::new(1, capacity));
    run(&engine, &mut model, &mut work, 40 * capacity as usize, 8).await;
    assert!(engine.shared.look(|core| core.plane.versions.iter().all(|version| *version != 0)));
    engine.close().await.unwrap();
    world
}

/// Lets everything go on that can.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

fn is_answered(ticket: &mut Ticket) -> bool {
    use futures_util::FutureExt;
    ticket.now_or_never().is_some()
}

#[tokio::test(start_paused = true)]
async fn every_request_reads_one_path_in_the_order_of_arrival() {
    for same in [false, true] {
        let world = warm(64).await;
        let store = Scheduler::scripted(world.cloud.clone());
        let engine = world.open(store.clone(), settings(64)).await.unwrap();
        let levels = usize::from(engine.geometry().stored_levels());
        let block = |n| Address(if same { 7 } else { n });
        let tickets: Vec<Ticket> = (0..20).map(|n| engine.submit(block(n), Access::Read)).collect();
        settle().await;
        let paths = store.paths();
        assert_eq!(paths.len(), 20, "same block: {same}");
        assert!(paths.iter().all(|path| path.len() == levels));
        // The record that names them is put before, and as long as they are many.
        let events = store.events.lock().clone();
        let first = events.iter().position(|event| matches!(event, Event::Path(_))).unwrap();
        let mut puts = events[..first].iter().rev().filter_map(|event| match event {
            Event::Put(name, bytes) if name.starts_with("journal/") => Some(*bytes),
            _ => None,
        });
        let part = settings(64).vault().record_bytes;
        let bytes = fogbank_durable::journal_bytes(20 * part) as usize;
        assert_eq!(puts.next(), Some(bytes), "one record for all that arrived at once");
        (0..20).for_each(|path| store.release(path));
        for ticket in tickets {
            ticket.await.unwrap();
        }
    }
}

/// The attack on engines that answer when the first path of a block returns (CURIOUS): the second
/// request's reply comes, the first's is withheld. Nobody may be answered, whatever they asked for.
#[tokio::test(start_paused = true)]
async fn no_answer_leaves_before_its_turn() {
    for same in [false, true] {
        let world = warm(64).await;
        let store = Scheduler::scripted(world.cloud.clone());
        let engine = world.open(store.clone(), settings(64)).await.unwrap();
        let mut tickets: Vec<Ticket> = (0..3)
            .map(|n| engine.submit(Address(if same { 7 } else { n }), Access::Read))
            .collect();
        settle().await;
        for path in [2, 1] {
            store.release(path);
            settle().await;
            assert!(!tickets.iter_mut().any(is_answered), "same block: {same}");
        }
        store.release(0);
        settle().await;
        assert!(tickets.iter_mut().all(is_answered));

        // And where the first comes first: each leaves with its own path.
        let mut tickets: Vec<Ticket> = (0..3)
            .map(|n| engine.submit(Address(if same { 9 } else { 10 + n }), write(0, b"x")))
            .collect();
        settle().await;
        for (path, answered) in [(3, 1), (5, 1), (4, 3)] {
            store.release(path);
            settle().await;
            let now: Vec<bool> = tickets.iter_mut().map(is_answered).collect();
            tickets.drain(..now.iter().filter(|answered| **answered).count());
            assert_eq!(3 - tickets.len(), answered, "path {path}, same block: {same}");
        }
    }
}

/// Requests for one block at one instant: the second path is drawn, not the first again.
#[tokio::test(start_paused = true)]
async fn leaves_of_one_block_are_independent() {
    let world = warm(64).await;
    let store = Scheduler::random(world.cloud.clone(), 3, Duration::from_millis(20));
    let engine = world.open(store.clone(), settings(64)).await.unwrap();
    let leaves = f64::from(engine.geometry().tree.leaves());
    let rounds = 3_000;
    for _ in 0..rounds {
        let tickets = [0; 3].map(|_| engine.submit(Address(7), Access::Read));
        for ticket in tickets {
            ticket.await.unwrap();
        }
    }
    let leaf = |path: &Vec<fogbank_store::ChunkName>| path.last().unwrap().chunk;
    let read: Vec<u32> = store.paths().iter().map(leaf).collect();
    assert_eq!(read.len(), 3 * rounds);
    for (a, b, what) in
        [(0, 1, "first and second"), (1, 2, "both decoys"), (0, 3, "one round and the next")]
    {
        let pairs = (0..3 * rounds - b).step_by(3).map(|at| read[at + a] == read[at + b]);
        let (n, equal) = (pairs.len() as f64, pairs.filter(|equal| *equal).count() as f64);
        let spread = (n / leaves * (1.0 - 1.0 / leaves)).sqrt();
        assert!((equal - n / leaves).abs() < 5.0 * spread, "{what}: {equal} of {n} alike");
    }
}

/// Every k paths that came back are written, as a union, whatever was done to their blocks.
#[tokio::test(start_paused = true)]
async fn paths_are_written_back_in_the_order_in_which_they_came() {
    let world = warm(64).await;
    let store = Scheduler::scripted(world.cloud.clone());
    let engine = world.open(store.clone(), settings(64)).await.unwrap();
    let blocks = [7, 7, 8, 9, 7, 8, 10, 7, 7, 11];
    let tickets: Vec<Ticket> =
        blocks.iter().map(|block| engine.submit(Address(*block), Access::Read)).collect();
    settle().await;
    let order = [3, 0, 9, 4, 1, 8, 7, 2, 6, 5];
    for path in order {
        store.release(path);
        settle().await;
    }
    for ticket in tickets {
        ticket.await.unwrap();
    }
    let paths = store.paths();
    let mut written: Vec<BTreeSet<(u64, u32)>> = Vec::new();
    for event in store.events.lock().iter() {
        let Event::Written(names) = event else { continue };
        let names = names.iter().map(|name| (name.version, name.chunk));
        match written.last_mut() {
            // Messages of one write-back have one time stamp.
            Some(last)
                if last.first().map(|(version, _)| *version)
                    == names.clone().next().map(|n| n.0) =>
            {
                last.extend(names)
            }
            _ => written.push(names.collect()),
        }
    }
    let expected: Vec<BTreeSet<u32>> = order
        .chunks(5)
        .map(|paths_of| paths_of.iter().flat_map(|path| &paths[*path]).map(|n| n.chunk).collect())
        .collect();
    let written: Vec<BTreeSet<u32>> =
        written.iter().map(|names| names.iter().map(|(_, chunk)| *chunk).collect()).collect();
    assert_eq!(written, expected);
}

/// After a lie nothing more leaves, and everybody is told.
#[tokio::test(start_paused = true)]
async fn nothing_leaves_after_a_lie() {
    let world = warm(64).await;
    let store = Scheduler::scripted(world.cloud.clone());
    let engine = world.open(store.clone(), settings(64)).await.unwrap();
    let before = engine.submit(Address(1), Access::Read);
    settle().await;
    // All buckets but those of that path are no longer what was written.
    let names = world.cloud.list_chunks(fogbank_store::ArrayId(1)).await.unwrap();
    for chunk in names.into_iter().filter(|name| !store.paths()[0].contains(name)) {
        world.cloud.delete_chunks(&[chunk]).await.unwrap();
        let data = vec![7; engine.geometry().chunk_bytes()].into();
        world.cloud.write_chunks(vec![fogbank_store::ChunkWrite { chunk, data }]).await.unwrap();
    }
    store.release(0);
    settle().await;
    before.await.unwrap(); // what had been read before the lie was true
    let mut lied = None;
    for path in 1..200 {
        let ticket = engine.submit(Address(path % 64), Access::Read);
        settle().await;
        store.release(path as usize);
        settle().await;
        if let Err(error) = ticket.await {
            lied = Some(error);
            break;
        }
    }
    assert!(matches!(lied, Some(crate::Error::CloudLied(_))), "{lied:?}");
    let sent = store.events.lock().len();
    for block in 0..10 {
        let refused = engine.submit(Address(block), write(0, b"x")).await;
        assert!(matches!(refused, Err(crate::Error::CloudLied(_))));
    }
    settle().await;
    assert_eq!(store.events.lock().len(), sent);
}

/// The same while departures wait for a checkpoint that the cloud withholds: who waits is told at
/// once, and when the cloud lets it go on, nothing does.
#[tokio::test(start_paused = true)]
async fn a_lie_during_a_checkpoint_ends_everything_too() {
    let world = warm(64).await;
    let store = Scheduler::scripted(world.cloud.clone());
    let engine = world.open(store.clone(), settings(64)).await.unwrap();
    store.hold_puts(Some("checkpoint/"));
    // The last path stays away, until an access gets none: then a cut waits, the first one for that
    // path, the second for the checkpoint of the first.
    let mut tickets = vec![engine.submit(Address(0), Access::Read)];
    settle().await;
    loop {
        let last = tickets.len() - 1;
        tickets.push(engine.submit(Address(last as u32 % 64), Access::Read));
        settle().await;
        let writes =
            |event: &Event| matches!(event, Event::Put(name, _) if name.starts_with("check"));
        if store.paths().len() < tickets.len() && store.events.lock().iter().any(writes) {
            break;
        }
        store.release(last);
        settle().await;
        assert!(tickets.len() < 1_000, "no cut ever waits");
    }
    let mut waits = tickets.pop().unwrap();
    assert!(!is_answered(&mut waits));
    store.lie();
    store.release(tickets.len() - 1);
    settle().await;
    let told = |ticket: Ticket| futures_util::FutureExt::now_or_never(ticket);
    for ticket in [waits, engine.submit(Address(1), Access::Read)] {
        assert!(matches!(told(ticket), Some(Err(crate::Error::CloudLied(_)))));
    }
    let sent = store.events.lock().len();
    store.hold_puts(None);
    settle().await;
    assert_eq!(store.events.lock().len(), sent);
}

/// Of a path that is here only the lowest bucket is asked for, and all of it again when it has been
/// written back; unless another that was asked for may bring older ones.
#[tokio::test(start_paused = true)]
async fn what_is_here_is_not_asked_for() {
    let world = warm(64).await;
    let settings = TaoSettings { write_back_every: 2, ..settings(64) };
    let engine = world.open(world.cloud.clone(), settings).await.unwrap();
    let (levels, shared) = (usize::from(engine.geometry().stored_levels()), &engine.shared);
    let leaf_of = |block| shared.look(|core| core.plane.positions.leaf(block)).unwrap();
    let path = |number, leaf| PathRequest { number, kind: Kind::Padding, block: 0, leaf };
    let ask = |number, leaf| shared.look(|core| core.plane.path_buckets(&path(number, leaf)).len());
    let forget = |number, leaf| {
        shared.look(|core| core.plane.paths.remove(&core.plane.geometry.clone(), number, leaf));
    };
    let (first, second) = (leaf_of(7), leaf_of(8));
    assert_ne!(first, second);
    assert_eq!(ask(900, first), levels);
    forget(900, first);
    engine.submit(Address(7), Access::Read).await.unwrap();
    assert_eq!(ask(900, first), 1, "not written back");
    engine.submit(Address(8), Access::Read).await.unwrap();
    settle().await;
    assert_eq!(ask(901, first), 1, "written back, but it was asked for");
    [900, 901].iter().for_each(|number| forget(*number, first));
    assert!(ask(902, second) > ask(903, first), "what was not asked for has gone");
}

/// At a fixed rate as many accesses leave at every point, whatever was asked for.
#[tokio::test(start_paused = true)]
async fn at_a_fixed_rate_the_cloud_counts_no_requests() {
    let shape_of = |requests: usize| async move {
        let world = warm(64).await;
        let store = Scheduler::random(world.cloud.clone(), 3, Duration::ZERO);
        let rate = Some(crate::immediate::Rate { interval: 10_000_000, accesses: 4 });
        let settings = settings(64).with_shell(|shell| shell.rate = rate);
        let engine = world.open(store.clone(), settings).await.unwrap();
        let tickets: Vec<Ticket> =
            (0..requests).map(|n| engine.submit(Address(n as u32 % 64), Access::Read)).collect();
        for ticket in tickets {
            ticket.await.unwrap();
        }
        while store.paths().len() < 400 {
            let clock = SystemClock::new();
            clock.sleep_until(clock.now() + 1_000_000).await;
        }
        let events = store.events.lock().clone();
        let shape = events.iter().filter_map(|event| match event {
            // How many buckets it names follows from leaves.
            Event::Path(_) => Some(0),
            Event::Put(name, bytes) if name.starts_with("journal/") => Some(*bytes),
            _ => None,
        });
        shape.take(380).collect::<Vec<_>>()
    };
    let idle = shape_of(0).await;
    assert_eq!(idle, shape_of(200).await);
    assert_eq!(idle, shape_of(37).await);
}

/// The bound on the stash is a line above what is measured, at the fullest a tree can be.
#[test]
fn the_stash_stays_below_its_line() {
    for (reals, leaf_level) in [(4, 8), (5, 8), (6, 7)] {
        let capacity = u32::from(reals) << leaf_level;
        let shape = ImmediateShape { capacity, value_bytes: 8 };
        let settings = TaoSettings {
            bucket_blocks: reals,
            write_back_every: u32::MAX,
            ..TaoSettings::new(shape)
        };
        let geometry = settings.geometry().unwrap();
        assert_eq!(geometry.leaf_level(), leaf_level);
        let random = Randomness::repeatable(5);
        let mut state = Processor::new(&settings, &random, 1).unwrap();
        let mut answers = Sequencer::default();
        let mut over = vec![0u32; 200];
        let (warm_up, accesses) = (4 * capacity, 200_000);
        for access in 0..warm_up + accesses {
            let number = answers.arrive(None);
            let (path, _) = state.read_path(number, access % capacity, write(0, b"x"));
            assert!(state.path_returned(&path, Vec::new(), &mut answers).unwrap().is_none());
            answers.has_come(number);
            answers.emit();
            if access >= warm_up {
                over[..state.stash.len()].iter_mut().for_each(|count| *count += 1);
            }
        }
        let shape = BucketShape::path(reals);
        for bits in 3..16 {
            let bound = shape.residue_max(f64::from(bits)).unwrap() as usize;
            let above = f64::from(over[bound]) / f64::from(accesses);
            assert!(above <= 2f64.powi(-bits), "Z {reals}: {above} above {bound}");
        }
        assert!(over[2] > 0, "nothing was ever left over");
    }
}

/// A cloud that holds back all paths of one half of the tree, as many as may be under way, then all
/// of the other half: blocks that are mapped there wait. The bound allows for it, and has to.
#[test]
fn the_stash_is_bounded_whatever_is_held_back() {
    let (reals, leaf_level, under_way_max) = (4, 10, 1024);
    let shape = ImmediateShape { capacity: reals << leaf_level, value_bytes: 8 };
    let settings = TaoSettings { write_back_every: u32::MAX, ..TaoSettings::new(shape) }
        .with_shell(|shell| shell.under_way_max = under_way_max);
    let geometry = settings.geometry().unwrap();
    let random = Randomness::repeatable(6);
    let mut state = Processor::new(&settings, &random, 1).unwrap();
    let mut answers = Sequencer::default();
    let mut held = Vec::new();
    let mut most = 0;
    for access in 0..200_000 {
        let (path, _) =
            state.read_path(answers.arrive(None), access % shape.capacity, write(0, b"x"));
        let left = path.leaf < geometry.tree.leaves() / 2;
        if left == ((access / 20_000) % 2 == 0) {
            held.push(path);
        } else {
            state.path_returned(&path, Vec::new(), &mut answers).unwrap();
        }
        if held.len() == state.room() {
            most = most.max(state.stash.len());
            for path in held.drain(..) {
                state.path_returned(&path, Vec::new(), &mut answers).unwrap();
            }
        }
    }
    let in_turn =
        crate::geometry::Geometry { held_back_max: 0, ..geometry }.stash_blocks_max() as usize;
    // That it stays below the bound is what `path_returned` checks.
    assert!(most > in_turn, "{most} need no more than paths that come in turn, {in_turn}");
    assert!(most > under_way_max / 2, "{most}");
}

/// At a fixed rate a decision that comes too late is for a later tick, never for a point between
/// two.
#[tokio::test(start_paused = true)]
async fn a_tick_that_was_missed_is_skipped() {
    let ms = 1_000_000;
    let world = World::default();
    let store = Scheduler::random(world.cloud.clone(), 3, Duration::ZERO);
    let rate = Some(crate::immediate::Rate { interval: 10 * ms, accesses: 1 });
    let paced = settings(64).with_shell(|shell| {
        shell.quantum = Duration::from_millis(2);
        shell.rate = rate;
    });
    let engine = world.open(store.clone(), paced).await.unwrap();
    let (clock, grid) = (SystemClock::new(), engine.shared.grid.clone());
    // So long after the tick after the next one; how many records have left by then.
    let records_at = async |after: u64| {
        let wait = 20 * ms - grid.now() % (10 * ms) + after;
        clock.sleep_until(clock.now() + wait).await;
        let is_record =
            |event: &&Event| matches!(event, Event::Put(name, _) if name.starts_with("journal/"));
        store.events.lock().iter().filter(is_record).count()
    };
    // What leaves at a tick is decided 2 ms before it.
    for (held_until, missed) in [(7 * ms, 0), (9 * ms, 1)] {
        let free = records_at(5 * ms).await;
        assert_eq!(records_at(5 * ms).await, free + 2);
        let taking = engine.shared.taking.write().await;
        let before = records_at(held_until).await;
        drop(taking);
        // Two ticks later: the first of them was decided if paths were taken by then.
        assert_eq!(records_at(5 * ms).await, before + 2 - missed, "held until {held_until}");
    }
}

/// Without a grid no tick is missed, however late a machine's timer is.
#[tokio::test]
async fn a_fixed_rate_without_a_grid_serves() {
    let world = World::default();
    let rate = Some(crate::immediate::Rate { interval: 2_000_000, accesses: 1 });
    let engine = world
        .open(world.cloud.clone(), settings(64).with_shell(|shell| shell.rate = rate))
        .await
        .unwrap();
    for block in 0..5 {
        let served = engine.submit(Address(block), Access::Read);
        tokio::time::timeout(Duration::from_secs(60), served).await.expect("it serves").unwrap();
    }
    engine.close().await.unwrap();
}

/// What the stash may hold follows from settings that may change: an older checkpoint has fewer
/// pieces, or more.
#[test]
fn a_checkpoint_of_another_stash_bound_is_read() {
    let shape = ImmediateShape { capacity: 1 << 12, value_bytes: 4096 };
    let of = |under_way_max| {
        let settings =
            TaoSettings::new(shape).with_shell(|shell| shell.under_way_max = under_way_max);
        let random = Randomness::repeatable(6);
        Processor::new(&settings, &random, 1).unwrap()
    };
    let pieces = [8, 256].map(|of_paths| state::save(&of(of_paths)).unwrap().len());
    assert!(pieces[0] < pieces[1], "{pieces:?}");
    for (before, after) in [(8, 256), (256, 8)] {
        let (mut was, mut is) = (of(before), of(after));
        let mut answers = Sequencer::default();
        for block in 0..50 {
            let content = write(0, b"what was written");
            was.answer_requests(block, 0, ([(0, content)], block), &mut answers).unwrap();
        }
        state::restore(&mut is, 2, &state::save(&was).unwrap()).unwrap();
        let mut stashed: Vec<u32> = is.stash.iter().map(|held| held.block).collect();
        stashed.sort_unstable();
        assert_eq!(stashed, (0..50).collect::<Vec<_>>());
    }
}

/// Whoever waits is told, in whatever way the engine ends.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_an_engine_that_is_gone() {
    let world = warm(64).await;
    let store = Scheduler::scripted(world.cloud.clone());
    let engine = world.open(store.clone(), settings(64)).await.unwrap();
    let mut ticket = engine.submit(Address(1), Access::Read);
    settle().await;
    assert!(!is_answered(&mut ticket));
    let shared = engine.shared.clone(); // as a task that still runs holds it
    drop(engine);
    settle().await;
    assert!(matches!(ticket.await, Err(crate::Error::Bug(_))));
    drop(shared);
}

#[test]
fn a_rate_that_never_has_room_is_refused() {
    let rate = Some(crate::immediate::Rate { interval: 1, accesses: 9 });
    let refused = settings(64)
        .with_shell(|shell| {
            shell.rate = rate;
            shell.under_way_max = 8;
        })
        .geometry();
    assert!(matches!(refused, Err(crate::Error::Caller(_))));
    assert!(
        settings(64)
            .with_shell(|shell| {
                shell.rate = rate;
                shell.under_way_max = 9;
            })
            .geometry()
            .is_ok()
    );
}

/// Work on paths that came must not decide what leaves: while they are being taken nothing is
/// decided.
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_while_paths_are_being_taken() {
    let world = warm(64).await;
    let store = Scheduler::random(world.cloud.clone(), 3, Duration::ZERO);
    let on_grid = settings(64).with_shell(|shell| shell.quantum = Duration::from_millis(2));
    let engine = world.open(store.clone(), on_grid).await.unwrap();
    let taking = engine.shared.taking.write().await;
    let deleting = engine.shared.delete(|_| panic!("it is not to be decided"));
    assert!(tokio::time::timeout(Duration::from_millis(20), deleting).await.is_err());
    let mut ticket = engine.submit(Address(7), Access::Read);
    let clock = SystemClock::new();
    clock.sleep_until(clock.now() + 100_000_000).await;
    assert_eq!(store.paths().len(), 0);
    assert!(!is_answered(&mut ticket));
    drop(taking);
    ticket.await.unwrap();
    assert_eq!(store.paths().len(), 1);
}
