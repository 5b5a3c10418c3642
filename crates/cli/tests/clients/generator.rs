//! Commands from a seed: what a connection sends, and how the replies are to be compared.
//!
//! Every connection has keys of its own, so the replies do not depend on how connections
//! interleave. A few keys of each type are hit again and again, now and then by commands of
//! another type, with wrong options, or with an argument too many or too few. Times to live are
//! long and far apart, so that no reply depends on the speed of a server; those meant to pass
//! are left alone and waited for.

use std::collections::VecDeque;
use std::time::Duration;

use fogbank_env::{Purpose, Randomness, Stream};
use rand_core::Rng;

use crate::compare::Mode;
use crate::resp::{Command, words};
use crate::templates as all;

/// What a connection does next.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends a command; the replies compare by the mode.
    Send(Command, Mode),
    /// Runs a cursor to its end and compares all that it returned. The cursor is the argument at
    /// `cursor`; `pairs` says that elements come in twos.
    Iterate { command: Command, cursor: usize, pairs: bool },
    /// Lets time pass, so that what expires within it is gone on both servers.
    Wait(Duration),
}

/// Keys of each type that a connection works on.
const KEYS: u64 = 6;

/// Every so many plans some keys are set to expire soon, and later looked for.
const EXPIRY_ROUND: u64 = 2_000;

/// Apart by more than a run takes, so that the order of two deadlines is certain.
const TTL_STEP_S: u64 = 10_000;

/// The commands of one connection.
pub struct Generator {
    random: Stream,
    connection: usize,
    queue: VecDeque<Step>,
    plans: u64,
    ttls: u64,
    fleeting: Vec<String>,
}

impl Generator {
    /// The commands of the connection numbered `connection` of a run with `seed`.
    pub fn new(seed: u64, connection: usize) -> Self {
        let random = Randomness::repeatable(seed).split(connection as u64);
        let random = random.stream(Purpose::Workload);
        let (queue, fleeting) = (VecDeque::new(), Vec::new());
        Self { random, connection, queue, plans: 0, ttls: 0, fleeting }
    }

    /// What comes next; never ends.
    pub fn next(&mut self) -> Step {
        loop {
            if let Some(step) = self.queue.pop_front() {
                return step;
            }
            self.plans += 1;
            match self.plans % EXPIRY_ROUND {
                400 => self.let_some_expire(),
                800 => self.look_for_expired(),
                _ => self.plan(),
            }
        }
    }

    fn plan(&mut self) {
        match self.below(100) {
            0..3 => self.transaction(),
            3 => self.iterate(),
            4 => self.send_line(all::MISPLACED),
            5..9 => {
                let command = self.any();
                let command = self.spoil(command);
                self.send(command);
            }
            _ => {
                let command = self.any();
                self.send(command);
            }
        }
    }

    /// One command of any kind that is allowed inside a transaction too.
    fn any(&mut self) -> Command {
        let family = match self.below(100) {
            0..30 => all::STRINGS,
            30..55 => all::HASHES,
            55..82 => all::SORTED_SETS,
            82..98 => all::KEY_SPACE,
            _ => all::CONNECTION,
        };
        let template = self.one_of(family);
        let name = template.split(' ').next().unwrap_or_default();
        if all::NOT_OFFERED.contains(&name) { self.any() } else { self.fill(template) }
    }

    fn send(&mut self, command: Command) {
        let mode = mode_of(&command);
        self.queue.push_back(Step::Send(command, mode));
    }

    fn send_line(&mut self, family: &[&str]) {
        let template = self.one_of(family);
        let command = self.fill(template);
        self.send(command);
    }

    /// MULTI to EXEC, with keys watched, touched meanwhile, and mistakes within.
    fn transaction(&mut self) {
        for _ in 0..self.below(3) {
            self.send_line(&["WATCH {$k}", "WATCH {$k}", "UNWATCH"]);
        }
        for _ in 0..self.below(3) {
            let command = self.any();
            self.send(command);
        }
        self.send(words("MULTI"));
        for _ in 0..self.below(6) {
            let command = self.any();
            let spoilt = self.below(25) == 0;
            let command = if spoilt { self.spoil(command) } else { command };
            self.send(command);
        }
        if self.below(12) == 0 {
            self.send_line(&["MULTI", "WATCH $k"]);
        }
        self.send_line(&["EXEC", "EXEC", "EXEC", "EXEC", "DISCARD"]);
    }

