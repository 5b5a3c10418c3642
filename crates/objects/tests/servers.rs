//! Every kind of object store, by real servers that run on this machine: what the suite of back
//! ends asks for, what happens when one dies in the middle, and what is said of wrong settings.
#![allow(clippy::unwrap_used)] // a test

#[path = "server/mod.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::{Clock, SystemClock};
use fogbank_objects::{Environment, ObjectsOptions, ObjectsStore, RequestCount};
use fogbank_store::{
    ArrayId, ArrayShape, BlobLog, Cell, CellReads, ChunkName, ChunkWrite, LOG_KEPT_BYTES, Log,
    LogEntry, RetrySchedule, Store, StoreError, conformance, log_conformance,
};

use server::{SECRET_KEY, Server};

/// Opens the store of `server` under `prefix`.
async fn open(server: &Server, prefix: &str, options: ObjectsOptions) -> ObjectsStore {
    let url = server.url(prefix).parse().unwrap();
    let clock = Arc::new(SystemClock::new());
    ObjectsStore::open(&url, &server.environment(), options, clock).await.unwrap()
}

async fn conforms(server: &Server) {
    conformance::run(&open(server, "suite/one", ObjectsOptions::default()).await).await;
    large_chunks(server).await;
}

/// What goes up in parts is as good as what goes up in one.
async fn large_chunks(server: &Server) {
    let options =
        ObjectsOptions { parts_from_bytes: 1 << 20, part_bytes: 5 << 20, ..Default::default() };
    let store = open(server, "", options).await;
    let shape = ArrayShape { chunks: 2, cells_per_chunk: 3, cell_bytes: 4_000_001 };
    store.create_array(ArrayId(1), shape).await.unwrap();
    let chunk = ChunkName { array: ArrayId(1), chunk: 1, version: 9 };
    let data = conformance::content(shape, chunk);
    let write = ChunkWrite { chunk, data: data.clone() };
    for _ in 0..2 {
        store.write_chunks(vec![write.clone()]).await.unwrap();
    }
    let other = ChunkWrite { chunk, data: Bytes::from(vec![0; data.len()]) };
    assert!(matches!(store.write_chunks(vec![other]).await, Err(StoreError::Caller(_))));
    let mut reads = CellReads::default();
    reads.push(chunk, [0, 2]);
    let cells = store.read_cells(&reads).await.unwrap();
    assert_eq!(cells[1], Cell::Bytes(data.slice(8_000_002..)));
    assert_eq!(store.list_chunks(ArrayId(1)).await.unwrap(), [chunk]);
}

#[tokio::test]
async fn s3_in_memory_conforms() {
    conforms(&Server::gofakes3()).await;
}

#[tokio::test]
async fn s3_with_signatures_conforms() {
    conforms(&Server::versitygw()).await;
}

#[tokio::test]
async fn azure_conforms() {
    conforms(&Server::azurite()).await;
}

#[tokio::test]
async fn googles_protocol_conforms() {
    conforms(&Server::google()).await;
}

/// The log that several processes append to, one of them here.
async fn open_log(server: &Server) -> BlobLog {
    let store = Arc::new(open(server, "site", ObjectsOptions::default()).await);
    let clock = Arc::new(SystemClock::new());
    BlobLog::open_beside_others(store, clock, LOG_KEPT_BYTES, 20_000_000).await.unwrap()
}

#[tokio::test]
async fn a_log_over_s3_conforms() {
    for server in [Server::gofakes3(), Server::versitygw()] {
        log_conformance::run(async || open_log(&server).await).await;
    }
}

