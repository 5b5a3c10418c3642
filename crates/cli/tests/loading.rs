//! Stores made of files: cut short at every call to the cloud and gone on with, killed in the
//! middle, from a dump of a real Redis; and the cloud sees the same whatever is in the file.
#![allow(clippy::unwrap_used)] // a test

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytesize::ByteSize;
use fogbank::args::ShapeArgs;
use fogbank::load::{Loaded, Record, Source};
use fogbank::{OpenOptions, Place, Result};
use fogbank_env::Mutex;
use fogbank_front::resp::{Filled, place_of_string, records_of};
use fogbank_store::{Fault, FaultRule, Faulty, MemoryStore, Operation};

fn shape() -> ShapeArgs {
    ShapeArgs {
        capacity: Some(1400), // three epochs
        value_size: Some(ByteSize::b(64)),
        interval_ms: Some(1),
        ..ShapeArgs::default()
    }
}

fn kept(record: Record) -> Vec<Filled> {
    records_of(&record.name, record.content, record.deadline_ms)
}

fn value(n: u32) -> String {
    format!("{n} ").repeat(n as usize % 40)
}

/// A file of `count` records.
fn file(folder: &Path, name: &str, count: u32) -> Source {
    let path = folder.join(name);
    let lines: String = (0..count).map(|n| format!("name {n},{}\n", value(n))).collect();
    std::fs::write(&path, format!("key,value\n{lines}")).unwrap();
    Source::new(&path, None, false).unwrap()
}

type Cloud = Arc<Faulty<MemoryStore>>;

async fn load(data: &Path, cloud: &Cloud, source: &Source) -> Result<Loaded> {
    let options = OpenOptions::new(Place::local(data)).shape(shape()).on(cloud.clone());
    options.load(source, kept, &mut |_, _| {}).await
}

/// Whether the store holds the records of [`file`], and no others.
async fn holds(data: &Path, cloud: &Cloud, count: u32) {
    let opened = OpenOptions::new(Place::local(data)).on(cloud.clone()).open().await.unwrap();
    for n in [0, 1, 39, count / 2, count - 1] {
        let (key, _) = place_of_string(format!("name {n}").as_bytes());
        let found = opened.proxy().transact(|txn| {
            let key = key.clone();
            async move { txn.get(&key).await }
        });
        assert_eq!(found.await.unwrap().expect("a record").value, value(n), "{n}");
    }
    opened.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_goes_on_wherever_it_was_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(folder.path(), "all.csv", 400);
    let (mut nth, mut cut, mut went_on) = (0, 0, 0);
    loop {
        nth += 1;
        let fault = if nth % 2 == 0 { Fault::After } else { Fault::Before };
        let data = folder.path().join(nth.to_string());
        let cloud: Cloud = Arc::new(Faulty::new(MemoryStore::new()));
        // At this call, and in the going on at the same call again.
        let mut done = None;
        for round in 0..3 {
            if round < 2 {
                cloud.add(FaultRule::nth(None, nth, fault));
            }
            done = load(&data, &cloud, &source).await.ok();
            cloud.heal();
            if done.is_some() {
                break;
            }
            cut += 1;
        }
        let done = done.expect("the load comes to its end");
        assert_eq!((done.keys, done.left_out.keys), (400, 0));
        went_on += u32::from(done.went_on);
        assert!(!data.join("proxy/restoring").exists());
        holds(&data, &cloud, 400).await;
        if cloud.faults() == 0 {
            break; // there is no such call any more
        }
    }
    assert!(
        nth > 20 && cut > 20 && went_on > 10,
        "{nth} calls, {cut} cut short, {went_on} went on"
    );
}

