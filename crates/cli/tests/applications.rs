//! `fogbank bench app` runs applications on systems side by side and checks them.

use std::process::{Command, Output};

use fogbank_workload::servers::{PostgresServer, RedisServer};
use serde_json::Value;

fn bench(flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.args(["bench", "app", "--seconds", "0.4", "--ramp", "0.1", "--json"]);
    command.args(["--capacity", "20000", "--batch", "64", "--write-batch", "128"]);
    command.args(flags).output().expect("the binary runs")
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
    let mut on = vec!["fogbank", "nopriv"];
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

/// What the first system's run has inserted is not what the second one's begins with.
#[test]
fn every_system_begins_with_the_first_records() {
    let flags = ["--workload", "ycsb-d", "--scale", "300", "--clients", "20"];
    assert_eq!(systems(&[&flags[..], &["--on", "nopriv,nopriv"]].concat()).len(), 2);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (flags, why) in [
        (&["--scale", "0"][..], "--scale is at least 1"),
        (&["--clients", "0"], "--clients is outside"),
        (&["--rate", "0"], "--rate is not above 0"),
        (&["--rounds", "0"], "--rounds is outside"),
        (&["--rtt-ms=-1"], "--rtt-ms"),
        (&["--on", "mysql"], "mysql"),
        // The records of a thousand customers do not fit.
        (&["--scale", "1000", "--capacity", "100", "--on", "fogbank"], "full"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        let output = command.args(["bench", "app"]).args(flags).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {said}");
        assert!(said.contains(why), "{flags:?}: {said}");
    }
}
