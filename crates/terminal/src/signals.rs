//! Signals that ask a command to stop.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::OnceLock;

use fogbank::{Error, Result};
use fogbank_process::say_error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// Completes on SIGTERM, SIGINT or SIGHUP (the terminal was closed); the last not if we were
/// started with it ignored, as `nohup` does.
///
/// # Errors
/// [`Error::Bug`] if signals cannot be watched.
pub fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static> {
    let watch = |kind| signal(kind).map_err(|e| Error::Bug(format!("cannot watch signals: {e}")));
    let mut terminate = watch(SignalKind::terminate())?;
    let mut interrupt = watch(SignalKind::interrupt())?;
    let mut hang_up =
        (!hang_ups_were_ignored()).then(|| watch(SignalKind::hangup())).transpose()?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            Some(_) = async { hang_up.as_mut()?.recv().await } => {}
        }
    })
}

/// Runs a command to its end or until a signal. What it has set up, servers and folders, goes with
/// it: a signal that killed the process would leave both. A second signal ends the process at once.
///
/// # Errors
/// The command's; [`Error::Interrupted`] after a signal.
pub async fn until_stopped(
    command: impl Future<Output = Result<()>> + Send + 'static,
) -> Result<()> {
    let stop = stop_signal()?;
    let mut task = tokio::spawn(command);
    tokio::select! { biased;
        ended = &mut task => return ended.unwrap_or_else(|e| Err(Error::Bug(e.to_string()))),
        () = stop => task.abort(),
    }
    end_at_once_at_another_signal()?;
    match task.await {
        Ok(Ok(())) => Ok(()), // just before
        Err(e) if !e.is_cancelled() => Err(Error::Bug(e.to_string())),
        _ => Err(Error::Interrupted),
    }
}

/// From now on a signal that asks to stop ends the process, whatever it waits for: one was here
/// already.
///
/// # Errors
/// As [`stop_signal`].
pub fn end_at_once_at_another_signal() -> Result<()> {
    let again = stop_signal()?;
    tokio::spawn(async move {
        again.await;
        std::process::exit(130);
    });
    Ok(())
}

/// What a long command says when a signal ends it, for as long as this is kept. It ends there and
/// then, whatever it is at: what it makes has to stand a crash anyway, and who waits for a pass
/// through a large file to hear of a signal waits for long.
pub struct Ending(JoinHandle<()>);

impl Ending {
    /// Says what `words` come to then, and takes `unfinished` away, a file of no use before it is
    /// whole.
    ///
    /// # Errors
    /// As [`stop_signal`].
    pub fn telling(
        words: impl FnOnce() -> String + Send + 'static,
        unfinished: Option<PathBuf>,
    ) -> Result<Self> {
        let stop = stop_signal()?;
        Ok(Self(tokio::spawn(async move {
            stop.await;
            if let Some(file) = unfinished {
                let _not_there = std::fs::remove_file(file);
            }
            if std::io::stderr().is_terminal() {
                say_error!(""); // a bar, and what the terminal shows of Ctrl-C
            }
            say_error!("fogbank: stopped: {}", words());
            std::process::exit(130);
        })))
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether SIGHUP was ignored when this was first asked: once it is watched it no longer is.
fn hang_ups_were_ignored() -> bool {
    static IGNORED: OnceLock<bool> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hang_up = 1 << (SignalKind::hangup().as_raw_value() - 1);
        ignored_signals(&status) & hang_up != 0
    })
}

/// The mask of ignored signals in what the system says of a process; none where it says nothing.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_what_is_ignored_is_found_among_what_the_system_says() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored_signals(status), 0x1001);
        assert_eq!(ignored_signals("Name:\tfogbank\n"), 0);
    }
}
