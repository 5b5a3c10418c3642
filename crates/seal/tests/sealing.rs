//! What a sealed cell, a blob, a slot order and a key file promise.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use fogbank_env::{Purpose, Randomness};
use fogbank_seal::*;

fn keys(master: u8, store: u8, salt: u8) -> IncarnationKeys {
    let master = MasterKey::from_bytes(&mut [master; 32]);
    IncarnationKeys::derive(&master, StoreId([store; 16]), Salt([salt; 16]))
}

const PLACE: Place = Place { array: 1, chunk: 77, cell: 13, tick: 5 };

#[test]
fn a_cell_opens_only_where_and_when_it_was_sealed() {
    let ours = keys(1, 2, 3);
    let mut cell = [7_u8; 100];
    ours.cells().seal(PLACE, &mut cell);
    let mut out = [0; 84];
    assert_eq!(ours.cells().open(PLACE, &cell, &mut out), Ok(()));
    assert_eq!(out, [7; 84]);

    let moved = [
        Place { array: 2, ..PLACE },
        Place { chunk: 78, ..PLACE },
        Place { cell: 14, ..PLACE },
        Place { tick: 6, ..PLACE },
        Place { tick: 5 | (1 << 39), ..PLACE },
    ];
    for place in moved {
        assert_eq!(ours.cells().open(place, &cell, &mut out), Err(Forged), "{place:?}");
    }
    for other in [keys(9, 2, 3), keys(1, 9, 3), keys(1, 2, 9)] {
        assert_eq!(other.cells().open(PLACE, &cell, &mut out), Err(Forged));
    }
}

#[test]
fn every_flipped_bit_and_every_other_length_is_refused() {
    let ours = keys(1, 2, 3);
    let mut cell = [7_u8; 40];
    ours.cells().seal(PLACE, &mut cell);
    for bit in 0..cell.len() * 8 {
        let mut forged = cell;
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(ours.cells().open(PLACE, &forged, &mut [0; 24]), Err(Forged), "bit {bit}");
    }
    for length in 0..cell.len() {
        assert_eq!(ours.cells().open(PLACE, &cell[..length], &mut [0; 24]), Err(Forged));
    }
}

#[test]
fn a_blob_binds_its_number_and_its_header() {
    let ours = keys(1, 2, 3);
    let place = BlobPlace { kind: 1, piece: 0, sequence: 9 };
    let sealed = ours.blobs().seal(place, b"name", vec![5; 33]);
    assert_eq!(ours.blobs().open(place, b"name", &sealed).as_deref(), Ok(&[5; 33][..]));
    assert_eq!(ours.blobs().open(place, b"other", &sealed), Err(Forged));
    assert_eq!(
        ours.blobs().open(BlobPlace { sequence: 8, ..place }, b"name", &sealed),
        Err(Forged)
    );
    assert_eq!(ours.blobs().open(place, b"name", &sealed[..10]), Err(Forged));
}

#[test]
fn slot_orders_are_permutations_that_repeat_and_are_uniform() {
    let ours = keys(1, 2, 3);
    let order = |chunk, tick| {
        let mut order = [0; 6];
        ours.permutation().order(0, chunk, tick, &mut order);
        order
    };
    assert_eq!(order(3, 4), order(3, 4));
    let mut count = [[0_u32; 6]; 6];
    let draws = 24_000;
    for i in 0..draws {
        let drawn = order(i % 7, u64::from(i));
        let mut sorted = drawn;
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        for (position, slot) in drawn.into_iter().enumerate() {
            count[position][slot as usize] += 1;
        }
    }
    let expected = f64::from(draws) / 6.0;
    let chi2: f64 =
        count.iter().flatten().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum();
    assert!(chi2 < 80.0, "chi-squared {chi2} with 25 degrees of freedom"); // p < 1e-7
}

#[test]
fn a_key_file_is_private_kept_and_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let mut stream = Randomness::repeatable(1).stream(Purpose::MasterKey);
    let missing = load_or_create(&path, &mut stream, false);
    assert!(matches!(missing, Err(KeyFileError::Missing { .. })));

    load_or_create(&path, &mut stream, true).unwrap();
    let text = fs::read(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    load_or_create(&path, &mut stream, true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), text);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let shared = load_or_create(&path, &mut stream, true);
    assert!(matches!(shared, Err(KeyFileError::ReadableByOthers { mode: 0o640, .. })));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for broken in ["", "fogbank-key-1 ", "fogbank-key-1 zz", "something else entirely"] {
        fs::write(&path, broken).unwrap();
        let result = load_or_create(&path, &mut stream, true);
        assert!(matches!(result, Err(KeyFileError::NotAKey { .. })), "{broken:?}");
        assert_eq!(fs::read(&path).unwrap(), broken.as_bytes());
    }
}

