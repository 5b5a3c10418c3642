//! A request to the store as a value, so that a wrapper is one function and not thirteen.

use bytes::Bytes;

use crate::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, ChunkWrite, PutCondition, PutOutcome,
    Result, Store, StoreError,
};

/// One call of [`Store`] or [`crate::XorCells`], with its arguments.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // each is the method of the same name
pub enum Call<'a> {
    CreateArray(ArrayId, ArrayShape),
    DropArray(ArrayId),
    ReadCells(&'a CellReads),
    ReadChunks(&'a [ChunkName]),
    WriteChunks(Vec<ChunkWrite>),
    DeleteChunks(&'a [ChunkName]),
    ListChunks(ArrayId),
    BlobGet(&'a str),
    BlobPut(&'a str, Bytes, PutCondition),
    BlobDelete(&'a [&'a str]),
    BlobList(&'a str),
    Barrier,
    ReadXor(&'a CellReads, &'a [u32]),
}

/// Which call, without its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is the method of the same name
pub enum Operation {
    CreateArray,
    DropArray,
    ReadCells,
    ReadChunks,
    WriteChunks,
    DeleteChunks,
    ListChunks,
    BlobGet,
    BlobPut,
    BlobDelete,
    BlobList,
    Barrier,
    ReadXor,
}

/// What a call returned.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Nothing to say.
    Done,
    /// Of cell reads and XORs.
    Cells(Vec<Cell>),
    /// Of chunk reads.
    Chunks(Vec<Option<Bytes>>),
    /// Of a list of chunk versions.
    Names(Vec<ChunkName>),
    /// Of a blob read.
    Blob(Option<(Bytes, BlobTag)>),
    /// Of a blob put.
    Put(PutOutcome),
    /// Of a list of blobs.
    BlobNames(Vec<String>),
}

impl Call<'_> {
    /// Makes the call.
    pub async fn perform<S: Store + ?Sized>(self, store: &S) -> Result<Reply> {
        Ok(match self {
            Call::CreateArray(array, shape) => {
                store.create_array(array, shape).await?;
                Reply::Done
            }
            Call::DropArray(array) => {
                store.drop_array(array).await?;
                Reply::Done
            }
            Call::ReadCells(reads) => Reply::Cells(store.read_cells(reads).await?),
            Call::ReadChunks(chunks) => Reply::Chunks(store.read_chunks(chunks).await?),
            Call::WriteChunks(writes) => {
                store.write_chunks(writes).await?;
                Reply::Done
            }
            Call::DeleteChunks(chunks) => {
                store.delete_chunks(chunks).await?;
                Reply::Done
            }
            Call::ListChunks(array) => Reply::Names(store.list_chunks(array).await?),
            Call::BlobGet(name) => Reply::Blob(store.blob_get(name).await?),
            Call::BlobPut(name, data, condition) => {
                Reply::Put(store.blob_put(name, data, condition).await?)
            }
            Call::BlobDelete(names) => {
                store.blob_delete(names).await?;
                Reply::Done
            }
            Call::BlobList(prefix) => Reply::BlobNames(store.blob_list(prefix).await?),
            Call::Barrier => {
                store.barrier().await?;
                Reply::Done
            }
            Call::ReadXor(reads, groups) => match store.xor() {
                Some(offer) => Reply::Cells(offer.read_xor(reads, groups).await?),
                None => return Err(StoreError::Caller("this store offers no XOR".into())),
            },
        })
    }

    /// Which call it is.
    pub fn operation(&self) -> Operation {
        match self {
            Call::CreateArray(..) => Operation::CreateArray,
            Call::DropArray(_) => Operation::DropArray,
            Call::ReadCells(_) => Operation::ReadCells,
            Call::ReadChunks(_) => Operation::ReadChunks,
            Call::WriteChunks(_) => Operation::WriteChunks,
            Call::DeleteChunks(_) => Operation::DeleteChunks,
            Call::ListChunks(_) => Operation::ListChunks,
            Call::BlobGet(_) => Operation::BlobGet,
            Call::BlobPut(..) => Operation::BlobPut,
            Call::BlobDelete(_) => Operation::BlobDelete,
            Call::BlobList(_) => Operation::BlobList,
            Call::Barrier => Operation::Barrier,
            Call::ReadXor(..) => Operation::ReadXor,
        }
    }

    /// Bytes that the request takes on the way up, near enough for a model of a link.
    pub fn bytes_up(&self) -> u64 {
        let body = match self {
            Call::ReadCells(reads) => reads.len() * PLACE_BYTES + 2 * reads.cell_count(),
            Call::ReadXor(reads, groups) => {
                reads.len() * PLACE_BYTES + 2 * reads.cell_count() + 4 * groups.len()
            }
            Call::ReadChunks(chunks) | Call::DeleteChunks(chunks) => chunks.len() * PLACE_BYTES,
            Call::WriteChunks(writes) => writes.iter().map(|w| PLACE_BYTES + w.data.len()).sum(),
            Call::BlobPut(name, data, _) => name.len() + data.len(),
            Call::BlobGet(name) | Call::BlobList(name) => name.len(),
            Call::BlobDelete(names) => names.iter().map(|name| name.len()).sum(),
            Call::CreateArray(..) | Call::DropArray(_) | Call::ListChunks(_) | Call::Barrier => 0,
        };
        (MESSAGE_BYTES + body) as u64
    }
}

impl Operation {
    /// Whether the call changes what is stored; the others only ask.
    pub fn writes(self) -> bool {
        match self {
            Operation::CreateArray
            | Operation::DropArray
            | Operation::WriteChunks
            | Operation::DeleteChunks
            | Operation::BlobPut
            | Operation::BlobDelete
            | Operation::Barrier => true,
            Operation::ReadCells
            | Operation::ReadChunks
            | Operation::ListChunks
            | Operation::BlobGet
            | Operation::BlobList
            | Operation::ReadXor => false,
        }
    }
}

impl Reply {
    /// Bytes that the reply takes on the way down, near enough for a model of a link.
    pub fn bytes_down(&self) -> u64 {
        let body: usize = match self {
            Reply::Done | Reply::Put(_) => 0,
            Reply::Cells(cells) => cells.iter().map(cell_bytes).sum(),
            Reply::Chunks(chunks) => chunks.iter().flatten().map(Bytes::len).sum(),
            Reply::Names(names) => names.len() * PLACE_BYTES,
            Reply::Blob(blob) => blob.as_ref().map_or(0, |(data, _)| data.len()),
            Reply::BlobNames(names) => names.iter().map(String::len).sum(),
        };
        (MESSAGE_BYTES + body) as u64
    }

    /// The reply of a call that returns nothing.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is the reply of another call.
    pub fn done(self) -> Result<()> {
        match self {
            Reply::Done => Ok(()),
            other => Err(other.mismatch()),
        }
    }

    /// The cells of a cell read or XOR.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is the reply of another call.
    pub fn cells(self) -> Result<Vec<Cell>> {
        match self {
            Reply::Cells(cells) => Ok(cells),
            other => Err(other.mismatch()),
        }
    }

    /// The chunks of a chunk read.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is the reply of another call.
    pub fn chunks(self) -> Result<Vec<Option<Bytes>>> {
        match self {
            Reply::Chunks(chunks) => Ok(chunks),
            other => Err(other.mismatch()),
        }
    }

    /// The names of a list of chunk versions.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is the reply of another call.
    pub fn names(self) -> Result<Vec<ChunkName>> {
        match self {
            Reply::Names(names) => Ok(names),
            other => Err(other.mismatch()),
        }
    }

    /// The blob of a blob read.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is the reply of another call.
    pub fn blob(self) -> Result<Option<(Bytes, BlobTag)>> {
        match self {
            Reply::Blob(blob) => Ok(blob),
            other => Err(other.mismatch()),
        }
    }

    /// The outcome of a blob put.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is the reply of another call.
    pub fn put(self) -> Result<PutOutcome> {
        match self {
            Reply::Put(outcome) => Ok(outcome),
            other => Err(other.mismatch()),
        }
    }

    /// The names of a list of blobs.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is the reply of another call.
    pub fn blob_names(self) -> Result<Vec<String>> {
        match self {
            Reply::BlobNames(names) => Ok(names),
            other => Err(other.mismatch()),
        }
    }

    /// Only a wrapper that answers another call than it was asked comes here.
    fn mismatch(self) -> StoreError {
        StoreError::Misbehaved("a reply of another kind than the request".into())
    }
}

fn cell_bytes(cell: &Cell) -> usize {
    match cell {
        Cell::Bytes(bytes) => bytes.len(),
        Cell::NotWritten => 0,
    }
}

/// What a message costs beyond what it carries.
const MESSAGE_BYTES: usize = 64;
/// What a place costs to name: array, chunk, version.
const PLACE_BYTES: usize = 14;
