//! A server and its clients over real sockets of this machine, in time that a test moves by hand.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod hand_clock;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{Ballot, Held, PeerDown, RegisterPeer, Stamp};
use fogbank_env::Clock;
use fogbank_peer::{PeerAddress, RegisterServer, TlsPeer, Token};
use fogbank_tls::Pin;
use hand_clock::HandClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

const SECOND: u64 = 1_000_000_000;

struct Server {
    address: PeerAddress,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Server {
    async fn start(folder: &Path, clock: &HandClock) -> Self {
        let server = RegisterServer::open(folder).unwrap();
        let bound = server.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = bound.address().clone();
        let line = std::fs::read_to_string(bound.address_file()).unwrap();
        assert_eq!(*PeerAddress::parse(line.trim_end()).unwrap().line(), *address.line());
        let (stop, stopped) = oneshot::channel();
        let serving = bound.serve(Arc::new(clock.clone()), async { stopped.await.unwrap() });
        Self { address, stop, ended: tokio::spawn(serving) }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap();
    }

    fn peer(&self, clock: &HandClock) -> TlsPeer {
        peer(self.address.clone(), [1; 32], clock)
    }

    /// A connection that has shown the token.
    async fn known(&self) -> TlsStream<TcpStream> {
        let connector = fogbank_tls::connector(self.address.pin, &[]).unwrap();
        let stream = TcpStream::connect(&self.address.place).await.unwrap();
        let name = ServerName::try_from(fogbank_tls::SERVER_NAME).unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let digits = self.address.token.digits();
        let token = data_encoding::HEXLOWER.decode(digits.as_bytes()).unwrap();
        stream
            .write_all(&[&41_u32.to_le_bytes()[..], &[1], b"fogpeer1", &token].concat())
            .await
            .unwrap();
        let mut welcome = [0; 5];
        stream.read_exact(&mut welcome).await.unwrap();
        assert_eq!(welcome, [1, 0, 0, 0, 1]);
        stream
    }
}

fn peer(address: PeerAddress, name: [u8; 32], clock: &HandClock) -> TlsPeer {
    TlsPeer::new(address, name, Arc::new(clock.clone())).unwrap()
}

fn stamp(round: u64) -> Stamp {
    Stamp { ballot: Ballot { round, nonce: 9 }, number: 1 }
}

fn why(result: Result<Held, PeerDown>) -> String {
    result.expect_err("refused").0
}

const NOTHING: Ballot = Ballot { round: 0, nonce: 0 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_restart_and_the_client_finds_it_again() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::default());
    let mut expected = Held::default();
    for round in 1..4 {
        let server = Server::start(folder.path(), &clock).await;
        let peer = server.peer(&clock);
        assert_eq!(peer.read(NOTHING).await.unwrap(), expected);
        assert_eq!(peer.read(stamp(round).ballot).await.unwrap().promised.round, round);
        expected = peer.write(stamp(round), vec![7; 120].into()).await.unwrap();
        assert_eq!((expected.stamp, expected.value.len()), (stamp(round), 120));
        let late = peer.write(stamp(round - 1), Bytes::new()).await.unwrap();
        assert_eq!(late, expected, "below the promise");
        let other = crate::peer(server.address.clone(), [2; 32], &clock);
        assert_eq!(other.read(NOTHING).await.unwrap(), Held::default());
        assert!(RegisterServer::open(folder.path()).is_err(), "one process a folder");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_certificate_and_a_wrong_token_are_refused() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::default());
    let server = Server::start(folder.path(), &clock).await;
    let good = server.address.clone();
    let pinned = PeerAddress { pin: Pin([5; 32]), ..good.clone() };
    let said = why(peer(pinned, [1; 32], &clock).write(stamp(1), Bytes::new()).await);
    assert!(said.contains("not the one pinned") && said.contains(&good.place), "{said}");
    let stranger = PeerAddress { token: Token::from_bytes([5; 32]), ..good };
    let said = why(peer(stranger, [1; 32], &clock).write(stamp(1), Bytes::new()).await);
    assert!(said.contains("the token is not"), "{said}");
    assert_eq!(server.peer(&clock).read(NOTHING).await.unwrap(), Held::default());
    server.stop().await;
}

/// What a frame must not be: every one of these ends its connection and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_ends_its_own_connection() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::default());
    let server = Server::start(folder.path(), &clock).await;
    let peer = server.peer(&clock);
    peer.write(stamp(1), "kept".into()).await.unwrap();
    let garbage = [
        vec![0xff; 4],
        513_u32.to_le_bytes().to_vec(),
        vec![0; 4],
        [&1_u32.to_le_bytes()[..], &[9]].concat(),
        [&41_u32.to_le_bytes()[..], &[1; 41]].concat(),
        [&512_u32.to_le_bytes()[..], &[3; 512]].concat(),
    ];
    for bytes in garbage {
        let mut known = server.known().await;
        known.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        let _closed_one_way_or_the_other = known.read_to_end(&mut answer).await;
        assert_eq!(answer, b"", "{bytes:?}");
        let mut plain = TcpStream::connect(&server.address.place).await.unwrap();
        plain
            .write_all(&[&bytes[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 300]].concat())
            .await
            .unwrap();
        let _closed_or_an_alert = plain.read_to_end(&mut answer).await;
    }
    assert_eq!(peer.read(NOTHING).await.unwrap().value, "kept");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_few_and_let_go() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::default());
    let server = Server::start(folder.path(), &clock).await;
    let peer = server.peer(&clock);
    peer.write(stamp(1), "kept".into()).await.unwrap();
    let mut strangers = JoinSet::new();
    for _ in 0..100 {
        let mut stranger = TcpStream::connect(&server.address.place).await.unwrap();
        strangers.spawn(async move { stranger.read(&mut [0]).await });
    }
    for _ in 0..100 - 32 {
        strangers.join_next().await.unwrap().unwrap().ok();
    }
    assert_eq!(peer.read(NOTHING).await.unwrap().value, "kept", "who is known goes on");
    while !strangers.is_empty() {
        clock.advance(SECOND);
        tokio::task::yield_now().await;
        while strangers.try_join_next().is_some() {}
    }
    // There is room for others again.
    assert_eq!(server.peer(&clock).read(NOTHING).await.unwrap().value, "kept");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_in_time_and_a_silent_connection_is_let_go() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::default());
    let server = Server::start(folder.path(), &clock).await;
    let mut known = server.known().await;
    let gone = tokio::spawn(async move { known.read(&mut [0]).await });
    while !gone.is_finished() {
        clock.advance(60 * SECOND);
        tokio::task::yield_now().await;
    }
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = deaf.local_addr().unwrap().to_string();
    let peer = peer(PeerAddress { place, ..server.address.clone() }, [1; 32], &clock);
    let (begun, asked) = (clock.now(), tokio::spawn(async move { peer.read(NOTHING).await }));
    while !asked.is_finished() {
        clock.advance(SECOND / 10);
        tokio::task::yield_now().await;
    }
    let said = why(asked.await.unwrap());
    assert!(said.contains("no answer in time") && clock.now() >= begun + SECOND, "{said}");
    server.stop().await;
}
