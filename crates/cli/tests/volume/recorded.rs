//! What clouds see of a volume, written down by the programs themselves, and audited.
//!
//! Of two clouds each writes what it is sent, over starts of its own and of the client; of epochs
//! the client writes what it asks its store. The auditor finds nothing in either, and what was
//! changed in one message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_env::SystemClock;
use fogbank_store::trace::{
    ChunkSeen, Event, Request, Shown, TraceOptions, TraceReader, TraceWriter,
};

use crate::client::{BLOCK, Client};
use crate::clouds::Clouds;
use crate::server::{self, Server};
use crate::{MULTICLOUD, PARTITION, RING, Volume, fogbank, number, said};

/// Writes and reads blocks of a served volume, one and the same more often than others.
fn work(volume: &Volume, accesses: u64) {
    let mut client = Client::connect(&volume.socket()).unwrap();
    for access in 0..accesses {
        let block = if access % 3 == 0 { 7 } else { access * 37 % 256 };
        match access % 2 {
            0 => {
                client.write(0, block, &vec![access as u8; BLOCK]).unwrap();
                client.reply().unwrap();
            }
            _ => _ = client.read(block, 1).unwrap(),
        }
    }
}

/// What `fogbank audit` ends with and says, of a run of one trace or several.
pub fn audit(traces: &[PathBuf]) -> (Option<i32>, String) {
    server::beside("fogbank-lab");
    let traces: Vec<_> = traces.iter().map(|trace| trace.display().to_string()).collect();
    let output = fogbank(&["audit", "--trace", &format!("run={}", traces.join(","))]);
    (output.status.code(), said(&output))
}

/// Ends of an audit: nothing found, a leak, too little data.
pub const PASSED: Option<i32> = Some(0);
pub const LEAK: Option<i32> = Some(1);
pub const TOO_FEW: Option<i32> = Some(3);
/// What an audit says of a trace that begins too late.
const MIDST: &str = "after the store was made";

#[test]
fn what_each_of_two_clouds_is_sent_is_audited() {
    // With fewer levels at the client every partition is soon no longer empty: until then a read
    // that is left out may have been one of those.
    let small = [&MULTICLOUD[..], &["--cache", "0"]].concat();
    let volume = Volume::with("1MiB", &small, Clouds::recorded);
    let clouds = volume.clouds.as_ref().unwrap();
    // 1. The client is killed, then either cloud; then all end in good order.
    let server = volume.serve();
    work(&volume, 300);
    server.kill();
    let mut server = volume.serve();
    for cloud in [0, 1] {
        work(&volume, 150);
        clouds.kill(cloud);
        clouds.start(cloud);
    }
    work(&volume, 300);
    assert!(server.terminate().success());
    clouds.end();
    // 2. Nothing is found in what either was sent.
    for cloud in [0, 1] {
        let traces = clouds.traces(cloud);
        assert_eq!(traces.len(), 2, "one a process");
        let (code, told) = audit(&traces);
        assert!([PASSED, TOO_FEW].contains(&code), "cloud {cloud}: {code:?}: {told}");
        // The canary: what begins in the midst cannot be known.
        let (midst, words) = audit(&traces[1..]);
        assert!(midst == TOO_FEW && words.contains(MIDST), "{midst:?}: {words}");
        let whose = ["first cloud", "second cloud"][cloud];
        assert!(told.contains(whose) && !told.contains("FAIL"), "{told}");
        // 3. One message that is another is found, and one that is missing.
        for (what, rule, change) in CHANGES {
            let spoilt = volume.path(&format!("cloud {cloud}: {what}"));
            rewrite(&traces[0], &spoilt, change);
            let (code, told) = audit(&[spoilt, traces[1].clone()]);
            assert!(code == LEAK && told.contains(rule), "cloud {cloud}, {what}: {code:?}: {told}");
        }
    }
}

/// A recording that is long enough ends with 0, and with 1 if one message of it is left out: of
/// `FOGBANK_TEST_RECORDED` accesses, if that is set. Some 200,000 are enough (`docs/audit.md`).
#[test]
fn a_long_recording_of_two_clouds_ends_with_0() {
    let Some(accesses) = number("FOGBANK_TEST_RECORDED") else { return };
    let volume =
        Volume::with("1MiB", &["--engine", "multicloud", "--cache", "0"], Clouds::recorded);
    let clouds = volume.clouds.as_ref().unwrap();
    let mut server = volume.serve();
    let mut client = Client::connect(&volume.socket()).unwrap();
    client.write(0, 0, &[7; 256 * BLOCK]).unwrap();
    client.reply().unwrap();
    // Every block again and again, many at once.
    (0..accesses / 256).for_each(|_| _ = client.read(0, 256).unwrap());
    drop(client);
    assert!(server.terminate().success());
    clouds.end();
    for cloud in [0, 1] {
        let traces = clouds.traces(cloud);
        let (code, told) = audit(&traces);
        assert_eq!(code, PASSED, "cloud {cloud}: {told}");
        let (what, rule, change) = CHANGES[0];
        let spoilt = volume.path(&format!("cloud {cloud}"));
        rewrite(&traces[0], &spoilt, change);
        let (code, told) = audit(&[spoilt]);
        assert!(code == LEAK && told.contains(rule), "cloud {cloud}, {what}: {code:?}: {told}");
    }
}

