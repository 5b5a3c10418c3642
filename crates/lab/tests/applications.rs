//! `fogbank bench app` runs applications on systems side by side and checks them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fogbank_workload::servers::{PostgresServer, RedisServer};
use serde_json::Value;

/// Runs the benchmark; for longer and longer if it says that nothing came of it: the machine may be
/// slow.
fn bench(flags: &[&str]) -> Output {
    let mut seconds = 0.4;
    loop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
        command.args(["bench", "app", "--ramp", "0.1", "--json", "--seconds"]);
        command.args([&seconds.to_string(), "--capacity", "20000", "--batch", "64"]);
        let output = command.args(["--write-batch", "128"]).args(flags).output();
        let output = output.expect("the binary runs");
        if output.status.code() != Some(3) || seconds > 10.0 {
            return output;
        }
        seconds *= 2.0;
    }
}

/// What was measured, by system.
fn systems(flags: &[&str]) -> Vec<Value> {
    let output = bench(flags);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags:?}: {said}");
    let printed = String::from_utf8(output.stdout).expect("words");
    let last = printed.lines().last().expect("an object");
    let object: Value = serde_json::from_str(last).expect("an object");
    object["systems"].as_array().expect("systems").clone()
}

#[test]
fn an_application_runs_on_every_system_and_its_books_balance() {
    let mut on = vec!["fogbank", "nopriv", "fogbank-redis"];
    on.extend(RedisServer::installed().then_some("redis"));
    on.extend(PostgresServer::installed().then_some("postgresql"));
    let names = on.join(",");
    for load in [["--clients", "20"], ["--rate", "200"]] {
        let flags = [&["--workload", "smallbank-hot", "--scale", "300", "--on", &names], &load[..]];
        let systems = systems(&flags.concat());
        assert_eq!(systems.len(), on.len());
        for (system, name) in systems.iter().zip(&on) {
            assert_eq!(system["system"], **name);
            assert!(system["transactions_per_s"].as_f64().unwrap() > 0.0, "{system}");
            assert!(system["all"]["latency_ms_p99"].as_f64().unwrap() > 0.0, "{system}");
            assert_eq!(system["kinds"].as_object().unwrap().len(), 6);
        }
    }
}

/// Scans, and inserts among what is scanned.
#[test]
fn what_scans_runs_on_epochs_and_without() {
    let flags = ["--workload", "ycsb-e", "--scale", "300", "--clients", "20"];
    assert_eq!(systems(&[&flags[..], &["--on", "fogbank,nopriv"]].concat()).len(), 2);
}

/// What the first system's run has inserted is not what the second one's begins with.
#[test]
fn every_system_begins_with_the_first_records() {
    let flags = ["--workload", "ycsb-d", "--scale", "300", "--clients", "20"];
    assert_eq!(systems(&[&flags[..], &["--on", "nopriv,nopriv"]].concat()).len(), 2);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (flags, why) in [
        (&["--scale", "0"][..], "'--scale <N>': give 1"),
        (&["--clients", "0"], "'--clients <N>': give 1"),
        (&["--rate", "1e9"], "'--rate <PER_S>': give 0.001 to 200000"),
        (&["--rtt-ms", "-1"], "--rtt-ms"),
        (&["--on", "mysql"], "mysql"),
        (&["--on", "fogbank-redis", "--workload", "ycsb-e"], "YCSB E scans: measure it on fogbank"),
        // The records of a thousand customers do not fit.
        (&["--scale", "1000", "--capacity", "100", "--on", "fogbank"], "full"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
        let output = command.args(["bench", "app"]).args(flags).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {said}");
        assert!(said.contains(why), "{flags:?}: {said}");
    }
}

/// Nothing commits within a millisecond of a store that is a tenth of a second away.
#[test]
fn a_system_that_commits_nothing_is_told_and_no_ratio_printed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
    command.args(["bench", "app", "--scale", "300", "--clients", "4", "--rtt-ms", "100"]);
    command.args(["--seconds", "0.001", "--ramp", "0"]);
    let output = command.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("fogbank committed nothing") && said.contains("--read-batches"),
        "{said}"
    );
    assert!(!String::from_utf8_lossy(&output.stdout).contains("the throughput"));
}

