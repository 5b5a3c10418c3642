//! What becomes of a call when requests get lost, are refused, or are answered by a liar.
#![allow(clippy::unwrap_used)] // a test

#[path = "server/between.rs"]
mod between;
#[path = "server/mod.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::SystemClock;
use fogbank_objects::{ObjectsOptions, ObjectsStore};
use fogbank_store::{
    ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, PutCondition, PutOutcome,
    RetrySchedule, Store, StoreError,
};
use futures_util::StreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use between::{Between, Fate, error};
use server::{BUCKET, Server};

const SHAPE: ArrayShape = ArrayShape { chunks: 8, cells_per_chunk: 4, cell_bytes: 100 };
const ARRAY: ArrayId = ArrayId(1);

fn name(version: u64) -> ChunkName {
    ChunkName { array: ARRAY, chunk: 5, version }
}

/// The same rules as ever, quicker.
fn quick() -> ObjectsOptions {
    let waits = |count| RetrySchedule { waits: vec![Duration::from_millis(10); count] };
    ObjectsOptions { absent: waits(2), throttled: waits(5), ..ObjectsOptions::default() }
}

/// A server, what stands before it, and a store with array 1 behind both.
async fn scene() -> (Server, Between, ObjectsStore) {
    let server = Server::gofakes3();
    let between = Between::before(server.port()).await;
    let store = open(&server, &between).await;
    store.create_array(ARRAY, SHAPE).await.unwrap();
    (server, between, store)
}

async fn open(server: &Server, between: &Between) -> ObjectsStore {
    try_open(server, between).await.unwrap()
}

async fn try_open(server: &Server, between: &Between) -> Result<ObjectsStore, StoreError> {
    let environment = server.variables(between.port).into_iter().collect();
    let url = server.url("x").parse().unwrap();
    let clock = Arc::new(SystemClock::new());
    ObjectsStore::open(&url, &environment, quick(), clock).await
}

async fn read(store: &ObjectsStore, version: u64) -> Result<Vec<Cell>, StoreError> {
    let mut reads = CellReads::default();
    reads.push(name(version), [1]);
    store.read_cells(&reads).await
}

fn chunk(version: u64) -> ChunkWrite {
    ChunkWrite { chunk: name(version), data: vec![version as u8; SHAPE.chunk_bytes()].into() }
}

/// A journal record does not wait for chunks, however many are being written.
#[tokio::test]
async fn chunks_that_are_written_leave_room_for_a_record() {
    let (server, between, _) = scene().await;
    let environment = server.variables(between.port).into_iter().collect();
    let options = ObjectsOptions { requests_max: 4, ..quick() };
    let clock = Arc::new(SystemClock::new());
    let url = server.url("x").parse().unwrap();
    let store = Arc::new(ObjectsStore::open(&url, &environment, options, clock).await.unwrap());
    store.create_array(ARRAY, SHAPE).await.unwrap();
    let is_chunk = |head: &str| head.starts_with("PUT") && !head.contains("/blobs/");
    between.rule(move |head| if is_chunk(head) { Fate::Hold } else { Fate::Pass });
    let writing = store.clone();
    let writes =
        tokio::spawn(async move { writing.write_chunks((1..9).map(chunk).collect()).await });
    while between.seen("PUT").len() < 3 {
        tokio::task::yield_now().await;
    }
    let put = store.blob_put("journal/1", Bytes::from_static(b"x"), PutCondition::IfAbsent).await;
    assert!(matches!(put, Ok(PutOutcome::Done(_))), "{put:?}");
    assert_eq!(between.seen("PUT").len(), 4);
    writes.abort();
}

const COMMIT: &str = "PUT /cloud/x/blobs/commit";

