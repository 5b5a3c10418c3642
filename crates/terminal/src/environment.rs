//! Variables of the environment that begin as ours do and are none: a setting that was meant to be
//! made and would not be.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory};
use fogbank::args::Cli;

const PREFIX: &str = "FOGBANK_";
/// Read where they are used, not by the command line.
const OTHERS: [&str; 1] = ["FOGBANK_CLOUD_CREDENTIALS"];
/// What beginnings the project's own tests and scripts use.
const OF_TESTS: [&str; 9] = [
    "FOGBANK_TEST_",
    "FOGBANK_SIM_",
    "FOGBANK_KILL",
    "FOGBANK_PLUGS",
    "FOGBANK_FUZZ_",
    "FOGBANK_DIFF_",
    "FOGBANK_RESP_",
    "FOGBANK_CLAIMS",
    "FOGBANK_BENCH_",
];

/// Why the environment is refused, if it is: names in it that no setting of `command` or of the
/// other program has.
pub fn refusal(command: &Command, names: impl Iterator<Item = String>) -> Option<String> {
    let mut known: BTreeSet<String> = OTHERS.map(String::from).into();
    collect(command, &mut known);
    collect(&Cli::command(), &mut known);
    let is_strange = |name: &String| {
        let of_tests = OF_TESTS.iter().any(|beginning| name.starts_with(beginning));
        name.starts_with(PREFIX) && !of_tests && !known.contains(name)
    };
    let name = names.filter(is_strange).min()?;
    let near = known.iter().min_by_key(|known| distance(known, &name));
    let near = near.filter(|known| distance(known, &name) <= 3);
    let instead = near.map_or(".".into(), |known| format!("; did you mean {known}?"));
    Some(format!(
        "the environment sets {name}, which is no setting{instead} Unset it: what it was meant for \
         would not be done"
    ))
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(clap::Arg::get_env);
    known.extend(names.map(|name| name.to_string_lossy().into_owned()));
    command.get_subcommands().for_each(|command| collect(command, known));
}

/// How many letters have to be changed, put in or left out.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for j in 0..b.len() {
            let changed = before + usize::from(b[j] != letter);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(names: &[&str]) -> Option<String> {
        refusal(&Cli::command(), names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn what_is_no_setting_is_told_with_what_was_meant() {
        let known = ["PATH", "FOGBANK_CAPACITY", "FOGBANK_STORE", "FOGBANK_CLOUD_CREDENTIALS"];
        assert_eq!(refused(&known), None);
        assert_eq!(refused(&["FOGBANK_SIM_SCALE", "FOGBANK_KILLS", "NOFOGBANK_X"]), None);
        let told = refused(&["FOGBANK_CAPACTIY"]).unwrap();
        assert!(told.contains("FOGBANK_CAPACTIY") && told.contains("FOGBANK_CAPACITY?"), "{told}");
        let told = refused(&["FOGBANK_SOMETHING_ELSE", "FOGBANK_DATA"]).unwrap();
        assert!(
            told.contains("FOGBANK_SOMETHING_ELSE") && !told.contains("did you mean"),
            "{told}"
        );
    }

    #[test]
    fn letters_are_counted() {
        for (a, b, letters) in [("", "", 0), ("abc", "abd", 1), ("abc", "ac", 1), ("", "ab", 2)] {
            assert_eq!(distance(a, b), letters, "{a} {b}");
            assert_eq!(distance(b, a), letters, "{b} {a}");
        }
    }
}
