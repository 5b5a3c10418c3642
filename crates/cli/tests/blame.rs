//! Who is told to be to blame, and by which exit code: whatever is done to what the cloud holds
//! ends every command with the one code of an attack; what is somebody's mistake, or a cloud that
//! is away, does not.

#![allow(clippy::disallowed_methods)] // real processes in real time
#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[allow(dead_code)] // `server` needs its type only
#[path = "clients/resp.rs"]
mod resp;
#[path = "clients/server.rs"]
mod server;

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use bytes::Bytes;
use fogbank_store::{FileStore, PutCondition, Store};
use server::Server;
use tempfile::TempDir;

/// What an attack ends with.
const LIED: i32 = 1;
const SHAPE: &str = "--capacity 300 --value-size 64 --read-batches 2 --batch 8 --write-batch 8 \
    --interval-ms 5 --cache 4KiB";

fn fogbank(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.args(line.split_whitespace()).output().unwrap()
}

/// What a command says that ends with `code`.
fn ends(code: i32, line: &str) -> String {
    let output = fogbank(line);
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    said
}

/// All commands that open a store or look at it.
fn commands(data: &Path) -> Vec<String> {
    let data = data.display();
    let serve = format!("serve --listen 127.0.0.1:0 --data {data} {SHAPE}");
    let volume = format!("volume serve --nbd unix:{data}/socket --data {data}");
    let [inspect, recover, verify] =
        ["inspect", "recover", "verify"].map(|command| format!("{command} --data {data}"));
    let backup = format!("backup --data {data} --to {data}/backup");
    let rotate = format!("rotate-key --data {data} --to {data}/new");
    let presence = format!("verify --presence --data {data}");
    vec![serve, volume, inspect, recover, verify, backup, rotate, presence]
}

fn serve(data: &Path) -> Server {
    Server::try_fogbank_of(SHAPE, data, &[]).unwrap_or_else(|said| panic!("{said}"))
}

/// A store that was used and closed, or killed.
fn store(closed: bool) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = serve(&data);
    for n in 0..20 {
        server.connect().line(&format!("SET key:{n} value")).unwrap();
    }
    match closed {
        true => assert!(server.terminate().success()),
        false => server.kill(),
    }
    (folder, data)
}

fn copy(from: &Path, to: &Path) {
    let _none_yet = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
}

/// Puts a commit record that the folder takes for sound.
fn forge(data: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = FileStore::open(data.join("cloud")).unwrap();
        let mut record = store.blob_get("commit").await.unwrap().unwrap().0.to_vec();
        change(&mut record);
        store.blob_put("commit", Bytes::from(record), PutCondition::Always).await.unwrap();
    });
}

fn replace(record: &mut [u8], from: &str, to: &str) {
    let at = record.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
    record[at..at + to.len()].copy_from_slice(to.as_bytes());
}

