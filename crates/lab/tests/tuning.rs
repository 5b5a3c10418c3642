//! Workload files, and shapes proposed by what was observed, by the real binary.
#![allow(clippy::disallowed_methods)] // a real server in real time

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use clap::Parser;
use fogbank::args;
use fogbank::config::StoreConfig;
use serde_json::Value;

const PRACTICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/practice.toml");

fn fogbank(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
    command.args(args).output().expect("the binary runs")
}

/// What was printed, and the object at its end.
fn done(args: &[&str]) -> (String, Value) {
    let output = fogbank(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    object_of(&String::from_utf8(output.stdout).expect("words"))
}

fn object_of(printed: &str) -> (String, Value) {
    let last = printed.lines().last().expect("an object");
    (printed.to_owned(), serde_json::from_str(last).expect("an object"))
}

#[test]
fn a_file_is_measured_on_fogbank_and_without_privacy() {
    let args = ["bench", "app", "--workload-file", PRACTICE, "--clients", "20", "--seconds", "0.5"];
    let (_, object) = done(&[&args[..], &["--ramp", "0.1", "--json"]].concat());
    assert_eq!(object["workload"], "practice");
    for system in object["systems"].as_array().expect("systems") {
        assert!(system["transactions_per_s"].as_f64().unwrap() > 0.0, "{system}");
        assert_eq!(system["kinds"].as_object().unwrap().len(), 4);
    }
}

#[test]
fn a_shape_is_proposed_and_can_be_typed() {
    let args = ["tune", "--workload-file", PRACTICE, "--seconds", "0.5", "--rtt-ms", "1", "--json"];
    let (printed, object) = done(&[&args[..], &["--clients", "20"]].concat());
    let (seen, proposal) = (&object["seen"], &object["proposal"]);
    // A patient, the history, the notes; a page of 20.
    assert_eq!((&seen["rounds_p99"], &seen["rounds_max"]), (&3.into(), &3.into()));
    assert_eq!((&seen["widest_round"], &seen["written_max"]), (&20.into(), &2.into()));
    assert_eq!((&seen["records"], &seen["clients"]), (&14_000.into(), &20.into()));
    assert_eq!((&proposal["read_batches"], &proposal["value_size"]), (&4.into(), &1_024.into()));
    assert_eq!(proposal["capacity"], 50_000);
    assert_eq!((&proposal["xor"], proposal["bucket_reals"].is_u64()), (&true.into(), true));
    for part in
        ["what it reveals", "(secret)", "fogbank serve --data DIR --store URL --capacity 50000"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    // The flags that are printed are flags.
    let flags: Vec<&str> = object["flags"].as_str().unwrap().split(' ').collect();
    let typed = [&["fogbank", "plan"][..], &flags].concat();
    let Ok(args::Command::Plan(plan)) = args::Cli::try_parse_from(typed).map(|cli| cli.command)
    else {
        panic!("{flags:?}");
    };
    StoreConfig::derive(&plan.shape, true).unwrap();

    let (_, faster) = done(&[&args[..], &["--rate", "500"]].concat());
    let came = faster["seen"]["per_s_mean"].as_f64().unwrap();
    assert!(came > 0.0 && faster["transactions_per_epoch"].as_f64().unwrap() > 0.0, "{faster}");
}

/// Of few records: a store of the proposed interval is used for as long as it takes to have every
/// path evicted.
#[test]
fn what_is_proposed_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    let text = std::fs::read_to_string(PRACTICE).unwrap();
    let small = text.replace("count = 2000", "count = 60").replace("count = 10000", "count = 300");
    std::fs::write(&path, small).unwrap();
    let args = ["tune", "--workload-file", path.to_str().unwrap(), "--seconds", "0.5"];
    let (printed, object) =
        done(&[&args[..], &["--rtt-ms", "1", "--clients", "20", "--try", "--json"]].concat());
    assert_eq!(object["seen"]["records"], 420);
    for words in
        ["practice over round trips of 1 ms", " levels of fogbank's tree are in its memory"]
    {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn an_application_is_observed_at_a_redis_endpoint() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
    let command = command.args(["tune", "--serve", "127.0.0.1:0", "--rtt-ms", "10", "--json"]);
    let mut server = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut printed = BufReader::new(server.stdout.take().expect("its output"));
    let mut line = String::new();
    while !line.starts_with("listening on ") {
        line.clear();
        assert!(printed.read_line(&mut line).expect("a line") > 0, "it has ended");
    }
    let address = line.trim().trim_start_matches("listening on ").to_owned();
    let client = redis::Client::open(format!("redis://{address}/")).expect("a client");
    let mut connection = client.get_connection().expect("a connection");
    let value = "x".repeat(300);
    let mut pipe = redis::pipe();
    for n in 0..200 {
        pipe.set(format!("patient:{n}"), &value).ignore();
    }
    let () = pipe.query(&mut connection).expect("two hundred records");
    for n in 0..20 {
        // Twelve commands of one transaction: their reads are one round.
        let mut together = redis::pipe();
        together.atomic();
        for k in 0..12 {
            together.get(format!("patient:{}", n + k));
        }
        let found: Vec<String> = together.query(&mut connection).expect("a transaction");
        assert_eq!(found.len(), 12);
    }
    let pid = server.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let mut rest = String::new();
    printed.read_to_string(&mut rest).expect("the rest");
    assert!(server.wait().expect("it ends").success(), "{rest}");
    let (printed, object) = object_of(&rest);
    let seen = &object["seen"];
    assert_eq!((&seen["transactions"], &seen["records"]), (&220.into(), &200.into()));
    assert_eq!((&seen["rounds_max"], &seen["widest_round"]), (&1.into(), &12.into()));
    assert_eq!((&seen["written_max"], &seen["value_bytes_max"]), (&1.into(), &320.into()));
    assert!(seen["per_s_busiest"].as_f64().unwrap() > 0.0);
    assert_eq!(object["proposal"]["read_batches"], 2);
    assert!(printed.contains("what it reveals") && !printed.contains("patient"), "{printed}");
}

#[test]
fn what_cannot_be_tuned_or_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    let text = std::fs::read_to_string(PRACTICE).unwrap();
    std::fs::write(&path, text.replace("percent = 50", "percent = 49")).unwrap();
    let wrong = path.to_str().unwrap();
    for (args, code, why) in [
        (&["tune"][..], 64, "--serve"),
        (&["tune", "--workload", "smallbank", "--serve", "127.0.0.1:0"], 64, "cannot be used with"),
        (&["tune", "--serve", "127.0.0.1:0", "--try"], 64, "cannot be used with"),
        (&["tune", "--serve", "nowhere"], 64, "--serve nowhere"),
        (&["tune", "--workload-file", wrong], 64, "come to 99 and have to come to 100"),
        (&["tune", "--workload-file", PRACTICE, "--scale", "3"], 64, "cannot be used with"),
        (&["bench", "app", "--workload-file", "none.toml"], 64, "--workload-file none.toml"),
        (&["bench", "app", "--workload-file", wrong, "--scale", "3"], 64, "cannot be used with"),
        (&["tune", "--workload", "ycsb-c", "--scale", "100", "--seconds", "0"], 64, "--seconds"),
        (&["tune", "--serve", "127.0.0.1:0", "--seconds", "0.1"], 3, "too few to choose by"),
    ] {
        let output = fogbank(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}
