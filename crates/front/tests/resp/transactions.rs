//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`.

use crate::support::{Client, SHAPE, Server, encode};
use fogbank_front::resp::Settings;
use fogbank_oram::BatchShape;

async fn watched(client: &mut Client, other: &mut Client, before: &str, change: &str) -> String {
    for command in before.split(';').filter(|command| !command.is_empty()) {
        other.ask(command).await;
    }
    assert_eq!(client.ask("WATCH k").await, "+OK");
    for command in change.split(';').filter(|command| !command.is_empty()) {
        other.ask(command).await;
    }
    assert_eq!(client.ask("MULTI").await, "+OK");
    assert_eq!(client.ask("PING").await, "+QUEUED");
    let reply = client.ask("EXEC").await;
    other.ask("FLUSHALL").await;
    reply
}

#[tokio::test]
async fn exec_answers_nil_exactly_when_a_watched_key_changed() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.client().await, server.client().await);
    let done = "[+PONG]";
    for (before, change, expected) in [
        ("SET k v", "", done),
        ("SET k v", "GET k", done),
        ("SET k v", "SET j v", done),
        ("SET k v", "SET k v", "nil"),
        ("SET k v", "DEL k", "nil"),
        ("", "DEL k", done),
        ("", "SET k v", "nil"),
        ("SET k v", "EXPIRE k 100", "nil"),
        ("SET k v", "PERSIST k", done),
        ("SET k v EX 100", "PERSIST k", "nil"),
        ("SET k v", "SET k w NX", done),
        ("HSET k f v", "HSET k f v", "nil"),
        ("HSET k f v", "HDEL k g", done),
        ("HSET k f v", "HDEL k f", "nil"),
        ("ZADD k 1 m", "ZADD k 1 m", done),
        ("ZADD k 1 m", "ZADD k 2 m", "nil"),
        ("SET j v", "RENAME j k", "nil"),
        ("SET k v", "FLUSHDB", "nil"),
        ("", "FLUSHDB", done),
        ("", "FLUSHDB;SET k v", "nil"),
        ("SET k v", "FLUSHDB;SET k v", "nil"),
    ] {
        let reply = watched(&mut client, &mut other, before, change).await;
        assert_eq!(reply, expected, "{before:?}, then {change:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_large_watched_collection_that_is_deleted_has_changed() {
    let server = Server::start().await;
    let (mut client, mut other) = (server.client().await, server.client().await);
    let fields: String = (0..100).map(|i| format!(" f{i} v")).collect();
    let before = format!("HSET k{fields}");
    assert_eq!(watched(&mut client, &mut other, &before, "DEL k").await, "nil");
    assert_eq!(watched(&mut client, &mut other, &before, "DEL k;HSET k f v").await, "nil");
    assert_eq!(watched(&mut client, &mut other, &before, "HLEN k").await, "[+PONG]");
    server.stop().await;
}

#[tokio::test]
async fn a_watch_ends_with_exec_discard_and_unwatch() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for end in ["UNWATCH", "MULTI;DISCARD", "MULTI;EXEC"] {
        client.ask("WATCH k").await;
        for command in end.split(';') {
            client.ask(command).await;
        }
        client.ask("SET k v").await;
        client.ask("MULTI").await;
        assert_eq!(client.ask("EXEC").await, "[]", "{end}");
    }
    server.stop().await;
}

#[tokio::test]
async fn errors_while_queueing_abort_and_errors_while_running_do_not() {
    let server = Server::start().await;
    let mut client = server.client().await;
    client.ask("SET s text").await;
    client.ask("MULTI").await;
    assert_eq!(client.ask("INCR s").await, "+QUEUED");
    assert_eq!(client.ask("SET s v NX XX").await, "+QUEUED");
    assert_eq!(client.ask("SET t v").await, "+QUEUED");
    assert_eq!(
        client.ask("EXEC").await,
        "[-ERR value is not an integer or out of range -ERR syntax error +OK]"
    );
    client.ask("MULTI").await;
    client.ask("SET t w").await;
    assert!(client.ask("GET").await.starts_with("-ERR wrong number"));
    assert_eq!(
        client.ask("EXEC").await,
        "-EXECABORT Transaction discarded because of previous errors."
    );
    assert_eq!(client.ask("GET t").await, "\"v\"");
    client.ask("MULTI").await;
    assert_eq!(
        client.ask("EXEC now").await,
        "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
    );
    assert_eq!(client.ask("EXEC").await, "-ERR EXEC without MULTI");
    server.stop().await;
}

