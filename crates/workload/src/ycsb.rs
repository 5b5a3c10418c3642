//! YCSB: operations on single records, in the six mixes A to F (Cooper et al., SoCC 2010).
//!
//! 1. Records have numbers from 0 without gaps. Each is 1,024 bytes: its number, how often it was
//!    written since, and ten fields of 100 bytes.
//! 2. A transaction is one operation, or several in one procedure: then all that it reads one by
//!    one is read in one round.
//! 3. An update replaces one field and a read-modify-write all ten; to keep the others, and the
//!    count, both read the record.
//! 4. Whoever inserts takes the next number when drawn. `latest` counts back from the number that
//!    is next then, so that a record may be asked for before it is there: that is no fault.
//! 5. Records lie in the order of their numbers, those inserted at the end. Zipfian ranks are
//!    hashed onto the numbers there were at first, so that those often asked for lie anywhere.
//!
//! Invariants, held after each run, in which all that was drawn has been performed: every number
//! below the next has its record and no other has; records were written as often as updates have
//! committed.

mod operations;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_txn::Key;
use rand::RngExt;

use self::operations::{FIELD, FIELDS, GROUP, Operation, Operations, Row, SCAN_MAX, key};
use crate::chance;
use crate::database::{Database, Error, Procedure, Result};
use crate::workload::{Ledger, Records, Workload, read_all};

/// How unequal records are: the usual exponent.
const SKEW: f64 = 0.99;
/// Fields are the same in every run: they matter to nobody.
const SEED: u64 = 0x5943_5342;

const A: [(&str, u32); 2] = [("read", 50), ("update", 50)];
const B: [(&str, u32); 2] = [("read", 95), ("update", 5)];
const C: [(&str, u32); 1] = [("read", 100)];
const D: [(&str, u32); 2] = [("read", 95), ("insert", 5)];
const E: [(&str, u32); 2] = [("scan", 95), ("insert", 5)];
const F: [(&str, u32); 2] = [("read", 50), ("read-modify-write", 50)];
/// Of transactions of several operations, which are of more than one kind.
const SEVERAL: [(&str, u32); 1] = [("operations", 100)];

/// One of the six mixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letter {
    /// Half reads, half updates.
    A,
    /// Reads, and an update in twenty.
    B,
    /// Reads alone.
    C,
    /// Reads of what is new, and an insert in twenty.
    D,
    /// Scans of 1 to 100 records, and an insert in twenty.
    E,
    /// Half reads, half reads followed by a write of the whole record.
    F,
}

impl Letter {
    fn of(letter: char) -> Option<Self> {
        Some(match letter.to_ascii_uppercase() {
            'A' => Self::A,
            'B' => Self::B,
            'C' => Self::C,
            'D' => Self::D,
            'E' => Self::E,
            'F' => Self::F,
            _ => return None,
        })
    }

    fn mix(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::A => &A,
            Self::B => &B,
            Self::C => &C,
            Self::D => &D,
            Self::E => &E,
            Self::F => &F,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::A => "YCSB A",
            Self::B => "YCSB B",
            Self::C => "YCSB C",
            Self::D => "YCSB D",
            Self::E => "YCSB E",
            Self::F => "YCSB F",
        }
    }
}

/// Which records are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// A few very often, wherever they are: zipfian with exponent 0.99, ranks hashed onto numbers.
    Zipfian,
    /// The same, and the newest most often.
    Latest,
    /// All as often, of those there were at first.
    Uniform,
}

/// YCSB with one of its mixes.
#[derive(Debug)]
pub struct Ycsb {
    /// The mix.
    pub letter: Letter,
    /// Records there are at first; at least one.
    pub records: u32,
    /// Which records are asked for.
    pub distribution: Distribution,
    /// Operations in a transaction; at least one.
    pub operations_per_transaction: u32,
    /// Inserts that were drawn.
    inserted: AtomicU32,
}

impl Ycsb {
    /// The mix of that letter, as it is usual: `latest` for D, zipfian for the others, and an
    /// operation a transaction. None of another letter.
    pub fn new(letter: char, records: u32) -> Option<Self> {
        let (letter, records) = (Letter::of(letter)?, records.max(1));
        let distribution = match letter {
            Letter::D => Distribution::Latest,
            _ => Distribution::Zipfian,
        };
        let inserted = AtomicU32::new(0);
        Some(Self { letter, records, distribution, operations_per_transaction: 1, inserted })
    }

