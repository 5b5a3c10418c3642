//! A dump of Redis (RDB): strings, hashes and sorted sets of database 0, with the times at which
//! they expire.
//!
//! Those are the types that the front end serves. What else there is (lists, sets, streams, values
//! of modules, hashes with fields that expire one by one, other databases; functions, and what
//! modules keep beside keys) is an error that names the first such key and its type, or is left out
//! and told. What Redis keeps for itself (how often a key was used, cached scripts) is passed over.
//! A key that has expired already is taken in, and is as absent as it was.
//!
//! A dump that ends too early, whose checksum is wrong, that holds what no Redis can or that
//! something follows is an error: none of it may be lost in silence ([`bytes`]).

mod bytes;

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;

use fogbank_front::resp::Content;
use rdb::constants::encoding_type;
use rdb::{Filter, RdbDecoder, RdbValue, Type};

use super::source::{LeftOut, Record};
use crate::error::{Error, Result};
use bytes::{Bytes, End};

/// Calls `take` with every key that can be stored; what else there was, if that may be left out.
/// `refused` makes an error of what is wrong with the file.
pub(super) fn each(
    file: impl Read,
    skip_unsupported: bool,
    refused: impl Fn(&str) -> Error,
    mut take: impl FnMut(Record) -> Result<()>,
) -> Result<LeftOut> {
    let unseen = Rc::new(Unseen::default());
    let bytes = Bytes::new(file);
    let unreadable = |e: std::io::Error| refused(&format!("it cannot be read: {e}"));
    if bytes.begins_with(b"*").map_err(unreadable)? {
        return Err(refused(
            "this is an append-only file without a dump before its commands: pipe it into a \
             running fogbank serve, with redis-cli --pipe",
        ));
    }
    let unread = |e: rdb::RdbError| match bytes.ran_out() {
        true => refused(CUT_OFF),
        false => refused(&format!("this is no dump of Redis that is known, or a damaged one: {e}")),
    };
    let unknown = |e| refused(&format!("this is no dump of Redis that is known: {e}"));
    let mut decoder = RdbDecoder::new(bytes.clone(), Watching(unseen.clone())).map_err(unknown)?;
    let (mut number, mut database, mut left_out) = (0, 0, LeftOut::default());
    loop {
        if let Some(what) = bytes.passed_over().map_err(unreadable)? {
            left_out.others.insert(what);
            if !skip_unsupported {
                return Err(refused(&format!(
                    "it holds {what}, and only strings, hashes and sorted sets can be stored; \
                     --skip-unsupported leaves out all else"
                )));
            }
        }
        let Some(value) = decoder.next() else { return Ok(left_out) };
        let found = of_value(value.map_err(unread)?, &mut database);
        // The decoder passes over what it does not decode; that came before this one.
        let mut others = unseen.taken();
        let record = match found {
            Found::Record(record) => Some(record),
            Found::Other(name, what) => {
                others.push((name, what));
                None
            }
            Found::End => {
                let end = bytes.end(decoder.version()).map_err(unreadable)?;
                told(&end).map_or(Ok(()), |why| Err(refused(&why)))?;
                None
            }
            Found::Nothing => None,
        };
        for (name, what) in others {
            number += 1;
            left_out.keys += 1;
            if !skip_unsupported {
                let name = name.escape_ascii();
                return Err(refused(&format!(
                    "key number {number}, \"{name}\", is {what}, and only strings, hashes and sorted \
                     sets of database 0 can be stored; --skip-unsupported leaves such keys out"
                )));
            }
        }
        let Some(record) = record else { continue };
        number += 1;
        if let Some(member) = without_score(&record.content) {
            let (name, member) = (record.name.escape_ascii(), member.escape_ascii());
            return Err(refused(&format!(
                "key number {number}, \"{name}\", has a member \"{member}\" whose score is no number; \
                 no Redis takes such a dump: it is damaged"
            )));
        }
        take(Record { number, ..record })?;
    }
}

/// What is wrong with the end of a dump, if anything is.
fn told(end: &End) -> Option<String> {
    Some(match end {
        End::Whole => return None,
        End::CutOff => CUT_OFF.into(),
        End::Damaged => {
            "the dump is damaged: its checksum is that of something else; redis-check-rdb looks \
             closer"
                .into()
        }
        End::Followed { at, by_commands: true } => format!(
            "commands follow the dump, as in an append-only file; they are no part of it. Load its \
             first {at} bytes (head -c {at}), and then pipe the rest into fogbank serve (tail -c \
             +{}, redis-cli --pipe)",
            at + 1
        ),
        End::Followed { at, by_commands: false } => {
            format!("something follows the dump, whose last byte is number {at}")
        }
    })
}