#[tokio::test]
async fn a_conditional_put_of_unknown_outcome_is_sent_again_and_never_guessed() {
    let (_server, between, store) = scene().await;
    let fates = [
        Fate::LoseAnswer,
        Fate::AnswerAfter(error("500 Internal Server Error", "InternalError")),
        Fate::AnswerAfter(error("503 Service Unavailable", "")),
    ];
    let mut condition = PutCondition::IfAbsent;
    for (round, fate) in fates.into_iter().enumerate() {
        between.next("PUT", 1, fate.clone());
        let ours = Bytes::from(vec![round as u8; 40]);
        let outcome = store.blob_put("commit", ours.clone(), condition.clone()).await.unwrap();
        let sent = between.seen(COMMIT);
        assert!(sent.len() == 2 && sent[0] == sent[1], "{fate:?}");
        assert_eq!(between.seen("GET").len(), 1, "its own is in the way, and is read back");
        let (there, tag) = store.blob_get("commit").await.unwrap().unwrap();
        assert_eq!((there, outcome), (ours, PutOutcome::Done(tag.clone())));
        // Another's in the way is another's, whatever became of the tries.
        between.next("PUT", 1, fate);
        let late = store.blob_put("commit", "late".into(), condition).await.unwrap();
        assert_eq!(late, PutOutcome::ConditionFailed);
        // So is what was there before all tries, though it is alike.
        let again = PutCondition::IfAbsent;
        let alike = store.blob_put("commit", vec![round as u8; 40].into(), again).await.unwrap();
        assert_eq!(alike, PutOutcome::ConditionFailed);
        condition = PutCondition::IfUnchanged(tag);
    }
    // Nor is it sent for ever.
    between.next("PUT", usize::MAX, Fate::LoseAnswer);
    let outcome = store.blob_put("commit", "more".into(), condition).await;
    assert!(matches!(outcome, Err(StoreError::Absent(_))), "{outcome:?}");
    assert_eq!(between.seen(COMMIT).len(), 3, "the schedule has two waits");
}

fn library(server: &Server, between: &Between) -> impl ObjectStore {
    let mut builder = AmazonS3Builder::new().with_bucket_name(BUCKET);
    for (name, value) in server.variables(between.port) {
        let key: AmazonS3ConfigKey = name.to_ascii_lowercase().parse().unwrap();
        builder = builder.with_config(key, value);
    }
    builder.build().unwrap()
}

/// Why the library's own repeats are off: it takes its own object for another's.
#[tokio::test]
async fn the_library_alone_would_guess_wrong() {
    let (server, between, _store) = scene().await;
    let library = library(&server, &between);
    let failed = Fate::AnswerAfter(error("500 Internal Server Error", "InternalError"));
    for (object, fate) in [("a", failed), ("b", Fate::LoseAnswer)] {
        between.next("PUT", 1, fate);
        let put =
            library.put_opts(&Path::from(object), "ours".into(), PutMode::Create.into()).await;
        assert!(matches!(put, Err(object_store::Error::AlreadyExists { .. })), "{put:?}");
        assert_eq!(between.seen("PUT").len(), 2);
    }
}

#[tokio::test]
async fn what_was_refused_is_sent_again_byte_for_byte() {
    let (_server, between, store) = scene().await;
    for answer in [
        error("503 Service Unavailable", "SlowDown"),
        error("429 Too Many Requests", ""),
        error("409 Conflict", "ConditionalRequestConflict"),
    ] {
        store.blob_delete(&["commit"]).await.unwrap();
        between.next("PUT", 2, Fate::AnswerInstead(answer));
        let outcome =
            store.blob_put("commit", "ours".into(), PutCondition::IfAbsent).await.unwrap();
        assert!(matches!(outcome, PutOutcome::Done(_)));
        let sent = between.seen(COMMIT);
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|request| *request == sent[0]));
    }
}

