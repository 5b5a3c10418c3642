//! What records and indexes are called, and the commands that write them.
//!
//! Names of records: the length of the group in a byte, the group, the member. Names of indexes:
//! the byte 255, the group.

use ::redis::Pipeline;
use bytes::Bytes;
use fogbank_txn::Key;

use crate::database::{Error, Result};

/// Begins the name of an index; no group is as long.
const INDEX: u8 = u8::MAX;

/// Adds commands that write records.
pub(super) fn put<'a>(
    pipe: &mut Pipeline,
    records: impl Iterator<Item = (&'a Key, &'a Bytes)>,
    scanned: &[Vec<u8>],
) -> Result<()> {
    let mut all = Vec::new();
    for (key, value) in records {
        all.push((name(key)?, &value[..]));
        if is_scanned(key, scanned) {
            // One that is there already leaves the index as it is, and no scan has to begin anew.
            pipe.cmd("ZADD").arg(index(&key.group())).arg(0).arg(key.member());
        }
    }
    if !all.is_empty() {
        pipe.cmd("MSET").arg(&all);
    }
    Ok(())
}

/// Adds commands that delete records.
pub(super) fn delete<'a>(
    pipe: &mut Pipeline,
    keys: impl Iterator<Item = &'a Key>,
    scanned: &[Vec<u8>],
) -> Result<()> {
    let mut all = Vec::new();
    for key in keys {
        all.push(name(key)?);
        if is_scanned(key, scanned) {
            pipe.cmd("ZREM").arg(index(&key.group())).arg(key.member());
        }
    }
    if !all.is_empty() {
        pipe.cmd("DEL").arg(&all);
    }
    Ok(())
}

/// Whether the group of a record has an index.
pub(super) fn is_scanned(key: &Key, scanned: &[Vec<u8>]) -> bool {
    !scanned.is_empty() && scanned.iter().any(|group| **group == *key.group())
}

/// What a record is called.
///
/// # Errors
/// [`Error::Failed`] if its group has a name of 255 bytes or more.
pub fn name(key: &Key) -> Result<Vec<u8>> {
    let group = key.group();
    let len = u8::try_from(group.len()).ok().filter(|len| *len != INDEX);
    let len = len.ok_or_else(|| Error::Failed("the name of a group is too long".into()))?;
    Ok([&[len], &*group, key.member()].concat())
}

/// What the index of a group is called.
pub(super) fn index(group: &[u8]) -> Vec<u8> {
    [&[INDEX], group].concat()
}