    fn iterate(&mut self) {
        let (template, cursor, pairs) = self.one_of(all::CURSORS);
        let command = self.fill(template);
        self.queue.push_back(Step::Iterate { command, cursor, pairs });
    }

    /// Sets some keys of their own to live for a second or two.
    fn let_some_expire(&mut self) {
        // Out of sight of `KEYS` and `SCAN`, which would show how far each server has got.
        let prefix = format!("fleeting:{}-{}", self.connection, self.plans);
        self.fleeting = (0..6).map(|n| format!("{prefix}-{n}")).collect();
        let shapes = [
            "SET @ 1 EX 1",
            "SET @ 1 PX 1500",
            "HSET @ a 1|EXPIRE @ 1",
            "ZADD @ 1 a|PEXPIRE @ 1200",
            "SET @ 1|GETEX @ EX 2",
            // As one: commands in a row may come to one of the servers when the key has gone.
            "MULTI|SETEX @ 1 x|RENAME @ @2|RENAME @2 @|EXEC",
        ];
        for (key, shape) in self.fleeting.clone().iter().zip(shapes) {
            for line in shape.replace('@', key).split('|') {
                self.send(words(line));
            }
        }
    }

    /// Waits until they have expired and asks for them in many ways.
    fn look_for_expired(&mut self) {
        self.queue.push_back(Step::Wait(Duration::from_millis(3_500)));
        for key in std::mem::take(&mut self.fleeting) {
            for line in ["GET @", "TYPE @", "TTL @", "EXISTS @", "HLEN @", "ZCARD @", "SETNX @ 2"] {
                self.send(words(&line.replace('@', &key)));
            }
            self.send(words(&format!("DEL {key}")));
        }
    }

    /// Leaves out the last argument, repeats it, puts nonsense in its place unless it is a key
    /// (which would no longer be this connection's own), or adds some.
    fn spoil(&mut self, mut command: Command) -> Command {
        let last = command.len() - 1;
        match self.below(4) {
            0 if last > 0 => drop(command.pop()),
            1 => command.push(command[last].clone()),
            2 if last > 1 && !command[last].contains(&b':') => {
                let nonsense = ["", "abc", "1.5", "-1", "99999999999999999999", "(", "nan", " 1"];
                command[last] = self.one_of(&nonsense).as_bytes().to_vec();
            }
            _ => command.extend([self.own("x").into_bytes(), self.own("y").into_bytes()]),
        }
        command
    }

    /// A command from its template.
    fn fill(&mut self, template: &str) -> Command {
        let mut command = Vec::new();
        for word in template.split(' ') {
            self.expand(word, &mut command);
        }
        command
    }

    fn expand(&mut self, word: &str, into: &mut Command) {
        let inner = |open, close| word.strip_prefix(open).and_then(|w: &str| w.strip_suffix(close));
        if let Some(choices) = inner('[', ']') {
            let choices: Vec<&str> = choices.split('|').collect();
            let choice = self.one_of(&choices);
            choice.split(',').filter(|w| !w.is_empty()).for_each(|w| self.expand(w, into));
        } else if let Some(repeated) = inner('{', '}') {
            for _ in 0..=self.below(4) {
                repeated.split(',').for_each(|w| self.expand(w, into));
            }
        } else {
            into.push(self.word(word));
        }
    }

    fn word(&mut self, word: &str) -> Vec<u8> {
        let text = match word {
            "$s" => self.key('s'),
            "$h" => self.key('h'),
            "$z" => self.key('z'),
            "$x" => self.key('x'),
            "$w" => self.own("w"),
            "$k" => {
                let kind = self.one_of(&['s', 'h', 'z', 'x', 'n']);
                self.key(kind)
            }
            "$g" => {
                let pattern =
                    self.one_of(&["*", "s*", "?1", "[hz]*", "h[^0-2]", "nothing", "z\\1"]);
                self.own(pattern)
            }
            "$f" if self.below(20) == 0 => String::new(),
            "$f" => format!("f{}", self.below(12)),
            "$m" => format!("m{}", self.below(15)),
            "$v" => self.value(),
            "$i" => self.integer(),
            "$d" => self.float(),
            "$n" => (self.below(16) as i64 - 6).to_string(),
            "$b" => self.score_bound(),
            "$l" => self.lex_bound(),
            "$t" => self.ttl_s().to_string(),
            "$p" => (self.ttl_s() * 1_000).to_string(),
            "$at" => (4_000_000_000 + self.ttl_s()).to_string(),
            "$pat" => ((4_000_000_000 + self.ttl_s()) * 1_000).to_string(),
            other => other.to_owned(),
        };
        text.into_bytes()
    }

