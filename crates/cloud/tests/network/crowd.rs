//! Clients that want all of the server: others are served meanwhile, and what was taken comes back.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_cloud::{Keeping, ServerSettings};
use fogbank_env::{Clock, SystemClock};
use fogbank_store::Store;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::fixture::Server;
use crate::hand_clock::HandClock;
use crate::raw::{Raw, SECOND, head, message, status, still_serves, tls};

const MIB: u64 = 1 << 20;
const WRITE: u8 = 4;
const BARRIER: u8 = 11;

async fn server(clock: &HandClock, change: impl FnOnce(&mut ServerSettings)) -> Server {
    Server::with(Keeping::Memory, 1 << 30, Arc::new(clock.clone()), change).await
}

/// A stream that says this and then nothing.
fn then_silence(said: Vec<u8>) -> impl tokio_stream::Stream<Item = Option<Bytes>> + Send {
    tokio_stream::iter([Some(message(&said)), None])
}

/// Moves the clock until `waiting` is over, slowly enough for the server to come along.
async fn over<T>(clock: &HandClock, waiting: impl Future<Output = T>) -> T {
    let mut waiting = std::pin::pin!(waiting);
    let real = SystemClock::new();
    loop {
        tokio::select! {
            biased;
            done = &mut waiting => return done,
            () = real.sleep_until(real.now() + SECOND / 1000) => clock.advance(SECOND / 10),
        }
    }
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

/// Requests of 70 MiB, of which nothing comes: the bound decides whether there is memory for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_over_all_tenants_and_comes_back() {
    for (bound, second) in [(256 * MIB, "8"), (1024 * MIB, "4")] {
        let clock = HandClock::default();
        let server =
            server(&clock, |settings| settings.work_bytes_max = bound + 64 * 3 * MIB).await;
        let b = server.client("b").await;
        let honest = server.memory.held();
        let a = Raw::connect(&server, "a").await;
        let large = head(WRITE, 70 * MIB);
        let one = a.call(then_silence(large.clone())).await.unwrap();
        until(|| server.memory.held() > honest + 70 * MIB).await;
        let begun = server.figure("server_calls_total");
        let two = a.call(then_silence(large.clone())).await.unwrap();
        until(|| server.figure("server_calls_total") > begun).await;
        b.barrier().await.unwrap();
        let (one, two) = over(&clock, async { tokio::join!(status(one), status(two)) }).await;
        assert_eq!(one.as_deref(), Some("4"), "too slow");
        assert_eq!(two.as_deref(), Some(second), "exhausted if the memory is bounded so");
        drop(a);
        until(|| server.memory.held() == honest).await;
        drop(b);
        until(|| server.memory.held() == 0).await;
    }
}

/// One tenant makes connections until it gets no more, and on each as many calls as it can, which
/// say one byte at a time; strangers say nothing. Others are served; the slow are gone after a
/// public time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slow_are_cut_and_the_others_served() {
    let clock = HandClock::default();
    let few = |settings: &mut ServerSettings| settings.connections_max = 64;
    let server = server(&clock, few).await;
    let mut strangers = Vec::new();
    for _ in 0..20 {
        strangers.push((TcpStream::connect(server.address).await.unwrap(), tls(&server).await));
    }
    let (mut connections, mut calls) = (Vec::new(), Vec::new());
    loop {
        let connection = Raw::connect(&server, "a").await;
        let barrier = tokio_stream::iter([Some(message(&head(BARRIER, 0)))]);
        match status(connection.call(barrier).await.unwrap()).await.as_deref() {
            Some("0") => connections.push(connection),
            refused => {
                assert_eq!(refused, Some("8"), "exhausted");
                break;
            }
        }
    }
    assert_eq!(connections.len(), 24, "three eighths of the places");
    let whole = [head(WRITE, MIB), vec![7; 1000]].concat();
    for (number, connection) in connections.iter().enumerate().take(4) {
        for call in 0..16 {
            let (say, said) = mpsc::unbounded_channel();
            let answer = connection.call(UnboundedReceiverStream::new(said)).await.unwrap();
            // A byte of the first message, a message of a byte each, or a byte of a later message.
            let bytes: Vec<Bytes> = match (number + call) % 3 {
                0 => message(&whole).chunks(1).map(Bytes::copy_from_slice).collect(),
                1 => {
                    let rest = whole[9..].chunks(1).map(message);
                    std::iter::once(message(&whole[..9])).chain(rest).collect()
                }
                _ => {
                    let rest = message(&whole[9..]);
                    let rest = rest.chunks(1).map(Bytes::copy_from_slice);
                    std::iter::once(message(&whole[..9])).chain(rest).collect()
                }
            };
            calls.push((say, bytes.into_iter(), tokio::spawn(status(answer))));
        }
    }
    still_serves(&server).await;
    let mut halves = 0;
    while !calls.iter().all(|(.., ended)| ended.is_finished()) {
        for (say, bytes, _) in &mut calls {
            let _cut = say.send(bytes.next());
        }
        clock.advance(SECOND / 2);
        halves += 1;
        server.client("b").await.barrier().await.unwrap();
    }
    assert!((19..60).contains(&halves), "ten seconds after what they said, not before: {halves}");
    for (.., ended) in calls {
        assert_eq!(ended.await.unwrap().as_deref(), Some("4"), "too slow");
    }
    let turned_away = server.figure("server_turned_away_total");
    assert!(turned_away >= 40, "{turned_away}: strangers had 5 and 10 seconds");
    drop((connections, strangers));
    until(|| server.memory.held() == 0).await;
}

/// What a client takes back is over, so that it cannot have more under way than a connection may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_taken_back_take_nothing() {
    let clock = HandClock::default();
    let slow = |settings: &mut ServerSettings| settings.share.calls_per_s = 1;
    let server = server(&clock, slow).await;
    let a = Raw::connect(&server, "a").await;
    for _ in 0..100 {
        // All but the first wait for their turn, and the clock stands.
        let barrier = tokio_stream::iter([Some(message(&head(BARRIER, 0)))]);
        drop(a.call(barrier).await.unwrap());
    }
    let barrier = tokio_stream::iter([Some(message(&head(BARRIER, 0)))]);
    let answer = a.call(barrier).await.unwrap();
    let ended = over(&clock, status(answer)).await;
    assert_eq!(ended.as_deref(), Some("0"));
    drop(a);
    until(|| server.memory.held() == 0).await;
}
