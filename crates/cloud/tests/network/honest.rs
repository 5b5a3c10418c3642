//! What an honest client and an honest server owe each other.

use std::sync::Arc;

use fogbank_cloud::{CloudStore, Credentials, Keeping};
use fogbank_env::{Clock, SystemClock};
use fogbank_store::{
    ArrayId, Cell, CellReads, PutCondition, Retry, RetrySchedule, Store, StoreError, conformance,
    read_xor_or_fold,
};
use fogbank_tls::{Pin, Token};

use crate::fixture::{SHAPE, Server, name, write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_in_memory() {
    let server = Server::start(Keeping::Memory).await;
    conformance::run(&server.client("a").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_on_disk_with_a_cache() {
    let clock = Arc::new(SystemClock::new());
    let cached =
        |settings: &mut fogbank_cloud::ServerSettings| settings.share.cache_bytes = 1 << 20;
    let server = Server::with(Keeping::Disk, 1 << 30, clock, cached).await;
    conformance::run(&server.client("a").await).await;
    assert!(server.figure("server_calls_total") > 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_batches_come_back_in_order() {
    let server = Server::start(Keeping::Memory).await;
    let store = server.client("a").await;
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    store.write_chunks((0..4096).map(|chunk| write(chunk, 0)).collect()).await.unwrap();
    let mut reads = CellReads::default();
    let mut groups = Vec::new();
    for chunk in (0..4096).rev() {
        reads.push(name(chunk, u64::from(chunk.is_multiple_of(5))), [1, 3]);
        groups.push(reads.len() as u32);
    }
    let cells = store.read_cells(&reads).await.unwrap();
    assert_eq!(cells.len(), 8192);
    for (at, cell) in cells.iter().enumerate() {
        let chunk = 4095 - at as u32 / 2;
        let expected = Cell::Bytes(vec![chunk as u8; 1024].into());
        assert_eq!(*cell, if chunk.is_multiple_of(5) { Cell::NotWritten } else { expected });
    }
    let folded = read_xor_or_fold(&store, &reads, &groups).await.unwrap();
    assert!(folded.iter().all(|cell| match cell {
        Cell::Bytes(bytes) => bytes.iter().all(|byte| *byte == 0),
        Cell::NotWritten => true,
    }));
    let names: Vec<_> = (0..4096).map(|chunk| name(chunk, 0)).collect();
    let chunks = store.read_chunks(&names).await.unwrap();
    assert!(chunks.iter().zip(0..).all(|(chunk, n)| *chunk == Some(write(n, 0).data)));
    assert_eq!(store.list_chunks(ArrayId(1)).await.unwrap(), names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_do_not_see_each_other() {
    let server = Server::start(Keeping::Disk).await;
    let (a, b) = (server.client("a").await, server.client("b").await);
    a.create_array(ArrayId(1), SHAPE).await.unwrap();
    a.write_chunks(vec![write(1, 1)]).await.unwrap();
    a.blob_put("x", "a's".into(), PutCondition::IfAbsent).await.unwrap();
    assert!(matches!(b.list_chunks(ArrayId(1)).await, Err(StoreError::NoArray(_))));
    assert!(b.blob_list("").await.unwrap().is_empty());
    b.create_array(ArrayId(1), SHAPE).await.unwrap();
    assert_eq!(b.read_chunks(&[name(1, 1)]).await.unwrap(), [None]);
    b.drop_array(ArrayId(1)).await.unwrap();
    b.blob_delete(&["x"]).await.unwrap();
    assert_eq!(a.read_chunks(&[name(1, 1)]).await.unwrap(), [Some(write(1, 1).data)]);
    assert_eq!(a.blob_get("x").await.unwrap().unwrap().0, "a's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_another_token_or_pin_is_told_so() {
    let server = Server::start(Keeping::Memory).await;
    let right = server.credentials("a");
    let refused = |tried: fogbank_store::Result<CloudStore>| tried.err().unwrap();
    let token = Credentials { token: Token::fresh().unwrap(), ..right.clone() };
    let error = refused(server.try_client("a", &token).await);
    assert!(matches!(&error, StoreError::Caller(why) if why.contains("token")), "{error}");
    let error = refused(server.try_client("b", &right).await);
    assert!(matches!(&error, StoreError::Caller(why) if why.contains("token")), "{error}");
    let error = refused(server.try_client("c", &right).await);
    assert!(matches!(&error, StoreError::Caller(why) if why.contains("token")), "{error}");
    let pin = Credentials { pin: Pin([1; 32]), ..right.clone() };
    let error = refused(server.try_client("a", &pin).await);
    assert!(matches!(&error, StoreError::Misbehaved(why) if why.contains("pinned")), "{error}");
    server.try_client("a", &right).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_is_used_up_is_said_and_not_passed() {
    let clock = Arc::new(SystemClock::new());
    let server = Server::with(Keeping::Disk, 100 << 10, clock, |_| {}).await;
    let store = server.client("a").await;
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    store.write_chunks((0..25).map(|chunk| write(chunk, 0)).collect()).await.unwrap();
    let error = store.write_chunks(vec![write(25, 0)]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(why) if why.contains("quota")), "{error}");
    assert_eq!(store.list_chunks(ArrayId(1)).await.unwrap().len(), 25);
    store.delete_chunks(&[name(0, 0)]).await.unwrap();
    store.write_chunks(vec![write(25, 0)]).await.unwrap();
}

/// What a disk has spoiled is no absence, which would be waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_spoiled_is_said_to_be() {
    let mut server = Server::start(Keeping::Disk).await;
    server.client("a").await.create_array(ArrayId(1), SHAPE).await.unwrap();
    let arrays = server.folder.path().join("tenants/a/store/arrays");
    let array = std::fs::read_dir(arrays).unwrap().next().unwrap().unwrap().path();
    std::fs::write(array.join("shape"), "no shape").unwrap();
    server.kill_and_restart(Keeping::Disk, Arc::new(SystemClock::new())).await;
    let told = server.try_client("a", &server.credentials("a")).await.err().unwrap();
    assert!(matches!(told, StoreError::Misbehaved(_)), "{told}");
    server.client("b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_answers_what_it_has_taken() {
    let mut server = Server::start(Keeping::Disk).await;
    let store = Arc::new(server.client("a").await);
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for version in 0..8 {
        let store = store.clone();
        let batch = (0..1000).map(|chunk| write(chunk, version)).collect();
        calls.spawn(async move { (version, store.write_chunks(batch).await) });
    }
    let first = calls.join_next().await.unwrap().unwrap();
    server.tell_to_stop();
    let mut written = Vec::new();
    for (version, done) in [vec![first], calls.join_all().await].concat() {
        match done {
            Ok(()) => written.push(version),
            Err(error) => assert!(matches!(error, StoreError::Absent(_)), "{error}"),
        }
    }
    server.ended().await;
    assert!(!written.is_empty());
    assert!(matches!(store.barrier().await, Err(StoreError::Absent(_))));
    let kept =
        fogbank_store::FileStore::open(server.folder.path().join("tenants/a/store")).unwrap();
    for version in written {
        let names: Vec<_> = (0..1000).map(|chunk| name(chunk, version)).collect();
        assert!(kept.read_chunks(&names).await.unwrap().iter().all(Option::is_some));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_found_again_by_a_retry() {
    let mut server = Server::start(Keeping::Disk).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = CloudStore::open(&server.url("a"), &clock).await.unwrap();
    let store = Retry::new(store, clock.clone(), RetrySchedule::default());
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    store.write_chunks(vec![write(7, 1)]).await.unwrap();
    server.tell_to_stop();
    server.ended().await;
    let settings = fogbank_cloud::ServerSettings::new(server.folder.path(), Keeping::Disk);
    let again = fogbank_cloud::CloudServer::bind(settings, server.address, clock, &server.metrics);
    tokio::spawn(again.await.unwrap().serve(std::future::pending()));
    assert_eq!(store.read_chunks(&[name(7, 1)]).await.unwrap(), [Some(write(7, 1).data)]);
}
