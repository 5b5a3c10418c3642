//! Hashes: every field is a record of its own, so writers of different fields do not meet.

use super::keys::{ScanOptions, member_scan};
use super::{extended, extended_sum, integer, integer_sum, wrong_arity};
use crate::resp::frame::Request;
use crate::resp::keyspace::{Collection, Keyspace, Located, Outcome, fail};
use crate::resp::layout::Kind;
use crate::resp::number::{Extended, parse_integer};
use crate::resp::reply::Reply;
use bytes::Bytes;
use fogbank_txn::{Key, KeyRange, Stat};

type Db<'a, 'v> = Keyspace<'a, 'v>;

/// The hash a command reads, if it exists.
fn existing(db: &mut Db, request: &Request) -> Outcome<Option<Collection>> {
    let name = request.get(1);
    let located = db.read(name, Kind::Hash)?;
    Ok(located.kind().map(|_| db.collection(name, Kind::Hash, &located)))
}

/// The hash a command writes, existing or not.
fn writable(db: &mut Db, request: &Request) -> Outcome<(Collection, Located)> {
    let name = request.get(1);
    let located = db.write(name, Kind::Hash)?;
    Ok((db.collection(name, Kind::Hash, &located), located))
}

fn put(db: &mut Db, hash: &Collection, field: &[u8], value: Bytes) -> Outcome<()> {
    db.check_len(value.len())?;
    Ok(db.view.put(&hash.key(field), value, 0)?)
}

fn value(db: &mut Db, hash: &Collection, field: &[u8]) -> Outcome<Option<Bytes>> {
    Ok(db.view.get(&hash.key(field))?.map(|record| record.value))
}

/// `HSET key field value...`
pub fn hset(db: &mut Db, request: &Request) -> Outcome {
    set_many(db, request).map(Reply::count)
}

/// `HMSET key field value...`
pub fn hmset(db: &mut Db, request: &Request) -> Outcome {
    set_many(db, request).map(|_| Reply::OK)
}

fn set_many(db: &mut Db, request: &Request) -> Outcome<usize> {
    if !request.len().is_multiple_of(2) {
        return wrong_arity(request);
    }
    let (hash, _) = writable(db, request)?;
    let fields = (2..request.len()).step_by(2);
    for index in fields.clone() {
        db.check_len(request.get(index + 1).len())?;
    }
    let mut created = 0;
    for index in fields {
        let field = request.get(index);
        created += usize::from(db.view.stat(&hash.key(field))?.is_none());
        put(db, &hash, field, request.bytes_of(index + 1))?;
    }
    Ok(created)
}

/// `HSETNX key field value`
pub fn hsetnx(db: &mut Db, request: &Request) -> Outcome {
    let (hash, _) = writable(db, request)?;
    let field = request.get(2);
    if db.view.stat(&hash.key(field))?.is_some() {
        return Ok(Reply::Integer(0));
    }
    put(db, &hash, field, request.bytes_of(3))?;
    Ok(Reply::Integer(1))
}

/// `HGET key field`
pub fn hget(db: &mut Db, request: &Request) -> Outcome {
    let Some(hash) = existing(db, request)? else { return Ok(Reply::Null) };
    Ok(Reply::optional(value(db, &hash, request.get(2))?))
}

/// `HMGET key field...`
pub fn hmget(db: &mut Db, request: &Request) -> Outcome {
    let Some(hash) = existing(db, request)? else {
        return Ok(Reply::Array(vec![Reply::Null; request.len() - 2]));
    };
    let keys: Vec<Key> = request.from(2).map(|field| hash.key(field)).collect();
    let records = db.view.get_many(&keys)?;
    let reply = |record: Option<fogbank_txn::Record>| Reply::optional(record.map(|r| r.value));
    Ok(Reply::Array(records.into_iter().map(reply).collect()))
}

fn fields(db: &mut Db, request: &Request) -> Outcome<Vec<(Key, Stat)>> {
    let Some(hash) = existing(db, request)? else { return Ok(Vec::new()) };
    Ok(db.view.scan(&KeyRange::group(&hash.members), usize::MAX, false)?)
}

fn member(key: &Key) -> Reply {
    Reply::Bulk(Bytes::copy_from_slice(key.member()))
}

