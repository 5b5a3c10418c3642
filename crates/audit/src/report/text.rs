//! The report as lines for a terminal.

use super::{Report, words};
use crate::Finding;

/// One line a finding, failures first, then the breaches, and the verdict in words at the end.
pub fn text(report: &Report) -> String {
    let findings = report.sorted().into_iter().map(line);
    let breaches = report.breaches.iter().map(|b| format!("breach   {}: {}", b.subject, b.breach));
    let verdict = format!("{}. {}", words::headline(report), words::verdict(report));
    let lines = findings.chain(breaches).chain([verdict]);
    lines.map(|line| plain(&line) + "\n").collect()
}

fn line(finding: &Finding) -> String {
    format!(
        "{:<8} {} ({}): figure {}, bound {}, {} samples, sees leaks from {}. {}",
        words::verdict_word(finding.verdict),
        finding.check,
        finding.subject,
        words::figure(finding.figure),
        words::figure(finding.threshold),
        words::count(finding.samples),
        words::smallest_leak(finding),
        finding.words,
    )
}

/// Without what would move a terminal's cursor: labels come from anywhere.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
