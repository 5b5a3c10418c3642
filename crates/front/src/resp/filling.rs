//! Keys of Redis as the records of a store that is filled before it serves: what the commands would
//! have written into one that was never flushed.

use bytes::Bytes;
use fogbank_txn::Key;

use super::keyspace::HAS_DEADLINE;
use super::layout::{Role, collection_group, order_member, shared_group};

/// What a key holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// One value.
    String(Vec<u8>),
    /// Fields with values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// Members with scores.
    SortedSet(Vec<(Vec<u8>, f64)>),
}

/// A record: where it is, its value, its attribute.
pub type Filled = (Key, Bytes, u64);

/// The records of the key `name`, which expires at `deadline_ms` (Unix time) if at all.
pub fn records_of(name: &[u8], content: Content, deadline_ms: Option<u64>) -> Vec<Filled> {
    let group = |role| collection_group(0, role, name, 0);
    let shared = |role| Key::new(&shared_group(0, role), name);
    let mut records = Vec::new();
    match content {
        Content::String(value) => {
            let attr = if deadline_ms.is_some() { HAS_DEADLINE } else { 0 };
            records.push((shared(Role::Strings), value.into(), attr));
        }
        Content::Hash(fields) => {
            let fields = fields.into_iter();
            let record = |(field, value): (Vec<u8>, Vec<u8>)| {
                (Key::new(&group(Role::Fields), &field), value.into(), 0)
            };
            records.extend(fields.map(record));
        }
        Content::SortedSet(members) => {
            for (member, score) in members {
                let score = score + 0.0; // minus zero sorts, and prints, as zero
                let ordered = Key::new(&group(Role::Order), &order_member(score, &member));
                records.push((ordered, Bytes::new(), 0));
                let member = Key::new(&group(Role::Members), &member);
                records.push((member, Bytes::new(), score.to_bits()));
            }
        }
    }
    if let Some(at) = deadline_ms {
        records.push((shared(Role::Deadlines), Bytes::new(), at));
    }
    records
}
