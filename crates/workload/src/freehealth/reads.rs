//! Ways to read what a transaction needs in one round.

use bytes::Bytes;
use fogbank_txn::Key;

use super::rows::Row;
use crate::database::{Error, Result, Statements};

/// As many records as keys.
pub(super) async fn get<const N: usize>(
    on: &dyn Statements,
    keys: &[Key; N],
) -> Result<[Option<Bytes>; N]> {
    on.get_many(keys).await?.try_into().map_err(|_| other_number())
}

/// A record that has to be there.
pub(super) async fn row<R: Row>(on: &dyn Statements, id: u32) -> Result<R> {
    parse(id, on.get(&R::key(id)).await?)
}

/// Records that have to be there. None takes no round.
pub(super) async fn rows<R: Row>(on: &dyn Statements, ids: &[u32]) -> Result<Vec<R>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<Key> = ids.iter().copied().map(R::key).collect();
    let found = on.get_many(&keys).await?;
    ids.iter().zip(found).map(|(id, record)| parse(*id, record)).collect()
}

/// A record as it came back.
pub(super) fn parse<R: Row>(id: u32, record: Option<Bytes>) -> Result<R> {
    let missing = || Error::broken(format!("there is no {} {id}", R::NAME));
    R::read(record.ok_or_else(missing)?)
}

pub(super) fn other_number() -> Error {
    Error::broken("another number of records came back than was asked for")
}
