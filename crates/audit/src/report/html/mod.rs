//! The page: one file that loads nothing, runs no script and stands on its own.
//!
//! 1. The verdict in words, and what it rests on.
//! 2. What was asked beside what the cloud saw.
//! 3. Where a trace differs from its prediction, if it does.
//! 4. The checks: figure, bound, power, and what each is for.
//! 5. The public configuration, which all of this is held against.
//! 6. What none of this proves.

mod checks;
mod pictures;

use fogbank_picture::STYLE;
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::{Broken, Label, Report, config, words};
use crate::Verdict;

/// The whole page.
pub fn html(report: &Report) -> String {
    let state = state(report.verdict());
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (words::headline(report)) " - Fogbank audit" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                @if report.is_secret() { (secret()) }
                header class=(format!("verdict {state}")) { (verdict(report)) }
                main {
                    (pictures::section(report))
                    @if !report.breaches.is_empty() { (breaches(&report.breaches)) }
                    (checks::section(report))
                    (configs(report))
                    (limits())
                }
                footer { "Written by fogbank " (env!("CARGO_PKG_VERSION")) " from traces alone." }
            }
        }
    };
    page.into_string()
}

/// The class of a verdict.
fn state(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::TooFew => "open",
    }
}

/// A sign for a verdict that does not rest on colour.
fn sign(verdict: Verdict) -> Markup {
    let shape = match verdict {
        Verdict::Passed => "M4 10.5 8.2 15 16 5.5",
        Verdict::Failed => "M5 5 15 15M15 5 5 15",
        Verdict::TooFew => "M10 4v7.5M10 15.2v.6",
    };
    markup! {
        svg class=(format!("sign {}", state(verdict))) viewBox="0 0 20 20" aria-hidden="true" {
            path d=(shape) {}
        }
    }
}

fn secret() -> Markup {
    markup! {
        p.secret role="note" {
            strong { "Secret." }
            " This page shows what was asked. Keep it on the trusted side; without the history it \
              may be shown to anybody who may see the traces."
        }
    }
}

fn verdict(report: &Report) -> Markup {
    let sizes = report.sizes();
    let runs: u32 = report.labels.iter().map(|label| label.runs).sum();
    let leak = words::weakest(report).map(words::share);
    let exact = if report.findings.is_empty() { "none" } else { "any size" };
    markup! {
        div.said {
            p.kicker { "Fogbank audit: can the cloud tell what you do?" }
            h1 { (sign(report.verdict())) span { (words::headline(report)) "." } }
            p.lead { (words::verdict(report)) }
            @for caveat in report.caveats() { p.lead.caveat { strong { "Caveat: " } (caveat) "." } }
        }
        dl.facts {
            (fact("Runs", &words::count(runs.into())))
            (fact("Watched for", &words::duration(sizes.duration_ns)))
            (fact("Events", &words::count(sizes.events)))
            (fact("Moved", &words::bytes(sizes.bytes_up + sizes.bytes_down)))
            (fact("Leaks seen from", leak.as_deref().unwrap_or(exact)))
        }
    }
}

fn fact(name: &str, value: &str) -> Markup {
    markup! { div { dt { (name) } dd { (value) } } }
}

fn breaches(breaches: &[Broken]) -> Markup {
    markup! {
        section {
            h2 { "Where a trace differs" }
            p { "The first record of each trace that is not the one the public configuration predicts." }
            @for Broken { subject, breach } in breaches {
                article.breach {
                    h3 { code { (breach.rule) } " in " span.name { (subject) } }
                    p.small {
                        "Event " (words::count(breach.event)) ", "
                        (words::duration(breach.at)) " after the start of the clock."
                    }
                    dl.differs {
                        dt { "Predicted" } dd { code { (breach.expected) } }
                        dt { "Seen" } dd { code { (breach.seen) } }
                    }
                }
            }
        }
    }
}

/// The public configuration of every label.
fn configs(report: &Report) -> Markup {
    let known = |label: &&Label| label.config.is_some();
    markup! {
        @if report.labels.iter().any(|label| known(&label)) {
            section.limits {
                h2 { "What is public" }
                p.prose { "The configuration in the head of the traces: what they are held against." }
                @for label in report.labels.iter().filter(known) {
                    details {
                        summary { strong { (label.name) } }
                        ul {
                            @for (subject, what) in label.config.iter().flat_map(config::lines) {
                                li { strong { (subject) } " " (what) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn limits() -> Markup {
    markup! {
        section.limits {
            h2 { "What this does not prove" }
            ul {
                @for (what, why) in LIMITS { li { strong { (what) } " " (why) } }
            }
        }
    }
}

const LIMITS: &[(&str, &str)] = &[
    (
        "That there is no leak.",
        "Each check would have seen one of the size beside it; a smaller one, or one of a kind \
         that nobody thought of, may be there.",
    ),
    (
        "Anything about other runs.",
        "These traces are of one machine, these settings and these workloads.",
    ),
    (
        "Anything but the cloud's side.",
        "The network between clients and proxy, the proxy's own machine, and what an answer makes \
         a user do next are out of its sight.",
    ),
    (
        "That the recorder missed nothing.",
        "It runs in the proxy and writes down what leaves before it leaves; compare with the \
         cloud's own log if you doubt it.",
    ),
    (
        "That the cipher holds.",
        "Sealed bytes are held against each other for repeats; breaking them is another matter.",
    ),
    (
        "That nothing at all is known.",
        "Configuration, schedule and sizes are public by design, as is when the store was made, \
         opened, closed or crashed.",
    ),
];

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