type Spoil = (&'static str, fn(&Path));

/// What is done to a folder, and what stays recoverable when it is undone.
const SPOILED: [Spoil; 19] = [
    ("frames deleted", |data| std::fs::remove_file(array(data, "frames")).unwrap()),
    ("cells deleted", |data| std::fs::remove_file(array(data, "cells")).unwrap()),
    ("shape deleted", |data| std::fs::remove_file(array(data, "shape")).unwrap()),
    ("shape spoiled", |data| std::fs::write(array(data, "shape"), b"\xff\xfe").unwrap()),
    ("shape of a newer version", |data| {
        let text = std::fs::read_to_string(array(data, "shape")).unwrap();
        std::fs::write(array(data, "shape"), text.replace("format=1", "format=2")).unwrap();
    }),
    ("array deleted", |data| std::fs::remove_dir_all(data.join("cloud/arrays/00000")).unwrap()),
    ("format spoiled", |data| std::fs::write(data.join("cloud/format"), b"\xff\xfe\xfd").unwrap()),
    ("format of a newer version", |data| {
        std::fs::write(data.join("cloud/format"), "fogbank file store 2\n").unwrap();
    }),
    ("commit deleted", |data| std::fs::remove_file(data.join("cloud/blobs/commit")).unwrap()),
    ("commit a folder", |data| {
        std::fs::remove_file(data.join("cloud/blobs/commit")).unwrap();
        std::fs::create_dir(data.join("cloud/blobs/commit")).unwrap();
    }),
    ("commit a link to itself", |data| {
        std::fs::remove_file(data.join("cloud/blobs/commit")).unwrap();
        symlink(data.join("cloud/blobs/commit"), data.join("cloud/blobs/commit")).unwrap();
    }),
    // Whoever opened one for reading waited for ever, with a lock held.
    ("commit a pipe", |data| pipe(&data.join("cloud/blobs/commit"))),
    ("cells a pipe", |data| pipe(&array(data, "cells"))),
    ("blobs a file", |data| {
        std::fs::remove_dir_all(data.join("cloud/blobs")).unwrap();
        std::fs::write(data.join("cloud/blobs"), "").unwrap();
    }),
    ("all deleted", |data| {
        std::fs::remove_dir_all(data.join("cloud")).unwrap();
        std::fs::create_dir(data.join("cloud")).unwrap();
    }),
    ("the folder deleted", |data| std::fs::remove_dir_all(data.join("cloud")).unwrap()),
    ("another format of the commit record", |data| forge(data, |record| record[8] ^= 1)),
    ("another capacity", |data| {
        forge(data, |record| replace(record, "\"capacity\":300", "\"capacity\":301"));
    }),
    ("a setting that no version has", |data| {
        forge(data, |record| replace(record, "\"engine\"", "\"volume\""));
    }),
];

fn pipe(path: &Path) {
    std::fs::remove_file(path).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn array(data: &Path, name: &str) -> PathBuf {
    data.join("cloud/arrays/00000").join(name)
}

/// Before: 64 a mistake of the caller's, 69 an absent cloud, 70 a fault of ours, 74 the trusted
/// side.
#[test]
fn whatever_is_done_to_the_cloud_side_no_command_takes_for_an_accident() {
    let (folder, sound) = store(true);
    let data = folder.path().join("lied-to");
    for (what, spoil) in SPOILED {
        copy(&sound, &data);
        spoil(&data);
        let trusted = std::fs::read(data.join("proxy/register")).unwrap();
        for command in commands(&data) {
            // Of a store of keys, as a record says that verified, whatever its array is.
            let no_volume = command.starts_with("volume") && array_alone(what);
            let said = ends(if no_volume { 64 } else { LIED }, &command);
            assert!(
                !said.contains("another proxy") && !said.contains("report it"),
                "{what}: {said}"
            );
            let advises = said.contains("fogbank volume create") || said.contains("other settings");
            assert!(!advises, "{what}: {command}: {said}");
        }
        let changed = std::fs::read(data.join("proxy/register")).unwrap() != trusted;
        assert!(!changed || array_alone(what), "{what}: the register was moved on");
        // The canary: it was that, and the store is as it was once it is put back.
        if !array_alone(what) {
            std::fs::remove_dir_all(data.join("cloud")).ok();
            copy(&sound.join("cloud"), &data.join("cloud"));
            ends(0, &format!("verify --data {}", data.display()));
        }
    }
}

/// Whether the store is taken over before it is noticed: nothing of the array is asked for until
/// then.
fn array_alone(what: &str) -> bool {
    ["frames", "cells", "shape", "array"].iter().any(|part| what.starts_with(part))
}

/// The files of journal records, in their order.
fn journal_of(data: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(data.join("cloud/blobs")).unwrap();
    let names = names.map(|entry| entry.unwrap().path());
    let mut names: Vec<PathBuf> =
        names.filter(|path| path.to_string_lossy().contains("journal")).collect();
    names.sort();
    names
}

fn is_amid_an_epoch(data: &Path) -> bool {
    let told = ends(0, &format!("inspect --json --data {}", data.display()));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let open = format!("journal%2F{:016x}-", told["epoch"].as_u64().unwrap() + 1);
    journal_of(data).pop().is_some_and(|last| last.to_string_lossy().contains(&open))
}

/// A store that was killed, whose journal is spoiled where it is read at the start.
#[test]
fn a_spoiled_journal_at_the_start_is_no_other_proxy() {
    let (folder, killed) = store(false);
    // One that was killed when a batch of its open epoch stood in the journal.
    while !is_amid_an_epoch(&killed) {
        serve(&killed).kill();
    }
    let data = folder.path().join("lied-to");
    let blobs = data.join("cloud/blobs");
    let journal = || journal_of(&data);
    let put = |name: &Path, data: &[u8]| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let name = name.file_name().unwrap().to_string_lossy().replace("%2F", "/");
        runtime.block_on(async {
            let store = FileStore::open(blobs.parent().unwrap()).unwrap();
            let data = Bytes::copy_from_slice(data);
            store.blob_put(&name, data, PutCondition::Always).await.unwrap();
        });
    };
    let lies: [&dyn Fn(); 4] = [
        &|| std::fs::remove_file(journal().pop().unwrap()).unwrap(),
        &|| {
            let last = journal().pop().unwrap();
            let mut bytes = std::fs::read(&last).unwrap().split_off(24);
            bytes[40] ^= 1;
            put(&last, &bytes);
        },
        &|| {
            let last = journal().pop().unwrap();
            let text = last.to_string_lossy().into_owned();
            let (epoch, place) = text.rsplit_once('-').unwrap();
            let next = u32::from_str_radix(place, 16).unwrap() + 1;
            let bytes = std::fs::read(&last).unwrap().split_off(24);
            put(Path::new(&format!("{epoch}-{next:06x}")), &bytes);
        },
        &|| put(&blobs.join("journal%2F0000000000000000-000000"), b"noise, where nobody looks"),
    ];
    for (number, lie) in lies.iter().enumerate() {
        copy(&killed, &data);
        lie();
        let harmless = number == 3;
        let said =
            ends(if harmless { 0 } else { LIED }, &format!("recover --data {}", data.display()));
        assert!(!said.contains("another proxy"), "{number}: {said}");
    }
}

/// Under a proxy that lives: seen before as "another proxy has opened this store", with the advice
/// to start again.
#[test]
fn a_commit_record_that_is_taken_away_under_a_proxy_is_no_other_proxy() {
    let (folder, sound) = store(true);
    let old = std::fs::read(sound.join("cloud/blobs/commit")).unwrap();
    let data = folder.path().join("lied-to");
    let lies: [&dyn Fn(); 3] = [
        &|| std::fs::remove_file(data.join("cloud/blobs/commit")).unwrap(),
        &|| std::fs::write(data.join("cloud/blobs/commit"), &old).unwrap(),
        &|| std::fs::rename(data.join("cloud/blobs"), data.join("cloud/elsewhere")).unwrap(),
    ];
    for (number, lie) in lies.iter().enumerate() {
        copy(&sound, &data);
        let mut server = serve(&data);
        server.connect().line("SET key value").unwrap();
        lie();
        assert_eq!(server.wait().code(), Some(LIED), "{number}");
        let said = server.last_words();
        assert!(said.contains("does not verify") || said.contains("No such file"), "{said}");
        assert!(!said.contains("another proxy") && !said.contains("start again once"), "{said}");
        assert!(said.contains("docs/exit-codes.md"), "{said}");
    }
}

/// What is no attack: nobody ever had a store there, or nobody may read it.
#[test]
fn what_is_a_mistake_or_an_absence_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for command in ["verify", "inspect", "recover"] {
        ends(64, &format!("{command} --data {}", at("nowhere")));
    }
    std::fs::create_dir_all(at("strange/cloud")).unwrap();
    std::fs::write(at("strange/cloud/format"), "of something else").unwrap();
    for data in ["strange", "fresh"] {
        let (data, store) = (at(data), at("strange/cloud"));
        let line = format!("serve --listen 127.0.0.1:0 --data {data} --store file://{store}");
        let said = ends(64, &line);
        assert!(said.contains("something else") && said.contains("--store"), "{said}");
        assert!(!Path::new(&data).join("proxy/key").exists());
    }
    std::fs::write(at("file"), "").unwrap();
    let file = at("file");
    ends(64, &format!("serve --listen 127.0.0.1:0 --data {} --store file://{file}", at("fresh")));
    let absent = format!("verify --data {} --store grpc://127.0.0.1:1/test", at("used"));
    assert!(serve(&folder.path().join("used")).terminate().success());
    let credentials = folder.path().join("credentials");
    let text = format!("token={0}\npin={0}\n", "0".repeat(64));
    fogbank_env::write_secret(&credentials, text.as_bytes()).unwrap();
    ends(69, &format!("{absent}?credentials={}", credentials.display()));
    // A store there, and no key here.
    let (data, store) = (at("keyless"), at("used/cloud"));
    let said =
        ends(74, &format!("serve --listen 127.0.0.1:0 --data {data} --store file://{store}"));
    assert!(said.contains("put back your copy"), "{said}");
}

