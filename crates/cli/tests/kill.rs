//! `kill -9` at random moments, each followed by a start on the same data.
//!
//! Several clients move money between accounts by WATCH, MULTI and EXEC; every transfer sets a mark
//! of its own in the same MULTI. After every start: the total is what it was, every acknowledged
//! transfer has its mark, and the balances are those of the marks there are. One kill in three hits
//! the process before it says that it listens.
//!
//! `FOGBANK_KILLS` says how many (6), `FOGBANK_KILL_SEED` draws the moments, `FOGBANK_KILL_CLIENTS`
//! how many clients there are (8; none: an idle store), `FOGBANK_KILL_LIFE_MS` how long a life may
//! be (1000). With `FOGBANK_KILL_TRACES=DIR` every process writes a trace there: together, in the
//! order of their names, one run for `fogbank audit`.

#![allow(clippy::disallowed_methods)] // real processes in real time
#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[allow(dead_code)] // `server` needs its type only
#[path = "clients/resp.rs"]
mod resp;
#[path = "clients/server.rs"]
mod server;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fogbank_env::{Mutex, Purpose, Randomness, Stream};
use rand_core::Rng;
use redis::{Connection, RedisResult, Value};
use server::Server;

/// Small, and as fast as the machine allows.
const SHAPE: &str = "--capacity 20000 --value-size 32 --read-batches 2 --batch 64 \
    --write-batch 64 --interval-ms 5";
const ACCOUNTS: u64 = 16;
const OPENING_BALANCE: i64 = 1_000;
/// Marks asked for at once.
const MARKS: usize = 100;

/// What clients were told, over all lives of the server.
#[derive(Default)]
struct Ledger {
    begun: AtomicU64,
    acknowledged: Mutex<BTreeSet<u64>>,
}

impl Ledger {
    /// How many transfers were acknowledged.
    fn answered(&self) -> u64 {
        self.acknowledged.lock().len() as u64
    }

    /// One transfer. An error: nobody knows whether it took place.
    fn transfer(&self, client: &mut Connection, random: &mut Stream) -> RedisResult<()> {
        let (from, to) = (random.next_u64() % ACCOUNTS, random.next_u64() % (ACCOUNTS - 1));
        let to = if to < from { to } else { to + 1 };
        let amount = (random.next_u64() % 9) as i64 + 1;
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let names = [account(from), account(to)];
        let mut read = redis::pipe();
        read.cmd("WATCH").arg(&names[..]).ignore().cmd("MGET").arg(&names[..]);
        let (found,): (Vec<Option<i64>>,) = read.query(client)?;
        let balance = |at: usize| found[at].unwrap_or(OPENING_BALANCE);
        let mut transfer = redis::pipe();
        transfer.atomic();
        transfer.set(&names[0], balance(0) - amount).set(&names[1], balance(1) + amount);
        transfer.set(mark(number), format!("{from} {to} {amount}"));
        let done: Option<Vec<Value>> = transfer.query(client)?;
        if done.is_some() {
            self.acknowledged.lock().insert(number);
        }
        Ok(())
    }

