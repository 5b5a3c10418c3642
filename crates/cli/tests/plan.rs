//! `fogbank plan`: what it says, and that it makes nothing.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::path::Path;
use std::process::{Command, Output};

const SCHEMES: [&str; 6] = ["file://", "s3://", "az://", "gs://", "grpc://", "dynamodb://"];

fn fogbank(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
    command.current_dir(folder).args(args).output().expect("the binary runs")
}

/// What is said with the exit code of wrong usage.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = fogbank(folder, args);
    let words = String::from_utf8(output.stderr).expect("words");
    assert_eq!(output.status.code(), Some(64), "{args:?}: {words}");
    words
}

#[test]
fn the_help_of_plan_names_all_schemes_and_the_format_of_prices() {
    let folder = tempfile::tempdir().unwrap();
    let help = fogbank(folder.path(), &["plan", "--help"]).stdout;
    let help = String::from_utf8(help).unwrap();
    for scheme in SCHEMES {
        assert!(help.contains(scheme), "{scheme} is not in the help");
    }
    // The example is a price table.
    let table = &help[help.find("    [s3]").unwrap()..];
    std::fs::write(folder.path().join("prices.toml"), table).unwrap();
    let args = ["plan", "--store", "s3://b", "--prices", "prices.toml", "--loss", "0.0004"];
    let told = String::from_utf8(fogbank(folder.path(), &args).stdout).unwrap();
    assert!(told.contains("loss 0.0004") && told.contains("a month, busy or idle"), "{told}");
    // How fast, how much memory, how many dollars.
    let lines: Vec<&str> = told.lines().take(3).collect();
    assert!(lines[0].contains("at most") && lines[1].contains("memory"), "{told}");
    assert!(lines[2].starts_with("bill") && lines[2].contains("$ "), "{told}");
    assert!(told.contains("round trips of 30 ms") && told.contains("assumed of s3"), "{told}");
    assert!(told.contains("a store made with --interval-ms"), "{told}");
    let at_rest = told.lines().find(|line| line.starts_with("at rest"));
    assert!(at_rest.is_some_and(|line| line.contains("serve --rest-after")), "{told}");
}

#[test]
fn a_plan_is_printed_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["plan", "--capacity", "1000000", "--rtt-ms", "10", "--store", "s3://b", "--json"];
    let output = fogbank(folder.path(), &plan);
    assert_eq!(output.status.code(), Some(0));
    let last = String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned();
    let figures: serde_json::Value = serde_json::from_str(&last).unwrap();
    for figure in [
        "accesses_per_s",
        "cells_per_access",
        "bytes_per_access",
        "storage_bytes",
        "proxy_bytes",
        "usd_per_million",
        "usd_per_month",
        "usd_per_month_requests",
        "usd_per_month_storage",
        "usd_per_month_traffic",
        "written_bytes_per_day",
    ] {
        assert!(figures[figure].as_f64().is_some_and(|f| f > 0.0), "{figure} of {last}");
    }
    let parts = ["requests", "storage", "traffic"]
        .map(|part| figures[format!("usd_per_month_{part}")].as_f64().unwrap());
    let sum = figures["usd_per_month"].as_f64().unwrap();
    assert!((parts.iter().sum::<f64>() / sum - 1.0).abs() < 1e-9 && sum < 100.0, "{last}");
    assert_eq!(figures["rtt_ms"], 10.0);
    let disk = String::from_utf8(fogbank(folder.path(), &["plan"]).stdout).unwrap();
    let lines: Vec<&str> = disk.lines().take(3).collect();
    assert!(lines[2].starts_with("wear") && lines[2].contains("a day written"), "{disk}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    for (wrong, named) in [
        ("--rtt-ms=-1", "--rtt-ms"),
        ("--capacity=0", "capacity"),
        ("--prices=none", "none"),
        ("--store=ftp://x", "no store URL that this build knows"),
        ("--store=cloud", "grpc://"),
    ] {
        let words = refused(folder.path(), &["plan", wrong]);
        assert!(words.contains(named), "{words}");
    }
}

