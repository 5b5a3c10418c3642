//! A small transactional store for proving the checker: right by construction, and wrong in one
//! known way on request. Clients take their steps in a random interleaving from one seed.

use std::collections::BTreeMap;

use fogbank_env::{Purpose, Randomness, Stream};
use rand_core::Rng;

use crate::history::{History, Key, Op, Outcome, Seen, Transaction, Value};

/// What the store promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Reads see the newest committed state; a commit checks that all it read, ranges included, is
    /// unchanged. Strictly serializable.
    Serializable,
    /// The same, but transactions that only read may see the state of some while ago.
    /// Serializable, not strict.
    StaleReaders,
    /// Reads see the state at the start; the first of two writers of a key wins. Admits write skew.
    Snapshot,
    /// Serializable but for ranges, which a commit does not check again. Admits phantoms.
    NoPredicates,
    /// Reads see the newest committed state and nothing is checked. Admits lost updates.
    ReadCommitted,
}

/// How much is run, and over how few keys.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Clients at once.
    pub clients: usize,
    /// Transactions in all.
    pub transactions: usize,
    /// Ranges; each holds `members` keys.
    pub ranges: u32,
    /// Keys of a range.
    pub members: u32,
    /// Operations of a transaction, at most.
    pub ops: usize,
}

/// Runs `load` and returns what the clients saw.
pub fn run(isolation: Isolation, load: Load, seed: u64) -> History {
    let random = Randomness::repeatable(seed).stream(Purpose::Workload);
    let mut model = Model { isolation, load, random, ..Model::new() };
    model.run();
    History { transactions: model.done }
}

/// A version of a key: when it was committed, and what it is.
type Version = (u64, Seen);

struct Model {
    isolation: Isolation,
    load: Load,
    random: Stream,
    now: u64,
    next_value: Value,
    versions: BTreeMap<Key, Vec<Version>>,
    done: Vec<Transaction>,
}

struct Running {
    record: Transaction,
    steps: usize,
    /// The state that it reads, if not the newest.
    as_of: Option<u64>,
    read_only: bool,
    reads: Vec<(Key, u64)>,
    scanned: Vec<(u32, u32, u32, u64)>,
    writes: BTreeMap<Key, Seen>,
}

