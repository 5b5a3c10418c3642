//! The binary: parse, dispatch, exit.

mod audit;
mod bench;
mod inspect;
mod looks;
mod mount;
mod plan;
mod register_server;
mod rotate;
mod salvage;
mod serve;
mod stopping;
mod tune;
mod upkeep;
mod volume_server;

use std::process::ExitCode;

use clap::Parser;
use fogbank::args::{BenchCommand, Cli, Command, VolumeCommand};

use self::stopping::until_stopped;

fn main() -> ExitCode {
    fogbank_process::share_arenas();
    // Where it is refused, what is due may leave some milliseconds later on a busy machine.
    let _as_before = fogbank_process::short_slices();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            let _closed = told.print(); // whoever hung up does not want to know
            return if told.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("fogbank: cannot start: {e}");
            return ExitCode::from(71);
        }
    };
    let logs = matches!(
        cli.command,
        Command::Serve(_)
            | Command::RegisterServer(_)
            | Command::Volume(VolumeCommand::Serve(_))
            | Command::Mount(_)
    );
    if !logs {
        serve::warn_on_standard_error();
    }
    let result = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::run(*args).await,
            Command::RegisterServer(args) => register_server::run(args).await,
            Command::Inspect(args) => inspect::run(args).await,
            Command::Recover(args) => upkeep::recover(args).await,
            Command::Verify(args) => upkeep::verify(args).await,
            Command::Backup(args) => upkeep::backup(args).await,
            Command::Restore(args) => upkeep::restore(args).await,
            Command::Load(args) => upkeep::load(*args).await,
            Command::RotateKey(args) => rotate::run(args).await,
            Command::Audit(args) => audit::run(&args),
            Command::Volume(VolumeCommand::Create(args)) => volume_server::create(args).await,
            Command::Volume(VolumeCommand::Serve(args)) => volume_server::serve(args).await,
            Command::Mount(args) => mount::run(args).await,
            Command::Plan(args) => plan::run(args),
            // What watches a proxy ends at a signal by itself, and then says what it has seen.
            Command::Tune(args) if args.of.serve.is_some() => tune::run(*args).await,
            Command::Tune(args) => until_stopped(tune::run(*args)).await,
            Command::Bench(BenchCommand::Recovery(args)) => {
                until_stopped(bench::run_recovery(args)).await
            }
            Command::Bench(BenchCommand::Paper(args)) => {
                until_stopped(bench::run_paper(*args)).await
            }
            Command::Bench(BenchCommand::Tao(args)) => until_stopped(bench::run_tao(args)).await,
            Command::Bench(BenchCommand::App(args)) => until_stopped(bench::run_app(*args)).await,
            Command::Bench(BenchCommand::Engine(args)) => {
                until_stopped(bench::run_engine(args)).await
            }
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fogbank: {e}");
            e.exit_code()
        }
    }
}
