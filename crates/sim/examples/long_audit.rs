//! The long audit, `make audit`: can any two workloads be told apart by what the cloud saw?
//!
//! `long_audit [ACCESSES [RUNS [CRASHES]]]`: RUNS runs of each workload (22, at least 4), of
//! ACCESSES each (265,000), in turn. The whole proxy plays them in virtual time; batches of 8 and
//! eight of them an epoch, so that a million accesses are 111,000 windows. A third of the runs
//! teaches. With CRASHES a run is that many lives that are cut short at some call, and recovered,
//! and one more; runs of one number are cut at the same calls whatever their workload, for when a
//! proxy dies is public.
//!
//! While one run is audited the next is played, and what was heard is deleted: on the disk are
//! never more than three traces, of 70 MB each; memory takes 20 MB a run. Exit codes: 0 nothing was
//! found and the advantage is below the bound, 1 a leak was found, 3 the runs were too short to
//! say; the bound that they reached is printed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use fogbank_audit::report::Report;
use fogbank_audit::{Auditing, Finding, Given, Options, Verdict};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_sim::scene::{Cast, Death, Fate, Scene, Shape, Workload, record_lives};
use rand_core::Rng;

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let numbers: Result<Vec<u32>, _> = std::env::args().skip(1).map(|n| n.parse()).collect();
    let Ok(numbers) = numbers else {
        eprintln!("usage: long_audit [ACCESSES [RUNS [CRASHES]]]");
        return ExitCode::from(64);
    };
    let or = |at: usize, otherwise| numbers.get(at).copied().unwrap_or(otherwise);
    let length = Length { accesses: or(0, 265_000), runs: or(1, 22), crashes: or(2, 0) };
    match play_and_audit(length) {
        Ok(report) => tell(&report),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(70)
        }
    }
}

/// How much is played.
#[derive(Clone, Copy)]
struct Length {
    accesses: u32,
    runs: u32,
    crashes: u32,
}

/// A run that was played.
struct Run {
    label: &'static str,
    subject: String,
    traces: Vec<PathBuf>,
}

fn play_and_audit(length: Length) -> Result<Report, Error> {
    let folder = tempfile::tempdir()?;
    let total = length.runs * Workload::ALL.len() as u32;
    let mut auditing = Auditing::new(total, &Options::default());
    let clock = SystemClock::new();
    let began = clock.now();
    thread::scope(|scope| {
        let (played, ready) = sync_channel(0);
        let path = folder.path();
        scope.spawn(move || play(length, path, &played));
        for (number, run) in (1..).zip(ready) {
            let Run { label, subject, traces } = run?;
            let lengths = traces.iter().map(|trace| trace.metadata().map(|file| file.len()));
            let bytes = lengths.sum::<Result<u64, _>>()?;
            let given = Given { label: label.into(), traces: traces.clone(), history: None };
            auditing.hear(&given, &subject)?;
            traces.iter().try_for_each(std::fs::remove_file)?;
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
fn play(length: Length, folder: &Path, played: &SyncSender<Result<Run, Error>>) {
    for number in 0..length.runs {
        for (at, workload) in (0..).zip(Workload::ALL) {
            let run = play_one(workload, (number, at), length, folder);
            let run = run.map(|traces| {
                let subject = format!("{} {}", workload.name(), number + 1);
                Run { label: workload.name(), subject, traces }
            });
            let failed = run.is_err();
            if played.send(run).is_err() || failed {
                return; // nobody listens any more, or nothing more to say
            }
        }
    }
}

fn play_one(
    workload: Workload,
    (number, at): (u32, u32),
    length: Length,
    folder: &Path,
) -> Result<Vec<PathBuf>, Error> {
    let shape = Shape { read_batches: 8, ..Shape::small() };
    let an_epoch = shape.read_batches * shape.batch.read_batch + shape.batch.write_batch;
    let epochs = length.accesses.div_ceil(an_epoch as u32).div_ceil(length.crashes + 1);
    let seed = u64::from(number) << 32 | u64::from(at);
    let scene = Scene { shape, cast: Cast::Journalled, epochs, ..Scene::new(workload, seed) };
    let lives: Vec<(PathBuf, Option<Death>)> = deaths(number, length.crashes, epochs)
        .enumerate()
        .map(|(life, death)| (folder.join(format!("{seed:x}-{life:03}")), death))
        .collect();
    // Whether a life ended as it was to: a run without its crashes would pass for one with them.
    for (played, (_, death)) in record_lives(&scene, &lives)?.into_iter().zip(&lives) {
        if played.stopped.is_some() != death.is_some() {
            let name = workload.name();
            return Err(format!("{name}: {death:?}, but {:?}", played.stopped).into());
        }
    }
    Ok(lives.into_iter().map(|(path, _)| path).collect())
}

/// When the lives of run `number` end: somewhere in their second half, before, within or after a
/// call; the last one well.
fn deaths(number: u32, crashes: u32, epochs: u32) -> impl Iterator<Item = Option<Death>> {
    let mut random =
        Randomness::repeatable(DEATHS_SEED).split(number.into()).stream(Purpose::Workload);
    let calls = epochs * CALLS_AN_EPOCH;
    let death = move |_| {
        let call = u64::from(calls / 2) + random.next_u64() % u64::from(calls / 2 + 1);
        let how = KILLS[random.next_u64() as usize % KILLS.len()];
        Some(Death { call, how })
    };
    (0..crashes).map(death).chain([None])
}

/// What ends a life for certain: of a call that only fails, the proxy may find out what became of
/// it.
const KILLS: [Fate; 3] = [Fate::Unsent, Fate::Undone, Fate::Done];
/// Calls of an epoch, at the least: a record and a read for every batch.
const CALLS_AN_EPOCH: u32 = 18;
const DEATHS_SEED: u64 = 0x6465_6174_6873;

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
