//! DynamoDB, by Amazon's own server for one machine: what the suite of back ends asks for, what
//! becomes of a call when requests get lost, are throttled, or are answered by a liar, and what is
//! said of wrong settings.
#![allow(clippy::unwrap_used)] // a test

#[path = "server/between.rs"]
mod between;
#[path = "server/mod.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::{Clock, SystemClock};
use fogbank_objects::{DynamoStore, Environment, ObjectsOptions, RequestCount};
use fogbank_store::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, ChunkWrite, PutCondition, PutOutcome,
    RetrySchedule, Store, StoreError, conformance,
};

use between::{Between, Fate};
use server::{SECRET_KEY, Server};

const SHAPE: ArrayShape = ArrayShape { chunks: 50, cells_per_chunk: 30, cell_bytes: 100 };
const ARRAY: ArrayId = ArrayId(1);

fn name(chunk: u32, version: u64) -> ChunkName {
    ChunkName { array: ARRAY, chunk, version }
}

fn write(chunk: ChunkName) -> ChunkWrite {
    ChunkWrite { chunk, data: conformance::content(SHAPE, chunk) }
}

/// The same rules as ever, quicker.
fn quick() -> ObjectsOptions {
    let waits = |count| RetrySchedule { waits: vec![Duration::from_millis(10); count] };
    ObjectsOptions { absent: waits(2), throttled: waits(5), ..ObjectsOptions::default() }
}

async fn open(
    url: &str,
    variables: Vec<(&'static str, String)>,
    options: ObjectsOptions,
) -> Result<DynamoStore, StoreError> {
    let (environment, clock): (Environment, _) =
        (variables.into_iter().collect(), Arc::new(SystemClock::new()));
    DynamoStore::open(&url.parse().unwrap(), &environment, options, clock).await
}

#[tokio::test]
async fn a_table_conforms() {
    let server = Server::dynamodb();
    let here = |prefix: &'static str| open_here(&server, prefix);
    // Each cell is an item, and this server takes a few thousand a second.
    let shapes = conformance::AWKWARD.into_iter().filter(|shape| shape.cells_per_chunk < 1000);
    let shapes: Vec<_> = shapes.collect();
    conformance::run_with(&here("suite/one").await, &shapes).await;
    long_blobs(&here("long").await).await;
    requests_are_as_many_as_the_rule_says(&here("count").await).await;
    let store = here("").await;
    let wide = ArrayShape { cell_bytes: 400_000, ..SHAPE };
    let refused = store.create_array(ARRAY, wide).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Caller(words) if words.contains("400 KiB")),
        "{refused}"
    );
    let widest = ArrayShape { chunks: 9, cells_per_chunk: 60, cell_bytes: 380 << 10 };
    store.create_array(ARRAY, widest).await.unwrap();
    let chunk = ChunkWrite { chunk: name(3, 1), data: conformance::content(widest, name(3, 1)) };
    store.write_chunks(vec![chunk.clone()]).await.unwrap();
    let mut reads = CellReads::default();
    reads.push(name(3, 1), 0..60);
    let before = store.requests().gets;
    let cells = store.read_cells(&reads).await.unwrap();
    let cells = cells.iter().map(|cell| if let Cell::Bytes(b) = cell { &b[..] } else { &[] });
    assert_eq!(cells.collect::<Vec<_>>().concat(), chunk.data);
    assert_eq!(store.requests().gets - before, 2, "none was left over for its length");
    assert_eq!(store.read_chunks(&[name(3, 1)]).await.unwrap(), [Some(chunk.data)]);
    wrong_settings_are_explained_without_a_secret(&server).await;
}

async fn open_here(server: &Server, prefix: &str) -> DynamoStore {
    let variables = server.variables(server.port());
    open(&server.url(prefix), variables, ObjectsOptions::default()).await.unwrap()
}

