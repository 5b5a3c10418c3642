//! What was typed, read alike by all programs.

use std::process::ExitCode;

use clap::{Command, Parser};

use crate::{environment, say_error};

/// The exit code of wrong usage.
const USAGE: u8 = 64;

/// What was typed, or the end of the program: of wrong usage, or after what was asked to be told.
///
/// An environment that sets what is no setting is refused before that.
///
/// The short help is short: what the environment calls a setting stands in the long one.
///
/// # Errors
/// How the program ends; what there was to say is said.
pub fn typed<T: Parser>() -> Result<T, ExitCode> {
    let mut command = with_negative_numbers(T::command()).version(crate::VERSION);
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Some(why) = environment::refusal(names) {
        say_error!("{}: {why}", command.get_name());
        return Err(ExitCode::from(USAGE));
    }
    if std::env::args_os().any(|word| word == "-h") {
        command = without_environment(command);
    }
    let matches = command.clone().try_get_matches();
    let read = matches.and_then(|mut matches| {
        T::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    });
    read.map_err(|told| {
        let _closed = told.print(); // whoever hung up does not want to know
        let words = std::env::args_os().filter_map(|word| word.into_string().ok());
        if let Some(name) = variable(&command, &told, words) {
            say_error!(
                "{}: the value is that of {name} in the environment: set it right, or unset it",
                command.get_name()
            );
        }
        if told.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
    })
}

/// The variable whose value an error blames a flag for that was not typed.
fn variable(
    command: &Command,
    told: &clap::Error,
    words: impl Iterator<Item = String>,
) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(arg)) = told.get(ContextKind::InvalidArg) else { return None };
    let flag = arg.split([' ', '=']).next()?.strip_prefix("--")?;
    let is_it = |word: String| {
        word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(flag))
    };
    if words.into_iter().any(is_it) {
        return None;
    }
    let name = variable_of(command, flag)?;
    std::env::var_os(&name).map(|_| name)
}

fn variable_of(command: &Command, flag: &str) -> Option<String> {
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag));
    let name = arg.and_then(clap::Arg::get_env).map(|name| name.to_string_lossy().into_owned());
    name.or_else(|| command.get_subcommands().find_map(|command| variable_of(command, flag)))
}

/// A number below zero is the value of the flag before it, which says what it takes, and no flag.
fn with_negative_numbers(command: Command) -> Command {
    let negative = |arg: clap::Arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(negative).mut_subcommands(with_negative_numbers)
}

fn without_environment(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_env(true)).mut_subcommands(without_environment)
}
