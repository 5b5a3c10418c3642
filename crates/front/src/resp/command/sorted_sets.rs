//! Sorted sets: a member and its score are one record without a block, and a second one keeps
//! them in order, so no command on a sorted set costs a round.

use super::{double, syntax_error};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Collection, Keyspace, Located, Outcome, Scores, fail};
use crate::resp::layout::{Kind, order_member};
use crate::resp::number::parse_integer;
use crate::resp::reply::Reply;
use fogbank_txn::{Key, KeyRange};
use std::ops::Bound;

type Db<'a, 'v> = Keyspace<'a, 'v>;

/// The sorted set a command reads, if it exists.
pub fn existing(db: &mut Db, request: &Request) -> Outcome<Option<Collection>> {
    let name = request.get(1);
    let located = db.read(name, Kind::SortedSet)?;
    Ok(located.kind().map(|_| db.collection(name, Kind::SortedSet, &located)))
}

/// The sorted set a command writes, existing or not.
pub fn writable(db: &mut Db, request: &Request) -> Outcome<(Collection, Located)> {
    let name = request.get(1);
    let located = db.write(name, Kind::SortedSet)?;
    Ok((db.collection(name, Kind::SortedSet, &located), located))
}

#[derive(Default)]
struct AddOptions {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    changed: bool,
    increment: bool,
}

/// The options and the argument at which the scores begin.
fn add_options(request: &Request) -> (AddOptions, usize) {
    let mut options = AddOptions::default();
    for (index, word) in request.from(2).enumerate() {
        match &word.to_ascii_lowercase()[..] {
            b"nx" => options.if_absent = true,
            b"xx" => options.if_present = true,
            b"gt" => options.if_greater = true,
            b"lt" => options.if_less = true,
            b"ch" => options.changed = true,
            b"incr" => options.increment = true,
            _ => return (options, 2 + index),
        }
    }
    (options, request.len())
}

/// `ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member...`
pub fn zadd(db: &mut Db, request: &Request) -> Outcome {
    let (options, first) = add_options(request);
    add(db, request, options, first)
}

/// `ZINCRBY key increment member`
pub fn zincrby(db: &mut Db, request: &Request) -> Outcome {
    // Redis shares the code with ZADD, options included.
    let (options, first) = add_options(request);
    add(db, request, AddOptions { increment: true, ..options }, first)
}

fn add(db: &mut Db, request: &Request, options: AddOptions, first: usize) -> Outcome {
    let rest = request.len() - first;
    if rest == 0 || !rest.is_multiple_of(2) {
        return syntax_error();
    }
    if options.if_absent && options.if_present {
        return fail("XX and NX options at the same time are not compatible");
    }
    let (less, greater) = (options.if_less, options.if_greater);
    if options.if_absent && (less || greater) || less && greater {
        return fail("GT, LT, and/or NX options at the same time are not compatible");
    }
    if options.increment && rest > 2 {
        return fail("INCR option supports a single increment-element pair");
    }
    let indices = (first..request.len()).step_by(2);
    let scores: Vec<f64> =
        indices.clone().map(|index| double(request.get(index))).collect::<Outcome<_>>()?;
    let (set, _) = writable(db, request)?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    for (index, score) in indices.zip(scores) {
        last = None;
        match put(db, &set, request.get(index + 1), score, &options)? {
            Put::Nothing => {}
            Put::Same(score) => last = Some(score),
            Put::Added(score) => {
                added += 1;
                last = Some(score);
            }
            Put::Updated(score) => {
                updated += 1;
                last = Some(score);
            }
        }
    }
    Ok(match (options.increment, last) {
        (true, Some(score)) => Reply::Double(score),
        (true, None) => Reply::Null,
        _ if options.changed => Reply::Integer(added + updated),
        _ => Reply::Integer(added),
    })
}

enum Put {
    Nothing,
    Same(f64),
    Added(f64),
    Updated(f64),
}

fn put(db: &mut Db, set: &Collection, m: &[u8], score: f64, o: &AddOptions) -> Outcome<Put> {
    let Some(current) = db.score(set, m)? else {
        if o.if_present {
            return Ok(Put::Nothing);
        }
        db.put_score(set, m, None, score)?;
        return Ok(Put::Added(score));
    };
    if o.if_absent {
        return Ok(Put::Nothing);
    }
    let score = if o.increment { current + score } else { score };
    if score.is_nan() {
        return fail("resulting score is not a number (NaN)");
    }
    if o.if_less && score >= current || o.if_greater && score <= current {
        return Ok(Put::Nothing);
    }
    if score == current {
        return Ok(Put::Same(score));
    }
    db.put_score(set, m, Some(current), score)?;
    Ok(Put::Updated(score))
}

