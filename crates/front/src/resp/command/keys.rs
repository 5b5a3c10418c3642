//! Commands on keys of any type, and the scans.

use super::commands::help;
use super::{small_integer, syntax_error};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Collection, Keyspace, Located, Outcome, fail};
use crate::resp::layout::Kind;
use crate::resp::number::{parse_cursor, parse_integer};
use crate::resp::pattern;
use crate::resp::reply::Reply;
use bytes::Bytes;
use fogbank_txn::{Key, KeyRange, Stat};
use std::ops::Bound;

type Db<'a, 'v> = Keyspace<'a, 'v>;

/// `DEL key...` and `UNLINK key...`
pub fn del(db: &mut Db, request: &Request) -> Outcome {
    let mut deleted = 0;
    for name in request.from(1) {
        let located = db.settled(name)?;
        deleted += i64::from(located.kind().is_some());
        db.remove(name, &located)?;
    }
    Ok(Reply::Integer(deleted))
}

/// `EXISTS key...` and `TOUCH key...`
pub fn exists(db: &mut Db, request: &Request) -> Outcome {
    let mut count = 0;
    for name in request.from(1) {
        count += i64::from(db.kind(name)?.is_some());
    }
    Ok(Reply::Integer(count))
}

/// `TYPE key`
pub fn kind(db: &mut Db, request: &Request) -> Outcome {
    Ok(Reply::Simple(db.kind(request.get(1))?.map_or("none", Kind::name)))
}

/// `RENAME key newkey`
pub fn rename(db: &mut Db, request: &Request) -> Outcome {
    match move_key(db, request, false)? {
        Some(_) => Ok(Reply::OK),
        None => fail("no such key"),
    }
}

/// `RENAMENX key newkey`
pub fn renamenx(db: &mut Db, request: &Request) -> Outcome {
    match move_key(db, request, true)? {
        Some(moved) => Ok(Reply::flag(moved)),
        None => fail("no such key"),
    }
}

/// Whether the key was moved; `None` if there is none.
fn move_key(db: &mut Db, request: &Request, if_absent: bool) -> Outcome<Option<bool>> {
    let (from, to) = (request.get(1), request.get(2));
    let located = db.settled(from)?;
    if located.kind().is_none() {
        return Ok(None);
    }
    if from == to {
        return Ok(Some(false));
    }
    let target = db.settled(to)?;
    if if_absent && target.kind().is_some() {
        return Ok(Some(false));
    }
    copy_key(db, (from, &located), (to, &target))?;
    db.remove(from, &located)?;
    Ok(Some(true))
}

/// `COPY source destination [DB 0] [REPLACE]`
pub fn copy(db: &mut Db, request: &Request) -> Outcome {
    let replace = copy_options(request)?;
    let (from, to) = (request.get(1), request.get(2));
    if from == to {
        return fail("source and destination objects are the same");
    }
    let located = db.read_any(from)?;
    if located.kind().is_none() {
        return Ok(Reply::Integer(0));
    }
    let target = db.settled(to)?;
    if target.kind().is_some() && !replace {
        return Ok(Reply::Integer(0));
    }
    copy_key(db, (from, &located), (to, &target))?;
    Ok(Reply::Integer(1))
}

fn copy_options(request: &Request) -> Outcome<bool> {
    let mut replace = false;
    let mut index = 3;
    while index < request.len() {
        if request.is(index, "replace") {
            replace = true;
        } else if request.is(index, "db") && index + 1 < request.len() {
            index += 1;
            if small_integer(request, index)? != 0 {
                return fail("DB index is out of range");
            }
        } else {
            return syntax_error();
        }
        index += 1;
    }
    Ok(replace)
}

