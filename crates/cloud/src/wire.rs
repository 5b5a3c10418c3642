//! What is said: each call of the store as bytes, up and down (docs/format.md draws them).
//!
//! A request is an operation, the length of what follows, and that. A reply is parts, as many as
//! the request asked for. Both are cut into messages of at most [`MESSAGE_BYTES_MAX`] anywhere;
//! parts that fit in a message are not cut, so that their bytes are used where they arrived.
//!
//! Invariants
//! - What is decoded takes memory in proportion to the bytes that came, whatever counts they name.
//! - A request has one meaning: a byte left over or missing makes it none.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fogbank_store::{
    ArrayId, ArrayShape, BlobTag, Call, CellReads, ChunkName, ChunkWrite, Operation, PutCondition,
    Result, StoreError,
};

/// Where calls are made: service, version of what is said here, method.
pub const PATH: &str = "/fogbank.cloud.v1.Store/Call";
/// Bytes of a message, at most. Larger ones leave the caches between one end's cipher and the
/// other's.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Bytes of a chunk that a server keeps, at most.
pub const SERVED_CHUNK_BYTES_MAX: usize = 64 << 20;
/// Bytes of a blob that is kept, at most, and of a list of their names.
pub const BLOB_BYTES_MAX: usize = 64 << 20;
/// Bytes of what comes before a request's body: operation and length.
pub const HEAD_BYTES: usize = 9;

const OPERATIONS: [Operation; 13] = [
    Operation::CreateArray,
    Operation::DropArray,
    Operation::ReadCells,
    Operation::ReadChunks,
    Operation::WriteChunks,
    Operation::DeleteChunks,
    Operation::ListChunks,
    Operation::BlobGet,
    Operation::BlobPut,
    Operation::BlobDelete,
    Operation::BlobList,
    Operation::Barrier,
    Operation::ReadXor,
];

/// A call with its arguments, as it arrives.
#[derive(Debug, Clone)]
pub enum Request {
    /// Those whose arguments fit in a few bytes.
    CreateArray(ArrayId, ArrayShape),
    /// See [`Call`]; so the others.
    DropArray(ArrayId),
    /// Cells, or with groups their XOR.
    ReadCells(CellReads, Option<Vec<u32>>),
    /// Whole chunk versions.
    ReadChunks(Vec<ChunkName>),
    /// Their data are slices of what arrived.
    WriteChunks(Vec<ChunkWrite>),
    /// Chunk versions to forget.
    DeleteChunks(Vec<ChunkName>),
    /// What there is of an array.
    ListChunks(ArrayId),
    /// A blob.
    BlobGet(String),
    /// A blob to keep.
    BlobPut(String, Bytes, PutCondition),
    /// Blobs to forget.
    BlobDelete(Vec<String>),
    /// What blobs there are.
    BlobList(String),
    /// Make it durable.
    Barrier,
}

/// A request as pieces: what was the caller's already is not copied.
pub struct Outgoing {
    pieces: Vec<Bytes>,
    open: BytesMut,
}

impl Outgoing {
    fn close(mut self) -> Vec<Bytes> {
        if !self.open.is_empty() {
            self.pieces.push(self.open.freeze());
        }
        self.pieces
    }

    fn data(&mut self, data: Bytes) {
        let before = self.open.split();
        if !before.is_empty() {
            self.pieces.push(before.freeze());
        }
        self.pieces.push(data);
    }
}

