//! When epochs run, with a real server: what goes to the store and what clients are told.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::resp::Frame;
use crate::server::Server;

fn bytes(trace: &Path) -> u64 {
    std::fs::metadata(trace).map_or(0, |file| file.len())
}

/// Whether the trace comes to rest, and stays so, within a minute.
fn rests(trace: &Path) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let before = bytes(trace);
        std::thread::sleep(Duration::from_millis(1_500));
        if bytes(trace) == before {
            return true;
        }
    }
    false
}

#[test]
fn without_clients_nothing_goes_to_the_store() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace");
    let record = trace.to_string_lossy();
    let options = ["--rest-after", "1s", "--record", &record];
    let data = folder.path().join("data");
    let server = Server::fogbank(&data, &options);
    let mut client = server.connect();
    assert_eq!(client.line("SET name value").expect("a reply"), Frame::Simple("OK".into()));
    let busy = bytes(&trace);
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(bytes(&trace) > busy, "a client that is silent is a client");
    drop(client);
    assert!(rests(&trace));
    let rested = bytes(&trace);
    let mut client = server.connect();
    let value = client.line("GET name").expect("a reply");
    assert_eq!(value, Frame::Bulk(b"value".to_vec()));
    assert!(bytes(&trace) > rested);
}

#[test]
fn outside_the_hours_commands_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let told = ["00:00-12:00", "12:00-00:00"].map(|hours| {
        let data = folder.path().join(hours.replace(':', ""));
        let server = Server::fogbank(&data, &["--schedule", hours, "--time-zone", "UTC"]);
        // The epoch that began with the store ends first.
        std::thread::sleep(Duration::from_millis(500));
        server.connect().line("SET name value").expect("a reply")
    });
    let open = told.iter().filter(|reply| **reply == Frame::Simple("OK".into())).count();
    let resting = |reply: &&Frame| matches!(reply, Frame::Error(text) if text.starts_with("RESTING") && text.contains("hours are"));
    assert_eq!((open, told.iter().filter(resting).count()), (1, 1), "{told:?}");
}