#[tokio::test]
async fn chunks_and_reads_are_sent_again_whatever_became_of_them() {
    let (_server, between, store) = scene().await;
    for (version, fate) in [
        (1, Fate::LoseAnswer),
        (2, Fate::AnswerAfter(error("500 Internal Server Error", "InternalError"))),
    ] {
        between.next("PUT", 1, fate.clone());
        store.write_chunks(vec![chunk(version)]).await.unwrap();
        let sent = between.seen("PUT");
        assert!(sent.len() == 2 && sent[0] == sent[1]);
        assert_eq!(between.seen("GET").len(), 1, "its own is in the way, and is read back");
        between.next("GET", 2, fate);
        assert_eq!(
            read(&store, version).await.unwrap(),
            [Cell::Bytes(vec![version as u8; 100].into())]
        );
        let sent = between.seen("GET");
        assert!(sent.len() == 3 && sent.iter().all(|request| *request == sent[0]));
    }
    between.next("GET", usize::MAX, Fate::LoseAnswer);
    assert!(matches!(read(&store, 1).await, Err(StoreError::Absent(_))));
    assert_eq!(between.seen("GET").len(), 3, "the schedule has two waits");
    between.next("POST", 1, Fate::LoseAnswer);
    store.delete_chunks(&[name(1), name(2)]).await.unwrap();
    assert_eq!(between.seen("POST").len(), 2);
    assert_eq!(read(&store, 1).await.unwrap(), [Cell::NotWritten]);
}

#[tokio::test]
async fn a_server_that_answers_something_else_misbehaves() {
    let (_server, between, store) = scene().await;
    store.write_chunks(vec![chunk(1)]).await.unwrap();
    let partial = |range: &str, body: usize| {
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nContent-Range: bytes {range}\r\n\
             Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: {body}\r\n\r\n"
        );
        Fate::AnswerInstead([head.into_bytes(), vec![7; body]].concat())
    };
    let lies = [
        partial("100-199/401", 100),     // a longer object
        partial("100-199/300", 100),     // a shorter one
        partial("0-99/400", 100),        // another cell
        partial("100-199/400", 101),     // more than was asked for
        partial("100-199/400", 99),      // less
        partial("100-198/400", 99),      // less, and it says so
        partial("100-199/400", 1 << 26), // far more
        Fate::AnswerInstead(error("416 Range Not Satisfiable", "InvalidRange")),
        Fate::Flood,
    ];
    for lie in lies {
        between.next("GET", usize::MAX, lie.clone());
        let read = read(&store, 1).await;
        assert!(matches!(read, Err(StoreError::Misbehaved(_))), "{read:?}");
        assert_eq!(between.seen("GET").len(), 1, "nothing more is asked");
    }
    between.next("GET", usize::MAX, Fate::Flood);
    assert!(matches!(store.blob_get("commit").await, Err(StoreError::Misbehaved(_))));
    // The canary: the truth passes.
    between.rule(|_| Fate::Pass);
    assert_eq!(read(&store, 1).await.unwrap(), [Cell::Bytes(vec![1; 100].into())]);
}

/// The object that holds the shape of an array is the cloud's: who opens a store again does not go
/// by it.
#[tokio::test]
async fn a_shape_that_the_cloud_says_decides_nothing() {
    let (server, between, store) = scene().await;
    store.write_chunks(vec![chunk(1)]).await.unwrap();
    let forged = "fogbank-array-1 8 1 1073741824\n";
    let forged = format!(
        "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Length: {}\r\n\r\n{forged}",
        forged.len()
    );
    let shapes = "GET /cloud/x/arrays/0001";
    let again = open(&server, &between).await;
    between.next(shapes, usize::MAX, Fate::AnswerInstead(forged.into_bytes()));
    let refused = read(&again, 1).await;
    assert!(matches!(refused, Err(StoreError::NoArray(_))), "nobody said its shape: {refused:?}");
    again.expect_array(ARRAY, SHAPE).unwrap();
    assert_eq!(read(&again, 1).await.unwrap(), [Cell::Bytes(vec![1; 100].into())]);
    assert_eq!(again.read_chunks(&[name(1)]).await.unwrap(), [Some(chunk(1).data)]);
    assert!(between.seen(shapes).is_empty(), "it is not even asked for");
    // The canary: who makes the array looks at what is there.
    assert!(again.create_array(ARRAY, SHAPE).await.is_err());
    assert!(!between.seen(shapes).is_empty());
}