/// What has parts is as good as what has none, and leaves none behind.
async fn long_blobs(store: &DynamoStore) {
    let content = |round: u8, bytes: usize| Bytes::from(vec![round; bytes]);
    let mut tag = BlobTag("never".into());
    for (round, bytes) in [(1, 1 << 20), (2, 390_000), (3, 10), (4, 389_120), (5, 900_000)] {
        let stale = store.blob_put("b", content(9, 800_000), PutCondition::IfUnchanged(tag)).await;
        assert_eq!(stale.unwrap(), PutOutcome::ConditionFailed);
        let put = store.blob_put("b", content(round, bytes), PutCondition::Always).await.unwrap();
        let PutOutcome::Done(new) = put else { panic!("an unconditional put must be done") };
        let (there, found) = store.blob_get("b").await.unwrap().unwrap();
        assert_eq!((there, &found), (content(round, bytes), &new));
        let exists = store.blob_put("b", content(8, 1 << 20), PutCondition::IfAbsent).await;
        assert_eq!(exists.unwrap(), PutOutcome::ConditionFailed);
        assert_eq!(store.blob_get("b").await.unwrap().unwrap().0, content(round, bytes));
        let put = PutCondition::IfUnchanged(new.clone());
        let put = store.blob_put("b", content(round + 100, bytes), put).await.unwrap();
        assert!(matches!(put, PutOutcome::Done(_)), "round {round}");
        tag = new;
    }
    store.blob_put("c", content(7, 1 << 20), PutCondition::IfAbsent).await.unwrap();
    store.blob_delete(&["b", "c", "c", "none"]).await.unwrap();
    assert_eq!(store.blob_get("b").await.unwrap(), None);
    assert!(store.blob_list("").await.unwrap().is_empty());
}

async fn requests_are_as_many_as_the_rule_says(store: &DynamoStore) {
    store.create_array(ARRAY, SHAPE).await.unwrap();
    let since = |before: RequestCount| {
        let now = store.requests();
        let RequestCount { gets, puts, lists, deletes } = before;
        [now.gets - gets, now.puts - puts, now.lists - lists, now.deletes - deletes]
    };
    let before = store.requests();
    store.write_chunks((0..10).map(|chunk| write(name(chunk, 1))).collect()).await.unwrap();
    assert_eq!(since(before), [0, 10 + 300 / 25, 0, 0]);
    let before = store.requests();
    let mut reads = CellReads::default();
    for chunk in 0..10 {
        reads.push(name(chunk, 1), (0..30).step_by(2)); // 150 cells
        reads.push(name(chunk, 1), [2, 4]); // asked for already
    }
    store.read_cells(&reads).await.unwrap();
    assert_eq!(since(before), [2, 0, 0, 0]);
    let before = store.requests();
    assert_eq!(store.list_chunks(ARRAY).await.unwrap().len(), 10);
    let names: Vec<_> = (0..10).map(|chunk| name(chunk, 1)).collect();
    store.delete_chunks(&names).await.unwrap();
    assert_eq!(since(before), [0, 0, 16, 300 / 25 + 1]);
}

async fn wrong_settings_are_explained_without_a_secret(server: &Server) {
    let try_with = async |url: &str, changed: &[(&'static str, &str)]| {
        let mut variables = server.variables(server.port());
        for &(name, value) in changed {
            variables.retain(|(found, _)| *found != name);
            variables.push((name, value.to_owned()));
        }
        let error = open(url, variables, quick()).await.err();
        let words = error.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(!words.contains(SECRET_KEY) && !words.contains("hush"), "{words}");
        (error, words)
    };
    let here = server.url("x");
    type Changed = &'static [(&'static str, &'static str)];
    let cases: [(&str, Changed, &str); 4] = [
        ("dynamodb://elsewhere/x", &[], "no such table"),
        (&here, &[("AWS_ACCESS_KEY_ID", "not-a-key")], "refused the credentials"),
        (&here, &[("AWS_ALLOW_HTTP", "false")], "AWS_ALLOW_HTTP=true"),
        (&here, &[("AWS_ENDPOINT_URL", "http://k:hush@127.0.0.1")], "holds credentials"),
    ];
    for (url, changed, expected) in cases {
        let (error, words) = try_with(url, changed).await;
        let as_refused = matches!(error, Some(StoreError::Refused(_)));
        let as_settings = matches!(error, Some(StoreError::Caller(_)));
        let by = (as_refused, as_settings);
        assert_eq!(by, (words.contains("refused the"), !words.contains("refused the")), "{words}");
        assert!(words.contains(expected), "{changed:?}: {words}");
    }
    let (error, _) = try_with(&here, &[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]).await;
    assert!(matches!(error, Some(StoreError::Absent(_))), "{error:?}");
    assert!(try_with(&here, &[]).await.0.is_none(), "the canary: right settings are");
}

/// An answer of the table's own form.
fn answer(status: &str, body: &str) -> Vec<u8> {
    let head = "Content-Type: application/x-amz-json-1.0\r\nConnection: close";
    format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

fn error(status: &str, code: &str) -> Vec<u8> {
    answer(
        status,
        &format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"m"}}"#),
    )
}

