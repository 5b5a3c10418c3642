//! A dump of Redis (RDB): strings, hashes and sorted sets of database 0, with the times at which they expire.
//!
//! Those are the types that the front end serves. What else there is (lists, sets, streams, values of
//! modules, hashes with fields that expire one by one, other databases) is an error that names the first
//! such key and its type, or is left out and counted. A key that has expired already is taken in, and is as absent as it was.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;

use fogbank_front::resp::Content;
use rdb::constants::encoding_type;
use rdb::{Filter, RdbDecoder, RdbValue, Type};

use super::source::Record;
use crate::error::{Error, Result};

/// Calls `take` with every key that can be stored; how many others there were, if they may be left out.
/// `refused` makes an error of what is wrong with the file.
pub(super) fn each(
    file: impl Read,
    skip_unsupported: bool,
    refused: impl Fn(&str) -> Error,
    mut take: impl FnMut(Record) -> Result<()>,
) -> Result<u64> {
    let unseen = Rc::new(Unseen::default());
    let unread =
        |e: rdb::RdbError| refused(&format!("this is no dump of Redis that is known: {e}"));
    let decoder = RdbDecoder::new(file, Watching(unseen.clone())).map_err(unread)?;
    let (mut number, mut database, mut skipped, mut whole) = (0, 0, 0, false);
    for value in decoder {
        let found = of_value(value.map_err(unread)?, &mut database, &mut whole);
        // The decoder passes over what it does not decode; that came before this one.
        let passed_over = unseen.taken().into_iter();
        let (record, other) = match found {
            Some(Found::Record(record)) => (Some(record), None),
            Some(Found::Other(name, what)) => (None, Some((name, what))),
            None => (None, None),
        };
        for (name, what) in passed_over.chain(other) {
            number += 1;
            skipped += 1;
            if !skip_unsupported {
                let name = name.escape_ascii();
                return Err(refused(&format!(
                    "key number {number}, \"{name}\", is {what}, and only strings, hashes and sorted \
                     sets of database 0 can be stored; --skip-unsupported leaves such keys out"
                )));
            }
        }
        if let Some(record) = record {
            number += 1;
            take(Record { number, ..record })?;
        }
    }
    if whole { Ok(skipped) } else { Err(refused("the dump is cut off")) }
}

enum Found {
    Record(Record),
    /// A key, and what it is.
    Other(Vec<u8>, String),
}

fn of_value(value: RdbValue, database: &mut u32, whole: &mut bool) -> Option<Found> {
    let (name, content, deadline_ms) = match value {
        RdbValue::String { key, value, expiry } => (key, Content::String(value), expiry),
        RdbValue::Hash { key, values, expiry } => {
            (key, Content::Hash(values.into_iter().collect()), expiry)
        }
        RdbValue::SortedSet { key, values, expiry } => {
            let members = values.into_iter().map(|(score, member)| (member, score));
            (key, Content::SortedSet(members.collect()), expiry)
        }
        RdbValue::List { key, .. } => return Some(Found::Other(key, "a list".into())),
        RdbValue::Set { key, .. } => return Some(Found::Other(key, "a set".into())),
        RdbValue::SelectDb(number) => {
            *database = number;
            return None;
        }
        RdbValue::Checksum(_) => {
            *whole = true;
            return None;
        }
        RdbValue::ResizeDb { .. } | RdbValue::AuxField { .. } => return None,
    };
    Some(match *database {
        0 => Found::Record(Record { number: 0, name, content, deadline_ms }),
        other => Found::Other(name, format!("in database {other}")),
    })
}

/// Keys that the decoder passes over without a word.
#[derive(Default)]
struct Unseen {
    kind: Cell<Option<&'static str>>,
    keys: RefCell<Vec<(Vec<u8>, String)>>,
}

impl Unseen {
    fn taken(&self) -> Vec<(Vec<u8>, String)> {
        self.keys.take()
    }
}

/// Sees what the decoder would pass over, or would not tell all about.
struct Watching(Rc<Unseen>);

impl Filter for Watching {
    fn matches_type(&self, encoding: u8) -> bool {
        self.0.kind.set(match (encoding, Type::from_encoding(encoding)) {
            (encoding_type::HASH_METADATA | encoding_type::HASH_LIST_PACK_EX, _)
            | (encoding_type::HASH_METADATA_PRE_GA | encoding_type::HASH_LIST_PACK_EX_PRE_GA, _) => {
                Some("a hash with fields that expire one by one")
            }
            (_, Ok(Type::Stream)) => Some("a stream"),
            (_, Ok(Type::Module)) => Some("a module's"),
            _ => None,
        });
        true
    }

    fn matches_key(&self, key: &[u8]) -> bool {
        let Some(kind) = self.0.kind.take() else { return true };
        self.0.keys.borrow_mut().push((key.to_vec(), kind.to_owned()));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_whole_is_not_taken() {
        let unseen = Rc::new(Unseen::default());
        let filter = Watching(unseen.clone());
        for (encoding, taken) in [
            (encoding_type::STRING, true),
            (encoding_type::HASH_LIST_PACK, true),
            (encoding_type::HASH_LIST_PACK_EX, false),
            (encoding_type::HASH_METADATA, false),
            (encoding_type::STREAM_LIST_PACKS_3, false),
            (encoding_type::MODULE_2, false),
        ] {
            assert!(filter.matches_type(encoding));
            assert_eq!(filter.matches_key(b"k"), taken, "{encoding}");
            assert_eq!(unseen.taken().len(), usize::from(!taken));
        }
    }
}
