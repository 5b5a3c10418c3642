//! The checks, one row each, failures open: figure, bound, samples, power, and what it is for.

use maud::{Markup, html as markup};

use super::{sign, state};
use crate::report::explain::{explain, title};
use crate::report::{Report, urgency, words};
use crate::{Finding, Verdict};

/// All findings of one check.
struct Group<'a> {
    check: &'a str,
    verdict: Verdict,
    findings: Vec<&'a Finding>,
}

/// The section of all checks.
pub fn section(report: &Report) -> Markup {
    let groups = groups(report);
    markup! {
        section {
            h2 { "The checks" }
            @if groups.is_empty() { p { "None was made." } } @else {
                p.prose {
                    "Each row is a check; open it to see what it is for. A check that passed would \
                     have seen a leak of the size in the last column."
                }
                div.checks {
                    div.row.head aria-hidden="true" {
                        span {} span { "Check" } span { "Figure" } span { "Bound" }
                        span { "Samples" } span { "Sees leaks from" }
                    }
                    @for group in &groups { (check(group)) }
                }
            }
        }
    }
}

/// Findings by check, the most urgent first; within a check too.
fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for finding in report.sorted() {
        match groups.iter_mut().find(|group| group.check == finding.check) {
            Some(group) => group.findings.push(finding),
            None => groups.push(Group {
                check: &finding.check,
                verdict: finding.verdict,
                findings: vec![finding],
            }),
        }
    }
    groups.sort_by_key(|group| urgency(group.verdict));
    groups
}

fn check(group: &Group<'_>) -> Markup {
    let first = group.findings[0]; // a group is made with its first finding
    let one = group.findings.len() == 1;
    let bad = group.findings.iter().filter(|f| f.verdict == group.verdict).count();
    let subject = match one {
        true => first.subject.clone(),
        false if group.verdict == Verdict::Passed => format!("all {bad} passed; the first shown"),
        false => format!(
            "{bad} of {} {}; the first shown",
            group.findings.len(),
            words::verdict_word(group.verdict)
        ),
    };
    markup! {
        details class=(state(group.verdict)) open[group.verdict == Verdict::Failed] {
            summary.row {
                (sign(group.verdict))
                span.check {
                    strong { (title(group.check)) }
                    " " span.word { (words::verdict_word(group.verdict)) }
                    span.small.name { (subject) }
                }
                (figures(first))
            }
            div.more {
                @if let Some(explanation) = explain(group.check) {
                    p { (explanation.looks_for) }
                    p.small { strong { "If it fails: " } (explanation.if_it_fails) }
                }
                @if one { p.came { (first.words) } } @else { (subjects(&group.findings)) }
                p.small { "In the JSON and the text: " code { (group.check) } }
            }
        }
    }
}

fn figures(finding: &Finding) -> Markup {
    markup! {
        span.figure data-name="Figure" { (words::figure(finding.figure)) }
        span.figure data-name="Bound" { (words::figure(finding.threshold)) }
        span.figure data-name="Samples" { (words::count(finding.samples)) }
        span.figure data-name="Sees leaks from" { (words::smallest_leak(finding)) }
    }
}

fn subjects(findings: &[&Finding]) -> Markup {
    markup! {
        div.subjects {
            @for finding in findings {
                div class=(format!("row {}", state(finding.verdict))) {
                    (sign(finding.verdict))
                    span.check {
                        span.name { (finding.subject) }
                        " " span.word { (words::verdict_word(finding.verdict)) }
                        span.small { (finding.words) }
                    }
                    (figures(finding))
                }
            }
        }
    }
}