const CUT_OFF: &str = "the dump is cut off: the file ends before it does";

enum Found {
    Record(Record),
    /// A key, and what it is.
    Other(Vec<u8>, String),
    Nothing,
    End,
}

fn of_value(value: RdbValue, database: &mut u32) -> Found {
    let (name, content, expiry) = match value {
        RdbValue::String { key, value, expiry } => (key, Content::String(value), expiry),
        RdbValue::Hash { key, values, expiry } => {
            (key, Content::Hash(values.into_iter().collect()), expiry)
        }
        RdbValue::SortedSet { key, values, expiry } => {
            let members = values.into_iter().map(|(score, member)| (member, score));
            (key, Content::SortedSet(members.collect()), expiry)
        }
        RdbValue::List { key, .. } => return Found::Other(key, "a list".into()),
        RdbValue::Set { key, .. } => return Found::Other(key, "a set".into()),
        RdbValue::SelectDb(number) => {
            *database = number;
            return Found::Nothing;
        }
        RdbValue::Checksum(_) => return Found::End,
        RdbValue::ResizeDb { .. } | RdbValue::AuxField { .. } => return Found::Nothing,
    };
    // It stands there with a sign: a time before 1970 has passed, too.
    let deadline_ms = expiry.map(|at_ms| (at_ms as i64).max(0) as u64);
    // Some versions of Redis wrote these; later ones pass over them.
    let is_empty = match &content {
        Content::String(_) => false,
        Content::Hash(fields) => fields.is_empty(),
        Content::SortedSet(members) => members.is_empty(),
    };
    match *database {
        0 if is_empty => Found::Other(name, "a collection of nothing".into()),
        0 => Found::Record(Record { number: 0, name, content, deadline_ms }),
        other => Found::Other(name, format!("in database {other}")),
    }
}

