//! One seeded stream of commands to two servers; every reply must be the same.
//!
//! `FOGBANK_DIFF_COMMANDS`, `FOGBANK_DIFF_CONNECTIONS`, `FOGBANK_DIFF_DEPTH` and
//! `FOGBANK_DIFF_SEED` change the size and the stream; a failure prints how to run it again.

use std::collections::BTreeSet;
use std::io;
use std::thread;

use crate::compare::{Mode, same, same_all};
use crate::generator::{Generator, Step};
use crate::middle::Middle;
use crate::resp::{Command, Connection, Frame, show, words};
use crate::server::Server;
use crate::templates;

/// Commands before a difference that are shown, of those that touched one of its keys.
const SHOWN: usize = 25;

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub commands: usize,
    pub connections: usize,
    pub depth: usize,
}

impl Plan {
    /// The full run, unless the environment says otherwise.
    pub fn from_environment(commands: usize) -> Self {
        let or = |name, default| {
            let set = std::env::var(name).ok();
            set.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
        };
        Self {
            seed: or("FOGBANK_DIFF_SEED", 1) as u64,
            commands: or("FOGBANK_DIFF_COMMANDS", commands),
            connections: or("FOGBANK_DIFF_CONNECTIONS", 16),
            depth: or("FOGBANK_DIFF_DEPTH", 64),
        }
    }

    fn again(&self) -> String {
        format!(
            "FOGBANK_DIFF_SEED={} FOGBANK_DIFF_COMMANDS={} FOGBANK_DIFF_CONNECTIONS={} \
             FOGBANK_DIFF_DEPTH={} cargo test --test clients differential",
            self.seed, self.commands, self.connections, self.depth
        )
    }
}

/// Runs `plan` against both; the first difference of each connection, in words.
pub fn differences(plan: Plan, ours: u16, theirs: u16) -> Vec<String> {
    differences_among(plan, &[(ours, theirs)])
}

/// Runs `plan` with its connections spread over pairs of servers.
fn differences_among(plan: Plan, pairs: &[(u16, u16)]) -> Vec<String> {
    let work = |connection| {
        let (ours, theirs) = pairs[connection * pairs.len() / plan.connections];
        move || match Pair::open(plan, connection, ours, theirs).and_then(Pair::run) {
            Ok(()) => None,
            Err(Stop::Differ(words)) => Some(words),
            Err(Stop::Broken(error)) => Some(format!("connection {connection}: {error}")),
        }
    };
    let threads: Vec<_> = (0..plan.connections).map(|n| thread::spawn(work(n))).collect();
    threads.into_iter().filter_map(|t| t.join().expect("a connection's thread")).collect()
}

enum Stop {
    Differ(String),
    Broken(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Broken(error)
    }
}

/// One connection to each server, fed the same commands.
struct Pair {
    number: usize,
    plan: Plan,
    generator: Generator,
    ours: Connection,
    theirs: Connection,
    /// All commands so far, for the story of a difference.
    sent: Vec<Command>,
    /// How the replies of the transaction being queued compare.
    queued: Vec<Mode>,
}

impl Pair {
    fn open(plan: Plan, number: usize, ours: u16, theirs: u16) -> Result<Self, Stop> {
        let (mut ours, mut theirs) = (Connection::open(ours)?, Connection::open(theirs)?);
        if number % 2 == 1 {
            for connection in [&mut ours, &mut theirs] {
                connection.line("HELLO 3")?;
            }
        }
        let generator = Generator::new(plan.seed, number);
        Ok(Self { number, plan, generator, ours, theirs, sent: vec![], queued: vec![] })
    }

    fn run(mut self) -> Result<(), Stop> {
        let share = self.plan.commands.div_ceil(self.plan.connections);
        let mut batch = Vec::new();
        while self.sent.len() + batch.len() < share {
            match self.generator.next() {
                Step::Send(command, mode) => batch.push((command, mode)),
                Step::Iterate { command, cursor, pairs } => {
                    self.exchange(&mut batch)?;
                    self.iterate(command, cursor, pairs)?;
                }
                Step::Wait(time) => {
                    self.exchange(&mut batch)?;
                    thread::sleep(time);
                }
            }
            if batch.len() >= self.plan.depth {
                self.exchange(&mut batch)?;
            }
        }
        self.exchange(&mut batch)
    }