impl Model {
    fn new() -> Self {
        Self {
            isolation: Isolation::Serializable,
            load: Load { clients: 1, transactions: 0, ranges: 1, members: 1, ops: 1 },
            random: Randomness::repeatable(0).stream(Purpose::Workload),
            now: 0,
            next_value: 0,
            versions: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound.max(1)
    }

    fn run(&mut self) {
        let mut running: Vec<Option<Running>> = (0..self.load.clients).map(|_| None).collect();
        while self.done.len() < self.load.transactions {
            let client = self.below(running.len() as u64) as usize;
            self.now += 1;
            match running[client].take() {
                None => running[client] = Some(self.begin(client as u32)),
                Some(transaction) if transaction.steps == 0 => self.end(transaction),
                Some(mut transaction) => {
                    self.step(&mut transaction);
                    running[client] = Some(transaction);
                }
            }
        }
    }

    fn begin(&mut self, client: u32) -> Running {
        let read_only = self.below(4) == 0;
        let back = self.below(100);
        let as_of = match self.isolation {
            Isolation::Snapshot => Some(self.now),
            Isolation::StaleReaders if read_only => Some(self.now.saturating_sub(back)),
            _ => None,
        };
        let outcome = Outcome::Aborted;
        let (started, ops) = (self.now, Vec::new());
        let record = Transaction { client, started, ended: started, outcome, ops };
        let steps = 1 + self.below(self.load.ops as u64) as usize;
        let (reads, scanned, writes) = (Vec::new(), Vec::new(), BTreeMap::new());
        Running { record, steps, as_of, read_only, reads, scanned, writes }
    }

    fn step(&mut self, running: &mut Running) {
        running.steps -= 1;
        let key = self.any_key();
        match self.below(10) {
            0 | 1 => self.scan(running, key),
            2 if !running.read_only => self.delete(running, key),
            3..=6 if !running.read_only => self.append(running, key),
            _ => drop(self.read(running, key)),
        }
    }

    fn any_key(&mut self) -> Key {
        let (ranges, members) = (self.load.ranges.into(), self.load.members.into());
        let generation = self.now / 2_000 * u64::from(self.load.members);
        let range = self.below(ranges) as u32;
        Key { range, member: (generation + self.below(members)) as u32 }
    }

    /// The version of `key` that `running` sees, with its stamp; its own writes first.
    fn look(&self, running: &Running, key: Key) -> (u64, Seen) {
        if let Some(seen) = running.writes.get(&key) {
            return (u64::MAX, seen.clone());
        }
        let as_of = running.as_of.unwrap_or(u64::MAX);
        let versions = self.versions.get(&key).map_or(&[][..], |all| all);
        let seen = versions.iter().rev().find(|(stamp, _)| *stamp <= as_of);
        seen.cloned().unwrap_or((0, Seen::NotYet))
    }

    fn read(&mut self, running: &mut Running, key: Key) -> Seen {
        let (stamp, seen) = self.look(running, key);
        if stamp != u64::MAX {
            running.reads.push((key, stamp));
        }
        running.record.ops.push(Op::Read { key, seen: seen.clone() });
        seen
    }

    fn append(&mut self, running: &mut Running, key: Key) {
        let mut list = match self.read(running, key) {
            Seen::List(list) => list,
            Seen::NotYet => Vec::new(),
            _ => return,
        };
        self.next_value += 1;
        list.push(self.next_value);
        running.record.ops.push(Op::Append { key, value: self.next_value });
        running.writes.insert(key, Seen::List(list));
    }

    fn delete(&mut self, running: &mut Running, key: Key) {
        if let Seen::List(_) = self.read(running, key) {
            running.record.ops.push(Op::Delete { key });
            running.writes.insert(key, Seen::Gone);
        }
    }

    fn scan(&mut self, running: &mut Running, at: Key) {
        let (from, to) = (at.member, at.member + self.load.members / 2);
        let bound = |member| Key { range: at.range, member };
        let mut found = Vec::new();
        let known = self.versions.range(bound(from)..=bound(to)).map(|(key, _)| *key);
        let own = running.writes.range(bound(from)..=bound(to)).map(|(key, _)| *key);
        let keys: std::collections::BTreeSet<Key> = known.chain(own).collect();
        for key in keys {
            let (stamp, seen) = self.look(running, key);
            if stamp != u64::MAX && seen != Seen::NotYet {
                running.reads.push((key, stamp));
            }
            if seen != Seen::NotYet {
                found.push((key.member, seen));
            }
        }
        running.scanned.push((at.range, from, to, self.now));
        running.record.ops.push(Op::Scan { range: at.range, from, to, found });
    }

    fn end(&mut self, mut running: Running) {
        running.record.ended = self.now;
        if self.may_commit(&running) && self.below(20) > 0 {
            running.record.outcome = Outcome::Committed;
            for (key, seen) in running.writes {
                self.versions.entry(key).or_default().push((self.now, seen));
            }
        }
        if self.below(50) == 0 {
            running.record.outcome = Outcome::Unknown;
        }
        self.done.push(running.record);
    }

    fn may_commit(&self, running: &Running) -> bool {
        let unchanged = |key: &Key, stamp: u64| {
            self.versions.get(key).and_then(|all| all.last()).map_or(0, |last| last.0) <= stamp
        };
        let reads = || running.reads.iter().all(|(key, stamp)| unchanged(key, *stamp));
        match self.isolation {
            Isolation::ReadCommitted => true,
            Isolation::StaleReaders if running.read_only => true,
            Isolation::Snapshot => {
                running.writes.keys().all(|key| unchanged(key, running.record.started))
            }
            Isolation::NoPredicates => reads(),
            Isolation::Serializable | Isolation::StaleReaders => {
                reads() && running.scanned.iter().all(|scan| self.no_newcomer(*scan))
            }
        }
    }

    fn no_newcomer(&self, (range, from, to, at): (u32, u32, u32, u64)) -> bool {
        let bound = |member| Key { range, member };
        let mut inside = self.versions.range(bound(from)..=bound(to));
        inside.all(|(_, versions)| versions.first().is_none_or(|first| first.0 <= at))
    }
}
