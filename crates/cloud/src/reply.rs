//! What comes back: parts, written by the server in pieces and taken by the client off a stream of
//! messages that it does not trust.
//!
//! Invariants
//! - The client asks for no more bytes than its request can be answered with, and keeps room for no
//!   more than have come.
//! - A reply has as many parts as were asked for and then ends; anything else is a server that
//!   lied.

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use fogbank_store::shape::{self, BLOBS_LISTED_MAX};
use fogbank_store::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, PutOutcome, Reply, Result, StoreError,
};

use crate::wire::{BLOB_BYTES_MAX, MESSAGE_BYTES_MAX, SERVED_CHUNK_BYTES_MAX, count, put_text};

const DONE: u8 = 1;
const PART: u8 = 2;
pub(crate) const NONE: u8 = 3;
pub(crate) const SOME: u8 = 4;

/// Bytes of a part of cells, near enough: it fits in one message.
const PART_BYTES: usize = MESSAGE_BYTES_MAX - 4096;

/// A reply as groups of pieces, to be cut into messages.
///
/// # Errors
/// [`StoreError::Caller`] if it is larger than anything that is said here.
pub fn groups(reply: Reply) -> Result<Vec<Vec<Bytes>>> {
    let mut out = Vec::new();
    let mut w = BytesMut::new();
    match reply {
        Reply::Done => w.put_u8(DONE),
        Reply::Cells(cells) => put_cells(&mut out, &cells)?,
        Reply::Chunks(chunks) => {
            for chunk in chunks {
                match chunk {
                    Some(data) => {
                        w.put_u8(SOME);
                        w.put_u32_le(count(data.len())?);
                        out.push(vec![w.split().freeze(), data]);
                    }
                    None => w.put_u8(NONE),
                }
            }
        }
        Reply::Names(names) => {
            w.put_u8(SOME);
            w.put_u32_le(count(names.len())?);
            for name in names {
                w.put_u32_le(name.chunk);
                w.put_u64_le(name.version);
            }
        }
        Reply::Blob(None) => w.put_u8(NONE),
        Reply::Blob(Some((data, tag))) => {
            w.put_u8(SOME);
            put_text(&mut w, &tag.0)?;
            w.put_u32_le(count(data.len())?);
            out.push(vec![w.split().freeze(), data]);
        }
        Reply::Put(PutOutcome::ConditionFailed) => w.put_u8(NONE),
        Reply::Put(PutOutcome::Done(tag)) => {
            w.put_u8(SOME);
            put_text(&mut w, &tag.0)?;
        }
        Reply::BlobNames(names) => {
            w.put_u8(SOME);
            w.put_u32_le(count(names.len())?);
            names.iter().try_for_each(|name| put_text(&mut w, name))?;
        }
    }
    if !w.is_empty() {
        out.push(vec![w.freeze()]);
    }
    Ok(out)
}

/// Cells of one length make a part: how many, which of them are there, their bytes.
fn put_cells(out: &mut Vec<Vec<Bytes>>, cells: &[Cell]) -> Result<()> {
    let mut left = cells;
    while !left.is_empty() {
        let length = left.iter().find_map(bytes_of).map_or(0, Bytes::len);
        let fits = |cell: &&Cell| bytes_of(cell).is_none_or(|bytes| bytes.len() == length);
        let most = (PART_BYTES / length.max(1)).clamp(1, PART_CELLS_MAX);
        let many = left.iter().take(most).take_while(fits).count();
        let (part, rest) = left.split_at(many);
        let mut bits = vec![0; many.div_ceil(8)];
        for (at, _) in part.iter().enumerate().filter(|(_, cell)| bytes_of(cell).is_some()) {
            bits[at / 8] |= 1 << (at % 8);
        }
        let mut head = BytesMut::with_capacity(9 + bits.len());
        head.put_u8(PART);
        head.put_u32_le(count(length)?);
        head.put_u32_le(count(many)?);
        head.put_slice(&bits);
        let data = part.iter().filter_map(bytes_of).cloned();
        out.push(std::iter::once(head.freeze()).chain(data).collect());
        left = rest;
    }
    Ok(())
}

fn bytes_of(cell: &Cell) -> Option<&Bytes> {
    match cell {
        Cell::Bytes(bytes) => Some(bytes),
        Cell::NotWritten => None,
    }
}

/// Where messages come from.
#[async_trait]
pub trait Messages: Send {
    /// The next one; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>>;
}

