//! `fogbank tune`: R, batch sizes, the interval and the size of values for a store to be made, from
//! a short run of the application that will use it.
//!
//! 1. *Observe*: a workload that the program has, or that a file describes, runs on the baseline
//!    over a store in memory; or somebody's application runs against a Redis endpoint over memory
//!    ([`serving`]). Either way what counts of a transaction is its footprint as if nothing had
//!    been in memory ([`seen`]): rounds of reads that depend on one another, records read and
//!    written, bytes of values, and when it ended.
//! 2. *Propose*: what epochs have to hold ([`need`]), and how often they can come ([`proposal`]).
//! 3. *Say what it reveals* ([`report`]), and on request run the workload on the proposal.
//!
//! What was seen is secret: it is printed on the terminal of whoever asked, and kept nowhere. What
//! is proposed is to become public. So it is a few coarse figures, chosen once: nothing here
//! changes a store that exists, and nothing is to be run again because load has changed, for then
//! the configuration would tell of the load.

mod memory;
mod need;
mod proposal;
mod report;
mod seen;
mod serving;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::args::{BenchAppArgs, BenchCommand, System, TuneArgs};
use fogbank::link::LinkArgs;
use fogbank::{Error, Result};
use fogbank_env::{Clock, Randomness, SystemClock};
use fogbank_process::{say, say_error};
use fogbank_workload::Observed;
use fogbank_workload::drive::{self, Load};

use self::need::Arrivals;
use self::proposal::Proposal;
use self::report::Report;
use self::seen::Watching;
use crate::bench::{Setting, SystemUnderTest, run_app, typed};

pub use self::need::Need;
pub use self::seen::Seen;

const SECONDS: f64 = 5.0;
/// Fewer say nothing of the one in a hundred.
const TRANSACTIONS_MIN: u64 = 100;

/// Observes, and prints what it proposes.
///
/// # Errors
/// [`Error::TooFewData`] if hardly anything was seen; [`Error::Usage`] for what cannot be served.
pub async fn run(args: TuneArgs) -> Result<()> {
    args.link.link()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let watching = Watching::new(clock.clone());
    let (arrivals, records) = match &args.of.serve {
        Some(address) => {
            let records = serving::observe(address, args.seconds, &watching, &clock).await?;
            (None, records)
        }
        None => {
            let (arrivals, records) = observe(&args, &watching, &clock).await?;
            (Some(arrivals), records)
        }
    };
    let seen = watching.seen();
    if seen.transactions < TRANSACTIONS_MIN {
        return Err(Error::TooFewData(format!(
            "{} transactions that read or write something are too few to choose by: run the \
             application for longer, until there are {TRANSACTIONS_MIN} or more",
            seen.transactions
        )));
    }
    // The busiest second has to fit, too.
    let arrivals = arrivals.unwrap_or(Arrivals::PerS(seen.per_s().1));
    let proposal = Proposal::of(&seen, (arrivals, records), &args.link, &clock)?;
    let report = Report { seen: &seen, arrivals, records, link: &args.link, proposal: &proposal };
    report.print();
    if args.r#try {
        say!("");
        run_app(bench_args(&args, Some(&proposal))?).await?;
    }
    if args.json {
        say!("{}", report.json());
    }
    Ok(())
}

/// Runs a workload on the baseline, which fetches what is asked for at once and holds nobody to R
/// rounds. How transactions come, and how many records there are.
async fn observe(
    args: &TuneArgs,
    watching: &Arc<Watching>,
    clock: &Arc<dyn Clock>,
) -> Result<(Arrivals, u64)> {
    let setting = Setting::of(&bench_args(args, None)?)?;
    let random = Randomness::repeatable(setting.seed);
    say_error!("observing {}", setting.workload.name());
    let under_test = SystemUnderTest::load(System::Nopriv, &setting, clock, &random).await?;
    let database = Arc::new(Observed::new(under_test.database.clone(), watching.clone()));
    let load = (setting.load, setting.span);
    let random = random.split(1);
    let run = drive::run(database, setting.workload.clone(), load, clock.clone(), &random);
    let measured = run.await.map_err(|e| Error::CannotUse(e.to_string()))?;
    let checked = setting.workload.check(&*under_test.database, &measured.ledger).await;
    checked.map_err(|e| Error::CheckFailed(e.to_string()))?;
    under_test.close().await?;
    let arrivals = match setting.load {
        Load::Closed { clients } => Arrivals::Clients(clients),
        Load::Open { per_s, .. } => Arrivals::PerS(per_s),
    };
    Ok((arrivals, setting.workload.records().count() as u64))
}

/// The same application for `bench app`: to observe it, or on a store of the very shape that is
/// proposed.
fn bench_args(args: &TuneArgs, proposal: Option<&Proposal>) -> Result<BenchAppArgs> {
    let BenchCommand::App(usual) = typed(&["app".into()])? else {
        return Err(Error::Bug("bench app is another command".into()));
    };
    let bench = BenchAppArgs {
        workload: args.of.workload.unwrap_or(usual.workload),
        workload_file: args.of.workload_file.clone(),
        scale: args.scale,
        clients: args.clients,
        rate: args.rate,
        seconds: args.seconds.unwrap_or(SECONDS),
        seed: args.seed,
        ..*usual
    };
    Ok(match proposal {
        // Observed is what transactions ask for, which no link changes.
        None => BenchAppArgs { ramp: 0.0, link: LinkArgs::default(), ..bench },
        Some(proposal) => BenchAppArgs {
            on: vec![System::Fogbank],
            shape: proposal.config.shape(),
            link: args.link,
            ..bench
        },
    })
}
