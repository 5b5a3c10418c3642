//! The cloud side in a bucket or, with the feature `dynamodb`, a table: the same answers, and the
//! same promise when either side dies.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::differential::{Plan, differences};
use crate::resp::Frame;
use crate::server::Server;

#[path = "../../../objects/tests/server/between.rs"]
#[allow(clippy::unwrap_used, dead_code)] // it is a test of another crate, too
mod between;
#[path = "../../../objects/tests/server/mod.rs"]
mod bucket;

use between::{Between, Fate, error};

/// As that of other tests of clients, with most of the tree in the cloud.
const WIDE: &str = "--capacity 20000 --value-size 256 --read-batches 4 --batch 500 \
    --write-batch 1000 --interval-ms 5 --cache 256KiB";
/// Short epochs of few requests.
const NARROW: &str = "--capacity 2000 --value-size 64 --read-batches 2 --batch 8 --write-batch 8 \
    --interval-ms 10 --cache 0";
/// A cell is an item, of which a table on this machine takes a few thousand a second: all of the
/// tree but its leaves is in memory.
#[cfg(feature = "dynamodb")]
const ITEMS: &str = "--capacity 6000 --value-size 256 --read-batches 4 --batch 64 \
    --write-batch 128 --interval-ms 5 --cache 4MiB";

/// Servers that a store is not made in, by what each does with a put under a condition, and how
/// that ends.
#[test]
fn a_server_that_cannot_hold_a_store_is_refused_when_one_is_made() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let bucket = bucket::Server::gofakes3();
    let between = runtime.block_on(Between::before(bucket.port()));
    let refuses_tags = |head: &str| {
        let is_asked = head.to_ascii_lowercase().contains("\nif-match:");
        is_asked.then(|| error("412 Precondition Failed", "PreconditionFailed"))
    };
    let takes_no_notice = |head: &str| {
        let is_asked = head.to_ascii_lowercase().contains("\nif-none-match:");
        let done =
            b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        (is_asked && head.contains("trial")).then(|| done.to_vec())
    };
    type Quirk = fn(&str) -> Option<Vec<u8>>;
    let quirks: [(Quirk, &str); 2] =
        [(refuses_tags, "If-Match"), (takes_no_notice, "conditional puts")];
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (number, (quirk, lacks)) in quirks.into_iter().enumerate() {
        between.rule(move |head| quirk(head).map_or(Fate::Pass, Fate::AnswerInstead));
        let mut serve = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        serve.arg("serve").arg("--data").arg(folder.path().join(number.to_string()));
        serve.args(["--store", &bucket.url(&number.to_string()), "--listen", "127.0.0.1:0"]);
        serve.args(NARROW.split_whitespace()).envs(bucket.variables(between.port));
        let output = serve.output().expect("fogbank runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(77), "{said}");
        assert!(said.contains("unsuitable") && said.contains(lacks), "{said}");
        assert!(!said.contains("put back"), "{said}");
    }
}

/// A cloud that says that there is nothing must not make a loss look like a mistyped URL: whose
/// trusted side knows of a store is told that it is gone, and whose does not, what to create.
#[test]
fn a_bucket_that_is_gone_is_a_lie_to_whoever_had_a_store_in_it() {
    let bucket = bucket::Server::gofakes3();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let known = folder.path().join("known");
    let mut server = start(&bucket, NARROW, &known);
    assert!(server.terminate().success());
    let new = folder.path().join("new");
    for (command, data, code, part) in [
        ("serve", &known, 1, "or the store is elsewhere"),
        ("inspect", &known, 1, "or the store is elsewhere"),
        ("verify", &known, 1, "or the store is elsewhere"),
        ("serve", &new, 64, "create it first"),
        ("inspect", &new, 64, "create it first"),
    ] {
        let mut called = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        called.arg(command).arg("--data").arg(data).args(["--store", "s3://elsewhere/clinic"]);
        if command == "serve" {
            called.args(["--listen", "127.0.0.1:0"]);
        }
        let output = called.envs(bucket.variables(bucket.port())).output().expect("fogbank runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        assert!(said.contains("no such bucket") && said.contains(part), "{command}: {said}");
    }
    // The canary: what is there is opened.
    assert!(start(&bucket, NARROW, &known).terminate().success());
}

/// A store that was killed before its first full checkpoint is opened as a new one is made; so a
/// cloud that hid what it held was told as a server that can hold none. It gains nothing by that:
/// lists say only what may be deleted.
#[test]
fn a_bucket_that_hides_what_it_holds_is_not_tried_again() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let bucket = bucket::Server::gofakes3();
    let between = runtime.block_on(Between::before(bucket.port()));
    let (url, variables) = (bucket.url("young"), bucket.variables(between.port));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::fogbank_on(&url, &variables, NARROW, folder.path());
    server.connect().line("SET a b").expect("a reply");
    server.kill();
    between.rule(|head| {
        let body = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        let head_of = |length| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let empty = || format!("{}{body}", head_of(body.len())).into_bytes();
        head.contains("list-type").then(empty).map_or(Fate::Pass, Fate::AnswerInstead)
    });
    let mut server = Server::fogbank_on(&url, &variables, NARROW, folder.path());
    let kept = server.connect().line("GET a").expect("a reply");
    assert_eq!(kept, Frame::Bulk(b"b".to_vec()));
    assert!(server.terminate().success());
}

