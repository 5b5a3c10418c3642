//! What shells and manuals know of the commands, made from what parses them: of the program that
//! holds the key and of this one, as one. It is made here, so that the other links nothing for it.

use clap::{Command, CommandFactory};
use fogbank::args::Cli;
use fogbank::{Error, Result};
use fogbank_env::quoted;
use fogbank_process::say;

use crate::args::{CompletionsArgs, Lab, ManArgs};

/// All commands: what the other program hands over stands there as it is here.
fn commands() -> Command {
    let mut all = Cli::command();
    for here in Lab::command().get_subcommands() {
        let name = here.get_name().to_owned();
        all = all.mut_subcommand(name, |_| here.clone());
    }
    all
}

/// `fogbank completions SHELL`.
pub fn complete(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut commands(), "fogbank", &mut script);
    let script = String::from_utf8(script).map_err(|e| Error::Bug(e.to_string()))?;
    say!("{}", script.trim_end());
    Ok(())
}

/// `fogbank man DIR`.
///
/// # Errors
/// [`Error::CannotUse`] if the folder cannot be written.
pub fn write(args: &ManArgs) -> Result<()> {
    let unwritten = |e: std::io::Error| Error::CannotUse(format!("{}: {e}", args.to.display()));
    std::fs::create_dir_all(&args.to).map_err(unwritten)?;
    clap_mangen::generate_to(commands(), &args.to).map_err(unwritten)?;
    say!("wrote manual pages; next: man -l {}", quoted(args.to.join("fogbank.1")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_are_one_to_shells_and_manuals() {
        let mut bash = Vec::new();
        clap_complete::generate(clap_complete::Shell::Bash, &mut commands(), "fogbank", &mut bash);
        let bash = String::from_utf8(bash).unwrap();
        for word in ["register-server", "--write-batch", "paper", "--in-clear", "rotate-key"] {
            assert!(bash.contains(word), "{word}");
        }
        let folder = tempfile::tempdir().unwrap();
        write(&ManArgs { to: folder.path().join("man") }).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join("man").join(name));
        for (name, word) in [
            ("fogbank.1", "volume"),
            ("fogbank-serve.1", "FOGBANK_WRITE_BATCH"),
            ("fogbank-volume-create.1", "engine"),
            ("fogbank-bench-app.1", "clients"),
        ] {
            assert!(page(name).is_ok_and(|page| page.contains(word)), "{name}");
        }
    }
}
