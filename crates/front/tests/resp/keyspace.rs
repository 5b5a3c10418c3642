//! Flushing, scanning, large collections, and what the janitor takes back.

use crate::support::{Client, Server, encode, show};
use fogbank_front::resp::Settings;
use fogbank_txn::{KeyRange, Proxy};
use redis_protocol::resp2::types::BytesFrame;
use std::collections::BTreeSet;

/// Records that the directory holds, dead ones included.
async fn records(proxy: &Proxy) -> usize {
    let count = |view: &mut fogbank_txn::View<'_>| {
        view.scan(&KeyRange::all(), usize::MAX, false).map(|found| found.len())
    };
    proxy.session().submit(count).await.expect("a scan")
}

async fn until_records(proxy: &Proxy, expected: usize) {
    for _ in 0..2000 {
        if records(proxy).await == expected {
            return;
        }
    }
    panic!("{} records are left, {expected} expected", records(proxy).await);
}

#[tokio::test]
async fn a_flushed_store_is_empty_at_once_and_reclaimed_later() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for i in 0..300 {
        client.ask(&format!("SET k{i} v")).await;
    }
    client.ask("HSET h f v").await;
    client.ask("ZADD z 1 m").await;
    assert_eq!(client.ask("DBSIZE").await, "302");
    assert_eq!(client.ask("FLUSHDB").await, "+OK");
    assert_eq!(client.ask("DBSIZE").await, "0");
    assert_eq!(client.ask("KEYS *").await, "[]");
    assert_eq!(client.ask("SET k1 new").await, "+OK");
    assert_eq!(client.ask("GET k1").await, "\"new\"");
    assert_eq!(client.ask("EXISTS k2 h z").await, "0");
    until_records(&server.proxy, 2).await; // the new key and the generation
    assert_eq!(client.ask("GET k1").await, "\"new\"");
    server.stop().await;
}

#[tokio::test]
async fn a_large_collection_goes_at_once_and_its_name_is_free() {
    let settings = Settings { reclaim_quota: Some(20), ..Settings::default() };
    let server = Server::with(settings, crate::support::SHAPE).await;
    let mut client = server.client().await;
    for batch in 0..10 {
        let fields: String = (0..100).map(|i| format!(" f{batch}-{i} v")).collect();
        assert_eq!(client.ask(&format!("HSET h{fields}")).await, "100");
    }
    client.ask("MULTI").await;
    for command in ["DEL h", "HLEN h", "TYPE h", "ZADD h 1 m"] {
        assert_eq!(client.ask(command).await, "+QUEUED");
    }
    assert_eq!(client.ask("EXEC").await, "[1 0 +none 1]");
    assert_eq!(client.ask("KEYS *").await, "[\"h\"]");
    assert_eq!(client.ask("ZRANGE h 0 -1").await, "[\"m\"]");
    until_records(&server.proxy, 3).await; // the member twice, and the incarnation
    assert_eq!(client.ask("DEL h").await, "1");
    until_records(&server.proxy, 0).await;
    server.stop().await;
}

/// Both write a record, and there is no room for one: it is held back for them. Others do not get
/// it.
#[tokio::test]
async fn a_full_store_can_be_emptied() {
    let shape = fogbank_oram::BatchShape { capacity: 64, ..crate::support::SHAPE };
    let server = Server::with(Settings::default(), shape).await;
    let mut client = server.client().await;
    let fields: String = (0..20).map(|i| format!(" f{i} v")).collect();
    assert_eq!(client.ask(&format!("HSET h{fields}")).await, "20");
    let mut kept = 0;
    while client.ask(&format!("SET k{kept} v")).await == "+OK" {
        kept += 1;
    }
    assert!(client.ask("SET more v").await.starts_with("-OOM"));
    assert_eq!(records(&server.proxy).await, 60, "of 64, four are held back");
    // What is queued beside something that makes room makes none.
    client.ask("MULTI").await;
    client.ask("DEL h").await;
    client.ask("SET more v").await;
    assert!(client.ask("EXEC").await.starts_with("-OOM"));
    assert_eq!(client.ask("DEL h").await, "1");
    // Who comes next waits for the room: neither the fields nor what was noted of them stay.
    while kept < 60 {
        assert_eq!(client.ask(&format!("SET k{kept} v")).await, "+OK");
        kept += 1;
    }
    assert!(client.ask("SET more v").await.starts_with("-OOM"));
    assert_eq!(client.ask("FLUSHALL").await, "+OK");
    assert_eq!(client.ask("DBSIZE").await, "0");
    until_records(&server.proxy, 1).await;
    assert_eq!(client.ask("SET k1 v").await, "+OK");
    server.stop().await;
}

