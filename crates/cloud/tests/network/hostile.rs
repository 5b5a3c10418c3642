//! Clients that want no good: none crashes the server, holds it, or is held for long.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use fogbank_cloud::Keeping;
use fogbank_env::{Clock, Purpose, Randomness};
use fogbank_store::{ArrayId, Store};
use rand_core::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{SHAPE, Server, write};
use crate::hand_clock::HandClock;
use crate::raw::{PATH, Raw, SECOND, closed, head, message, raw, status, still_serves, tls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_ends_the_connection_and_nothing_else() {
    let server = Server::start(Keeping::Memory).await;
    let mut stream = Randomness::repeatable(1).stream(Purpose::Faults);
    for round in 0..20 {
        let mut noise = vec![0; 3000];
        stream.fill_bytes(&mut noise);
        let mut plain = TcpStream::connect(server.address).await.unwrap();
        let _reset = plain.write_all(&noise).await;
        closed(plain).await;
        let mut inside = tls(&server).await;
        if round % 2 == 0 {
            noise.splice(..0, *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        }
        let _reset = inside.write_all(&noise).await;
        closed(inside).await;
    }
    still_serves(&server).await;
}

/// Strangers who say nothing, say half of it, or speak TLS and then say nothing, or HTTP and show
/// no token: all are gone when their time is over, and not before. Their places are free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_strangers_are_sent_away() {
    let clock = HandClock::default();
    let few = |settings: &mut fogbank_cloud::ServerSettings| settings.strangers_max = 3;
    let server = Server::with(Keeping::Memory, 1 << 30, Arc::new(clock.clone()), few).await;
    for round in 0..2 {
        let silent = TcpStream::connect(server.address).await.unwrap();
        let mut halfway = TcpStream::connect(server.address).await.unwrap();
        halfway.write_all(&[0x16, 3, 1, 2]).await.unwrap();
        let mut polite = tls(&server).await;
        polite.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut turned_away = TcpStream::connect(server.address).await.unwrap();
        assert_eq!(turned_away.read(&mut [0]).await.unwrap_or(0), 0, "no place is left");
        assert!(server.try_client("a", &server.credentials("a")).await.is_err());
        clock.advance(6 * SECOND);
        closed(silent).await;
        closed(halfway).await;
        clock.advance(5 * SECOND);
        closed(polite).await;
        let mut places = server.client("a").await;
        for _ in 0..10 {
            places = server.client("a").await; // strangers' places come back
        }
        places.barrier().await.unwrap();
        assert!(server.figure("server_turned_away_total") >= 3 * (round + 1));
    }
    still_serves(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_none_are_refused() {
    let server = Server::start(Keeping::Memory).await;
    let barrier = head(11, 0);
    // The canary: the very same way, a request that is one.
    assert_eq!(
        status(raw(&server, vec![message(&barrier)], true).await).await.as_deref(),
        Some("0")
    );
    let cases: Vec<(&str, Vec<Bytes>)> = vec![
        ("nothing", vec![]),
        ("an empty message", vec![message(&[])]),
        ("no such operation", vec![message(&head(13, 0))]),
        ("half a head", vec![message(&barrier[..5])]),
        ("a message cut short", vec![message(&barrier).slice(..7)]),
        ("more than was said", vec![message(&[&barrier[..], &[1]].concat())]),
        ("a message more", vec![message(&barrier), message(&[1])]),
        ("less than was said", vec![message(&head(11, 5))]),
        ("far more than is taken", vec![message(&head(4, u64::MAX))]),
        ("counts of more than is there", vec![message(&[head(2, 4), vec![255; 4]].concat())]),
        ("a message beyond all bounds", vec![Bytes::from_static(&[0, 255, 255, 255, 255, 1])]),
        ("a message said to be compressed", vec![Bytes::from_static(&[1, 0, 0, 0, 1, 1])]),
        ("a chunk beyond all bounds", {
            let shape = [&[1, 0][..], &[1; 4], &[255, 255], &[255; 4]].concat();
            vec![message(&[head(0, 12), shape].concat())]
        }),
    ];
    for (what, body) in cases {
        let said = status(raw(&server, body, true).await).await;
        assert!(said.as_deref().is_some_and(|status| status != "0"), "{what}: {said:?}");
    }
    still_serves(&server).await;
}

/// Who asks for what is not spoken here is refused like one with another token: counted, and soon
/// gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_ask_for_other_methods_are_sent_away() {
    let server = Server::start(Keeping::Memory).await;
    // The second path is right, and shows no token.
    for (path, said) in [("grpc.health.v1.Health/Check", "12"), (&PATH[1..], "16")] {
        let before = server.figure("server_turned_away_total");
        let stranger = Raw::connect(&server, "a").await;
        let mut refused = 0;
        while let Some(status) = stranger.stray(path).await {
            assert_eq!(status, said);
            refused += 1;
            assert!(refused <= 20, "{path}: it goes on for ever");
        }
        let counted = server.figure("server_turned_away_total") - before;
        assert!((8..=20).contains(&counted) && counted >= refused, "{path}: {counted}");
    }
    still_serves(&server).await;
}

/// A tenant whose request does not come on is not waited for, and does not keep its room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_does_not_come_on_is_dropped() {
    let clock = HandClock::default();
    let tight = |settings: &mut fogbank_cloud::ServerSettings| {
        settings.share.calls_max = 2;
        settings.share.request_bytes_max = 1 << 20;
    };
    let server = Server::with(Keeping::Memory, 1 << 30, Arc::new(clock.clone()), tight).await;
    for begun in [vec![], vec![message(&head(4, 1 << 20))]] {
        let refused = server.figure("server_calls_refused_total");
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..2 {
            waiting.spawn(status(raw(&server, begun.clone(), false).await));
        }
        // They are let in at their own pace, so time moves until one is refused; it stands still
        // until that one has its answer, for who takes none in time loses the connection.
        for answered in 0..2 {
            while server.figure("server_calls_refused_total") - refused <= answered {
                clock.advance(SECOND);
                tokio::task::yield_now().await;
            }
            let said = waiting.join_next().await.unwrap().unwrap();
            assert_eq!(said.as_deref(), Some("4"), "deadline exceeded");
        }
    }
    assert!(clock.now() >= 20 * SECOND);
    let store = server.client("a").await;
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    store.write_chunks((0..100).map(|chunk| write(chunk, 1)).collect()).await.unwrap();
    still_serves(&server).await;
}

/// Who asks for much and takes nothing loses the connection; the server keeps little of it ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_not_taken_ends_the_connection() {
    let clock = HandClock::default();
    let server = Server::with(Keeping::Memory, 1 << 30, Arc::new(clock.clone()), |_| {}).await;
    let store = server.client("a").await;
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    store.write_chunks((0..4096).map(|chunk| write(chunk, 0)).collect()).await.unwrap();
    let mut body = BytesMut::new();
    body.put_u32_le(8192);
    for chunk in 0..8192 {
        body.put_u16_le(1);
        body.put_u32_le(chunk % 4096);
        body.put_u64_le(0);
    }
    let asked = [head(3, body.len() as u64), body.to_vec()].concat();
    let (before, sent) =
        (server.figure("server_calls_refused_total"), server.figure("server_bytes_out_total"));
    let answer = raw(&server, vec![message(&asked)], true).await;
    // Time must not run out before the question has come.
    while server.figure("server_bytes_out_total") == sent {
        tokio::task::yield_now().await;
    }
    while server.figure("server_calls_refused_total") == before {
        clock.advance(SECOND);
        tokio::task::yield_now().await;
    }
    assert!(server.figure("server_bytes_out_total") < 16 << 20, "of 128 MiB");
    assert_eq!(status(answer).await, None, "the connection is gone");
    still_serves(&server).await;
}