/// Messages that write the buckets of an epoch.
const WRITES_AN_EPOCH: u64 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn what_has_been_loaded_is_left_out_and_another_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (source, other) = (file(folder.path(), "a.csv", 400), file(folder.path(), "b.csv", 399));
    let data = folder.path().join("d");
    let cloud: Cloud = Arc::new(Faulty::new(MemoryStore::new()));
    let whole: Cloud = Arc::new(Faulty::new(MemoryStore::new()));
    load(&folder.path().join("whole"), &whole, &source).await.unwrap();
    let commits = |cloud: &Cloud| {
        let commits = Arc::new(Mutex::new(0));
        let counted = commits.clone();
        cloud.on_call(move |call, _| {
            *counted.lock() += u32::from(call.operation() == Operation::WriteChunks);
            None
        });
        commits
    };
    // Cut at the last writing of buckets: of three epochs two are done.
    let nth = 3 * WRITES_AN_EPOCH;
    cloud.add(FaultRule::nth(Some(Operation::WriteChunks), nth, Fault::Before));
    load(&data, &cloud, &source).await.unwrap_err();
    cloud.heal();
    let told = load(&data, &cloud, &other).await.unwrap_err().to_string();
    assert!(told.contains("is not the file"), "{told}");
    let refused = OpenOptions::new(Place::local(&data)).open().await.err().expect("not whole");
    assert!(refused.to_string().contains("fogbank load again"), "{refused}");
    let written = commits(&cloud);
    assert!(load(&data, &cloud, &source).await.unwrap().went_on);
    // The epoch that was open is ended without its writes, and the last one is done.
    assert_eq!(u64::from(*written.lock()), 2 * WRITES_AN_EPOCH);
    holds(&data, &cloud, 400).await;
}

/// A cloud that stops a load and times how long the file is read when it goes on would learn how
/// much of it was loaded: so nothing of that is read once the cloud hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_been_loaded_is_read_before_the_cloud_hears_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(folder.path(), "a.csv", 400);
    for epochs in [0, 1, 2] {
        let data = folder.path().join(epochs.to_string());
        let cloud: Cloud = Arc::new(Faulty::new(MemoryStore::new()));
        let nth = epochs * WRITES_AN_EPOCH + 1;
        cloud.add(FaultRule::nth(Some(Operation::WriteChunks), nth, Fault::Before));
        load(&data, &cloud, &source).await.unwrap_err();
        cloud.heal();
        let (taken, before) = (Arc::new(AtomicU32::new(0)), Arc::new(OnceLock::new()));
        let (now, first) = (taken.clone(), before.clone());
        cloud.on_call(move |_, _| {
            first.get_or_init(|| now.load(Ordering::SeqCst));
            None
        });
        let counted = |record| {
            taken.fetch_add(1, Ordering::SeqCst);
            kept(record)
        };
        let options = OpenOptions::new(Place::local(&data)).shape(shape()).on(cloud.clone());
        options.load(&source, counted, &mut |_, _| {}).await.unwrap();
        // All are read once to see that they fit, and then those whose blocks are there.
        let mut blocks = 0;
        let loaded = (0..400).take_while(|n| {
            let begun = blocks < 500 * epochs as usize;
            blocks += value(*n).len().div_ceil(64);
            begun
        });
        let (loaded, before) = (loaded.count() as u32, *before.get().unwrap());
        assert_eq!(before, 400 + loaded, "after {epochs} epochs");
        assert_eq!(taken.load(Ordering::SeqCst), 800);
        assert!(!data.join("proxy/filled").exists());
        holds(&data, &cloud, 400).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cloud_sees_the_same_of_an_empty_file_as_of_a_full_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for count in [1, 700] {
        let source = file(folder.path(), "x.csv", count);
        let cloud: Cloud = Arc::new(Faulty::new(MemoryStore::new()));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = calls.clone();
        cloud.on_call(move |call, _| {
            noted.lock().push(call.operation());
            None
        });
        load(&folder.path().join(count.to_string()), &cloud, &source).await.unwrap();
        seen.push(calls.lock().clone());
    }
    assert!(seen[0].len() > 20);
    assert_eq!(seen[0], seen[1], "the same calls in the same order");
}

/// A dump of Redis, without a checksum.
fn dump(folder: &Path, name: &str, body: &[u8]) -> Source {
    let path = folder.join(name);
    std::fs::write(&path, [b"REDIS0011\xfe\0", body, b"\xff", &[0; 8]].concat()).unwrap();
    Source::new(&path, None, false).unwrap()
}

