//! Strings and counters.

use super::deadlines::{Unit, deadline_argument};
use super::{
    NOT_AN_INTEGER, extended, extended_sum, integer, integer_sum, syntax_error, wrong_arity,
};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Keyspace, Located, Outcome, fail};
use crate::resp::layout::Kind;
use crate::resp::number::{Extended, parse_integer};
use crate::resp::reply::Reply;
use bytes::{Bytes, BytesMut};

type Db<'a, 'v> = Keyspace<'a, 'v>;

/// `GET key`
pub fn get(db: &mut Db, request: &Request) -> Outcome {
    let name = request.get(1);
    match db.read(name, Kind::String)?.kind() {
        Some(_) => Ok(Reply::Bulk(db.value(name)?)),
        None => Ok(Reply::Null),
    }
}

/// When a string expires that a command writes or touches.
#[derive(Clone, Copy, PartialEq)]
enum Expiry {
    None,
    Keep,
    Persist,
    /// In argument so-and-so, in a unit, counted from now or not.
    Argument {
        index: usize,
        unit: Unit,
        relative: bool,
    },
}

#[derive(Default)]
struct Conditions {
    if_absent: bool,
    if_present: bool,
    get: bool,
}

/// The options of `SET` (from argument 3) and `GETEX` (from argument 2).
fn options(request: &Request, first: usize, is_set: bool) -> Outcome<(Conditions, Expiry)> {
    let mut conditions = Conditions::default();
    let mut expiry = Expiry::None;
    let mut index = first;
    while index < request.len() {
        let word = request.get(index).to_ascii_lowercase();
        let argument = |unit, relative| Expiry::Argument { index: index + 1, unit, relative };
        let timed = match &word[..] {
            b"ex" => Some(argument(Unit::Seconds, true)),
            b"px" => Some(argument(Unit::Milliseconds, true)),
            b"exat" => Some(argument(Unit::Seconds, false)),
            b"pxat" => Some(argument(Unit::Milliseconds, false)),
            _ => None,
        };
        match &word[..] {
            b"nx" if is_set && !conditions.if_present => conditions.if_absent = true,
            b"xx" if is_set && !conditions.if_absent => conditions.if_present = true,
            b"get" if is_set => conditions.get = true,
            b"keepttl" if is_set && matches!(expiry, Expiry::None | Expiry::Keep) => {
                expiry = Expiry::Keep;
            }
            b"persist" if !is_set && matches!(expiry, Expiry::None | Expiry::Persist) => {
                expiry = Expiry::Persist;
            }
            _ => match timed {
                Some(timed) if index + 1 < request.len() && may_follow(expiry, timed) => {
                    expiry = timed;
                    index += 1;
                }
                _ => return syntax_error(),
            },
        }
        index += 1;
    }
    Ok((conditions, expiry))
}

/// Whether a timed option may come after another: only after one of the same word.
fn may_follow(before: Expiry, after: Expiry) -> bool {
    match (before, after) {
        (Expiry::None, _) => true,
        (
            Expiry::Argument { unit: a, relative: x, .. },
            Expiry::Argument { unit: b, relative: y, .. },
        ) => a == b && x == y,
        _ => false,
    }
}

fn expiry_ms(db: &Db, request: &Request, expiry: Expiry) -> Outcome<Option<u64>> {
    match expiry {
        Expiry::Argument { index, unit, relative } => {
            deadline_argument(db, request, index, unit, relative).map(Some)
        }
        _ => Ok(None),
    }
}

/// `SET key value [NX|XX] [GET] [EX|PX|EXAT|PXAT time|KEEPTTL]`
pub fn set(db: &mut Db, request: &Request) -> Outcome {
    let (conditions, expiry) = options(request, 3, true)?;
    let deadline = expiry_ms(db, request, expiry)?;
    let name = request.get(1);
    let located = if conditions.get { db.write(name, Kind::String)? } else { db.settled(name)? };
    let exists = located.kind().is_some();
    let before = match (conditions.get, exists) {
        (true, true) => Reply::Bulk(db.value(name)?),
        (true, false) => Reply::Null,
        (false, _) => Reply::OK,
    };
    if conditions.if_absent && exists || conditions.if_present && !exists {
        return Ok(if conditions.get { before } else { Reply::Null });
    }
    store(db, name, &located, request.bytes_of(2), expiry == Expiry::Keep, deadline)?;
    Ok(before)
}