/// Clients that read, then write back one more if nobody was faster: no addition is lost.
#[tokio::test]
async fn optimistic_additions_are_never_lost() {
    const CLIENTS: usize = 8;
    const ADDITIONS: usize = 15;
    let server = Server::start().await;
    let address = server.address;
    let work = move || async move {
        let mut client = Client::connect(address).await;
        let mut added = 0;
        while added < ADDITIONS {
            client.ask("WATCH n").await;
            let read = client.ask("GET n").await;
            let value: u64 = read.trim_matches('"').parse().unwrap_or(0);
            let next = (value + 1).to_string();
            client.send_raw(&encode(&[b"MULTI"])).await;
            client.send_raw(&encode(&[b"SET", b"n", next.as_bytes()])).await;
            client.send_raw(&encode(&[b"EXEC"])).await;
            assert_eq!(client.shown().await, "+OK");
            assert_eq!(client.shown().await, "+QUEUED");
            added += usize::from(client.shown().await == "[+OK]");
        }
    };
    let tasks: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(work())).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let expected = format!("\"{}\"", CLIENTS * ADDITIONS);
    assert_eq!(server.client().await.ask("GET n").await, expected);
    server.stop().await;
}

/// An epoch of this shape marks 30 records.
#[tokio::test]
async fn a_body_that_changes_no_value_may_be_as_long_as_any() {
    let shape = BatchShape { read_batch: 40, write_batch: 10, ..SHAPE };
    let server = Server::with(Settings::default(), shape).await;
    let mut client = server.client().await;
    for n in 0..400 {
        client.send_raw(&encode(&[b"SET", format!("k{n}").as_bytes(), b"v"])).await;
    }
    for _ in 0..400 {
        assert_eq!(client.shown().await, "+OK");
    }
    for (command, ttl) in [("EXPIRE", "1000"), ("EXPIRE", "2000"), ("PERSIST", "-1")] {
        client.ask("MULTI").await;
        for n in 0..400 {
            let name = format!("k{n}");
            let words = [command.as_bytes(), name.as_bytes(), ttl.as_bytes()];
            let count = if command == "PERSIST" { 2 } else { 3 };
            assert_eq!(client.ask_words(&words[..count]).await, "+QUEUED");
        }
        assert_eq!(client.ask("EXEC").await, format!("[{}]", ["1"; 400].join(" ")));
        for n in [0, 250, 399] {
            let left = client.ask(&format!("TTL k{n}")).await;
            let (left, ttl): (i64, i64) = (left.parse().unwrap(), ttl.parse().unwrap());
            assert!((ttl - 20..=ttl).contains(&left), "{left} {ttl}");
            assert_eq!(client.ask(&format!("GET k{n}")).await, "\"v\"");
        }
    }
    server.stop().await;
}

/// A body that reads many keys waits for one round, not for one a command.
#[tokio::test]
async fn a_body_of_many_reads_fits_one_epoch() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for i in 0..50 {
        client.ask(&format!("SET k{i} {i}")).await;
    }
    // Other clients' writes push the values out of what the epoch still holds.
    for _ in 0..5 {
        client.ask("SET other v").await;
    }
    client.ask("MULTI").await;
    for i in 0..50 {
        client.ask(&format!("INCR k{i}")).await;
    }
    let expected: Vec<String> = (0..50).map(|i| (i + 1).to_string()).collect();
    assert_eq!(client.ask("EXEC").await, format!("[{}]", expected.join(" ")));
    server.stop().await;
}