    /// Transfers until the server is gone.
    fn transfer_on(&self, port: u16, mut random: Stream) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        let Ok(mut client) = client.get_connection() else { return };
        while self.transfer(&mut client, &mut random).is_ok() {}
    }

    /// Holds what the server has against what clients were told; returns how many transfers took
    /// place.
    fn check(&self, server: &Server) -> Result<u64, String> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", server.port)).unwrap();
        let mut client = client.get_connection().map_err(|e| e.to_string())?;
        let acknowledged = self.acknowledged.lock();
        let (mut took_place, mut expected) = (0, vec![OPENING_BALANCE; ACCOUNTS as usize]);
        let numbers: Vec<u64> = (0..self.begun.load(Ordering::Relaxed)).collect();
        for some in numbers.chunks(MARKS) {
            let names: Vec<String> = some.iter().copied().map(mark).collect();
            for (number, mark) in some.iter().zip(many::<String>(&mut client, &names)?) {
                let Some(mark) = mark else {
                    if acknowledged.contains(number) {
                        return Err(format!("transfer {number} was acknowledged and is lost"));
                    }
                    continue;
                };
                let mark: Vec<i64> = mark.split(' ').map(|n| n.parse().unwrap()).collect();
                expected[mark[0] as usize] -= mark[2];
                expected[mark[1] as usize] += mark[2];
                took_place += 1;
            }
        }
        let names: Vec<String> = (0..ACCOUNTS).map(account).collect();
        let found = many::<i64>(&mut client, &names)?.into_iter();
        let found: Vec<i64> = found.map(|b| b.unwrap_or(OPENING_BALANCE)).collect();
        if found.iter().sum::<i64>() != ACCOUNTS as i64 * OPENING_BALANCE {
            return Err(format!("the total is not what it was: {found:?}"));
        }
        if found != expected {
            return Err(format!("the accounts have {found:?}, the marks say {expected:?}"));
        }
        Ok(took_place)
    }
}

fn many<T: redis::FromRedisValue>(
    client: &mut Connection,
    names: &[String],
) -> Result<Vec<Option<T>>, String> {
    redis::cmd("MGET").arg(names).query(client).map_err(|e| format!("cannot read: {e}"))
}

fn account(number: u64) -> String {
    format!("account:{number}")
}

fn mark(number: u64) -> String {
    format!("transfer:{number}")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// A store that is killed again and again.
struct Victim<'a> {
    data: &'a Path,
    traces: Option<PathBuf>,
    /// Processes so far.
    lives: u64,
    ledger: Ledger,
    random: Stream,
}

