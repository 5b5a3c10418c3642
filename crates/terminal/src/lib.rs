//! What the programs of Fogbank have in common towards whoever types: how they begin and end, what
//! they log, the signals that stop them, a bar that shows how far they are.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when nobody reads: say!

mod log;
mod progress;
mod signals;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use clap::Parser;
use fogbank::{Error, Result};
use fogbank_process::say_error;

pub use log::{log_to_standard_error, warn_on_standard_error};
pub use progress::{bar, show};
pub use signals::{Ending, end_at_once_at_another_signal, stop_signal, until_stopped};

/// Runs what was typed, on a runtime of its own, to the end of the program.
pub fn run<T: Parser, F: Future<Output = Result<()>>>(command: impl FnOnce(T) -> F) -> ExitCode {
    let typed = match fogbank_process::typed() {
        Ok(typed) => typed,
        Err(end) => return end,
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

/// The address that was typed after `flag`.
///
/// # Errors
/// [`Error::Usage`] if it is none.
pub fn address(flag: &str, listen: &str) -> Result<SocketAddr> {
    let wrong = |why: String| Error::Usage(format!("{flag} {listen}: {why}; give HOST:PORT"));
    let mut found = listen.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    found.next().ok_or_else(|| wrong("no such host".into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory};
    use fogbank::args::Cli;

    fn collect(command: &Command, into: &mut BTreeSet<String>) {
        let names = command.get_arguments().filter_map(clap::Arg::get_env);
        into.extend(names.map(|name| name.to_string_lossy().into_owned()));
        command.get_subcommands().for_each(|command| collect(command, into));
    }

    /// The list is kept where programs are that know nothing of each other.
    #[test]
    fn the_list_of_settings_is_what_the_command_line_takes() {
        let mut known = BTreeSet::from(["FOGBANK_CLOUD_CREDENTIALS".to_owned()]);
        collect(&Cli::command(), &mut known);
        let listed = fogbank_process::SETTINGS.map(|name| format!("FOGBANK_{name}"));
        assert_eq!(BTreeSet::from(listed), known);
    }
}
