//! What is typed wrongly, or would destroy what is read, is said and changes nothing.

#[path = "../../process/tests/typed/numbers.rs"]
mod numbers;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_env::SystemClock;
use fogbank_store::trace::{Fingerprints, PublicConfig, TraceClock, TraceOptions, TraceWriter};

fn lab(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank-lab"));
    command.current_dir(folder).args(args).output().expect("the binary runs")
}

/// What is said with the exit code of wrong usage.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = lab(folder, args);
    let words = String::from_utf8(output.stderr).expect("words");
    assert_eq!(output.status.code(), Some(64), "{args:?}: {words}");
    words
}

fn trace(folder: &Path, name: &str, head: &[u8]) {
    let clock = Arc::new(SystemClock::new());
    let writer = TraceWriter::create(folder.join(name), head, clock, TraceOptions::default());
    writer.and_then(|writer| writer.finish().map_err(std::io::Error::other)).expect("a trace");
}

#[test]
fn a_number_out_of_its_limits_is_refused_with_them() {
    let flags = numbers::check(env!("CARGO_BIN_EXE_fogbank-lab"), &[]);
    assert!(flags > 60, "{flags}");
}

#[test]
fn wrong_usage_exits_with_64_and_help_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    refused(folder, &["audit"]);
    refused(folder, &["serve"]);
    let help = lab(folder, &["bench", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    // It is started in place of the other program.
    assert!(String::from_utf8(help.stdout).unwrap().contains("Usage: fogbank bench"));
}

#[test]
fn what_is_written_for_the_owner_stays_out_of_the_folder_of_the_cloud() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bench = ["bench", "engine", "--store", "file://c", "--capacity", "10", "--seconds", "1"];
    let words = refused(folder, &[&bench[..], &["--record", "x/../c/trace"]].concat());
    assert!(words.contains("the folder of the cloud"), "{words}");
    assert!(std::fs::read_dir(folder).unwrap().next().is_none(), "something is left");
}

#[test]
fn traces_without_an_end_are_told_and_those_of_other_fingerprints_or_formats_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ring = RingConfig {
        read_batches: 1,
        read_batch: 1,
        write_batch: 1,
        interval_ns: 0,
        slack_ns: 0,
        quantum_ns: 0,
        reals: 4,
        dummies: 6,
        evict_every: 3,
        leaf_level: 1,
        cached_levels: 0,
        array: 0,
        cell_bytes: 40,
        window_cells: 100,
        window_chunks: 10,
        image_points: 0,
        windows: 1,
        in_flight: 1,
        pauses: false,
        epoch_buffer: true,
        prefetch: true,
        xor: false,
        keep_superseded: false,
        vault: None,
    };
    let head = PublicConfig::new(TraceClock::Real, "ring", (8, 16), ring).encode();
    trace(folder, "whole", &head);
    let options = TraceOptions { fingerprints: Fingerprints::Tail, ..TraceOptions::default() };
    let clock = Arc::new(SystemClock::new());
    drop(TraceWriter::create(folder.join("tags"), &head, clock, options).unwrap());
    let words = refused(folder, &["audit", "--trace", "a=whole", "--trace", "b=tags"]);
    assert!(words.contains("whole has fingerprints of whole cells"), "{words}");
    assert!(words.contains("tags has fingerprints of the tags of cells"), "{words}");
    let said = || {
        let output = lab(folder, &["audit", "--trace", "a=whole"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!said().contains("whole has no end"));
    let mut bytes = std::fs::read(folder.join("whole")).unwrap();
    std::fs::write(folder.join("whole"), &bytes[..bytes.len() - 44]).unwrap();
    assert!(said().contains("whole has no end"), "{}", said());
    bytes[8] = 1;
    std::fs::write(folder.join("old"), bytes).unwrap();
    let output = lab(folder, &["audit", "--trace", "a=old"]);
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(74), "{words}");
    assert!(words.contains("old has trace format 1; this build reads 2 to 3"), "{words}");
}

#[test]
fn arguments_of_an_audit_that_cannot_be_meant() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let audit = |more: &[&str]| {
        let args: Vec<&str> = ["audit", "--trace", "a=t"].iter().chain(more).copied().collect();
        refused(folder, &args)
    };
    for bound in ["0", "-1", "1.5", "NaN"] {
        assert!(audit(&[&format!("--bound={bound}")]).contains("--bound"));
    }
    assert!(audit(&["--trace", "b=t,"]).contains("comma"));
    assert!(audit(&["--history", "a=h"]).contains("--html"));
    let page = ["--html", "p", "--history"];
    assert!(audit(&[&page[..], &["h"]].concat()).contains("LABEL=FILE"));
    assert!(audit(&[&page[..], &["b=h"]].concat()).contains("no --trace has the label b"));
    let twice = audit(&[&page[..], &["a=h", "--history", "a=g"]].concat());
    assert!(twice.contains("has a history already"), "{twice}");
}

#[test]
fn a_page_is_not_written_over_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["t", "t.1", "h"] {
        std::fs::write(folder.join(name), "keep").unwrap();
        std::os::unix::fs::symlink(name, folder.join(format!("to-{name}"))).unwrap();
    }
    for name in ["t", "./t", "t.1", "h", "to-t", "to-t.1", "to-h"] {
        let args = ["audit", "--trace", "a=t", "--history", "a=h", "--html", name];
        assert!(refused(folder, &args).contains("one of the files to read"));
    }
    for name in ["t", "t.1", "h"] {
        assert_eq!(std::fs::read(folder.join(name)).unwrap(), b"keep");
    }
}

#[test]
fn a_head_cannot_move_the_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let head = r#"{"clock":"real","engine":"\u001b[2J\u009b","capacity":8,"value_bytes":16}"#;
    trace(folder, "t", head.as_bytes());
    let words = refused(folder, &["audit", "--trace", "a=t"]);
    assert!(!words.trim_end().chars().any(char::is_control), "{words:?}");
    assert!(words.contains("[2J"), "{words:?}");
}