/// `call` as the pieces of a request.
///
/// # Errors
/// [`StoreError::Caller`] if it is larger than anything that is said here.
pub fn request(call: Call<'_>) -> Result<Vec<Bytes>> {
    let operation = call.operation();
    let mut out = Outgoing { pieces: Vec::new(), open: BytesMut::new() };
    let w = &mut out.open;
    match call {
        Call::CreateArray(array, shape) => {
            w.put_u16_le(array.0);
            w.put_u32_le(shape.chunks);
            w.put_u16_le(shape.cells_per_chunk);
            w.put_u32_le(shape.cell_bytes);
        }
        Call::DropArray(array) | Call::ListChunks(array) => w.put_u16_le(array.0),
        Call::ReadCells(reads) => put_reads(w, reads)?,
        Call::ReadXor(reads, groups) => {
            put_reads(w, reads)?;
            w.put_u32_le(count(groups.len())?);
            groups.iter().for_each(|end| w.put_u32_le(*end));
        }
        Call::ReadChunks(chunks) | Call::DeleteChunks(chunks) => {
            w.put_u32_le(count(chunks.len())?);
            chunks.iter().for_each(|name| put_name(w, *name));
        }
        Call::WriteChunks(writes) => {
            w.put_u32_le(count(writes.len())?);
            for write in &writes {
                put_name(w, write.chunk);
                w.put_u32_le(count(write.data.len())?);
            }
            writes.into_iter().for_each(|write| out.data(write.data));
        }
        Call::BlobGet(name) | Call::BlobList(name) => put_text(w, name)?,
        Call::BlobPut(name, data, condition) => {
            match condition {
                PutCondition::Always => w.put_u8(0),
                PutCondition::IfAbsent => w.put_u8(1),
                PutCondition::IfUnchanged(tag) => {
                    w.put_u8(2);
                    put_text(w, &tag.0)?;
                }
            }
            put_text(w, name)?;
            w.put_u32_le(count(data.len())?);
            out.data(data);
        }
        Call::BlobDelete(names) => {
            w.put_u32_le(count(names.len())?);
            names.iter().try_for_each(|name| put_text(w, name))?;
        }
        Call::Barrier => {}
    }
    let body = out.close();
    let length: usize = body.iter().map(Bytes::len).sum();
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    head.put_u8(code(operation));
    head.put_u64_le(length as u64);
    Ok(std::iter::once(head.freeze()).chain(body).collect())
}

fn put_reads(w: &mut BytesMut, reads: &CellReads) -> Result<()> {
    w.reserve(4 + 16 * reads.len() + 2 * reads.cell_count());
    w.put_u32_le(count(reads.len())?);
    for read in reads.iter() {
        put_name(w, read.chunk);
        let cells = u16::try_from(read.cells.len());
        w.put_u16_le(cells.map_err(|_| StoreError::Caller("too many cells of a chunk".into()))?);
    }
    reads.iter().flat_map(|read| read.cells).for_each(|cell| w.put_u16_le(*cell));
    Ok(())
}

fn put_name(w: &mut BytesMut, name: ChunkName) {
    w.put_u16_le(name.array.0);
    w.put_u32_le(name.chunk);
    w.put_u64_le(name.version);
}

/// A text of at most 65,535 bytes.
pub(crate) fn put_text(w: &mut BytesMut, text: &str) -> Result<()> {
    let length = u16::try_from(text.len());
    w.put_u16_le(length.map_err(|_| StoreError::Caller("a name is too long".into()))?);
    w.put_slice(text.as_bytes());
    Ok(())
}

pub(crate) fn count(many: usize) -> Result<u32> {
    u32::try_from(many).map_err(|_| StoreError::Caller("too much for one call".into()))
}

fn code(operation: Operation) -> u8 {
    OPERATIONS.iter().position(|known| *known == operation).unwrap_or(usize::MAX) as u8
}

/// Cuts `groups` of pieces into messages. A group that fits in a message is not cut.
pub fn messages(groups: Vec<Vec<Bytes>>) -> impl Iterator<Item = Vec<Bytes>> + Send {
    let mut groups = groups.into_iter().peekable();
    let mut being_cut: VecDeque<Bytes> = VecDeque::new();
    std::iter::from_fn(move || {
        let (mut message, mut room) = (Vec::new(), MESSAGE_BYTES_MAX);
        loop {
            while let Some(mut piece) = being_cut.pop_front() {
                let part = piece.split_to(piece.len().min(room));
                room -= part.len();
                message.push(part);
                if !piece.is_empty() {
                    being_cut.push_front(piece);
                }
                if room == 0 {
                    return Some(message);
                }
            }
            let fits = |group: &Vec<Bytes>| group.iter().map(Bytes::len).sum::<usize>() <= room;
            match groups.next_if(|group| message.is_empty() || fits(group)) {
                Some(group) => {
                    being_cut.extend(group.into_iter().filter(|piece| !piece.is_empty()))
                }
                None => return (!message.is_empty()).then_some(message),
            }
        }
    })
}

/// What a request's first bytes say: which call, and how many bytes follow.
pub fn head(mut bytes: impl Buf) -> Option<(u8, u64)> {
    Some((bytes.try_get_u8().ok()?, bytes.try_get_u64_le().ok()?))
}

/// The operation that a request's first byte says.
pub fn operation(code: u8) -> Option<Operation> {
    OPERATIONS.get(usize::from(code)).copied()
}

