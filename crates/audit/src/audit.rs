//! One audit: traces in, a report out.
//!
//! 1. Every run is read once. Its events go to the picture, to the windows of the distinguisher,
//!    and through the oracle to the statistics; reading and replaying share two cores.
//! 2. When all have been read, runs are compared with each other: what is drawn at random must not
//!    repeat between runs, and no classifier may tell the labels apart.
//! 3. Nothing judges but the findings. A run that the oracle cannot follow from its beginning is a
//!    finding with too little data; one that breaks a rule is a breach, and its checks go on
//!    without what the oracle would have told them.
//!
//! Memory: the state of the oracle's buckets, the counters of the battery and the windows of the
//! distinguisher for each run; nothing grows with the length of a trace.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use fogbank_env::counted;
use fogbank_picture::{HistoryError, HistoryReader, Keys};
use fogbank_store::trace::{
    Event, Fingerprinting, PublicConfig, TraceError, TraceReader, Truncation,
};

use crate::distinguish::{self, Extractor, Run};
use crate::engine;
use crate::oracle::hierarchy::Together;
use crate::oracle::{Halt, Oracle, Refused, Summary};
use crate::report::{Broken, Label, Report, Seen};
use crate::statistics::{Battery, Levels, RunDigest, runs_independent};
use crate::{Breach, Finding, Verdict, whole};

/// One run to audit.
#[derive(Debug, Clone)]
pub struct Given {
    /// Which history it lived through, in the user's words.
    pub label: String,
    /// Its traces, one a process that had the store open, in that order; of a site one a client, in
    /// any order.
    pub traces: Vec<PathBuf>,
    /// What was asked in it, if the trusted side tells: for the picture only.
    pub history: Option<PathBuf>,
}

/// How to audit.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How histories are compared.
    pub distinguish: distinguish::Options,
}

/// Why traces cannot be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A history cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The head of a trace holds no configuration that this build knows.
    #[error("{path} does not say what its traffic ought to look like: {reason}")]
    Config {
        /// Which trace.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// Traces of one run, or runs that are to be compared, are of different configurations.
    #[error("{path} was recorded under another configuration than {first}: compare like with like")]
    OtherConfig {
        /// Which trace.
        path: PathBuf,
        /// The first one.
        first: PathBuf,
    },
    /// Fingerprints of traces are held against each other, which were not taken in the same way.
    #[error(
        "{path} and {first} cannot be audited together: {first} has {expected}, {path} has \
         {found}; record both with the same build"
    )]
    OtherFingerprints {
        /// Which trace.
        path: PathBuf,
        /// The first one.
        first: PathBuf,
        /// How fingerprints were taken in the first.
        expected: Fingerprinting,
        /// How in this one.
        found: Fingerprinting,
    },
    /// The oracle does not follow this configuration.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// One recording was given twice: compared with itself it would seem to share its randomness.
    #[error("{first} and {second} are the same recording: give each once")]
    Same {
        /// Which trace.
        first: PathBuf,
        /// The one that is the same.
        second: PathBuf,
    },
    /// Of the traces of a run one is missing, or they are not in their order.
    #[error(
        "{path} does not follow {before}: {reason}; give every trace of the store, in the order in \
         which they were recorded. If none is missing, it leaks, or the proxy has \
         believed a forgery"
    )]
    Unfollowing {
        /// Which trace.
        path: PathBuf,
        /// The one given before it.
        before: PathBuf,
        /// What tells.
        reason: String,
    },
    /// A run without a trace, or none at all.
    #[error("there is no trace to audit")]
    Nothing,
}

/// Audits `given`, runs in the order in which they were recorded; `progress` is told the subject of
/// each as it begins.
///
/// # Errors
/// [`AuditError`]; what a trace shows is never an error.
pub fn audit(
    given: &[Given],
    options: &Options,
    mut progress: impl FnMut(&str),
) -> Result<Report, AuditError> {
    let mut auditing = Auditing::new(given.len() as u32, options);
    // All heads first: a wrong one is told before hours have gone into the others.
    given.iter().try_for_each(|run| auditing.check_heads(run))?;
    check_different(given)?;
    for (number, run) in given.iter().enumerate() {
        let subject = subject(given, number);
        progress(&subject);
        auditing.hear(run, &subject)?;
    }
    if given.is_empty() { Err(AuditError::Nothing) } else { Ok(auditing.finish()) }
}