impl<'a> Victim<'a> {
    fn new(data: &'a Path, seed: u64, traces: Option<PathBuf>) -> Self {
        let random = Randomness::repeatable(seed).stream(Purpose::Workload);
        Self { data, traces, lives: 0, ledger: Ledger::default(), random }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// The options of the next process.
    fn options(&mut self) -> Vec<String> {
        self.lives += 1;
        let trace = self.traces.as_ref().map(|traces| traces.join(format!("{:04}", self.lives)));
        trace.map_or(Vec::new(), |trace| vec!["--record".into(), trace.display().to_string()])
    }

    fn start(&mut self) -> Server {
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let life = self.lives;
        Server::try_fogbank_of(SHAPE, self.data, &options)
            .unwrap_or_else(|said| panic!("life {life}: it did not start: {said}"))
    }

    /// A life that ends before anybody can have been served.
    fn die_early(&mut self) {
        let (options, after) = (self.options(), Duration::from_millis(self.below(150)));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Server::fogbank_killed(SHAPE, self.data, &options, after);
    }

    /// A life with clients that ends while they work.
    fn die_at_work(&mut self, clients: u64) -> Result<(), String> {
        let server = self.start();
        self.ledger.check(&server)?;
        let life = Randomness::repeatable(self.below(u64::MAX));
        let life_ms = number("FOGBANK_KILL_LIFE_MS").unwrap_or(1_000);
        let after = Duration::from_millis(self.below(life_ms));
        std::thread::scope(|scope| {
            for client in 0..clients {
                let random = life.split(client).stream(Purpose::Workload);
                let (ledger, port) = (&self.ledger, server.port);
                scope.spawn(move || ledger.transfer_on(port, random));
            }
            std::thread::sleep(after);
            drop(server);
        });
        Ok(())
    }

    /// The last two lives, which end in order.
    fn end(&mut self) -> Result<u64, String> {
        let mut took_place = 0;
        for _ in 0..2 {
            let mut server = self.start();
            took_place = self.ledger.check(&server)?;
            assert!(server.terminate().success());
        }
        Ok(took_place)
    }
}

#[test]
fn nothing_acknowledged_is_lost_however_often_the_process_is_killed() {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = number("FOGBANK_KILL_SEED").unwrap_or(now);
    let (kills, clients) = (number("FOGBANK_KILLS").unwrap_or(6), number("FOGBANK_KILL_CLIENTS"));
    println!("FOGBANK_KILL_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let traces = std::env::var_os("FOGBANK_KILL_TRACES").map(PathBuf::from);
    traces.iter().for_each(|traces| std::fs::create_dir_all(traces).unwrap());
    let mut victim = Victim::new(folder.path(), seed, traces);
    let clients = clients.unwrap_or(8);
    let mut kill = 0;
    // On a busy machine every life may be too short for an answer: there is nothing to lose yet.
    while kill < kills || (kill < 10 * kills && clients > 0 && victim.ledger.answered() == 0) {
        if victim.below(3) == 0 {
            victim.die_early();
        } else if let Err(what) = victim.die_at_work(clients) {
            panic!("after kill {kill} of seed {seed}: {what}");
        }
        kill += 1;
    }
    let took_place = victim.end().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    let acknowledged = victim.ledger.answered();
    println!("{kill} kills, {acknowledged} transfers acknowledged, {took_place} took place");
    assert!(took_place >= acknowledged && (acknowledged > 0 || clients == 0));
}

/// The canaries: a transfer that never was is missed, and money that came from nowhere is seen.
#[test]
fn what_never_was_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Victim::new(folder.path(), 1, None);
    victim.die_at_work(2).unwrap();
    let server = victim.start();
    victim.ledger.check(&server).unwrap();
    let never = victim.ledger.begun.fetch_add(1, Ordering::Relaxed);
    victim.ledger.acknowledged.lock().insert(never);
    let said = victim.ledger.check(&server).unwrap_err();
    assert_eq!(said, format!("transfer {never} was acknowledged and is lost"));
    victim.ledger.acknowledged.lock().remove(&never);
    let client = redis::Client::open(format!("redis://127.0.0.1:{}/", server.port)).unwrap();
    let mut client = client.get_connection().unwrap();
    redis::cmd("SET").arg(mark(never)).arg("0 1 5").exec(&mut client).unwrap();
    let said = victim.ledger.check(&server).unwrap_err();
    assert!(said.starts_with("the accounts have"), "{said}");
    redis::cmd("SET").arg(account(0)).arg(5).exec(&mut client).unwrap();
    let said = victim.ledger.check(&server).unwrap_err();
    assert!(said.starts_with("the total"), "{said}");
}

/// Key and register are copied while nobody uses the store, and a process is started on each: one
/// of them goes on, and the other says why it does not.
#[test]
fn of_two_copies_of_the_trusted_side_one_serves() {
    let (folder, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut victim = Victim::new(folder.path(), 2, None);
    victim.die_at_work(4).unwrap();
    copy_trusted_side(folder.path(), copied.path());
    let cloud = format!("file://{}", folder.path().join("cloud").display());
    let mut first = victim.start();
    let second = Server::try_fogbank_of(SHAPE, copied.path(), &["--store", &cloud]);
    match second {
        Err(said) => {
            assert!(said.contains("does not verify") || said.contains("another"), "{said}");
            victim.ledger.check(&first).unwrap();
            assert!(first.terminate().success());
        }
        Ok(second) => {
            let status = first.wait();
            assert!(!status.success(), "both serve one store");
            victim.ledger.check(&second).unwrap();
        }
    }
}

fn copy_trusted_side(from: &Path, to: &Path) {
    let (from, to) = (from.join("proxy"), to.join("proxy"));
    std::fs::create_dir(&to).unwrap();
    for file in ["key", "register"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

/// Many epochs for what fills it, and as many until a flush has given all of it back.
const NARROW: &str = "--capacity 2000 --value-size 32 --read-batches 2 --batch 64 \
    --write-batch 16 --interval-ms 5";
/// Records that one command writes over many epochs.
const AT_ONCE: usize = 500;

fn connected(server: &Server) -> Connection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}/", server.port)).unwrap();
    client.get_connection().unwrap()
}

/// `MSET` of records of which all names begin so.
fn set_many(client: &mut Connection, begin: &str, count: usize) -> RedisResult<()> {
    let mut command = redis::cmd("MSET");
    (0..count).for_each(|n| _ = command.arg(format!("{begin}:{n}")).arg("v"));
    command.exec(client)
}

/// Fills a store and returns how many keys there are then.
fn fill(client: &mut Connection, round: u64) -> usize {
    for size in [100, 10, 1] {
        for number in 0.. {
            match set_many(client, &format!("{round}:{size}:{number}"), size) {
                Ok(()) => {}
                Err(error) if error.code() == Some("OOM") => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    redis::cmd("DBSIZE").query(client).unwrap()
}

fn count(client: &mut Connection, pattern: &str) -> usize {
    redis::cmd("KEYS").arg(pattern).query::<Vec<String>>(client).unwrap().len()
}

/// A full store is flushed, and one command writes much while that is being given back. Killed
/// anywhere in between, each is there whole or not at all, and the store takes as much as before.
#[test]
fn what_a_flush_leaves_and_what_follows_it_survive_a_kill_whole_or_not_at_all() {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = number("FOGBANK_KILL_SEED").unwrap_or(now);
    println!("FOGBANK_KILL_SEED={seed}");
    let mut random = Randomness::repeatable(seed).stream(Purpose::Workload);
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let started = Server::try_fogbank_of(NARROW, folder.path(), &[]);
        started.unwrap_or_else(|said| panic!("seed {seed}: it did not start: {said}"))
    };
    let (mut full, mut flushed, mut written) = (None, 0, 0);
    redis::cmd("FLUSHALL").exec(&mut connected(&start())).unwrap(); // which takes a record for ever
    // Each takes as long as five of the others.
    for round in 0..number("FOGBANK_KILLS").map_or(3, |kills| kills.div_ceil(5)) {
        let server = start();
        let mut client = connected(&server);
        let keys = fill(&mut client, round);
        assert_eq!(*full.get_or_insert(keys), keys, "seed {seed}: room is lost in round {round}");
        assert!(keys > 1_900, "{keys}");
        let after = Duration::from_millis(random.next_u64() % 3_000);
        let (is_flushed, is_written) = std::thread::scope(|scope| {
            let told = scope.spawn(|| {
                let is_flushed = redis::cmd("FLUSHALL").exec(&mut client).is_ok();
                (is_flushed, is_flushed && set_many(&mut client, "new", AT_ONCE).is_ok())
            });
            std::thread::sleep(after);
            drop(server);
            told.join().unwrap()
        });
        let server = start();
        let mut client = connected(&server);
        let (old, new) = (count(&mut client, "[0-9]*"), count(&mut client, "new:*"));
        let told = format!("seed {seed}: {old} old and {new} new of {keys}");
        match (old, new) {
            (0, 0) => assert!(!is_written, "{told}"),
            (0, AT_ONCE) => {}
            (old, 0) => assert!(old == keys && !is_flushed, "{told}"),
            _ => panic!("{told}"),
        }
        flushed += usize::from(old == 0);
        written += usize::from(new > 0);
        redis::cmd("FLUSHALL").exec(&mut client).unwrap();
    }
    println!("{flushed} flushed, {written} written");
}

/// Records of a command that takes many epochs.
const LARGE: usize = 3_000;
/// Lives that one of the two may take at the most.
const LIVES_MAX: u64 = 60;

/// A command of many epochs counts with the commit that ends the last of them. A kill at a random
/// moment hardly ever meets that one, so these come when the commit record in the cloud's folder
/// has changed, and again until some have come between that commit and its answer.
#[test]
fn what_takes_many_epochs_is_there_whole_or_not_at_all_when_it_is_killed_as_it_commits() {
    let values = |client: &mut Connection, round: u64| set_many(client, &round.to_string(), LARGE);
    killed_at_commits(values, |client, round| {
        let there = count(client, &format!("{round}:*"));
        assert!(there == 0 || there == LARGE, "{there} of {LARGE} in round {round}");
        redis::cmd("FLUSHALL").exec(client).unwrap();
        there == LARGE
    });
}

#[test]
fn so_are_deadlines_of_many_records() {
    let set = |client: &mut Connection, round: u64| {
        let mut deadlines = redis::pipe();
        deadlines.atomic();
        (0..LARGE).for_each(|n| _ = deadlines.cmd("EXPIREAT").arg(n).arg(deadline(round)).ignore());
        match round {
            0 => {
                let mut keys = redis::cmd("MSET");
                (0..LARGE).for_each(|n| _ = keys.arg(n).arg("v"));
                keys.exec(client)?;
                deadlines.exec(client)
            }
            _ => deadlines.exec(client),
        }
    };
    killed_at_commits(set, |client, round| {
        let mut all = redis::pipe();
        (0..LARGE).for_each(|n| _ = all.cmd("EXPIRETIME").arg(n));
        let seen: BTreeSet<i64> = all.query::<Vec<i64>>(client).unwrap().into_iter().collect();
        assert_eq!(seen.len(), 1, "some have one, others another: {seen:?}");
        seen.contains(&deadline(round))
    });
}

fn deadline(round: u64) -> i64 {
    4_000_000_000 + round as i64
}

/// Kills the process that does `command` at one of the last commits that it takes, again and again,
/// until it was once there without an answer, and once not. `is_there` says whether all of it is
/// there afterwards, and panics if part of it is.
fn killed_at_commits(
    command: impl Fn(&mut Connection, u64) -> RedisResult<()> + Sync,
    is_there: impl Fn(&mut Connection, u64) -> bool,
) {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("cloud/blobs/commit");
    let start = || {
        let started = Server::try_fogbank_of(SHAPE, folder.path(), &[]);
        started.unwrap_or_else(|said| panic!("it did not start: {said}"))
    };
    let ask = |server: Server, round: u64, commits_max: u64| {
        let mut client = connected(&server);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| command(&mut client, round).is_ok());
            let commits = commits_until(&record, commits_max, || asked.is_finished());
            drop(server);
            (commits, asked.join().unwrap())
        })
    };
    // How many commits it takes if nobody kills it: of the second, since the first one makes what
    // others find.
    let mut last = 0;
    for round in 0..2 {
        let (commits, answered) = ask(start(), round, u64::MAX);
        assert!(answered && is_there(&mut connected(&start()), round), "round {round}");
        last = commits;
    }
    assert!(last > 5, "{last} commits");
    let (mut unanswered, mut cut_short, mut round, mut step) = (0, 0, 2, 1);
    while unanswered == 0 || cut_short == 0 {
        assert!(round < LIVES_MAX, "{unanswered} unanswered, {cut_short} cut short in {round}");
        let (commits, answered) = ask(start(), round, last);
        let there = is_there(&mut connected(&start()), round);
        assert!(there || !answered, "round {round} was answered and is lost");
        println!("{commits} commits: there {there}, answered {answered}");
        (last, step) = match (there, answered) {
            (true, true) => (commits - 1, 1),
            (true, false) => (last - 1, 1),
            // How many it takes depends on what is given back meanwhile, so it may be far more.
            (false, _) => (last + step, 2 * step),
        };
        unanswered += u64::from(there && !answered);
        cut_short += u64::from(!there);
        round += 1;
    }
    println!("{round} rounds, {unanswered} ended before the answer, {cut_short} before the commit");
}

/// Counts how often the commit record is another one, until that was so often, or it is `over`.
fn commits_until(record: &Path, most: u64, over: impl Fn() -> bool) -> u64 {
    let seen = || std::fs::metadata(record).map(|found| (found.ino(), found.mtime_nsec())).ok();
    let (mut last, mut commits) = (seen(), 0);
    while commits < most && !over() {
        let now = seen();
        commits += u64::from(now != last);
        last = now;
        std::thread::sleep(Duration::from_micros(50)); // the process has the core
    }
    commits
}
