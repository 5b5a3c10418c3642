//! The 80-bit floating point of `INCRBYFLOAT` and `HINCRBYFLOAT`.
//!
//! Redis computes these in C's `long double` and prints with `%.17Lf`. With a 64-bit significand
//! 10.5 + 0.1 prints as `10.6`; with the 53 bits of `f64` it prints as `10.59999999999999964`, and
//! a client that compares texts notices. So: a software float with a 64-bit significand, reading,
//! adding and printing correctly rounded (half to even).

use super::{Shape, is_blank, scan};
use std::cmp::Ordering;

/// Longest text that Redis accepts for such a number.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Powers of two beyond which the x87 format has no finite number.
const EXPONENT_MAX: i64 = 16384;
/// Powers of ten beyond which every number over- or underflows.
const POWER_OF_TEN_MAX: i64 = 11_000;

/// A number with a 64-bit significand, or an infinity; never not-a-number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extended {
    /// Plus or minus infinity.
    Infinity {
        /// Whether it is below zero.
        negative: bool,
    },
    /// `significand * 2^exponent`; the top bit of the significand is set unless it is zero.
    Finite {
        /// Whether it is below zero.
        negative: bool,
        /// The 64 bits.
        significand: u64,
        /// The power of two.
        exponent: i64,
    },
}

impl Extended {
    /// Zero.
    pub const ZERO: Extended = Extended::Finite { negative: false, significand: 0, exponent: 0 };

    /// The number a text stands for, or `None` where Redis says that it is not a valid float.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.len() >= TEXT_BYTES_MAX || text.first().is_none_or(|b| is_blank(*b)) {
            return None;
        }
        let scanned = scan(text);
        if scanned.len != text.len() || scanned.len == 0 {
            return None;
        }
        let negative = scanned.negative;
        match scanned.shape {
            Shape::NotANumber => None,
            Shape::Infinity => Some(Extended::Infinity { negative }),
            Shape::Digits { digits, .. } if digits.is_empty() => {
                Some(Extended::Finite { negative, significand: 0, exponent: 0 })
            }
            Shape::Digits { hex: true, digits, exponent } => {
                let whole = Natural::from_digits(&digits, 16);
                in_range(round(negative, &whole, exponent, false))
            }
            Shape::Digits { hex: false, digits, exponent } => decimal(negative, &digits, exponent),
        }
    }

    /// Whether this is one of the infinities.
    pub fn is_infinite(&self) -> bool {
        matches!(self, Extended::Infinity { .. })
    }

    /// The sum, rounded to 64 bits; `None` for infinity minus infinity.
    pub fn add(self, other: Extended) -> Option<Extended> {
        match (self, other) {
            (Extended::Infinity { negative: a }, Extended::Infinity { negative: b }) => {
                (a == b).then_some(self)
            }
            (Extended::Infinity { .. }, _) => Some(self),
            (_, Extended::Infinity { .. }) => Some(other),
            _ => Some(add_finite(self, other)),
        }
    }

    /// The text as Redis writes it: 17 decimal places, trailing zeros removed.
    pub fn format(&self) -> String {
        let (negative, significand, exponent) = match *self {
            Extended::Infinity { negative } => {
                return if negative { "-inf".into() } else { "inf".into() };
            }
            Extended::Finite { negative, significand, exponent } => {
                (negative, significand, exponent)
            }
        };
        let text = if exponent >= 0 {
            Natural::from_u128(u128::from(significand)).shifted(exponent as usize).to_decimal()
        } else {
            with_places(significand, (-exponent) as u64)
        };
        if negative && text != "0" { format!("-{text}") } else { text }
    }
}

/// `significand / 2^shift` with 17 decimal places, zeros trimmed.
fn with_places(significand: u64, shift: u64) -> String {
    let scaled = u128::from(significand) * 100_000_000_000_000_000; // 64 + 57 bits
    let rounded = match shift {
        0..=127 => {
            let (whole, rest) = (scaled >> shift, scaled & ((1 << shift) - 1));
            let half = 1u128 << (shift - 1);
            whole + u128::from(rest > half || (rest == half && whole & 1 == 1))
        }
        _ => 0,
    };
    let (whole, places) = (rounded / 100_000_000_000_000_000, rounded % 100_000_000_000_000_000);
    let places = format!("{places:017}");
    let places = places.trim_end_matches('0');
    if places.is_empty() { whole.to_string() } else { format!("{whole}.{places}") }
}