fn store(
    db: &mut Db,
    name: &[u8],
    located: &Located,
    value: Bytes,
    keep: bool,
    deadline: Option<u64>,
) -> Outcome<()> {
    match (keep, located.kind(), deadline) {
        (true, Some(Kind::String), _) => db.put_string(name, located, value)?,
        (true, Some(_), _) => {
            db.replace_with_string(name, located, value)?;
            if let Some(at_ms) = located.deadline_ms {
                db.set_deadline(name, at_ms)?;
            }
        }
        // The deadline is about to be overwritten, so it need not be deleted first.
        (_, Some(Kind::String), Some(_)) => db.put_string(name, located, value)?,
        _ => db.replace_with_string(name, located, value)?,
    }
    match deadline {
        Some(at_ms) => db.set_deadline(name, at_ms),
        None => Ok(()),
    }
}

/// `SETNX key value`
pub fn setnx(db: &mut Db, request: &Request) -> Outcome {
    let name = request.get(1);
    let located = db.settled(name)?;
    if located.kind().is_some() {
        return Ok(Reply::Integer(0));
    }
    db.replace_with_string(name, &located, request.bytes_of(2))?;
    Ok(Reply::Integer(1))
}

/// `SETEX key seconds value`
pub fn setex(db: &mut Db, request: &Request) -> Outcome {
    set_with_deadline(db, request, Unit::Seconds)
}

/// `PSETEX key milliseconds value`
pub fn psetex(db: &mut Db, request: &Request) -> Outcome {
    set_with_deadline(db, request, Unit::Milliseconds)
}

fn set_with_deadline(db: &mut Db, request: &Request, unit: Unit) -> Outcome {
    let deadline = deadline_argument(db, request, 2, unit, true)?;
    let name = request.get(1);
    let located = db.settled(name)?;
    store(db, name, &located, request.bytes_of(3), false, Some(deadline))?;
    Ok(Reply::OK)
}

/// `GETSET key value`
pub fn getset(db: &mut Db, request: &Request) -> Outcome {
    let name = request.get(1);
    let located = db.write(name, Kind::String)?;
    let before = match located.kind() {
        Some(_) => Reply::Bulk(db.value(name)?),
        None => Reply::Null,
    };
    db.replace_with_string(name, &located, request.bytes_of(2))?;
    Ok(before)
}

/// `GETDEL key`
pub fn getdel(db: &mut Db, request: &Request) -> Outcome {
    let name = request.get(1);
    let located = db.write(name, Kind::String)?;
    if located.kind().is_none() {
        return Ok(Reply::Null);
    }
    let before = db.value(name)?;
    db.remove(name, &located)?;
    Ok(Reply::Bulk(before))
}

/// `GETEX key [EX|PX|EXAT|PXAT time|PERSIST]`
pub fn getex(db: &mut Db, request: &Request) -> Outcome {
    let (_, expiry) = options(request, 2, false)?;
    let name = request.get(1);
    let located = db.write(name, Kind::String)?;
    if located.kind().is_none() {
        return Ok(Reply::Null);
    }
    let deadline = expiry_ms(db, request, expiry)?;
    let value = db.value(name)?;
    match deadline {
        Some(at_ms) if at_ms <= db.now_ms => db.remove(name, &located)?,
        Some(at_ms) => db.set_deadline(name, at_ms)?,
        None if expiry == Expiry::Persist => {
            db.clear_deadline(name, &located)?;
        }
        None => {}
    }
    Ok(Reply::Bulk(value))
}

/// `MGET key...`
pub fn mget(db: &mut Db, request: &Request) -> Outcome {
    let mut present = Vec::with_capacity(request.len() - 1);
    for name in request.from(1) {
        present.push(db.kind(name)? == Some(Kind::String));
    }
    let wanted: Vec<_> = request
        .from(1)
        .zip(&present)
        .filter(|(_, present)| **present)
        .map(|(name, _)| db.string_key(name))
        .collect();
    let mut values = db.view.get_many(&wanted)?.into_iter();
    let reply = |present: &bool| {
        let value = if *present { values.next().flatten() } else { None };
        Reply::optional(value.map(|record| record.value))
    };
    Ok(Reply::Array(present.iter().map(reply).collect()))
}

/// `MSET key value...`
pub fn mset(db: &mut Db, request: &Request) -> Outcome {
    set_many(db, request, false)
}

/// `MSETNX key value...`
pub fn msetnx(db: &mut Db, request: &Request) -> Outcome {
    set_many(db, request, true)
}