    fn first(&self) -> u32 {
        self.records.max(1)
    }

    /// The number that is next, once all that was drawn has been performed.
    fn next(&self) -> u32 {
        self.first().saturating_add(self.inserted.load(Ordering::Relaxed))
    }

    /// The number of a record to ask for.
    fn number(&self, stream: &mut Stream) -> u32 {
        let records = self.first();
        match self.distribution {
            Distribution::Uniform => stream.random_range(0..records),
            Distribution::Zipfian => {
                chance::scattered(chance::rank(records, SKEW, stream), records)
            }
            Distribution::Latest => {
                let next = self.next();
                next - 1 - chance::rank(next, SKEW, stream)
            }
        }
    }

    fn operation(&self, name: &str, stream: &mut Stream) -> Operation {
        match name {
            "update" => {
                let field = stream.random_range(0..FIELDS);
                Operation::Write(self.number(stream), field, text(FIELD, stream))
            }
            "read-modify-write" => {
                Operation::Write(self.number(stream), 0, text(FIELDS * FIELD, stream))
            }
            "insert" => {
                let before = self.inserted.fetch_add(1, Ordering::Relaxed);
                let number = self.first().saturating_add(before);
                Operation::Insert(number, text(FIELDS * FIELD, stream))
            }
            "scan" => Operation::Scan(self.number(stream), stream.random_range(1..=SCAN_MAX)),
            _ => Operation::Read(self.number(stream)),
        }
    }
}

fn text(len: usize, stream: &mut Stream) -> Bytes {
    chance::text(len as u32, len as u32, stream).into()
}

#[async_trait]
impl Workload for Ycsb {
    fn name(&self) -> &str {
        self.letter.name()
    }

    fn kinds(&self) -> Vec<(&str, u32)> {
        let several = self.operations_per_transaction > 1;
        if several { SEVERAL.to_vec() } else { self.letter.mix().to_vec() }
    }

    fn scanned_groups(&self) -> Vec<&[u8]> {
        if self.letter == Letter::E { vec![GROUP] } else { Vec::new() }
    }

    fn records(&self) -> Records<'_> {
        let mut stream = Randomness::repeatable(SEED).stream(Purpose::Workload);
        Box::new((0..self.first()).map(move |number| {
            let row = Row::new(number, text(FIELDS * FIELD, &mut stream));
            (key(number), row.record())
        }))
    }

    fn draw(&self, stream: &mut Stream) -> Box<dyn Procedure> {
        let mix = self.letter.mix();
        let several = self.operations_per_transaction.max(1);
        let mut kind = 0;
        let mut operations = Vec::with_capacity(several as usize);
        for _ in 0..several {
            kind = chance::kind(mix, stream);
            operations.push(self.operation(mix[kind].0, stream));
        }
        let kind = if several > 1 { 0 } else { kind };
        Box::new(Operations { kind, records: self.first(), operations })
    }

    fn fresh(&self) -> Arc<dyn Workload> {
        let Self { letter, records, distribution, operations_per_transaction, .. } = *self;
        let inserted = AtomicU32::new(0);
        Arc::new(Self { letter, records, distribution, operations_per_transaction, inserted })
    }

    async fn check(&self, database: &dyn Database, ledger: &Ledger) -> Result<()> {
        let next = self.next();
        let mut writes = 0_i64;
        let mut numbers = 0..next;
        let count = |_: &Key, found| {
            let expected = numbers.next().unwrap_or(next);
            let found: Option<Bytes> = found;
            let missing = || Error::broken(format!("numbers: there is no record {expected}"));
            writes += Row::of(expected, found.ok_or_else(missing)?)?.writes;
            Ok(())
        };
        read_all(database, (0..next).map(key), count).await?;
        if writes != ledger.sum {
            let sum = ledger.sum;
            return Err(Error::broken(format!(
                "writes: records say {writes}, and {sum} were made"
            )));
        }
        match database.snapshot(&[key(next)]).await?.first() {
            Some(None) => Ok(()),
            _ => Err(Error::broken(format!("numbers: {next} was not inserted and is there"))),
        }
    }
}