/// Copies a key, deadline and all, over whatever the target is.
fn copy_key(db: &mut Db, from: (&[u8], &Located), to: (&[u8], &Located)) -> Outcome<()> {
    let ((from, source), (to, target)) = (from, to);
    match source.kind() {
        None => return Ok(()),
        Some(Kind::String) => {
            let value = db.value(from)?;
            db.replace_with_string(to, target, value)?;
        }
        Some(kind) => {
            let source = db.collection(from, kind, source);
            let keys = db.view.scan(&KeyRange::group(&source.members), usize::MAX, false)?;
            let keys: Vec<(Key, Stat)> = keys;
            let values = copied_values(db, kind, &keys)?;
            db.remove(to, target)?;
            let target = db.locate(to, kind)?;
            let target = db.collection(to, kind, &target);
            for ((key, stat), value) in keys.iter().zip(values) {
                match kind {
                    Kind::SortedSet => {
                        db.put_score(&target, key.member(), None, f64::from_bits(stat.attr))?;
                    }
                    _ => db.view.put(&target.key(key.member()), value, 0)?,
                }
            }
        }
    }
    match source.deadline_ms {
        Some(at_ms) => db.set_deadline(to, at_ms),
        None => Ok(()),
    }
}

fn copied_values(db: &mut Db, kind: Kind, keys: &[(Key, Stat)]) -> Outcome<Vec<Bytes>> {
    if kind == Kind::SortedSet {
        return Ok(vec![Bytes::new(); keys.len()]);
    }
    let keys: Vec<Key> = keys.iter().map(|(key, _)| key.clone()).collect();
    let records = db.view.get_many(&keys)?;
    Ok(records.into_iter().map(|r| r.map(|r| r.value).unwrap_or_default()).collect())
}

/// `DBSIZE`
pub fn dbsize(db: &mut Db, _request: &Request) -> Outcome {
    Ok(Reply::count(db.size()?))
}

/// `FLUSHDB [ASYNC|SYNC]` and `FLUSHALL`
pub fn flush(db: &mut Db, request: &Request) -> Outcome {
    match request.len() {
        1 => {}
        2 if request.is(1, "async") || request.is(1, "sync") => {}
        _ => return syntax_error(),
    }
    db.flush()?;
    Ok(Reply::OK)
}

/// `RANDOMKEY`: one of the first keys in the order of names, chosen by the time.
pub fn randomkey(db: &mut Db, _request: &Request) -> Outcome {
    const CHOSEN_FROM_MAX: usize = 256;
    let mut position = None;
    loop {
        let (names, next) = db.names(position, CHOSEN_FROM_MAX)?;
        if !names.is_empty() {
            let chosen = db.now_ms as usize % names.len();
            return Ok(Reply::Bulk(names[chosen].name.clone()));
        }
        if next.is_none() {
            return Ok(Reply::Null);
        }
        position = next;
    }
}

/// `KEYS pattern`
pub fn keys(db: &mut Db, request: &Request) -> Outcome {
    let pattern = request.get(1);
    let (names, _) = db.names(None, usize::MAX)?;
    db.view.spend(pattern::steps(pattern, names.iter().map(|found| found.name.len())))?;
    let wanted = |name: &Bytes| pattern == b"*" || pattern::matches(pattern, name);
    let names = names.into_iter().map(|found| found.name).filter(wanted);
    Ok(Reply::Array(names.map(Reply::Bulk).collect()))
}

/// A cursor argument.
pub fn cursor(text: &[u8]) -> Outcome<u64> {
    parse_cursor(text).map_or_else(|| fail("invalid cursor"), Ok)
}

/// The options of a scan.
pub struct ScanOptions<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// Reads them from argument `first` on; `TYPE` is known to `SCAN` only.
    pub fn parse(request: &'a Request, first: usize, with_type: bool) -> Outcome<Self> {
        let mut options = Self { count: 10, pattern: None, kind: None };
        let mut index = first;
        while index < request.len() {
            if index + 1 >= request.len() {
                return syntax_error();
            }
            if request.is(index, "count") {
                match parse_integer(request.get(index + 1)) {
                    Some(count) if count >= 1 => options.count = count as usize,
                    Some(_) => return syntax_error(),
                    None => return fail(super::NOT_AN_INTEGER),
                }
            } else if request.is(index, "match") {
                options.pattern = Some(request.get(index + 1)).filter(|p| *p != b"*");
            } else if with_type && request.is(index, "type") {
                options.kind = Some(request.get(index + 1));
            } else {
                return syntax_error();
            }
            index += 2;
        }
        Ok(options)
    }

    /// What it costs to look at names of these lengths.
    fn steps(&self, names: impl Iterator<Item = usize>) -> usize {
        self.pattern.map_or(0, |pattern| pattern::steps(pattern, names))
    }

    fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| pattern::matches(pattern, name))
    }
}