/// Entries of 4,288 bytes, by processes with one under way each: prints how many a second.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn how_fast_a_log_over_s3_is() {
    const TURNS: u64 = 100;
    let server = Server::versitygw();
    let mut first = 0;
    for processes in [1, 2, 4] {
        let (clock, mut appending) = (SystemClock::new(), tokio::task::JoinSet::new());
        for session in first..first + processes {
            let log = open_log(&server).await;
            appending.spawn(async move {
                for turn in 1..=TURNS {
                    let entry = LogEntry { session, turn, bytes: vec![7; 4288].into() };
                    log.append(entry).await.unwrap().unwrap();
                }
            });
        }
        let begun = clock.now();
        appending.join_all().await;
        let seconds = (clock.now() - begun) as f64 / 1e9;
        let rate = f64::from(processes) * TURNS as f64 / seconds;
        println!("{processes} processes: {rate:.0} entries a second");
        first += processes;
    }
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back_has_everything() {
    let mut server = Server::versitygw();
    let shape = ArrayShape { chunks: 50, cells_per_chunk: 4, cell_bytes: 100 };
    let wait = |ms| RetrySchedule { waits: vec![Duration::from_millis(ms)] };
    let options = ObjectsOptions { absent: wait(10), ..Default::default() };
    let impatient = open(&server, "x", options).await;
    let options = ObjectsOptions { absent: wait(3000), ..Default::default() };
    let patient = open(&server, "x", options).await;
    impatient.create_array(ArrayId(1), shape).await.unwrap();
    patient.expect_array(ArrayId(1), shape).unwrap();
    let names: Vec<_> = (0..60)
        .map(|i| ChunkName { array: ArrayId(1), chunk: i % 50, version: u64::from(i) })
        .collect();
    let writes = |range: std::ops::Range<usize>| {
        let write = |&chunk| ChunkWrite { chunk, data: conformance::content(shape, chunk) };
        names[range].iter().map(write).collect::<Vec<_>>()
    };
    impatient.write_chunks(writes(0..20)).await.unwrap();
    server.kill();
    let refused = impatient.write_chunks(writes(20..40)).await;
    assert!(matches!(refused, Err(StoreError::Absent(_))), "{refused:?}");
    assert!(matches!(impatient.blob_get("commit").await, Err(StoreError::Absent(_))));
    // A call that waits long enough does not notice.
    let (written, ()) = tokio::join!(patient.write_chunks(writes(40..60)), async {
        let clock = SystemClock::new();
        clock.sleep_until(500_000_000).await;
        server.restart();
    });
    written.unwrap();
    impatient.write_chunks(writes(20..40)).await.unwrap();
    let read = impatient.read_chunks(&names).await.unwrap();
    assert!(
        read.iter().zip(&names).all(|(r, &n)| r.as_ref() == Some(&conformance::content(shape, n)))
    );
}