    /// A name that no other connection uses.
    fn own(&self, name: &str) -> String {
        format!("c{}:{name}", self.connection)
    }

    /// A key that mostly holds the type `kind` (`s`, `h`, `z` or `x`), sometimes another or
    /// nothing. Commands on `x` keep to it and no other strays there, so that all in such a set
    /// have one score.
    fn key(&mut self, kind: char) -> String {
        let kind = match (self.below(100), kind) {
            (_, 'x') => 'x',
            (0..3, _) => 's',
            (3..6, _) => 'h',
            (6..9, _) => 'z',
            (9..11, _) => 'n',
            _ => kind,
        };
        let number = self.below(KEYS);
        self.own(&format!("{kind}{number}"))
    }

    /// No two the same.
    fn ttl_s(&mut self) -> u64 {
        self.ttls += 1;
        TTL_STEP_S * (1 + self.ttls * 7_919 % 100_003)
    }

    /// Text of many lengths; often a number, so that counters meet values they can use.
    fn value(&mut self) -> String {
        match self.below(12) {
            0..3 => self.integer(),
            3 => self.float(),
            4 => String::new(),
            5 => {
                let length = self.one_of(&[31, 255, 256, 257, 511, 700]);
                self.one_of(&["a", "b", "\r\n", "\0"]).repeat(length)
            }
            _ => format!("v{}", self.below(1_000)),
        }
    }

    fn integer(&mut self) -> String {
        const ODD: [&str; 9] = [
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "007",
            "-0",
            "+1",
            "abc",
            "",
            "1.0",
        ];
        match self.below(9) {
            0 => self.one_of(&ODD).to_owned(),
            _ => (self.below(200) as i64 - 100).to_string(),
        }
    }

    fn float(&mut self) -> String {
        const ODD: [&str; 20] = [
            "0.1",
            "1.5",
            "-2.25",
            "3",
            "1e3",
            "1E-5",
            "-0",
            "0.30000000000000004",
            "1e17",
            "123456789.123",
            "inf",
            "-inf",
            "+5",
            ".5",
            "5.",
            "nan",
            "abc",
            "1e400",
            "+inf",
            "100000000000000000000",
        ];
        match self.below(4) {
            0 => self.one_of(&ODD).to_owned(),
            1 => (self.below(40) as i64 - 20).to_string(),
            _ => format!("{}.{}", self.below(50) as i64 - 25, self.below(100)),
        }
    }

    fn score_bound(&mut self) -> String {
        match self.below(10) {
            0 => self.one_of(&["-inf", "+inf", "inf", "(inf", "x", "", "("]).to_owned(),
            1 => "-inf".into(),
            2 => "+inf".into(),
            3..5 => format!("({}", self.below(40) as i64 - 20),
            _ => (self.below(50) as i64 - 25).to_string(),
        }
    }

    fn lex_bound(&mut self) -> String {
        match self.below(10) {
            0 => self.one_of(&["m1", "", "(", "[", "*"]).to_owned(),
            1 | 2 => "-".into(),
            3 | 4 => "+".into(),
            5 | 6 => format!("(m{}", self.below(15)),
            _ => format!("[m{}", self.below(15)),
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }
}

/// How the replies of a command compare, by its name.
fn mode_of(command: &Command) -> Mode {
    match String::from_utf8_lossy(&command[0]).to_ascii_uppercase().as_str() {
        "HGETALL" => Mode::UnorderedPairs,
        "HKEYS" | "HVALS" | "KEYS" => Mode::Unordered,
        "HRANDFIELD" | "ZRANDMEMBER" => Mode::Shape,
        "TTL" | "EXPIRETIME" => Mode::Near(8),
        "PTTL" | "PEXPIRETIME" => Mode::Near(8_000),
        _ => Mode::Exact,
    }
}