/// The reply of a scan: the next cursor (0: the end) and what was found.
pub fn scan_reply(cursor: u64, items: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::text(cursor.to_string()), Reply::Array(items)])
}

/// The reply of a scan of nothing.
pub fn scan_end() -> Reply {
    scan_reply(0, Vec::new())
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan(db: &mut Db, request: &Request) -> Outcome {
    let cursor = cursor(request.get(1))?;
    let options = ScanOptions::parse(request, 2, true)?;
    let position = db.bounds.cursors.position(cursor);
    // A position of another walk than this: from the start.
    let position = position.filter(|p| matches!(p.first(), Some(b'S' | b'H' | b'Z')));
    let (names, next) = db.names(position, options.count)?;
    db.view.spend(options.steps(names.iter().map(|found| found.name.len())))?;
    let of_kind = |kind: Kind| {
        options.kind.is_none_or(|text| text.eq_ignore_ascii_case(kind.name().as_bytes()))
    };
    let items = names
        .into_iter()
        .filter(|found| of_kind(found.kind) && options.wants(&found.name))
        .map(|found| Reply::Bulk(found.name))
        .collect();
    Ok(scan_reply(next.map_or(0, |next| db.bounds.cursors.number(&next)), items))
}

/// The next fields or members of a collection that match, and the cursor to go on with.
pub fn member_scan(
    db: &mut Db,
    collection: &Collection,
    cursor: u64,
    options: &ScanOptions,
) -> Outcome<(u64, Vec<(Key, Stat)>)> {
    let last = db.bounds.cursors.position(cursor);
    let last = last.as_deref().and_then(|position| position.strip_prefix(b"m"));
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    let range = KeyRange::members(&collection.members, from, Bound::Unbounded);
    let mut keys = db.view.scan(&range, options.count, false)?;
    let next = match keys.last() {
        Some((key, _)) if keys.len() == options.count => {
            db.bounds.cursors.number(&[b"m", key.member()].concat())
        }
        _ => 0,
    };
    db.view.spend(options.steps(keys.iter().map(|(key, _)| key.member().len())))?;
    keys.retain(|(key, _)| options.wants(key.member()));
    Ok((next, keys))
}

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return how the value of a <key> is encoded: a constant for its type.",
    "FREQ <key>",
    "    Return how often the <key> was used; refused, since that is counted nowhere.",
    "IDLETIME <key>",
    "    Return the seconds since the <key> was last used: 0.",
    "REFCOUNT <key>",
    "    Return the number of references to the value of the <key>: 1.",
];

/// `OBJECT ENCODING|FREQ|IDLETIME|REFCOUNT key`, `OBJECT HELP`
pub fn object(db: &mut Db, request: &Request) -> Outcome {
    if request.is(1, "help") {
        return Ok(help(HELP));
    }
    let Some(kind) = db.kind(request.get(2))? else { return Ok(Reply::Null) };
    Ok(match &request.get(1).to_ascii_lowercase()[..] {
        b"encoding" => Reply::word(match kind {
            Kind::String => "raw",
            Kind::Hash => "hashtable",
            Kind::SortedSet => "skiplist",
        }),
        b"refcount" => Reply::Integer(1),
        b"freq" => {
            return fail(
                "An LFU maxmemory policy is not selected, access frequency not tracked. Please \
                 note that when switching between policies at runtime LRU and LFU data will take \
                 some time to adjust.",
            );
        }
        _ => Reply::Integer(0),
    })
}
