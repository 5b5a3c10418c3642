//! The report as one JSON object.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Broken, Label, Report, Sizes, words};
use crate::{Finding, Verdict};

#[derive(Serialize)]
struct Whole<'a> {
    verdict: Verdict,
    words: String,
    findings: Vec<&'a Finding>,
    breaches: &'a [Broken],
    labels: Vec<Value>,
    caveats: Vec<&'static str>,
    sizes: Sizes,
}

/// One object: `verdict`, `words`, `findings`, `breaches`, `labels` (each with its `config`, as in
/// the head of a trace), `caveats`, `sizes`. Nothing of a history is in it.
pub fn json(report: &Report) -> Value {
    let whole = Whole {
        verdict: report.verdict(),
        words: format!("{}. {}", words::headline(report), words::verdict(report)),
        findings: report.sorted(),
        breaches: &report.breaches,
        labels: report.labels.iter().map(label).collect(),
        caveats: report.caveats(),
        sizes: report.sizes(),
    };
    serde_json::to_value(whole).unwrap_or_default()
}

fn label(label: &Label) -> Value {
    let Label { name, runs, config, sizes, .. } = label;
    json!({ "label": name, "runs": runs, "config": config, "sizes": sizes })
}
