//! The long audit, `make audit`: can any two workloads be told apart by what the cloud saw?
//!
//! `long_audit [ACCESSES [RUNS]]`: RUNS runs of each workload (18, at least 4), of ACCESSES each
//! (320,000), in turn. The whole proxy plays them in virtual time; batches of 8 and eight of them an
//! epoch, so that a million accesses are 111,000 windows. A third of the runs teaches.
//!
//! While one run is audited the next is played, and what was heard is deleted: on the disk are never
//! more than three traces, of 85 MB each; memory takes 20 MB a run. Exit codes: 0 nothing was found and
//! the advantage is below the bound, 1 a leak was found, 3 the runs were too short to say; the bound
//! that they reached is printed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use fogbank_audit::report::Report;
use fogbank_audit::{Auditing, Finding, Given, Options, Verdict};
use fogbank_env::{Clock, SystemClock};
use fogbank_sim::scene::{Cast, Scene, Shape, Workload, record};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let numbers: Result<Vec<u32>, _> = std::env::args().skip(1).map(|n| n.parse()).collect();
    let Ok(numbers) = numbers else {
        eprintln!("usage: long_audit [ACCESSES [RUNS]]");
        return ExitCode::from(64);
    };
    let accesses = numbers.first().copied().unwrap_or(320_000);
    let runs = numbers.get(1).copied().unwrap_or(18);
    match play_and_audit(accesses, runs) {
        Ok(report) => tell(&report),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(70)
        }
    }
}

/// A run that was played.
struct Run {
    label: &'static str,
    subject: String,
    trace: PathBuf,
}

fn play_and_audit(accesses: u32, runs: u32) -> Result<Report, Error> {
    let folder = tempfile::tempdir()?;
    let total = runs * Workload::ALL.len() as u32;
    let mut auditing = Auditing::new(total, &Options::default());
    let clock = SystemClock::new();
    let began = clock.now();
    thread::scope(|scope| {
        let (played, ready) = sync_channel(0);
        let path = folder.path();
        scope.spawn(move || play(accesses, runs, path, &played));
        for (number, run) in (1..).zip(ready) {
            let Run { label, subject, trace } = run?;
            let bytes = trace.metadata()?.len();
            let given = Given { label: label.into(), traces: vec![trace.clone()], history: None };
            auditing.hear(&given, &subject)?;
            std::fs::remove_file(&trace)?;
            let seconds = (clock.now() - began) / 1_000_000_000;
            let megabytes = bytes / 1_000_000;
            eprintln!("{number} of {total}: {subject}, {megabytes} MB, after {seconds} s");
        }
        Ok::<_, Error>(())
    })?;
    eprintln!("comparing every two of {} workloads", Workload::ALL.len());
    let report = auditing.finish();
    eprintln!("done after {} s", (clock.now() - began) / 1_000_000_000);
    Ok(report)
}

/// Plays the runs of all workloads in turn, each with a seed of its own.
fn play(accesses: u32, runs: u32, folder: &Path, played: &SyncSender<Result<Run, Error>>) {
    for number in 0..runs {
        for (at, workload) in (0..).zip(Workload::ALL) {
            let run = play_one(workload, u64::from(number) << 32 | at, accesses, folder);
            let run = run.map(|trace| {
                let subject = format!("{} {}", workload.name(), number + 1);
                Run { label: workload.name(), subject, trace }
            });
            let failed = run.is_err();
            if played.send(run).is_err() || failed {
                return; // nobody listens any more, or nothing more to say
            }
        }
    }
}

fn play_one(workload: Workload, seed: u64, accesses: u32, folder: &Path) -> Result<PathBuf, Error> {
    let shape = Shape { read_batches: 8, ..Shape::small() };
    let an_epoch = shape.read_batches * shape.batch.read_batch + shape.batch.write_batch;
    let epochs = accesses.div_ceil(an_epoch as u32);
    let scene = Scene { shape, cast: Cast::Journalled, epochs, ..Scene::new(workload, seed) };
    let trace = folder.join(format!("{seed:x}"));
    match record(&scene, &trace)?.stopped {
        None => Ok(trace),
        Some(stopped) => Err(format!("the proxy of {} stopped: {stopped}", workload.name()).into()),
    }
}

/// Prints every comparison, whatever else did not pass, the bound that was reached and the verdict.
fn tell(report: &Report) -> ExitCode {
    let compared =
        |finding: &&Finding| ["two-histories", "same-history"].contains(&&*finding.check);
    let (compared, others): (Vec<&Finding>, Vec<_>) =
        report.sorted().into_iter().partition(compared);
    let (passed, open): (Vec<&Finding>, Vec<_>) =
        others.into_iter().partition(|finding| finding.verdict == Verdict::Passed);
    for finding in open.into_iter().chain(compared) {
        let Finding { verdict, check, subject, words, .. } = finding;
        println!("{verdict:?} {check} ({subject}): {words}");
    }
    println!("{} further checks passed.", passed.len());
    if let Some((bound, pair)) = bound(report) {
        println!("The advantage is at most {:.2} % ({pair}).", 100.0 * bound);
    }
    println!("{:?}", report.verdict());
    match report.verdict() {
        Verdict::Passed => ExitCode::SUCCESS,
        Verdict::Failed => ExitCode::from(1),
        Verdict::TooFew => ExitCode::from(3),
    }
}

/// The highest upper end among all pairs.
fn bound(report: &Report) -> Option<(f64, &str)> {
    let pairs = report.findings.iter().filter(|finding| finding.check == "two-histories");
    let bounds =
        pairs.map(|pair| (pair.figure + pair.smallest_leak.unwrap_or(1.0), &*pair.subject));
    bounds.max_by(|a, b| a.0.total_cmp(&b.0))
}
