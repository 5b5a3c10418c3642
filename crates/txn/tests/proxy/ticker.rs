//! Epochs as an engine that serves every access as it comes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::Nanos;
use fogbank_oram::immediate::plain::PlainEngine;
use fogbank_oram::{Access, Address, Error, ImmediateEngine, Ticket};
use fogbank_txn::{Ticker, Uptime};

use crate::support::{Call, Setup, World, lied};

const BLOCKS: u32 = 100;

async fn world() -> (World, Ticker) {
    let capacity = Ticker::capacity_for(BLOCKS);
    let world = Setup { capacity, ..Setup::default() }.start().await;
    let ticker = Ticker::new(&world.proxy, BLOCKS).unwrap();
    (world, ticker)
}

fn write(offset: u32, bytes: &[u8]) -> Access {
    Access::Write { offset, bytes: Bytes::copy_from_slice(bytes) }
}

fn is_answered(ticket: &mut Ticket) -> bool {
    Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Reads, patches and whole blocks, of few blocks and of many, beside a map.
#[tokio::test(start_paused = true)]
async fn blocks_are_as_if_accesses_came_one_by_one() {
    let (world, ticker) = world().await;
    let plain = PlainEngine::new(ticker.shape());
    let mut tickets = Vec::new();
    for n in 0..2_000_u32 {
        let block = if n % 3 == 0 { n % 5 } else { n * 7919 % BLOCKS };
        let access = match n * 31 % 7 {
            0..3 => Access::Read,
            3 => write(0, &[n as u8; 16]),
            part => write(part, &[n as u8; 5]),
        };
        let expected = plain.submit(Address(block), access.clone()).await.unwrap();
        tickets.push((ticker.submit(Address(block), access), expected));
        if n % 50 == 49 {
            world.sleep_ms(u64::from(n) % 90).await;
        }
    }
    for (n, (ticket, expected)) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.await.unwrap(), expected, "access {n}");
    }
}

