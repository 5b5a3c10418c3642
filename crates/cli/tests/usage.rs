//! What is typed wrongly, or would destroy what is read, is said and changes nothing.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use fogbank_env::SystemClock;
use fogbank_store::trace::{TraceOptions, TraceWriter};

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

fn trace(folder: &Path, name: &str, head: &[u8]) {
    let clock = Arc::new(SystemClock::new());
    let writer = TraceWriter::create(folder.join(name), head, clock, TraceOptions::default());
    writer.and_then(|writer| writer.finish().map_err(std::io::Error::other)).expect("a trace");
}

#[test]
fn wrong_usage_exits_with_64_and_help_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    refused(folder, &["audit"]);
    refused(folder, &["no-such-command"]);
    let help = fogbank(folder, &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("Exit codes"));
    assert_eq!(fogbank(folder, &["--version"]).status.code(), Some(0));
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
    let head = b"{\"clock\":\"real\",\"engine\":\"\\u001b[2J\\u009b\"}";
    trace(folder, "t", head);
    let words = refused(folder, &["audit", "--trace", "a=t"]);
    assert!(!words.trim_end().chars().any(char::is_control), "{words:?}");
    assert!(words.contains("[2J"), "{words:?}");
}

#[test]
fn a_record_that_exists_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trace(folder, "t", b"{}");
    let args = ["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--record", "t"];
    let words = refused(folder, &args);
    assert!(words.contains("choose a new name") && words.contains("LABEL=old,new"), "{words}");
}
