//! Is what clients observed serializable? A checker of list-append histories.
//!
//! Clients append values that are unique a key and read whole lists, so a list that was read tells
//! the order of all writes before it (the idea of Elle). The check:
//!
//! 1. Decide which transactions count: the committed ones, and those of unknown outcome of which a
//!    counted transaction saw an effect. An unknown one that nobody saw is left out altogether.
//! 2. Replay each transaction against itself: its own appends and deletes must be visible to it.
//! 3. Infer the version order of every key from the longest list read; every other list read must
//!    be a prefix of it. Report what needs no graph: aborted reads (G1a), intermediate reads (G1b),
//!    duplicates, values nobody wrote, incompatible orders, lost appends.
//! 4. Build the graph of dependencies (ww, wr, rw, rw through a predicate; real time when asked),
//!    find its strongly connected components, and name a shortest cycle in each by Adya's class:
//!    G0, G1c, G-single, G2-item, G2.
//!
//! **Deletes and phantoms.** Key members come into being and go, so "absent" alone does not say on
//! which side of a key's life a read fell. The encoding makes it say so: a key has one life
//! (created by its first append, deleted at most once, never appended to afterwards), and who
//! deletes it inserts a *grave* next to it in the same transaction and the same range. A reader
//! that finds neither has read the version before the first append ([`Seen::NotYet`]); one that
//! finds the grave has read the last version ([`Seen::Gone`]). Each is one more version of the key,
//! at either end of its order, so phantoms become ordinary anti-dependencies: a scan reads *some*
//! version of every key of its range, the ones it did not return included. A reader that cannot
//! tell which absence it met records [`Seen::Missing`], from which nothing is concluded: the check
//! never reports what a serial execution could have shown.

pub mod bank;
mod component;
mod cycle;
mod dependency;
mod graph;
mod order;
pub mod register;
mod report;
mod within;

pub use report::{Anomaly, Class, Report};

use fogbank_env::Nanos;

/// A value appended to a list; unique among all appends to its key.
pub type Value = u64;

/// A key: a member of a range that scans cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The range (table, hash) that the key belongs to.
    pub range: u32,
    /// The key within the range; scans are ordered by it.
    pub member: u32,
}

/// Which version of a key a transaction saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Absent, and its grave absent too: not created yet.
    NotYet,
    /// Present with these values.
    List(Vec<Value>),
    /// Present; its values were not read.
    Alive,
    /// Deleted: the grave is there.
    Gone,
    /// Absent, and the reader did not look for the grave. Nothing follows from it.
    Missing,
}

/// One operation that took place, in program order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Appended `value`; the first append to a key creates it.
    Append {
        /// The key appended to.
        key: Key,
        /// The value, never appended to this key by anyone else.
        value: Value,
    },
    /// Deleted a key that was present, and dug its grave.
    Delete {
        /// The key deleted.
        key: Key,
    },
    /// Read one key.
    Read {
        /// The key read.
        key: Key,
        /// The version seen.
        seen: Seen,
    },
    /// Read which keys a range holds from `from` to `to`, both inclusive.
    Scan {
        /// The range.
        range: u32,
        /// The first member covered.
        from: u32,
        /// The last member covered: where a limit cut the scan, the last one returned.
        to: u32,
        /// What was returned, ascending; a member not in it was seen as [`Seen::NotYet`].
        found: Vec<(u32, Seen)>,
    },
}

/// How a transaction ended, as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged as committed.
    Committed,
    /// Known to have had no effect.
    Aborted,
    /// The client never heard: it may have committed.
    Unknown,
}

/// One transaction as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Which client ran it.
    pub client: u32,
    /// When its first operation was sent.
    pub started: Nanos,
    /// When its outcome was heard.
    pub ended: Nanos,
    /// How it ended.
    pub outcome: Outcome,
    /// What it did and saw.
    pub ops: Vec<Op>,
}

/// What all clients observed; a transaction is named by its place in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions in any order.
    pub transactions: Vec<Transaction>,
}

/// Which promise a history is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Some serial order explains every observation.
    Serializable,
    /// The same, and that order has each transaction after those that ended before it started.
    /// With epochs this says that what was answered in one epoch is seen in all later ones.
    Strict,
}

impl History {
    /// Checks the history against `promise`.
    pub fn check(&self, promise: Promise) -> Report {
        let mut report = Report::new(self);
        let writers = order::Writers::index(self, &mut report);
        let counted = writers.counted(self);
        let views = within::views(self, &counted, &mut report);
        let orders = order::infer(self, &writers, &counted, &views, promise, &mut report);
        let graph = dependency::graph(self, &orders, &views, &counted, promise);
        cycle::find(self, &graph, &mut report);
        report
    }
}
