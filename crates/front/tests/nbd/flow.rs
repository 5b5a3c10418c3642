//! How requests flow: in turn, within bounds, in which order they are answered, and to which end.

use std::sync::Arc;

use fogbank_front::nbd::{Limits, Settings};

use crate::client::{Client, DISCONNECT, FLUSH, FUA, READ, WRITE_ZEROES, request};
use crate::engines::Held;
use crate::support::{SHAPE, Server};

fn small_pieces() -> Settings {
    let limits =
        Limits { piece_blocks: 4, accesses_max: 8, all_accesses_max: 12, ..Limits::default() };
    Settings { limits, ..Settings::default() }
}

#[tokio::test]
async fn long_requests_give_way_to_others() {
    let engine = Arc::new(Held::new(SHAPE));
    let server = Server::over(engine.clone(), small_pieces()).await;
    let mut long = Client::taken(server.address(), true).await;
    let mut short = Client::taken(server.address(), true).await;
    long.request(READ, 0, 1, 0, 10_000).await; // blocks 0 to 99
    engine.until_waiting(8).await;
    long.request(READ, 0, 2, 20_000, 100).await; // block 200
    short.request(READ, 0, 3, 30_000, 100).await; // block 300
    engine.until_waiting(9).await;
    assert_eq!(engine.waiting(), [0, 1, 2, 3, 4, 5, 6, 7, 300]);
    // The next piece of the long request had joined the queue before the short one came.
    engine.release(4).await;
    engine.until_waiting(9).await;
    engine.release(4).await;
    engine.until_waiting(6).await;
    assert_eq!(engine.waiting(), [300, 8, 9, 10, 11, 200]);
    engine.release(1).await;
    assert_eq!(short.reply(|_| 100).await.unwrap().cookie, 3);
    engine.open().await;
    assert_eq!(long.reply(|_| 100).await.unwrap().cookie, 2);
    assert_eq!(long.reply(|_| 10_000).await.unwrap().cookie, 1);
    server.stop().await;
    assert_eq!(engine.most(), 9);
    assert_eq!(engine.submitted(), 102);
}

#[tokio::test]
async fn accesses_under_way_are_bounded_for_one_and_for_all() {
    let engine = Arc::new(Held::new(SHAPE));
    let server = Server::over(engine.clone(), small_pieces()).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::taken(server.address(), true).await;
        client.send(&request(WRITE_ZEROES, 0, 1, 0, 30_000).repeat(5)).await;
        clients.push(client);
    }
    engine.until_waiting(12).await;
    // A client that goes and comes again has no more under way than one that stays.
    let gone = clients.pop();
    drop(gone);
    for _ in 0..20 {
        engine.release(4).await;
        engine.until_waiting(12).await;
    }
    engine.open().await;
    for client in &mut clients {
        for _ in 0..5 {
            assert_eq!(client.reply(|_| 0).await.unwrap().outcome, Ok(vec![]));
        }
    }
    server.stop().await;
    assert_eq!(engine.most(), 12);
}

#[tokio::test]
async fn a_lost_client_has_nothing_more_submitted() {
    let engine = Arc::new(Held::new(SHAPE));
    let server = Server::over(engine.clone(), small_pieces()).await;
    let mut client = Client::taken(server.address(), true).await;
    client.request(WRITE_ZEROES, 0, 1, 0, 30_000).await;
    engine.until_waiting(8).await;
    drop(client);
    let stopping = server.stopping();
    tokio::task::yield_now().await;
    assert!(!stopping.is_finished());
    while !stopping.is_finished() {
        engine.release(1).await;
        tokio::task::yield_now().await;
    }
    // Pieces that had taken their place before the loss was noticed may have gone out.
    assert!(engine.submitted() < 300, "{}", engine.submitted());
}

#[tokio::test]
async fn parts_of_blocks_are_single_accesses() {
    let engine = Arc::new(Held::new(SHAPE));
    engine.open().await;
    let server = Server::over(engine.clone(), Settings::default()).await;
    let mut client = Client::taken(server.address(), true).await;
    for (offset, length, accesses) in
        [(0, 100, 1), (5, 1, 1), (99, 2, 2), (150, 300, 4), (0, 0, 0), (30_000, 100, 1)]
    {
        let before = engine.submitted();
        assert_eq!(client.put(offset, &vec![7; length]).await, Ok(vec![]));
        let read = client.one(READ, 0, offset, length as u32).await;
        assert_eq!(read, Ok(vec![7; length]));
        assert_eq!(client.one(WRITE_ZEROES, FUA, offset, length as u32).await, Ok(vec![]));
        assert_eq!(engine.submitted() - before, 3 * accesses, "at {offset}");
    }
    let before = engine.submitted();
    assert_eq!(client.one(FLUSH, 0, 0, 0).await, Ok(vec![]));
    assert_eq!(engine.submitted(), before, "a flush sends nothing");
    server.stop().await;
}

/// After reads too: whoever sees what a client does next must not learn what it did before.
#[tokio::test]
async fn a_flush_is_answered_after_the_requests_before_it() {
    let engine = Arc::new(Held::new(SHAPE));
    let server = Server::over(engine.clone(), Settings::default()).await;
    let mut client = Client::taken(server.address(), true).await;
    client.write(1, 0, b"one").await;
    client.request(READ, 0, 2, 200, 1).await;
    client.request(WRITE_ZEROES, 0, 3, 300, 1).await;
    client.request(FLUSH, 0, 4, 0, 0).await;
    engine.until_waiting(3).await;
    engine.release(3).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        let length_of = |cookie| usize::from(cookie == 2);
        order.push(client.reply(length_of).await.unwrap().cookie);
    }
    assert_eq!(order.pop(), Some(4));
    server.stop().await;
}

/// The server's stop: what was taken is answered, what comes then is refused as the protocol says.
#[tokio::test]
async fn a_server_that_stops_answers_what_it_took() {
    let engine = Arc::new(Held::new(SHAPE));
    let server = Server::over(engine.clone(), Settings::default()).await;
    let address = server.address();
    let mut busy = Client::taken(address, true).await;
    let mut idle = Client::taken(address, true).await;
    let mut asking = Client::greeted(address).await;
    busy.request(READ, 0, 1, 0, 100).await;
    engine.until_waiting(1).await;
    let stopping = server.stopping();
    assert!(idle.is_closed().await);
    assert!(asking.is_closed().await);
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens");
    busy.write(2, 0, b"late").await;
    busy.request(READ, 0, 3, 0, 10).await;
    assert_eq!(busy.reply(|_| 0).await.unwrap().outcome, Err(108));
    assert_eq!(busy.reply(|_| 0).await.unwrap().outcome, Err(108));
    assert!(!stopping.is_finished());
    engine.open().await;
    assert_eq!(busy.reply(|_| 100).await.unwrap().outcome, Ok(vec![0; 100]));
    assert!(busy.is_closed().await);
    stopping.await.expect("it has stopped");
    assert_eq!(engine.submitted(), 1);
}

#[tokio::test]
async fn a_client_that_says_so_has_its_replies_first() {
    let engine = Arc::new(Held::new(SHAPE));
    let server = Server::over(engine.clone(), Settings::default()).await;
    let mut client = Client::taken(server.address(), false).await;
    client.request(READ, 0, 1, 0, 1000).await;
    client.request(DISCONNECT, 0, 2, 0, 0).await;
    engine.until_waiting(10).await;
    engine.open().await;
    assert_eq!(client.reply(|_| 1000).await.unwrap().outcome, Ok(vec![0; 1000]));
    assert!(client.is_closed().await);
    server.stop().await;
}
