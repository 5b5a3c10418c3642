//! `fogbank bench volume` measures engines side by side; in the settings of a paper it sweeps,
//! prints and draws.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Small, where flags do not say otherwise.
const SMALL: [[&str; 2]; 3] =
    [["--size", "256KiB"], ["--seconds", "0.5"], ["--write-behind", "1MiB"]];

fn bench(folder: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
    let small = SMALL.iter().filter(|[flag, _]| !flags.contains(flag)).flatten();
    let profile = ["--profile", "tao-wan"];
    let is_of_paper = !["--profile", "--engine"].iter().any(|flag| flags.contains(flag));
    let profile = profile.iter().filter(|_| is_of_paper);
    command.current_dir(folder).args(["bench", "volume"]).args(profile).args(small).args(flags);
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

#[test]
fn engines_stand_side_by_side_and_bytes_are_told_by_parts() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        "--engine",
        "tao,partition,ring",
        "--cache",
        "16KiB",
        "--clients",
        "4",
        "--rtt-ms",
        "1",
        "--json",
    ];
    let rows = points(folder.path(), &flags);
    let engines: Vec<&Value> = rows.iter().map(|row| &row["engine"]).collect();
    assert_eq!(engines, ["tao", "partition", "ring"]);
    for row in &rows {
        let of = |name: &str| row[format!("{name}_bytes_per_op")].as_f64().expect(name);
        let near = |sum: f64, parts: f64| (sum - parts).abs() < 1e-6 * sum;
        assert!(of("queries") > 0.0 && of("shuffles_up") > 0.0 && of("journal") > 0.0, "{row}");
        assert!(near(of("down"), of("queries") + of("shuffles_down")), "{row}");
        assert!(near(of("up"), of("shuffles_up") + of("journal") + of("checkpoint")), "{row}");
    }
    let shuffles = values(&rows[1..2], "shuffles_down_bytes_per_op");
    assert!(shuffles[0] > 0.0 && values(&rows[..1], "shuffles_down_bytes_per_op") == [0.0]);
}

#[test]
fn disks_are_counted_and_a_sparse_store_is_full_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--engine", "partition", "--cache", "0", "--size", "64MiB", "--sparse", "--json"];
    let disks = [&flags[..], &["--disks", "7-hdd", "--clients", "8", "--seconds", "2"]].concat();
    let row = &points(folder.path(), &disks)[0];
    let seeks = row["seeks_per_op"].as_f64().unwrap();
    // One of every second level and of the top, and some of jobs and of the journal.
    assert!((4.0..20.0).contains(&seeks), "{row}");
    assert!(
        row["sparse"] == true && row["disks"].as_str().unwrap().starts_with("7 disks"),
        "{row}"
    );
    // Seven disks of 12 ms seek some 583 times a second.
    assert!(seeks * row["ops_per_s"].as_f64().unwrap() < 700.0, "{row}");
    let row = &points(folder.path(), &flags)[0];
    let (queries, shuffles) =
        (row["queries_bytes_per_op"].as_f64(), row["shuffles_down_bytes_per_op"].as_f64());
    assert!(queries.unwrap() > 4.0 * 4096.0 && shuffles.unwrap() > 4096.0, "{row}");
    let said = bench(folder.path(), &flags);
    assert!(
        String::from_utf8(said.stdout).unwrap().contains("sparse: cells that were never written")
    );
    for (flags, why) in [
        (&["--engine", "tao", "--sparse"][..], "--sparse is for engines"),
        (&["--engine", "ring", "--sparse"], "--sparse is not for ring"),
        (&["--engine", "partition", "--profile", "tao-wan"], "--profile is for --engine tao"),
    ] {
        let output = bench(folder.path(), flags);
        let said = String::from_utf8(output.stderr).expect("words");
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {said}");
        assert!(said.contains(why), "{said}");
    }
}

/// Both servers of a sparse volume in two clouds are within the process, and jobs carry on what was
/// imagined.
#[test]
fn a_sparse_volume_in_two_clouds_moves_what_is_reckoned() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--engine", "multicloud", "--size", "16MiB", "--sparse", "--json"];
    // Long enough on a machine that is busy: jobs that were behind before are few of all.
    let flags = [&flags[..], &["--clients", "16", "--seconds", "8"]].concat();
    let row = &points(folder.path(), &flags)[0];
    let value = |name: &str| row[name].as_f64().expect(name);
    let times = value("between_blocks_per_op") / value("reckoned_between_blocks_per_op");
    assert!(row["sparse"] == true && (0.7..1.3).contains(&times), "{row}");
    let evictions = row["parts_blocks_per_op"]["eviction"].as_f64().expect("evictions");
    assert!((1.0..1.5).contains(&evictions), "{row}");
    let output = bench(folder.path(), &["--engine", "multicloud", "--disks", "7-hdd"]);
    let said = String::from_utf8(output.stderr).expect("words");
    assert!(output.status.code() == Some(64) && said.contains("--disks is not for"), "{said}");
}