/// A reply that is arriving.
pub struct Incoming<M> {
    messages: M,
    at_hand: Bytes,
    /// What may still come before the reply is too long to be honest.
    left: u64,
}

impl<M: Messages> Incoming<M> {
    /// What `messages` say, in at most `bytes_max` bytes.
    pub fn new(messages: M, bytes_max: u64) -> Self {
        Self { messages, at_hand: Bytes::new(), left: bytes_max }
    }

    async fn more(&mut self) -> Result<bool> {
        let Some(message) = self.messages.next().await? else { return Ok(false) };
        self.left = self.left.checked_sub(message.len() as u64).ok_or_else(too_long)?;
        self.at_hand = message;
        Ok(true)
    }

    async fn take(&mut self, length: usize) -> Result<Bytes> {
        while self.at_hand.is_empty() && length > 0 && self.more().await? {}
        if self.at_hand.len() >= length {
            return Ok(self.at_hand.split_to(length));
        }
        if length as u64 > self.left + self.at_hand.len() as u64 {
            return Err(too_long());
        }
        let mut whole = BytesMut::from(&self.at_hand[..]);
        self.at_hand.clear();
        while whole.len() < length {
            if !self.more().await? {
                return Err(StoreError::Misbehaved("a reply ended too early".into()));
            }
            let part = self.at_hand.split_to(self.at_hand.len().min(length - whole.len()));
            whole.put_slice(&part);
        }
        Ok(whole.freeze())
    }

