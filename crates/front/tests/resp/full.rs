//! Stores that are full: what takes away, or only marks, goes on.

use crate::support::{Client, SHAPE, Server};
use fogbank_front::resp::Settings;
use fogbank_oram::BatchShape;

/// Writes with `command` until the store is full; of how many it took.
async fn fill(client: &mut Client, command: impl Fn(usize) -> String) -> usize {
    let mut count = 0;
    loop {
        let reply = client.ask(&command(count)).await;
        if reply.starts_with("-OOM") {
            return count;
        }
        assert!(!reply.starts_with('-'), "{reply}");
        count += 1;
    }
}

async fn filled(client: &mut Client, kind: &str) -> usize {
    fill(client, |n| match kind {
        "string" => format!("SET k{n} v"),
        "hash" => format!("HSET h f{n} v"),
        _ => format!("ZADD z {n} m{n}"),
    })
    .await
}

/// However small, whatever it is full of, and whatever has taken what is held back: it can be
/// emptied, and then takes as much as before.
#[tokio::test]
async fn a_full_store_is_emptied_whatever_its_capacity() {
    for capacity in [2, 3, 10, 15, 16, 17, 40, 100, 200] {
        let shape = BatchShape { capacity, read_batch: 40, write_batch: 10, ..SHAPE };
        let server = Server::with(Settings::default(), shape).await;
        let mut client = server.client().await;
        let held_back = (capacity as usize / 16).max(1);
        for kind in ["string", "hash", "sorted set", "string"] {
            let count = filled(&mut client, kind).await;
            let records = if kind == "sorted set" { 2 * count } else { count };
            // Beside them there are the generation, an incarnation, and half a member.
            let most = capacity as usize - held_back;
            assert!(
                (most.saturating_sub(3)..=most).contains(&records),
                "{kind} {count} of {capacity}"
            );
            let name = match kind {
                "string" => "k0",
                "hash" => "h",
                _ => "z",
            };
            if count > 0 {
                assert_eq!(client.ask(&format!("EXPIRE {name} 100")).await, "1", "{capacity}");
                assert_eq!(client.ask(&format!("PERSIST {name}")).await, "1", "{capacity}");
            }
            // Deadlines take all that is held back.
            for n in 0..count {
                client.ask(&format!("EXPIRE k{n} 100")).await;
            }
            let emptied = match kind {
                "hash" => "DEL h",
                _ => "FLUSHALL",
            };
            let reply = client.ask(emptied).await;
            assert!(reply == "+OK" || reply == "1" || count == 0, "{capacity} {kind}: {reply}");
            assert_eq!(client.ask("DBSIZE").await, "0", "{capacity} {kind}");
        }
        server.stop().await;
    }
}

/// What takes the place of something else needs no room beside it.
#[tokio::test]
async fn a_full_store_takes_what_replaces_something() {
    let shape = BatchShape { capacity: 100, value_bytes: 16, read_batch: 40, write_batch: 40 };
    let server = Server::with(Settings::default(), shape).await;
    let mut client = server.client().await;
    let value = "v".repeat(160);
    for name in ["long", "other"] {
        client.ask(&format!("SET {name} {value}")).await;
    }
    client.ask("HSET h a 1 b 2 c 3").await;
    client.ask("ZADD z 1 m 2 n").await;
    filled(&mut client, "string").await;
    assert!(client.ask("SET more v").await.starts_with("-OOM command not allowed: the store is"));
    for round in 0..5 {
        assert_eq!(client.ask("RENAME long moved").await, "+OK", "{round}");
        assert_eq!(client.ask("GET moved").await, format!("\"{value}\""));
        assert_eq!(client.ask("RENAME moved long").await, "+OK");
        assert_eq!(client.ask("RENAME h hash").await, "+OK");
        assert_eq!(client.ask("HGETALL hash").await, "[\"a\" \"1\" \"b\" \"2\" \"c\" \"3\"]");
        assert_eq!(client.ask("RENAME hash h").await, "+OK");
        assert_eq!(client.ask("ZINCRBY z 5 m").await, format!("\"{}\"", 6 + 5 * round));
        assert_eq!(client.ask("ZCARD z").await, "2");
        let lacks = client.ask("COPY long copy").await;
        assert!(lacks.starts_with("-OOM") && lacks.contains("blocks of values"), "{lacks}");
    }
    assert_eq!(client.ask("DEL other").await, "1");
    assert_eq!(client.ask("SET more v").await, "+OK");
    server.stop().await;
}

/// What takes several epochs needs room beside what it replaces, and is told so; what one epoch
/// holds needs none.
#[tokio::test]
async fn what_takes_several_epochs_says_that_it_needs_room_beside_what_it_replaces() {
    let shape = BatchShape { capacity: 240, value_bytes: 16, read_batch: 40, write_batch: 10 };
    let server = Server::with(Settings::default(), shape).await;
    let mut client = server.client().await;
    for n in 0..100 {
        client.ask(&format!("HSET h f{n} v")).await;
    }
    let strings = filled(&mut client, "string").await;
    let told = client.ask("RENAME h moved").await;
    let why = "; what it replaces keeps its room until all of it is written";
    assert!(told.starts_with("-OOM command not allowed: ") && told.contains(why), "{told}");
    assert!(told.contains("records"), "it says how many are lacking: {told}");
    assert!(!client.ask("SET more v").await.contains(why), "that is of large commands alone");
    // Nothing of it was done, and with as much room as it says it is.
    assert_eq!(client.ask("HLEN h").await, "100");
    assert_eq!(client.ask("EXISTS moved").await, "0");
    assert_eq!(client.ask("RENAME k0 k0-moved").await, "+OK");
    for n in 1..strings {
        assert_eq!(client.ask(&format!("DEL k{n}")).await, "1");
    }
    assert_eq!(client.ask("RENAME h moved").await, "+OK");
    assert_eq!(client.ask("HLEN moved").await, "100");
    server.stop().await;
}
