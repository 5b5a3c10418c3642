//! What a transaction will do, decided before it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_env::{Purpose, Randomness, Stream};
use rand_core::Rng;

use crate::history::Key;

/// How the clients behave.
#[derive(Debug, Clone, Copy)]
pub struct Knobs {
    /// Clients at once.
    pub clients: u32,
    /// Transactions of each.
    pub transactions: u32,
    /// Ranges of keys.
    pub ranges: u32,
    /// Keys of a range that are in use at a time.
    pub members: u32,
    /// After so many transactions of all clients, they move on to fresh keys.
    pub generation: u64,
    /// Operations of a transaction, at most.
    pub ops: u64,
    /// Of a hundred operations: scans.
    pub scans: u64,
    /// Of a hundred operations: deletes.
    pub deletes: u64,
    /// Of a hundred operations: appends. What is left reads.
    pub appends: u64,
    /// Of a hundred transactions: interactive ones. The others are programs.
    pub interactive: u64,
    /// Programs that a client submits before it awaits the first.
    pub pipeline: u64,
    /// Of a thousand transactions: those whose client goes away before it hears the outcome.
    pub vanish: u64,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            clients: 24,
            transactions: 200,
            ranges: 3,
            members: 12,
            generation: 1_500,
            ops: 6,
            scans: 12,
            deletes: 4,
            appends: 45,
            interactive: 40,
            pipeline: 4,
            vanish: 10,
        }
    }
}

/// One operation to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// Reads a key.
    Read(Key),
    /// Reads several keys in one round.
    ReadMany(Vec<Key>),
    /// Appends a fresh value, creating the key if it was not there yet.
    Append(Key),
    /// Deletes a key, if it is there.
    Delete(Key),
    /// Scans a stretch of a range; at most `limit` records.
    Scan {
        /// The range.
        range: u32,
        /// The first member.
        from: u32,
        /// The last member.
        to: u32,
        /// Records returned, at most.
        limit: usize,
        /// From the end.
        reverse: bool,
        /// Reads the lists too, where the scanner is able to.
        lists: bool,
    },
    /// Appends, and takes it back (interactive); programs just read.
    Undo(Key),
}

/// Draws transactions for one client.
pub struct Planner {
    knobs: Knobs,
    random: Stream,
    begun: Arc<AtomicU64>,
}

impl Planner {
    /// A planner for the client numbered `client`; `begun` counts the transactions of all.
    pub fn new(knobs: Knobs, random: &Randomness, client: u32, begun: Arc<AtomicU64>) -> Self {
        let random = random.split(client.into()).stream(Purpose::Workload);
        Self { knobs, random, begun }
    }

    /// The next transaction.
    pub fn transaction(&mut self) -> Vec<Planned> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        (0..=self.below(self.knobs.ops)).map(|_| self.op()).collect()
    }

    fn op(&mut self) -> Planned {
        let Knobs { scans, deletes, appends, .. } = self.knobs;
        match self.below(100) {
            n if n < scans => self.scan(),
            n if n < scans + deletes => Planned::Delete(self.key()),
            n if n < scans + deletes + appends => Planned::Append(self.key()),
            n if n % 16 == 0 => Planned::Undo(self.key()),
            n if n % 4 == 0 => {
                let mut keys: Vec<Key> = (0..=self.below(4)).map(|_| self.key()).collect();
                keys.sort_unstable();
                keys.dedup();
                Planned::ReadMany(keys)
            }
            _ => Planned::Read(self.key()),
        }
    }

    fn scan(&mut self) -> Planned {
        let at = self.key();
        let (from, to) = match self.below(3) {
            0 => (0, u32::MAX),
            1 => (at.member, u32::MAX),
            _ => (at.member, at.member + self.below(u64::from(self.knobs.members)) as u32),
        };
        let limit = if self.below(3) == 0 { 1 + self.below(8) as usize } else { usize::MAX };
        let (reverse, lists) = (self.below(2) == 0, self.below(2) == 0);
        Planned::Scan { range: at.range, from, to, limit, reverse, lists }
    }

    /// A key of the generation in use; low ones are hot.
    fn key(&mut self) -> Key {
        let Knobs { ranges, members, generation, .. } = self.knobs;
        let age = self.begun.load(Ordering::Relaxed) / generation;
        let member = self.below(members.into()).min(self.below(members.into()));
        let range = self.below(ranges.into()) as u32 + age as u32 / 3 * ranges;
        Key { range, member: age as u32 % 3 * members + member as u32 }
    }

    /// Whether something of which `hundred` in a hundred are so is so.
    pub fn percent(&mut self, hundred: u64) -> bool {
        self.below(100) < hundred
    }

    /// The same of a thousand.
    pub fn permille(&mut self, thousand: u64) -> bool {
        self.below(1_000) < thousand
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound.max(1)
    }
}
