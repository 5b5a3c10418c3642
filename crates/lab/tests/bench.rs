//! `fogbank bench tao` sweeps, prints and draws.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Small, where flags do not say otherwise.
const SMALL: [[&str; 2]; 3] =
    [["--size", "256KiB"], ["--seconds", "0.5"], ["--write-behind", "1MiB"]];

fn bench(folder: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
    let small = SMALL.iter().filter(|[flag, _]| !flags.contains(flag)).flatten();
    command.current_dir(folder).args(["bench", "tao"]).args(small).args(flags);
    command.output().expect("the binary runs")
}

/// The objects that a run prints.
fn points(folder: &Path, flags: &[&str]) -> Vec<Value> {
    let output = bench(folder, flags);
    let said = String::from_utf8(output.stderr).expect("words");
    assert!(output.status.success(), "{flags:?}: {said}");
    let printed = String::from_utf8(output.stdout).expect("words");
    let objects = printed.lines().filter(|line| line.starts_with('{'));
    objects.map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn drawing(folder: &Path, name: &str) -> String {
    let file = folder.join("plots").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn values(points: &[Value], name: &str) -> Vec<f64> {
    points.iter().map(|point| point[name].as_f64().expect(name)).collect()
}

#[test]
fn a_sweep_of_clients_is_printed_and_drawn_beside_the_paper() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = ["--profile", "none", "--clients", "1,3", "--json", "--plot", "plots"];
    let alone = points(folder, &flags);
    assert_eq!(values(&alone, "clients"), [1.0, 3.0]);
    assert!(values(&alone, "ops_per_s").iter().all(|rate| *rate > 0.0));
    assert!(alone.iter().all(|point| point["ops_per_s_of_paper"].is_null()));
    let drawn = drawing(folder, "clients.svg");
    assert!(drawn.contains("throughput, ours") && drawn.contains("response time, ours"));
    assert!(!drawn.contains("the paper"), "the paper measured over links: {drawn}");

    let flags = ["--clients", "15,1", "--json", "--plot", "plots"];
    let across = points(folder, &flags);
    assert_eq!(across[0]["latency_ms_mean_of_paper"], 370.0);
    assert_eq!(across[1]["ops_per_s_of_paper"], 17.95);
    assert!(across[0]["link"].as_str().is_some_and(|link| link.contains("12 ms, 11 MB/s up")));
    let drawn = drawing(folder, "clients.svg");
    for words in ["throughput, ours", "throughput, the paper", "response time, the paper"] {
        assert!(drawn.contains(words), "{words} is missing");
    }
}

#[test]
fn a_sweep_of_k_opens_the_same_store_again_and_finds_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--profile", "none", "--write-back-every", "5,20", "--clients", "2,4", "--json"];
    let swept = points(folder.path(), &flags);
    assert_eq!(values(&swept, "write_back_every"), [5.0, 5.0, 20.0, 20.0]);
    assert_eq!(values(&swept, "clients"), [2.0, 4.0, 2.0, 4.0]);
    assert!(values(&swept, "up_bytes_per_op").iter().all(|bytes| *bytes > 0.0));
    let flags = ["--profile", "tao-k", "--rtt-ms", "1", "--json", "--plot", "plots"];
    let swept = points(folder.path(), &flags);
    assert_eq!(values(&swept, "write_back_every"), [10.0, 20.0, 40.0, 80.0, 160.0, 320.0]);
    assert!(drawing(folder.path(), "write-back-every.svg").contains("throughput, ours"));
}

#[test]
fn a_sweep_of_the_cache_loads_again_and_reads_shorter_paths() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--profile", "tao-cache", "--size", "2MiB", "--json", "--plot", "plots"];
    let swept = points(folder.path(), &flags);
    assert_eq!(values(&swept, "cached_levels"), [0.0, 1.0, 2.0, 3.0]);
    let paths = values(&swept, "path_bytes");
    assert!(paths.is_sorted_by(|a, b| a > b), "{paths:?}");
    assert_eq!(swept[0]["path_ms_mean_of_paper_from_disk"], 6.12);
    assert!(drawing(folder.path(), "cache.svg").contains("response time, ours"));
    let fetched = drawing(folder.path(), "cache-paths.svg");
    assert!(fetched.contains("over the link, ours") && fetched.contains("disk, the paper"));
}

#[test]
fn what_cannot_be_drawn_is_refused_before_anything_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [
        &["--plot", "plots"][..],
        &["--plot", "plots", "--clients", "1,2", "--write-back-every", "5,10"],
        &["--clients", "1,1"],
    ] {
        let output = bench(folder.path(), flags);
        let said = String::from_utf8(output.stderr).expect("words");
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {said}");
        assert!(!said.contains("loading"), "{said}");
    }
    assert!(!folder.path().join("plots").exists());
    std::fs::write(folder.path().join("file"), "").unwrap();
    let output = bench(folder.path(), &["--plot", "file/plots", "--clients", "1,2"]);
    assert_eq!(output.status.code(), Some(74));
}
