//! Tenants whose stores are in a bucket.

use std::sync::Arc;

use fogbank_cloud::{
    CloudServer, Common, Keeping, Pool, ServerError, ServerSettings, Share, Tenants,
};
use fogbank_env::{Clock, Metrics, SystemClock, by};
use fogbank_mix::KeptRoom;
use fogbank_store::{
    ArrayId, Cell, CellReads, PlaceHashing, PutCondition, Store, StoreError, conformance,
    read_xor_or_fold,
};

use crate::fixture::{SHAPE, Server, name, write};
use crate::object_server::Server as Objects;

/// A server whose tenants have prefixes of their own, and may keep so many bytes.
async fn server(objects: &Objects, bytes: u64, cache_bytes: usize) -> Server {
    let change = |settings: &mut ServerSettings| {
        settings.environment = objects.environment();
        settings.share.cache_bytes = cache_bytes;
    };
    let url = |name: &str| Some(objects.url(name));
    Server::at(url, Keeping::Disk, bytes, Arc::new(SystemClock::new()), change).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_in_a_bucket_with_a_cache() {
    let objects = Objects::gofakes3();
    let server = server(&objects, 1 << 30, 1 << 20).await;
    conformance::run(&server.client("a").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_in_googles_protocol() {
    let objects = Objects::google();
    let server = server(&objects, 1 << 30, 0).await;
    conformance::run(&server.client("a").await).await;
}

/// All that a server knows of a bucket when it starts is what lies there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_again_finds_all_and_counts_it() {
    let objects = Objects::versitygw();
    let mut server = server(&objects, 100 << 10, 0).await;
    let (store, other) = (server.client("a").await, server.client("b").await);
    for store in [&store, &other] {
        store.create_array(ArrayId(1), SHAPE).await.unwrap();
    }
    store.create_array(ArrayId(7), SHAPE).await.unwrap();
    store.write_chunks((0..20).map(|chunk| write(chunk, 0)).collect()).await.unwrap();
    store.blob_put("log/1", vec![1; 12 << 10].into(), PutCondition::IfAbsent).await.unwrap();
    drop(store);
    assert!(!server.folder.path().join("tenants/a/store").exists());

    server.kill_and_restart(Keeping::Disk, Arc::new(SystemClock::new())).await;
    let store = server.client("a").await;
    for array in [1, 7] {
        store.expect_array(ArrayId(array), SHAPE).unwrap();
    }
    // What was there counts: chunks, and the blob whose bytes no one has read.
    store.write_chunks((20..21).map(|chunk| write(chunk, 0)).collect()).await.unwrap();
    let full = store.write_chunks((21..23).map(|chunk| write(chunk, 0)).collect()).await;
    assert!(matches!(&full, Err(StoreError::Refused(why)) if why.contains("quota")), "{full:?}");
    let names: Vec<_> = (0..21).map(|chunk| name(chunk, 0)).collect();
    let mut listed = store.list_chunks(ArrayId(1)).await.unwrap();
    listed.sort_unstable();
    assert_eq!(listed, names);
    assert!(store.list_chunks(ArrayId(7)).await.unwrap().is_empty());
    let read = store.read_chunks(&names).await.unwrap();
    assert!(read.iter().zip(0..).all(|(chunk, n)| *chunk == Some(write(n, 0).data)));
    // A bucket combines nothing; the server does.
    let mut reads = CellReads::default();
    [3, 5].iter().for_each(|chunk| reads.push(name(*chunk, 0), [1]));
    let folded = read_xor_or_fold(&store, &reads, &[2]).await.unwrap();
    assert_eq!(folded, [Cell::Bytes(vec![3 ^ 5; 1024].into())]);
    assert_eq!(store.blob_get("log/1").await.unwrap().unwrap().0.len(), 12 << 10);
    // The other tenant has nothing of it.
    let other = server.client("b").await;
    other.expect_array(ArrayId(1), SHAPE).unwrap();
    assert!(other.list_chunks(ArrayId(1)).await.unwrap().is_empty());
    assert!(other.blob_list("").await.unwrap().is_empty());
}

/// By blame: what the operator has set wrongly, or who does not answer, is no mistake of a client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_bucket_lacks_is_the_operators_to_mend() {
    let mut objects = Objects::versitygw();
    let environment = objects.environment();
    let url = |name: &str| match name {
        "a" => Some("s3://nowhere/a".to_owned()),
        _ => Some(objects.url(name)),
    };
    let change = |settings: &mut ServerSettings| settings.environment = environment;
    let clock = || Arc::new(SystemClock::new());
    let mut server = Server::at(url, Keeping::Disk, 1 << 20, clock(), change).await;
    let told = server.try_client("a", &server.credentials("a")).await.err().unwrap();
    let of_bucket =
        |why: &str| ["no such bucket", "nowhere", "operator"].iter().all(|word| why.contains(word));
    assert!(matches!(&told, StoreError::Refused(why) if of_bucket(why)), "{told}");

    let store = server.client("b").await;
    store.create_array(ArrayId(1), SHAPE).await.unwrap();
    objects.kill();
    let told = store.write_chunks(vec![write(1, 1)]).await;
    assert!(matches!(told, Err(StoreError::Absent(_))), "{told:?}");
    server.kill_and_restart(Keeping::Disk, clock()).await;
    let told = server.try_client("b", &server.credentials("b")).await.err().unwrap();
    assert!(matches!(told, StoreError::Absent(_)), "{told}");
    objects.restart();
    let store = server.client("b").await;
    store.expect_array(ArrayId(1), SHAPE).unwrap();
    store.write_chunks(vec![write(1, 1)]).await.unwrap();
}

/// A bucket can take longer to list than a proxy waits: the next one would begin anew for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_is_opened_all_the_same() {
    let mut objects = Objects::versitygw();
    let server = server(&objects, 1 << 20, 0).await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let common = Common {
        hashing: PlaceHashing::default(),
        memory: Pool::new(1 << 30),
        connections: Pool::new(100),
        kept: KeptRoom::unbounded(),
        overlay: None,
        environment: objects.environment(),
        clock: clock.clone(),
    };
    let data = server.folder.path();
    let tenants = Tenants::new(data, Keeping::Disk, Share::default(), common);
    let token = server.credentials("a").token;
    objects.kill();
    let waits = by(&*clock, clock.now() + 200_000_000, tenants.enter("a", token.bytes(), false));
    assert!(waits.await.is_none());
    objects.restart();
    clock.sleep_until(clock.now() + 4_000_000_000).await;
    objects.kill();
    assert!(tenants.enter("a", token.bytes(), false).await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_in_memory_serves_no_bucket() {
    let objects = Objects::gofakes3();
    let server = server(&objects, 1 << 20, 0).await;
    let data = server.folder.path().to_owned();
    let mut server = server;
    server.tell_to_stop();
    server.ended().await;
    let settings = ServerSettings::new(&data, Keeping::Memory);
    let (clock, listen) = (Arc::new(SystemClock::new()), ([127, 0, 0, 1], 0).into());
    let refused = CloudServer::bind(settings, listen, clock, &Metrics::default()).await.err();
    assert!(matches!(refused, Some(ServerError::InBucket { tenant, .. }) if tenant == "a"));
}
