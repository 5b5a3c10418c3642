//! Which arrays there are: one small object each, put once.
//!
//! ```text
//! format      "fogbank-objects-1\n"
//! arrays/..   "fogbank-array-1 CHUNKS CELLS BYTES\n"
//! ```
//!
//! Shapes never change, so one that was seen is remembered. Before the first array is made the provider's
//! conditional puts are tried, both kinds, on the object `format`: a server that takes no notice of a
//! condition would let two proxies write one store.

use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use fogbank_store::shape::no_array;
use fogbank_store::{ArrayId, ArrayShape, PlaceMap, PutOutcome, Result, StoreError};

use crate::error::{at_opening, store_error};
use crate::names::Names;
use crate::objects::{Condition, Objects};

/// The arrays of a store, as far as they were seen.
pub(crate) struct Arrays {
    seen: RwLock<PlaceMap<u16, ArrayShape>>,
}

impl Arrays {
    pub(crate) fn new() -> Self {
        Self { seen: RwLock::default() }
    }

    pub(crate) async fn create(
        &self,
        objects: &Objects,
        names: &Names,
        array: ArrayId,
        shape: ArrayShape,
    ) -> Result<()> {
        shape.check()?;
        try_conditions(objects, names).await?;
        let written = Bytes::from(encode(shape));
        let path = names.array(array)?;
        objects.put(&path, written, Condition::IfAbsentElseReadBack).await?;
        let there = self.load(objects, names, array).await?;
        if there == shape {
            return Ok(());
        }
        Err(StoreError::Caller(format!("array {} exists with another shape: {there:?}", array.0)))
    }

    /// The shape of `array`.
    pub(crate) async fn shape(
        &self,
        objects: &Objects,
        names: &Names,
        array: ArrayId,
    ) -> Result<ArrayShape> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner).get(&array.0).copied();
        match seen {
            Some(shape) => Ok(shape),
            None => self.load(objects, names, array).await,
        }
    }

    pub(crate) fn forget(&self, array: ArrayId) {
        self.seen.write().unwrap_or_else(PoisonError::into_inner).remove(&array.0);
    }

    async fn load(&self, objects: &Objects, names: &Names, array: ArrayId) -> Result<ArrayShape> {
        let there = objects.read_whole(&names.array(array)?, SMALL_BYTES_MAX).await;
        let Some((bytes, _)) = there.map_err(|e| store_error(&e))? else {
            return Err(no_array(array));
        };
        let shape = decode(&bytes).ok_or_else(|| {
            StoreError::Misbehaved(format!("the object of array {}'s shape is none", array.0))
        })?;
        self.seen.write().unwrap_or_else(PoisonError::into_inner).insert(array.0, shape);
        Ok(shape)
    }
}

/// Whether the place is one for us: reads the object `format`, and with it finds out whether bucket,
/// credentials and endpoint are right.
pub(crate) async fn look(objects: &Objects, names: &Names) -> Result<()> {
    match objects.read_whole(&names.format()?, SMALL_BYTES_MAX).await {
        Ok(None) => Ok(()),
        Ok(Some((bytes, _))) if bytes == FORMAT => Ok(()),
        Ok(Some(_)) => Err(StoreError::Caller(
            "what is at this store URL was written by another version of fogbank, or is not its own: \
             use the version that wrote it, or another prefix"
                .into(),
        )),
        Err(error) => Err(at_opening(&error)),
    }
}

/// Puts the object `format`, and sees that conditions that do not hold are taken notice of.
async fn try_conditions(objects: &Objects, names: &Names) -> Result<()> {
    let path = names.format()?;
    let put = |condition| objects.put(&path, Bytes::from_static(FORMAT), condition);
    put(Condition::IfAbsentElseReadBack).await?;
    let absent = put(Condition::IfAbsentElseReadBack).await?;
    let changed = put(Condition::IfUnchanged(objects.tag_of_nothing())).await?;
    if (absent, changed) == (PutOutcome::ConditionFailed, PutOutcome::ConditionFailed) {
        return Ok(());
    }
    Err(StoreError::Caller(
        "this object store takes no notice of conditional puts (If-None-Match, If-Match), which keep two \
         proxies from writing one store: use a server, or a version of it, that has them"
            .into(),
    ))
}

fn encode(shape: ArrayShape) -> String {
    let ArrayShape { chunks, cells_per_chunk, cell_bytes } = shape;
    format!("{ARRAY_WORD} {chunks} {cells_per_chunk} {cell_bytes}\n")
}

fn decode(bytes: &[u8]) -> Option<ArrayShape> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let [word, chunks, cells, bytes] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let shape = ArrayShape {
        chunks: chunks.parse().ok()?,
        cells_per_chunk: cells.parse().ok()?,
        cell_bytes: bytes.parse().ok()?,
    };
    (word == ARRAY_WORD && shape.check().is_ok()).then_some(shape)
}

const FORMAT: &[u8] = b"fogbank-objects-1\n";
const ARRAY_WORD: &str = "fogbank-array-1";
const SMALL_BYTES_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_was_written_and_nothing_else_is() {
        let shape = ArrayShape { chunks: u32::MAX, cells_per_chunk: 3, cell_bytes: 17 };
        assert_eq!(encode(shape), "fogbank-array-1 4294967295 3 17\n");
        assert_eq!(decode(encode(shape).as_bytes()), Some(shape));
        let wrong = [
            "",
            "fogbank-array-1 1 3 17",
            "fogbank-array-2 1 3 17\n",
            "fogbank-array-1 1 3\n",
            "fogbank-array-1 1 3 17 5\n",
            "fogbank-array-1 0 3 17\n",
            "fogbank-array-1 1 65535 4294967295\n",
        ];
        assert!(wrong.iter().all(|wrong| decode(wrong.as_bytes()).is_none()));
    }
}
