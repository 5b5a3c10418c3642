//! What the programs of Fogbank have in common towards whoever types: how they begin and end, what
//! they log, the signals that stop them, a bar that shows how far they are.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when nobody reads: say!

mod environment;
mod log;
mod progress;
mod signals;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use clap::{Command, Parser};
use fogbank::{Error, Result};
use fogbank_process::say_error;

pub use log::{log_to_standard_error, warn_on_standard_error};
pub use progress::{bar, show};
pub use signals::{stop_signal, until_stopped};

/// Runs what was typed, on a runtime of its own, to the end of the program.
pub fn run<T: Parser, F: Future<Output = Result<()>>>(command: impl FnOnce(T) -> F) -> ExitCode {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Some(why) = environment::refusal(&T::command(), names) {
        say_error!("fogbank: {why}");
        return ExitCode::from(64);
    }
    let typed = match typed() {
        Ok(typed) => typed,
        Err(told) => {
            let _closed = told.print(); // whoever hung up does not want to know
            return if told.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            say_error!("fogbank: cannot start: {e}");
            return ExitCode::from(71);
        }
    };
    match runtime.block_on(async { command(typed).await }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say_error!("fogbank: {e}");
            e.exit_code()
        }
    }
}

/// What was typed. The short help is short: what the environment calls a setting stands in the long
/// one.
fn typed<T: Parser>() -> std::result::Result<T, clap::Error> {
    let mut command = T::command();
    if std::env::args_os().any(|word| word == "-h") {
        command = without_environment(command);
    }
    let mut matches = command.clone().try_get_matches()?;
    T::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn without_environment(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env(true)).mut_subcommands(without_environment)
}

/// The address that was typed after `flag`.
///
/// # Errors
/// [`Error::Usage`] if it is none.
pub fn address(flag: &str, listen: &str) -> Result<SocketAddr> {
    let wrong = |why: String| Error::Usage(format!("{flag} {listen}: {why}; give HOST:PORT"));
    let mut found = listen.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    found.next().ok_or_else(|| wrong("no such host".into()))
}