/// What was flushed goes many records at once, whoever writes, and those for whom there is no room
/// meanwhile wait.
#[tokio::test]
async fn a_full_store_that_was_flushed_takes_as_much_again_at_once() {
    let shape =
        fogbank_oram::BatchShape { capacity: 512, write_batch: 16, ..crate::support::SHAPE };
    let server = Server::with(Settings::default(), shape).await;
    let mut client = server.client().await;
    let sets = |count: usize, value: &[u8]| -> Vec<u8> {
        let set = |i: usize| encode(&[b"SET", format!("k{i}").as_bytes(), value]);
        (0..count).flat_map(set).collect()
    };
    // One of 16 is held back, and one is the generation.
    for round in 0..3_u8 {
        client.send_raw(&sets(479, &[b'a' + round])).await;
        for i in 0..479 {
            assert_eq!(client.shown().await, "+OK", "{round} {i}");
        }
        client.send_raw(&[encode(&[b"FLUSHALL"]), sets(479, b"z")].concat()).await;
        for i in 0..480 {
            assert_eq!(client.shown().await, "+OK", "{round} {i} after FLUSHALL");
        }
        assert_eq!(client.ask("DBSIZE").await, "479");
        assert!(client.ask("MSET a v b v c v").await.starts_with("-OOM"));
        assert_eq!(client.ask("FLUSHALL").await, "+OK");
    }
    server.stop().await;
}

/// One whole walk; every name met.
async fn walk(client: &mut Client, scan: &str, options: &str) -> Vec<String> {
    let mut met = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let command = format!("{scan} {cursor}{options}");
        client.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()).await;
        let Some(BytesFrame::Array(reply)) = client.reply().await else { panic!("{command}") };
        let BytesFrame::Array(items) = &reply[1] else { panic!("{command}") };
        met.extend(items.iter().map(|item| show(item).trim_matches('"').to_owned()));
        cursor = show(&reply[0]).trim_matches('"').to_owned();
        if cursor == "0" {
            return met;
        }
    }
}

#[tokio::test]
async fn a_scan_meets_all_that_stays_while_others_come_and_go() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let mut staying = BTreeSet::new();
    for i in 0..120 {
        let name = format!("stays{i}");
        match i % 3 {
            0 => client.ask(&format!("SET {name} v")).await,
            1 => client.ask(&format!("HSET {name} f v g v")).await,
            _ => client.ask(&format!("ZADD {name} 1 m 2 n")).await,
        };
        staying.insert(name);
    }
    let address = server.address;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let churn = tokio::spawn(async move {
        let mut other = Client::connect(address).await;
        let mut i = 0;
        while stopped.try_recv().is_err() {
            other.ask(&format!("SET comes{} v", i % 50)).await;
            other.ask(&format!("HSET goes{} f v", i % 50)).await;
            other.ask(&format!("DEL comes{} goes{}", (i + 25) % 50, (i + 25) % 50)).await;
            i += 1;
        }
    });
    for count in ["", " COUNT 1", " COUNT 7", " COUNT 1000"] {
        let met = walk(&mut client, "SCAN", count).await;
        let of_interest: Vec<_> = met.iter().filter(|n| n.starts_with("stays")).collect();
        assert_eq!(of_interest.len(), staying.len(), "{count}: something came twice or not at all");
        assert!(met.iter().collect::<BTreeSet<_>>().is_superset(&staying.iter().collect()));
    }
    let _ = stop.send(());
    churn.await.expect("no panic");
    let hashes = walk(&mut client, "SCAN", " TYPE hash MATCH stays*").await;
    assert_eq!(hashes.len(), 40);
    server.stop().await;
}

#[tokio::test]
async fn members_are_scanned_in_pieces() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let fields: String = (0..100).map(|i| format!(" f{i:02} v")).collect();
    client.ask(&format!("HSET h{fields}")).await;
    let met = walk(&mut client, "HSCAN h", " COUNT 7").await;
    assert_eq!(met.iter().filter(|text| text.starts_with('f')).count(), 100);
    assert_eq!(walk(&mut client, "HSCAN h", " MATCH f1*").await.len(), 20);
    client.ask("ZADD z 1 a 2 b").await;
    assert_eq!(walk(&mut client, "ZSCAN z", "").await, ["a", "1", "b", "2"]);
    // A cursor nobody gave out: from the start.
    client.send(&[b"SCAN", b"12345"]).await;
    assert!(matches!(client.reply().await, Some(BytesFrame::Array(_))));
    server.stop().await;
}
