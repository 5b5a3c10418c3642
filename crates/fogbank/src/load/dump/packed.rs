//! Small collections, which Redis keeps, and dumps, as one string: all that is in them in a row.

use super::fault::{Fault, Found};

/// How they stand in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Redis 7 and later.
    ListPack,
    /// Before that.
    ZipList,
    /// Hashes before Redis 2.6.
    ZipMap,
}

/// What is in such a string.
pub struct Packed<'a> {
    packing: Packing,
    rest: &'a [u8],
    /// How many it says there are; unknown if it is too many to say.
    said: Option<usize>,
    seen: usize,
    /// Bytes of the last one that was taken.
    last_bytes: usize,
    /// How many those of the last one of all are.
    end_bytes: Option<usize>,
}

/// The last byte of each.
const END: u8 = 0xff;

impl<'a> Packed<'a> {
    /// What is in `string`.
    pub fn new(packing: Packing, string: &'a [u8]) -> Found<Self> {
        let begin = || {
            let (mut rest, mut end_bytes) = (string, None);
            let said = match packing {
                Packing::ZipMap => Some(byte(&mut rest)?).filter(|n| *n < BIG).map(u16::from),
                Packing::ListPack | Packing::ZipList => {
                    let bytes = size(u32::from_le_bytes(array(&mut rest)?))?;
                    if packing == Packing::ZipList {
                        let last = size(u32::from_le_bytes(array(&mut rest)?))?;
                        end_bytes = Some(bytes.checked_sub(last)?.checked_sub(1)?);
                    }
                    (bytes == string.len()).then_some(())?;
                    Some(u16::from_le_bytes(array(&mut rest)?)).filter(|n| *n < u16::MAX)
                }
            };
            let each = if packing == Packing::ZipMap { 2 } else { 1 };
            let said = said.map(|n| usize::from(n) * each);
            Some(Self { packing, rest, said, seen: 0, last_bytes: 0, end_bytes })
        };
        begin().ok_or_else(damaged)
    }

    /// The next one, unless that was all.
    pub fn next(&mut self) -> Found<Option<Vec<u8>>> {
        if self.rest == [END] {
            let whole = self.said.is_none_or(|said| said == self.seen)
                && self.end_bytes.is_none_or(|bytes| bytes == self.last_bytes);
            return if whole { Ok(None) } else { Err(damaged()) };
        }
        let before = self.rest.len();
        let next = match self.packing {
            Packing::ListPack => of_list_pack(&mut self.rest),
            Packing::ZipList => of_zip_list(&mut self.rest, self.last_bytes),
            Packing::ZipMap => of_zip_map(&mut self.rest, !self.seen.is_multiple_of(2)),
        };
        self.last_bytes = before - self.rest.len();
        self.seen += 1;
        next.map(Some).ok_or_else(damaged)
    }
}

fn damaged() -> Fault {
    Fault::damaged("what it has does not add up")
}

/// A head that says what follows, that, and how long both are, for who reads backwards.
fn of_list_pack(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let before = rest.len();
    let first = byte(rest)?;
    let one = match first {
        0..0x80 => number(first.into()),
        0x80..0xc0 => string(rest, usize::from(first & 0x3f))?,
        0xc0..0xe0 => {
            let bits = u16::from_be_bytes([first & 0x1f, byte(rest)?]);
            let below_zero = if bits < 1 << 12 { 0 } else { 1 << 13 };
            number(i64::from(bits) - below_zero)
        }
        0xe0..0xf0 => {
            let length = u16::from_be_bytes([first & 0x0f, byte(rest)?]);
            string(rest, length.into())?
        }
        0xf0 => {
            let length = u32::from_le_bytes(array(rest)?);
            string(rest, size(length)?)?
        }
        0xf1 => number(i16::from_le_bytes(array(rest)?).into()),
        0xf2 => number(of_three_bytes(array(rest)?)),
        0xf3 => number(i32::from_le_bytes(array(rest)?).into()),
        0xf4 => number(i64::from_le_bytes(array(rest)?)),
        _ => return None,
    };
    let length = before - rest.len();
    // So are the bounds of Redis.
    let count = match length {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    // Seven bits each, the highest first; who comes from behind is told to go on.
    let behind = (0..count).map(|at| {
        let bits = (length >> (7 * (count - 1 - at))) as u8 & 0x7f;
        if at == 0 { bits } else { bits | 0x80 }
    });
    cut(rest, count)?.iter().copied().eq(behind).then_some(one)
}

/// How long the one before is, a head that says what follows, and that.
fn of_zip_list(rest: &mut &[u8], last_bytes: usize) -> Option<Vec<u8>> {
    let said = match byte(rest)? {
        END => return None,
        BIG => size(u32::from_le_bytes(array(rest)?))?,
        bytes => bytes.into(),
    };
    (said == last_bytes).then_some(())?;
    let first = byte(rest)?;
    Some(match first {
        0..0x40 => string(rest, first.into())?,
        0x40..0x80 => {
            let length = u16::from_be_bytes([first & 0x3f, byte(rest)?]);
            string(rest, length.into())?
        }
        0x80 => {
            let length = u32::from_be_bytes(array(rest)?);
            string(rest, size(length)?)?
        }
        0xc0 => number(i16::from_le_bytes(array(rest)?).into()),
        0xd0 => number(i32::from_le_bytes(array(rest)?).into()),
        0xe0 => number(i64::from_le_bytes(array(rest)?)),
        0xf0 => number(of_three_bytes(array(rest)?)),
        0xf1..0xfe => number(i64::from(first & 0x0f) - 1),
        0xfe => number(i8::from_le_bytes(array(rest)?).into()),
        _ => return None,
    })
}

/// Its length and it; between them, if it `is_value`, how many free bytes follow.
fn of_zip_map(rest: &mut &[u8], is_value: bool) -> Option<Vec<u8>> {
    let length = match byte(rest)? {
        END => return None,
        BIG => size(u32::from_le_bytes(array(rest)?))?,
        length => length.into(),
    };
    let free = if is_value { byte(rest)? } else { 0 };
    let one = string(rest, length)?;
    cut(rest, free.into())?;
    Some(one)
}

/// In place of a length that takes one byte: the length follows, in four. In place of a number of
/// fields: they are too many to say.
const BIG: u8 = 0xfe;

fn of_three_bytes(bytes: [u8; 3]) -> i64 {
    let [low, middle, high] = bytes;
    (i32::from_le_bytes([0, low, middle, high]) >> 8).into()
}

fn size(bytes: u32) -> Option<usize> {
    bytes.try_into().ok()
}

fn number(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn string(rest: &mut &[u8], length: usize) -> Option<Vec<u8>> {
    cut(rest, length).map(<[u8]>::to_vec)
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    array(rest).map(u8::from_le_bytes)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    cut(rest, N)?.first_chunk().copied()
}

/// The next `count` bytes.
fn cut<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    rest.split_off(..count)
}
