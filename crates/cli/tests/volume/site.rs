//! Three clients of one site on a real storage server, killed one after the other under load, and
//! one that builds for them.
//!
//! 1. Each client serves the disk on a socket of its own, and writes to blocks of its own.
//! 2. At a random moment one of them is killed; the others write on for a while. Every fourth time
//!    what is there, as one of those sees it, is held against what all were told.
//! 3. Whoever was killed begins again. The first client never is. Who builds is killed every third
//!    time, in place of a client.
//!
//! What the server and the first client have in memory does not grow: at the end it is at most
//! twice what it was at half time. Every life of a client is recorded, and the auditor finds
//! nothing in all of them together. `FOGBANK_KILL_SECONDS` says how long (20), `FOGBANK_KILL_SEED`
//! draws the moments.

use std::net::Shutdown;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use fogbank_env::{Purpose, Randomness};
use rand_core::Rng;

use crate::client::Client;
use crate::kill::Ledger;
use crate::recorded::{LEAK, PASSED, TOO_FEW, audit};
use crate::server::{Server, free_port};
use crate::{fogbank, number, said};

const CLIENTS: usize = 3;
/// Who builds is the client of the number after theirs.
const BUILDER: usize = CLIENTS;
/// Kills of one of all to the next one of who builds.
const BUILDER_EVERY: u64 = 3;
/// Kills from one look at all blocks to the next: each is a query.
const CHECKED_EVERY: u64 = 4;
/// What memory may differ by in any case, in MB.
const SPARE_MB: u64 = 64;

struct Office {
    folder: tempfile::TempDir,
    served: Vec<Option<Server>>,
    /// What the server saw of each life of a client.
    traces: Vec<PathBuf>,
}

impl Office {
    /// A site on this server, and its clients, which serve it.
    fn new(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut office = Self { folder, served: Vec::new(), traces: Vec::new() };
        let of = |client| office.data(client).display().to_string();
        let first = of(0);
        let done = |arguments: &[&str]| {
            let told = fogbank(&[&["site"], arguments].concat());
            assert!(told.status.success(), "{}", said(&told));
            said(&told)
        };
        done(&["create", "--data", &first, "--size", "8MiB", "--store", url]);
        let told = done(&["status", "--data", &first]);
        let id = told.lines().find_map(|line| line.strip_prefix("site ")).unwrap();
        let key = office.data(0).join("proxy/key").display().to_string();
        for client in 1..=BUILDER {
            let at = ["--data", &of(client), "--store", url];
            done(&[&["join", "--key", &key, "--id", id][..], &at].concat());
        }
        for client in 0..=BUILDER {
            office.served.push(None);
            office.serve(client);
        }
        office
    }

    fn data(&self, client: usize) -> PathBuf {
        self.folder.path().join(format!("client-{client}"))
    }

    fn socket(&self, client: usize) -> PathBuf {
        self.folder.path().join(format!("socket-{client}"))
    }

    fn serve(&mut self, client: usize) {
        let trace = self.folder.path().join(format!("life-{}.trace", self.traces.len()));
        let flags = ["--record", &trace.display().to_string()];
        let started = match client {
            BUILDER => Server::try_builder(&self.data(client), &flags),
            _ => Server::try_site(&self.data(client), &self.socket(client), &flags),
        };
        self.traces.push(trace);
        self.served[client] =
            Some(started.unwrap_or_else(|said| panic!("{client} did not start: {said}")));
    }

    fn kill(&mut self, client: usize) {
        self.served[client].take().unwrap().kill();
    }

    fn connect(&self, client: usize) -> Client {
        Client::connect(&self.socket(client)).unwrap()
    }

    /// What the first client has in memory, in MB.
    fn memory_mb(&self) -> u64 {
        self.served[0].as_ref().unwrap().memory_mb()
    }
}

#[test]
fn what_any_client_wrote_is_there_whichever_is_killed() {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = number("FOGBANK_KILL_SEED").unwrap_or(now);
    let seconds = number("FOGBANK_KILL_SECONDS").unwrap_or(20);
    println!("FOGBANK_KILL_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let (cloud_data, port) = (folder.path().join("cloud"), free_port());
    let url = Server::cloud_tenant(&cloud_data, port);
    let cloud = Server::cloud(&cloud_data, port);
    let mut office = Office::new(&url);
    let mut random = Randomness::repeatable(seed).stream(Purpose::Workload);
    let (ledger, began) = (Ledger::default(), Instant::now());
    let (mut life, mut settled) = (0, None);
    while began.elapsed().as_secs() < seconds || life < CHECKED_EVERY {
        life += 1;
        let victim = match life % BUILDER_EVERY {
            0 => BUILDER,
            _ => 1 + (random.next_u64() % (CLIENTS as u64 - 1)) as usize,
        };
        let moments = [(); 2].map(|()| Duration::from_millis(random.next_u64() % 1_000));
        let drawn = Randomness::repeatable(random.next_u64());
        std::thread::scope(|scope| {
            let mut ends = Vec::new();
            for writer in 0..CLIENTS {
                let (ledger, client) = (&ledger, office.connect(writer));
                ends.push(client.end());
                let mut random = drawn.split(writer as u64).stream(Purpose::Workload);
                scope.spawn(move || ledger.write_on(client, writer as u64, life, &mut random));
            }
            std::thread::sleep(moments[0]);
            office.kill(victim);
            std::thread::sleep(moments[1]);
            ends.iter().for_each(|end| _ = end.shutdown(Shutdown::Both));
        });
        if life % CHECKED_EVERY == 0 {
            let seen = ledger.check(&mut office.connect((victim + 1) % CLIENTS));
            seen.unwrap_or_else(|what| panic!("life {life} of seed {seed}: {what}"));
        }
        office.serve(victim);
        let memory = [cloud.memory_mb(), office.memory_mb()];
        if life % 16 == 0 {
            println!("{} s: {life} kills, {memory:?} MB", began.elapsed().as_secs());
        }
        if settled.is_none() && 2 * began.elapsed().as_secs() >= seconds {
            settled = Some(memory);
        }
    }
    let memory = [cloud.memory_mb(), office.memory_mb()];
    println!("{life} kills, {} writes acknowledged; {memory:?} MB", ledger.acknowledged());
    assert!(ledger.acknowledged() > 0);
    for (now, then) in memory.iter().zip(settled.unwrap()) {
        assert!(*now <= 2 * then + SPARE_MB, "{memory:?} MB, and {settled:?} at half time");
    }
    for client in office.served.iter_mut().flatten() {
        assert!(client.terminate().success(), "{}", client.last_words());
    }
    let (code, told) = audit(&office.traces);
    println!("{told}");
    assert!([PASSED, TOO_FEW].contains(&code), "{code:?}: {told}");
    // The canary: a client that sends once more what another has sent, but for the last of it.
    let twin = office.folder.path().join("twin.trace");
    let mut sent = std::fs::read(&office.traces[0]).unwrap();
    sent.truncate(sent.len() / 2);
    std::fs::write(&twin, sent).unwrap();
    office.traces.push(twin);
    let (code, told) = audit(&office.traces);
    assert_eq!(code, LEAK, "{told}");
}
