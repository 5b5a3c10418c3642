//! The report as lines for a terminal.

use super::{Label, Report, config, words};
use crate::Finding;

/// One line a finding, failures first, then the breaches, the public configuration of each label,
/// what has to be said about it, and the verdict in words at the end.
pub fn text(report: &Report) -> String {
    let findings = report.sorted().into_iter().map(line);
    let breaches = report.breaches.iter().map(|b| format!("breach   {}: {}", b.subject, b.breach));
    let verdict = format!("{}. {}", words::headline(report), words::verdict(report));
    let configs = report.labels.iter().filter_map(of_label);
    let caveats = report.caveats().into_iter().map(|caveat| format!("caveat   {caveat}"));
    let lines = findings.chain(breaches).chain(configs).chain(caveats).chain([verdict]);
    lines.map(|line| plain(&line) + "\n").collect()
}

fn of_label(label: &Label) -> Option<String> {
    let config = label.config.as_ref()?;
    Some(format!("config   {}: {}", label.name, config::line(config)))
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
