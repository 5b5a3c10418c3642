//! The binary: parse, dispatch, exit.

mod bench;
mod looks;
mod serve;

use std::process::ExitCode;

use clap::Parser;
use fogbank::args::{BenchCommand, Cli, Command};
use mimalloc::MiMalloc;

/// Bucket images come and go by the tens of megabytes an epoch; the system's allocator gives that
/// memory back each time and a quarter of an epoch goes into clearing pages (decision 0004).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("fogbank: cannot start: {e}");
            return ExitCode::from(71);
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::run(*args).await,
            Command::Bench(BenchCommand::Engine(args)) => tokio::spawn(bench::run_engine(args))
                .await
                .unwrap_or_else(|e| Err(fogbank::Error::Bug(e.to_string()))),
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
