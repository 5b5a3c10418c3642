//! How improbable a count is: tails, never one minus the rest.
//!
//! A verdict at 1e-9, divided by hundreds of tests, is read off at 1e-13 and below, where one minus
//! a distribution function has no digits left. Everything here computes the small side itself, and
//! counts with a mean above [`SUMMED_MEAN_MAX`] go by the signed root of their deviance, which
//! keeps the skewness that a plain normal approximation loses seven deviations out.

use statrs::function::{erf, gamma};

/// Means up to here are summed term by term.
const SUMMED_MEAN_MAX: f64 = 1e4;

/// Degrees of freedom up to here go through the incomplete gamma function.
const EXACT_FREEDOM_MAX: f64 = 4096.0;

/// The farthest deviation that is told apart: beyond it the tail underflows.
const DEVIATION_MAX: f64 = 38.0;

/// P(Z >= z) of the standard normal.
pub fn normal_above(z: f64) -> f64 {
    0.5 * erf::erfc(z / std::f64::consts::SQRT_2)
}

/// The z with P(Z >= z) = p, cut off at 38 deviations on either side.
pub fn normal_point_above(p: f64) -> f64 {
    let z = std::f64::consts::SQRT_2 * erf::erfc_inv(2.0 * p);
    z.clamp(-DEVIATION_MAX, DEVIATION_MAX)
}

