//! Two clients of a site that meet in a bucket, where nobody is between them.

use std::path::PathBuf;
use std::process::Command;

use crate::bucket;
use crate::client::{BLOCK, Client};
use crate::recorded::{PASSED, TOO_FEW, audit};
use crate::said;
use crate::server::Server;

/// Blocks that each client writes at once.
const AT_ONCE: u64 = 32;

struct Office {
    folder: tempfile::TempDir,
    environment: Vec<(&'static str, String)>,
    traces: Vec<PathBuf>,
}

impl Office {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a command says that ends well.
    fn done(&self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fogbank"));
        command.arg("site").args(words).envs(self.environment.clone());
        let told = command.current_dir(self.folder.path()).output().unwrap();
        assert!(told.status.success(), "{words:?}: {}", said(&told));
        said(&told)
    }

    fn serve(&mut self, name: &str) -> (Server, Client) {
        let trace = self.at(&format!("life-{}", self.traces.len()));
        let (socket, flags) = (self.at(&format!("{name}-socket")), trace.display().to_string());
        let flags = ["--record", &flags];
        let served = Server::try_site_by(&self.environment, &self.at(name), &socket, &flags);
        self.traces.push(trace);
        let served = served.unwrap_or_else(|said| panic!("{name} did not start: {said}"));
        (served, Client::connect(&socket).unwrap())
    }
}

fn content(round: u64, block: u64) -> Vec<u8> {
    vec![(1 + round * 41 + block) as u8; BLOCK]
}

fn write(client: &mut Client, first: u64, round: u64) {
    for block in first..first + AT_ONCE {
        client.write(block, block, &content(round, block)).unwrap();
    }
    for _ in 0..AT_ONCE {
        client.reply().unwrap();
    }
}

#[test]
fn clients_meet_in_a_bucket() {
    let bucket = bucket::Server::versitygw();
    let mut office = Office {
        folder: tempfile::tempdir().unwrap(),
        environment: bucket.variables(bucket.port()),
        traces: Vec::new(),
    };
    let url = bucket.url("office");
    office.done(&["create", "--data", "one", "--size", "1MiB", "--store", &url]);
    let told = office.done(&["status", "--data", "one"]);
    let id = told.lines().find_map(|line| line.strip_prefix("site ")).unwrap();
    let key = ["--key", "one/proxy/key", "--id", id];
    office.done(&[&["join", "--data", "two", "--store", &url], &key[..]].concat());
    let (mut one_served, mut one) = office.serve("one");
    let (two_served, mut two) = office.serve("two");
    // An epoch has 256 queries, so tables are built, by either.
    for round in 0..6 {
        std::thread::scope(|scope| {
            scope.spawn(|| write(&mut one, 0, round));
            scope.spawn(|| write(&mut two, AT_ONCE, round));
        });
    }
    // What one of them has left when it is killed the other takes over.
    two_served.kill();
    write(&mut one, 2 * AT_ONCE, 6);
    let (mut two_served, mut two) = office.serve("two");
    for (first, round) in [(0, 5), (AT_ONCE, 5), (2 * AT_ONCE, 6)] {
        for block in first..first + AT_ONCE {
            assert_eq!(two.read(block, 1).unwrap(), content(round, block), "{block}");
        }
    }
    drop((one, two));
    for served in [&mut one_served, &mut two_served] {
        assert!(served.terminate().success());
    }
    let told = office.done(&["status", "--data", "one"]);
    let (code, words) = audit(&office.traces);
    println!("{told}\n{words}");
    assert!([PASSED, TOO_FEW].contains(&code), "{code:?}: {words}");
}