/// A page of a list with these names, and another page after it.
fn page(names: impl Iterator<Item = String>, next: u32) -> Fate {
    let of = |name: String| {
        format!(
            "<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
             <ETag>x</ETag><Size>1</Size></Contents>"
        )
    };
    let body = format!(
        "<ListBucketResult><IsTruncated>true</IsTruncated>\
         <NextContinuationToken>{next}</NextContinuationToken>{}</ListBucketResult>",
        names.map(of).collect::<String>()
    );
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    Fate::AnswerInstead((head + &body).into_bytes())
}

#[tokio::test]
async fn a_list_ends_whatever_the_server_says() {
    let (_server, between, store) = scene().await;
    store.write_chunks(vec![chunk(1)]).await.unwrap();
    let lists = "GET /cloud?";
    // Chunk 5 has many versions, and the list of them goes on for ever.
    let (mut next, many) = (0, 1000);
    between.rule(move |head| {
        if !(head.starts_with(lists) && head.contains("chunks%2F0001%2F5%2F")) {
            return Fate::Pass;
        }
        let versions = u64::from(next) * many..u64::from(next + 1) * many;
        next += 1;
        page(versions.map(|version| format!("x/chunks/0001/5/00000005-{version:016x}")), next)
    });
    let listed = store.list_chunks(ARRAY).await.unwrap();
    assert_eq!(listed.len(), 2000, "two pages, 8 versions of a chunk and 1024 names to spare");
    assert!(listed.iter().all(|name| name.array == ARRAY && name.chunk == 5));
    assert_eq!(between.seen(lists).len(), 16 + 1);
    // Pages of nothing, the same again and again or always others.
    for same in [true, false] {
        let mut next = 0;
        between.rule(move |head| {
            if !(head.starts_with(lists) && head.contains("chunks%2F0001%2F0%2F")) {
                return Fate::Pass;
            }
            next += u32::from(!same);
            page(std::iter::empty(), next)
        });
        let listed = store.list_chunks(ARRAY).await;
        assert!(matches!(listed, Err(StoreError::Misbehaved(_))), "{listed:?}");
    }
    // Of the longest list, too.
    let mut next = 0;
    between.rule(move |head| match head.starts_with(lists) {
        true => {
            next += 1;
            page(std::iter::empty(), next)
        }
        false => Fate::Pass,
    });
    let before = between.seen(lists).len();
    let listed = store.blob_list("").await;
    assert!(matches!(listed, Err(StoreError::Misbehaved(_))), "{listed:?}");
    assert_eq!(between.seen(lists).len() - before, 1001);
    // A name that nobody puts there.
    between.rule(move |head| match head.starts_with(lists) {
        true => page(["x/blobs/.././commit".to_owned()].into_iter(), 0),
        false => Fate::Pass,
    });
    let listed = store.blob_list("").await;
    assert!(matches!(listed, Err(StoreError::Misbehaved(_))), "{listed:?}");
    // A page that is none.
    between.next(lists, usize::MAX, Fate::Flood);
    let listed = store.blob_list("").await;
    assert!(matches!(listed, Err(StoreError::Misbehaved(_))), "{listed:?}");
    // The canary: the truth passes.
    between.rule(|_| Fate::Pass);
    assert_eq!(store.list_chunks(ARRAY).await.unwrap(), [name(1)]);
}

#[tokio::test]
async fn a_tag_is_no_longer_than_tags_are() {
    let (_server, between, store) = scene().await;
    for (bytes, fits) in [(200, true), (300, false), (30_000, false)] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nETag: \"{}\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
             Content-Length: 0\r\n\r\n",
            "x".repeat(bytes)
        );
        between.rule(move |_| Fate::AnswerInstead(answer.clone().into_bytes()));
        let found = store.blob_get("commit").await.map(drop);
        let put = store.blob_put("commit", "a".into(), PutCondition::IfAbsent).await.map(drop);
        for said in [found, put] {
            let refused = matches!(said, Err(StoreError::Misbehaved(_)));
            assert!(refused != fits && said.is_ok() == fits, "{bytes}: {said:?}");
        }
    }
}