/// No file, and no copy of one, may be given twice. Traces without an event say nothing and may.
fn check_different(given: &[Given]) -> Result<(), AuditError> {
    let traces: Vec<&PathBuf> = given.iter().flat_map(|run| &run.traces).collect();
    for (at, second) in traces.iter().enumerate() {
        for first in &traces[..at] {
            if alike(first, second).unwrap_or(false) && TraceReader::open(second)?.next().is_some()
            {
                let (first, second) = (first.to_path_buf(), second.to_path_buf());
                return Err(AuditError::Same { first, second });
            }
        }
    }
    Ok(())
}

/// Whether two files hold the same bytes; it is told at the first that differs.
fn alike(first: &Path, second: &Path) -> std::io::Result<bool> {
    if first.canonicalize()? == second.canonicalize()? {
        return Ok(true);
    }
    let (mut first, mut second) = (File::open(first)?, File::open(second)?);
    if first.metadata()?.len() != second.metadata()?.len() {
        return Ok(false);
    }
    let (mut here, mut there) = (Vec::new(), Vec::new());
    loop {
        here.clear();
        there.clear();
        (&mut first).take(COMPARED_BYTES).read_to_end(&mut here)?;
        (&mut second).take(COMPARED_BYTES).read_to_end(&mut there)?;
        if here != there || here.is_empty() {
            return Ok(here == there);
        }
    }
}

/// An audit to which runs come one by one, so that a trace may be deleted once it was heard.
pub struct Auditing {
    options: Options,
    levels: Levels,
    /// Those of the first trace, and which that was.
    config: Option<(PublicConfig, Fingerprinting, PathBuf)>,
    report: Report,
    runs: Vec<Run>,
    digests: Vec<RunDigest>,
}

impl Auditing {
    /// An audit of so many runs in all: the findings of all of them share what they may err.
    pub fn new(runs: u32, options: &Options) -> Self {
        Self {
            options: options.clone(),
            levels: Levels::for_traces(runs),
            config: None,
            report: Report::default(),
            runs: Vec::new(),
            digests: Vec::new(),
        }
    }

    /// Takes in the next run, which findings will call `subject`.
    ///
    /// # Errors
    /// [`AuditError`]; what a trace shows is never an error.
    pub fn hear(&mut self, run: &Given, subject: &str) -> Result<(), AuditError> {
        self.check_heads(run)?;
        let Some((config, ..)) = &self.config else { return Err(AuditError::Nothing) };
        let number = self.runs.len() as u64;
        let Heard { battery, replay, windows, seen, cut } =
            hear(run, (number, subject), config, &self.options)?;
        replay.tell(subject, &mut self.report);
        self.report.findings.extend(cut.iter().map(|cut| whole::cut_short(cut, subject)));
        let (findings, digest) = battery.finish(&self.levels);
        self.report.findings.extend(findings);
        self.digests.push(digest.labelled(&run.label));
        self.runs.push(windows);
        draw(&mut self.report, run, (config.clone(), seen))
    }

    /// Compares the runs with each other.
    pub fn finish(mut self) -> Report {
        if self.runs.len() > 1 {
            self.report.findings.extend(runs_independent(&self.digests, &self.levels));
            let compared = distinguish::distinguish(&self.runs, &self.options.distinguish);
            self.report.findings.extend(compared.findings());
        }
        self.report
    }

    /// All traces have to be of one configuration, and their fingerprints of one kind.
    fn check_heads(&mut self, run: &Given) -> Result<(), AuditError> {
        if run.traces.is_empty() {
            return Err(AuditError::Nothing);
        }
        for path in &run.traces {
            let reader = TraceReader::open(path)?;
            let (config, _) = engine::decode(reader.config())
                .map_err(|reason| AuditError::Config { path: path.clone(), reason })?;
            let found = reader.fingerprinting();
            let Some((common, expected, first)) = &self.config else {
                self.config = Some((config, found, path.clone()));
                continue;
            };
            let (path, first) = (path.clone(), first.clone());
            if *common != config {
                return Err(AuditError::OtherConfig { path, first });
            }
            if *expected != found {
                let expected = *expected;
                return Err(AuditError::OtherFingerprints { path, first, expected, found });
            }
        }
        Ok(())
    }
}

/// What one run came to.
struct Heard {
    battery: Battery,
    replay: Replay,
    windows: Run,
    seen: Seen,
    cut: Vec<Truncation>,
}

