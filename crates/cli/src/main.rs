//! The binary: parse, dispatch, exit.

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when nobody reads: say!

mod forward;
mod inspect;
mod key_file;
mod mount;
mod observers;
mod plan;
mod register_server;
mod rotate;
mod salvage;
mod serve;
mod settings;
mod site;
mod site_plan;
mod upkeep;
mod volume_plan;
mod volume_server;

use std::process::ExitCode;

use fogbank::Result;
use fogbank::args::{Cli, Command, ConfigCommand, SiteCommand, VolumeCommand};
use fogbank_terminal::warn_on_standard_error;

fn main() -> ExitCode {
    fogbank_process::share_arenas();
    // Where it is refused, what is due may leave some milliseconds later on a busy machine.
    let _as_before = fogbank_process::short_slices();
    fogbank_terminal::run(command)
}

async fn command(cli: Cli) -> Result<()> {
    let logs = matches!(
        cli.command,
        Command::Serve(_)
            | Command::RegisterServer(_)
            | Command::Volume(VolumeCommand::Serve(_))
            | Command::Site(SiteCommand::Serve(_) | SiteCommand::Build(_))
            | Command::Mount(_)
    );
    if !logs {
        warn_on_standard_error();
    }
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
        Command::Volume(VolumeCommand::Create(args)) => volume_server::create(args).await,
        Command::Volume(VolumeCommand::Serve(args)) => volume_server::serve(args).await,
        Command::Volume(VolumeCommand::Plan(args)) => volume_plan::run(*args),
        Command::Site(command) => site::run(command).await,
        Command::Mount(args) => mount::run(args).await,
        Command::Plan(args) => plan::run(*args),
        Command::Config(ConfigCommand::Check(args)) => settings::check(&args).await,
        Command::Completions(args) => forward::to_lab("completions", &args),
        Command::Man(args) => forward::to_lab("man", &args),
        Command::Tune(args) => forward::to_lab("tune", &args),
        Command::Bench(args) => forward::to_lab("bench", &args),
        Command::Audit(args) => forward::to_lab("audit", &args),
    }
}
