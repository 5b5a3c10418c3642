//! `fogbank-lab`: measures, tunes and audits. It is a program of its own so that the one that
//! holds a user's key links none of what that takes; `fogbank` starts it from beside itself.

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when nobody reads: say!

mod args;
mod audit;
mod bench;
mod manual;
mod tune;

use std::process::ExitCode;

use fogbank::Result;
use fogbank_terminal::{until_stopped, warn_on_standard_error};

use self::args::{BenchCommand, Command, Lab};

fn main() -> ExitCode {
    fogbank_process::share_arenas();
    // As the program that is measured does.
    let _as_before = fogbank_process::short_slices();
    fogbank_terminal::run(command)
}

async fn command(lab: Lab) -> Result<()> {
    warn_on_standard_error();
    match lab.command {
        Command::Audit(args) => audit::run(&args),
        Command::Completions(args) => manual::complete(&args),
        Command::Man(args) => manual::write(&args),
        // What watches a proxy ends at a signal by itself, and then says what it has seen.
        Command::Tune(args) if args.of.serve.is_some() => tune::run(*args).await,
        Command::Tune(args) => until_stopped(tune::run(*args)).await,
        Command::Bench(BenchCommand::Recovery(args)) => {
            until_stopped(bench::run_recovery(*args)).await
        }
        Command::Bench(BenchCommand::Paper(args)) => until_stopped(bench::run_paper(*args)).await,
        Command::Bench(BenchCommand::Volume(args)) => until_stopped(bench::run_volume(*args)).await,
        Command::Bench(BenchCommand::Site(args)) => until_stopped(bench::run_site(*args)).await,
        Command::Bench(BenchCommand::App(args)) => until_stopped(bench::run_app(*args)).await,
        Command::Bench(BenchCommand::Engine(args)) => until_stopped(bench::run_engine(*args)).await,
    }
}