fn decimal(negative: bool, digits: &[u8], exponent: i64) -> Option<Extended> {
    let magnitude = exponent + digits.len() as i64;
    if magnitude.abs() > POWER_OF_TEN_MAX / 2 || exponent.abs() > POWER_OF_TEN_MAX {
        return None; // out of range either way, and Redis refuses both
    }
    let whole = Natural::from_digits(digits, 10);
    if exponent >= 0 {
        return in_range(round(negative, &whole.times_power_of_ten(exponent), 0, false));
    }
    let divisor = Natural::from_u128(1).times_power_of_ten(-exponent);
    // Enough quotient bits for the significand and one to round by; the rest is sticky.
    let shift = (divisor.bits() as i64 - whole.bits() as i64 + 66).max(0);
    let (quotient, exact) = whole.shifted(shift as usize).divided_by(&divisor);
    in_range(round(negative, &quotient, -shift, !exact))
}

fn in_range(value: Extended) -> Option<Extended> {
    match value {
        Extended::Finite { exponent, significand, .. }
            if significand != 0 && exponent + 63 < -16_445 =>
        {
            None
        }
        Extended::Infinity { .. } => None,
        finite => Some(finite),
    }
}

/// `whole * 2^exponent` (plus something smaller than its last bit when `sticky`) to 64 bits.
fn round(negative: bool, whole: &Natural, exponent: i64, sticky: bool) -> Extended {
    let bits = whole.bits();
    if bits <= 64 {
        let value = whole.low_u64();
        let up = if bits == 0 { 0 } else { 64 - bits };
        return finite(negative, value << up, exponent - up as i64);
    }
    let drop = bits - 64;
    let significand = whole.shifted_down(drop).low_u64();
    let half = whole.bit(drop - 1);
    let below = sticky || (0..drop - 1).any(|i| whole.bit(i));
    if half && (below || significand & 1 == 1) {
        return match significand.checked_add(1) {
            Some(significand) => finite(negative, significand, exponent + drop as i64),
            None => finite(negative, 1 << 63, exponent + drop as i64 + 1),
        };
    }
    finite(negative, significand, exponent + drop as i64)
}

fn finite(negative: bool, significand: u64, exponent: i64) -> Extended {
    if significand == 0 {
        return Extended::Finite { negative, significand, exponent: 0 };
    }
    if exponent + 64 > EXPONENT_MAX {
        return Extended::Infinity { negative };
    }
    Extended::Finite { negative, significand, exponent }
}

fn add_finite(a: Extended, b: Extended) -> Extended {
    let (
        Extended::Finite { negative: an, significand: am, exponent: ae },
        Extended::Finite { negative: bn, significand: bm, exponent: be },
    ) = (a, b)
    else {
        return a;
    };
    if am == 0 || bm == 0 {
        return match (am, bm) {
            (0, 0) => Extended::Finite { negative: an && bn, significand: 0, exponent: 0 },
            (0, _) => b,
            _ => a,
        };
    }
    // Larger exponent first; its significand gets 62 guard bits, leaving one for the carry.
    let ((hn, hm, he), (ln, lm, le)) =
        if ae >= be { ((an, am, ae), (bn, bm, be)) } else { ((bn, bm, be), (an, am, ae)) };
    let high = u128::from(hm) << 62;
    let (low, sticky) = shifted_right(u128::from(lm) << 62, (he - le) as u64);
    let (negative, sum) = if hn == ln {
        (hn, high + low)
    } else if high >= low {
        // What was shifted out makes the true difference a little smaller.
        (hn, high - low - u128::from(sticky))
    } else {
        (ln, low - high)
    };
    if sum == 0 && !sticky {
        return Extended::ZERO;
    }
    round(negative, &Natural::from_u128(sum), he - 62, sticky)
}

/// `value >> by`, and whether a set bit was lost.
fn shifted_right(value: u128, by: u64) -> (u128, bool) {
    match by {
        0 => (value, false),
        1..=127 => (value >> by, value & ((1 << by) - 1) != 0),
        _ => (0, value != 0),
    }
}

/// A natural number of any size: 32-bit limbs, lowest first, no leading zero limb.
#[derive(Debug, Clone, PartialEq)]
struct Natural(Vec<u32>);

impl Natural {
    fn from_u128(value: u128) -> Self {
        let mut limbs: Vec<u32> = (0..4).map(|i| (value >> (32 * i)) as u32).collect();
        trim(&mut limbs);
        Self(limbs)
    }

