//! Commands that are a program of their own: what measures, tunes and audits needs no key, so the
//! program that holds it does not contain it.
//!
//! It is started from beside this one, in its place: signals and exit codes are its own.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fogbank::args::ForwardedArgs;
use fogbank::{Error, Result};

const LAB: &str = "fogbank-lab";

/// Becomes the other program, with `command` and what was typed after it.
///
/// # Errors
/// [`Error::CannotUse`] if it is not there, or cannot be started.
pub fn to_lab(command: &str, args: &ForwardedArgs) -> Result<()> {
    let lab = beside_this().map_err(|e| Error::CannotUse(format!("where am I? {e}")))?;
    let failed = Command::new(&lab).arg(command).args(&args.words).exec();
    Err(Error::CannotUse(explain(command, &lab, &failed)))
}

fn beside_this() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(LAB))
}

fn explain(command: &str, lab: &Path, failed: &io::Error) -> String {
    let what = format!("fogbank {command} is a program of its own, {}", lab.display());
    match failed.kind() {
        io::ErrorKind::NotFound => format!(
            "{what}, which is not there: install it beside this one \
             (in the source: cargo build --release --locked --bin {LAB})"
        ),
        _ => format!("{what}, which cannot be started: {failed}"),
    }
}
