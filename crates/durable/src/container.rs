//! A checkpoint on the cloud: sections one after the other, cut into sealed pieces of one size.
//!
//! ```text
//! stream   per section: 2 tag | 8 length | 8 padded length | data | zeros up to the padded length
//! piece    up to 1 MiB of the stream, sealed; nonce (kind 2, piece, sequence), bound to its name
//! ```
//! The stream's length, so the number and size of pieces, follows from public configuration.

use bytes::Bytes;
use fogbank_seal::{BlobPlace, Digest, IncarnationKeys, TAG_BYTES, digest};
use fogbank_store::{PutCondition, Store};

use crate::commit::CheckpointName;
use crate::section::SectionReader;
use crate::{Error, Result, Section};

const KIND_CHECKPOINT: u8 = 2;
const PIECE_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 2 + 8 + 8;

/// The name of one piece. The opening is in it, so that a proxy that was overtaken without knowing
/// cannot write over pieces of the one that overtook it.
pub(crate) fn piece_name(opening: u32, sequence: u64, piece: u32) -> String {
    format!("checkpoint/{opening:08x}-{sequence:016x}/{piece:06}")
}

/// The prefix of all pieces of one checkpoint.
pub(crate) const PREFIX: &str = "checkpoint/";

/// The pieces of a checkpoint on the cloud: all have one length but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// How many.
    pub count: u32,
    /// Bytes of all but the last.
    pub bytes: u64,
    /// Bytes of the last.
    pub last_bytes: u64,
}

impl Pieces {
    /// Those of a checkpoint whose sections have these padded lengths.
    pub fn of(section_lengths: impl IntoIterator<Item = usize>) -> Self {
        let stream: usize = section_lengths.into_iter().map(|length| HEADER_BYTES + length).sum();
        let count = stream.div_ceil(PIECE_BYTES);
        let last = stream - count.saturating_sub(1) * PIECE_BYTES;
        let sealed = |bytes: usize| (bytes + TAG_BYTES) as u64;
        Self { count: count as u32, bytes: sealed(PIECE_BYTES), last_bytes: sealed(last) }
    }
}

/// Writes `sections` as the checkpoint numbered `sequence`; returns pieces and digest.
pub(crate) async fn write(
    store: &dyn Store,
    (opening, keys): (u32, &IncarnationKeys),
    sequence: u64,
    sections: &[Section],
) -> Result<(u32, Digest)> {
    let mut writer =
        PieceWriter { store, opening, keys, sequence, buffer: Vec::new(), tags: Vec::new() };
    for section in sections {
        let padding = section.padded_len.checked_sub(section.data.len()).ok_or_else(|| {
            let (tag, data, bound) = (section.tag, section.data.len(), section.padded_len);
            Error::Bug(format!("section {tag} has {data} bytes, its public length is {bound}"))
        })?;
        writer.append(&section.tag.to_le_bytes()).await?;
        writer.append(&(section.data.len() as u64).to_le_bytes()).await?;
        writer.append(&(section.padded_len as u64).to_le_bytes()).await?;
        writer.append(&section.data).await?;
        writer.append_zeros(padding).await?;
    }
    writer.finish().await
}

struct PieceWriter<'a> {
    store: &'a dyn Store,
    opening: u32,
    keys: &'a IncarnationKeys,
    sequence: u64,
    buffer: Vec<u8>,
    tags: Vec<Digest>, // digest of each sealed piece
}

impl PieceWriter<'_> {
    async fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            bytes = tail;
            self.put_if_full().await?;
        }
        Ok(())
    }

    async fn append_zeros(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            let step = count.min(PIECE_BYTES - self.buffer.len());
            self.buffer.resize(self.buffer.len() + step, 0);
            count -= step;
            self.put_if_full().await?;
        }
        Ok(())
    }

    async fn put_if_full(&mut self) -> Result<()> {
        if self.buffer.len() == PIECE_BYTES { self.put().await } else { Ok(()) }
    }

    async fn put(&mut self) -> Result<()> {
        let piece = self.tags.len() as u32;
        let name = piece_name(self.opening, self.sequence, piece);
        let place = BlobPlace { kind: KIND_CHECKPOINT, piece, sequence: self.sequence };
        let plaintext = std::mem::take(&mut self.buffer);
        let sealed = Bytes::from(self.keys.blobs().seal(place, name.as_bytes(), plaintext));
        self.tags.push(digest(&[&sealed]));
        self.store.blob_put(&name, sealed, PutCondition::Always).await?;
        Ok(())
    }

    async fn finish(mut self) -> Result<(u32, Digest)> {
        if !self.buffer.is_empty() {
            self.put().await?;
        }
        self.store.barrier().await?;
        Ok((self.tags.len() as u32, digest(&[self.tags.as_flattened()])))
    }
}

/// Reads the checkpoint called `of`, sealed by `keys`. Every piece is verified and the digest of all
/// compared before anything is returned.
pub(crate) async fn read(
    store: &dyn Store,
    keys: &IncarnationKeys,
    of: CheckpointName,
) -> Result<Vec<Section>> {
    let (mut stream, mut tags, mut sections) = (Vec::new(), Vec::new(), Vec::new());
    for piece in 0..of.pieces {
        let name = piece_name(of.opening, of.sequence, piece);
        let (sealed, _) = store.blob_get(&name).await?.ok_or(Error::CloudLied)?;
        let place = BlobPlace { kind: KIND_CHECKPOINT, piece, sequence: of.sequence };
        let opened = keys.blobs().open(place, name.as_bytes(), &sealed);
        stream.extend_from_slice(&opened.map_err(|_| Error::CloudLied)?);
        tags.push(digest(&[&sealed]));
        take_complete(&mut stream, &mut sections)?;
    }
    if digest(&[tags.as_flattened()]) != of.digest {
        return Err(Error::CloudLied);
    }
    if stream.is_empty() {
        Ok(sections)
    } else {
        Err(Error::Bug("bytes after the last section".into()))
    }
}

/// Moves the sections that are complete off the front of the stream: most of it is padding, and a
/// large store's would not be small.
fn take_complete(stream: &mut Vec<u8>, sections: &mut Vec<Section>) -> Result<()> {
    let mut rest = SectionReader(stream);
    while let Some(section) = next_section(&mut rest)? {
        sections.push(section);
    }
    let taken = stream.len() - rest.0.len();
    stream.drain(..taken);
    Ok(())
}

/// The next section, if all of it is there.
fn next_section(stream: &mut SectionReader<'_>) -> Result<Option<Section>> {
    if stream.0.len() < HEADER_BYTES {
        return Ok(None);
    }
    let mut r = SectionReader(stream.0);
    let (tag, length, padded_len) = (r.u16()?, r.u64()? as usize, r.u64()? as usize);
    if r.0.len() < padded_len {
        return Ok(None);
    }
    let body = r.raw(padded_len)?;
    let data = body.get(..length).ok_or_else(|| Error::Bug("section past its end".into()))?;
    stream.0 = r.0;
    Ok(Some(Section { tag, padded_len, data: data.to_vec() }))
}