fn start(bucket: &bucket::Server, shape: &str, data: &Path) -> Server {
    Server::fogbank_on(&bucket.url("clinic"), &bucket.variables(bucket.port()), shape, data)
}

#[test]
fn answers_out_of_a_bucket_are_those_of_a_real_server() {
    answers_are_those_of_a_real_server(&bucket::Server::gofakes3(), WIDE);
}

#[cfg(feature = "dynamodb")]
#[test]
fn answers_out_of_a_table_are_those_of_a_real_server() {
    answers_are_those_of_a_real_server(&bucket::Server::dynamodb(), ITEMS);
}

fn answers_are_those_of_a_real_server(bucket: &bucket::Server, shape: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (ours, theirs) = (start(bucket, shape, folder.path()), Server::redis());
    let found = differences(Plan::from_environment(2_000), ours.port, theirs.port);
    assert!(found.is_empty(), "{} connections differ\n{}", found.len(), found.join("\n"));
}

/// Raises `n` until the connection breaks; the last number that was answered.
fn count(server: &Server) -> std::thread::JoinHandle<i64> {
    let mut client = server.connect();
    std::thread::spawn(move || {
        let mut last = 0;
        while let Ok(Frame::Integer(n)) = client.line("INCR n") {
            last = n;
        }
        last
    })
}

#[test]
fn a_proxy_that_is_killed_finds_everything_in_the_bucket() {
    a_killed_proxy_finds_everything(&bucket::Server::gofakes3());
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_proxy_that_is_killed_finds_everything_in_the_table() {
    a_killed_proxy_finds_everything(&bucket::Server::dynamodb());
}

fn a_killed_proxy_finds_everything(bucket: &bucket::Server) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut answered = 0;
    for _ in 0..3 {
        let server = start(bucket, NARROW, folder.path());
        let Frame::Integer(n) = server.connect().line("INCRBY n 0").expect("a reply") else {
            panic!("no number");
        };
        assert!(n == answered || n == answered + 1, "{n} is there, {answered} was answered");
        let counter = count(&server);
        std::thread::sleep(Duration::from_millis(700));
        server.kill();
        answered = counter.join().expect("the counter ends").max(n);
    }
    let mut verify = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    verify.arg("verify").arg("--data").arg(folder.path());
    verify.args(["--store", &bucket.url("clinic")]).envs(bucket.variables(bucket.port()));
    assert!(verify.status().expect("fogbank runs").success());
}

#[test]
fn a_cloud_that_is_killed_and_comes_back_is_waited_for() {
    a_killed_cloud_is_waited_for(bucket::Server::versitygw());
}

#[cfg(feature = "dynamodb")]
#[test]
fn a_table_whose_server_is_killed_and_comes_back_is_waited_for() {
    a_killed_cloud_is_waited_for(bucket::Server::dynamodb_on_disk());
}

fn a_killed_cloud_is_waited_for(mut bucket: bucket::Server) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = start(&bucket, NARROW, folder.path());
    let mut client = server.connect();
    for n in 1..=20 {
        if n % 8 == 0 {
            bucket.kill();
            bucket.restart();
        }
        assert_eq!(client.line("INCR n").expect("a reply"), Frame::Integer(n));
    }
}
