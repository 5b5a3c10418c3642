//! The storage server's decoder of requests: nothing makes it panic, and what it takes for a
//! request is said by those bytes and no others.

use bolero::check;
use fogbank_cloud::fuzz_request;

use crate::duration;
use crate::mutate::{Edit, damage, pick};

/// Operation, then what follows its length.
fn request(operation: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    [&[operation][..], &(body.len() as u64).to_le_bytes(), &body].concat()
}

/// One of every kind, as docs/format.md draws them.
fn valid() -> Vec<Vec<u8>> {
    let place: &[u8] = &[1, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 1, 0, 0];
    let (one, two): (&[u8], &[u8]) = (&[1, 0, 0, 0], &[2, 0, 0, 0]);
    let reads: &[&[u8]] = &[two, place, &[2, 0], place, &[1, 0], &[0, 0, 3, 0, 5, 0]];
    vec![
        request(0, &[&[1, 0], &[9, 0, 0, 0], &[8, 0], &[64, 0, 0, 0]]),
        request(1, &[&[1, 0]]),
        request(2, reads),
        request(3, &[two, place, place]),
        request(4, &[two, place, two, place, one, b"abc"]),
        request(5, &[one, place]),
        request(6, &[&[1, 0]]),
        request(7, &[&[2, 0], b"ab"]),
        request(8, &[&[0], &[2, 0], b"ab", two, b"xy"]),
        request(8, &[&[2], &[1, 0], b"t", &[2, 0], b"ab", &[0, 0, 0, 0]]),
        request(9, &[two, &[0, 0], &[2, 0], b"ab"]),
        request(10, &[&[0, 0]]),
        request(11, &[]),
        request(12, &[&reads.concat(), two, one, two]),
    ]
}

const PIECES: &[&[u8]] = &[
    &[0, 0],
    &[1, 0],
    &[0, 0, 0, 0],
    &[1, 0, 0, 0],
    &[255, 255],
    &[255, 255, 255, 255],
    &[255, 255, 255, 255, 255, 255, 255, 127],
    &[0, 0, 0, 128],
    "\u{e9}".as_bytes(),
    &[0xc3],
];

/// A request whose length is right again after it was damaged: else no more than the head is looked
/// at.
fn mended(mut bytes: Vec<u8>, mend: bool) -> Vec<u8> {
    if let (true, Some(body)) = (mend, bytes.len().checked_sub(9)) {
        bytes[1..9].copy_from_slice(&(body as u64).to_le_bytes());
    }
    bytes
}

fn damaged(which: u8, edits: &[Edit], mend: bool) -> Vec<u8> {
    let valid = valid();
    let valid: Vec<&[u8]> = valid.iter().map(|bytes| &bytes[..]).collect();
    let mut bytes = pick(&valid, which).to_vec();
    damage(&mut bytes, edits, PIECES, &valid);
    mended(bytes, mend)
}

#[test]
fn damaged_requests_of_stores() {
    check!().with_type::<(u8, Vec<Edit>, bool)>().with_test_time(duration()).for_each(
        |(which, edits, mend)| {
            fuzz_request(&damaged(*which, edits, *mend));
        },
    );
}

#[test]
fn noise_at_a_store() {
    check!().with_type::<(Vec<u8>, u8)>().with_test_time(duration() / 4).for_each(
        |(bytes, operation)| {
            let bytes = [&[operation % 14, 0, 0, 0, 0, 0, 0, 0, 0][..], bytes].concat();
            fuzz_request(&mended(bytes, true));
        },
    );
}

/// What is valid is taken, so the other tests are about a decoder that takes something.
#[test]
fn valid_requests_of_stores_are_taken() {
    for bytes in valid() {
        assert!(fuzz_request(&bytes), "{bytes:?}");
        assert!(
            !fuzz_request(&bytes[..bytes.len() - 1]) && !fuzz_request(&[&bytes[..], &[0]].concat())
        );
    }
}

/// Without coverage to steer by, is a fault behind a right length and a right count met at all?
/// This decoder breaks on a write of which the second chunk says it has more bytes than are left.
#[test]
#[should_panic]
fn a_planted_fault_in_a_store_is_met() {
    let tries = check!().with_type::<(u8, Vec<Edit>, bool)>().with_test_time(duration());
    tries.for_each(|(which, edits, mend)| {
        let bytes = damaged(*which, edits, *mend);
        let length = |at: usize| {
            bytes.get(at..at + 4).map(|n| u32::from_le_bytes(n.try_into().expect("four")) as usize)
        };
        let right = bytes.len() > 9 && bytes[1..9] == (bytes.len() as u64 - 9).to_le_bytes();
        if let (true, Some(4), Some(2), Some(second)) =
            (right, bytes.first().copied(), length(9), length(45))
        {
            assert!(second <= bytes.len() - 49, "planted");
        }
    });
}