    /// Sends a batch to both servers and compares the replies one by one.
    fn exchange(&mut self, batch: &mut Vec<(Command, Mode)>) -> Result<(), Stop> {
        self.ours.send(batch.iter().map(|(command, _)| command))?;
        self.theirs.send(batch.iter().map(|(command, _)| command))?;
        for (command, mode) in batch.drain(..) {
            let theirs = self.theirs.receive()?;
            let ours = self.ours.receive();
            self.sent.push(command);
            let ours = match ours {
                Ok(ours) => ours,
                Err(error) => Frame::Error(format!("({error})")),
            };
            if !self.agree(mode, &ours, &theirs) {
                return Err(self.differ(&format!("{ours:?}"), &format!("{theirs:?}")));
            }
        }
        Ok(())
    }

    fn agree(&mut self, mode: Mode, ours: &Frame, theirs: &Frame) -> bool {
        let is = |name: &str| {
            self.sent.last().is_some_and(|c| c[0].eq_ignore_ascii_case(name.as_bytes()))
        };
        if *theirs == Frame::Simple("QUEUED".into()) {
            self.queued.push(mode);
            return ours == theirs;
        }
        if is("EXEC") {
            return same_all(&std::mem::take(&mut self.queued), ours, theirs);
        }
        if is("DISCARD") || is("MULTI") && *theirs == Frame::Simple("OK".into()) {
            self.queued.clear();
        }
        same(mode, ours, theirs)
    }

    /// A cursor promises every element that was there throughout, and perhaps some twice.
    fn iterate(&mut self, command: Command, cursor: usize, pairs: bool) -> Result<(), Stop> {
        self.sent.push(command.clone());
        let ours = collect(&mut self.ours, command.clone(), cursor, pairs)?;
        let theirs = collect(&mut self.theirs, command, cursor, pairs)?;
        match ours == theirs {
            true => Ok(()),
            false => Err(self.differ(&format!("{ours:?}"), &format!("{theirs:?}"))),
        }
    }

    fn differ(&self, ours: &str, theirs: &str) -> Stop {
        let Some((last, before)) = self.sent.split_last() else {
            return Stop::Differ("nothing was sent".into());
        };
        let touching = |command: &&Command| concerns(command, last);
        let story: Vec<_> = before.iter().rev().filter(touching).take(SHOWN).collect();
        let story: Vec<_> = story.iter().rev().map(|command| show(command)).collect();
        Stop::Differ(format!(
            "connection {}, command {}: {}\n  ours:   {ours}\n  theirs: {theirs}\n  \
             before it, on the same keys:\n    {}\n  again: {}",
            self.number,
            self.sent.len(),
            show(last),
            story.join("\n    "),
            self.plan.again(),
        ))
    }
}

/// Whether a command shares a key with `last` or steers the connection.
fn concerns(command: &Command, last: &Command) -> bool {
    let steers = [&b"MULTI"[..], b"EXEC", b"DISCARD", b"UNWATCH"];
    let is_key = |word: &&Vec<u8>| word.contains(&b':');
    let last_is_exec = steers[1].eq_ignore_ascii_case(&last[0]);
    last_is_exec
        || steers.iter().any(|name| name.eq_ignore_ascii_case(&command[0]))
        || command.iter().filter(is_key).any(|word| last.contains(word))
}

/// Runs a cursor to its end. The elements, sorted and without repetitions; or the error.
fn collect(
    connection: &mut Connection,
    mut command: Command,
    cursor: usize,
    pairs: bool,
) -> io::Result<Result<Vec<Vec<Frame>>, Frame>> {
    let mut all = Vec::new();
    for _ in 0..10_000 {
        let reply = connection.call(&command)?;
        let Frame::Array(reply) = reply else { return Ok(Err(reply)) };
        let [Frame::Bulk(next), Frame::Array(elements)] = &reply[..] else {
            return Ok(Err(Frame::Array(reply)));
        };
        all.extend(elements.chunks(if pairs { 2 } else { 1 }).map(<[Frame]>::to_vec));
        if next == b"0" {
            all.sort();
            all.dedup();
            return Ok(Ok(all));
        }
        command[cursor].clone_from(next);
    }
    Ok(Err(Frame::Error("(the cursor never came to its end)".into())))
}

