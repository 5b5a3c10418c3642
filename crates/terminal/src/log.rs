//! The log, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

/// All that somebody who runs a server wants to know.
pub fn log_to_standard_error() {
    log(LevelFilter::INFO);
}

/// Only what somebody who waits has to know.
pub fn warn_on_standard_error() {
    log(LevelFilter::WARN);
}

fn log(level: LevelFilter) {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level);
    log.with_ansi(std::io::stderr().is_terminal()).init();
}
