//! The parser of requests: whole and in pieces it sees the same, and nothing makes it panic.

use bolero::check;
use fogbank_front::resp::fuzz_parse;

use crate::duration;
use crate::mutate::{Edit, damage, pick};

const VALID: &[&[u8]] = &[
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n",
    b"*3\r\n$3\r\nSET\r\n$2\r\n\r\n\r\n$5\r\na\r\n\0b\r\n",
    b"*0\r\n*1\r\n$4\r\nPING\r\n",
    b"*-1\r\nPING\r\n",
    b"PING\r\n",
    b"\r\n\nSET k \"a \\x00 \\n \\\" b\" 'it\\'s'\r\n",
    b"GET k\n",
    b"*2\r\n$4\r\nECHO\r\n$40\r\n0123456789012345678901234567890123456789\r\n",
    b"*5\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\ng\r\n",
];

const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"*",
    b"$",
    b"*3\r\n",
    b"$3\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"$0\r\n\r\n",
    b"*1000000\r\n",
    b"$536870912\r\n",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"00000000000000000001",
    b"+1",
    b" ",
    b"\"",
    b"'",
    b"\\x",
    b"\0",
    b"\xff\xfe",
];

#[test]
fn damaged_requests() {
    check!().with_type::<(u8, Vec<Edit>)>().with_test_time(duration()).for_each(
        |(which, edits)| {
            let mut bytes = pick(VALID, *which).to_vec();
            damage(&mut bytes, edits, PIECES, VALID);
            fuzz_parse(&bytes);
        },
    );
}

#[test]
fn noise() {
    check!()
        .with_type::<Vec<u8>>()
        .with_test_time(duration() / 4)
        .for_each(|bytes| fuzz_parse(bytes));
}

#[test]
fn what_failed_once() {
    VALID.iter().for_each(|bytes| fuzz_parse(bytes));
}

/// Without coverage to steer by, is a fault deep inside met at all? This parser breaks on a null
/// bulk string inside an array whose length has leading zeros.
#[test]
#[should_panic]
fn a_planted_fault_is_met() {
    let broken = |bytes: &[u8]| {
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(!(has(b"*0") && has(b"\n$-1\r\n$")), "planted");
    };
    let tries = check!().with_type::<(u8, Vec<Edit>)>().with_test_time(duration());
    tries.for_each(|(which, edits)| {
        let mut bytes = pick(VALID, *which).to_vec();
        damage(&mut bytes, edits, PIECES, VALID);
        broken(&bytes);
    });
}