#[test]
fn two_real_servers_agree() {
    let (a, b) = (Server::redis(), Server::redis());
    let found = differences(Plan::from_environment(30_000), a.port, b.port);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The stream is worth something only if most commands get somewhere and every kind of refusal
/// comes up too.
#[test]
fn the_stream_reaches_everything() {
    let server = Server::redis();
    let mut connection = server.connect();
    let mut generator = Generator::new(1, 0);
    let (mut errors, mut all, mut refusals) = (0, 0, BTreeSet::new());
    let mut answered = BTreeSet::new();
    while all < 12_000 {
        let Step::Send(command, _) = generator.next() else { continue };
        let reply = connection.call(&command).expect("a reply");
        let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
        all += 1;
        match &reply {
            Frame::Error(text) => {
                errors += 1;
                refusals.insert(text.clone());
            }
            Frame::Simple(text) if text == "QUEUED" => {}
            Frame::Null | Frame::NullBulk | Frame::NullArray | Frame::Integer(0) => {}
            _ => drop(answered.insert(name)),
        }
    }
    assert!(errors * 3 < all, "{errors} of {all} are errors");
    for family in [templates::STRINGS, templates::HASHES, templates::SORTED_SETS] {
        let names = family.iter().map(|line| line.split(' ').next().expect("a name"));
        for name in names.filter(|name| !templates::NOT_OFFERED.contains(name)) {
            assert!(answered.contains(name), "{name} never got anywhere");
        }
    }
    let said = refusals.into_iter().collect::<Vec<_>>().join("\n");
    for part in [
        "WRONGTYPE",
        "wrong number of arguments",
        "not an integer",
        "not a valid float",
        "overflow",
        "syntax error",
        "EXECABORT",
        "EXEC without MULTI",
        "nested",
        "invalid expire",
        "no such key",
        "not valid string range",
        "unknown command",
        "would produce",
    ] {
        assert!(said.contains(part), "no {part:?} among\n{said}");
    }
}

/// The test is worth something only if it sees one reply changed among thousands.
#[test]
fn an_altered_reply_is_noticed() {
    let (a, b) = (Server::redis(), Server::redis());
    let plan = Plan { seed: 2, commands: 4_000, connections: 4, depth: 50 };
    for alteration in [Middle::number_one_more(700), Middle::bulk_letter(700)] {
        let middle = alteration.start(a.port);
        let found = differences(plan, middle.port, b.port);
        assert!(middle.altered(), "no reply was there to alter");
        assert_eq!(found.len(), 1, "{}", found.join("\n"));
        assert!(found[0].contains("again: FOGBANK_DIFF_SEED=2"), "{}", found[0]);
        let mut connection = a.connect();
        connection.call(&words("FLUSHALL")).expect("a reply");
        b.connect().call(&words("FLUSHALL")).expect("a reply");
    }
}

/// Commands that look at all keys conflict with those of every other connection, and each conflict
/// waits for an epoch. So the long stream goes to four servers, with four connections each.
#[test]
fn answers_are_those_of_a_real_server() {
    let servers: [_; 4] = std::array::from_fn(|_| (Server::subject(), Server::redis()));
    let ports = servers.each_ref().map(|(ours, theirs)| (ours.port, theirs.port));
    let found = differences_among(Plan::from_environment(100_000), &ports);
    assert!(found.is_empty(), "{} connections differ\n{}", found.len(), found.join("\n"));
}

/// A tenth of it with all connections on one server; all of it with `FOGBANK_SIM_SCALE=10`.
#[test]
fn so_they_are_with_sixteen_connections_in_each_others_way() {
    let scale = std::env::var("FOGBANK_SIM_SCALE").ok().and_then(|scale| scale.parse().ok());
    let (ours, theirs) = (Server::subject(), Server::redis());
    let plan = Plan::from_environment(10_000 * scale.unwrap_or(1));
    let found = differences(plan, ours.port, theirs.port);
    assert!(found.is_empty(), "{} connections differ\n{}", found.len(), found.join("\n"));
}
