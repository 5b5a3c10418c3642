//! The register as a file.

use std::os::unix::fs::FileExt;

use fogbank_durable::{Error, FileRegister, Register, RegisterValue};
use fogbank_seal::StoreId;

fn value(sequence: u64) -> RegisterValue {
    let digest = [sequence as u8; 32];
    let (store, opening) = (StoreId([1; 16]), 1);
    RegisterValue { store, opening, sequence, commit: digest, epoch: 7, place: 3, journal: digest }
}

#[test]
fn a_value_comes_back_from_its_bytes() {
    let bytes = value(9).encode();
    assert_eq!(bytes.len(), RegisterValue::BYTES);
    assert_eq!(RegisterValue::decode(&bytes), Some(value(9)));
    assert_eq!(RegisterValue::decode(&bytes[1..]), None);
    assert_eq!(RegisterValue::decode(&[&bytes[..], &[0]].concat()), None);
}

#[tokio::test]
async fn a_file_keeps_its_value_and_refuses_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("register");
    let register = FileRegister::new(&path);
    assert_eq!(register.read().await.unwrap(), None);
    let mut before = None;
    for sequence in 1..5 {
        register.write(before, value(sequence)).await.unwrap();
        before = Some(value(sequence));
        assert_eq!(FileRegister::new(&path).read().await.unwrap(), before);
    }
    let whole = std::fs::read(&path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for (at, byte) in whole.iter().enumerate() {
        file.write_all_at(&[byte ^ 0x10], at as u64).unwrap();
        let read = FileRegister::new(&path).read().await;
        assert!(matches!(read, Err(Error::Register { .. })), "byte {at}");
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    assert_eq!(FileRegister::new(&path).read().await.unwrap(), before);
    file.set_len(700).unwrap();
    assert!(FileRegister::new(&path).read().await.is_err());
}

/// The slot that was being written is lost, the one before it is whole: what `write` had not yet
/// promised may be gone, what it had is there.
#[tokio::test]
async fn a_write_that_never_reached_the_disk_leaves_the_value_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("register");
    let register = FileRegister::new(&path);
    register.write(None, value(1)).await.unwrap();
    register.write(Some(value(1)), value(2)).await.unwrap();
    let before = std::fs::read(&path).unwrap();
    register.write(Some(value(2)), value(3)).await.unwrap();
    std::fs::write(&path, before).unwrap();
    assert_eq!(FileRegister::new(&path).read().await.unwrap(), Some(value(2)));
}

#[tokio::test]
async fn a_writer_that_was_overtaken_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let register = FileRegister::new(&folder.path().join("register"));
    register.write(None, value(1)).await.unwrap();
    register.write(Some(value(1)), value(2)).await.unwrap();
    let late = register.write(Some(value(1)), value(3)).await;
    assert!(matches!(late, Err(Error::Fenced)));
    register.write(Some(value(1)), value(2)).await.unwrap();
    assert_eq!(register.read().await.unwrap(), Some(value(2)));
}

/// What a bump costs: `cargo test --release -p fogbank-durable --test register -- --ignored
/// --nocapture`, with TMPDIR on the disk in question.
#[tokio::test]
#[ignore = "measures a disk"]
async fn cost_of_a_bump() {
    use fogbank_env::{Clock, SystemClock};
    let folder = tempfile::tempdir().unwrap();
    let register = FileRegister::new(&folder.path().join("register"));
    let (clock, bumps) = (SystemClock::new(), 2_000);
    let mut took: Vec<u64> = Vec::new();
    for sequence in 0..bumps {
        let from = (sequence > 0).then(|| value(sequence - 1));
        let start = clock.now();
        register.write(from, value(sequence)).await.unwrap();
        took.push(clock.now() - start);
    }
    took.sort_unstable();
    let us = |at: usize| took[at] / 1_000;
    let (median, high) = (us(took.len() / 2), us(took.len() * 99 / 100));
    println!("a bump takes {median} us, 1 in 100 more than {high} us");
    let path = folder.path().join("replaced");
    let mut took: Vec<u64> = Vec::new();
    for _ in 0..500 {
        let start = clock.now();
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, [0; 128]).unwrap();
        std::fs::File::open(&fresh).unwrap().sync_all().unwrap();
        std::fs::rename(&fresh, &path).unwrap();
        std::fs::File::open(folder.path()).unwrap().sync_all().unwrap();
        took.push(clock.now() - start);
    }
    took.sort_unstable();
    println!("by rename it takes {} us", took[250] / 1_000);
}
