//! Fingerprints: what a trace holds of the bytes that travelled.
//!
//! They find repetitions and mismatches; they are no commitment against someone who seeks
//! collisions. Two traces can be held against each other only if both took them in the same way,
//! so the head of a trace says how.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// What of a cell is fingerprinted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fingerprints {
    /// All of it: any two cells that differ look different.
    #[default]
    Whole,
    /// The last 16 bytes, where a sealed cell has its tag: enough to tell sealed cells apart, at a
    /// cost that does not grow with them. A forgery that leaves the tag as it was does not show.
    Tail,
}

impl Fingerprints {
    /// The fingerprint of `cell`.
    pub fn of(self, cell: &[u8]) -> u64 {
        match cell.last_chunk::<TAIL_BYTES>() {
            Some(tail) if self == Fingerprints::Tail => of_tail(tail),
            _ => xxh3_64(cell),
        }
    }

    /// Writes the fingerprints of `cells` to `room`, 8 bytes each.
    ///
    /// Cells are cold. Of tails no call is made and nothing is waited for: a processor has the
    /// loads of many of them under way at once.
    pub(super) fn write<'a>(self, cells: impl Iterator<Item = &'a [u8]>, room: &mut [u8]) {
        let each = cells.zip(room.chunks_exact_mut(8));
        match self {
            Self::Whole => each.for_each(|(cell, room)| put(room, xxh3_64(cell))),
            Self::Tail => each.for_each(|(cell, room)| match cell.last_chunk() {
                Some(tail) => put(room, of_tail(tail)),
                None => put(room, xxh3_64(cell)),
            }),
        }
    }
}

#[inline]
fn put(room: &mut [u8], fingerprint: u64) {
    room.copy_from_slice(&fingerprint.to_le_bytes());
}

/// Both halves of a tag, multiplied. A tag is pseudorandom as it is; the product only makes 64 bits
/// of its 128, and takes no call.
#[inline]
fn of_tail(tail: &[u8; TAIL_BYTES]) -> u64 {
    let number = u128::from_le_bytes(*tail);
    let (low, high) = (number as u64 ^ MIX[0], (number >> 64) as u64 ^ MIX[1]);
    let product = u128::from(low) * u128::from(high);
    product as u64 ^ (product >> 64) as u64
}

/// Which fingerprints of cells a trace holds. Those of blobs are always there, over all their
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprinting {
    /// What of a cell.
    pub cells: Fingerprints,
    /// Whether cells in replies have one too. Those written always have.
    pub replies: bool,
}

impl fmt::Display for Fingerprinting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cells {
            Fingerprints::Whole => "fingerprints of whole cells",
            Fingerprints::Tail => "fingerprints of the tags of cells",
        })?;
        f.write_str(if self.replies { "" } else { ", none in replies" })
    }
}

const TAIL_BYTES: usize = 16;
/// Digits of pi: any two numbers of mixed bits would do.
const MIX: [u64; 2] = [0x243F_6A88_85A3_08D3, 0x1319_8A2E_0370_7344];
