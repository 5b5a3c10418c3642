//! What is answered without the store, inside transactions: done if these take place, in its place
//! among the replies, and otherwise not at all. The same bytes as a real Redis 7.0, if it is
//! installed.

use std::net::SocketAddr;

use crate::real_redis::Redis;
use crate::support::{SHAPE, Server};
use fogbank_front::resp::{Limits, Settings};
use fogbank_oram::BatchShape;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends lines all at once, then the end; all that comes back. Numbers of clients are 0.
async fn said(address: SocketAddr, lines: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the server accepts");
    let sent = lines.join("\r\n") + "\r\n";
    stream.write_all(sent.as_bytes()).await.expect("the server reads");
    stream.shutdown().await.expect("a socket");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("the server answers");
    let text = String::from_utf8(bytes).expect("text");
    let mut parts = text.split("$2\r\nid\r\n:");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        shown += &format!("$2\r\nid\r\n:0{rest}");
    }
    shown
}

/// What connections do one after the other, and what the last lines of the last one's replies are.
const TRANSACTIONS: &[(&str, &str)] = &[
    // In the middle of the body the encoding changes, there and back, and stays as it is at the
    // end.
    (
        "HSET h f v;MULTI;HGETALL h;HELLO 3;HGETALL h;HELLO 2;HGETALL h;HELLO 3;EXEC;HGETALL h",
        "%1\r\n$1\r\nf\r\n$1\r\nv\r\n",
    ),
    ("HELLO 3;MULTI;HELLO 2;GET nokey;EXEC;GET nokey", "*0\r\n$-1\r\n$-1\r\n"),
    (
        "MULTI;CLIENT GETNAME;CLIENT SETNAME a;CLIENT GETNAME;EXEC;CLIENT GETNAME",
        "*3\r\n$-1\r\n+OK\r\n$1\r\na\r\n$1\r\na\r\n",
    ),
    ("MULTI;HELLO 2 SETNAME b;EXEC;CLIENT GETNAME", "$1\r\nb\r\n"),
    // Of a body that takes place, what fails fails alone.
    (
        "SET s x;MULTI;INCR s;HELLO 4;CLIENT SETNAME c;HELLO 3 FOO;EXEC;CLIENT GETNAME;GET nokey",
        "$1\r\nc\r\n$-1\r\n",
    ),
    // These do not take place.
    (
        "WATCH w;SET w x;MULTI;HELLO 3;CLIENT SETNAME d;CLIENT GETNAME;EXEC;CLIENT GETNAME;GET \
         nokey",
        "+QUEUED\r\n*-1\r\n$-1\r\n$-1\r\n",
    ),
    ("CLIENT SETNAME e;MULTI;CLIENT SETNAME f;DISCARD;CLIENT GETNAME", "+OK\r\n$1\r\ne\r\n"),
    (
        "MULTI;HELLO 3;CLIENT SETNAME g;NOSUCH;EXEC;CLIENT GETNAME;GET nokey",
        "errors.\r\n$-1\r\n$-1\r\n",
    ),
    (
        "MULTI;HELLO 3;CLIENT SETNAME i;RESET;EXEC;CLIENT GETNAME;GET nokey",
        "MULTI\r\n$-1\r\n$-1\r\n",
    ),
    // One after the other, each as the one before has left things.
    (
        "MULTI;HELLO 3;EXEC;WATCH w;SET w y;MULTI;HELLO 2;CLIENT SETNAME j;EXEC;CLIENT GETNAME;\
         MULTI;CLIENT SETNAME k;UNWATCH;EXEC;CLIENT GETNAME;GET nokey",
        "_\r\n_\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n$1\r\nk\r\n_\r\n",
    ),
    (
        "MULTI;PING;ECHO x;PING y;SELECT 0;SELECT x;AUTH x;WAIT 0 0;CONFIG SET a b;GET nokey;EXEC",
        "'a'\r\n$-1\r\n",
    ),
];

#[tokio::test]
async fn what_a_transaction_does_to_its_connection_is_part_of_it() {
    let server = Server::start().await;
    let redis = Redis::start().await;
    if redis.is_none() {
        eprintln!("not compared: redis-server 7.0 is not installed");
    }
    for (lines, end) in TRANSACTIONS {
        let lines: Vec<&str> = lines.split(';').collect();
        let ours = said(server.address, &lines).await;
        assert!(ours.ends_with(end), "{lines:?}\n{ours:?}");
        if let Some(redis) = &redis {
            assert_eq!(ours, said(redis.address, &lines).await, "{lines:?}");
        }
    }
    server.stop().await;
}

/// What only this server refuses: nothing is done of that either.
#[tokio::test]
async fn a_transaction_that_is_too_large_leaves_its_connection_as_it_was() {
    let shape = BatchShape { value_bytes: 1 << 20, write_batch: 16, read_batch: 4, ..SHAPE };
    let server = Server::with(Settings::default(), shape).await;
    let names: String = (0..100).map(|i| format!(" k{i} v")).collect();
    let large = format!("MSET{names}");
    let lines =
        ["MULTI", "HELLO 3", "CLIENT SETNAME x", &large, "EXEC", "CLIENT GETNAME", "GET k0"];
    let told = said(server.address, &lines).await;
    assert!(told.contains("-ERR the command is too large"), "{told}");
    assert!(told.ends_with("\r\n$-1\r\n$-1\r\n"), "{told:?}");
    assert_eq!(told.matches("\r\n").count(), 7, "{told:?}");
    server.stop().await;
}

/// What is answered without the store was not counted: a reply of `EXEC` could be of any length.
#[tokio::test]
async fn replies_of_a_transaction_are_no_longer_than_one_may_be() {
    let limits = Limits { output_bytes_max: 1 << 20, ..Limits::default() };
    let server = Server::with(Settings { limits, ..Settings::default() }, SHAPE).await;
    let mut client = server.client().await;
    let id = client.ask("CLIENT ID").await;
    let all: Vec<&[u8]> =
        [&b"CLIENT"[..], b"LIST", b"ID"].into_iter().chain(vec![id.as_bytes(); 3_000]).collect();
    client.ask("MULTI").await;
    for _ in 0..4 {
        assert_eq!(client.ask_words(&all).await, "+QUEUED");
    }
    client.ask("CLIENT SETNAME done").await;
    let reply = client.ask("EXEC").await;
    assert!(reply.len() < 1 << 21 && reply.contains("the reply of EXEC is too long"));
    assert_eq!(client.ask("CLIENT GETNAME").await, "\"done\"");
    server.stop().await;
}