    fn from_digits(digits: &[u8], base: u32) -> Self {
        let mut value = Self(Vec::new());
        for digit in digits {
            value.multiply_add(base, (*digit as char).to_digit(base).unwrap_or(0));
        }
        value
    }

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn times_power_of_ten(mut self, power: i64) -> Self {
        for _ in 0..power / 9 {
            self.multiply_add(1_000_000_000, 0);
        }
        for _ in 0..power % 9 {
            self.multiply_add(10, 0);
        }
        self
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    fn bit(&self, index: usize) -> bool {
        self.0.get(index / 32).is_some_and(|limb| limb >> (index % 32) & 1 == 1)
    }

    fn low_u64(&self) -> u64 {
        let limb = |i: usize| u64::from(self.0.get(i).copied().unwrap_or(0));
        limb(0) | limb(1) << 32
    }

    fn shifted(&self, by: usize) -> Self {
        if self.0.is_empty() {
            return Self(Vec::new());
        }
        let mut limbs = vec![0; by / 32];
        let mut carry = 0u64;
        for limb in &self.0 {
            carry |= u64::from(*limb) << (by % 32);
            limbs.push(carry as u32);
            carry >>= 32;
        }
        limbs.push(carry as u32);
        trim(&mut limbs);
        Self(limbs)
    }

    fn shifted_down(&self, by: usize) -> Self {
        let limbs = self.0.get(by / 32..).unwrap_or_default();
        let mut out: Vec<u32> = limbs
            .iter()
            .enumerate()
            .map(|(i, limb)| {
                let wide =
                    u64::from(*limb) | u64::from(limbs.get(i + 1).copied().unwrap_or(0)) << 32;
                (wide >> (by % 32)) as u32
            })
            .collect();
        trim(&mut out);
        Self(out)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0i64;
        for (i, limb) in self.0.iter_mut().enumerate() {
            let difference =
                i64::from(*limb) - i64::from(other.0.get(i).copied().unwrap_or(0)) - borrow;
            borrow = i64::from(difference < 0);
            *limb = difference as u32;
        }
        trim(&mut self.0);
    }

    /// The quotient (of few bits: one subtraction a bit) and whether it is exact.
    fn divided_by(mut self, divisor: &Self) -> (Self, bool) {
        let steps = (self.bits() + 1).saturating_sub(divisor.bits());
        let mut quotient: u128 = 0;
        for step in (0..steps).rev() {
            let part = divisor.shifted(step);
            quotient <<= 1;
            if self.compare(&part) != Ordering::Less {
                self.subtract(&part);
                quotient |= 1;
            }
        }
        (Self::from_u128(quotient), self.0.is_empty())
    }

    fn to_decimal(&self) -> String {
        let mut limbs = self.0.clone();
        let mut groups = Vec::new();
        while !limbs.is_empty() {
            let mut rest = 0u64;
            for limb in limbs.iter_mut().rev() {
                rest = rest << 32 | u64::from(*limb);
                *limb = (rest / 1_000_000_000) as u32;
                rest %= 1_000_000_000;
            }
            trim(&mut limbs);
            groups.push(rest);
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        for group in groups.iter().rev() {
            text.push_str(&format!("{group:09}"));
        }
        text
    }
}

fn trim(limbs: &mut Vec<u32>) {
    while limbs.last() == Some(&0) {
        limbs.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let (a, b) =
            (Extended::parse(a.as_bytes()).unwrap(), Extended::parse(b.as_bytes()).unwrap());
        a.add(b).unwrap().format()
    }

    /// Every line was printed by Redis 7.0.15 (`SET k a`, `INCRBYFLOAT k b`).
    #[test]
    fn sums_print_as_redis_prints_them() {
        for (a, b, text) in [
            ("10.5", "0.1", "10.6"),
            ("0.1", "0.2", "0.3"),
            ("3.0e3", "200", "3200"),
            ("1", "-1", "0"),
            ("-1.5", "1", "-0.5"),
            ("5.0e3", "2.0e2", "5200"),
            ("1e20", "1", "100000000000000000000"),
            ("0", "1e-17", "0.00000000000000001"),
            ("0", "1e-18", "0"),
            ("0", "-1e-18", "0"),
            ("3.14159", "2.71828", "5.85987"),
        ] {
            assert_eq!(sum(a, b), text, "{a} + {b}");
        }
    }

    #[test]
    fn reading_rounds_to_the_nearest() {
        // Whole numbers up to 64 bits are exact.
        assert_eq!(sum("18446744073709551615", "0"), "18446744073709551615");
        // One more than fits: to even.
        assert_eq!(sum("18446744073709551617", "0"), "18446744073709551616");
        assert_eq!(sum("0x1p4", "0"), "16");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", " 1", "1 ", "abc", "1e", "nan", "1e5000", "1e-5000", "--1"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        assert!(Extended::parse(b"inf").unwrap().is_infinite());
        let (up, down) = (Extended::parse(b"inf").unwrap(), Extended::parse(b"-inf").unwrap());
        assert_eq!(up.add(down), None);
    }
}
