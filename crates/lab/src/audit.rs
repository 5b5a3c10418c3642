//! `fogbank audit`: the auditor over recorded traces.

use std::path::{Path, PathBuf};

use crate::args::AuditArgs;
use fogbank::{Error, Result};
use fogbank_audit::report::{self, Report};
use fogbank_audit::{AuditError, Given, Options, Verdict, audit};
use fogbank_process::{say, say_error};

/// Audits the traces that `args` names, tells what came of it, and ends accordingly.
///
/// # Errors
/// [`Error::CheckFailed`] if a leak was found, [`Error::TooFewData`] if there was too little to
/// say.
pub fn run(args: &AuditArgs) -> Result<()> {
    let given = given(args)?;
    spare_inputs(args, &given)?;
    let mut options = Options::default();
    options.distinguish.bound = args.bound;
    let report = audit(&given, &options, |run| tracing::info!("reading {run}")).map_err(blame)?;
    tell(args, &report)?;
    match report.verdict() {
        Verdict::Passed => Ok(()),
        Verdict::Failed => Err(Error::CheckFailed("the traces show a leak".into())),
        Verdict::TooFew => Err(Error::TooFewData(
            "no leak was found, but there is too little data to say that there is none".into(),
        )),
    }
}

fn tell(args: &AuditArgs, report: &Report) -> Result<()> {
    if let Some(path) = &args.html {
        report.write_html(path).map_err(|e| {
            Error::CannotUse(format!("cannot write the page {}: {e}", path.display()))
        })?;
        say_error!("wrote {}", path.display());
    }
    if args.json {
        say_error!("{}", report::text(report).trim_end());
        say!("{}", report::json(report));
    } else {
        say!("{}", report::text(report).trim_end());
    }
    Ok(())
}

/// The runs in the order given: `LABEL=FILE`, or `LABEL=FIRST,SECOND` for a run of several
/// processes.
fn given(args: &AuditArgs) -> Result<Vec<Given>> {
    let mut runs = Vec::with_capacity(args.trace.len());
    for argument in &args.trace {
        let (label, traces) = split("--trace", argument)?;
        if traces.split(',').any(str::is_empty) {
            let words = "a comma stands between two files, such as busy=first.trace,second.trace";
            return Err(Error::Usage(format!("--trace {argument}: {words}")));
        }
        let traces: Vec<PathBuf> = traces.split(',').map(PathBuf::from).collect();
        runs.push(Given { label: label.into(), traces, history: None });
    }
    if args.html.is_none() && !args.history.is_empty() {
        return Err(Error::Usage(
            "--history is drawn on the page only: say --html FILE too".into(),
        ));
    }
    for argument in &args.history {
        let (label, history) = split("--history", argument)?;
        let wrong = |why: String| Error::Usage(format!("--history {argument}: {why}"));
        // Only the first run of a label is drawn, so only it can have one.
        let run = runs.iter_mut().find(|run| run.label == label);
        let run = run.ok_or_else(|| wrong(format!("no --trace has the label {label}")))?;
        if run.history.replace(history.into()).is_some() {
            return Err(wrong(format!(
                "the label {label} has a history already; give one a label"
            )));
        }
    }
    Ok(runs)
}

/// The page is written over what is there, which must not be what is read.
fn spare_inputs(args: &AuditArgs, given: &[Given]) -> Result<()> {
    let Some(page) = &args.html else { return Ok(()) };
    let Ok(place) = page.canonicalize() else { return Ok(()) }; // there is nothing to write over
    let traces = given.iter().flat_map(|run| &run.traces).flat_map(|trace| parts(trace));
    let histories = given.iter().filter_map(|run| run.history.clone());
    let is_page = |input: PathBuf| input.canonicalize().is_ok_and(|input| input == place);
    if traces.chain(histories).any(is_page) {
        let words = "that is one of the files to read; choose another for the page";
        return Err(Error::Usage(format!("--html {}: {words}", page.display())));
    }
    Ok(())
}

/// The files of a trace: the path itself, then those with `.1`, `.2` and so on that are there.
fn parts(trace: &Path) -> impl Iterator<Item = PathBuf> {
    let part = |number: u32| {
        let mut name = trace.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let further = (1..).map(part).take_while(|part| part.exists());
    std::iter::once(trace.to_owned()).chain(further)
}

fn split<'a>(flag: &str, argument: &'a str) -> Result<(&'a str, &'a str)> {
    argument
        .split_once('=')
        .filter(|(label, file)| !label.is_empty() && !file.is_empty())
        .ok_or_else(|| {
            Error::Usage(format!("{flag} {argument}: say LABEL=FILE, such as busy=busy.trace"))
        })
}

fn blame(error: AuditError) -> Error {
    let words = printable(&error.to_string());
    match error {
        AuditError::Trace(_) | AuditError::History(_) => Error::CannotUse(words),
        AuditError::Config { .. }
        | AuditError::OtherConfig { .. }
        | AuditError::OtherFingerprints { .. }
        | AuditError::Same { .. }
        | AuditError::Unfollowing { .. }
        | AuditError::Refused(_)
        | AuditError::Nothing => Error::Usage(words),
    }
}

/// With what would move a terminal's cursor escaped: the head of a trace comes from anywhere.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => printable.extend(c.escape_default()),
            false => printable.push(c),
        }
    }
    printable
}
