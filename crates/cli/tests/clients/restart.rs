//! Ending and coming back, and refusing to start where it would be wrong to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::resp::Frame;
use crate::server::{Server, free_port};

const NOTHING: &[&str] = &[];

fn bulk(text: &str) -> Frame {
    Frame::Bulk(text.as_bytes().to_vec())
}

#[test]
fn data_is_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..3 {
        let mut server = Server::fogbank(folder.path(), NOTHING);
        let mut client = server.connect();
        let mut ask = |line: String| client.line(&line).expect("a reply");
        for before in 0..round {
            assert_eq!(ask(format!("GET text:{before}")), bulk(&format!("value-{before}")));
            assert_eq!(ask(format!("HGET hash:{before} b")), bulk("2"));
            assert_eq!(ask(format!("ZSCORE set:{before} one")), bulk("1.5"));
            let Frame::Integer(left) = ask(format!("TTL hash:{before}")) else { panic!("TTL") };
            assert!((99_000..=100_000).contains(&left), "{left}");
        }
        assert_eq!(ask("INCR restarts".into()), Frame::Integer(round + 1));
        assert_eq!(ask(format!("SET text:{round} value-{round}")), Frame::Simple("OK".into()));
        assert_eq!(ask(format!("HSET hash:{round} a 1 b 2")), Frame::Integer(2));
        assert_eq!(ask(format!("EXPIRE hash:{round} 100000")), Frame::Integer(1));
        assert_eq!(ask(format!("ZADD set:{round} 1.5 one")), Frame::Integer(1));
        let status = server.terminate();
        assert!(status.success(), "asked to end, it ended with {status}");
    }
}

/// What was answered survives the end, though clients are still sending.
#[test]
fn answers_given_before_the_end_hold_after_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::fogbank(folder.path(), NOTHING);
    let mut client = server.connect();
    let writer = std::thread::spawn(move || {
        let mut last = 0;
        while let Ok(Frame::Integer(n)) = client.line("INCR n") {
            last = n;
        }
        last
    });
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(server.terminate().success());
    let answered = writer.join().expect("the writer ends");
    let server = Server::fogbank(folder.path(), NOTHING);
    let Frame::Bulk(kept) = server.connect().line("GET n").expect("a reply") else {
        panic!("nothing was kept of {answered}");
    };
    let kept: i64 = String::from_utf8_lossy(&kept).parse().expect("a number");
    assert!(answered > 0 && (answered..=answered + 1).contains(&kept), "{answered}, {kept}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let said = Server::try_fogbank(folder.path(), port, NOTHING).err().expect("no second server");
    assert!(said.contains(&port.to_string()) && said.contains("taken"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn one_store_has_one_proxy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let _first = Server::fogbank(folder.path(), NOTHING);
    let said = Server::try_fogbank(folder.path(), free_port(), NOTHING).err();
    let said = said.expect("a second proxy on the same data must not start");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(Server::fogbank(folder.path(), NOTHING).terminate().success());
    let trusted = folder.path().join("proxy");
    let files = files_under(&trusted);
    assert!(!files.is_empty(), "the trusted side keeps files in {}", trusted.display());
    for file in &files {
        let mode = fs::metadata(file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} can be read by others: {mode:o}", file.display());
    }
    let key = files.iter().find(|file| is_key(file)).expect("a key file");
    fs::set_permissions(key, fs::Permissions::from_mode(0o644)).expect("its mode is set");
    let said = Server::try_fogbank(folder.path(), free_port(), NOTHING).err();
    let said = said.expect("a key that others can read must be refused");
    let name = key.file_name().unwrap_or_default().to_string_lossy().into_owned();
    assert!(said.contains(&name), "the file is to be named: {said}");
}

fn is_key(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().contains("key"))
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, mut files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| files_under(folder)));
    files
}

/// A file of records is a store that clients read and change.
#[test]
fn what_was_loaded_is_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records: String =
        (0..500).map(|n| format!("{{\"key\":\"k{n}\",\"value\":\"v{n}\"}}\n")).collect();
    fs::write(folder.path().join("records.jsonl"), records).expect("a file");
    let data = folder.path().join("data");
    let shape = "--capacity 1000 --value-size 64 --interval-ms 5";
    let mut load = std::process::Command::new(env!("CARGO_BIN_EXE_fogbank"));
    load.current_dir(folder.path()).args(["load", "--from", "records.jsonl", "--data", "data"]);
    let loaded = load.args(shape.split(' ')).output().expect("it runs");
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let server = Server::try_fogbank_of(shape, &data, &[]).expect("a server");
    let mut client = server.connect();
    let mut ask = |line: &str| client.line(line).expect("a reply");
    assert_eq!(ask("DBSIZE"), Frame::Integer(500));
    assert_eq!((ask("GET k0"), ask("GET k499")), (bulk("v0"), bulk("v499")));
    assert_eq!(ask("SET k499 new"), Frame::Simple("OK".into()));
    assert_eq!((ask("DEL k0"), ask("DBSIZE")), (Frame::Integer(1), Frame::Integer(499)));
    assert_eq!(ask("GET k499"), bulk("new"));
}
