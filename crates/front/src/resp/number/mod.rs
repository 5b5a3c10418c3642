//! Numbers as Redis reads and writes them: the same texts accepted, the same texts produced.
//!
//! Clients compare replies byte for byte, so the grammar is that of the C functions behind Redis
//! (`string2ll`, `strtod`, `strtold`, `%.17g`, `%.17Lf`), not that of Rust's parsers.

mod double;
mod extended;

pub use double::{format_double, parse_bound, parse_double};
pub use extended::Extended;

/// An integer in Redis's strict form: no sign but `-`, no leading zero, no blank, no overflow.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        b"0" => return Some(0),
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.len() > 19 || !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut magnitude: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// An unsigned number as `strtoul` reads it whole: leading zeros and a sign are accepted.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return if text.is_empty() { Some(0) } else { None };
    }
    let mut value: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some(if negative { value.wrapping_neg() } else { value })
}

/// The parts of a number's text that the C parsers agree on.
#[derive(Debug, PartialEq)]
enum Shape {
    NotANumber,
    Infinity,
    /// Decimal or hexadecimal digits, without leading zeros, times a power of ten or of two.
    Digits {
        hex: bool,
        digits: Vec<u8>,
        exponent: i64,
    },
}

/// A number at the start of a text: its sign, its shape and the bytes it takes (0: no number).
struct Scanned {
    negative: bool,
    shape: Shape,
    len: usize,
}

/// Reads as much of `text` as `strtod` would, blanks in front included.
fn scan(text: &[u8]) -> Scanned {
    let blanks = text.iter().take_while(|b| is_blank(**b)).count();
    let mut at = blanks;
    let negative = text.get(at) == Some(&b'-');
    if matches!(text.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    let rest = &text[at..];
    let (shape, len) = scan_unsigned(rest);
    Scanned { negative, shape, len: if len == 0 { 0 } else { at + len } }
}

fn scan_unsigned(text: &[u8]) -> (Shape, usize) {
    if starts_with(text, b"infinity") {
        return (Shape::Infinity, 8);
    }
    if starts_with(text, b"inf") {
        return (Shape::Infinity, 3);
    }
    if starts_with(text, b"nan") {
        return (Shape::NotANumber, 3);
    }
    if starts_with(text, b"0x") {
        let (shape, len) = scan_digits(&text[2..], true);
        if len > 0 {
            return (shape, len + 2);
        }
    }
    scan_digits(text, false)
}

fn scan_digits(text: &[u8], hex: bool) -> (Shape, usize) {
    let is_digit = |b: &u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
    let whole = text.iter().take_while(|b| is_digit(b)).count();
    let mut len = whole;
    let mut fraction = 0;
    if text.get(whole) == Some(&b'.') {
        fraction = text[whole + 1..].iter().take_while(|b| is_digit(b)).count();
        len += 1 + fraction;
    }
    if whole + fraction == 0 {
        return (Shape::NotANumber, 0);
    }
    let mut digits: Vec<u8> = Vec::with_capacity(whole + fraction);
    digits.extend_from_slice(&text[..whole]);
    if fraction > 0 {
        digits.extend_from_slice(&text[whole + 1..whole + 1 + fraction]);
    }
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    digits.drain(..zeros);
    let (power, power_len) = scan_exponent(&text[len..], if hex { b'p' } else { b'e' });
    let place = fraction as i64 * if hex { 4 } else { 1 };
    (Shape::Digits { hex, digits, exponent: power - place }, len + power_len)
}

/// An exponent with its mark, clamped to what no number representable here can need.
fn scan_exponent(text: &[u8], mark: u8) -> (i64, usize) {
    if text.first().map(u8::to_ascii_lowercase) != Some(mark) {
        return (0, 0);
    }
    let signed = matches!(text.get(1), Some(b'-' | b'+'));
    let start = 1 + usize::from(signed);
    let digits = text[start.min(text.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 {
        return (0, 0);
    }
    let mut power: i64 = 0;
    for digit in &text[start..start + digits] {
        power = (power * 10 + i64::from(digit - b'0')).min(1_000_000_000);
    }
    (if text[1] == b'-' { -power } else { power }, start + digits)
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.len() >= word.len() && text[..word.len()].eq_ignore_ascii_case(word)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("01", None),
            ("-0", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1.0", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn cursors_are_lenient() {
        assert_eq!(parse_cursor(b"007"), Some(7));
        assert_eq!(parse_cursor(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_cursor(b"18446744073709551616"), None);
        assert_eq!(parse_cursor(b"x"), None);
        assert_eq!(parse_cursor(b"1x"), None);
    }
}