    async fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1).await?.get_u8())
    }

    async fn u32(&mut self) -> Result<usize> {
        Ok(self.take(4).await?.get_u32_le() as usize)
    }

    async fn text(&mut self) -> Result<String> {
        let length = self.take(2).await?.get_u16_le();
        let text = String::from_utf8(self.take(length.into()).await?.into());
        text.map_err(|_| StoreError::Misbehaved("a name that is no text".into()))
    }

    /// Whether something is there.
    async fn there(&mut self) -> Result<bool> {
        match self.u8().await? {
            SOME => Ok(true),
            NONE => Ok(false),
            _ => Err(another()),
        }
    }

    async fn end<T>(mut self, reply: T) -> Result<T> {
        while self.at_hand.is_empty() {
            if !self.more().await? {
                return Ok(reply);
            }
        }
        Err(StoreError::Misbehaved("more than was asked for".into()))
    }

    /// The acknowledgement of a call that returns nothing.
    ///
    /// # Errors
    /// [`StoreError::Misbehaved`] if it is anything else; those of the stream. So the others.
    pub async fn done(mut self) -> Result<()> {
        match self.u8().await? {
            DONE => self.end(()).await,
            _ => Err(another()),
        }
    }

    /// One cell for every entry of `lengths`, which has the length it must have, if that is known.
    ///
    /// # Errors
    /// As [`Incoming::done`].
    pub async fn cells(
        mut self,
        lengths: impl ExactSizeIterator<Item = Option<u32>>,
    ) -> Result<Vec<Cell>> {
        let mut lengths = lengths;
        let mut cells = Vec::new();
        while lengths.len() > 0 {
            if self.u8().await? != PART {
                return Err(another());
            }
            let (length, many) = (self.u32().await?, self.u32().await?);
            if many == 0 || many > lengths.len().min(PART_CELLS_MAX) {
                return Err(StoreError::Misbehaved(
                    "another number of cells than asked for".into(),
                ));
            }
            let bits = self.take(many.div_ceil(8)).await?;
            let is_there = |at: usize| bits[at / 8] & 1 << (at % 8) != 0;
            let there = (0..many).filter(|at| is_there(*at)).count();
            if length > SERVED_CHUNK_BYTES_MAX || length * there > PART_BYTES.max(length) {
                return Err(too_long());
            }
            let mut data = self.take(length * there).await?;
            for at in 0..many {
                let wanted = lengths.next().flatten();
                if !is_there(at) {
                    cells.push(Cell::NotWritten);
                    continue;
                }
                if wanted.is_some_and(|wanted| wanted as usize != length) {
                    return Err(StoreError::Misbehaved("a cell of another length".into()));
                }
                cells.push(Cell::Bytes(data.split_to(length)));
            }
        }
        self.end(cells).await
    }

    /// One chunk for every entry of `lengths`, as with [`Incoming::cells`].
    ///
    /// # Errors
    /// As [`Incoming::done`].
    pub async fn chunks(
        mut self,
        lengths: impl ExactSizeIterator<Item = Option<usize>> + Send,
    ) -> Result<Vec<Option<Bytes>>> {
        let mut chunks = Vec::new();
        for wanted in lengths {
            if !self.there().await? {
                chunks.push(None);
                continue;
            }
            let length = self.u32().await?;
            if length > SERVED_CHUNK_BYTES_MAX || wanted.is_some_and(|wanted| wanted != length) {
                return Err(StoreError::Misbehaved("a chunk of another length".into()));
            }
            chunks.push(Some(self.take(length).await?));
        }
        self.end(chunks).await
    }

    /// Chunk versions of `array`, which has this shape. Of more than it may list the rest is not
    /// taken.
    ///
    /// # Errors
    /// As [`Incoming::done`].
    pub async fn names(mut self, array: ArrayId, shape: ArrayShape) -> Result<Vec<ChunkName>> {
        let many = self.counted().await?;
        let mut names = Vec::new();
        while names.len() < many {
            if names.len() as u64 == shape.listed_max() {
                return Ok(names);
            }
            let mut name = self.take(12).await?;
            let (chunk, version) = (name.get_u32_le(), name.get_u64_le());
            if chunk >= shape.chunks {
                return Err(StoreError::Misbehaved("a chunk that the array has not".into()));
            }
            names.push(ChunkName { array, chunk, version });
        }
        self.end(names).await
    }

    /// A blob.
    ///
    /// # Errors
    /// As [`Incoming::done`].
    pub async fn blob(mut self) -> Result<Option<(Bytes, BlobTag)>> {
        if !self.there().await? {
            return self.end(None).await;
        }
        let tag = shape::tag(self.text().await?)?;
        let length = self.u32().await?;
        if length > BLOB_BYTES_MAX {
            return Err(too_long());
        }
        let data = self.take(length).await?;
        self.end(Some((data, tag))).await
    }

    /// What became of a put.
    ///
    /// # Errors
    /// As [`Incoming::done`].
    pub async fn put(mut self) -> Result<PutOutcome> {
        if !self.there().await? {
            return self.end(PutOutcome::ConditionFailed).await;
        }
        let tag = shape::tag(self.text().await?)?;
        self.end(PutOutcome::Done(tag)).await
    }

    /// A place, if there is one.
    ///
    /// # Errors
    /// As [`Incoming::done`].
    pub async fn place(mut self) -> Result<Option<u64>> {
        if !self.there().await? {
            return self.end(None).await;
        }
        let place = self.take(8).await?.get_u64_le();
        self.end(Some(place)).await
    }

    /// Names of blobs that start with `prefix`, as with [`Incoming::names`].
    ///
    /// # Errors
    /// As [`Incoming::done`].
    pub async fn blob_names(mut self, prefix: &str) -> Result<Vec<String>> {
        let many = self.counted().await?;
        let mut names: Vec<String> = Vec::new();
        while names.len() < many {
            if names.len() as u64 == BLOBS_LISTED_MAX {
                return Ok(names);
            }
            let name = self.text().await?;
            // In order, each once: so many short ones there are not.
            if !name.starts_with(prefix) || names.last().is_some_and(|last| *last >= name) {
                return Err(StoreError::Misbehaved("a name that was not asked for".into()));
            }
            names.push(name);
        }
        self.end(names).await
    }

    async fn counted(&mut self) -> Result<usize> {
        if !self.there().await? {
            return Err(another());
        }
        self.u32().await
    }
}

/// For every cell of `reads`, or for every group the first cell of it, what `length` says of its
/// array.
pub fn cell_lengths(
    reads: &CellReads,
    groups: Option<&[u32]>,
    length: impl Fn(ArrayId) -> Option<u32>,
) -> Vec<Option<u32>> {
    let of = |read: usize| length(reads.get(read).chunk.array);
    match groups {
        None => (0..reads.len())
            .flat_map(|read| std::iter::repeat_n(of(read), reads.get(read).cells.len()))
            .collect(),
        Some(groups) => {
            let starts = std::iter::once(0).chain(groups.iter().copied());
            let first = |start: u32| (start as usize) < reads.len();
            let lengths = starts.take(groups.len());
            lengths.map(|start| if first(start) { of(start as usize) } else { None }).collect()
        }
    }
}

fn too_long() -> StoreError {
    StoreError::Misbehaved("a reply longer than what was asked for".into())
}

fn another() -> StoreError {
    StoreError::Misbehaved("a reply of another kind than the request".into())
}

const PART_CELLS_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests;
