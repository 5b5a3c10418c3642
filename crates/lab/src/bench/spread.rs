//! Rounds of one measurement: the median, and how far they spread.

use serde::Serialize;

/// Rounds of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Of the rounds.
    pub median: f64,
    /// Of the rounds.
    pub least: f64,
    /// Of the rounds.
    pub greatest: f64,
}

impl Spread {
    /// Of rounds, in any order.
    pub fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let at = |i: usize| rounds.get(i).copied().unwrap_or(f64::NAN);
        let half = rounds.len() / 2;
        let median = match rounds.len() % 2 {
            1 => at(half),
            _ => (at(half.wrapping_sub(1)) + at(half)) / 2.0,
        };
        Self { median, least: at(0), greatest: at(rounds.len().wrapping_sub(1)) }
    }

    /// How many times `other` this is: the medians', and the least and greatest that any two rounds
    /// could give.
    pub fn over(&self, other: &Self) -> Self {
        Self {
            median: self.median / other.median,
            least: self.least / other.greatest,
            greatest: self.greatest / other.least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_even_number_the_median_is_between_the_two_in_the_middle() {
        let three = Spread::of(vec![9.0, 6.0, 5.0]);
        assert_eq!(three, Spread { median: 6.0, least: 5.0, greatest: 9.0 });
        assert_eq!(Spread::of(vec![2.0, 1.0]).median, 1.5);
        let other = Spread { median: 3.0, least: 2.0, greatest: 5.0 };
        assert_eq!(three.over(&other), Spread { median: 2.0, least: 1.0, greatest: 4.5 });
        assert!(Spread::of(vec![]).median.is_nan());
    }
}