/// P(|Z| >= |z|).
pub fn normal_both(z: f64) -> f64 {
    erf::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// P(X >= x) of chi-square with so many degrees of freedom.
pub fn chi_square_above(x: f64, freedom: f64) -> f64 {
    if x <= 0.0 || freedom <= 0.0 {
        return 1.0;
    }
    if freedom > EXACT_FREEDOM_MAX {
        let spread = 2.0 / (9.0 * freedom); // Wilson and Hilferty
        return normal_above(((x / freedom).cbrt() - (1.0 - spread)) / spread.sqrt());
    }
    gamma::checked_gamma_ur(freedom / 2.0, x / 2.0).unwrap_or(0.0)
}

/// The x with P(X >= x) = p of chi-square; infinite without a degree of freedom.
pub fn chi_square_point_above(p: f64, freedom: f64) -> f64 {
    if freedom <= 0.0 {
        return f64::INFINITY;
    }
    let mut high = freedom + 10.0;
    while chi_square_above(high, freedom) > p && high < 1e12 {
        high *= 2.0;
    }
    bisect(0.0, high, |x| chi_square_above(x, freedom) > p)
}

/// Where `below` turns from true to false between `low` and `high`.
pub fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if below(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// P(X >= count) of Poisson.
pub fn poisson_at_least(count: u64, mean: f64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    if mean <= 0.0 {
        return 0.0;
    }
    let k = count as f64;
    if mean > SUMMED_MEAN_MAX {
        return normal_above(poisson_root(k - 0.5, mean));
    }
    if k <= mean {
        return 1.0 - poisson_at_most(count - 1, mean);
    }
    poisson_term(k, mean) * ratios(k, |k| mean / (k + 1.0), 1.0)
}

/// P(X <= count) of Poisson.
pub fn poisson_at_most(count: u64, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 1.0;
    }
    let k = count as f64;
    if mean > SUMMED_MEAN_MAX {
        return normal_above(-poisson_root(k + 0.5, mean));
    }
    if k > mean {
        return 1.0 - poisson_at_least(count + 1, mean);
    }
    poisson_term(k, mean) * ratios(k, |k| k / mean, -1.0)
}

/// How improbable a Poisson count is on whichever side it lies.
pub fn poisson_both(count: u64, mean: f64) -> f64 {
    (2.0 * poisson_at_least(count, mean).min(poisson_at_most(count, mean))).min(1.0)
}

/// How improbable a binomial count is on whichever side it lies.
pub fn binomial_both(count: u64, trials: u64, chance: f64) -> f64 {
    let high = binomial_at_least(count, trials, chance);
    let low = binomial_at_least(trials.saturating_sub(count), trials, 1.0 - chance);
    (2.0 * high.min(low)).min(1.0)
}

/// P(X >= count) of the binomial.
pub fn binomial_at_least(count: u64, trials: u64, chance: f64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    if count > trials || chance <= 0.0 {
        return 0.0;
    }
    let (k, n) = (count as f64, trials as f64);
    let mean = n * chance;
    if mean.min(n - mean) > SUMMED_MEAN_MAX {
        return normal_above(binomial_root(k - 0.5, n, chance));
    }
    if k <= mean {
        return 1.0 - binomial_at_least(trials - count + 1, trials, 1.0 - chance);
    }
    let odds = chance / (1.0 - chance);
    binomial_term(k, n, chance) * ratios(k, |k| odds * (n - k) / (k + 1.0), 1.0)
}

fn poisson_term(k: f64, mean: f64) -> f64 {
    (k * mean.ln() - mean - gamma::ln_gamma(k + 1.0)).exp()
}

fn binomial_term(k: f64, n: f64, chance: f64) -> f64 {
    let ways = gamma::ln_gamma(n + 1.0) - gamma::ln_gamma(k + 1.0) - gamma::ln_gamma(n - k + 1.0);
    (ways + k * chance.ln() + (n - k) * (-chance).ln_1p()).exp()
}

/// 1 + r(k) + r(k) r(k + step) + ..., until a term no longer counts.
fn ratios(mut k: f64, ratio: impl Fn(f64) -> f64, step: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    loop {
        term *= ratio(k);
        sum += term;
        k += step;
        if term <= sum * 1e-17 {
            return sum;
        }
    }
}

/// The signed root of the deviance of a Poisson count.
fn poisson_root(k: f64, mean: f64) -> f64 {
    (k - mean).signum() * (2.0 * divergence(k.max(0.0), mean)).max(0.0).sqrt()
}

/// The signed root of the deviance of a binomial count.
fn binomial_root(k: f64, n: f64, chance: f64) -> f64 {
    let (hits, misses) = (n * chance, n * (1.0 - chance));
    let apart = divergence(k, hits) + divergence(n - k, misses);
    (k - hits).signum() * (2.0 * apart).max(0.0).sqrt()
}

/// `k ln(k / mean) - k + mean`, without the loss of digits that lies in it.
fn divergence(k: f64, mean: f64) -> f64 {
    if k <= 0.0 {
        return mean;
    }
    let off = (k - mean) / mean;
    mean * ((1.0 + off) * off.ln_1p() - off)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, known: f64, relative: f64) {
        assert!((value / known - 1.0).abs() < relative, "{value:e} for {known:e}");
    }

    #[test]
    fn normal_tails_keep_their_digits() {
        close(normal_above(1.0), 0.158655253931457, 1e-9);
        close(normal_above(6.0), 9.86587645037698e-10, 1e-9);
        close(normal_above(9.5), 1.04945150753626e-21, 1e-9);
        close(normal_above(20.0), 2.75362411860623e-89, 1e-9);
        for z in [-3.0, 0.5, 6.0, 7.5, 12.0] {
            assert!((normal_point_above(normal_above(z)) - z).abs() < 1e-7, "{z}");
        }
    }

    /// Reference values: 40 digits by the incomplete gamma function.
    #[test]
    fn chi_square_tails_keep_their_digits() {
        close(chi_square_above(3.841458820694124, 1.0), 0.05, 1e-9);
        close(chi_square_above(50.0, 1.0), 1.53745979442803e-12, 1e-9);
        close(chi_square_above(90.0, 7.0), 1.23724041717485e-16, 1e-9);
        close(chi_square_above(400.0, 255.0), 1.66000252441245e-8, 1e-9);
        close(chi_square_above(1500.0, 1023.0), 1.02863638816057e-20, 1e-8);
        close(chi_square_above(4800.0, 4096.0), 7.92826475220454e-14, 1e-8);
        close(chi_square_above(5200.0, 4600.0), 9.31511919544203e-10, 0.01);
        close(chi_square_above(chi_square_point_above(1e-13, 49.0), 49.0), 1e-13, 1e-6);
    }

    #[test]
    fn poisson_tails_keep_their_digits() {
        close(poisson_at_least(3, 1e-3), 1.66541716652781e-10, 1e-9);
        close(poisson_at_least(30, 5.0), 2.81751761557792e-14, 1e-9);
        close(poisson_at_least(1250, 1000.0), 1.51647092922744e-14, 1e-8);
        close(poisson_at_least(10_700, 10_000.0), 2.30025771465973e-12, 1e-7);
        close(poisson_at_least(10_700, 10_001.0), 2.47030660305425e-12, 0.05);
        close(poisson_at_least(1_007_000, 1e6), 1.35957375038191e-12, 0.05);
        close(poisson_at_most(0, 30.0), 9.35762296884017e-14, 1e-9);
        close(poisson_at_most(780, 1000.0), 2.67384039541109e-13, 1e-8);
        close(poisson_at_most(9_300, 10_001.0), 6.84176239868754e-13, 0.05);
        close(poisson_at_most(993_000, 1e6), 1.21287470221828e-12, 0.05);
    }

    #[test]
    fn binomial_tails_keep_their_digits() {
        close(binomial_at_least(60, 100, 0.5), 0.0284439668204904, 1e-9);
        close(binomial_at_least(600, 1000, 0.5), 1.36423207803301e-10, 1e-9);
        close(binomial_at_least(190, 1000, 0.125), 3.22563388825689e-9, 1e-9);
        close(binomial_at_least(10_900, 20_002, 0.5), 2.45332917087588e-37, 0.05);
        close(binomial_at_least(10_500, 19_202, 0.5), 8.20833431868807e-39, 1e-7);
        close(binomial_at_least(503_500, 1_000_000, 0.5), 1.28872187286178e-12, 0.05);
        close(binomial_at_least(127_000, 1_000_000, 0.125), 8.0682695668183e-10, 0.05);
    }

    #[test]
    fn what_cannot_be_improbable_is_not() {
        assert_eq!(poisson_both(0, 0.0), 1.0);
        assert_eq!(poisson_at_least(1, 0.0), 0.0);
        assert_eq!(binomial_both(0, 0, 0.5), 1.0);
        assert_eq!(chi_square_above(0.0, 3.0), 1.0);
        assert!(binomial_both(500, 1000, 0.5) > 0.9);
    }
}
