//! What clients of disks send: options and requests are decoded or refused, and what is decoded
//! lies within the disk and within what was sent.

use bolero::check;
use fogbank_front::nbd::fuzz_decode;

use crate::duration;
use crate::mutate::{Edit, damage, pick};

const VALID: &[&[u8]] = &[
    b"IHAVEOPT\0\0\0\x07\0\0\0\x0c\0\0\0\x04disk\0\x01\0\x03",
    b"IHAVEOPT\0\0\0\x06\0\0\0\x06\0\0\0\0\0\0",
    b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk",
    b"IHAVEOPT\0\0\0\x08\0\0\0\0",
    b"\x25\x60\x95\x13\0\x04\0\0cookie78\0\0\0\0\0\0\x12\x34\0\0\x56\x78",
    b"\x25\x60\x95\x13\0\x01\0\x01cookie78\0\0\0\0\0\0\0\0\0\x01\0\0",
    b"\x25\x60\x95\x13\0\x02\0\x06cookie78\0\0\x00\xff\xff\xff\xff\xff\0\0\0\x01",
    b"\x25\x60\x95\x13\0\0\0\x04cookie78\0\0\0\0\0\0\0\x01\xff\xff\xff\xff",
    b"\x25\x60\x95\x13\0\0\0\x03cookie78\0\0\0\0\0\0\0\0\0\0\0\0",
];

const PIECES: &[&[u8]] = &[
    b"IHAVEOPT",
    b"\x25\x60\x95\x13",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\0\0\x10\x01",
    b"\0\x01",
    b"\0\x03",
    b"\0\x06",
    b"\x02\0\0\x01",
];

#[test]
fn damaged_options_and_requests() {
    check!().with_type::<(u8, Vec<Edit>)>().with_test_time(duration() / 2).for_each(
        |(which, edits)| {
            let mut bytes = pick(VALID, *which).to_vec();
            damage(&mut bytes, edits, PIECES, VALID);
            fuzz_decode(&bytes);
        },
    );
}

#[test]
fn what_failed_once() {
    VALID.iter().for_each(|bytes| fuzz_decode(bytes));
}

/// This decoder takes the length of a name as it is said, if an option of its kind follows another.
#[test]
#[should_panic]
fn a_planted_fault_is_met() {
    let broken = |bytes: &[u8]| {
        let twice = bytes.windows(8).filter(|window| window == b"IHAVEOPT").count() > 1;
        let long = bytes.windows(6).any(|window| window == b"\xff\xff\xff\xffdi");
        assert!(!(twice && long), "planted");
    };
    let tries = check!().with_type::<(u8, Vec<Edit>)>().with_test_time(duration());
    tries.for_each(|(which, edits)| {
        let mut bytes = pick(VALID, *which).to_vec();
        damage(&mut bytes, edits, PIECES, VALID);
        broken(&bytes);
    });
}
