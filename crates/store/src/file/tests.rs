//! What only a store on a disk owes: surviving the end of its process, a crash, and company.
//!
//! A crash is played by putting older copies of some files back: the kernel may have written any
//! part of what no barrier covered.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::conformance::{self, content};

const ARRAY: ArrayId = ArrayId(1);
const SHAPE: ArrayShape = ArrayShape { chunks: 1000, cells_per_chunk: 4, cell_bytes: 300 };

#[tokio::test(start_paused = true)]
async fn conforms_in_virtual_time() {
    let folder = tempfile::tempdir().unwrap();
    conformance::run(&FileStore::open(folder.path()).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_on_several_threads() {
    let folder = tempfile::tempdir().unwrap();
    conformance::run(&FileStore::open(folder.path()).unwrap()).await;
}

#[tokio::test]
async fn what_a_barrier_covered_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path()).await;
    write(&store, 0..500, 1).await;
    store.barrier().await.unwrap();
    store.delete_chunks(&names(0..100, 1)).await.unwrap();
    write(&store, 0..100, 2).await; // without a barrier: a process that ends loses nothing
    drop(store);
    let store = FileStore::open(folder.path()).unwrap();
    let mut expected = names(0..100, 2);
    expected.extend(names(100..500, 1));
    assert_eq!(store.list_chunks(ARRAY).await.unwrap(), expected);
    assert_intact(&store, &expected).await;
    store.create_array(ARRAY, SHAPE).await.unwrap();
    let other = ArrayShape { cell_bytes: 301, ..SHAPE };
    let refused = store.create_array(ARRAY, other).await.unwrap_err();
    assert!(refused.to_string().contains("another shape"), "{refused}");
}

/// The kernel wrote the new cells and lost the new records, or the other way round. In both cases
/// what the barrier covered is intact, and nothing is listed that is not.
#[tokio::test]
async fn a_crash_keeps_what_a_barrier_covered_and_lists_only_what_is_whole() {
    for lost in [&["frames"][..], &["cells"], &["cells", "frames"], &[]] {
        let folder = tempfile::tempdir().unwrap();
        let store = opened(folder.path()).await;
        write(&store, 0..50, 1).await;
        store.delete_chunks(&names(0..10, 1)).await.unwrap();
        store.barrier().await.unwrap(); // ten frames are free and may be used
        let covered = names(10..50, 1);
        let copies = copy_files(folder.path(), lost);
        store.delete_chunks(&names(10..20, 1)).await.unwrap();
        write(&store, 100..130, 2).await;
        drop(store);
        put_back(folder.path(), copies);

        let store = FileStore::open(folder.path()).unwrap();
        let listed = store.list_chunks(ARRAY).await.unwrap();
        assert_intact(&store, &listed).await;
        assert_intact(&store, &covered[10..]).await;
        if lost.contains(&"frames") {
            assert_eq!(listed, covered, "the deletion was lost too, so nothing was overwritten");
        }
        // And it goes on: the lost versions are written again, perhaps with other bytes.
        store.delete_chunks(&names(100..130, 2)).await.unwrap();
        write(&store, 100..130, 2).await;
        store.barrier().await.unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        assert_intact(&store, &names(100..130, 2)).await;
    }
}

/// As long as it is open a file that was deleted takes everything and gives it back: only its name
/// tells, and the next opening.
#[tokio::test]
async fn a_file_that_lost_its_name_is_not_called_durable() {
    for file in ["cells", "frames"] {
        for replaced in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let store = opened(folder.path()).await;
            write(&store, 0..5, 1).await;
            store.barrier().await.unwrap();
            let path = folder.path().join("arrays/00001").join(file);
            let content = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            if replaced {
                fs::write(&path, content).unwrap();
            }
            write(&store, 5..10, 1).await;
            let ended = store.barrier().await;
            let lied = matches!(&ended, Err(StoreError::Misbehaved(what)) if what.contains(file));
            assert!(lied, "{file}, {replaced}: {ended:?}");
            // Whoever comes next is told that the store is to blame, not that it is absent.
            let again = FileStore::open(folder.path()).unwrap().list_chunks(ARRAY).await;
            assert!(replaced || matches!(again, Err(StoreError::Misbehaved(_))), "{again:?}");
        }
    }
}

