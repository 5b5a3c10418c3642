//! Histories: private, bounded, and in nothing but the picture.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fogbank_audit::Verdict;
use fogbank_audit::report::{html, json, text};
use fogbank_picture::{
    Asked, HistoryError, HistoryLine, HistoryReader, HistoryWriter, Keys, Picture,
};

use crate::sample::{Workload, asked, events, report, seen, uniform};

fn write(path: &Path, salt: u64) -> Vec<HistoryLine> {
    let mut writer = HistoryWriter::create(path, salt).expect("a history");
    for i in 0..100u64 {
        let op = if i % 3 == 0 { Asked::Write } else { Asked::Read };
        writer.asked(i * 1_000, op, format!("patient:{}", i % 7).as_bytes()).expect("a history");
    }
    writer.flush().expect("a history");
    HistoryReader::open(path).expect("a history").map(|line| line.expect("a line")).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a history").permissions().mode() & 0o777
}

#[test]
fn what_was_written_is_read_and_names_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let lines = write(&path, 5);
    assert_eq!((lines.len(), lines[99].at_ns, lines[3].op), (100, 99_000, Asked::Write));
    assert!((7..100).all(|i| lines[i].key == lines[i - 7].key));
    assert!((1..7).all(|i| lines[i].key != lines[0].key));
    assert!(!fs::read_to_string(&path).unwrap().contains("patient"));
    assert_eq!(mode(&path), 0o600);
    let other = write(&folder.path().join("other"), 6);
    assert_ne!(lines[0].key, other[0].key, "two files cannot be joined by their keys");
    assert!(HistoryWriter::create(&path, 1).is_err(), "no history is overwritten");
}

#[test]
fn a_history_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    write(&path, 5);
    for open in [0o644, 0o640, 0o700, 0o604] {
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
        let refused = HistoryReader::open(&path).unwrap_err();
        assert!(matches!(refused, HistoryError::NotPrivate { mode, .. } if mode == open));
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    HistoryReader::open(&path).unwrap();
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    for path in [&path, folder.path()] {
        assert!(matches!(HistoryReader::open(path), Err(HistoryError::NotAFile(_))));
    }
}

#[test]
fn what_is_no_history_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let read = |text: &[u8]| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let all: Result<Vec<HistoryLine>, _> = HistoryReader::open(&path)?.collect();
        all.map(|lines| lines.len())
    };
    let head = "{\"fogbank_history\":1}\n";
    let line = "{\"at_ns\":1,\"op\":\"read\",\"key\":2}\n";
    assert_eq!(read(format!("{head}{line}{line}").as_bytes()).unwrap(), 2);
    assert_eq!(read(format!("{head}{line}{}", &line[..9]).as_bytes()).unwrap(), 1); // a crash
    let endless = format!("{head}{}", "x".repeat(1_000_000));
    for (text, wrong) in [
        (String::new(), ", line 1:"),
        ("{\"fogbank_history\":2}\n".into(), "a later build"),
        (format!("{head}{line}oops\n{line}"), ", line 3:"),
        (format!("{head}{{\"at_ns\":1,\"op\":\"steal\",\"key\":2}}\n"), ", line 2:"),
        (endless, ", line 2:"),
        ("\u{0}\n".into(), ", line 1:"),
    ] {
        let refused = read(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(wrong), "{refused}");
    }
}

/// A history changes the picture beside the trace and not one figure.
#[test]
fn no_check_and_no_figure_reads_it() {
    let (with, without) = (report(Verdict::Passed, 20, true), report(Verdict::Passed, 20, false));
    assert_eq!((json(&with), text(&with)), (json(&without), text(&without)));
    let (secret, open) = (html(&with), html(&without));
    assert!(secret.contains("class=\"secret\"") && !open.contains("class=\"secret\""));
    assert!(open.contains("only the trusted side knows") && !open.contains("class=\"trusted\""));
}

#[test]
fn a_page_is_its_owners() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    report(Verdict::Passed, 2, false).write_html(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    report(Verdict::Passed, 2, true).write_html(&path).unwrap();
    assert_eq!(mode(&path), 0o600, "also where a page was that all could read");
}

#[test]
fn a_scan_is_a_slope_and_a_favourite_a_line() {
    let seen = seen(&events(100, 1, |_, dice| uniform(dice)));
    let mut scan = asked(&seen, Workload::Scan, 1).picture();
    scan.follow(&mut seen.picture());
    assert_eq!(scan.columns(), seen.picture().columns());
    let favourite = asked(&seen, Workload::Favourite, 1).picture();
    let row = |picture: &Picture, row| -> u64 {
        (0..picture.columns()).map(|column| picture.bands[0].map.at(column, row)).sum()
    };
    let average = |picture: &Picture| picture.sum() / picture.bands[0].map.rows() as u64;
    assert!(row(&scan, 0) < 2 * average(&scan));
    assert!((0..5).any(|r| row(&favourite, r) > 8 * average(&favourite)));
}

#[test]
fn more_keys_than_are_told_apart_share_rows() {
    let mut keys = Keys::new((0, 1));
    for key in 0..700_000 {
        keys.line(&HistoryLine { at_ns: u64::from(key), op: Asked::Read, key });
    }
    assert_eq!(keys.keys(), 1 << 19);
    assert_eq!((keys.picture().sum(), keys.commands()), (700_000, (700_000, 0)));
}