/// The member of a sorted set that has no place in its order.
fn without_score(content: &Content) -> Option<&[u8]> {
    let Content::SortedSet(members) = content else { return None };
    members.iter().find(|(_, score)| score.is_nan()).map(|(member, _)| &member[..])
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
            (
                encoding_type::HASH_METADATA
                | encoding_type::HASH_LIST_PACK_EX
                | encoding_type::HASH_METADATA_PRE_GA
                | encoding_type::HASH_LIST_PACK_EX_PRE_GA,
                _,
            ) => Some("a hash with fields that expire one by one"),
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

    /// Of version 9, with the checksum that belongs to it.
    fn dump(body: &[u8]) -> Vec<u8> {
        let mut dump = [b"REDIS0009", body, b"\xff"].concat();
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Redis, &dump);
        dump.extend(sum.to_le_bytes());
        dump
    }

    /// What is taken from a file, or why it is refused.
    fn taken(file: &[u8], skip_unsupported: bool) -> Result<(Vec<Record>, LeftOut)> {
        let mut records = Vec::new();
        let refused = |why: &str| Error::Usage(why.into());
        let left_out = each(file, skip_unsupported, refused, |record| {
            records.push(record);
            Ok(())
        })?;
        Ok((records, left_out))
    }

    fn refused(file: &[u8]) -> String {
        taken(file, true).expect_err("it is refused").to_string()
    }

    const ONE: &[u8] = b"\xfe\x00\x00\x01a\x011";

    #[test]
    fn the_end_of_a_dump_is_looked_at() {
        let whole = dump(ONE);
        assert_eq!(taken(&whole, false).unwrap().0.len(), 1);
        // Redis reckons no checksum if it is told so, and had none before version 5.
        let unsummed = [b"REDIS0009", ONE, b"\xff\0\0\0\0\0\0\0\0"].concat();
        let old = [b"REDIS0003", ONE, b"\xff"].concat();
        for file in [&unsummed, &old] {
            assert_eq!(taken(file, false).unwrap().0.len(), 1);
        }
        for at in 0..whole.len() {
            let said = refused(&whole[..at]);
            // Before its first key it may be anything.
            assert!(at < 9 || said.contains("cut off"), "{at}: {said}");
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            refused(&damaged);
        }
        let said = refused(b"REDIS0009\xfe\x00\x00\x01a\x011\xff12345678");
        assert!(said.contains("checksum"), "{said}");
        for file in [&whole, &unsummed, &old] {
            let commands = [&file[..], b"*1\r\n$4\r\nPING\r\n"].concat();
            let (said, at) = (refused(&commands), file.len());
            let remedy = [format!("head -c {at})"), format!("tail -c +{},", at + 1)];
            assert!(remedy.iter().all(|part| said.contains(part)), "{said}");
            let more = [&file[..], b"\n"].concat();
            assert!(refused(&more).contains("something follows"), "{}", refused(&more));
        }
        assert!(refused(b"*1\r\n$4\r\nPING\r\n").contains("--pipe"));
        assert!(refused(b"key,value\n").contains("no dump"));
    }

    /// A buffer's worth and more, so that sums and ends span several.
    #[test]
    fn a_long_dump_is_summed_whole() {
        let value =
            |n: u32| [&[0x80][..], &100_000_u32.to_be_bytes(), &[n as u8; 100_000]].concat();
        let keys = (0..7).flat_map(|n| [&[0, 1, b'a' + n as u8][..], &value(n)].concat());
        let mut whole = dump(&[&[0xfe, 0][..], &keys.collect::<Vec<_>>()].concat());
        assert_eq!(taken(&whole, false).unwrap().0.len(), 7);
        whole[350_000] ^= 4;
        assert!(refused(&whole).contains("checksum"));
    }

    #[test]
    fn what_is_no_key_is_told_too() {
        let function = b"\xf5\x04code";
        let auxiliary = b"\xf7\x01\x02\x02\x00"; // module 1, when: 2 (0), end
        for (body, what) in [
            ([&function[..], function, ONE].concat(), "functions"),
            ([&auxiliary[..], ONE].concat(), "modules"),
            ([ONE, &auxiliary[..]].concat(), "modules"),
        ] {
            let file = dump(&body);
            let said = taken(&file, false).unwrap_err().to_string();
            assert!(said.contains(what) && said.contains("--skip-unsupported"), "{said}");
            let (records, left_out) = taken(&file, true).unwrap();
            assert_eq!((records.len(), left_out.others.len()), (1, 1));
        }
        // Of a key of its own, with its deadline before it.
        let kept = b"\xfe\x00\xfc\x10\0\0\0\0\0\0\0\xf3\x01name\x00\x00\x01a\x011";
        assert!(taken(&dump(kept), false).unwrap_err().to_string().contains("about keys"));
        let used = b"\xfe\x00\xfc\x10\0\0\0\0\0\0\0\xf9\x07\x00\x01a\x011";
        let (records, left_out) = taken(&dump(used), false).unwrap();
        assert_eq!((records[0].deadline_ms, left_out), (Some(16), LeftOut::default()));
    }

    #[test]
    fn what_no_key_can_be_is_not_taken() {
        let set = |score: f64| [b"\xfe\x00\x05\x01z\x01\x01m", &score.to_le_bytes()[..]].concat();
        assert!(taken(&dump(&set(1.5)), false).is_ok());
        for nan in [f64::NAN, -f64::NAN] {
            let said = refused(&dump(&set(nan)));
            assert!(said.contains("\"m\"") && said.contains("no number"), "{said}");
        }
        let old = dump(b"\xfe\x00\x03\x01z\x01\x01m\xfd"); // as it was written before Redis 4
        assert!(refused(&old).contains("no number"));
        // As the text of a score, too.
        let packed = b"\x12\0\0\0\x02\0\x81m\x02\x83nan\x04\xff";
        let packed = [b"\xfe\x00\x11\x01z", &[packed.len() as u8][..], packed].concat();
        assert!(taken(&dump(&packed), true).is_err());
        for empty in [&b"\xfe\x00\x05\x01z\x00"[..], b"\xfe\x00\x04\x01h\x00"] {
            let file = dump(empty);
            assert!(taken(&file, false).unwrap_err().to_string().contains("of nothing"));
            assert_eq!(taken(&file, true).unwrap().1.keys, 1);
        }
        let past = b"\xfe\x00\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01a\x011";
        assert_eq!(taken(&dump(past), false).unwrap().0[0].deadline_ms, Some(0));
    }
}
