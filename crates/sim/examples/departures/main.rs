//! How far clients displace what a proxy sends, on the machine's clock:
//!
//! `departures BINARY [--windows 10] [--seconds 3] [--only WORD,WORD] [--interval-ms 60]
//! [--keep FOLDER] [--runs N]`
//!
//! 1. Two servers of the given binary run on loopback, each with a store of its own; one is
//!    recorded.
//! 2. Windows take turns: nobody asks anything; the load goes to the recorded server; the same load
//!    goes to the other one, so that the machine has as much to do and the recorded one nothing.
//! 3. Afterwards the trace says by how many quanta the messages of each window were later than the
//!    cloud's own replies made them due (`due.rs`), how many of each kind were, and the longest time
//!    in which none left.
//!
//! With `--runs N` each window is a run of its own, on a store of its own, and N of each kind are
//! kept in FOLDER for `fogbank audit`, which is what the auditor is asked to tell apart.
//!
//! All of it runs at raised priority where that is permitted, the servers above the clients. What
//! the idle windows show is the machine.

mod client;
mod due;
mod loads;
mod moment;
mod server;

use std::fmt::Write;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use fogbank_env::Nanos;
use fogbank_store::trace::{PublicConfig, TraceReader};

use self::due::{Departure, Due, Kind};
use self::loads::{LOADS, Load, Need, Target};
use self::moment::{Moment, rest};
use self::server::{Server, Servers};

/// What a window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Here,
    Elsewhere,
}

/// From when to when something was done to whom.
struct Window {
    load: usize,
    phase: Phase,
    from: Nanos,
    to: Nanos,
}

/// What left in a window.
struct Seen {
    phase: Phase,
    departures: Vec<Departure>,
    /// The longest time without a departure.
    gap: Nanos,
}

/// What was asked for.
struct Options {
    binary: PathBuf,
    windows: u64,
    seconds: u64,
    only: Vec<String>,
    interval_ms: u64,
    runs: Option<u64>,
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!(
            "usage: departures BINARY [--windows N] [--seconds N] [--only WORD,WORD] \
             [--interval-ms N] [--keep FOLDER] [--runs N, with a folder]; WORD is one of"
        );
        LOADS.iter().for_each(|load| eprintln!("  {:12} {}", load.word, load.name));
        return ExitCode::from(64);
    };
    match measure(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Option<Options> {
    let binary = words.next().filter(|word| !word.starts_with("--"))?.into();
    let only = Vec::new();
    let mut options =
        Options { binary, windows: 10, seconds: 3, only, interval_ms: 60, runs: None, keep: None };
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--windows" => options.windows = value.parse().ok().filter(|n| *n > 0)?,
            "--seconds" => options.seconds = value.parse().ok().filter(|n| *n > 0)?,
            "--interval-ms" => options.interval_ms = value.parse().ok().filter(|n| *n > 0)?,
            "--runs" => options.runs = Some(value.parse().ok().filter(|n| *n > 0)?),
            "--only" => options.only = value.split(',').map(str::to_owned).collect(),
            "--keep" => options.keep = Some(value.into()),
            _ => return None,
        }
    }
    let known = |word: &String| LOADS.iter().any(|load| load.word == word);
    let kept = options.runs.is_none() || options.keep.is_some();
    (kept && options.only.iter().all(known)).then_some(options)
}

fn measure(options: &Options) -> Result<()> {
    // Linux weighs sessions first and processes within them: without it `nice` is of no use against
    // what other terminals do. Not everywhere, and not for everybody.
    let _ordinary = std::fs::write("/proc/self/autogroup", "-10");
    let scratch = tempfile::tempdir()?;
    let folder = options.keep.as_deref().unwrap_or(scratch.path());
    let moment = Moment::default();
    let binary = options.binary.canonicalize()?;
    let servers = Servers { binary, interval_ms: options.interval_ms, moment };
    if let Some(runs) = options.runs {
        let loads = (0..LOADS.len()).filter(|n| options.wants(&LOADS[*n]));
        let mut loads = loads.filter(|n| LOADS[*n].holds == Need::Nothing);
        println!("{}", head());
        return loads.try_for_each(|load| record(options, &servers, folder, load, runs));
    }
    println!("{}", head());
    for need in [Need::Nothing, Need::Names, Need::Expiring] {
        let wanted = |n: &usize| LOADS[*n].holds == need && options.wants(&LOADS[*n]);
        let loads: Vec<usize> = (0..LOADS.len()).filter(wanted).collect();
        if !loads.is_empty() {
            let folder = folder.join(format!("{need:?}").to_lowercase());
            group(options, &servers, &folder, need, &loads)?;
        }
    }
    Ok(())
}

impl Options {
    fn wants(&self, load: &Load) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| word == load.word)
    }
}

/// Runs of a load, each on stores of its own, which the auditor can follow from their beginning.
fn record(
    options: &Options,
    servers: &Servers,
    folder: &Path,
    load: usize,
    runs: u64,
) -> Result<()> {
    let (mut words, mut seen) = (String::new(), Vec::new());
    for number in 0..runs {
        for phase in [Phase::Idle, Phase::Here, Phase::Elsewhere] {
            let label = format!("{}-{phase:?}", LOADS[load].word).to_lowercase();
            let folder = folder.join(format!("{label}-{number}"));
            let watched = servers.start(&folder.join("watched"), Need::Nothing.holds(0, 0, 0))?;
            let other = servers.start(&folder.join("other"), Need::Nothing.holds(0, 0, 0))?;
            let mut window = window(options, servers, load, phase, (&watched, &other));
            window.by_the_clock_of(&watched);
            drop(other.stop()?);
            let trace = watched.stop()?;
            seen.push(window.seen(&departures(&trace)?));
            let _ = write!(words, " --trace {label}={}", trace.display());
        }
    }
    print!("{}", row(load, &seen));
    println!("fogbank audit{words}");
    Ok(())
}

