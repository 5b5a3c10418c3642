//! What lies in a bucket, told by the bucket, for a server that keeps stores of others there and
//! has nothing else to go by.
//!
//! Such a server holds no key and answers for nothing that it reads: whoever asks it checks that.
//! So it may go by shapes that the bucket says, as no proxy does ([`crate::arrays`]), as long as
//! they bound its own memory.

use fogbank_store::{ArrayId, ArrayShape, Result, StoreError};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::ObjectMeta;

use crate::arrays::read;
use crate::store::ObjectsStore;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Every array. Calls of these go by the shapes told here.
    pub arrays: Vec<(ArrayId, ArrayShape)>,
    /// Every blob, and its bytes.
    pub blobs: Vec<(String, u64)>,
}

impl ObjectsStore {
    /// Finds what there is, by lists and a request an array.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if a chunk would be larger than `chunk_bytes_max`; else as every
    /// call of a store.
    pub async fn found(&self, chunk_bytes_max: usize) -> Result<Found> {
        let parse = |found: &ObjectMeta| self.names().parse_array(&found.location);
        let folder = self.names().array_folder()?;
        let mut ids = self.objects().list(&folder, ARRAYS_MAX, parse).await?;
        ids.sort_unstable();
        let shape_of = |id: ArrayId| async move {
            let Some(shape) = read(self, id).await? else { return Ok(None) };
            if shape.chunk_bytes() > chunk_bytes_max {
                return Err(StoreError::Misbehaved(format!(
                    "array {} in the bucket has chunks of {} bytes, and none here has more than \
                     {chunk_bytes_max}",
                    id.0,
                    shape.chunk_bytes()
                )));
            }
            Ok(Some((id, shape)))
        };
        let shapes = stream::iter(ids.into_iter().map(shape_of)).buffered(AT_ONCE);
        let found: Vec<Option<_>> = shapes.try_collect().await?;
        let arrays: Vec<_> = found.into_iter().flatten().collect();
        for (id, shape) in &arrays {
            self.arrays().expect(*id, *shape)?;
        }
        Ok(Found { arrays, blobs: self.blobs().list_sized("").await? })
    }
}

/// As many as have a number.
const ARRAYS_MAX: u64 = 1 << 16;
/// Shapes that are read at once.
const AT_ONCE: usize = 16;
