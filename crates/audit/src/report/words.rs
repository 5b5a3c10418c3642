//! Figures and verdicts as a person reads them.

use fogbank_env::{Nanos, counted};

use super::Report;
use crate::{Finding, Verdict};

/// The verdict as a headline.
pub fn headline(report: &Report) -> &'static str {
    match report.verdict() {
        Verdict::Failed => "The cloud can learn something it should not",
        Verdict::Passed => "No leak found",
        Verdict::TooFew if report.findings.is_empty() => "Nothing was checked",
        Verdict::TooFew => "No leak found, but too little data to say",
    }
}

/// The verdict as a sentence or two under the headline.
pub fn verdict(report: &Report) -> String {
    let of = |verdict| report.findings.iter().filter(|f| f.verdict == verdict).count();
    let (checks, failed, open) = (report.findings.len(), of(Verdict::Failed), of(Verdict::TooFew));
    let all = counted(checks, "check", "checks");
    match report.verdict() {
        Verdict::Failed if failed == 0 => {
            "The trace is not the one that the public configuration predicts.".into()
        }
        Verdict::Failed => format!(
            "{} of {} failed: {}.",
            count(failed as u64),
            all,
            failed_checks(report).join(", ")
        ),
        Verdict::TooFew if checks == 0 => "There is nothing to say about these traces.".into(),
        Verdict::TooFew => format!(
            "{} of {} had too few samples for the leak they are to find. Record for longer, or in \
             more runs.{}",
            count(open as u64),
            all,
            power(report)
        ),
        Verdict::Passed => format!("All {all} passed.{}", power(report)),
    }
}

/// What the least sensitive check would have seen.
fn power(report: &Report) -> String {
    match weakest(report) {
        Some(leak) => format!(" The bluntest of them would have seen a leak of {}.", share(leak)),
        None => String::new(),
    }
}

/// The smallest leak that every check would have seen.
pub fn weakest(report: &Report) -> Option<f64> {
    report.findings.iter().filter_map(|f| f.smallest_leak).reduce(f64::max)
}

fn failed_checks(report: &Report) -> Vec<String> {
    let failed = |f: &&&Finding| f.verdict == Verdict::Failed;
    let mut names: Vec<String> =
        report.sorted().iter().filter(failed).map(|f| f.check.clone()).collect();
    names.dedup();
    names
}

/// A verdict in one or two words.
pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::TooFew => "too few",
    }
}

/// A figure with three digits that matter.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "none".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e15).contains(&size) {
        return format!("{value:.1e}");
    }
    if value.fract() == 0.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(size as u64));
    }
    let digits = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// A share as a percentage.
pub fn share(value: f64) -> String {
    format!("{} %", figure(value * 100.0))
}

/// The power of a finding.
pub fn smallest_leak(finding: &Finding) -> String {
    finding.smallest_leak.map_or_else(|| "any".into(), share)
}

/// A count, its thousands apart.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length of time.
pub fn duration(nanos: Nanos) -> String {
    let seconds = nanos as f64 / 1e9;
    match seconds {
        s if s >= 2.0 * 3600.0 => format!("{} h", figure(s / 3600.0)),
        s if s >= 120.0 => format!("{} min", figure(s / 60.0)),
        s if s >= 1.0 => format!("{} s", figure(s)),
        s if s >= 1e-3 => format!("{} ms", figure(s * 1e3)),
        _ => format!("{nanos} ns"),
    }
}

/// A number of bytes.
pub fn bytes(value: u64) -> String {
    let value = value as f64;
    match value {
        v if v >= 1e9 => format!("{} GB", figure(v / 1e9)),
        v if v >= 1e6 => format!("{} MB", figure(v / 1e6)),
        v if v >= 1e3 => format!("{} kB", figure(v / 1e3)),
        v => format!("{v} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (1.5, "1.5"),
            (123.456, "123"),
            (12_345.6, "12346"),
            (110_000.0, "110,000"),
            (-3.0, "-3"),
            (1.23e-9, "1.2e-9"),
            (f64::NAN, "none"),
            (f64::MAX, "1.8e308"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(share(0.005), "0.5 %");
        assert_eq!(
            (count(999), count(1_000), count(1_234_567)),
            ("999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!((duration(1_500), duration(90_000_000_000)), ("1500 ns".into(), "90 s".into()));
        assert_eq!((bytes(12), bytes(1_350_000)), ("12 bytes".into(), "1.35 MB".into()));
    }
}