fn set_many(db: &mut Db, request: &Request, if_absent: bool) -> Outcome {
    if request.len().is_multiple_of(2) {
        return wrong_arity(request);
    }
    let names = (1..request.len()).step_by(2);
    for index in names.clone() {
        db.check_len(request.get(index + 1).len())?;
        if if_absent && db.kind(request.get(index))?.is_some() {
            return Ok(Reply::Integer(0));
        }
    }
    for index in names {
        let located = db.settled(request.get(index))?;
        db.replace_with_string(request.get(index), &located, request.bytes_of(index + 1))?;
    }
    Ok(if if_absent { Reply::Integer(1) } else { Reply::OK })
}

/// `APPEND key value`
pub fn append(db: &mut Db, request: &Request) -> Outcome {
    let name = request.get(1);
    let located = db.write(name, Kind::String)?;
    let tail = request.bytes_of(2);
    let len = located.string_len() + tail.len();
    db.check_len(len)?;
    let value = match located.kind() {
        Some(_) => [db.value(name)?, tail].concat().into(),
        None => tail,
    };
    db.put_string(name, &located, value)?;
    Ok(Reply::count(len))
}

/// `STRLEN key`
pub fn strlen(db: &mut Db, request: &Request) -> Outcome {
    Ok(Reply::count(db.read(request.get(1), Kind::String)?.string_len()))
}

/// `GETRANGE key start end`
pub fn getrange(db: &mut Db, request: &Request) -> Outcome {
    let (start, end) = (integer(request, 2)?, integer(request, 3)?);
    let name = request.get(1);
    let located = db.read(name, Kind::String)?;
    let len = located.string_len() as i64;
    if len == 0 || start < 0 && end < 0 && start > end {
        return Ok(Reply::word(""));
    }
    let from_end = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end {
        return Ok(Reply::word(""));
    }
    Ok(Reply::Bulk(db.value(name)?.slice(start as usize..=end as usize)))
}

/// `SETRANGE key offset value`
pub fn setrange(db: &mut Db, request: &Request) -> Outcome {
    let offset = integer(request, 2)?;
    if offset < 0 {
        return fail("offset is out of range");
    }
    let name = request.get(1);
    let located = db.write(name, Kind::String)?;
    let patch = request.get(3);
    if patch.is_empty() {
        return Ok(Reply::count(located.string_len()));
    }
    let end = (offset as usize).saturating_add(patch.len());
    db.check_len(end)?;
    let before = if located.kind().is_some() { db.value(name)? } else { Bytes::new() };
    let mut value = BytesMut::from(&before[..]);
    value.resize(before.len().max(end), 0);
    value[offset as usize..end].copy_from_slice(patch);
    let len = value.len();
    db.put_string(name, &located, value.freeze())?;
    Ok(Reply::count(len))
}

/// `INCR key`
pub fn incr(db: &mut Db, request: &Request) -> Outcome {
    add(db, request, 1)
}

/// `DECR key`
pub fn decr(db: &mut Db, request: &Request) -> Outcome {
    add(db, request, -1)
}

/// `INCRBY key increment`
pub fn incrby(db: &mut Db, request: &Request) -> Outcome {
    add(db, request, integer(request, 2)?)
}

/// `DECRBY key decrement`
pub fn decrby(db: &mut Db, request: &Request) -> Outcome {
    match integer(request, 2)?.checked_neg() {
        Some(by) => add(db, request, by),
        None => fail("decrement would overflow"),
    }
}

fn add(db: &mut Db, request: &Request, by: i64) -> Outcome {
    let name = request.get(1);
    let located = db.write(name, Kind::String)?;
    let value = match located.kind() {
        None => 0,
        Some(_) => match parse_integer(&db.value(name)?) {
            Some(value) => value,
            None => return fail(NOT_AN_INTEGER),
        },
    };
    let sum = integer_sum(value, by)?;
    db.put_string(name, &located, Bytes::from(sum.to_string()))?;
    Ok(Reply::Integer(sum))
}

/// `INCRBYFLOAT key increment`
pub fn incrbyfloat(db: &mut Db, request: &Request) -> Outcome {
    let refusal = "value is not a valid float";
    let name = request.get(1);
    let located = db.write(name, Kind::String)?;
    let value = match located.kind() {
        None => Extended::ZERO,
        Some(_) => extended(&db.value(name)?, refusal)?,
    };
    let sum = Bytes::from(extended_sum(value, extended(request.get(2), refusal)?)?);
    db.put_string(name, &located, sum.clone())?;
    Ok(Reply::Bulk(sum))
}
