//! Numbers as people type them: read within limits, and refused with the limits.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What reads a number, or a size, that has to lie in `limits`. What is refused says what to give;
/// whoever calls it names the flag.
pub fn within<T>(
    limits: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |typed| {
        let number = typed.trim().parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("give {} to {}", limits.start(), limits.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_refused_with_the_limits() {
        let read = within(1_u32..=50);
        assert_eq!((read("1"), read("50"), read(" 7 ")), (Ok(1), Ok(50), Ok(7)));
        for wrong in ["0", "51", "-5", "99999999999999999999", "1.5", "", "many"] {
            assert_eq!(read(wrong), Err("give 1 to 50".into()), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_number_lies_nowhere() {
        let read = within(0.0..=1.0);
        assert_eq!(read("0.25"), Ok(0.25));
        for wrong in ["NaN", "inf", "-0.1", "1e300"] {
            assert_eq!(read(wrong), Err("give 0 to 1".into()), "{wrong}");
        }
    }
}