/// A record that came to the disk before its chunk must not be believed after the next barrier
/// either, when its epoch looks closed.
#[tokio::test]
async fn a_record_without_its_chunk_is_forgotten_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path()).await;
    write(&store, 0..5, 1).await;
    store.barrier().await.unwrap();
    let copies = copy_files(folder.path(), &["cells"]);
    write(&store, 5..10, 1).await;
    drop(store);
    put_back(folder.path(), copies);
    let store = FileStore::open(folder.path()).unwrap();
    assert_eq!(store.list_chunks(ARRAY).await.unwrap(), names(0..5, 1));
    write(&store, 20..21, 1).await;
    store.barrier().await.unwrap();
    drop(store);
    let store = FileStore::open(folder.path()).unwrap();
    let mut expected = names(0..5, 1);
    expected.extend(names(20..21, 1));
    assert_eq!(store.list_chunks(ARRAY).await.unwrap(), expected);
}

#[tokio::test]
async fn frames_are_used_again_and_the_files_stay_short() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path()).await;
    let cells = folder.path().join("arrays/00001/cells");
    assert_eq!(cells.metadata().unwrap().len(), 0, "creating is instant");
    for epoch in 1..50 {
        write(&store, 0..20, epoch).await;
        store.barrier().await.unwrap();
        store.delete_chunks(&names(0..20, epoch - 1)).await.unwrap();
    }
    assert!(cells.metadata().unwrap().len() <= 60 * SHAPE.chunk_bytes() as u64);
    drop(store);
    let store = FileStore::open(folder.path()).unwrap();
    write(&store, 0..20, 50).await;
    assert!(cells.metadata().unwrap().len() <= 60 * SHAPE.chunk_bytes() as u64);
    assert_intact(&store, &names(0..20, 49)).await;
}

/// A proxy that was thought dead goes on beside its successor: both write, both see all of it, and
/// neither overwrites what the other wrote.
#[tokio::test]
async fn two_handles_share_an_array() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (opened(folder.path()).await, opened(folder.path()).await);
    for round in 0..10u64 {
        write(&one, 0..30, 2 * round).await;
        write(&two, 0..30, 2 * round + 1).await;
        for store in [&one, &two] {
            assert_intact(store, &names(0..30, 2 * round)).await;
            assert_intact(store, &names(0..30, 2 * round + 1)).await;
        }
        if round % 3 == 0 {
            two.barrier().await.unwrap();
        }
        one.delete_chunks(&names(0..15, 2 * round + 1)).await.unwrap();
        one.barrier().await.unwrap();
    }
    let there: usize = 10 * 30 + 10 * 15;
    assert_eq!(one.list_chunks(ARRAY).await.unwrap().len(), there);
    assert_eq!(two.list_chunks(ARRAY).await.unwrap(), one.list_chunks(ARRAY).await.unwrap());
    one.drop_array(ARRAY).await.unwrap();
    let gone = two.read_chunks(&names(0..1, 0)).await;
    assert!(matches!(gone, Err(StoreError::NoArray(_))), "{gone:?}");
    two.create_array(ARRAY, SHAPE).await.unwrap();
    assert!(one.list_chunks(ARRAY).await.unwrap().is_empty());
}