#[test]
fn a_place_that_holds_a_store_is_refused_by_its_name_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}", folder.path().display());
    let flags = ["--workload", "ycsb-c", "--scale", "300", "--clients", "4", "--store", &url];
    let run = |on| bench(&[&flags[..], &["--on", on]].concat());
    let refused = |on, why: &str| {
        let output = run(on);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(&format!("--store {url} {why}")), "{said}");
    };
    refused("fogbank,fogbank-redis", "has room for one store");
    assert!(files(folder.path()).is_empty());
    assert!(run("fogbank,nopriv").status.success());
    let before = files(folder.path());
    assert!(!before.is_empty());
    refused("fogbank", "holds a store already");
    refused("nopriv", "holds a store already");
    assert!(files(folder.path()) == before);
}

/// Everything below a folder, and what is in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.append(&mut files(&path));
        } else {
            all.insert(path.clone(), std::fs::read(&path).expect("a file"));
        }
    }
    all
}

/// A benchmark under way. It does not outlive the test.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Folders and servers of a run go with it.
#[test]
fn a_signal_leaves_nothing_behind() {
    let mut systems = vec!["fogbank", "fogbank-redis"];
    systems.extend(RedisServer::installed().then_some("redis"));
    systems.extend(PostgresServer::installed().then_some("postgresql"));
    for (system, signal) in systems.iter().zip(["-INT", "-TERM"].iter().cycle()) {
        let folder = tempfile::tempdir().expect("a folder");
        // The user that PostgreSQL runs as has to come through.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("a folder of ours");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
        command.args(["bench", "app", "--workload", "ycsb-c", "--scale", "300", "--clients", "4"]);
        command.args(["--seconds", "600", "--on", system]).env("TMPDIR", folder.path());
        let mut run = Run(command.stderr(Stdio::piped()).spawn().expect("the binary runs"));
        let mut said = BufReader::new(run.0.stderr.take().expect("a pipe")).lines();
        let measuring = |line: Result<String, _>| line.expect("words").starts_with("measuring");
        assert!(said.by_ref().any(measuring));
        assert_ne!(entries(folder.path()), 0, "{system} has a folder");
        let is_server = ["redis", "postgresql"].contains(system);
        assert_eq!(processes_of(folder.path()) > 0, is_server, "{system}");
        let killed = Command::new("kill").args([*signal, &run.0.id().to_string()]).status();
        assert!(killed.expect("kill runs").success());
        let rest: Vec<String> = said.map_while(Result::ok).collect();
        assert_eq!(run.0.wait().expect("an end").code(), Some(130), "{system}: {rest:?}");
        assert_eq!(entries(folder.path()), 0, "{system} has left something");
        assert_eq!(processes_of(folder.path()), 0, "{system} has left a server");
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}

/// Processes that were started with a path in this folder.
fn processes_of(folder: &Path) -> usize {
    let folder = folder.to_str().expect("a path in words");
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = all.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(folder)).count()
}

/// As under `nohup`.
#[test]
fn a_signal_that_was_ignored_when_it_began_stays_ignored() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_fogbank-lab")]);
    command.args(["bench", "app", "--workload", "ycsb-c", "--scale", "300", "--clients", "4"]);
    command.args(["--seconds", "2", "--ramp", "0", "--on", "fogbank"]);
    let mut run = Run(command.stderr(Stdio::piped()).spawn().expect("the binary runs"));
    let mut said = BufReader::new(run.0.stderr.take().expect("a pipe")).lines();
    let measuring = |line: Result<String, _>| line.expect("words").starts_with("measuring");
    assert!(said.by_ref().any(measuring));
    let killed = Command::new("kill").args(["-HUP", &run.0.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    assert_eq!(run.0.wait().expect("an end").code(), Some(0), "{rest:?}");
}