/// A cloud that names another place could have the proxy send requests to anybody in the network
/// that trusts it.
#[tokio::test]
async fn nobody_is_sent_elsewhere() {
    let (server, between, store) = scene().await;
    store.write_chunks(vec![chunk(1)]).await.unwrap();
    let elsewhere = Between::before(server.port()).await;
    let redirect = |status: &str| {
        Fate::AnswerInstead(
            format!(
                "HTTP/1.1 {status} Elsewhere\r\nLocation: http://127.0.0.1:{}/cloud/x/blobs/commit\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n",
                elsewhere.port
            )
            .into_bytes(),
        )
    };
    for status in ["300", "301", "302", "303", "305", "307", "308"] {
        between.next("", usize::MAX, redirect(status));
        let put = |condition| store.blob_put("commit", "ours".into(), condition);
        let outcomes = [
            store.blob_get("commit").await.map(drop),
            put(PutCondition::Always).await.map(drop),
            put(PutCondition::IfAbsent).await.map(drop),
            store.blob_delete(&["commit"]).await,
            store.blob_list("").await.map(drop),
            read(&store, 1).await.map(drop),
            store.write_chunks(vec![chunk(2)]).await,
            store.delete_chunks(&[name(1)]).await,
        ];
        for (call, outcome) in outcomes.iter().enumerate() {
            let absent =
                matches!(outcome, Err(StoreError::Absent(words)) if words.contains(status));
            assert!(absent, "{status}, call {call}: {outcome:?}");
        }
        assert_eq!(between.seen("").len(), outcomes.len(), "{status}: each is asked once");
        // To whoever opens a store, its settings are wrong: the region, most often.
        let refused = try_open(&server, &between).await.map(drop);
        assert!(matches!(refused, Err(StoreError::Caller(_))), "{status}: {refused:?}");
        assert!(elsewhere.seen("").is_empty(), "{status}: something was sent elsewhere");
    }
    // The canary: the library alone goes there, and takes the body along if it has it in one piece.
    let library = library(&server, &between);
    between.next("GET", 1, redirect("302"));
    library.get(&Path::from("a")).await.ok();
    assert_eq!(elsewhere.seen("GET").len(), 1);
    between.next("POST", 1, redirect("307"));
    let names = futures_util::stream::iter([Ok(Path::from("a"))]).boxed();
    library.delete_stream(names).collect::<Vec<_>>().await;
    let sent = elsewhere.seen("POST");
    assert!(sent.len() == 1 && sent[0].ends_with(b"</Delete>"));
}

#[tokio::test]
async fn an_error_repeats_nothing_of_what_the_server_says() {
    let (_server, between, store) = scene().await;
    for status in ["403 Forbidden", "400 Bad Request", "500 Internal Server Error", "301 Moved"] {
        between.next("GET", usize::MAX, Fate::AnswerInstead(error(status, "Some<Code")));
        let words = store.blob_get("commit").await.unwrap_err().to_string();
        assert!(!words.contains("AKIDHUSH") && words.contains(&status[..3]), "{words}");
    }
}

/// A reply with this status and body, and a tag.
fn reply(status: &str, body: &str) -> Fate {
    let head = format!(
        "HTTP/1.1 {status}\r\nETag: \"x\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Length: {}\r\nConnection: close",
        body.len()
    );
    Fate::AnswerInstead(format!("{head}\r\n\r\n{body}").into_bytes())
}

/// What a server of some kind does with a request, by its head; nothing if it does as S3.
type Quirk = fn(&str) -> Option<Fate>;

fn has(head: &str, name: &str) -> bool {
    head.to_ascii_lowercase().contains(&format!("\n{name}:"))
}