#[test]
fn a_volume_is_planned_with_every_engine_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |more: &[&str]| {
        let args = [&["volume", "plan", "--size", "1GiB", "--json"], more].concat();
        let output = fogbank(folder.path(), &args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let figures = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        (said, figures)
    };
    let (said, figures): (String, serde_json::Value) =
        plan(&["--store", "s3://b", "--rtt-ms", "50", "--up-mb-s", "10", "--cache", "16MiB"]);
    let engines = figures["engines"].as_object().unwrap();
    assert_eq!(engines.keys().collect::<Vec<_>>(), ["tao", "partition", "ring"]);
    for (engine, of) in engines {
        for figure in ["proxy_bytes", "storage_bytes", "bytes_per_access", "usd_per_million"] {
            assert!(of[figure].as_f64().is_some_and(|f| f > 0.0), "{engine} {figure}: {said}");
        }
    }
    assert_eq!(figures["choose"], "partition", "{said}");
    for line in ["memory of the proxy", "answers after", "choose"] {
        assert!(said.lines().any(|said| said.starts_with(line)), "{line}: {said}");
    }
    // An engine that needs two clouds is shown, and may be chosen, where two are given; else it is
    // said.
    assert!(said.contains("--second-store grpc://HOST:PORT/TENANT: multicloud"), "{said}");
    let two = ["--store", "grpc://h:7/t", "--second-store", "grpc://i:7/t"];
    let (said, figures) = plan(&two);
    assert!(figures["engines"]["multicloud"].is_object(), "{figures}");
    assert!(figures["choose"] == "multicloud" && !said.contains("HOST:PORT"), "{said}");
    let (said, figures) = plan(&["--second-store", "grpc://i:7/t"]);
    assert!(figures["engines"]["multicloud"].is_null(), "{figures}");
    assert!(said.contains("give two fogbank-cloud servers"), "{said}");
    // A link that carries twice as much serves twice as many.
    let per_s = |up: &str| {
        let (_, figures) = plan(&["--rtt-ms", "50", "--up-mb-s", up]);
        figures["engines"]["tao"]["accesses_per_s"].as_f64().unwrap()
    };
    assert!((per_s("20") / per_s("10") - 2.0).abs() < 1e-9);
    // What does not fit is not proposed; a shape that no engine can have is refused.
    let (_, figures) = plan(&["--memory", "300MB"]);
    assert_eq!(figures["choose"], "tao");
    for (wrong, named) in [
        (["--size", "1GiB", "--memory", "1MB"], "that memory"),
        (["--size", "5000", "--block", "4KiB"], "whole number of blocks"),
        (["--size", "1GiB", "--block", "3000"], "--block"),
    ] {
        let words = refused(folder.path(), &[&["volume", "plan"], &wrong[..]].concat());
        assert!(words.contains(named), "{words}");
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

/// Both providers send a bill, and most of what leaves a cloud goes to the other one.
#[test]
fn a_volume_in_two_clouds_has_two_bills_and_what_passes_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |second_egress: &str, more: &[&str]| {
        let table = format!(
            "[grpc]\nstorage_usd_per_gb_month = 0.05\negress_usd_per_gb = 0.09\n\
             ['grpc://i:7']\nstorage_usd_per_gb_month = 0.05\negress_usd_per_gb = {second_egress}\n"
        );
        std::fs::write(folder.path().join("prices.toml"), table).unwrap();
        let places = ["--store", "grpc://h:7/t", "--second-store", "grpc://i:7/t"];
        let args = ["volume", "plan", "--size", "1GiB", "--json", "--prices", "prices.toml"];
        let output = fogbank(folder.path(), &[&args, &places[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        let all: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        (said, all["engines"]["multicloud"].clone())
    };
    let near = |one: f64, other: f64| {
        assert!((one - other).abs() <= 1e-9 * other.abs(), "{one} and {other}");
    };
    let link = ["--up-mb-s", "12.5", "--down-mb-s", "12.5"];
    let (said, alike) = plan("0.09", &link);
    let figure = |of: &serde_json::Value, path: &str| {
        of.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{path}"))
    };
    let both = |name: &str| [0, 1].map(|at| figure(&alike, &format!("/clouds/{at}/{name}")));
    let sum = |name: &str| both(name).iter().sum::<f64>();
    // 1. What is of both is the whole.
    near(sum("storage_bytes"), figure(&alike, "/storage_bytes"));
    near(sum("to_client_bytes_per_access"), figure(&alike, "/down_bytes_per_access"));
    near(sum("usd_per_million"), figure(&alike, "/usd_per_million"));
    near(sum("usd_per_month"), figure(&alike, "/usd_per_month"));
    // 2. What passes is cells, of a block and 16 bytes, at the rate that the link carries.
    let between = figure(&alike, "/between/bytes_per_access");
    near(between, figure(&alike, "/between/cells_per_access") * (4096.0 + 16.0));
    near(between, sum("to_other_bytes_per_access"));
    let (per_s, month_s) = (figure(&alike, "/accesses_per_s"), 365.25 / 12.0 * 86_400.0);
    near(figure(&alike, "/between/bytes_per_month"), between * per_s * month_s);
    let [first, _] = both("usd_per_million");
    let leaves = between / 2.0 + figure(&alike, "/down_bytes_per_access") / 2.0;
    near(first, leaves / 1e3 * 0.09);
    for line in ["first cloud", "second cloud", "between the clouds", "both clouds"] {
        assert!(said.lines().any(|said| said.starts_with(line)), "{line}: {said}");
    }
    // 3. Another second provider sends another bill, and the first one does not.
    let (said, apart) = plan("0.01", &link);
    assert_eq!(alike["clouds"][0], apart["clouds"][0]);
    near(figure(&apart, "/clouds/1/usd_per_million") * 9.0, first);
    assert!(!said.contains("both clouds") && apart["between"]["priced_alike"] == false, "{said}");
    // 4. Of a link without an end nobody knows how much passes in a month.
    let (said, unknown) = plan("0.09", &[]);
    assert!(unknown["between"]["bytes_per_month"].is_null(), "{unknown}");
    assert!(said.contains("for each access/s"), "{said}");
}

/// Who wants to know what it costs reads no page of figures; who asks gets them.
#[test]
fn a_plan_has_twelve_lines_unless_more_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let said = |args: &[&str]| {
        let output = fogbank(folder.path(), args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (plan, more) in [
        (&["plan"][..], "requests of an epoch"),
        (&["plan", "--store", "s3://b"], "requests of an epoch"),
        (&["volume", "plan", "--size", "1GiB"], "a recovery reads"),
        (&["volume", "plan", "--size", "1GiB", "--store", "s3://b"], "a recovery reads"),
    ] {
        let (short, all) = (said(plan), said(&[plan, &["--all"]].concat()));
        assert!(short.lines().count() <= 12 && !short.contains(more), "{short}");
        assert!(short.contains("--all") && all.contains(more), "{short}{all}");
        // What is reckoned with may differ by the machine's speed of that moment.
        let begins = |line: &str| line.get(..22).map(str::to_owned);
        for line in short.lines().filter(|line| !line.starts_with("more")) {
            assert!(all.lines().any(|of| begins(of) == begins(line)), "{line}: {all}");
        }
    }
}

/// The tables of docs/disk.md say what the plan says, to some three in a hundred.
#[test]
fn the_tables_of_volumes_say_what_is_planned() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/disk.md");
    let page = std::fs::read_to_string(page).unwrap();
    let memory = ["tao bytes", "tao proxy", "partition bytes", "partition proxy"];
    let tables: [(&str, &[&str]); 2] = [
        ("| size of the volume | `tao` moves for a block |", &memory),
        ("| size | a block sends |", &["tao up_bytes", "tao down_bytes", "tao storage"]),
    ];
    for (head, figures) in tables {
        let rows = page.lines().skip_while(|line| !line.starts_with(head)).skip(2);
        let rows: Vec<Vec<&str>> = rows
            .take_while(|line| line.starts_with('|'))
            .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert!(rows.len() >= 3, "{head}");
        for row in rows {
            let size = row[0].replace(' ', "");
            let planned = planned(&size);
            for (figure, told) in figures.iter().zip(&row[1..]) {
                let (engine, name) = figure.split_once(' ').unwrap();
                let suffix = if name.contains("bytes") { "_per_access" } else { "_bytes" };
                let reckoned = planned["engines"][engine][format!("{name}{suffix}")].as_f64();
                let reckoned = reckoned.unwrap_or_else(|| panic!("{figure} of {size}"));
                let told_bytes = bytes_of(told);
                let is_near = |told: f64| (told / reckoned - 1.0).abs() < 0.03;
                assert!(is_near(told_bytes), "{size}, {figure}: {told}, and it is {reckoned:.0}");
                // The canary.
                assert!(!is_near(told_bytes * 1.1), "{told}");
            }
        }
    }
}

fn planned(size: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let output = fogbank(folder.path(), &["volume", "plan", "--size", size, "--json"]);
    let told = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(told.lines().last().unwrap()).unwrap()
}

/// Of `7.7 GB`.
fn bytes_of(told: &str) -> f64 {
    let (number, unit) = told.split_once(' ').unwrap();
    let unit = match unit {
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        other => panic!("{other}"),
    };
    number.parse::<f64>().unwrap() * unit
}
