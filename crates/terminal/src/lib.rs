//! What the programs of Fogbank have in common towards whoever types: how they begin and end, what
//! they log, the signals that stop them, a bar that shows how far they are.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic when nobody reads: say!

mod log;
mod progress;
mod signals;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::process::ExitCode;

use clap::Parser;
use fogbank::{Error, Result};
use fogbank_process::say_error;

pub use log::{log_to_standard_error, warn_on_standard_error};
pub use progress::{bar, show};
pub use signals::{end_at_once_at_another_signal, stop_signal, until_stopped};

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

/// An address to take in place of one that is taken: the next port of it at which nobody listens
/// now, or whichever the system has to give.
pub fn free_beside(taken: SocketAddr) -> SocketAddr {
    let next = (1..=NEXT_PORTS).filter_map(|more| taken.port().checked_add(more));
    let mut next = next.map(|port| SocketAddr::new(taken.ip(), port));
    let free = next.find(|address| TcpListener::bind(address).is_ok());
    free.unwrap_or(SocketAddr::new(taken.ip(), 0))
}

/// So many are looked at.
const NEXT_PORTS: u16 = 20;

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

    use super::*;

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

    /// The one that was named was the next one, whoever had it.
    #[test]
    fn a_port_that_is_named_is_free() {
        let listen = |port| TcpListener::bind(("127.0.0.1", port));
        // Two neighbours, whichever are free here.
        let (taken, _held) = loop {
            let first = listen(0).unwrap();
            let taken = first.local_addr().unwrap();
            if let Some(Ok(next)) = taken.port().checked_add(1).map(listen) {
                break (taken, (first, next));
            }
        };
        let named = free_beside(taken);
        assert!(named.port() == 0 || named.port() > taken.port() + 1, "{named} beside {taken}");
        let last = SocketAddr::new(taken.ip(), u16::MAX);
        assert_eq!(free_beside(last).port(), 0);
    }
}
