//! The request parser against input that nobody meant: it never panics, and what it makes of
//! bytes does not depend on how they were cut.

use crate::support::encode;
use fogbank_front::resp::fuzz_parse;
use proptest::prelude::*;

/// Bytes that mean something to the protocol, and some that do not.
fn protocol_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"*".to_vec()),
        Just(b"$".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"-1".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"'".to_vec()),
        Just(b"\\x4".to_vec()),
        Just(b"9223372036854775808".to_vec()),
        (0..20u32).prop_map(|n| n.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::collection::vec(any::<u8>(), 0..20);
    prop::collection::vec(word, 1..6)
        .prop_map(|words| encode(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2000)
    })]

    #[test]
    fn any_bytes(data in protocol_bytes()) {
        fuzz_parse(&data);
    }

    #[test]
    fn requests_with_one_byte_changed(
        requests in prop::collection::vec(request(), 1..5),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut data = requests.concat();
        let at = at.index(data.len());
        data[at] = byte;
        fuzz_parse(&data);
    }
}
