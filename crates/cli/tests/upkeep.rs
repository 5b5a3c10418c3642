//! What whoever looks after a store does with it: inspect, recover, verify, back up, restore.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use bytesize::ByteSize;
use fogbank::args::ShapeArgs;
use fogbank::{Key, OpenOptions, Opened, Place, Result};
use fogbank_env::{Clock, FolderLock, SystemClock};

fn fogbank(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.current_dir(folder).args(args).output().expect("the binary runs")
}

/// What is said on standard output by a command that is done.
fn done(folder: &Path, args: &[&str]) -> String {
    let output = fogbank(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("words")
}

/// What is said by a command that ends with `code`.
fn fails(folder: &Path, code: i32, args: &[&str]) -> String {
    let output = fogbank(folder, args);
    let said = String::from_utf8(output.stderr).expect("words");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

fn shape() -> ShapeArgs {
    ShapeArgs {
        capacity: Some(600),
        value_size: Some(ByteSize::b(64)),
        interval_ms: Some(2),
        // Small epochs, so that records lie in the cloud's buckets and not in the proxy's state.
        read_batches: Some(3),
        batch: Some(16),
        write_batch: Some(16),
        ..ShapeArgs::default()
    }
}

async fn open(folder: &Path) -> Result<Opened> {
    OpenOptions::new(Place::local(folder)).open().await
}

fn key(n: u32) -> Key {
    Key::new(b"patient", &n.to_le_bytes())
}

/// From nothing to five blocks.
fn value(n: u32) -> Vec<u8> {
    (0..n * 37 % 320).map(|at| (n + at) as u8).collect()
}

async fn put(opened: &Opened, numbers: std::ops::Range<u32>) -> Result<()> {
    for n in numbers {
        let written = opened
            .proxy()
            .transact(|txn| async move { txn.put(&key(n), value(n).into(), n.into()).await });
        written.await?;
    }
    Ok(())
}

async fn holds(opened: &Opened, numbers: std::ops::Range<u32>) -> Result<()> {
    for n in numbers {
        let record = opened.proxy().transact(|txn| async move { txn.get(&key(n)).await });
        let record = record.await?.expect("a record");
        assert_eq!((&record.value[..], record.attr), (&value(n)[..], n.into()), "{n}");
    }
    Ok(())
}

/// A store with `count` records under `folder/data`, abandoned: nobody closed it.
async fn abandoned(folder: &Path, count: u32) -> PathBuf {
    let data = folder.join("data");
    let opened =
        OpenOptions::new(Place::local(&data)).shape(shape()).open().await.expect("a new store");
    put(&opened, 0..count).await.expect("records");
    data
}

/// The files of a folder whose names begin so.
fn named(folder: &Path, start: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(start)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_nobody_closed_holds_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let data = abandoned(folder.path(), 20).await;
    for round in 1..4 {
        let opened = open(&data).await.unwrap();
        assert!(opened.recovered().epochs_replayed > 0, "{:?}", opened.recovered());
        holds(&opened, 0..20 * round).await.unwrap();
        put(&opened, 20 * round..20 * (round + 1)).await.unwrap();
    }
    let told = done(&data, &["recover", "--data", "."]);
    assert!(told.contains("closed; everything acknowledged is kept"), "{told}");
    let opened = open(&data).await.unwrap();
    assert_eq!(opened.recovered().batches_repeated, 0, "it was closed");
    holds(&opened, 0..80).await.unwrap();
    opened.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_holds_the_same_and_shares_nothing() {
    let folder = tempfile::tempdir().unwrap();
    abandoned(folder.path(), 60).await;
    let folder = folder.path();
    let told = done(folder, &["backup", "--data", "data", "--to", "backup"]);
    assert!(told.contains("wrote backup"), "{told}");
    let said = fails(folder, 64, &["backup", "--data", "data", "--to", "backup"]);
    assert!(said.contains("choose a new name"), "{said}");
    assert_eq!(named(folder, "backup"), ["backup"], "half a backup is left");
    let restore = ["restore", "--from", "backup", "--key", "data/proxy/key", "--data", "new"];
    let told = done(folder, &restore);
    assert!(told.contains("its key is new"), "{told}");
    let said = fails(folder, 64, &restore);
    assert!(said.contains("another --data"), "{said}");

    let opened = open(&folder.join("new")).await.unwrap();
    holds(&opened, 0..60).await.unwrap();
    let count = opened.proxy().transact(|txn| async move { txn.count(b"patient").await });
    assert_eq!(count.await.unwrap(), 60);
    put(&opened, 60..70).await.unwrap();
    opened.close().await.unwrap();
    let keys = ["data", "new"].map(|side| std::fs::read(folder.join(side).join("proxy/key")));
    let [old, new] = keys.map(|key| key.unwrap());
    assert_ne!(old, new);

    // With more room, or less, down to what there is: 145 blocks, but not below.
    let blocks: u32 = (0..60).map(|n| value(n).len().div_ceil(64) as u32).sum();
    for capacity in [blocks, 5000] {
        let (into, asked) = (capacity.to_string(), capacity.to_string());
        let mut args = restore.to_vec();
        args.truncate(5);
        done(folder, &[&args[..], &["--data", &into, "--capacity", &asked]].concat());
        let opened = open(&folder.join(&into)).await.unwrap();
        assert_eq!(opened.config().capacity, capacity);
        holds(&opened, 0..60).await.unwrap();
        put(&opened, 0..60).await.unwrap();
        opened.close().await.unwrap();
        done(folder, &["verify", "--data", &into]);
    }
    let less = (blocks - 1).to_string();
    let too_small = [&restore[..5], &["--data", "small", "--capacity", &less]].concat();
    let said = fails(folder, 64, &too_small);
    assert!(said.contains(&format!("takes {blocks}")) && !folder.join("small").exists(), "{said}");

    // By another key it does not open, nor does half of it.
    std::fs::copy(folder.join("new/proxy/key"), folder.join("other")).unwrap();
    let by_other = ["restore", "--from", "backup", "--key", "other", "--data", "third"];
    assert!(fails(folder, 1, &by_other).contains("damaged"));
    let half = std::fs::read(folder.join("backup")).unwrap();
    std::fs::write(folder.join("backup"), &half[..half.len() / 2]).unwrap();
    let cut = ["restore", "--from", "backup", "--key", "data/proxy/key", "--data", "fourth"];
    assert!(fails(folder, 1, &cut).contains("cut short"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_opens_the_same_data_and_the_old_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    abandoned(folder.path(), 60).await;
    let folder = folder.path();
    let rotate = ["rotate-key", "--data", "data", "--to", "new", "--capacity", "900"];
    let told = done(folder, &rotate);
    assert!(told.contains("its key is new") && told.contains("delete the old store"), "{told}");
    let opened = open(&folder.join("new")).await.unwrap();
    assert_eq!(opened.config().capacity, 900);
    holds(&opened, 0..60).await.unwrap();
    put(&opened, 60..70).await.unwrap();
    opened.close().await.unwrap();
    // The old store is as it was, and knows nothing of what came after.
    let old = open(&folder.join("data")).await.unwrap();
    holds(&old, 0..60).await.unwrap();
    let count = old.proxy().transact(|txn| async move { txn.count(b"patient").await });
    assert_eq!(count.await.unwrap(), 60);
    old.close().await.unwrap();
    let keys = ["data", "new"].map(|side| std::fs::read(folder.join(side).join("proxy/key")));
    let [old, new] = keys.map(|key| key.unwrap());
    assert_ne!(old, new);
    std::fs::write(folder.join("new/proxy/key"), old).unwrap();
    fails(folder, 1, &["verify", "--data", "new"]);

    // Neither over a store that is there, nor into the old one's cloud.
    assert!(fails(folder, 64, &rotate).contains("another --data"));
    let over = ["rotate-key", "--data", "data", "--to", "third", "--to-store", "file://data/cloud"];
    fails(folder, 64, &over);
    assert!(!folder.join("third/proxy/key").exists());
    // A cloud that lies about the old store ends the rotation.
    let cells =
        std::fs::OpenOptions::new().write(true).open(folder.join("data/cloud/arrays/00000/cells"));
    let cells = cells.unwrap();
    let (length, noise) = (cells.metadata().unwrap().len(), [0x5a; 4096]);
    (0..length / 4096).for_each(|page| cells.write_all_at(&noise, page * 4096).unwrap());
    let said = fails(folder, 1, &["rotate-key", "--data", "data", "--to", "fourth"]);
    assert!(said.contains("does not verify"), "{said}");
    // It ended while the old store was read, and until that is done nothing is sent to the new one.
    assert!(!folder.join("fourth").exists());
    assert!(!folder.join("data/proxy/rotating").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_does_not_fit_makes_nothing_and_one_that_fits_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = |n: u32| format!("name {n},{}\n", "v".repeat(n as usize % 200));
    let records: String = (0..300).map(line).collect();
    std::fs::write(folder.join("all.csv"), format!("key,value\n{records}")).unwrap();
    std::fs::write(folder.join("twice.csv"), format!("key,value\n{}{}", line(7), line(7))).unwrap();
    let load = |file: &'static str, capacity: &'static str| {
        ["load", "--from", file, "--capacity", capacity, "--value-size", "64", "--data", "d"]
    };
    let said = fails(folder, 64, &load("all.csv", "100"));
    assert!(
        said.contains("of its 300 records a store of --capacity 100 holds the first"),
        "{said}"
    );
    // It fits what was recommended, and not what is said to be too much.
    let word_after = |said: &str, before: &str| -> String {
        let (_, after) = said.split_once(before).expect("what was said");
        after.split(|c: char| !c.is_ascii_digit()).next().unwrap().to_owned()
    };
    let first: usize = word_after(&said, "holds the first ").parse().unwrap();
    for (lines, fits) in [(first, true), (first + 1, false)] {
        let part: String = (0..lines as u32).map(line).collect();
        std::fs::write(folder.join("part.csv"), format!("key,value\n{part}")).unwrap();
        let args = load("part.csv", "100");
        let args = [&args[..8], &["d-part"]].concat();
        assert_eq!(
            fogbank(folder, &args).status.code(),
            Some(if fits { 0 } else { 64 }),
            "{lines}"
        );
    }
    let enough = word_after(&said, "such as ");
    let args = load("all.csv", "100");
    done(folder, &[&args[..4], &[&enough], &args[5..8], &["d-enough"]].concat());
    let said = fails(folder, 64, &load("twice.csv", "700"));
    assert!(said.contains("line 3") && said.contains("line 2"), "{said}");
    assert!(!folder.join("d").exists());
    let told = done(folder, &load("all.csv", "700"));
    assert!(told.contains("loaded 300 records"), "{told}");
    let told = done(folder, &load("all.csv", "700"));
    assert!(told.contains("this load is finished: all 300 records"), "{told}");
    std::fs::write(folder.join("other.csv"), format!("key,value\n{}", line(7))).unwrap();
    assert!(fails(folder, 64, &load("other.csv", "700")).contains("another --data"));
    let opened = open(&folder.join("d")).await.unwrap();
    for n in [0, 1, 150, 299] {
        let (key, _) = fogbank_front::resp::place_of_string(format!("name {n}").as_bytes());
        let found = opened.proxy().transact(|txn| {
            let key = key.clone();
            async move { txn.get(&key).await }
        });
        assert_eq!(found.await.unwrap().unwrap().value.len(), n % 200);
    }
    opened.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_cut_short_is_not_taken_for_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let data = abandoned(folder.path(), 3).await;
    // What was begun decides how it goes on.
    for (note, goes_on, other) in [
        ("", "a restore or a rotation does not go on", "fogbank load"),
        ("{}", "say the same fogbank load again, which goes on", "restore"),
    ] {
        std::fs::write(data.join("proxy/restoring"), note).unwrap();
        let said = open(&data).await.err().expect("refused").to_string();
        assert!(said.contains(goes_on) && !said.contains(other), "{said}");
        let both = [data.join("proxy"), data.join("cloud")];
        assert!(both.iter().all(|side| said.contains(side.to_str().unwrap())), "{said}");
    }
}

/// What a command says that gets Ctrl-C as soon as `begun` holds.
#[allow(clippy::disallowed_methods)] // another process in real time
fn interrupted(folder: &Path, args: &[&str], begun: impl Fn() -> bool) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    let piped = std::process::Stdio::piped;
    command.current_dir(folder).args(args).stdout(piped()).stderr(piped());
    let mut child = command.spawn().expect("it starts");
    while !begun() {
        assert!(
            child.try_wait().expect("its state").is_none(),
            "{args:?} has ended before it was begun"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let output = child.wait_with_output().expect("what it said");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    said
}

/// A command that ended by the signal itself said nothing, not even that the same goes on.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_says_how_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let data = abandoned(folder.path(), 3).await;
    let folder = folder.path();
    let began = |data: &str| {
        let marker = folder.join(data).join("proxy/filled");
        move || marker.exists()
    };
    std::fs::write(folder.join("pairs.csv"), "key,value\na,1\n").unwrap();
    let load = ["load", "--from", "pairs.csv", "--capacity", "200000", "--data", "loaded"];
    let said = interrupted(folder, &load, began("loaded"));
    assert!(said.contains("say the same fogbank load again, which goes on"), "{said}");
    done(folder, &["backup", "--data", "data", "--to", "saved"]);
    let key = data.join("proxy/key").display().to_string();
    let restore = ["restore", "--from", "saved", "--key", &key, "--capacity", "200000", "--data"];
    let said = interrupted(folder, &[&restore[..], &["new"]].concat(), began("new"));
    assert!(said.contains("a restore or a rotation does not go on"), "{said}");
    // Half a backup goes.
    let partial = || named(folder, "again.partial").len() == 1;
    let backup = ["backup", "--data", "data", "--to", "again"];
    let held = FolderLock::take(&data.join("proxy")).unwrap(); // it waits for that, seconds
    let said = interrupted(folder, &backup, partial);
    drop(held);
    assert!(said.contains("again was not written"), "{said}");
    assert!(named(folder, "again").is_empty());
    done(folder, &backup);
}

/// Of a site the same goes on, and does here.
#[test]
fn a_site_that_is_made_of_another_and_stopped_says_how_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let at = |name: &str| format!("file://{}", folder.join(name).display());
    let cloud = at("cloud");
    done(folder, &["site", "create", "--data", "one", "--size", "64MiB", "--store", &cloud]);
    done(folder, &["site", "backup", "--data", "one", "--to", "saved"]);
    let begun = |data: &str| {
        let note = folder.join(data).join("proxy/site");
        move || note.exists()
    };
    let [second, third] = [at("second"), at("third")];
    let restore = ["site", "restore", "--from", "saved", "--key", "one/proxy/key"];
    let restore = [&restore[..], &["--data", "two", "--store", &second]].concat();
    let rotate = ["site", "rotate-key", "--data", "one", "--to", "three", "--to-store", &third];
    for (command, data, old) in [(&restore[..], "two", false), (&rotate[..], "three", true)] {
        let said = interrupted(folder, command, begun(data));
        assert!(said.contains("the same command begins it anew"), "{said}");
        assert_eq!(said.contains("no client starts at the old site"), old, "{said}");
        done(folder, command);
        done(folder, &["site", "verify", "--data", data]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_reads_every_cell() {
    let folder = tempfile::tempdir().unwrap();
    abandoned(folder.path(), 40).await;
    let folder = folder.path();
    let told = done(folder, &["verify", "--data", "data"]);
    assert!(told.contains("everything that is in use"), "{told}");
    // The canary: one bit, each time in a copy of the store.
    let mut found = 0;
    for part in 1..24 {
        let copy = folder.join(format!("copy-{part}"));
        let copied = Command::new("cp").arg("-r").arg(folder.join("data")).arg(&copy).status();
        assert!(copied.unwrap().success());
        let cells = copy.join("cloud/arrays/00000/cells");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(cells).unwrap();
        let (at, mut byte) = (file.metadata().unwrap().len() / 24 * part, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        let output = fogbank(&copy, &["verify", "--data", "."]);
        let (ended, said) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert!(matches!(ended, Some(0 | 1)), "{ended:?}");
        let told = ["array 0, chunk ", ", version ", ", cell ", "--salvage", "--repair"];
        assert!(ended == Some(0) || told.iter().all(|part| said.contains(part)), "{said}");
        found += u32::from(ended == Some(1));
    }
    assert!(found >= 2, "{found} of 23: the others are frames that are free");
    done(folder, &["verify", "--data", "data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_register_is_said_and_gone_on_from_only_when_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let data = abandoned(folder.path(), 10).await;
    std::fs::remove_file(data.join("proxy/register")).unwrap();
    let said = fails(&data, 74, &["recover", "--data", "."]);
    assert!(said.contains("--accept-rollback-risk"), "{said}");
    assert!(open(&data).await.is_err());
    let told = done(&data, &["recover", "--data", ".", "--accept-rollback-risk"]);
    assert!(told.contains("what the cloud showed"), "{told}");
    let opened = open(&data).await.unwrap();
    holds(&opened, 0..10).await.unwrap();
    opened.close().await.unwrap();

    // An old copy of it: refused, until that is accepted, too. Where nothing has to be accepted the
    // flag changes nothing.
    let old = std::fs::read(data.join("proxy/register")).unwrap();
    done(&data, &["verify", "--data", "."]);
    std::fs::write(data.join("proxy/register"), old).unwrap();
    let said = fails(&data, 1, &["recover", "--data", "."]);
    let [first, then] =
        ["is another proxy running", "--accept-rollback-risk"].map(|w| said.find(w));
    assert!(first.is_some() && first < then, "{said}");
    done(&data, &["recover", "--data", ".", "--accept-rollback-risk"]);
    assert!(data.join("proxy/register.replaced-1").exists());
    let told = done(&data, &["recover", "--data", ".", "--accept-rollback-risk"]);
    assert!(told.contains("everything acknowledged is kept"), "{told}");
}

/// Whoever lost it, it was not us.
#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_lost_an_array_is_to_blame_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = abandoned(folder.path(), 10).await;
    let is_blamed = |command| {
        let said = fails(&data, 1, &[command, "--data", "."]);
        assert!(said.contains("does not verify") && !said.contains("internal fault"), "{said}");
    };
    let (shape, kept) = (data.join("cloud/arrays/00000/shape"), data.join("kept"));
    std::fs::rename(&shape, &kept).unwrap();
    is_blamed("recover");
    std::fs::rename(&kept, &shape).unwrap();
    done(&data, &["recover", "--data", "."]);
    std::fs::remove_file(&shape).unwrap();
    is_blamed("verify");
    std::fs::remove_dir_all(data.join("cloud/arrays/00000")).unwrap();
    is_blamed("verify");
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_tells_what_is_there_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = abandoned(folder.path(), 10).await;
    // What was under way when the store was left comes to its end, and then its lock is free.
    while FolderLock::take(&data.join("proxy")).unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let before = std::fs::read(data.join("cloud/blobs/commit")).unwrap();
    let told = done(&data, &["inspect", "--data", "."]);
    assert!(told.contains("left without being closed") && told.contains("newest state"), "{told}");
    let told = done(&data, &["inspect", "--data", ".", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&json["verified"], &json["openings"]), (&true.into(), &1.into()));
    assert_eq!(json["config"]["capacity"], 600);
    // What anybody sees who has the cloud side only.
    std::fs::rename(data.join("proxy"), data.join("elsewhere")).unwrap();
    let told = done(&data, &["inspect", "--data", "."]);
    assert!(told.contains("what the cloud claims"), "{told}");
    assert_eq!(std::fs::read(data.join("cloud/blobs/commit")).unwrap(), before);
    let key = std::fs::read_to_string(data.join("elsewhere/key")).unwrap();
    assert!(!told.contains(key.split(' ').nth(1).unwrap().trim()));
    assert!(fails(&data, 64, &["inspect", "--data", "nowhere"]).contains("--data"));
    let said = fails(&data, 64, &["verify", "--data", "nowhere"]);
    assert!(said.contains("there is no key") && !data.join("nowhere").exists(), "{said}");
}

/// Nothing of the tree stays in the proxy but the stash.
fn bare_shape() -> ShapeArgs {
    ShapeArgs { cache: Some(ByteSize::b(0)), ..shape() }
}

/// A store whose records lie in its buckets, under `folder/NAME`, closed.
async fn filled(folder: &Path, name: &str, count: u32) -> PathBuf {
    let data = folder.join(name);
    let opened =
        OpenOptions::new(Place::local(&data)).shape(bare_shape()).open().await.expect("done");
    put(&opened, 0..count).await.expect("done");
    opened.close().await.expect("done");
    data
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(copied.expect("done").success());
}

/// Noise over a part of the cells, from the page that this part of all begins with.
fn spoil(data: &Path, from: f64, to: f64) {
    let cells = data.join("cloud/arrays/00000/cells");
    let file = std::fs::OpenOptions::new().write(true).open(cells).expect("done");
    let length = file.metadata().expect("done").len() as f64;
    let noise = vec![0x5a; ((to - from) * length) as usize];
    file.write_all_at(&noise, (from * length) as u64).expect("done");
}

/// The records that a command called lost.
fn lost(told: &str) -> Vec<u32> {
    let name = |n: &u32| format!("\"{}\" of the group \"patient\"", n.to_le_bytes().escape_ascii());
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("lost: ")).collect();
    let found: Vec<u32> =
        (0..200).filter(|n| lines.iter().any(|line| line.ends_with(&name(n)))).collect();
    assert_eq!(found.len(), lines.len(), "{told}");
    found
}

/// A store holds the records 0 to 60 but for those, and no other.
async fn holds_but(data: &Path, lost: &[u32]) {
    let opened = open(data).await.expect("done");
    for n in 0..60 {
        let record = opened.proxy().transact(|txn| async move { txn.get(&key(n)).await });
        match record.await.expect("done") {
            Some(record) => assert!(record.value == value(n) && !lost.contains(&n), "{n}"),
            None => assert!(lost.contains(&n), "{n} is gone without a word"),
        }
    }
    put(&opened, 0..60).await.expect("done");
    opened.close().await.expect("done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_salvage_keeps_what_verifies_and_names_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let whole = filled(folder.path(), "whole", 60).await;
    let folder = folder.path();
    let salvage = ["backup", "--salvage", "--data", "data", "--to", "saved"];
    let restore = ["restore", "--from", "saved", "--key", "data/proxy/key", "--data", "new"];
    type Damage = fn(&Path);
    let cases: [(&str, Damage, std::ops::RangeInclusive<usize>); 5] = [
        ("nothing", |_| {}, 0..=0),
        // Wide enough that it holds something wherever records lie.
        ("a stretch", |data| spoil(data, 0.3, 0.6), 1..=55),
        ("most", |data| spoil(data, 0.1, 1.0), 30..=60),
        (
            "the end of the file",
            |data| {
                let cells = data.join("cloud/arrays/00000/cells");
                let file = std::fs::OpenOptions::new().write(true).open(cells).unwrap();
                file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            },
            1..=59,
        ),
        (
            "the array",
            |data| std::fs::remove_dir_all(data.join("cloud/arrays/00000")).unwrap(),
            40..=60,
        ),
    ];
    for (case, damage, expected) in cases {
        copy(&whole, &folder.join("data"));
        damage(&folder.join("data"));
        let before = folder.join("before");
        copy(&folder.join("data"), &before);
        let output = fogbank(folder, &salvage);
        let told = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let gone = lost(&told);
        assert!(expected.contains(&gone.len()), "{case}: {} {said}", gone.len());
        let is_whole = gone.is_empty();
        assert_eq!(output.status.code(), Some(if is_whole { 0 } else { 1 }), "{case}: {said}");
        let meant = format!("the loss is {} of 60 records", gone.len());
        assert!(is_whole || said.contains(&meant) && said.contains("Do not trust"), "{said}");
        assert_eq!(told.contains("does not verify: array 0, chunk "), !is_whole, "{told}");
        // What `verify` and `backup` do with it: end at the first.
        assert_eq!(fogbank(folder, &["verify", "--data", "before"]).status.success(), is_whole);
        // It is read and nothing else.
        std::fs::remove_dir_all(&before).unwrap();
        let rest: Vec<_> = std::fs::read_dir(folder.join("data/proxy")).unwrap().collect();
        assert!(rest.len() <= 3, "{rest:?}");
        for file in ["cloud/blobs/commit", "proxy/register", "proxy/key"] {
            let bytes = |side: &Path| std::fs::read(side.join(file)).unwrap();
            assert_eq!(bytes(&whole), bytes(&folder.join("data")), "{file}");
        }
        done(folder, &restore);
        holds_but(&folder.join("new"), &gone).await;
        done(folder, &["verify", "--data", "new"]);
        for name in ["data", "new"] {
            std::fs::remove_dir_all(folder.join(name)).unwrap();
        }
        std::fs::remove_file(folder.join("saved")).unwrap();
    }
    // Without the checkpoint no block is found: it is said that nothing can be done.
    copy(&whole, &folder.join("data"));
    let blobs: Vec<_> = std::fs::read_dir(folder.join("data/cloud/blobs")).unwrap().collect();
    let pieces = blobs.into_iter().map(|blob| blob.unwrap().path());
    let mut pieces =
        pieces.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("checkpoint"));
    std::fs::remove_file(pieces.next().expect("a piece")).unwrap();
    let said = fails(folder, 1, &salvage);
    assert!(said.contains("nothing can be salvaged") && said.contains(": checkpoint/"), "{said}");
    assert_eq!(named(folder, "saved"), [""; 0]);
}

/// A proxy dies in an epoch, and the cells that it was about to read are lost: it cannot be opened
/// any more, since exactly they have to be read again. What was acknowledged is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_opened_any_more_is_made_anew_of_what_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let opened = OpenOptions::new(Place::local(&data)).shape(bare_shape()).open().await.unwrap();
    put(&opened, 0..60).await.unwrap();
    drop(opened);
    let folder = folder.path();
    // Whoever is dropped may still end an epoch.
    let clock = SystemClock::new();
    while !matches!(FolderLock::take(&data.join("proxy")), Ok(Some(_))) {
        clock.sleep_until(clock.now() + 10_000_000).await;
    }
    spoil(&data, 0.2, 0.6);
    fails(folder, 1, &["recover", "--data", "data"]);
    let said = fails(folder, 64, &["verify", "--repair", "--data", "data"]);
    assert!(said.contains("--to"), "{said}");
    let over =
        ["verify", "--repair", "--data", "data", "--to", "n", "--to-store", "file://data/cloud"];
    fails(folder, 64, &over);
    let output = fogbank(folder, &["verify", "--repair", "--data", "data", "--to", "new"]);
    let (told, said) = (output.stdout, String::from_utf8(output.stderr).unwrap());
    let told = String::from_utf8(told).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let gone = lost(&told);
    assert!((1..60).contains(&gone.len()) && told.contains("its key is new"), "{told}");
    holds_but(&folder.join("new"), &gone).await;
}

/// The store is served, and files of it go: the server does not see that before it needs them.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_served_can_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let look = ["verify", "--presence", "--data", "data"];
    let slow = ShapeArgs { interval_ms: Some(300), ..bare_shape() };
    for (name, shape) in [("fast", bare_shape()), ("slow", slow)] {
        let options = OpenOptions::new(Place::local(&data)).shape(shape);
        let opened = options.open().await.unwrap();
        put(&opened, 0..if name == "fast" { 40 } else { 1 }).await.unwrap();
        for _ in 0..4 {
            let told = done(folder.path(), &look);
            assert!(told.contains("everything that has to be there is there"), "{told}");
            assert!(told.contains("not checked: what is in the buckets"), "{told}");
        }
        if name == "fast" {
            let said = fails(folder.path(), 74, &["verify", "--data", "data"]);
            assert!(said.contains("--presence"), "{said}");
            opened.close().await.unwrap();
            done(folder.path(), &look);
            std::fs::remove_dir_all(&data).unwrap();
            continue;
        }
        // A record of the open epoch's journal.
        let blobs = data.join("cloud/blobs");
        let newest = |kind: &str| {
            let names = std::fs::read_dir(&blobs).unwrap().map(|blob| blob.unwrap().path());
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            names.filter(|path| name(path).starts_with(kind)).max()
        };
        let mut missed = false;
        for _ in 0..200 {
            let record = newest("journal");
            let kept = record.as_ref().and_then(|record| std::fs::read(record).ok());
            let removed = |record: &PathBuf| std::fs::remove_file(record).is_ok();
            let Some((record, kept)) = record.filter(removed).zip(kept) else {
                // The epoch has none yet, or has just ended.
                let clock = opened.clock();
                clock.sleep_until(clock.now() + 20_000_000).await;
                continue;
            };
            let output = fogbank(folder.path(), &look);
            let said = String::from_utf8(output.stderr).unwrap();
            if output.status.success() {
                continue; // the epoch has ended meanwhile
            }
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("shorter than the register says: journal/"), "{said}");
            std::fs::write(&record, kept).unwrap();
            missed = true;
            break;
        }
        assert!(missed);
        // The newest delta, which counts until the next full checkpoint.
        let delta = newest("delta").expect("a delta");
        let kept = std::fs::read(&delta).unwrap();
        std::fs::remove_file(&delta).unwrap();
        let said = fails(folder.path(), 1, &look);
        assert!(said.contains(": delta/"), "{said}");
        std::fs::write(&delta, kept).unwrap();
        done(folder.path(), &look);
        // The cells, which the server goes on reading and writing until it ends its epoch.
        std::fs::remove_file(data.join("cloud/arrays/00000/cells")).unwrap();
        let said = fails(folder.path(), 1, &look);
        assert!(said.contains("cells is gone"), "{said}");
        let stopped = opened.proxy().stopped().await.to_string();
        assert!(stopped.contains("was removed while it was open"), "{stopped}");
        let error = opened.close().await.unwrap_err().to_string();
        assert!(error.contains("does not verify") && error.contains("--salvage"), "{error}");
    }
}