/// `HGETALL key`
pub fn hgetall(db: &mut Db, request: &Request) -> Outcome {
    let keys: Vec<Key> = fields(db, request)?.into_iter().map(|(key, _)| key).collect();
    let records = db.view.get_many(&keys)?;
    let pair = |(key, record): (&Key, Option<fogbank_txn::Record>)| {
        (member(key), Reply::Bulk(record.map(|r| r.value).unwrap_or_default()))
    };
    Ok(Reply::Map(keys.iter().zip(records).map(pair).collect()))
}

/// `HKEYS key`
pub fn hkeys(db: &mut Db, request: &Request) -> Outcome {
    Ok(Reply::Array(fields(db, request)?.iter().map(|(key, _)| member(key)).collect()))
}

/// `HVALS key`
pub fn hvals(db: &mut Db, request: &Request) -> Outcome {
    let keys: Vec<Key> = fields(db, request)?.into_iter().map(|(key, _)| key).collect();
    let records = db.view.get_many(&keys)?;
    let reply =
        |r: Option<fogbank_txn::Record>| Reply::Bulk(r.map(|r| r.value).unwrap_or_default());
    Ok(Reply::Array(records.into_iter().map(reply).collect()))
}

/// `HLEN key`
pub fn hlen(db: &mut Db, request: &Request) -> Outcome {
    let Some(hash) = existing(db, request)? else { return Ok(Reply::Integer(0)) };
    Ok(Reply::count(db.view.count(&hash.members)? as usize))
}

/// `HEXISTS key field`
pub fn hexists(db: &mut Db, request: &Request) -> Outcome {
    let Some(hash) = existing(db, request)? else { return Ok(Reply::Integer(0)) };
    Ok(Reply::flag(db.view.stat(&hash.key(request.get(2)))?.is_some()))
}

/// `HSTRLEN key field`
pub fn hstrlen(db: &mut Db, request: &Request) -> Outcome {
    let Some(hash) = existing(db, request)? else { return Ok(Reply::Integer(0)) };
    let stat = db.view.stat(&hash.key(request.get(2)))?;
    Ok(Reply::count(stat.map_or(0, |stat| stat.len as usize)))
}

/// `HDEL key field...`
pub fn hdel(db: &mut Db, request: &Request) -> Outcome {
    let (hash, located) = writable(db, request)?;
    let mut deleted = 0;
    for field in request.from(2) {
        let key = hash.key(field);
        if db.view.stat(&key)?.is_some() {
            db.view.delete(&key)?;
            deleted += 1;
        }
    }
    if deleted > 0 {
        db.after_deletion(request.get(1), &hash, &located)?;
    }
    Ok(Reply::Integer(deleted))
}

/// `HINCRBY key field increment`
pub fn hincrby(db: &mut Db, request: &Request) -> Outcome {
    let by = integer(request, 3)?;
    let (hash, _) = writable(db, request)?;
    let field = request.get(2);
    let before = match value(db, &hash, field)? {
        None => 0,
        Some(text) => match parse_integer(&text) {
            Some(before) => before,
            None => return fail("hash value is not an integer"),
        },
    };
    let sum = integer_sum(before, by)?;
    put(db, &hash, field, Bytes::from(sum.to_string()))?;
    Ok(Reply::Integer(sum))
}

/// `HINCRBYFLOAT key field increment`
pub fn hincrbyfloat(db: &mut Db, request: &Request) -> Outcome {
    let by = extended(request.get(3), "value is not a valid float")?;
    if by.is_infinite() {
        return fail("value is NaN or Infinity");
    }
    let (hash, _) = writable(db, request)?;
    let field = request.get(2);
    let before = match value(db, &hash, field)? {
        None => Extended::ZERO,
        Some(text) => extended(&text, "hash value is not a float")?,
    };
    let sum = Bytes::from(extended_sum(before, by)?);
    put(db, &hash, field, sum.clone())?;
    Ok(Reply::Bulk(sum))
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn hscan(db: &mut Db, request: &Request) -> Outcome {
    let cursor = super::keys::cursor(request.get(2))?;
    let Some(hash) = existing(db, request)? else { return Ok(super::keys::scan_end()) };
    let options = ScanOptions::parse(request, 3, false)?;
    let (next, found) = member_scan(db, &hash, cursor, &options)?;
    let keys: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
    let records = db.view.get_many(&keys)?;
    let mut items = Vec::with_capacity(keys.len() * 2);
    for (key, record) in keys.iter().zip(records) {
        items.push(member(key));
        items.push(Reply::Bulk(record.map(|r| r.value).unwrap_or_default()));
    }
    Ok(super::keys::scan_reply(next, items))
}
