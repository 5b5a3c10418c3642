//! Lengths and strings as a dump holds them: as they are, as numbers, or compressed (LZF).

use std::io::Read;

use super::bytes::Bytes;
use super::fault::{Fault, Found};

/// The longest string that a Redis takes, unless it is told otherwise.
const STRING_BYTES_MAX: u64 = 512 << 20;

/// What stands before a string.
enum Head {
    /// How long something is.
    Length(u64),
    /// In which way the string is written instead.
    Coding(u8),
}

impl<R: Read> Bytes<R> {
    /// A length, or a number written as one.
    pub fn length(&mut self) -> Found<u64> {
        match self.head()? {
            Head::Length(length) => Ok(length),
            Head::Coding(_) => Err(Fault::damaged("a length is none")),
        }
    }

    /// A string.
    pub fn string(&mut self) -> Found<Vec<u8>> {
        match self.head()? {
            Head::Length(length) => self.take(kept(length)?),
            Head::Coding(coding) => self.coded(coding),
        }
    }

    /// Passes over a string, which nobody keeps and which may be of any length.
    pub fn skip_string(&mut self) -> Found<()> {
        match self.head()? {
            Head::Length(length) => self.skip(length),
            Head::Coding(coding) => self.coded(coding).map(drop),
        }
    }

    fn head(&mut self) -> Found<Head> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match (first >> 6, first) {
            (0, _) => Head::Length(low.into()),
            (1, _) => Head::Length(u16::from_be_bytes([low, self.byte()?]).into()),
            (3, _) => Head::Coding(low),
            (_, 0x80) => Head::Length(u32::from_be_bytes(self.array()?).into()),
            (_, 0x81) => Head::Length(u64::from_be_bytes(self.array()?)),
            _ => return Err(Fault::damaged("a length is none")),
        })
    }

    fn coded(&mut self, coding: u8) -> Found<Vec<u8>> {
        let number = match coding {
            0 => i8::from_le_bytes(self.array()?).into(),
            1 => i16::from_le_bytes(self.array()?).into(),
            2 => i32::from_le_bytes(self.array()?),
            3 => {
                let (compressed, length) = (kept(self.length()?)?, kept(self.length()?)?);
                let compressed = self.take(compressed)?;
                let whole = usize::try_from(length).ok();
                let whole = whole.and_then(|length| decompressed(&compressed, length));
                return whole.ok_or_else(|| {
                    Fault::damaged(format!("a compressed string is not the {length} bytes it says"))
                });
            }
            _ => return Err(Fault::damaged("a string is coded in no known way")),
        };
        Ok(number.to_string().into_bytes())
    }
}

/// The length of a string that has to be in memory.
fn kept(length: u64) -> Found<u64> {
    if length <= STRING_BYTES_MAX {
        return Ok(length);
    }
    let max = STRING_BYTES_MAX;
    Err(Fault::damaged(format!("a string says that it has {length} bytes, and it may have {max}")))
}

/// What `compressed` is the LZF of, if that has `length` bytes. It grows as it is made, to less
/// than a hundred times what it is made of.
fn decompressed(compressed: &[u8], length: usize) -> Option<Vec<u8>> {
    let (mut rest, mut whole) = (compressed, Vec::new());
    while let Some((first, after)) = rest.split_first() {
        let (count, high) = (usize::from(first >> 5), usize::from(first & 0x1f));
        if count == 0 {
            // So many bytes as they are, and one.
            let (plain, after) = after.split_at_checked(high + 1)?;
            whole.extend_from_slice(plain);
            rest = after;
        } else {
            // Some of what there is already, from so far back, perhaps into itself.
            let (more, after) = if count == 7 { after.split_first()? } else { (&0, after) };
            let (low, after) = after.split_first()?;
            let start = whole.len().checked_sub((high << 8 | usize::from(*low)) + 1)?;
            for at in start..start + count + usize::from(*more) + 2 {
                whole.push(*whole.get(at)?);
            }
            rest = after;
        }
        if whole.len() > length {
            return None;
        }
    }
    (whole.len() == length).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut passed = Bytes::new(bytes);
        let passed = passed.skip_string().is_ok();
        let string = Bytes::new(bytes).string().ok();
        assert_eq!(string.is_some(), passed, "{bytes:?}");
        string
    }

    #[test]
    fn strings_are_what_redis_means_by_them() {
        for (bytes, meant) in [
            (&b"\x02ab"[..], &b"ab"[..]),
            (b"\x40\x02ab", b"ab"),
            (b"\x80\0\0\0\x02ab", b"ab"),
            (b"\x81\0\0\0\0\0\0\0\x02ab", b"ab"),
            (b"\xc0\xff", b"-1"),
            (b"\xc1\x39\x30", b"12345"),
            (b"\xc2\0\0\0\x80", b"-2147483648"),
            (b"\xc3\x02\x01\0a", b"a"),
            (b"\xc3\x05\x05\x01ab\x20\x01", b"ababa"),
            (b"\xc3\x05\x0a\0a\xe0\0\0", b"aaaaaaaaaa"),
        ] {
            assert_eq!(string(bytes).as_deref(), Some(meant), "{bytes:?}");
        }
    }

    #[test]
    fn a_string_that_is_not_what_it_says_is_refused() {
        for bytes in [
            &b"\x82\x02ab"[..],         // no length
            b"\xc4ab",                  // no coding
            b"\xc3\x02\x02\0a",         // shorter than it says
            b"\xc3\x02\0\0a",           // longer
            b"\xc3\x04\x05\0a\x20\x01", // from before its beginning
            b"\xc3\x02\x05\x04a",       // more as it is than there is
            b"\xc3\x03\x05\0a\x20",     // cut off
            b"\xc3\x03\x05\0a\xe0",     // cut off
            b"\xc3\x81\x40\0\0\0\0\0\0\0\x01\0a",
            b"\xc3\x02\x81\x40\0\0\0\0\0\0\0\0a",
            b"\xc3\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\0a",
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xffa",
        ] {
            assert_eq!(string(bytes), None, "{bytes:?}");
        }
    }
}