/// What came to a cloud, each with who sent it.
type Came = Vec<(u8, Shown)>;

/// What is done to a trace, in words, and the rule that it breaks.
type Change = (&'static str, &'static str, fn(&mut Came));

const CHANGES: [Change; 4] = [
    ("a read is not told", "read-number", |came| {
        let reads = reads(came);
        came.remove(reads[reads.len() - 2]);
    }),
    ("a seed serves twice", "seed-once", |came| {
        let seeds = came.iter_mut().filter_map(|(_, shown)| match shown {
            Shown::Said { name, fingerprint, .. } if name.starts_with("mix/") => Some(fingerprint),
            _ => None,
        });
        let mut seeds = seeds.rev();
        let (last, before) = (seeds.next().unwrap(), seeds.next().unwrap());
        *last = *before;
    }),
    ("a cell comes again", "unlinkable", |came| {
        let mut cells = cells(came);
        let first = cells[0].fingerprints[0];
        *cells.last_mut().unwrap().fingerprints.last_mut().unwrap() = first;
    }),
    ("a cell is missing", "cells-by-counters", |came| {
        let mut cells = cells(came);
        let last = cells.last_mut().unwrap();
        last.bytes -= last.bytes / last.fingerprints.len() as u64;
        last.fingerprints.pop();
    }),
];

/// Where reads are named.
fn reads(came: &Came) -> Vec<usize> {
    let names = |shown: &Shown| match shown {
        Shown::Said { name, .. } => name.starts_with("look/") || name.starts_with("want/"),
        Shown::Cells { .. } => false,
    };
    (0..came.len()).filter(|at| names(&came[*at].1)).collect()
}

/// The cells of every message that has any.
fn cells(came: &mut Came) -> Vec<&mut ChunkSeen> {
    let all = came.iter_mut().filter_map(|(_, shown)| match shown {
        Shown::Cells { seen, .. } => Some(seen),
        Shown::Said { .. } => None,
    });
    all.collect()
}

fn rewrite(from: &Path, to: &Path, change: fn(&mut Came)) {
    let reader = TraceReader::open(from).unwrap();
    let head = reader.config().to_owned();
    let mut came: Came = reader.map(|event| shown(event.unwrap())).collect();
    change(&mut came);
    let clock = Arc::new(SystemClock::new());
    let writer = TraceWriter::create(to, &head, clock, TraceOptions::default()).unwrap();
    came.iter().for_each(|(from, shown)| writer.comes(*from, shown).unwrap());
    writer.finish().unwrap();
}

fn shown(event: Event) -> (u8, Shown) {
    let Event::Sent(sent) = event else { panic!("{event:?} is no message") };
    let shown = match sent.request {
        Request::BlobPut { name, bytes, fingerprint, .. } => {
            Shown::Said { name, bytes, fingerprint }
        }
        Request::WriteChunks { mut writes } => {
            let (chunk, seen) = writes.remove(0);
            Shown::Cells { chunk, seen }
        }
        other => panic!("{other:?} is no message"),
    };
    (sent.cloud, shown)
}

/// A volume of epochs shows its store what a store of keys does.
#[test]
fn what_a_volume_of_epochs_asks_is_audited() {
    let folder = tempfile::tempdir().unwrap();
    let traces = ["made", "first", "second"].map(|name| folder.path().join(name));
    let made = ["--record", traces[0].to_str().unwrap()];
    let volume = Volume::of("1MiB", &[&RING[..], &made].concat());
    for trace in &traces[1..] {
        let mut server = volume.serve_with(&["--record", trace.to_str().unwrap()]);
        work(&volume, 200);
        assert!(server.terminate().success());
    }
    let (code, told) = audit(&traces);
    assert!([PASSED, TOO_FEW].contains(&code) && !told.contains(MIDST), "{code:?}: {told}");
    // The canary: what begins in the midst cannot be known.
    let (code, told) = audit(&traces[1..]);
    assert!(code == TOO_FEW && told.contains(MIDST), "{code:?}: {told}");
}

#[test]
fn a_trace_that_nobody_could_follow_is_refused_with_the_reason() {
    for (shape, word) in [(&[][..], "how long the proxy works"), (&PARTITION, "the proxy works")] {
        let volume = Volume::of("8MiB", shape);
        let trace = volume.path("trace");
        let serve = |flags: &[&str]| Server::try_volume(&volume.data(), &volume.socket(), flags);
        let told = serve(&["--record", trace.to_str().unwrap()]).err().unwrap();
        assert!(told.contains(word) && !trace.exists(), "{told}");
    }
}
