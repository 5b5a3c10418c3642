//! The bytes of a `frames` file: what each frame of `cells` holds.
//!
//! ```text
//! 0     magic "fogframe"   8     format 1 (u32)   12  barrier epoch (u32)
//! 16    turn (u64)         24    dropped (u64)    32  xxh3 of bytes 0..32 (u64)
//! 4096  record of frame 0, then one every 32 bytes
//!
//! record:  0 chunk (u32)   4 epoch (u32)   8 version (u64)   16 xxh3 of the chunk's bytes (u64)
//!         24 state (u32)  28 low half of xxh3 of bytes 0..28, seeded with the frame's number
//! ```
//!
//! Little endian throughout. Invariants:
//! - a record and the header lie within one disk sector each, so a crash leaves the old or the new;
//! - a record of all zeros is a frame never used, so the file grows without being initialised;
//! - a live record whose epoch is at most the header's was made durable after its chunk was. A
//!   later one may have reached the disk before its chunk: it counts only if the chunk's bytes
//!   match.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const HEADER_BYTES: usize = 40;
pub(super) const RECORDS_START: u64 = 4096;
pub(super) const RECORD_BYTES: usize = 32;

/// The head of a `frames` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Barriers that were completed.
    pub(super) epoch: u32,
    /// Grows whenever another handle takes the array over.
    pub(super) turn: u64,
    /// The array was dropped: whoever still has it open must let go.
    pub(super) dropped: bool,
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    Never,
    Free,
    Live(Record),
    /// The record contradicts itself: neither read nor reused, so that nothing more is lost.
    Damaged,
}

/// A chunk version in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) chunk: u32,
    pub(super) version: u64,
    pub(super) epoch: u32,
    pub(super) fingerprint: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.turn.to_le_bytes());
        bytes[24..32].copy_from_slice(&u64::from(self.dropped).to_le_bytes());
        let check = xxh3_64(&bytes[..32]);
        bytes[32..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` if these bytes are no header that this build knows.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let sound = &bytes[..8] == MAGIC
            && u32_at(bytes, 8) == FORMAT
            && u64_at(bytes, 32) == xxh3_64(&bytes[..32]);
        sound.then(|| Self {
            epoch: u32_at(bytes, 12),
            turn: u64_at(bytes, 16),
            dropped: u64_at(bytes, 24) != 0,
        })
    }
}

impl Frame {
    pub(super) fn encode(&self, frame: u32) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let state = match self {
            Frame::Never | Frame::Damaged => return bytes,
            Frame::Free => STATE_FREE,
            Frame::Live(record) => {
                bytes[..4].copy_from_slice(&record.chunk.to_le_bytes());
                bytes[4..8].copy_from_slice(&record.epoch.to_le_bytes());
                bytes[8..16].copy_from_slice(&record.version.to_le_bytes());
                bytes[16..24].copy_from_slice(&record.fingerprint.to_le_bytes());
                STATE_LIVE
            }
        };
        bytes[24..28].copy_from_slice(&state.to_le_bytes());
        let check = check(&bytes, frame);
        bytes[28..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8], frame: u32) -> Self {
        if bytes.iter().all(|&byte| byte == 0) {
            return Frame::Never;
        }
        if u32_at(bytes, 28) != check(bytes, frame) {
            return Frame::Damaged;
        }
        match u32_at(bytes, 24) {
            STATE_FREE => Frame::Free,
            STATE_LIVE => Frame::Live(Record {
                chunk: u32_at(bytes, 0),
                epoch: u32_at(bytes, 4),
                version: u64_at(bytes, 8),
                fingerprint: u64_at(bytes, 16),
            }),
            _ => Frame::Damaged,
        }
    }
}

/// Where the record of `frame` is in the file.
pub(super) fn record_offset(frame: u32) -> u64 {
    RECORDS_START + u64::from(frame) * RECORD_BYTES as u64
}

fn check(bytes: &[u8], frame: u32) -> u32 {
    xxh3_64_with_seed(&bytes[..28], u64::from(frame)) as u32
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

const MAGIC: &[u8; 8] = b"fogframe";
const FORMAT: u32 = 1;
const STATE_LIVE: u32 = 1;
const STATE_FREE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_headers_come_back_and_every_flipped_bit_is_noticed() {
        let header = Header { epoch: 7, turn: 1 << 40, dropped: false };
        let live =
            Frame::Live(Record { chunk: 3, version: u64::MAX, epoch: 9, fingerprint: 1 << 63 });
        for frame in [live, Frame::Free, Frame::Never] {
            assert_eq!(Frame::decode(&frame.encode(5), 5), frame);
        }
        assert_eq!(Frame::decode(&live.encode(5), 6), Frame::Damaged, "a record of another frame");
        assert_eq!(Header::decode(&header.encode()), Some(header));
        for bit in 0..RECORD_BYTES * 8 {
            let mut bytes = live.encode(5);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::decode(&bytes, 5), Frame::Damaged);
        }
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = header.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes), None);
        }
    }
}