/// A link between two clouds is the kernel's where it may be, and played by the program where not:
/// both carry and count the same.
#[test]
fn two_servers_share_a_link_of_the_kernel_or_one_that_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--engine", "multicloud", "--size", "16MiB", "--sparse", "--json"];
    let flags = [&flags[..], &["--clients", "8", "--seconds", "6", "--between-mb-s", "40"]];
    for tools in [std::env::var_os("PATH").unwrap_or_default(), "/nowhere".into()] {
        let is_none = tools == "/nowhere";
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
        command.args(["bench", "volume"]).args(flags.concat()).env("PATH", tools);
        let output = command.current_dir(folder.path()).output().expect("the binary runs");
        let said = String::from_utf8(output.stderr).expect("words");
        assert!(output.status.success(), "{said}");
        assert!(!is_none || said.contains("plays the link between the clouds itself"), "{said}");
        let row = String::from_utf8(output.stdout).expect("words");
        let row = row.lines().find(|line| line.starts_with('{')).expect("a row");
        let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
        let value = |name: &str| row[name].as_f64().expect(name);
        let times = value("between_blocks_per_op") / value("reckoned_between_blocks_per_op");
        assert!((0.6..1.4).contains(&times), "{row}");
        let carried = value("ops_per_s") * value("between_blocks_per_op") * 4_096.0;
        assert!(carried < 1.1 * 80e6, "{row}");
    }
}

/// Every byte of a site's clients is told by its part, while a table of every level is built.
#[test]
fn clients_of_a_site_are_measured_while_its_largest_table_is_built() {
    let site = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
        // No whole number of blocks: as many as there is room for.
        command.args(["bench", "site", "--size", "2100KB", "--json"]).args(flags);
        command.output().expect("the binary runs")
    };
    let output = site(&["--clients", "1,3", "--rtt-ms", "2", "--up-mb-s", "125"]);
    let said = String::from_utf8(output.stderr).expect("words");
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).expect("words");
    assert!(printed.contains("round trips of 2 ms, 125 MB/s up"), "{printed}");
    let objects = printed.lines().filter(|line| line.starts_with('{'));
    let rows: Vec<Value> = objects.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values(&rows, "clients"), [1.0, 3.0]);
    for row in &rows {
        let of = |name: &str| row[name].as_f64().expect(name);
        // Places that pass before all clients are there are not counted: on a busy machine some.
        assert!(of("largest_table_built") > 0.85, "{row}");
        // Three levels: no query touches more than two tables of each, and one at least of the
        // bottom.
        assert!((1.0..=6.0).contains(&of("cells_touched_per_op")), "{row}");
        // A query moves one entry and one result up, and down to every client.
        let (up, down) = (of("log_up_bytes_per_op"), of("log_down_bytes_per_op"));
        assert!((2.0 * 4096.0..2.5 * 4096.0).contains(&up), "{row}");
        assert!((down / (up * of("clients")) - 1.0).abs() < 0.1, "{row}");
        // All that tables hold is written and read again, and blobs are little beside it.
        let built = of("cells_built_per_op") * (4096.0 + 20.0);
        assert!(of("cells_built_per_op") > 6.0, "{row}");
        assert!((1.0..1.1).contains(&(of("builds_bytes_per_op") / built)), "{row}");
        assert!((0.5..20.0).contains(&of("superblocks_bytes_per_op")), "{row}");
        assert!(of("latency_ms_mean") >= 4.0 && of("latency_ms_p99") <= of("latency_ms_max"));
    }
    let output = site(&["--seconds", "1", "--clients", "2", "--beside", "partition,tao"]);
    let printed = String::from_utf8(output.stdout).expect("words");
    let objects = printed.lines().filter(|line| line.starts_with('{'));
    let rows: Vec<Value> = objects.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values(&rows, "clients"), [2.0; 3], "{printed}");
    assert_eq!(values(&rows, "blocks"), [512.0; 3], "{printed}");
    let engines: Vec<_> = rows[1..].iter().map(|row| row["engine"].as_str()).collect();
    assert_eq!(engines, [Some("partition"), Some("tao")], "{printed}");
    for flags in [&["--clients", "0"][..], &["--clients", "513"], &["--seconds", "0"]] {
        assert_eq!(site(flags).status.code(), Some(64), "{flags:?}");
    }
}
