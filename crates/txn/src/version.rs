//! One version of a record within an epoch.

use bytes::Bytes;

/// A timestamp within one epoch; 0 is the committed state the epoch began with.
pub(crate) type Ts = u32;

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// A new value.
    Value(Bytes),
    /// A new attribute over the value below. Its writer has read that the record is there.
    Kept,
    /// A delete.
    Gone,
    /// An amount added to whatever is below, unread.
    Sum(i64),
}

/// A write: body, attribute and the length of the value after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// What was done.
    pub body: Body,
    /// The attribute after it; of no meaning for `Gone` and `Sum`.
    pub attr: u64,
    /// The length of the value after it.
    pub len: u32,
    /// Whether the directory's stage has it: then it counts with the mark of the epoch and takes
    /// nothing more.
    pub is_staged: bool,
}

impl Change {
    /// A new value.
    pub(crate) fn put(value: Bytes, attr: u64) -> Self {
        Self { len: value.len() as u32, attr, body: Body::Value(value), is_staged: false }
    }

    /// A delete.
    pub(crate) fn delete() -> Self {
        Self { body: Body::Gone, attr: 0, len: 0, is_staged: false }
    }

    /// A new attribute over a value of `len` bytes.
    pub(crate) fn attr(attr: u64, len: u32) -> Self {
        Self { body: Body::Kept, attr, len, is_staged: false }
    }

    /// An amount to add.
    pub(crate) fn add(delta: i64) -> Self {
        Self { body: Body::Sum(delta), attr: 0, len: COUNTER_BYTES, is_staged: false }
    }
}

/// Bytes of a counter.
pub(crate) const COUNTER_BYTES: u32 = 8;

/// A write in the chain of its record.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// The writer's timestamp.
    pub ts: Ts,
    /// The largest timestamp that has read this version.
    pub marker: Ts,
    /// Whether the writer can no longer abort.
    pub settled: bool,
    /// What it wrote.
    pub change: Change,
}

impl Version {
    /// A version nobody has read yet.
    pub(crate) fn new(ts: Ts, settled: bool, change: Change) -> Self {
        Self { ts, marker: 0, settled, change }
    }
}
