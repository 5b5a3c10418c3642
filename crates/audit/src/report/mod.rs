//! What the checks came to: as text, as JSON, and as one page for people.
//!
//! 1. [`Seen`] gathers a picture and sizes while a trace is read; [`Keys`] does the same for a
//!    history, if the trusted side gave one. No check reads a history, and nothing in here judges:
//!    the verdict is that of the findings alone.
//! 2. A [`Report`] holds findings, breaches and labels; [`text`], [`json`] and [`html`] render it.
//!    Labels, subjects and words may come from anywhere and are escaped.
//!
//! Memory is a few hundred kilobytes a label, whatever the length of its traces.

pub(crate) mod config;
mod explain;
mod html;
mod json;
pub mod paint;
mod places;
mod text;
pub(crate) mod words;

use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use fogbank_picture::Keys;
use fogbank_store::trace::PublicConfig;
use serde::Serialize;

use crate::{Breach, Finding, Verdict};

pub use html::html;
pub use json::json;
pub(crate) use places::Tree;
pub use places::{Seen, Sizes};
pub use text::text;

/// Everything that is to be told.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What every check came to, in any order.
    pub findings: Vec<Finding>,
    /// Where traces are not what the oracle predicted.
    pub breaches: Vec<Broken>,
    /// The runs, by label.
    pub labels: Vec<Label>,
}

/// A breach, and the trace that has it.
#[derive(Debug, Clone, Serialize)]
pub struct Broken {
    /// Which trace.
    pub subject: String,
    /// How it differs.
    #[serde(flatten)]
    pub breach: Breach,
}

/// The runs of one label.
#[derive(Debug, Clone)]
pub struct Label {
    /// Its name, as the user gave it.
    pub name: String,
    /// How many runs it has.
    pub runs: u32,
    /// Their public configuration, which is that of all runs that are compared.
    pub config: Option<PublicConfig>,
    /// How much went by in all of them.
    pub sizes: Sizes,
    /// The first run, which is the one that is drawn.
    pub seen: Option<Seen>,
    /// What was asked in that run, if the trusted side said so.
    pub asked: Option<Keys>,
}

impl Label {
    /// A label without runs.
    pub fn new(name: impl Into<String>) -> Self {
        let (name, sizes) = (name.into(), Sizes::default());
        Self { name, runs: 0, config: None, sizes, seen: None, asked: None }
    }

    /// Adds a run; the first one is drawn.
    pub fn add(&mut self, seen: Seen) {
        self.runs += 1;
        self.sizes = self.sizes.and(seen.sizes());
        self.seen.get_or_insert(seen);
    }
}

impl Report {
    /// The verdict over all findings: one failure or breach is a failure, and without it one check
    /// that had too little data, or no check at all, leaves it open.
    pub fn verdict(&self) -> Verdict {
        let any = |verdict| self.findings.iter().any(|finding| finding.verdict == verdict);
        if !self.breaches.is_empty() || any(Verdict::Failed) {
            Verdict::Failed
        } else if self.findings.is_empty() || any(Verdict::TooFew) {
            Verdict::TooFew
        } else {
            Verdict::Passed
        }
    }

    /// Whether it says what was asked: then it must not leave the trusted side.
    pub fn is_secret(&self) -> bool {
        self.labels.iter().any(|label| label.asked.is_some())
    }

    /// What the configurations give away themselves, each once.
    pub fn caveats(&self) -> Vec<&'static str> {
        let configs = self.labels.iter().filter_map(|label| label.config.as_ref());
        let mut caveats: Vec<_> = configs.filter_map(config::caveat).collect();
        caveats.dedup();
        caveats
    }

    /// The findings, failures first, then what had too little data, then by check and subject.
    pub fn sorted(&self) -> Vec<&Finding> {
        let mut sorted: Vec<&Finding> = self.findings.iter().collect();
        sorted.sort_by_key(|f| (urgency(f.verdict), &f.check, &f.subject));
        sorted
    }

    /// How much went by, over all labels.
    pub fn sizes(&self) -> Sizes {
        self.labels.iter().fold(Sizes::default(), |sum, label| sum.and(label.sizes))
    }

    /// Writes the page to `path`, over what is there. Only its owner may read it: it may be secret,
    /// and shows what a trace shows, which is as private as an access log.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn write_html(&self, path: &Path) -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        if file.metadata()?.is_file() {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?; // it may have been there
        }
        file.write_all(html(self).as_bytes())
    }
}

fn urgency(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Failed => 0,
        Verdict::TooFew => 1,
        Verdict::Passed => 2,
    }
}