/// Loads that need the same of their store.
fn group(
    options: &Options,
    servers: &Servers,
    folder: &Path,
    need: Need,
    loads: &[usize],
) -> Result<()> {
    let every_ms = 1_000 * 3 * (options.seconds + 1);
    let first_ms = servers.moment.wall_ms() + FILLING_MS;
    let holds = |late_ms| need.holds(first_ms + late_ms, every_ms, options.windows);
    let watched = servers.start(&folder.join("watched"), holds(0))?;
    let other = servers.start(&folder.join("other"), holds(every_ms / 3))?;
    if need == Need::Expiring {
        let ahead_ms = first_ms.saturating_sub(servers.moment.wall_ms() + 500 * options.seconds);
        rest(Duration::from_millis(ahead_ms));
    }
    rest(SETTLE);
    let mut windows = Vec::new();
    for &load in loads {
        for number in 0..options.windows {
            // Each in turn is the first; keys expire in one order.
            let mut phases = [Phase::Here, Phase::Elsewhere, Phase::Idle];
            if need != Need::Expiring {
                phases.rotate_left(number as usize % 3);
            }
            for phase in phases {
                windows.push(window(options, servers, load, phase, (&watched, &other)));
            }
        }
        eprintln!("{}: recorded", LOADS[load].name);
    }
    windows.iter_mut().for_each(|window| window.by_the_clock_of(&watched));
    drop(other.stop()?);
    let departures = departures(&watched.stop()?)?;
    for &load in loads {
        let of_load = windows.iter().filter(|window| window.load == load);
        let seen: Vec<Seen> = of_load.map(|window| window.seen(&departures)).collect();
        print!("{}", row(load, &seen));
    }
    Ok(())
}

fn window(
    options: &Options,
    servers: &Servers,
    load: usize,
    phase: Phase,
    (watched, other): (&Server, &Server),
) -> Window {
    let moment = &servers.moment;
    let from = moment.now();
    let until = from + options.seconds * 1_000_000_000;
    let target = |port| Target { port, until, moment: moment.clone() };
    match phase {
        Phase::Idle => {}
        Phase::Here => LOADS[load].run(&target(watched.port)),
        Phase::Elsewhere => LOADS[load].run(&target(other.port)),
    }
    // What it held up may leave a little later; whoever waited for an answer has it by now.
    moment.rest_until(until.max(moment.now() + SETTLE.as_nanos() as Nanos / 2));
    let to = moment.now();
    rest(SETTLE);
    Window { load, phase, from, to }
}

fn departures(trace: &Path) -> Result<Vec<Departure>> {
    let reader = TraceReader::open(trace).map_err(Error::other)?;
    let config = PublicConfig::decode(reader.config()).map_err(Error::other)?;
    let not_epochs = |_| Error::other("this is no trace of a store with epochs");
    let mut due = Due::new(&config.tail().map_err(not_epochs)?);
    let mut departures = Vec::new();
    for event in reader {
        departures.extend(due.event(&event.map_err(Error::other)?));
    }
    Ok(departures)
}

impl Window {
    fn by_the_clock_of(&mut self, server: &Server) {
        (self.from, self.to) = (server.by_its_clock(self.from), server.by_its_clock(self.to));
    }

    fn seen(&self, departures: &[Departure]) -> Seen {
        let within = |d: &&Departure| self.from <= d.at && d.at < self.to;
        let departures: Vec<Departure> = departures.iter().filter(within).copied().collect();
        let longest = departures.windows(2).map(|pair| pair[1].at - pair[0].at).max();
        Seen { phase: self.phase, gap: longest.unwrap_or(self.to - self.from), departures }
    }
}

/// The rows of a load.
fn row(load: usize, seen: &[Seen]) -> String {
    let mut text = String::new();
    for (phase, words) in [
        (Phase::Here, LOADS[load].name),
        (Phase::Elsewhere, "  on another server"),
        (Phase::Idle, "  idle"),
    ] {
        let of_phase = || seen.iter().filter(|seen| seen.phase == phase);
        let all = || of_phase().flat_map(|seen| &seen.departures);
        let displaced = |seen: &Seen| seen.departures.iter().map(|d| d.displaced).sum::<u64>();
        let _ = write!(text, "{words:40}");
        for seen in of_phase() {
            let _ = write!(text, "{:5}", displaced(seen));
        }
        let sum: u64 = of_phase().map(displaced).sum();
        let gap_ms = of_phase().map(|seen| seen.gap).max().unwrap_or(0) / 1_000_000;
        let _ = write!(text, " {sum:7} {gap_ms:7}");
        for (kind, _) in Kind::ALL {
            let late = all().filter(|d| d.kind == kind && d.displaced > 0).count();
            let of = format!("{late}/{}", all().filter(|d| d.kind == kind).count());
            let _ = write!(text, " {of:>9}");
        }
        text.push('\n');
    }
    text
}

/// Above the columns.
fn head() -> String {
    let kinds: String = Kind::ALL.iter().map(|(_, name)| format!(" {name:>9}")).collect();
    format!(
        "displaced points, window by window; their sum; the longest time without a departure in \
         ms; messages that were late, of all of their kind:\n{:56}{kinds}",
        ""
    )
}

/// Between two windows, and before the first.
const SETTLE: Duration = Duration::from_secs(1);

/// For two stores to be filled, before keys begin to expire.
const FILLING_MS: u64 = 90_000;
