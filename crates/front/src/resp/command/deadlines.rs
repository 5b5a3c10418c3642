//! Expiry: `EXPIRE` and its kin, `TTL` and its kin, `PERSIST`.

use super::{NOT_AN_INTEGER, integer};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Keyspace, Outcome, fail};
use crate::resp::layout::Kind;
use crate::resp::number::parse_integer;
use crate::resp::reply::Reply;

type Db<'a, 'v> = Keyspace<'a, 'v>;

/// What a time is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

fn invalid<T>(request: &Request) -> Outcome<T> {
    let name = String::from_utf8_lossy(request.get(0)).to_ascii_lowercase();
    fail(format!("invalid expire time in '{name}' command"))
}

/// The deadline in an argument of a command that sets a value: a time above zero.
pub fn deadline_argument(
    db: &Db,
    request: &Request,
    index: usize,
    unit: Unit,
    relative: bool,
) -> Outcome<u64> {
    let Some(time) = parse_integer(request.get(index)) else { return fail(NOT_AN_INTEGER) };
    if time <= 0 {
        return invalid(request);
    }
    match absolute_ms(db, time, unit, relative) {
        Some(at_ms) => Ok(at_ms as u64),
        None => invalid(request),
    }
}

fn absolute_ms(db: &Db, time: i64, unit: Unit, relative: bool) -> Option<i64> {
    let time_ms = if unit == Unit::Seconds { time.checked_mul(1000)? } else { time };
    if relative { time_ms.checked_add(db.view.began_ms() as i64) } else { Some(time_ms) }
}

/// `EXPIRE key seconds [NX|XX|GT|LT]`
pub fn expire(db: &mut Db, request: &Request) -> Outcome {
    set_deadline(db, request, Unit::Seconds, true)
}

/// `PEXPIRE key milliseconds [NX|XX|GT|LT]`
pub fn pexpire(db: &mut Db, request: &Request) -> Outcome {
    set_deadline(db, request, Unit::Milliseconds, true)
}

/// `EXPIREAT key unix-seconds [NX|XX|GT|LT]`
pub fn expireat(db: &mut Db, request: &Request) -> Outcome {
    set_deadline(db, request, Unit::Seconds, false)
}

/// `PEXPIREAT key unix-milliseconds [NX|XX|GT|LT]`
pub fn pexpireat(db: &mut Db, request: &Request) -> Outcome {
    set_deadline(db, request, Unit::Milliseconds, false)
}

#[derive(Default)]
struct Conditions {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

fn conditions(request: &Request) -> Outcome<Conditions> {
    let mut found = Conditions::default();
    for index in 3..request.len() {
        match &request.get(index).to_ascii_lowercase()[..] {
            b"nx" => found.if_none = true,
            b"xx" => found.if_any = true,
            b"gt" => found.if_later = true,
            b"lt" => found.if_earlier = true,
            _ => {
                let word = request.shown(index, usize::MAX);
                return fail([b"Unsupported option ", word].concat());
            }
        }
    }
    if found.if_none && (found.if_any || found.if_later || found.if_earlier) {
        return fail("NX and XX, GT or LT options at the same time are not compatible");
    }
    if found.if_later && found.if_earlier {
        return fail("GT and LT options at the same time are not compatible");
    }
    Ok(found)
}

fn set_deadline(db: &mut Db, request: &Request, unit: Unit, relative: bool) -> Outcome {
    let conditions = conditions(request)?;
    let time = integer(request, 2)?;
    let Some(at_ms) = absolute_ms(db, time, unit, relative) else { return invalid(request) };
    let name = request.get(1);
    let located = db.settled(name)?;
    if located.kind().is_none() {
        return Ok(Reply::Integer(0));
    }
    let current = located.deadline_ms.map(|at| at as i64);
    let refused = conditions.if_none && current.is_some()
        || conditions.if_any && current.is_none()
        || conditions.if_later && current.is_none_or(|current| at_ms <= current)
        || conditions.if_earlier && current.is_some_and(|current| at_ms >= current);
    if refused {
        return Ok(Reply::Integer(0));
    }
    if at_ms <= db.now_ms as i64 {
        db.remove(name, &located)?;
    } else {
        db.set_deadline(name, at_ms as u64)?;
    }
    Ok(Reply::Integer(1))
}

/// `TTL key`
pub fn ttl(db: &mut Db, request: &Request) -> Outcome {
    time_left(db, request, |at_ms, now_ms| (at_ms - now_ms + 500) / 1000)
}

/// `PTTL key`
pub fn pttl(db: &mut Db, request: &Request) -> Outcome {
    time_left(db, request, |at_ms, now_ms| at_ms - now_ms)
}

/// `EXPIRETIME key`
pub fn expiretime(db: &mut Db, request: &Request) -> Outcome {
    time_left(db, request, |at_ms, _| ((at_ms as u64 + 500) / 1000) as i64)
}

/// `PEXPIRETIME key`
pub fn pexpiretime(db: &mut Db, request: &Request) -> Outcome {
    time_left(db, request, |at_ms, _| at_ms)
}

fn time_left(db: &mut Db, request: &Request, answer: fn(i64, i64) -> i64) -> Outcome {
    let located = db.locate(request.get(1), Kind::String)?;
    let reply = match (located.kind(), located.deadline_ms) {
        (None, _) => -2,
        (_, None) => -1,
        (_, Some(at_ms)) => answer(at_ms as i64, db.now_ms as i64).max(0),
    };
    Ok(Reply::Integer(reply))
}

/// `PERSIST key`
pub fn persist(db: &mut Db, request: &Request) -> Outcome {
    let name = request.get(1);
    let located = db.settled(name)?;
    if located.kind().is_none() {
        return Ok(Reply::Integer(0));
    }
    Ok(Reply::flag(db.clear_deadline(name, &located)?))
}
