//! Names and bytes of what a log keeps (docs/format.md draws them). Numbers are little-endian.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{LOG_BYTES_MAX, LogEntry, Result, StoreError};

/// The blob that says what was forgotten.
pub(super) const FORGOTTEN: &str = "log/forgotten";
/// How the names of entries begin.
pub(super) const ENTRIES: &str = "log/";
/// And those of results.
pub(super) const RESULTS: &str = "result/";

const HEAD_BYTES: usize = 4 + 8;
const TURN_BYTES: usize = 4 + 8;

/// The name of what a place has under `prefix`.
pub(super) fn name(prefix: &str, place: u64) -> String {
    format!("{prefix}{place:016x}")
}

/// The place that `name` names under `prefix`, if it is one of ours.
pub(super) fn place(prefix: &str, found: &str) -> Option<u64> {
    let place = u64::from_str_radix(found.strip_prefix(prefix)?, 16).ok()?;
    (name(prefix, place) == found).then_some(place)
}

/// An entry as it is kept: session, turn, its bytes.
pub(super) fn encode(entry: &LogEntry) -> Bytes {
    let mut blob = BytesMut::with_capacity(HEAD_BYTES + entry.bytes.len());
    blob.put_u32_le(entry.session);
    blob.put_u64_le(entry.turn);
    blob.put_slice(&entry.bytes);
    blob.freeze()
}

/// What [`encode`] made.
pub(super) fn decode(place: u64, mut blob: Bytes) -> Result<LogEntry> {
    if !(HEAD_BYTES..=HEAD_BYTES + LOG_BYTES_MAX).contains(&blob.len()) {
        return Err(StoreError::Misbehaved(format!("place {place} of the log holds no entry")));
    }
    Ok(LogEntry { session: blob.get_u32_le(), turn: blob.get_u64_le(), bytes: blob })
}

/// The first place that is kept, and the last turn of every session before it.
pub(super) fn encode_forgotten(first: u64, turns: &BTreeMap<u32, u64>) -> Bytes {
    let mut blob = BytesMut::with_capacity(8 + TURN_BYTES * turns.len());
    blob.put_u64_le(first);
    for (session, turn) in turns {
        blob.put_u32_le(*session);
        blob.put_u64_le(*turn);
    }
    blob.freeze()
}

/// What [`encode_forgotten`] made.
pub(super) fn decode_forgotten(mut blob: Bytes) -> Result<(u64, BTreeMap<u32, u64>)> {
    let strange = || StoreError::Misbehaved("what was forgotten of the log is not told".into());
    let first = blob.try_get_u64_le().map_err(|_| strange())?;
    if !blob.len().is_multiple_of(TURN_BYTES) {
        return Err(strange());
    }
    let mut turns = BTreeMap::new();
    while blob.has_remaining() {
        turns.insert(blob.get_u32_le(), blob.get_u64_le());
    }
    Ok((first, turns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_as_it_was_written_or_not_at_all() {
        let entry = LogEntry { session: 7, turn: 1 << 40, bytes: "what".into() };
        assert_eq!(decode(1, encode(&entry)).unwrap(), entry);
        assert!(decode(1, encode(&entry).slice(..HEAD_BYTES - 1)).is_err());
        assert!(decode(1, vec![0; HEAD_BYTES + LOG_BYTES_MAX + 1].into()).is_err());
        let turns = BTreeMap::from([(1, 2), (u32::MAX, u64::MAX)]);
        let forgotten = encode_forgotten(9, &turns);
        assert_eq!(decode_forgotten(forgotten.clone()).unwrap(), (9, turns));
        for cut in [0, 7, 9, forgotten.len() - 1] {
            assert!(decode_forgotten(forgotten.slice(..cut)).is_err(), "{cut}");
        }
        assert_eq!(place(ENTRIES, &name(ENTRIES, u64::MAX)), Some(u64::MAX));
        for none in [FORGOTTEN, "log/1", "log/00000000000000AA", "log/+000000000000001", "result/"]
        {
            assert_eq!(place(ENTRIES, none), None, "{none}");
        }
    }
}
