//! Tails of the t and F distributions, by the incomplete beta function.

/// The chance that an F of `above` and `below` degrees of freedom exceeds `ratio`.
pub(super) fn f_tail(ratio: f64, above: f64, below: f64) -> f64 {
    if ratio <= 0.0 {
        return 1.0;
    }
    beta(below / 2.0, above / 2.0, below / (below + above * ratio))
}

/// What a t of `freedom` degrees of freedom exceeds with the chance `tail`, below one half.
pub(super) fn t_quantile(tail: f64, freedom: f64) -> f64 {
    let exceeds = |t: f64| f_tail(t * t, 1.0, freedom) / 2.0;
    let (mut low, mut high) = (0.0, 1.0);
    while exceeds(high) > tail && high < 1e12 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if exceeds(middle) > tail { low = middle } else { high = middle }
    }
    high
}

/// The regularised incomplete beta function.
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let log = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    if x < (a + 1.0) / (a + b + 2.0) {
        log.exp() * fraction(a, b, x) / a
    } else {
        1.0 - log.exp() * fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function, evaluated forwards (Lentz).
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let whole = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / whole(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / whole(1.0 + term * d);
            c = whole(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function, for arguments above 0 (Stirling's series).
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (tail, freedom, quantile) in [
            (0.025, 1.0, 12.706),
            (0.025, 10.0, 2.228),
            (0.005, 30.0, 2.750),
            (0.0005, 120.0, 3.373),
            (0.025, 1e6, 1.960),
        ] {
            let found = t_quantile(tail, freedom);
            assert!((found - quantile).abs() < 1e-3, "{tail} {freedom}: {found}");
        }
        for (ratio, above, below, tail) in [(4.26, 2.0, 9.0, 0.05), (2.98, 10.0, 10.0, 0.05)] {
            let found = f_tail(ratio, above, below);
            assert!((found - tail).abs() < 1e-3, "{ratio}: {found}");
        }
        assert_eq!(f_tail(0.0, 3.0, 5.0), 1.0);
    }
}
