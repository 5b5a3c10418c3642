//! Expiry is logical: at its deadline a key is absent to everybody, whoever cleans up and when.

use crate::support::{Client, SHAPE, Server, proxy};
use fogbank_env::{Clock, Nanos, SystemClock};
use fogbank_front::resp::Settings;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The machine's clock, with a wall that tests move.
struct MovedClock {
    steady: SystemClock,
    wall_ms: AtomicU64,
}

impl Clock for MovedClock {
    fn now(&self) -> Nanos {
        self.steady.now()
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn sleep_until(&self, deadline: Nanos) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.steady.sleep_until(deadline)
    }
}

const START_MS: u64 = 1_700_000_000_000;

async fn start(reclaim_quota: usize) -> (Server, Client, Arc<MovedClock>) {
    let clock =
        Arc::new(MovedClock { steady: SystemClock::new(), wall_ms: AtomicU64::new(START_MS) });
    let proxy = proxy(SHAPE, Duration::from_millis(1), clock.clone()).await;
    let settings = Settings { reclaim_quota: Some(reclaim_quota), ..Settings::default() };
    let server = Server::over(settings, proxy, clock.clone()).await;
    let client = server.client().await;
    (server, client, clock)
}

fn pass(clock: &MovedClock, ms: u64) {
    clock.wall_ms.fetch_add(ms, Ordering::SeqCst);
}

#[tokio::test]
async fn a_key_is_gone_when_its_time_has_come() {
    let (server, mut client, clock) = start(1).await;
    client.ask("SET s v PX 1000").await;
    client.ask("HSET h f v").await;
    client.ask("ZADD z 1 m").await;
    assert_eq!(client.ask("PEXPIRE h 1000").await, "1");
    assert_eq!(client.ask("PEXPIRE z 1000").await, "1");
    assert_eq!(client.ask("PTTL s").await, "1000");
    assert_eq!(client.ask("PEXPIRETIME h").await, (START_MS + 1000).to_string());
    pass(&clock, 1000);
    assert_eq!(client.ask("EXISTS s h z").await, "3", "at the deadline it still is");
    pass(&clock, 1);
    assert_eq!(client.ask("EXISTS s h z").await, "0");
    for (command, reply) in [
        ("GET s", "nil"),
        ("TTL s", "-2"),
        ("TYPE h", "+none"),
        ("HGETALL h", "[]"),
        ("ZCARD z", "0"),
        ("DBSIZE", "0"),
        ("KEYS *", "[]"),
        ("SCAN 0", "[\"0\" []]"),
        ("DEL s h z", "0"),
    ] {
        assert_eq!(client.ask(command).await, reply, "{command}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_an_expired_key_was_does_not_come_back() {
    let (server, mut client, clock) = start(1).await;
    for i in 0..30 {
        client.ask(&format!("HSET k f{i} v")).await;
    }
    client.ask("PEXPIRE k 10").await;
    pass(&clock, 20);
    // Another type, the same type, and no deadline any more.
    assert_eq!(client.ask("APPEND k text").await, "4");
    assert_eq!(client.ask("TTL k").await, "-1");
    client.ask("DEL k").await;
    assert_eq!(client.ask("HSET k f v").await, "1");
    assert_eq!(client.ask("HGETALL k").await, "[\"f\" \"v\"]");
    assert_eq!(client.ask("PEXPIRE k 10").await, "1");
    pass(&clock, 20);
    assert_eq!(client.ask("HINCRBY k n 5").await, "5");
    assert_eq!(client.ask("HGETALL k").await, "[\"n\" \"5\"]");
    server.stop().await;
}

#[tokio::test]
async fn commands_keep_or_clear_the_deadline_as_redis_does() {
    let (server, mut client, _clock) = start(8).await;
    for (command, kept) in [
        ("SET k v", false),
        ("SET k v KEEPTTL", true),
        ("GETSET k v", false),
        ("APPEND k v", true),
        ("SETRANGE k 0 v", true),
        ("GETEX k", true),
        ("GETEX k PERSIST", false),
        ("RENAME k k", true),
        ("MSET k v", false),
    ] {
        client.ask("SET k 1 EX 100").await;
        client.ask(command).await;
        let expected = if kept { "100" } else { "-1" };
        assert_eq!(client.ask("TTL k").await, expected, "{command}");
    }
    client.ask("SET k 1 EX 100").await;
    client.ask("INCR k").await;
    assert_eq!(client.ask("TTL k").await, "100");
    client.ask("RENAME k j").await;
    assert_eq!(client.ask("TTL j").await, "100");
    client.ask("COPY j k").await;
    assert_eq!(client.ask("TTL k").await, "100");
    server.stop().await;
}

#[tokio::test]
async fn the_janitor_takes_back_what_expired() {
    let (server, mut client, clock) = start(8).await;
    for i in 0..40 {
        client.ask(&format!("SET s{i} v PX 10")).await;
        client.ask(&format!("SET stays{i} v")).await;
    }
    for i in 0..50 {
        client.ask(&format!("ZADD z {i} m{i}")).await;
    }
    client.ask("PEXPIRE z 10").await;
    pass(&clock, 20);
    let count = |view: &mut fogbank_txn::View<'_>| {
        view.scan(&fogbank_txn::KeyRange::all(), usize::MAX, false).map(|found| found.len())
    };
    let session = server.proxy.session();
    let mut left = usize::MAX;
    for _ in 0..1000 {
        left = session.submit(count).await.expect("a scan");
        if left == 40 {
            break;
        }
    }
    assert_eq!(left, 40, "the strings that stay, and nothing else");
    assert_eq!(client.ask("DBSIZE").await, "40");
    server.stop().await;
}

#[tokio::test]
async fn a_watched_key_that_expires_has_changed() {
    let (server, mut client, clock) = start(8).await;
    for (before, expected) in [("SET k v PX 10", "nil"), ("SET k v", "[+PONG]")] {
        client.ask(before).await;
        client.ask("WATCH k").await;
        pass(&clock, 20);
        client.ask("MULTI").await;
        client.ask("PING").await;
        assert_eq!(client.ask("EXEC").await, expected, "{before}");
    }
    // Expired before it was watched: absent then, absent now.
    client.ask("SET k v PX 10").await;
    pass(&clock, 20);
    client.ask("WATCH k").await;
    client.ask("MULTI").await;
    assert_eq!(client.ask("EXEC").await, "[]");
    server.stop().await;
}