impl Request {
    /// From a body; `None` if it is no request.
    pub fn decode(operation: Operation, body: Bytes) -> Option<Self> {
        let mut r = Reader(body);
        let request = match operation {
            Operation::CreateArray => {
                let array = ArrayId(r.u16()?);
                let (chunks, cells_per_chunk, cell_bytes) = (r.u32()?, r.u16()?, r.u32()?);
                Self::CreateArray(array, ArrayShape { chunks, cells_per_chunk, cell_bytes })
            }
            Operation::DropArray => Self::DropArray(ArrayId(r.u16()?)),
            Operation::ListChunks => Self::ListChunks(ArrayId(r.u16()?)),
            Operation::ReadCells => Self::ReadCells(r.reads()?, None),
            Operation::ReadXor => {
                let reads = r.reads()?;
                let groups = r.many(4, |r| r.u32())?;
                Self::ReadCells(reads, Some(groups))
            }
            Operation::ReadChunks => Self::ReadChunks(r.many(NAME_BYTES, Reader::name)?),
            Operation::DeleteChunks => Self::DeleteChunks(r.many(NAME_BYTES, Reader::name)?),
            Operation::WriteChunks => {
                let names = r.many(NAME_BYTES + 4, |r| Some((r.name()?, r.u32()?)))?;
                let write = |(chunk, length)| {
                    r.take(length as usize).map(|data| ChunkWrite { chunk, data })
                };
                Self::WriteChunks(names.into_iter().map(write).collect::<Option<_>>()?)
            }
            Operation::BlobGet => Self::BlobGet(r.text()?),
            Operation::BlobList => Self::BlobList(r.text()?),
            Operation::BlobPut => {
                let condition = match r.u8()? {
                    0 => PutCondition::Always,
                    1 => PutCondition::IfAbsent,
                    2 => PutCondition::IfUnchanged(BlobTag(r.text()?.into())),
                    _ => return None,
                };
                let (name, length) = (r.text()?, r.u32()?);
                Self::BlobPut(name, r.take(length as usize)?, condition)
            }
            Operation::BlobDelete => Self::BlobDelete(r.many(2, Reader::text)?),
            Operation::Barrier => Self::Barrier,
        };
        r.0.is_empty().then_some(request)
    }
}

/// Decodes what arrives as the server does, for tests that damage it; whether it is a request. One
/// has to be said by these bytes alone.
///
/// # Panics
/// If it is said by others, too.
#[doc(hidden)]
pub fn fuzz_request(bytes: &[u8]) -> bool {
    let Some((code, length)) = head(bytes) else { return false };
    let Some(operation) = operation(code) else { return false };
    let body = Bytes::copy_from_slice(&bytes[HEAD_BYTES..]);
    if body.len() as u64 != length {
        return false;
    }
    let Some(decoded) = Request::decode(operation, body) else { return false };
    let said = |call| request(call).map(|pieces| pieces.concat());
    let names: Vec<&str>;
    let again = match &decoded {
        Request::CreateArray(array, shape) => said(Call::CreateArray(*array, *shape)),
        Request::DropArray(array) => said(Call::DropArray(*array)),
        Request::ReadCells(reads, None) => said(Call::ReadCells(reads)),
        Request::ReadCells(reads, Some(groups)) => said(Call::ReadXor(reads, groups)),
        Request::ReadChunks(chunks) => said(Call::ReadChunks(chunks)),
        Request::WriteChunks(writes) => said(Call::WriteChunks(writes.clone())),
        Request::DeleteChunks(chunks) => said(Call::DeleteChunks(chunks)),
        Request::ListChunks(array) => said(Call::ListChunks(*array)),
        Request::BlobGet(name) => said(Call::BlobGet(name)),
        Request::BlobPut(name, data, condition) => {
            said(Call::BlobPut(name, data.clone(), condition.clone()))
        }
        Request::BlobDelete(all) => {
            names = all.iter().map(String::as_str).collect();
            said(Call::BlobDelete(&names))
        }
        Request::BlobList(prefix) => said(Call::BlobList(prefix)),
        Request::Barrier => said(Call::Barrier),
    };
    assert_eq!(again.ok().as_deref(), Some(bytes), "other bytes say the same: {decoded:?}");
    true
}

/// Takes values off the front.
struct Reader(Bytes);

impl Reader {
    fn take(&mut self, length: usize) -> Option<Bytes> {
        (self.0.len() >= length).then(|| self.0.split_to(length))
    }