/// Every block is there at once, and all of them can be written again.
#[tokio::test(start_paused = true)]
async fn a_full_disk_takes_writes() {
    let (_world, ticker) = world().await;
    for round in 1..4 {
        let all = (0..BLOCKS).map(|n| ticker.submit(Address(n), write(0, &[round; 16])));
        for ticket in all.collect::<Vec<_>>() {
            ticket.await.unwrap();
        }
    }
    for n in 0..BLOCKS {
        assert_eq!(ticker.submit(Address(n), Access::Read).await.unwrap(), vec![3; 16]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_without_room_for_all_blocks_is_refused() {
    let world = Setup { capacity: Ticker::capacity_for(BLOCKS), ..Setup::default() }.start().await;
    let refused = Ticker::new(&world.proxy, BLOCKS + 2);
    assert!(matches!(refused, Err(Error::Caller(_))));
}

/// When the engine was asked for what, while so many accesses came.
async fn shape_while_busy(accesses: u32, rests_while_idle: bool) -> Vec<(Nanos, char)> {
    let (world, ticker) = world().await;
    let mut client = world.proxy.session();
    if rests_while_idle {
        world.proxy.run_when(Uptime::WhilePresent { linger: Duration::ZERO });
    }
    if accesses > 0 {
        client.attend();
    }
    for n in 0..accesses {
        let access = if n % 2 == 0 { Access::Read } else { write(3, b"part") };
        drop(ticker.submit(Address(n % BLOCKS), access));
        if n % 20 == 0 {
            world.sleep_ms(3).await;
        }
    }
    world.sleep_ms(2_000).await;
    let mut shape = world.shape();
    shape.truncate(200);
    shape
}

/// What the engine is asked for and when does not tell a busy disk from an idle one. The canary:
/// epochs that rest while nobody is there do.
#[tokio::test(start_paused = true)]
async fn the_beat_is_the_same_busy_or_idle() {
    let idle = shape_while_busy(0, false).await;
    assert_eq!(idle.len(), 200);
    for accesses in [1, 17, 300] {
        assert_eq!(shape_while_busy(accesses, false).await, idle, "{accesses}");
    }
    assert_ne!(shape_while_busy(0, true).await, shape_while_busy(17, true).await);
}

/// Whoever has the disk wakes the epochs, and so does closing it.
#[tokio::test(start_paused = true)]
async fn a_disk_that_rests_wakes_for_a_client_and_to_be_closed() {
    let (world, ticker) = world().await;
    world.proxy.run_when(Uptime::WhilePresent { linger: Duration::from_secs(1) });
    world.sleep_ms(5_000).await;
    let rests = world.count('c');
    let waiting = ticker.submit(Address(3), write(0, b"part"));
    world.sleep_ms(5_000).await;
    assert_eq!(world.count('c'), rests, "no client is here");
    let here = ticker.attend();
    assert_eq!(&waiting.await.unwrap()[..4], b"part");
    drop(here);
    world.sleep_ms(5_000).await;
    let rests = world.count('c');
    drop(ticker.submit(Address(4), write(0, b"last")));
    world.sleep_ms(5_000).await;
    assert_eq!(world.count('c'), rests);
    ticker.close().await.unwrap();
    assert!(world.count('c') > rests, "what was submitted is committed");
}

/// Answers leave in their order, and none before the commit of its epoch: also that of a block
/// which was never written, for which nothing has to be read.
#[tokio::test(start_paused = true)]
async fn nothing_is_answered_before_its_epoch_has_committed() {
    let (world, ticker) = world().await;
    for round in 0..20_u32 {
        let commits = world.count('c');
        let mut tickets: Vec<Ticket> = (0..40)
            .map(|n| match n % 3 {
                0 => ticker.submit(Address((round + n) % BLOCKS), Access::Read),
                part => ticker.submit(Address(n), write(part, &[n as u8; 9])),
            })
            .collect();
        assert!(!tickets.iter_mut().any(is_answered));
        while !is_answered(&mut tickets[0]) {
            assert!(!tickets[1..].iter_mut().any(is_answered));
            world.sleep_ms(1).await;
        }
        assert!(world.count('c') > commits);
        tickets.remove(0);
        while let Some(last) = tickets.pop() {
            last.await.unwrap();
            assert!(tickets.iter_mut().all(is_answered), "one before the last was not");
            tickets.clear();
        }
    }
}

/// Accesses to one block share a read; a block that is about to be written whole is not read.
#[tokio::test(start_paused = true)]
async fn a_block_is_read_once_an_epoch_and_only_if_it_must_be() {
    let (world, ticker) = world().await;
    ticker.submit(Address(1), write(0, &[1; 16])).await.unwrap();
    ticker.submit(Address(2), write(0, &[1; 16])).await.unwrap();
    world.next_epoch().await;
    let before: usize = world.reads().iter().map(Vec::len).sum();
    let tickets = [
        ticker.submit(Address(2), write(0, &[7; 16])),
        ticker.submit(Address(2), Access::Read),
        ticker.submit(Address(1), write(2, b"x")),
        ticker.submit(Address(1), Access::Read),
        ticker.submit(Address(1), write(4, b"y")),
    ];
    let mut after = Vec::new();
    for ticket in tickets {
        after.push(ticket.await.unwrap());
    }
    assert_eq!(after[1], vec![7; 16]);
    assert_eq!(&after[4][..6], b"\x01\x01x\x01y\x01");
    assert_eq!(world.reads().iter().map(Vec::len).sum::<usize>() - before, 1);
    let written = world.record.lock().calls.iter().rev().find_map(|(_, call)| match call {
        Call::Write(blocks) if !blocks.is_empty() => Some(blocks.len()),
        _ => None,
    });
    assert_eq!(written, Some(2));
}

#[tokio::test(start_paused = true)]
async fn closing_answers_what_was_submitted_and_takes_nothing_more() {
    let (world, ticker) = world().await;
    // More than one epoch holds.
    let mut tickets: Vec<Ticket> =
        (0..BLOCKS).map(|n| ticker.submit(Address(n), write(1, b"kept"))).collect();
    let dropped = ticker.submit(Address(0), write(8, b"too"));
    drop(dropped);
    ticker.close().await.unwrap();
    assert!(tickets.iter_mut().all(is_answered));
    let late = ticker.submit(Address(0), Access::Read).await;
    assert!(matches!(late, Err(Error::Caller(_))), "{late:?}");
    let again = Ticker::new(&world.proxy, BLOCKS).unwrap();
    let kept = again.submit(Address(0), Access::Read).await.unwrap();
    assert_eq!(kept, b"\0kept\0\0\0too\0\0\0\0\0"[..]);
    world.proxy.close().await.unwrap();
    let late = again.submit(Address(0), Access::Read).await;
    assert!(matches!(late, Err(Error::Caller(_))), "{late:?}");
}

/// Wherever the engine fails: all who wait are told by whom, and whoever comes later.
#[tokio::test(start_paused = true)]
async fn a_failure_tells_all_who_wait() {
    for fail_at in 0..11 {
        let (world, ticker) = world().await;
        world.record.lock().fail_at = Some(fail_at);
        let tickets: Vec<Ticket> =
            (0..BLOCKS).map(|n| ticker.submit(Address(n), write(1, b"lost"))).collect();
        let mut failed = false;
        for ticket in tickets {
            let answer = ticket.await;
            assert!(matches!(answer, Ok(_) | Err(Error::CloudLied(_))), "{answer:?}");
            assert!(!(failed && answer.is_ok()), "answered after a failure");
            failed |= answer.is_err();
        }
        assert!(failed);
        assert_eq!(ticker.stopped().await, lied());
        assert_eq!(ticker.submit(Address(0), Access::Read).await, Err(lied()));
        assert_eq!(ticker.close().await, Err(lied()));
    }
}

#[tokio::test(start_paused = true)]
async fn misuse_is_refused_at_once() {
    let (_world, ticker) = world().await;
    for (block, access) in [
        (BLOCKS, Access::Read),
        (0, write(0, b"")),
        (0, write(16, b"x")),
        (0, write(15, b"xy")),
        (0, write(u32::MAX, b"x")),
    ] {
        let mut ticket = ticker.submit(Address(block), access);
        let answer = Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(answer, Poll::Ready(Err(Error::Caller(_)))), "{answer:?}");
    }
}

/// While more waits than an epoch holds, every epoch is full.
#[tokio::test(start_paused = true)]
async fn epochs_leave_no_room_unused_while_somebody_waits() {
    let (world, ticker) = world().await;
    for access in [write(0, &[1; 16]), write(1, b"part"), Access::Read] {
        world.record.lock().calls.clear();
        let tickets: Vec<Ticket> =
            (0..BLOCKS).map(|n| ticker.submit(Address(n), access.clone())).collect();
        for ticket in tickets {
            ticket.await.unwrap();
        }
        let full = |sizes: Vec<usize>, most: usize| {
            let used: Vec<usize> = sizes.into_iter().filter(|size| *size > 0).collect();
            let partly = used.iter().filter(|size| **size < most).count();
            assert!(partly <= 2, "{access:?}: {used:?}");
        };
        let calls = world.record.lock().calls.clone();
        let writes = calls.iter().filter_map(|(_, call)| match call {
            Call::Write(blocks) => Some(blocks.len()),
            _ => None,
        });
        full(writes.collect(), world.setup.write_batch);
        if access == Access::Read {
            full(world.reads().iter().map(Vec::len).collect(), world.setup.read_batch);
        }
        world.next_epoch().await;
    }
}