/// `ZREM key member...`
pub fn zrem(db: &mut Db, request: &Request) -> Outcome {
    let (set, located) = writable(db, request)?;
    let mut removed = 0;
    for member in request.from(2) {
        if let Some(score) = db.score(&set, member)? {
            db.delete_score(&set, member, score)?;
            removed += 1;
        }
    }
    if removed > 0 {
        db.after_deletion(request.get(1), &set, &located)?;
    }
    Ok(Reply::Integer(removed))
}

/// `ZCARD key`
pub fn zcard(db: &mut Db, request: &Request) -> Outcome {
    let Some(set) = existing(db, request)? else { return Ok(Reply::Integer(0)) };
    Ok(Reply::count(db.view.count(&set.members)? as usize))
}

/// `ZSCORE key member`
pub fn zscore(db: &mut Db, request: &Request) -> Outcome {
    let Some(set) = existing(db, request)? else { return Ok(Reply::Null) };
    Ok(db.score(&set, request.get(2))?.map_or(Reply::Null, Reply::Double))
}

/// `ZMSCORE key member...`
pub fn zmscore(db: &mut Db, request: &Request) -> Outcome {
    let set = existing(db, request)?;
    let mut scores = Vec::with_capacity(request.len() - 2);
    for member in request.from(2) {
        let score = match &set {
            Some(set) => db.score(set, member)?,
            None => None,
        };
        scores.push(score.map_or(Reply::Null, Reply::Double));
    }
    Ok(Reply::Array(scores))
}

/// `ZRANK key member`
pub fn zrank(db: &mut Db, request: &Request) -> Outcome {
    rank(db, request, false)
}

/// `ZREVRANK key member`
pub fn zrevrank(db: &mut Db, request: &Request) -> Outcome {
    rank(db, request, true)
}

fn rank(db: &mut Db, request: &Request, reverse: bool) -> Outcome {
    let Some(set) = existing(db, request)? else { return Ok(Reply::Null) };
    let member = request.get(2);
    let Some(score) = db.score(&set, member)? else { return Ok(Reply::Null) };
    let at = order_member(score, member);
    let range = if reverse {
        KeyRange::members(set.order(), Bound::Excluded(&at), Bound::Unbounded)
    } else {
        KeyRange::members(set.order(), Bound::Unbounded, Bound::Excluded(&at))
    };
    Ok(Reply::count(db.view.scan(&range, usize::MAX, false)?.len()))
}

/// `ZPOPMIN key [count]`
pub fn zpopmin(db: &mut Db, request: &Request) -> Outcome {
    pop(db, request, false)
}

/// `ZPOPMAX key [count]`
pub fn zpopmax(db: &mut Db, request: &Request) -> Outcome {
    pop(db, request, true)
}

fn pop(db: &mut Db, request: &Request, reverse: bool) -> Outcome {
    let count = match request.len() {
        2 => None,
        3 => match parse_integer(request.get(2)) {
            Some(count) if count >= 0 => Some(count as usize),
            _ => return fail("value is out of range, must be positive"),
        },
        _ => return syntax_error(),
    };
    let (set, located) = writable(db, request)?;
    let range = KeyRange::group(set.order());
    let popped = db.ordered(&range, count.unwrap_or(1), reverse)?;
    remove_all(db, request.get(1), &set, &located, &popped)?;
    Ok(match count {
        Some(_) => Reply::Scored(popped),
        None => {
            let flat = |(member, score)| [Reply::Bulk(member), Reply::Double(score)];
            Reply::Array(popped.into_iter().flat_map(flat).collect())
        }
    })
}

/// Takes members out of a sorted set.
pub fn remove_all(
    db: &mut Db,
    name: &[u8],
    set: &Collection,
    located: &Located,
    members: &Scores,
) -> Outcome<()> {
    for (member, score) in members {
        db.delete_score(set, member, *score)?;
    }
    if !members.is_empty() {
        db.after_deletion(name, set, located)?;
    }
    Ok(())
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn zscan(db: &mut Db, request: &Request) -> Outcome {
    let cursor = super::keys::cursor(request.get(2))?;
    let Some(set) = existing(db, request)? else { return Ok(super::keys::scan_end()) };
    let options = super::keys::ScanOptions::parse(request, 3, false)?;
    let (next, found) = super::keys::member_scan(db, &set, cursor, &options)?;
    let mut items = Vec::with_capacity(found.len() * 2);
    for (key, stat) in &found {
        items.push(Reply::Bulk(bytes::Bytes::copy_from_slice(Key::member(key))));
        let score = f64::from_bits(stat.attr);
        items.push(Reply::text(scanned_score(score)));
    }
    Ok(super::keys::scan_reply(next, items))
}

/// A score as ZSCAN prints it: Redis keeps whole scores of small sets as integers and shows them
/// so.
fn scanned_score(score: f64) -> String {
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    if score == score.trunc() && score.abs() <= WHOLE_MAX {
        return (score as i64).to_string();
    }
    crate::resp::number::format_double(score)
}