#[tokio::test]
async fn wrong_settings_are_explained_without_a_secret() {
    let server = Server::versitygw();
    let try_with = async |url: String, changed: &[(&'static str, &str)]| {
        let mut variables = server.variables(server.port());
        for &(name, value) in changed {
            variables.retain(|(found, _)| *found != name);
            variables.push((name, value.to_owned()));
        }
        let environment: Environment = variables.into_iter().collect();
        let options = ObjectsOptions {
            absent: RetrySchedule { waits: Vec::new() },
            ..ObjectsOptions::default()
        };
        let clock = Arc::new(SystemClock::new());
        let url = url.parse().unwrap();
        let error = ObjectsStore::open(&url, &environment, options, clock).await.err();
        let words = error.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(!words.contains(SECRET_KEY) && !words.contains("hush"), "{words}");
        (error, words)
    };
    let here = || server.url("x");
    type Changed = &'static [(&'static str, &'static str)];
    let cases: [(String, Changed, &str); 7] = [
        ("s3://elsewhere/x".into(), &[], "no such bucket"),
        ("s3://elsewhere/x".into(), &[], ": elsewhere, at the endpoint http"),
        (here(), &[("AWS_SECRET_ACCESS_KEY", "hush")], "refused the credentials"),
        (here(), &[("AWS_ACCESS_KEY_ID", "nobody")], "refused the credentials"),
        (here(), &[("AWS_ALLOW_HTTP", "false")], "AWS_ALLOW_HTTP=true"),
        (here(), &[("AWS_ENDPOINT_URL", "http://k:hush@127.0.0.1")], "holds credentials"),
        (here(), &[("AWS_SECRET_ACCESS_KEY", "")], "credentials"),
    ];
    for (url, changed, expected) in cases {
        let (error, words) = try_with(url, changed).await;
        // A provider that refuses somebody does so then as later.
        let as_refused = matches!(error, Some(StoreError::Refused(_)));
        let as_settings = matches!(error, Some(StoreError::Caller(_)));
        let by = (as_refused, as_settings);
        assert_eq!(by, (words.contains("refused the"), !words.contains("refused the")), "{words}");
        assert!(words.contains(expected), "{changed:?}: {words}");
    }
    let (error, words) = try_with(here(), &[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]).await;
    assert!(matches!(error, Some(StoreError::Absent(_))), "{error:?}");
    assert!(words.contains("http://127.0.0.1:1, which AWS_ENDPOINT_URL names"), "{words}");
    assert!(try_with(here(), &[]).await.0.is_none(), "the canary: right settings are");
}

#[tokio::test]
async fn a_server_with_tls_is_believed_by_its_certificate_alone() {
    let mut server = Server::versitygw();
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let [certificate, key] = server.certificate();
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    server.kill();
    server.restart();
    let mut variables = server.variables(server.port());
    variables.retain(|(name, _)| !["AWS_ALLOW_HTTP", "AWS_ENDPOINT_URL"].contains(name));
    variables.push(("AWS_ENDPOINT_URL", format!("https://127.0.0.1:{}", server.port())));
    let try_with = async |variables: Vec<(&'static str, String)>| {
        let options = ObjectsOptions {
            absent: RetrySchedule { waits: Vec::new() },
            ..ObjectsOptions::default()
        };
        let (url, clock) = (server.url("x").parse().unwrap(), Arc::new(SystemClock::new()));
        ObjectsStore::open(&url, &variables.into_iter().collect(), options, clock).await
    };
    assert!(matches!(try_with(variables.clone()).await.err(), Some(StoreError::Absent(_))));
    variables.push(("AWS_CA_BUNDLE", certificate.to_str().unwrap().to_owned()));
    let store = try_with(variables).await.unwrap();
    let put = store.blob_put("a", "b".into(), fogbank_store::PutCondition::IfAbsent).await;
    assert!(matches!(put, Ok(fogbank_store::PutOutcome::Done(_))));
}

#[tokio::test]
async fn requests_are_as_many_as_the_rule_says() {
    let server = Server::gofakes3();
    let store = open(&server, "x", ObjectsOptions { gap_bytes: 100, ..Default::default() }).await;
    let shape = ArrayShape { chunks: 300, cells_per_chunk: 8, cell_bytes: 100 };
    store.create_array(ArrayId(1), shape).await.unwrap();
    let name = |chunk| ChunkName { array: ArrayId(1), chunk, version: 1 };
    let since = |before: RequestCount| {
        let now = store.requests();
        let RequestCount { gets, puts, lists, deletes } = before;
        [now.gets - gets, now.puts - puts, now.lists - lists, now.deletes - deletes]
    };
    let before = store.requests();
    let writes = (0..300).map(|chunk| ChunkWrite {
        chunk: name(chunk),
        data: conformance::content(shape, name(chunk)),
    });
    store.write_chunks(writes.collect()).await.unwrap();
    assert_eq!(since(before), [0, 300, 0, 0]);
    let before = store.requests();
    let mut reads = CellReads::default();
    for chunk in 0..100 {
        reads.push(name(chunk), [0, 2, 5, 6]); // 0 and 2 share one, 5 and 6 another
    }
    store.read_cells(&reads).await.unwrap();
    assert_eq!(since(before), [200, 0, 0, 0]);
    let before = store.requests();
    assert_eq!(store.list_chunks(ArrayId(1)).await.unwrap().len(), 300);
    let names: Vec<_> = (0..300).map(name).collect();
    store.delete_chunks(&names).await.unwrap();
    store.barrier().await.unwrap();
    assert_eq!(since(before), [0, 0, 16, 1]);
}
