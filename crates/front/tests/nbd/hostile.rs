//! Clients that mean harm, or are broken: each ends its own connection and nothing else.

use std::sync::Arc;

use fogbank_front::nbd::{Limits, Settings};

use crate::client::{Client, READ, TRIM, WRITE, about, option, request};
use crate::engines::{Held, Stopping};
use crate::support::{SHAPE, SIZE, Server};

/// Short times, for clients that go on for ever.
fn impatient() -> Settings {
    let limits =
        Limits { greeting_nanos_max: 50_000_000, stall_nanos_max: 50_000_000, ..Limits::default() };
    Settings { limits, ..Settings::default() }
}

#[tokio::test]
async fn malformed_handshakes_end() {
    let server = Server::start().await;
    let mut wrong_magic = option(7, &about(b"", &[]));
    wrong_magic[0] = b'X';
    let mut huge = option(7, b"");
    huge[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut long_name = about(b"", &[]);
    long_name[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    for (what, bytes, is_answered) in [
        ("a wrong magic", wrong_magic, false),
        ("a huge length", huge, true),
        ("noise", vec![0xff; 64], false),
    ] {
        let mut client = Client::greeted(server.address()).await;
        client.send(&bytes).await;
        if is_answered {
            let head = client.take(20).await.expect("a refusal");
            assert_eq!(head[12..16], [0x80, 0, 0, 9]);
            client.take(head[19].into()).await.expect("its words");
        }
        assert!(client.is_closed().await, "{what}");
    }
    let mut client = Client::greeted(server.address()).await;
    assert_eq!(client.ask(7, &long_name).await[0].0, 0x8000_0003);
    let many = Limits::default().options_max as usize;
    for _ in 1..many {
        client.ask(3, b"").await;
    }
    assert_eq!(client.ask(3, b"").await[0].0, 0x8000_0009);
    assert!(client.is_closed().await);

    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let mut client = Client { stream: Box::new(stream), structured: false };
    client.take(18).await.unwrap();
    client.send(&7u32.to_be_bytes()).await; // a flag that nobody offered
    assert!(client.is_closed().await);
    server.stop().await;
}

#[tokio::test]
async fn malformed_requests_end_one_connection() {
    let server = Server::start().await;
    let mut good = Client::taken(server.address(), false).await;
    let longest = Limits::default().payload_bytes_max;
    for bad in
        [vec![0; 28], request(WRITE, 0, 1, 0, longest + 1), request(WRITE, 0, 1, 0, u32::MAX)]
    {
        let mut client = Client::taken(server.address(), true).await;
        client.send(&bad).await;
        assert!(client.is_closed().await);
        assert_eq!(good.one(READ, 0, 0, 1).await, Ok(vec![0]));
    }
    server.stop().await;
}

#[tokio::test]
async fn refused_requests_leave_the_connection_as_it_was() {
    let server = Server::start().await;
    for structured in [false, true] {
        let mut client = Client::taken(server.address(), structured).await;
        assert_eq!(client.one(READ, 0, SIZE - 1, 2).await, Err(22));
        assert_eq!(client.one(READ, 0, u64::MAX, 2).await, Err(22));
        assert_eq!(client.one(READ, 0, 0, u32::MAX).await, Err(22));
        assert_eq!(client.put(SIZE - 3, b"data").await, Err(28));
        assert_eq!(client.one(6, 0, 0, u32::MAX).await, Err(28));
        assert_eq!(client.one(TRIM, 0, 0, 1).await, Err(22), "it was not offered");
        assert_eq!(client.one(4711, 0, 0, 1).await, Err(22));
        assert_eq!(client.one(6, 1 << 4, 0, 1).await, Err(22), "zeros are not fast");
        assert_eq!(client.one(READ, 0, SIZE, 0).await, Ok(vec![]));
        assert_eq!(client.put(SIZE - 4, b"data").await, Ok(vec![]));
        assert_eq!(client.one(READ, 0, SIZE - 5, 5).await, Ok(b"\0data".to_vec()));
        assert_eq!(client.put(SIZE - 4, &[0; 4]).await, Ok(vec![]));
    }
    server.stop().await;
}

#[tokio::test]
async fn clients_that_stop_halfway_are_let_go() {
    let server = Server::with(impatient()).await;
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let mut silent = Client { stream: Box::new(stream), structured: false };
    silent.take(18).await.unwrap();
    assert!(silent.is_closed().await, "one that never answers the greeting");
    let mut slow = Client::greeted(server.address()).await;
    slow.send(&option(7, &about(b"", &[]))[..5]).await;
    assert!(slow.is_closed().await, "one that stops within an option");
    let mut client = Client::taken(server.address(), true).await;
    client.send(&request(READ, 0, 1, 0, 1)[..27]).await;
    assert!(client.is_closed().await, "one that stops within a request");
    let mut client = Client::taken(server.address(), true).await;
    client.send(&request(WRITE, 0, 1, 0, 1000)).await;
    client.send(&[1; 999]).await;
    assert!(client.is_closed().await, "one that stops within a write");
    let mut other = Client::taken(server.address(), true).await;
    assert_eq!(other.one(READ, 0, 0, 1000).await, Ok(vec![0; 1000]), "and nothing was done");
    server.stop().await;
}

#[tokio::test]
async fn a_write_that_does_not_come_whole_does_nothing() {
    let engine = Arc::new(Held::new(SHAPE));
    engine.open().await;
    let server = Server::over(engine.clone(), Settings::default()).await;
    let mut client = Client::taken(server.address(), true).await;
    client.send(&request(WRITE, 0, 1, 0, 20_000)).await;
    client.send(&[1; 19_999]).await;
    drop(client);
    server.stop().await;
    assert_eq!(engine.submitted(), 0);
}

/// A client that asks for much and reads nothing has its own room to fill, and nobody else's.
#[tokio::test]
async fn a_client_that_takes_no_replies_holds_up_nobody() {
    let limits = Limits { waiting_bytes_max: 100_000, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }).await;
    let mut greedy = Client::taken(server.address(), true).await;
    let requests = request(READ, 0, 1, 0, SIZE as u32).repeat(1_000_000);
    let all_taken =
        async { tokio::io::AsyncWriteExt::write_all(&mut greedy.stream, &requests).await };
    let taken = tokio::time::timeout(std::time::Duration::from_millis(300), all_taken).await;
    assert!(taken.is_err(), "the replies to 30 GB of reads are held");
    let mut other = Client::taken(server.address(), true).await;
    assert_eq!(other.one(READ, 0, 0, 10).await, Ok(vec![0; 10]));
    drop(greedy);
    server.stop().await;
}

/// And is let go when it does not go on.
#[tokio::test]
async fn a_client_that_takes_no_replies_is_let_go() {
    let server = Server::with(impatient()).await;
    let mut greedy = Client::taken(server.address(), true).await;
    let requests = request(READ, 0, 1, 0, SIZE as u32).repeat(1_000_000);
    let sent = tokio::io::AsyncWriteExt::write_all(&mut greedy.stream, &requests).await;
    assert!(sent.is_err(), "the server has closed");
    server.stop().await;
}

#[tokio::test]
async fn when_the_engine_has_stopped_every_request_fails() {
    let server = Server::over(Arc::new(Stopping::after(2, SHAPE)), Settings::default()).await;
    for structured in [false, true] {
        let mut client = Client::taken(server.address(), structured).await;
        if !structured {
            assert_eq!(client.put(50, &[1; 100]).await, Ok(vec![]));
        }
        assert_eq!(client.put(0, &[1; 10_000]).await, Err(5));
        assert_eq!(client.one(READ, 0, 0, 1).await, Err(5));
        assert_eq!(client.one(READ, 0, 0, 0).await, Ok(vec![]), "it needs nothing of the engine");
    }
    server.stop().await;
}