/// How the replay of a run ended.
enum Replay {
    Whole(Summary),
    Unpredictable(u64, &'static str),
    Broken(Breach),
}

/// Reads a run: this thread reads and cuts windows, another one draws, replays and counts; that is
/// about as much.
fn hear(
    run: &Given,
    (number, subject): (u64, &str),
    config: &PublicConfig,
    options: &Options,
) -> Result<Heard, AuditError> {
    let mut replaying = Replaying {
        oracle: Oracle::new(config)?.seeded(number),
        battery: Battery::new(config, subject).map_err(Refused)?,
        trace: 0,
        halted: None,
        seen: Seen::new(&config.encode()),
    };
    let mut windows = Extractor::new(Some(config), &options.distinguish);
    let is_joint = engine::of(config).is_ok_and(|(_, engine)| engine.is_joint());
    let gathered = thread::scope(|scope| {
        let (to, parts) = sync_channel(PARTS_WAITING);
        let (back, used) = sync_channel(PARTS_WAITING + 2);
        let replay = &mut replaying;
        scope.spawn(move || replay.run(parts, &back));
        let (replay, here) = (Replayer { to, used }, |event: &Event| windows.event(event));
        match is_joint {
            true => gather_together(&run.traces, &replay, here),
            false => gather(&run.traces, &replay, here),
        }
    });
    let cut = gathered?;
    let Replaying { oracle, battery, halted, seen, .. } = replaying;
    let replay = match halted {
        None => Replay::Whole(oracle.summary()),
        Some((_, Halt::Breach(breach))) => Replay::Broken(breach),
        Some((_, Halt::Unpredictable { event, reason })) => Replay::Unpredictable(event, reason),
        Some((trace, Halt::Unfollowing { reason, .. })) => {
            let path = |number: usize| run.traces.get(number).cloned().unwrap_or_default();
            let (path, before) = (path(trace), path(trace.saturating_sub(1)));
            return Err(AuditError::Unfollowing { path, before, reason });
        }
    };
    Ok(Heard { battery, replay, windows: windows.finish(&run.label), seen, cut })
}

/// What goes to the replaying thread.
enum Part {
    Events(Vec<Event>),
    /// The next trace of the run begins.
    NextTrace,
}

struct Replaying {
    oracle: Oracle,
    battery: Battery,
    /// Which trace of the run it is, from 0.
    trace: usize,
    /// Where the replay ended early, and why.
    halted: Option<(usize, Halt)>,
    seen: Seen,
}

impl Replaying {
    fn run(&mut self, parts: Receiver<Part>, back: &SyncSender<Vec<Event>>) {
        for part in parts {
            match part {
                Part::NextTrace => {
                    self.end_trace();
                    self.trace += 1;
                    self.oracle.next_trace();
                }
                Part::Events(events) => {
                    self.events(&events);
                    let _ = back.try_send(events); // what cannot go back is freed here
                }
            }
        }
        self.end_trace();
    }

    fn end_trace(&mut self) {
        if self.halted.is_none() {
            let taken = self.oracle.end_trace(&mut self.battery);
            self.halted = taken.err().map(|halt| (self.trace, halt));
        }
    }

    fn events(&mut self, events: &[Event]) {
        for event in events {
            self.seen.event(event);
            if self.halted.is_none() {
                let taken = self.oracle.event(event, &mut self.battery);
                self.halted = taken.err().map(|halt| (self.trace, halt));
            }
        }
    }
}

/// The replaying thread, as the reading one knows it.
struct Replayer {
    to: SyncSender<Part>,
    /// Events whose memory may be used again.
    used: Receiver<Vec<Event>>,
}

impl Replayer {
    fn take(&self, part: Part) {
        // It ends only when this end is dropped, or by a panic that the scope passes on.
        let _ = self.to.send(part);
    }

