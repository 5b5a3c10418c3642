//! Measuring: what an engine does, beside the bound of the machine it runs on.

mod app;
mod chart;
mod counted;
mod driver;
mod durable;
mod engine;
mod groups;
mod machine;
mod paper;
#[cfg(test)]
mod planned;
mod raw;
mod recovery;
mod site;
mod spread;
mod volume;

use crate::args::{BenchCommand, Command, Lab};
use clap::Parser;
use fogbank::{Error, Result};

pub use app::{Setting, SystemUnderTest, run as run_app};
pub use engine::run as run_engine;
pub use paper::run as run_paper;
pub use recovery::run as run_recovery;
pub use site::run as run_site;
pub use volume::run as run_volume;

/// What is typed after `fogbank bench`, understood: for what runs a benchmark in place of its user,
/// so that the user could do the same.
///
/// # Errors
/// [`Error::Usage`] for what is no such command.
pub fn typed(words: &[String]) -> Result<BenchCommand> {
    let words = ["fogbank", "bench"].into_iter().chain(words.iter().map(String::as_str));
    match Lab::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Bench(command)) => Ok(command),
        Ok(_) => Err(Error::Bug("bench is another command".into())),
        Err(told) => Err(Error::Usage(told.to_string())),
    }
}
