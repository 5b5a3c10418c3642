//! The operations of YCSB, and the records that they read and write.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use fogbank_txn::Key;

use crate::database::{Effect, Error, Procedure, Result, Statements};

/// Fields of a record.
pub(super) const FIELDS: usize = 10;
/// Bytes of a field.
pub(super) const FIELD: usize = 100;
/// Bytes before the fields: the number, the count, and some that bring a record to 1,024.
const HEAD: usize = 24;
/// Records that a scan is of, at most.
pub(super) const SCAN_MAX: usize = 100;
/// The group that all records are in.
pub(super) const GROUP: &[u8] = b"y";

/// What is done with one record, or a few.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Read(u32),
    /// The fields from one on are replaced by what is in these bytes.
    Write(u32, usize, Bytes),
    Insert(u32, Bytes),
    /// From a number on, so many records.
    Scan(u32, usize),
}

/// A transaction.
pub(super) struct Operations {
    pub kind: usize,
    /// Those that were there at first.
    pub records: u32,
    pub operations: Vec<Operation>,
}

#[async_trait]
impl Procedure for Operations {
    fn kind(&self) -> usize {
        self.kind
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        for operation in &self.operations {
            if let Operation::Scan(from, limit) = operation {
                self.scan(on, *from, *limit).await?;
            }
        }
        let mut rows = self.read(on).await?;
        let sum = self.change(&mut rows)?;
        for row in rows.values().filter(|row| row.changed) {
            on.put(&key(row.number), row.record()).await?;
        }
        Ok(Effect { done: true, sum })
    }
}

impl Operations {
    /// All that is read one by one, each record once.
    async fn read(&self, on: &dyn Statements) -> Result<BTreeMap<u32, Row>> {
        let numbers = self.operations.iter().filter_map(|operation| match operation {
            Operation::Read(number) | Operation::Write(number, ..) => Some(*number),
            _ => None,
        });
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let keys: Vec<Key> = numbers.iter().copied().map(key).collect();
        let found = on.get_many(&keys).await?;
        let mut rows = BTreeMap::new();
        for (number, record) in numbers.into_iter().zip(found) {
            match record {
                Some(record) => drop(rows.insert(number, Row::of(number, record)?)),
                // Drawn by somebody, who has not inserted it yet.
                None if number >= self.records => (),
                None => return Err(Error::broken(format!("there is no record {number}"))),
            }
        }
        Ok(rows)
    }

    /// What becomes of what was read, and how many writes that were.
    fn change(&self, rows: &mut BTreeMap<u32, Row>) -> Result<i64> {
        let mut writes = 0;
        for operation in &self.operations {
            match operation {
                Operation::Write(number, field, text) => {
                    // One that is not there yet is not updated.
                    let Some(row) = rows.get_mut(number) else { continue };
                    row.replace(field * FIELD, text);
                    writes += 1;
                }
                Operation::Insert(number, text) => {
                    let row = Row::new(*number, text.clone());
                    rows.insert(*number, Row { changed: true, ..row });
                }
                Operation::Read(_) | Operation::Scan(..) => (),
            }
        }
        Ok(writes)
    }

    /// Reads records in their order. Those that were there at first have no gaps.
    async fn scan(&self, on: &dyn Statements, from: u32, limit: usize) -> Result<()> {
        let found = on.scan(&key(from), limit).await?;
        let first = (self.records.saturating_sub(from) as usize).min(limit);
        if found.len() < first || found.len() > limit {
            let found = found.len();
            let what = format!("a scan of {limit} from {from} has come to {found} records");
            return Err(Error::broken(what));
        }
        for (number, (_, record)) in (from..self.records).zip(&found) {
            Row::of(number, record.clone())?;
        }
        Ok(())
    }
}

/// A record.
pub(super) struct Row {
    number: u32,
    /// How often it was written since it was inserted.
    pub writes: i64,
    fields: Bytes,
    /// Whether this transaction has changed it.
    changed: bool,
}

impl Row {
    pub fn new(number: u32, fields: Bytes) -> Self {
        Self { number, writes: 0, fields, changed: false }
    }

    /// As it was read of a record with that number, which it has to carry.
    pub fn of(number: u32, record: Bytes) -> Result<Self> {
        let whole = record.len() == HEAD + FIELDS * FIELD;
        if !whole || record[..8] != u64::from(number).to_le_bytes() {
            return Err(Error::broken(format!("numbers: record {number} does not carry its own")));
        }
        let mut writes = [0; 8];
        writes.copy_from_slice(&record[8..16]);
        let writes = i64::from_le_bytes(writes);
        Ok(Self { number, writes, fields: record.slice(HEAD..), changed: false })
    }

    fn replace(&mut self, at: usize, text: &[u8]) {
        let mut fields = BytesMut::from(&self.fields[..]);
        fields[at..at + text.len()].copy_from_slice(text);
        self.fields = fields.freeze();
        self.writes = self.writes.wrapping_add(1);
        self.changed = true;
    }

    pub fn record(&self) -> Bytes {
        let mut record = BytesMut::with_capacity(HEAD + self.fields.len());
        record.put_u64_le(u64::from(self.number));
        record.put_i64_le(self.writes);
        record.put_bytes(0, HEAD - 16);
        record.put_slice(&self.fields);
        record.freeze()
    }
}

pub(super) fn key(number: u32) -> Key {
    Key::new(GROUP, &number.to_be_bytes())
}
