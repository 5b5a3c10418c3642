//! `fogbank bench app`: an application on several systems, one after the other in one run.
//!
//! 1. A system is loaded with the application's records, over no link; fogbank's tree is then used
//!    until it is in its steady state.
//! 2. It is measured across the link, in one or several rounds: clients that wait for their
//!    answers, or arrivals that wait for nobody; a ramp before and after is left out.
//! 3. The link goes, the application holds the system against its own rules, and the system ends.
//!    If a rule does not hold, no figure is printed of any.
//!
//! There is one system at a time: epochs of Fogbank go on when nobody asks for anything, and would
//! take the processors from whatever else was measured.

mod endpoint;
mod setting;
mod system_under_test;
mod table;

use std::sync::Arc;

use crate::args::{BenchAppArgs, System};
use fogbank::{Error, Result};
use fogbank_env::{Clock, Randomness, SystemClock};
use fogbank_process::say_error;
use fogbank_workload::drive::{self, Measured};
use fogbank_workload::{Ledger, Workload};

pub use self::setting::{FAR, Kept, Setting, usual_clients};
pub use self::system_under_test::SystemUnderTest;
pub use self::table::Row;
use super::counted::Traffic;

/// Runs the benchmark and prints its figures.
///
/// # Errors
/// [`Error::CheckFailed`] if the application's rules do not hold; [`Error::TooFewData`] if a system
/// committed nothing.
pub async fn run(args: BenchAppArgs) -> Result<()> {
    let setting = Setting::of(&args)?;
    let (epochs, kept) = (setting.epochs()?, setting.kept()?);
    let rows = measure(&setting).await?;
    table::print(&setting, (epochs, kept), &rows, args.json);
    match rows.iter().find(|row| !row.came_to_something()) {
        None => Ok(()),
        Some(row) => Err(nothing(row.system)),
    }
}

/// What could be done about a system that has committed nothing.
fn nothing(system: System) -> Error {
    let way_on = match system.is_fogbank() {
        true => {
            "give more --seconds, or epochs with room for whole transactions: more --read-batches, \
             larger --batch and --write-batch (`fogbank tune` says how many)"
        }
        false => "give more --seconds",
    };
    Error::TooFewData(format!(
        "{} committed nothing while it was measured: {way_on}",
        system.name()
    ))
}

/// All rounds of all systems.
///
/// # Errors
/// As [`run`].
pub async fn measure(setting: &Setting) -> Result<Vec<Row>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let random = Randomness::repeatable(setting.seed);
    SystemUnderTest::can_be_had(setting, &clock).await?;
    let mut rows = Vec::new();
    for (number, system) in setting.systems.iter().enumerate() {
        let part = random.split(number as u64);
        // What the run on another system has inserted is not in this one.
        let workload = setting.workload.fresh();
        let ground = SystemUnderTest::load(*system, setting, &clock, &part).await?;
        let ledger = Ledger::new(workload.kinds().len());
        let mut lane = Lane {
            ground,
            workload,
            ledger,
            rounds: Vec::new(),
            traffic: Traffic::default(),
            random: part.split(1),
        };
        for round in 0..setting.rounds {
            lane.round(setting, &clock, round).await?;
        }
        rows.push(lane.end().await?);
    }
    Ok(rows)
}

/// What a system or an application said, by blame.
fn blamed(system: System, error: fogbank_workload::Error) -> Error {
    use fogbank_workload::Error as E;
    match error {
        E::Transaction(error) => error.into(),
        E::Broken(_) => Error::CheckFailed(format!("{}: {error}", system.name())),
        E::Failed(_) | E::Lost => Error::CannotUse(format!("{}: {error}", system.name())),
    }
}

/// A loaded system and what it has come to.
struct Lane {
    ground: SystemUnderTest,
    workload: Arc<dyn Workload>,
    ledger: Ledger,
    rounds: Vec<Measured>,
    traffic: Traffic,
    random: Randomness,
}

impl Lane {
    async fn round(
        &mut self,
        setting: &Setting,
        clock: &Arc<dyn Clock>,
        round: usize,
    ) -> Result<()> {
        let system = self.ground.system;
        say_error!("measuring {}", system.name());
        self.ground.set_link(setting.link);
        let (database, workload) = (self.ground.database.clone(), self.workload.clone());
        let random = self.random.split(round as u64);
        let load = (setting.load, setting.span);
        let before = self.ground.traffic();
        let measured = drive::run(database, workload, load, clock.clone(), &random).await;
        let measured = measured.map_err(|e| blamed(system, e))?;
        self.ground.set_link(fogbank_store::Link::instant());
        self.traffic += self.ground.traffic().since(before);
        self.ledger.add(&measured.ledger);
        self.rounds.push(measured);
        Ok(())
    }

    /// Holds the system against the application's rules, and lets it go.
    async fn end(self) -> Result<Row> {
        let system = self.ground.system;
        say_error!("checking {}", system.name());
        let checked = self.workload.check(&*self.ground.database, &self.ledger).await;
        checked.map_err(|e| blamed(system, e))?;
        self.ground.close().await?;
        Ok(Row::of(system, &self.rounds, self.traffic))
    }
}
