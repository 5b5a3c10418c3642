//! What a program says of numbers that it does not take. It is asked as anybody would: its helps
//! tell which commands there are, which flags, and which of them take numbers.

use std::process::Command;

/// What stands for a value that is no number.
const OTHERS: [&str; 24] = [
    "ADDRESS",
    "DIR",
    "DISKS",
    "ENGINE",
    "FIGURE",
    "FILE",
    "FOLDER",
    "FORMAT",
    "HOST:PORT",
    "ID",
    "LABEL=FILE",
    "NEWDIR",
    "PRESET",
    "PROFILE",
    "REGISTER",
    "SYSTEM",
    "TIME",
    "TYPE",
    "URL",
    "WHEN",
    "WHERE",
    "WORKLOAD",
    "XOR",
    "ZONE",
];
/// More than anything takes.
const HUGE: &str = "99999999999999999999999999999999";

/// Holds that every flag with a number refuses one that is too small or too large by its own name,
/// with the limits, and that zero is taken or refused so. Commands in `others` are of another
/// program. Returns how many flags there are.
pub fn check(program: &str, others: &[&str]) -> usize {
    let mut flags = 0;
    let mut commands = vec![Vec::new()];
    while let Some(command) = commands.pop() {
        let Some(help) = help(program, &command) else { continue };
        let ours = subcommands(&help).filter(|name| !others.contains(&name.as_str()));
        commands.extend(ours.map(|name| [&command[..], &[name]].concat()));
        for (flag, value) in flags_of(&help).filter(|(_, value)| is_number(value)) {
            flags += 1;
            for (number, may_be_taken) in [("-5", false), (HUGE, false), ("0", true)] {
                // A number is read when the next flag comes, and one that is no flag keeps the
                // command from running.
                let mut run = Command::new(program);
                run.args(&command).args([&flag, number, &flag, number, "--no-such-flag"]);
                let output = run.output().expect("the program runs");
                let words = String::from_utf8_lossy(&output.stderr);
                let told = format!("{command:?} {flag} {number}: {words}");
                assert_eq!(output.status.code(), Some(64), "{told}");
                let is_taken = words.contains("--no-such-flag") || words.contains("multiple times");
                let named = words.contains(&format!("'{flag} <{value}>'"));
                assert!(is_taken && may_be_taken || named && words.contains("give "), "{told}");
            }
        }
    }
    flags
}

fn help(program: &str, command: &[String]) -> Option<String> {
    let output = Command::new(program).args(command).arg("--help").output();
    let output = output.expect("the program runs");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names under `Commands:`.
fn subcommands(help: &str) -> impl Iterator<Item = String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    })
}

/// Flags with the names of their values.
fn flags_of(help: &str) -> impl Iterator<Item = (String, String)> {
    help.lines().filter_map(|line| {
        let (flag, rest) = line.trim_start().strip_prefix("--")?.split_once(" <")?;
        Some((format!("--{flag}"), rest.split_once('>')?.0.to_owned()))
    })
}

fn is_number(value: &str) -> bool {
    let value = value.trim_end_matches(",..");
    !OTHERS.contains(&value)
}
