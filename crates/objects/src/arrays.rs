//! Which arrays there are: one small object each, put once.
//!
//! ```text
//! format      "fogbank-objects-1\n"
//! arrays/..   "fogbank-array-1 CHUNKS CELLS BYTES\n"
//! ```
//!
//! In a table of items they are items with these values ([`Small`]). Before the first array is made
//! the server is tried ([`crate::trial`]).
//!
//! Invariant: no call goes by a shape that the cloud says. Whoever made an array knows it, and says
//! so when it opens the store again ([`Arrays::expect`]); so the cloud does not decide how much
//! memory a reply takes. The objects are there for `create`, which sees whether the place is taken,
//! and for a server that keeps stores of others, which bounds what it goes by ([`crate::found`]).

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::RwLock;
use fogbank_store::shape::no_array;
use fogbank_store::{ArrayId, ArrayShape, PlaceMap, Result, StoreError};

use crate::error::{Failure, at_opening};

/// The few small things that say what a store is, as a back end keeps them.
#[async_trait]
pub(crate) trait Small: Sync {
    /// What is there, of at most [`SMALL_BYTES_MAX`].
    async fn read(&self, which: Which) -> std::result::Result<Option<Bytes>, Failure>;

    /// Puts it if it is not there; repeated blindly, since it is only ever put with one content.
    async fn put(&self, which: Which, data: Bytes) -> Result<()>;
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Format,
    Array(ArrayId),
}

/// The arrays of a store that this process made or was told of.
pub(crate) struct Arrays {
    known: RwLock<PlaceMap<u16, ArrayShape>>,
}

impl Arrays {
    pub(crate) fn new() -> Self {
        Self { known: RwLock::default() }
    }

    pub(crate) async fn create(
        &self,
        small: &impl Small,
        array: ArrayId,
        shape: ArrayShape,
    ) -> Result<()> {
        shape.check()?;
        small.put(Which::Format, Bytes::from_static(FORMAT)).await?;
        small.put(Which::Array(array), Bytes::from(encode(shape))).await?;
        let there = read(small, array).await?.ok_or_else(|| no_array(array))?;
        if there != shape {
            let words = format!("array {} exists with another shape: {there:?}", array.0);
            return Err(StoreError::Caller(words));
        }
        self.know(array, shape);
        Ok(())
    }

    /// Goes by `shape` from now on.
    pub(crate) fn expect(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        shape.check()?;
        self.know(array, shape);
        Ok(())
    }

    fn know(&self, array: ArrayId, shape: ArrayShape) {
        self.known.write().insert(array.0, shape);
    }

    /// The shape of `array`.
    pub(crate) fn shape(&self, array: ArrayId) -> Result<ArrayShape> {
        let known = self.known.read();
        known.get(&array.0).copied().ok_or_else(|| no_array(array))
    }

    /// The shapes of all arrays that a call names.
    pub(crate) fn shapes(
        &self,
        arrays: impl Iterator<Item = ArrayId>,
    ) -> Result<PlaceMap<u16, ArrayShape>> {
        let mut shapes = PlaceMap::default();
        for array in arrays {
            if !shapes.contains_key(&array.0) {
                shapes.insert(array.0, self.shape(array)?);
            }
        }
        Ok(shapes)
    }

    pub(crate) fn forget(&self, array: ArrayId) {
        self.known.write().remove(&array.0);
    }
}

/// The shape that the cloud says `array` has, if it says that there is one.
pub(crate) async fn read(small: &impl Small, array: ArrayId) -> Result<Option<ArrayShape>> {
    let Some(bytes) = small.read(Which::Array(array)).await? else { return Ok(None) };
    let none =
        || StoreError::Misbehaved(format!("the object of array {}'s shape is none", array.0));
    decode(&bytes).ok_or_else(none).map(Some)
}

/// Whether there is a store: reads the object `format`, and with it finds out whether the place is
/// one for us, and bucket, credentials and endpoint are right.
pub(crate) async fn look(small: &impl Small) -> Result<bool> {
    match small.read(Which::Format).await {
        Ok(None) => Ok(false),
        Ok(Some(bytes)) if bytes == FORMAT => Ok(true),
        Ok(Some(_)) => Err(StoreError::Misbehaved(
            "the object `format` at this store URL is not what this version of fogbank writes: it \
             was changed, \
             or another version or something else wrote it"
                .into(),
        )),
        Err(failure) => Err(at_opening(failure)),
    }
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

pub(crate) const FORMAT: &[u8] = b"fogbank-objects-1\n";
const ARRAY_WORD: &str = "fogbank-array-1";
/// No format and no shape is longer.
pub(crate) const SMALL_BYTES_MAX: u64 = 256;

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
