//! What whoever looks after a store does with it: inspect, recover, verify, back up, restore.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bytesize::ByteSize;
use fogbank::args::ShapeArgs;
use fogbank::{Key, OpenOptions, Opened, Place, Result};

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
    assert!(!folder.join("backup.partial").exists());
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
    std::fs::write(data.join("proxy/restoring"), "").unwrap();
    let said = open(&data).await.err().expect("refused").to_string();
    assert!(said.contains("restore again"), "{said}");
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
    for part in 1..8 {
        let copy = folder.join(format!("copy-{part}"));
        let copied = Command::new("cp").arg("-r").arg(folder.join("data")).arg(&copy).status();
        assert!(copied.unwrap().success());
        let cells = copy.join("cloud/arrays/00000/cells");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(cells).unwrap();
        let (at, mut byte) = (file.metadata().unwrap().len() / 8 * part, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        let output = fogbank(&copy, &["verify", "--data", "."]);
        let (ended, said) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert!(matches!(ended, Some(0 | 1)), "{ended:?}");
        let told = ["array 0, chunk ", ", version ", ", cell ", "--salvage", "--repair"];
        assert!(ended == Some(0) || told.iter().all(|part| said.contains(part)), "{said}");
        found += u32::from(ended == Some(1));
    }
    assert!(found >= 2, "{found} of 7: the others are frames that are free");
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
