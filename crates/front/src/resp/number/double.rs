//! Scores: 64-bit floating point, read as `strtod` reads and written as `%.17g` writes.

use super::{Scanned, Shape, is_blank, scan};

/// A score argument. Redis refuses what is not a number, a blank in front, a trailing byte, and
/// what is too large or too small to represent.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    if text.first().is_none_or(|b| is_blank(*b)) {
        return None;
    }
    let scanned = scan(text);
    if scanned.len != text.len() || scanned.len == 0 {
        return None;
    }
    let value = value_of(&scanned, text)?;
    let vanished = value == 0.0
        && matches!(&scanned.shape, Shape::Digits { digits, .. } if !digits.is_empty());
    let overflowed = value.is_infinite() && scanned.shape != Shape::Infinity;
    (!vanished && !overflowed).then_some(value)
}

/// A bound of a score range: as lenient as Redis, which takes an empty text for zero, blanks in
/// front, and anything out of range for infinity.
pub fn parse_bound(text: &[u8]) -> Option<f64> {
    // Redis reads a C string here: a zero byte ends it.
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    let scanned = scan(text);
    if scanned.len == 0 {
        return text.is_empty().then_some(0.0);
    }
    if scanned.len != text.len() {
        return None;
    }
    value_of(&scanned, text)
}

fn value_of(scanned: &Scanned, text: &[u8]) -> Option<f64> {
    let magnitude = match &scanned.shape {
        Shape::NotANumber => return None,
        Shape::Infinity => f64::INFINITY,
        Shape::Digits { hex: true, digits, exponent } => hexadecimal(digits, *exponent),
        Shape::Digits { hex: false, .. } => {
            let text =
                std::str::from_utf8(text).ok()?.trim_start_matches(|c: char| is_blank(c as u8));
            text.trim_start_matches(['+', '-']).parse().ok()?
        }
    };
    Some(if scanned.negative { -magnitude } else { magnitude })
}

fn hexadecimal(digits: &[u8], exponent: i64) -> f64 {
    let mut mantissa: u64 = 0;
    let mut exponent = exponent;
    for digit in digits {
        let value = u64::from((*digit as char).to_digit(16).unwrap_or(0));
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | value;
        } else {
            mantissa |= u64::from(value != 0); // below the rounding point: only whether it is there
            exponent += 4;
        }
    }
    let exponent = exponent.clamp(-3000, 3000) as i32;
    // Two steps, so that neither factor leaves the range on its own.
    mantissa as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

/// Writes a score as Redis 7.0 does: `inf`, `-inf`, or 17 significant digits, shortest form.
pub fn format_double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    // Whole numbers of moderate size are most scores.
    if value == value.trunc() && value.abs() < 1e15 && (value != 0.0 || value.is_sign_positive()) {
        return (value as i64).to_string();
    }
    let scientific = format!("{value:.16e}");
    let Some((mantissa, power)) = scientific.split_once('e') else { return scientific };
    let power: i32 = power.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    format!("{sign}{}", place_point(if digits.is_empty() { "0" } else { digits }, power))
}

/// `digits` with the point after the first one, times ten to the `power`, as `%g` lays it out.
fn place_point(digits: &str, power: i32) -> String {
    let len = digits.len() as i32;
    if !(-4..17).contains(&power) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{first}{point}{rest}e{sign}{:02}", power.abs());
    }
    if power < 0 {
        return format!("0.{}{digits}", "0".repeat((-power - 1) as usize));
    }
    if len <= power + 1 {
        return format!("{digits}{}", "0".repeat((power + 1 - len) as usize));
    }
    let (whole, fraction) = digits.split_at((power + 1) as usize);
    format!("{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_print_as_percent_17_g() {
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (1.0, "1"),
            (-0.0, "-0"),
            (3.25, "3.25"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e300, "1.0000000000000001e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (123456789.123, "123456789.123"),
            (0.000123, "0.00012300000000000001"),
            (2.2250738585072014e-308, "2.2250738585072014e-308"),
            (9007199254740993.0, "9007199254740992"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(format_double(value), text);
        }
    }

    #[test]
    fn scores_are_read_as_strtod_reads() {
        for (text, value) in [
            ("1", Some(1.0)),
            ("+1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e3", Some(1000.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("0x10", Some(16.0)),
            ("0x.8p1", Some(1.0)),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1e", None),
            ("1e400", None),
            ("1e-400", None),
            ("abc", None),
        ] {
            assert_eq!(parse_double(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn bounds_are_lenient() {
        assert_eq!(parse_bound(b""), Some(0.0));
        assert_eq!(parse_bound(b" 1"), Some(1.0));
        assert_eq!(parse_bound(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_bound(b"1x"), None);
        assert_eq!(parse_bound(b"nan"), None);
    }
}