/// What is in memory is gone with the process, and nothing says otherwise.
#[test]
fn a_store_in_memory_promises_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.args("serve --listen 127.0.0.1:0 --store memory: --data".split(' '));
    command.arg(folder.path()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    child.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(said.contains("everything in it is lost when this process ends"), "{said}");
    for promise in ["nothing acknowledged is lost", "acknowledged is kept", "keep and back up"] {
        assert!(!said.contains(promise), "{said}");
    }
}

/// A key that was left there said to the next start that its store had been taken away.
#[test]
fn a_store_in_memory_leaves_nothing_and_takes_no_notice_of_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let in_memory = || {
        let started = Server::try_fogbank_of(SHAPE, &data, &["--store", "memory:"]);
        let mut server = started.unwrap_or_else(|said| panic!("{said}"));
        server.connect().line("SET key value").unwrap();
        assert!(server.terminate().success());
    };
    in_memory();
    assert!(!data.exists(), "something was made");
    assert!(serve(&data).terminate().success());
    let files = || {
        let trusted = data.join("proxy");
        let names = std::fs::read_dir(&trusted).unwrap().map(|file| file.unwrap().path());
        names.map(|path| (std::fs::read(&path).unwrap(), path)).collect::<BTreeSet<_>>()
    };
    let before = files();
    in_memory();
    assert!(files() == before);
    // The canary: a start on the store itself changes them.
    assert!(serve(&data).terminate().success());
    assert!(files() != before);
    // What would be gone when the command ends is not made.
    let file = folder.path().join("pairs.csv");
    std::fs::write(&file, "key,value\na,1\n").unwrap();
    let (file, new) = (file.display(), folder.path().join("new"));
    let load = format!("load --from {file} --store memory: --data {}", new.display());
    assert!(ends(64, &load).contains("a store in memory ends with its process"));
    assert!(!new.exists());
}