    fn u8(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.0.try_get_u16_le().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.0.try_get_u32_le().ok()
    }

    fn name(&mut self) -> Option<ChunkName> {
        let (array, chunk) = (ArrayId(self.u16()?), self.u32()?);
        Some(ChunkName { array, chunk, version: self.0.try_get_u64_le().ok()? })
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u16()?;
        String::from_utf8(self.take(length.into())?.into()).ok()
    }

    /// As many as a count says, each of which takes `bytes` or more: so many must have come.
    fn many<T>(&mut self, bytes: usize, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let many = self.u32()? as usize;
        if many > self.0.len() / bytes {
            return None;
        }
        (0..many).map(|_| one(self)).collect()
    }

    fn reads(&mut self) -> Option<CellReads> {
        let chunks = self.many(NAME_BYTES + 2, |r| Some((r.name()?, r.u16()?)))?;
        let mut reads = CellReads::default();
        for (chunk, cells) in chunks {
            let mut cells = self.take(2 * usize::from(cells))?;
            reads.push(chunk, std::iter::from_fn(|| cells.try_get_u16_le().ok()));
        }
        Some(reads)
    }
}

const NAME_BYTES: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(chunk: u32) -> ChunkName {
        ChunkName { array: ArrayId(3), chunk, version: u64::from(chunk) << 33 }
    }

    /// One of every kind.
    fn calls(reads: &CellReads) -> Vec<Call<'_>> {
        const NAMES: &[ChunkName] = &[ChunkName { array: ArrayId(3), chunk: 1, version: 2 }];
        let shape = ArrayShape { chunks: 9, cells_per_chunk: 8, cell_bytes: 7 };
        let write =
            |n| ChunkWrite { chunk: name(n), data: vec![n as u8; 1000 * n as usize].into() };
        let tag = PutCondition::IfUnchanged(BlobTag("t".into()));
        vec![
            Call::CreateArray(ArrayId(3), shape),
            Call::DropArray(ArrayId(3)),
            Call::ReadCells(reads),
            Call::ReadXor(reads, &[1, 2]),
            Call::ReadChunks(NAMES),
            Call::WriteChunks((0..600).map(write).collect()),
            Call::DeleteChunks(NAMES),
            Call::ListChunks(ArrayId(3)),
            Call::BlobGet("a"),
            Call::BlobPut("a", "data".into(), PutCondition::Always),
            Call::BlobPut("a", "".into(), PutCondition::IfAbsent),
            Call::BlobPut("a", "data".into(), tag),
            Call::BlobDelete(&["a", "bc"]),
            Call::BlobList(""),
            Call::Barrier,
        ]
    }

    #[test]
    fn requests_come_back_whole_and_not_in_part() {
        let mut reads = CellReads::default();
        reads.push(name(1), [0, 3, 7]);
        reads.push(name(2), []);
        for call in calls(&reads) {
            let wanted = call.operation();
            let sent: Vec<Vec<Bytes>> = messages(vec![request(call).unwrap()]).collect();
            let length = |message: &Vec<Bytes>| message.iter().map(Bytes::len).sum::<usize>();
            assert!(sent.iter().all(|message| (1..=MESSAGE_BYTES_MAX).contains(&length(message))));
            let mut whole: Bytes = sent.concat().concat().into();
            let (code, body) = head(&whole[..]).unwrap();
            let operation = operation(code).unwrap();
            assert_eq!((operation, body), (wanted, (whole.len() - HEAD_BYTES) as u64));
            whole.advance(HEAD_BYTES);
            let request = Request::decode(operation, whole.clone()).unwrap();
            if let Request::WriteChunks(writes) = &request {
                assert!(writes.iter().all(|w| w.data.iter().all(|b| *b == w.chunk.chunk as u8)));
                assert_eq!(writes.len(), 600);
            }
            for cut in 0..whole.len().min(500) {
                assert!(Request::decode(operation, whole.slice(..cut)).is_none(), "{operation:?}");
            }
            let longer = [&whole[..], &[0]].concat();
            assert!(Request::decode(operation, longer.into()).is_none(), "{operation:?}");
        }
    }

    #[test]
    fn a_count_takes_no_memory_by_itself() {
        for operation in OPERATIONS {
            let body = Bytes::from_static(&[0xff; 40]);
            assert!(Request::decode(operation, body).is_none(), "{operation:?}");
        }
        assert!(operation(13).is_none() && head(&[0u8; 8][..]).is_none());
    }
}