/// Servers that people have, one fault each, and what is said of them.
const UNSUITABLE: &[(&str, Quirk)] = &[
    ("takes no notice of conditional puts", |head| {
        (has(head, "if-none-match") && head.contains("trial")).then(|| reply("200 OK", ""))
    }),
    ("the very tag that it gave with the object", |head| {
        let refused =
            || Fate::AnswerInstead(error("412 Precondition Failed", "PreconditionFailed"));
        has(head, "if-match").then(refused)
    }),
    ("the very tag that it gave with the object", |head| {
        has(head, "if-match").then(|| Fate::AnswerInstead(error("404 Not Found", "NoSuchKey")))
    }),
    ("takes no notice of the tag", |head| has(head, "if-match").then(|| reply("200 OK", ""))),
    ("is to find nothing", |head| {
        let refused =
            || Fate::AnswerInstead(error("412 Precondition Failed", "PreconditionFailed"));
        has(head, "if-none-match").then(refused)
    }),
    ("does not know how to do", |head| {
        let unknown = || Fate::AnswerInstead(error("501 Not Implemented", "NotImplemented"));
        has(head, "if-none-match").then(unknown)
    }),
    ("what was put is not there", |head| {
        let stale = || Fate::AnswerInstead(error("404 Not Found", "NoSuchKey"));
        (head.starts_with("GET") && head.contains("trial")).then(stale)
    }),
    ("no range", |head| has(head, "range").then(|| reply("200 OK", "third content of a trial"))),
    ("a list does not show", |head| {
        let empty = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        head.contains("list-type").then(|| reply("200 OK", empty))
    }),
    ("what was deleted is still there", |head| {
        let nothing_done = "<DeleteResult><Deleted><Key>x</Key></Deleted></DeleteResult>";
        (head.starts_with("POST") && head.contains("delete")).then(|| reply("200 OK", nothing_done))
    }),
];