#[test]
fn a_key_under_a_passphrase_opens_by_that_alone() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut stream = Randomness::repeatable(1).stream(Purpose::MasterKey);
    let master = load_or_create(&at("key"), &mut stream, true).unwrap();
    let words = Passphrase::of_line(b"correct horse battery\nand more").unwrap();
    let effort = Effort { kib: 64, passes: 2 };
    wrap_key(&at("wrapped"), &master, &words, effort, &mut stream).unwrap();
    let again = wrap_key(&at("wrapped"), &master, &words, effort, &mut stream);
    assert!(matches!(again, Err(KeyFileError::Io { .. })));
    let text = fs::read_to_string(at("wrapped")).unwrap();
    assert_eq!(fs::metadata(at("wrapped")).unwrap().permissions().mode() & 0o777, 0o600);
    let digits = fs::read_to_string(at("key")).unwrap();
    assert!(!text.contains(digits.trim().rsplit(' ').next().unwrap()));

    let open = |text: &str, words: &Passphrase| -> Result<MasterKey, KeyFileError> {
        fs::write(at("wrapped"), text).unwrap();
        match read_key_file(&at("wrapped"))? {
            KeyFile::Plain(_) => panic!("it is no plain key"),
            KeyFile::Wrapped(wrapped) => wrapped.open(words),
        }
    };
    let same = |key: MasterKey| {
        let path = at("out");
        fs::remove_file(&path).ok();
        write_key(&path, &key).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), digits);
    };
    same(open(&text, &words).unwrap());
    same(open(text.trim_end(), &words).unwrap());
    // Where a key has to stand itself, this is none, and stays as it is.
    let sealed = load_or_create(&at("wrapped"), &mut stream, true);
    assert!(matches!(sealed, Err(KeyFileError::Sealed { .. })));
    let other = Passphrase::of_line(b"correct horse batterY").unwrap();
    let wrong = open(&text, &other);
    assert!(matches!(wrong, Err(KeyFileError::WrongPassphrase { .. })), "{wrong:?}");
    // Nothing of it may be missing, or be another.
    for length in 22..text.len() - 1 {
        let cut = open(&text[..length], &words);
        assert!(matches!(cut, Err(KeyFileError::Damaged { .. })), "{length}: {cut:?}");
    }
    for at in 0..text.len() - 1 {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        let flipped = open(std::str::from_utf8(&bytes).unwrap(), &words);
        let is_told = match at {
            0..22 => matches!(flipped, Err(KeyFileError::NotAKey { .. })),
            _ => matches!(flipped, Err(KeyFileError::Damaged { .. })),
        };
        assert!(is_told, "{at}: {flipped:?}");
    }
    // Somebody who makes the check right has not the passphrase; and no file takes what it likes.
    let checked = |text: &str| {
        let check = fogbank_seal::digest(&[text.as_bytes()]);
        let digits: String = check[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{text} {digits}\n")
    };
    let unchecked = text.rsplit_once(' ').unwrap().0;
    assert_eq!(checked(unchecked), text);
    for (from, to) in [(" 64 2 ", " 64 3 "), (" 64 2 ", " 65 2 ")] {
        let changed = open(&checked(&unchecked.replace(from, to)), &words);
        assert!(matches!(changed, Err(KeyFileError::WrongPassphrase { .. })), "{changed:?}");
    }
    let costs = [(1 << 20) + 1, u32::MAX].map(|kib| (kib, 1));
    for (kib, passes) in costs.into_iter().chain([(1 << 20, 5), (64, u32::MAX), (1, 1)]) {
        let asked = checked(&unchecked.replace(" 64 2 ", &format!(" {kib} {passes} ")));
        let costly = open(&asked, &words);
        assert!(matches!(costly, Err(KeyFileError::TooCostly { .. })), "{costly:?}");
    }
    for odd in ["0 2", "64 0", "-1 2", "64", "64 2 2"] {
        let odd = open(&checked(&unchecked.replace(" 64 2 ", &format!(" {odd} "))), &words);
        assert!(matches!(odd, Err(KeyFileError::Damaged { .. })), "{odd:?}");
    }
    fs::set_permissions(at("wrapped"), fs::Permissions::from_mode(0o604)).unwrap();
    let shared = read_key_file(&at("wrapped"));
    assert!(matches!(shared, Err(KeyFileError::ReadableByOthers { mode: 0o604, .. })));
}

#[test]
fn a_passphrase_is_a_line_that_nobody_else_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words");
    let read = |text: &[u8], mode: u32| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Passphrase::read(&path)
    };
    for same in ["twelve words", "twelve words\n", "twelve words\r\nmore"] {
        let words = Passphrase::of_line(b"twelve words").unwrap();
        assert!(read(same.as_bytes(), 0o600).unwrap().is(&words));
    }
    let twelve = "\u{e4}".repeat(12);
    assert!(read(twelve.as_bytes(), 0o400).is_ok());
    assert!(matches!(read(b"", 0o600), Err(PassphraseError::Empty)));
    assert!(matches!(read(b"\ntwelve words", 0o600), Err(PassphraseError::Empty)));
    assert!(matches!(read(b"eleven char", 0o600), Err(PassphraseError::Short(11))));
    for wrong in [vec![b'a'; 1025], vec![0xff; 20]] {
        assert!(matches!(read(&wrong, 0o600), Err(PassphraseError::NotText)));
    }
    assert!(read(&[b'a'; 1024], 0o600).is_ok());
    let shared = read(b"twelve words", 0o640);
    assert!(matches!(shared, Err(PassphraseError::ReadableByOthers { mode: 0o640, .. })));
    let missing = Passphrase::read(&folder.path().join("none"));
    assert!(matches!(missing, Err(PassphraseError::Io { .. })));
    assert!(!format!("{:?}", Passphrase::of_line(b"twelve words")).contains("twelve"));
}
