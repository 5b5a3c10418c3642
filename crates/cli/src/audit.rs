//! `fogbank audit`: the auditor over recorded traces.

use std::path::PathBuf;

use fogbank::args::AuditArgs;
use fogbank::{Error, Result};
use fogbank_audit::report::{self, Report};
use fogbank_audit::{AuditError, Given, Options, Verdict, audit};

/// Audits the traces that `args` names, tells what came of it, and ends accordingly.
///
/// # Errors
/// [`Error::CheckFailed`] if a leak was found, [`Error::TooFewData`] if there was too little to say.
pub fn run(args: &AuditArgs) -> Result<()> {
    let given = given(args)?;
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
        eprintln!("wrote {}", path.display());
    }
    if args.json {
        eprint!("{}", report::text(report));
        println!("{}", report::json(report));
    } else {
        print!("{}", report::text(report));
    }
    Ok(())
}

/// The runs in the order given: `LABEL=FILE`, or `LABEL=FIRST,SECOND` for a run of several processes.
fn given(args: &AuditArgs) -> Result<Vec<Given>> {
    let mut runs = Vec::with_capacity(args.trace.len());
    for argument in &args.trace {
        let (label, traces) = split("--trace", argument)?;
        let traces: Vec<PathBuf> = traces.split(',').map(PathBuf::from).collect();
        runs.push(Given { label: label.into(), traces, history: None });
    }
    for argument in &args.history {
        let (label, history) = split("--history", argument)?;
        let run = runs.iter_mut().find(|run| run.label == label && run.history.is_none());
        let run = run.ok_or_else(|| {
            Error::Usage(format!("--history {argument}: no --trace has the label {label}"))
        })?;
        run.history = Some(history.into());
    }
    Ok(runs)
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
    match error {
        AuditError::Trace(_) | AuditError::History(_) => Error::CannotUse(error.to_string()),
        AuditError::Config { .. }
        | AuditError::OtherConfig { .. }
        | AuditError::Same { .. }
        | AuditError::Refused(_)
        | AuditError::Nothing => Error::Usage(error.to_string()),
    }
}
