//! Numbers, names and sets of cells as bytes: short where they are small or near the last one.

use crate::{ArrayId, ChunkName};

/// Appends `number`, seven bits a byte, the lowest first.
#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a text or other bytes, their length first.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends how `name` differs from `last`, and makes it the last.
#[inline]
pub(super) fn put_name(out: &mut Vec<u8>, last: &mut ChunkName, name: ChunkName) {
    put_varint(out, zigzag(i64::from(name.array.0) - i64::from(last.array.0)));
    put_varint(out, zigzag(i64::from(name.chunk) - i64::from(last.chunk)));
    put_varint(out, zigzag(name.version.wrapping_sub(last.version) as i64));
    *last = name;
}

/// Appends a set of cells in the shortest of three forms, or as the list that it must not be.
///
/// The first number is `count * 4 + form`. Form 0: the first cell, then the gaps. Form 1: a run,
/// the first cell. Form 2: the first cell, the number of bytes, a bitmap from the first cell on.
/// Form 3, for a list that does not strictly increase, which the store will refuse: each cell.
#[inline]
pub(super) fn put_cells(out: &mut Vec<u8>, cells: &[u16]) {
    let head = cells.len() as u64 * 4;
    let (Some(&first), Some(&last)) = (cells.first(), cells.last()) else {
        put_varint(out, head);
        return;
    };
    if !cells.is_sorted_by(|a, b| a < b) {
        put_varint(out, head + 3);
        cells.iter().for_each(|&cell| put_varint(out, u64::from(cell)));
        return;
    }
    let span = (last - first) as usize + 1;
    if span == cells.len() {
        put_varint(out, head + 1);
        put_varint(out, u64::from(first));
    } else if span.div_ceil(8) + 1 < cells.len() {
        put_varint(out, head + 2);
        put_varint(out, u64::from(first));
        put_varint(out, span.div_ceil(8) as u64);
        let start = out.len();
        out.resize(start + span.div_ceil(8), 0);
        for cell in cells {
            let bit = (cell - first) as usize;
            out[start + bit / 8] |= 1 << (bit % 8);
        }
    } else {
        put_varint(out, head);
        put_varint(out, u64::from(first));
        for pair in cells.windows(2) {
            put_varint(out, u64::from(pair[1] - pair[0]));
        }
    }
}

/// Bytes being read; `None` from any method means that they are not what they should be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None; // more than 64 bits
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number of items of at least `item_bytes` each, which must still fit what is left: a
    /// damaged count cannot make the reader reserve memory for it.
    pub(super) fn count(&mut self, item_bytes: usize) -> Option<usize> {
        let count = usize::try_from(self.varint()?).ok()?;
        (count.checked_mul(item_bytes)? <= self.0.len()).then_some(count)
    }

    pub(super) fn name(&mut self, last: &mut ChunkName) -> Option<ChunkName> {
        let array = i64::from(last.array.0).checked_add(unzigzag(self.varint()?))?;
        let chunk = i64::from(last.chunk).checked_add(unzigzag(self.varint()?))?;
        let version = last.version.wrapping_add(unzigzag(self.varint()?) as u64);
        let array = ArrayId(array.try_into().ok()?);
        *last = ChunkName { array, chunk: chunk.try_into().ok()?, version };
        Some(*last)
    }

    /// Cells of one chunk, `most` at most, into `cells`, which is empty.
    pub(super) fn cells(&mut self, mut cells: Vec<u16>, most: usize) -> Option<Vec<u16>> {
        let head = self.varint()?;
        let fits = |count: &usize| *count <= most.min(self.0.len() * 8 + (1 << 16));
        let count = usize::try_from(head / 4).ok().filter(fits)?;
        if count == 0 {
            return (head == 0).then_some(cells);
        }
        cells.reserve(count);
        let first = u16::try_from(self.varint()?).ok()?;
        match head % 4 {
            0 => {
                cells.push(first);
                let mut last = first;
                for _ in 1..count {
                    last = last.checked_add(u16::try_from(self.varint()?).ok()?)?;
                    cells.push(last);
                }
            }
            1 => {
                let last = first.checked_add(u16::try_from(count - 1).ok()?)?;
                cells.extend(first..=last);
            }
            2 => {
                let length = self.count(1)?;
                for (at, byte) in self.take(length)?.iter().enumerate() {
                    for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                        let cell = usize::from(first) + at * 8 + bit;
                        cells.push(u16::try_from(cell).ok()?);
                    }
                }
            }
            _ => {
                cells.push(first);
                for _ in 1..count {
                    cells.push(u16::try_from(self.varint()?).ok()?);
                }
            }
        }
        (cells.len() == count).then_some(cells)
    }
}

/// No name yet: what the first name of an event differs from.
pub(super) const NO_NAME: ChunkName = ChunkName { array: ArrayId(0), chunk: 0, version: 0 };

#[inline]
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
