//! Hexadecimal digits in files that hold keys: nothing is copied that is not erased.

use zeroize::Zeroizing;

/// Puts the digits of `bytes` behind `text`, in room that is there already.
pub fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
}

/// The bytes of so many digits, if they are that.
pub fn unhex<const N: usize>(digits: &str) -> Option<Zeroizing<[u8; N]>> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let mut bytes = Zeroizing::new([0; N]);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (value(pair[0])? << 4) | value(pair[1])?;
    }
    Some(bytes)
}