/// Once a key came twice and was taken if its records were others: a string and a hash, or two
/// hashes with other fields, which became one.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_twice_is_refused_whatever_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = async |source: &Source, parts: [&str; 2]| {
        let data = folder.join("d");
        let cloud: Cloud = Arc::new(Faulty::new(MemoryStore::new()));
        let told = load(&data, &cloud, source).await.unwrap_err().to_string();
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        assert!(!data.exists(), "something was made");
    };
    let held: [&[u8]; 7] = [
        b"\0\x01a\x011",
        b"\0\x01a\x012",
        b"\xfc\xff\xff\xff\xff\0\0\0\0\0\x01a\x012", // with a time at which it expires
        b"\x04\x01a\x01\x01f\x01v",
        b"\x04\x01a\x01\x01g\x01v",
        b"\x05\x01a\x01\x01m\0\0\0\0\0\0\0\0",
        b"\x05\x01a\x01\x01n\0\0\0\0\0\0\0\0",
    ];
    for first in held {
        for second in held {
            let body = [first, b"\0\x01b\x01-", second].concat();
            let source = dump(folder, "twice.rdb", &body);
            refused(&source, ["key number 3:", "that of key number 1"]).await;
        }
    }
    let lines = "{\"key\":\"a\",\"value\":\"1\"}\n{\"key_base64\":\"YQ==\",\"value\":\"2\"}\n";
    for (name, text, parts) in [
        ("twice.csv", "key,value\na,1\nb,1\na,2\n", ["line 4:", "that of line 2"]),
        ("twice.jsonl", lines, ["line 2:", "that of line 1"]),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        refused(&Source::new(&folder.join(name), None, false).unwrap(), parts).await;
    }
}

/// What a dump says of its lengths is no memory before it is there: once that ended the program.
#[test]
fn what_a_dump_claims_takes_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for claimed in [1_u64 << 36, 1 << 40, 1 << 62, u64::MAX] {
        let claim = [&[0x81][..], &claimed.to_be_bytes()].concat();
        for (before, after) in [
            (&b"\0\x01a"[..], &b"xyz"[..]),            // a string
            (b"\0", b"xyz"),                           // a key
            (b"\0\x01a\xc3", b"\x03\x01xy"),           // what is compressed
            (b"\0\x01a\xc3\x03", b"\x01xy"),           // what it was
            (b"\0\xc3\x03", b"\x01xy\x01v"),           // of a key
            (b"\x10\x01a\xc3\x03", b"\x01xy"),         // of a packed hash
            (b"\x12\x01a\x01\x02\xc3\x03", b"\x01xy"), // of a list
            (b"\x04\x01a", b"\x01f\x01v"),             // fields
            (b"\x05\x01a", b"\x01m\0\0\0\0\0\0\0\0"),  // members
            (b"\x01\x01a", b"\x01e"),                  // elements
            (b"\x0f\x01a", b"\x01n\x01e"),             // parts of a stream
            (b"\xf5", b"code"),                        // functions
            (b"\xfa\x01a\xc3\x03", b"\x01xy"),         // about the server
        ] {
            dump(folder, "claims.rdb", &[before, &claim, after].concat());
            let mut shell = Command::new("sh");
            let limited = "ulimit -v 8388608 && exec \"$0\" \"$@\""; // of 8 GiB
            shell.current_dir(folder).args(["-c", limited, env!("CARGO_BIN_EXE_fogbank"), "load"]);
            shell.args("--from claims.rdb --data d --capacity 100 --skip-unsupported".split(' '));
            let output = shell.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(64), "{claimed}, {before:?}: {said}");
            assert!(!folder.join("d").exists(), "something was made");
        }
    }
}

fn fogbank(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.current_dir(folder).args(args).output().expect("the binary runs")
}

#[test]
#[allow(clippy::disallowed_methods)] // real processes in real time
fn a_load_that_is_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    file(folder, "all.csv", 6000);
    let args = ["load", "--from", "all.csv", "--capacity", "20000", "--value-size", "64"];
    let args = [&args[..], &["--data", "d", "--interval-ms", "40"]].concat();
    let register = folder.join("d/proxy/register");
    for bumps in [1, 5, 30] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.current_dir(folder).args(&args).stdout(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        let (mut seen, mut last) = (0, std::fs::read(&register).unwrap_or_default());
        while seen < bumps {
            let now = std::fs::read(&register).unwrap_or_default();
            seen += u32::from(now != last);
            last = now;
            assert!(child.try_wait().unwrap().is_none(), "it was done before it was killed");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(folder.join("d/proxy/restoring").exists());
    }
    let output = fogbank(folder, &args);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("went on") && told.contains("loaded 6000 records"), "{told}");
    let verified = fogbank(folder, &["verify", "--data", "d"]);
    let told = String::from_utf8(verified.stdout).unwrap();
    let blocks: usize = (0..6000).map(|n| value(n).len().div_ceil(64)).sum();
    assert!(told.contains(&format!("{blocks} blocks")), "{told} where {blocks} were loaded");
}