/// Both ways: who refused the tag that he gave himself was found out at the first commit, and told
/// as an attack.
#[tokio::test]
async fn a_server_that_cannot_hold_a_store_is_told_so_before_it_holds_one() {
    for (said, quirk) in UNSUITABLE {
        let server = Server::gofakes3();
        let between = Between::before(server.port()).await;
        let store = open(&server, &between).await;
        // What an earlier trial left shows whether deletion works.
        let left = store.blob_put("trial", "left".into(), PutCondition::Always).await;
        left.unwrap();
        let quirk = *quirk;
        between.rule(move |head| quirk(head).unwrap_or(Fate::Pass));
        let made = store.create_array(ARRAY, SHAPE).await;
        let Err(StoreError::Refused(words)) = &made else { panic!("{said}: {made:?}") };
        assert!(words.contains(said) && words.contains("unsuitable"), "{said}: {words}");
        // The canary: without its fault it is suitable, and nothing of the trial is left.
        between.rule(|_| Fate::Pass);
        store.create_array(ARRAY, SHAPE).await.unwrap();
        assert!(store.blob_list("").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_trial_of_which_an_answer_is_lost_goes_on() {
    for lost in 0..5 {
        let server = Server::gofakes3();
        let between = Between::before(server.port()).await;
        let store = open(&server, &between).await;
        let mut puts = 0;
        between.rule(move |head| {
            let is_put = head.starts_with("PUT") && head.contains("trial");
            puts += u32::from(is_put);
            if is_put && puts == lost + 1 { Fate::LoseAnswer } else { Fate::Pass }
        });
        store.create_array(ARRAY, SHAPE).await.unwrap();
        let tried = between.seen("PUT /cloud/x/blobs/trial").len();
        assert_eq!(tried, 5 + 1, "the {lost}th");
        // It is tried once, also by whoever opens it later: of a server that held a store it would
        // say that it cannot, and not that it lies.
        let later = open(&server, &between).await;
        for (number, store) in [(2, &store), (3, &later)] {
            store.create_array(ArrayId(number), SHAPE).await.unwrap();
            assert_eq!(between.seen("PUT /cloud/x/blobs/trial").len(), tried);
        }
    }
}

/// By whom it is that every call brings nothing.
fn blamed<T>(outcome: &Result<T, StoreError>) -> &'static str {
    match outcome {
        Ok(_) => "nobody",
        Err(StoreError::Absent(_)) => "absent",
        Err(StoreError::Refused(_)) => "refusing",
        Err(StoreError::Misbehaved(_)) => "lying",
        Err(StoreError::NoArray(_) | StoreError::Caller(_) | StoreError::Near(_)) => "us",
    }
}

/// The same status means the same whatever was asked; what a condition or a missing object is
/// depends on that.
#[tokio::test]
async fn a_status_is_somebodys_whatever_was_asked() {
    let (_server, between, store) = scene().await;
    store.write_chunks(vec![chunk(1)]).await.unwrap();
    // Status and word; what they mean to a get, a put, a put under a condition, a deletion, a list,
    // a read of cells, and a write of chunks, which reads back.
    type Row = (&'static str, &'static str, [&'static str; 7]);
    let table: &[Row] = &[
        ("403 Forbidden", "AccessDenied", ["refusing"; 7]),
        ("401 Unauthorized", "", ["refusing"; 7]),
        ("400 Bad Request", "ExpiredToken", ["refusing"; 7]),
        ("501 Not Implemented", "NotImplemented", ["refusing"; 7]),
        ("500 Internal Server Error", "InternalError", ["absent"; 7]),
        ("503 Service Unavailable", "SlowDown", ["absent"; 7]),
        ("429 Too Many Requests", "", ["absent"; 7]),
        ("400 Bad Request", "RequestTimeout", ["absent"; 7]),
        ("301 Moved Permanently", "PermanentRedirect", ["absent"; 7]),
        ("404 Not Found", "NoSuchBucket", ["lying"; 7]),
        ("416 Range Not Satisfiable", "InvalidRange", ["lying"; 7]),
        ("304 Not Modified", "", ["lying"; 7]),
        (
            "412 Precondition Failed",
            "",
            ["lying", "lying", "nobody", "lying", "lying", "lying", "lying"],
        ),
    ];
    for (status, code, meant) in table {
        between.next("", usize::MAX, Fate::AnswerInstead(error(status, code)));
        let put = |condition| store.blob_put("commit", "ours".into(), condition);
        let found = [
            blamed(&store.blob_get("commit").await),
            blamed(&put(PutCondition::Always).await),
            blamed(&put(PutCondition::IfAbsent).await),
            blamed(&store.blob_delete(&["commit"]).await),
            blamed(&store.blob_list("").await),
            blamed(&read(&store, 1).await),
            blamed(&store.write_chunks(vec![chunk(2)]).await),
        ];
        assert_eq!(found, *meant, "{status} {code}");
    }
}

/// A version that is new is nowhere; who says that it is there and shows nothing has made it up.
#[tokio::test]
async fn what_is_said_to_be_there_is_looked_at() {
    let (_server, between, store) = scene().await;
    let exists = || Fate::AnswerInstead(error("412 Precondition Failed", "PreconditionFailed"));
    between.next("PUT", 1, exists());
    assert_eq!(blamed(&store.write_chunks(vec![chunk(7)]).await), "lying");
    store.write_chunks(vec![chunk(7)]).await.unwrap();
    between.next("PUT", 1, exists());
    store.write_chunks(vec![chunk(7)]).await.unwrap();
}

/// The reply to a deletion of many is a success, and says of each object what became of it. Names
/// in it are the server's: the library looks for them among those that were asked about, and would
/// not survive another.
#[tokio::test]
async fn a_deletion_that_fails_for_one_object_is_told_as_what_it_is() {
    let (_server, between, store) = scene().await;
    let failed = |key: &str, code: &str| {
        let body = format!(
            "<DeleteResult><Error><Key>{key}</Key><Code>{code}</Code><Message>no</Message></Error>\
             </DeleteResult>"
        );
        reply("200 OK", &body)
    };
    for key in ["x/blobs/commit", "another", "", "..//.."] {
        for (code, blame, sent) in [
            ("AccessDenied", "refusing", 1),
            ("NoSuchBucket", "lying", 1),
            ("InternalError", "absent", 3),
            ("SlowDown", "absent", 6),
            ("NoSuchKey", "nobody", 1),
        ] {
            between.next("POST", usize::MAX, failed(key, code));
            let outcome = store.blob_delete(&["commit"]).await;
            assert_eq!(blamed(&outcome), blame, "{key} {code}: {outcome:?}");
            assert_eq!(between.seen("POST").len(), sent, "{code}");
        }
    }
}