/// The next `times` requests of an operation meet `fate`.
fn next(between: &Between, operation: &'static str, times: usize, fate: Fate) {
    let mut left = times;
    between.rule(move |head| {
        if left == 0 || !head.contains(&format!("DynamoDB_20120810.{operation}\r\n")) {
            return Fate::Pass;
        }
        left -= 1;
        fate.clone()
    });
}

/// The bodies of the requests since the rule was set.
fn bodies(between: &Between) -> Vec<Vec<u8>> {
    let body = |request: Vec<u8>| {
        let head = request.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        request[head + 4..].to_vec()
    };
    between.seen("POST").into_iter().map(body).collect()
}

#[tokio::test]
async fn what_is_lost_throttled_or_forged_is_dealt_with() {
    let server = Server::dynamodb();
    let between = Between::before(server.port()).await;
    let store = open(&server.url("x"), server.variables(between.port), quick()).await.unwrap();
    store.create_array(ARRAY, SHAPE).await.unwrap();
    store.write_chunks(vec![write(name(5, 1))]).await.unwrap();
    let read = async || {
        let mut reads = CellReads::default();
        reads.push(name(5, 1), [1]);
        store.read_cells(&reads).await
    };
    let cell = Cell::Bytes(conformance::content(SHAPE, name(5, 1)).slice(100..200));

    // A conditional put of unknown outcome is sent again and never guessed.
    for (round, fate) in [
        Fate::LoseAnswer,
        Fate::AnswerAfter(error("500 Internal Server Error", "InternalServerError")),
        Fate::AnswerAfter(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        next(&between, "PutItem", 1, fate.clone());
        let (blob, ours) = (format!("commit{round}"), Bytes::from(vec![round as u8; 40]));
        let put = store.blob_put(&blob, ours.clone(), PutCondition::IfAbsent).await.unwrap();
        let sent = bodies(&between);
        assert!(sent.len() == 3 && sent[0] == sent[1], "{fate:?}: twice, and read back");
        let (there, tag) = store.blob_get(&blob).await.unwrap().unwrap();
        assert_eq!((there, put), (ours, PutOutcome::Done(tag)));
        next(&between, "PutItem", 1, fate);
        let late = store.blob_put(&blob, "late".into(), PutCondition::IfAbsent).await.unwrap();
        assert_eq!(late, PutOutcome::ConditionFailed);
    }
    // A long one is sent once: the next try could come when it is deleted, and its parts with it.
    let long = Bytes::from(vec![7; 900_000]);
    next(&between, "PutItem", 1, Fate::LoseAnswer);
    let put = store.blob_put("long", long.clone(), PutCondition::IfAbsent).await;
    assert!(matches!(put, Err(StoreError::Absent(_))), "{put:?}");
    assert_eq!(store.blob_get("long").await.unwrap().unwrap().0, long);
    // One that was throttled was not done, and is sent again, the same.
    let throttled = || {
        let code = "ProvisionedThroughputExceededException";
        Fate::AnswerInstead(error("400 Bad Request", code))
    };
    next(&between, "PutItem", 2, throttled());
    let put = store.blob_put("c", "x".into(), PutCondition::IfAbsent).await.unwrap();
    assert!(matches!(put, PutOutcome::Done(_)));
    let sent = bodies(&between);
    assert_eq!(sent.len(), 3);
    // So is everything else, whatever became of it; the library's own retries are off.
    for fate in [throttled(), Fate::LoseAnswer] {
        next(&between, "BatchGetItem", 2, fate);
        assert_eq!(read().await.unwrap().first(), Some(&cell));
        let sent = bodies(&between);
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|body| *body == sent[0]), "another shape");
    }
    next(&between, "BatchGetItem", usize::MAX, Fate::LoseAnswer);
    assert!(matches!(read().await, Err(StoreError::Absent(_))));
    assert_eq!(bodies(&between).len(), 3);
    // A chunk version of which some requests were lost is written to its end.
    next(&between, "BatchWriteItem", 6, Fate::LoseAnswer); // two requests, three tries each
    store.write_chunks(vec![write(name(6, 1))]).await.unwrap_err();
    next(&between, "", 0, Fate::Pass);
    assert_eq!(store.list_chunks(ARRAY).await.unwrap().len(), 2, "what is left over is listed");
    store.write_chunks(vec![write(name(6, 1))]).await.unwrap();
    assert_eq!(store.read_chunks(&[name(6, 1)]).await.unwrap(), [Some(write(name(6, 1)).data)]);

    // What a batch did not do is asked again; what was not asked for is a lie.
    let key = |cell| {
        format!(r#"{{"p":{{"S":"x/cells/0001/00000005-0000000000000001"}},"s":{{"S":"{cell}"}}}}"#)
    };
    let left = |cell| {
        let keys = format!(r#"{{"cloud":{{"Keys":[{}]}}}}"#, key(cell));
        answer("200 OK", &format!(r#"{{"Responses":{{"cloud":[]}},"UnprocessedKeys":{keys}}}"#))
    };
    next(&between, "BatchGetItem", 3, Fate::AnswerInstead(left("0001")));
    assert_eq!(read().await.unwrap(), [cell]);
    let sent = bodies(&between);
    assert!(sent.len() == 4 && sent.iter().all(|body| *body == sent[0]));
    next(&between, "BatchGetItem", 1, Fate::AnswerInstead(left("0002")));
    assert!(matches!(read().await, Err(StoreError::Misbehaved(_))));
    let other = key("0002").replace("}}", r#"},"d":{"B":"AAAA"}}"#);
    let forged = answer("200 OK", &format!(r#"{{"Responses":{{"cloud":[{other}]}}}}"#));
    next(&between, "BatchGetItem", 1, Fate::AnswerInstead(forged));
    assert!(matches!(read().await, Err(StoreError::Misbehaved(_))));
    // Nobody goes where a table sends him.
    let elsewhere = Between::before(server.port()).await;
    for status in ["301", "302", "303", "307", "308"] {
        let place = format!("Location: http://127.0.0.1:{}/", elsewhere.port);
        let redirect = format!(
            "HTTP/1.1 {status} Elsewhere\r\n{place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        next(&between, "BatchGetItem", 1, Fate::AnswerInstead(redirect.into_bytes()));
        let refused = read().await;
        assert!(matches!(refused, Err(StoreError::Absent(_))), "{status}: {refused:?}");
        assert!(bodies(&between).len() == 1 && elsewhere.seen("").is_empty(), "{status}");
    }
    next(&between, "BatchGetItem", 1, Fate::Flood);
    assert!(matches!(read().await, Err(StoreError::Misbehaved(_))));
    // Throttled for too long, it is absent.
    next(&between, "BatchGetItem", usize::MAX, throttled());
    let absent = read().await.unwrap_err();
    assert!(
        matches!(&absent, StoreError::Absent(words) if words.contains("throttled")),
        "{absent}"
    );
    assert_eq!(bodies(&between).len(), 6);
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back_has_everything() {
    let mut server = Server::dynamodb_on_disk();
    let options =
        |wait| ObjectsOptions { absent: RetrySchedule { waits: vec![wait; 40] }, ..quick() };
    let impatient = open(&server.url("x"), server.variables(server.port()), quick()).await.unwrap();
    let patient = options(Duration::from_millis(500));
    let patient = open(&server.url("x"), server.variables(server.port()), patient).await.unwrap();
    impatient.create_array(ARRAY, SHAPE).await.unwrap();
    patient.expect_array(ARRAY, SHAPE).unwrap();
    let names: Vec<_> = (0..30).map(|chunk| name(chunk, 1)).collect();
    let writes = |range: std::ops::Range<usize>| names[range].iter().copied().map(write).collect();
    impatient.write_chunks(writes(0..10)).await.unwrap();
    server.kill();
    let refused = impatient.write_chunks(writes(10..20)).await;
    assert!(matches!(refused, Err(StoreError::Absent(_))), "{refused:?}");
    assert!(matches!(impatient.blob_get("commit").await, Err(StoreError::Absent(_))));
    // A call that waits long enough does not notice.
    let (written, ()) = tokio::join!(patient.write_chunks(writes(20..30)), async {
        SystemClock::new().sleep_until(500_000_000).await;
        server.restart();
    });
    written.unwrap();
    impatient.write_chunks(writes(10..20)).await.unwrap();
    let read = impatient.read_chunks(&names).await.unwrap();
    assert!(read.iter().zip(&names).all(|(found, &name)| *found == Some(write(name).data)));
}