    /// An empty list of events, made of one that was replayed if there is one.
    fn room(&self, reader: &mut TraceReader) -> Vec<Event> {
        let mut room = self.used.try_recv().unwrap_or_default();
        room.drain(..).for_each(|event| reader.take_back(event));
        room
    }
}

/// Reads `traces` in their order; every event goes to `here` and then to the replay.
fn gather(
    traces: &[PathBuf],
    replay: &Replayer,
    mut here: impl FnMut(&Event),
) -> Result<Vec<Truncation>, AuditError> {
    let mut cut = Vec::new();
    for (number, trace) in traces.iter().enumerate() {
        if number > 0 {
            replay.take(Part::NextTrace);
        }
        let mut reader = TraceReader::open(trace)?;
        let mut part = replay.room(&mut reader);
        while let Some(event) = reader.next() {
            let event = event?;
            here(&event);
            part.push(event);
            if part.len() == PART_EVENTS {
                replay.take(Part::Events(part));
                part = replay.room(&mut reader);
            }
        }
        replay.take(Part::Events(part));
        cut.extend(reader.truncated().cloned());
    }
    Ok(cut)
}

/// Reads `traces`, which were recorded at once, as one.
fn gather_together(
    traces: &[PathBuf],
    replay: &Replayer,
    mut here: impl FnMut(&Event),
) -> Result<Vec<Truncation>, AuditError> {
    let readers = traces.iter().map(TraceReader::open).collect::<Result<Vec<_>, _>>()?;
    let (mut together, mut part) = (Together::new(readers), Vec::new());
    for event in together.by_ref() {
        let event = event?;
        here(&event);
        part.push(event);
        if part.len() == PART_EVENTS {
            replay.take(Part::Events(std::mem::take(&mut part)));
        }
    }
    replay.take(Part::Events(part));
    Ok(together.into_inner().filter_map(|reader| reader.truncated().cloned()).collect())
}

impl Replay {
    /// Tells how far the trace was as predicted.
    fn tell(self, subject: &str, report: &mut Report) {
        let finding = |verdict, events: u64, words: String| Finding {
            check: "oracle".into(),
            subject: subject.into(),
            verdict,
            figure: events as f64,
            threshold: events as f64,
            samples: events,
            smallest_leak: None,
            words,
        };
        report.findings.push(match self {
            Self::Whole(summary) if summary.epochs == 0 => finding(
                Verdict::TooFew,
                summary.events,
                "The trace has no whole epoch: record for longer.".into(),
            ),
            Self::Whole(summary) => finding(Verdict::Passed, summary.events, follows(&summary)),
            Self::Unpredictable(event, reason) => finding(
                Verdict::TooFew,
                event,
                format!(
                    "Cannot be predicted from event {event} on: {reason}. Give the store's earlier \
                     traces too: --trace LABEL=FIRST,SECOND."
                ),
            ),
            Self::Broken(breach) => {
                let finding = finding(Verdict::Failed, breach.event, breach.to_string());
                report.breaches.push(Broken { subject: subject.into(), breach });
                finding
            }
        });
    }
}

fn follows(summary: &Summary) -> String {
    format!(
        "Each of {} is the one that the public configuration predicts: {}, {}, {}, {}.",
        counted(summary.events, "record", "records"),
        counted(summary.epochs, "epoch", "epochs"),
        counted(summary.accesses, "access", "accesses"),
        counted(summary.openings, "opening", "openings"),
        counted(summary.crashes, "crash", "crashes")
    )
}

/// Adds a run to the picture of its label; the first run of a label is drawn, beside its history.
fn draw(
    report: &mut Report,
    run: &Given,
    (config, seen): (PublicConfig, Seen),
) -> Result<(), AuditError> {
    let asked = match &run.history {
        Some(path) => Some(asked(path, &seen)?),
        None => None,
    };
    let known = report.labels.iter().position(|label| label.name == run.label);
    let at = known.unwrap_or_else(|| {
        report.labels.push(Label::new(&run.label));
        report.labels.len() - 1
    });
    let label = &mut report.labels[at];
    label.config.get_or_insert(config);
    if label.seen.is_none() {
        label.asked = asked;
    }
    label.add(seen);
    Ok(())
}

fn asked(history: &Path, seen: &Seen) -> Result<Keys, HistoryError> {
    let mut keys = Keys::new(seen.scale());
    for line in HistoryReader::open(history)? {
        keys.line(&line?);
    }
    Ok(keys)
}

/// What findings call the run with this number: its label, and which of the label's runs it is.
fn subject(given: &[Given], number: usize) -> String {
    let label = &given[number].label;
    let of_label = |run: &&Given| run.label == *label;
    if given.iter().filter(of_label).count() == 1 {
        return label.clone();
    }
    format!("{label} {}", given[..number].iter().filter(of_label).count() + 1)
}

/// Events that cross to the other thread at once, and how many such parts may wait.
const PART_EVENTS: usize = 64;
const PARTS_WAITING: usize = 8;

/// How much of two files is compared at once.
const COMPARED_BYTES: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_alike_and_neighbours_are_not() {
        let folder = std::env::temp_dir().join(format!("fogbank-alike-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, last: u8| {
            let mut bytes = vec![7; 100_000];
            bytes.push(last);
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (one, copy, other) = (file("one", 1), file("copy", 1), file("other", 2));
        assert!(
            alike(&one, &folder.join("../").join(folder.file_name().unwrap()).join("one")).unwrap()
        );
        assert!(alike(&one, &copy).unwrap());
        assert!(!alike(&one, &other).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