/// The folder may be a cloud's, and what it says of an array is held against what its maker knows.
#[tokio::test]
async fn an_array_that_is_not_as_it_was_made_is_a_lie() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(folder.path()).await);
    let again = FileStore::open(folder.path()).unwrap();
    again.expect_array(ARRAY, SHAPE).unwrap();
    let other = ArrayShape { cell_bytes: SHAPE.cell_bytes + 1, ..SHAPE };
    for (array, shape) in [(ARRAY, other), (ArrayId(ARRAY.0 + 1), SHAPE)] {
        let expected = again.expect_array(array, shape);
        assert!(matches!(expected, Err(StoreError::Misbehaved(_))), "{expected:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_beside_writers_see_whole_chunks_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(opened(folder.path()).await);
    let other = Arc::new(opened(folder.path()).await);
    write(&store, 0..40, 0).await;
    let readers = (0..3).map(|reader| {
        let store = if reader == 2 { other.clone() } else { store.clone() };
        tokio::spawn(async move {
            for round in 0..60 {
                let asked = names(0..40, round / 3);
                for (name, read) in asked.iter().zip(store.read_chunks(&asked).await.unwrap()) {
                    assert!(read.is_none_or(|data| data == content(SHAPE, *name)));
                }
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for epoch in 1..20 {
        write(&store, 0..40, epoch).await;
        store.delete_chunks(&names(0..40, epoch - 1)).await.unwrap();
        store.barrier().await.unwrap();
    }
    for reader in readers {
        reader.await.unwrap();
    }
}

/// Two processes race for the same conditional puts; each put that is done raises a number by one,
/// so a put lost to a race would leave the number too low.
#[tokio::test]
async fn conditional_puts_are_atomic_among_processes() {
    let folder = tempfile::tempdir().unwrap();
    drop(FileStore::open(folder.path()).unwrap());
    let test = "file::tests::racing_process";
    let spawn = |_| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored"])
            .env(RACE, folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    for mut racer in (0..3).map(spawn).collect::<Vec<_>>() {
        assert!(racer.wait().unwrap().success());
    }
    let store = FileStore::open(folder.path()).unwrap();
    let (count, _) = store.blob_get("count").await.unwrap().unwrap();
    assert_eq!(count, 3u64.to_le_bytes().map(|b| b * RAISES as u8).to_vec());
    let left = std::fs::read_dir(folder.path().join("tmp")).unwrap().count();
    assert_eq!(left, 0, "no put leaves a file behind");
}

#[tokio::test]
#[ignore = "a process of conditional_puts_are_atomic_among_processes"]
async fn racing_process() {
    let Some(folder) = std::env::var_os(RACE) else { return };
    let store = FileStore::open(folder).unwrap();
    for _ in 0..RAISES {
        loop {
            let seen = store.blob_get("count").await.unwrap();
            let (count, condition) = match seen {
                None => (0, PutCondition::IfAbsent),
                Some((data, tag)) => {
                    let count = u64::from_le_bytes(data[..].try_into().unwrap());
                    (count, PutCondition::IfUnchanged(tag))
                }
            };
            let next = Bytes::copy_from_slice(&(count + 1).to_le_bytes());
            let put = store.blob_put("count", next, condition).await.unwrap();
            if put != PutOutcome::ConditionFailed {
                break;
            }
        }
    }
}

#[tokio::test]
async fn everything_belongs_to_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new/store");
    let store = opened(&root).await;
    store.blob_put("a/b", Bytes::from("c"), PutCondition::IfAbsent).await.unwrap();
    write(&store, 0..3, 0).await;
    let mut folders = vec![folder.path().join("new")];
    while let Some(folder) = folders.pop() {
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let mode = entry.metadata().unwrap().mode() & 0o777;
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => assert_eq!(mode, 0o600, "{entry:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_damaged_record_costs_one_chunk_and_a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path()).await;
    write(&store, 0..5, 1).await;
    store.barrier().await.unwrap();
    drop(store);
    let path = folder.path().join("arrays/00001/frames");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[frames::record_offset(2) as usize + 3] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let store = FileStore::open(folder.path()).unwrap();
    assert_eq!(store.list_chunks(ARRAY).await.unwrap().len(), 4);
    write(&store, 10..20, 1).await;
    let listed = store.list_chunks(ARRAY).await.unwrap();
    assert_eq!(listed.len(), 14);
    assert_intact(&store, &listed).await;
    bytes[8] = 9; // the format
    std::fs::write(&path, &bytes).unwrap();
    let refused = store.list_chunks(ARRAY).await.unwrap_err();
    assert!(matches!(refused, StoreError::Misbehaved(_)), "{refused}");
    for mark in [&b"fogbank file store 2\n"[..], b"\xff\xfe", b"", b"fogbank"] {
        std::fs::write(folder.path().join("format"), mark).unwrap();
        let refused = FileStore::open(folder.path()).unwrap_err();
        assert!(
            matches!(&refused, StoreError::Misbehaved(why) if why.contains("this build knows"))
        );
    }
}

/// A power cut while the very first file was written.
#[tokio::test]
async fn a_mark_that_was_cut_short_is_made_again_where_there_is_nothing_else() {
    for left in [&b""[..], b"fogbank fi", b"\0\0\0\0", b"fogbank file store 1"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("format"), left).unwrap();
        let store = opened(folder.path()).await;
        write(&store, 0..5, 1).await;
        drop(store);
        assert_eq!(opened(folder.path()).await.list_chunks(ARRAY).await.unwrap().len(), 5);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("format"), "of something else").unwrap();
    assert!(matches!(FileStore::open(folder.path()), Err(StoreError::Misbehaved(_))));
}

/// Every file and folder of a store that was opened before: gone, cut off, noise, another kind of
/// thing.
#[tokio::test]
async fn what_was_taken_away_or_exchanged_is_neither_absent_nor_a_mistake() {
    let spoil: [fn(&Path); 4] = [
        |_| (),
        |path| std::fs::write(path, b"\xff\xfe\xfd").unwrap(),
        |path| std::fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink(path, path).unwrap(),
    ];
    for name in ["arrays/00001/shape", "arrays/00001/frames", "arrays/00001/cells", "blobs/b"] {
        for (how, spoil) in spoil.iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let store = opened(folder.path()).await;
            write(&store, 0..5, 1).await;
            store.blob_put("b", Bytes::from("c"), PutCondition::IfAbsent).await.unwrap();
            store.barrier().await.unwrap();
            drop(store);
            let path = folder.path().join(name);
            std::fs::remove_file(&path).unwrap();
            spoil(&path);
            let store = FileStore::open(folder.path()).unwrap();
            let (cells, blob) =
                (store.read_chunks(&names(0..1, 1)).await, store.blob_get("b").await);
            let failed = [cells.err(), blob.err()].into_iter().flatten().next();
            let gone = name == "blobs/b" && how == 0;
            assert!(
                matches!(failed, Some(StoreError::Misbehaved(_))) != gone,
                "{name}: {failed:?}"
            );
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path()).await;
    std::fs::rename(folder.path().join("blobs"), folder.path().join("elsewhere")).unwrap();
    let put = store.blob_put("b", Bytes::from("c"), PutCondition::IfAbsent).await;
    assert!(matches!(put, Err(StoreError::Misbehaved(_))), "{put:?}");
    std::fs::write(folder.path().join("blobs"), "").unwrap();
    assert!(matches!(FileStore::open(folder.path()), Err(StoreError::Misbehaved(_))));
}

#[tokio::test]
async fn a_cells_file_cut_short_is_the_clouds_fault() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path()).await;
    write(&store, 0..5, 1).await;
    std::fs::File::options()
        .write(true)
        .open(folder.path().join("arrays/00001/cells"))
        .unwrap()
        .set_len(100)
        .unwrap();
    let read = store.read_chunks(&names(4..5, 1)).await;
    assert!(matches!(read, Err(StoreError::Misbehaved(_))), "{read:?}");
}

async fn opened(folder: &Path) -> FileStore {
    let store = FileStore::open(folder).unwrap();
    store.create_array(ARRAY, SHAPE).await.unwrap();
    store
}

fn names(chunks: std::ops::Range<u32>, version: u64) -> Vec<ChunkName> {
    chunks.map(|chunk| ChunkName { array: ARRAY, chunk, version }).collect()
}

async fn write(store: &FileStore, chunks: std::ops::Range<u32>, version: u64) {
    let write = |chunk| ChunkWrite { chunk, data: content(SHAPE, chunk) };
    store.write_chunks(names(chunks, version).into_iter().map(write).collect()).await.unwrap();
}

async fn assert_intact(store: &FileStore, names: &[ChunkName]) {
    for (name, read) in names.iter().zip(store.read_chunks(names).await.unwrap()) {
        assert_eq!(read, Some(content(SHAPE, *name)), "{name:?}");
    }
}

fn copy_files(root: &Path, files: &[&str]) -> Vec<(String, Vec<u8>)> {
    let read = |file: &&str| {
        ((*file).to_owned(), std::fs::read(root.join("arrays/00001").join(file)).unwrap())
    };
    files.iter().map(read).collect()
}

fn put_back(root: &Path, copies: Vec<(String, Vec<u8>)>) {
    for (file, bytes) in copies {
        std::fs::write(root.join("arrays/00001").join(file), bytes).unwrap();
    }
}

const RACE: &str = "FOGBANK_TEST_RACE";
const RAISES: u64 = 20;
