//! A checkpoint or an epoch's delta on the cloud: sections one after the other, cut into sealed
//! pieces of one size.
//!
//! ```text
//! stream   per section: 2 tag | 8 length | 8 padded length | data | zeros up to the padded length
//! piece    so much of the stream, sealed; nonce (kind, piece, number), bound to its name
//! ```
//! The stream's length, so the number and size of pieces, follows from public configuration. A piece is a
//! round trip that an epoch waits for, so those of a delta are long: its sections are there before the first
//! piece leaves. The sections of a full checkpoint are made one after the other, which takes as long as there
//! is in them, so its pieces are short: what is made for one has to fit the room before it leaves.

use bytes::Bytes;
use fogbank_env::compute;
use fogbank_seal::{BlobPlace, Digest, IncarnationKeys, KeyRing, TAG_BYTES, digest};
use fogbank_store::{PutCondition, Store};

use crate::error::Suspicion;
use crate::link::LINK_BYTES;
use crate::put::put;
use crate::section::SectionReader;
use crate::{Error, Result, Section, Sections};

const HEADER_BYTES: usize = 2 + 8 + 8;

/// What a container holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All trusted state; numbered by the commit record that names it first.
    Full = 2,
    /// What an epoch changed; numbered by the epoch.
    Delta = 4,
}

impl Kind {
    /// Bytes of the stream in a piece.
    fn piece_bytes(self) -> usize {
        match self {
            Self::Full => 1 << 20,
            Self::Delta => 8 << 20,
        }
    }

    /// The prefix of the names of all pieces of this kind.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Full => "checkpoint/",
            Self::Delta => "delta/",
        }
    }
}

/// Names a container and says what has to be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContainerName {
    pub kind: Kind,
    /// The opening whose key sealed it. It is in the names of the pieces, so that a proxy that was
    /// overtaken without knowing cannot write over pieces of the one that overtook it.
    pub opening: u32,
    /// The number in its blobs' names.
    pub number: u64,
    /// How many pieces.
    pub pieces: u32,
    /// Digest of the digests of all sealed pieces in order.
    pub digest: Digest,
}

impl ContainerName {
    /// Stands for no container where one is written down.
    pub(crate) fn none(kind: Kind) -> Self {
        Self { kind, opening: 0, number: 0, pieces: 0, digest: [0; 32] }
    }

    /// The container, unless it stands for none.
    pub(crate) fn there(self) -> Option<Self> {
        (self.opening != 0).then_some(self)
    }

    /// The name of one piece.
    pub(crate) fn piece(&self, piece: u32) -> String {
        let (prefix, opening, number) = (self.kind.prefix(), self.opening, self.number);
        format!("{prefix}{opening:08x}-{number:016x}/{piece:06}")
    }

    /// The names of all pieces, in their order.
    pub(crate) fn piece_names(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.pieces).map(|piece| self.piece(piece))
    }

    /// The opening and number in the name of a piece of this kind.
    pub(crate) fn parse(kind: Kind, name: &str) -> Option<(u32, u64)> {
        let (container, _) = name.strip_prefix(kind.prefix())?.split_once('/')?;
        let (opening, number) = container.split_once('-')?;
        Some((u32::from_str_radix(opening, 16).ok()?, u64::from_str_radix(number, 16).ok()?))
    }

    fn place(&self, piece: u32) -> BlobPlace {
        BlobPlace { kind: self.kind as u8, piece, sequence: self.number }
    }
}

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
        Self::of_kind(Kind::Full, section_lengths)
    }

    /// Those of an epoch's delta whose sections have these padded lengths.
    pub fn of_delta(section_lengths: impl IntoIterator<Item = usize>) -> Self {
        Self::of_kind(Kind::Delta, std::iter::once(LINK_BYTES).chain(section_lengths))
    }

    fn of_kind(kind: Kind, section_lengths: impl IntoIterator<Item = usize>) -> Self {
        let piece_bytes = kind.piece_bytes();
        let stream: usize = section_lengths.into_iter().map(|length| HEADER_BYTES + length).sum();
        let count = stream.div_ceil(piece_bytes);
        let last = stream - count.saturating_sub(1) * piece_bytes;
        let sealed = |bytes: usize| (bytes + TAG_BYTES) as u64;
        Self { count: count as u32, bytes: sealed(piece_bytes), last_bytes: sealed(last) }
    }

    /// Bytes of all of them.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.count.saturating_sub(1)) * self.bytes + self.last_bytes
    }
}

/// Writes `sections` as container `number` of its kind, sealed by the current keys; returns its name
/// once it is durable. No more than one section and one piece of it are in memory.
pub(crate) async fn write(
    store: &dyn Store,
    keys: &KeyRing,
    (kind, number): (Kind, u64),
    sections: Sections<'_>,
) -> Result<ContainerName> {
    write_in(store, keys, (kind, number), kind.piece_bytes(), sections).await
}

/// The same in pieces of another size.
async fn write_in(
    store: &dyn Store,
    keys: &KeyRing,
    (kind, number): (Kind, u64),
    piece_bytes: usize,
    mut sections: Sections<'_>,
) -> Result<ContainerName> {
    let (opening, keys) = keys.current();
    let name = ContainerName { opening, number, ..ContainerName::none(kind) };
    let (buffer, tags) = (Vec::new(), Vec::new());
    let mut writer = PieceWriter { store, keys, name, piece_bytes, buffer, tags };
    while let Some(section) = compute(|| sections.next()).transpose()? {
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
    keys: &'a IncarnationKeys,
    name: ContainerName,
    piece_bytes: usize,
    buffer: Vec<u8>,
    tags: Vec<Digest>, // digest of each sealed piece
}

impl PieceWriter<'_> {
    async fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (head, tail) =
                bytes.split_at(bytes.len().min(self.piece_bytes - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            bytes = tail;
            self.put_if_full().await?;
        }
        Ok(())
    }

    async fn append_zeros(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            let step = count.min(self.piece_bytes - self.buffer.len());
            self.buffer.resize(self.buffer.len() + step, 0);
            count -= step;
            self.put_if_full().await?;
        }
        Ok(())
    }

    async fn put_if_full(&mut self) -> Result<()> {
        if self.buffer.len() == self.piece_bytes { self.put().await } else { Ok(()) }
    }

    async fn put(&mut self) -> Result<()> {
        let piece = self.tags.len() as u32;
        let name = self.name.piece(piece);
        let plaintext = std::mem::take(&mut self.buffer);
        let sealed = self.keys.blobs().seal(self.name.place(piece), name.as_bytes(), plaintext);
        let sealed = Bytes::from(sealed);
        self.tags.push(digest(&[&sealed]));
        put(self.store, &name, sealed, PutCondition::Always).await?;
        Ok(())
    }

    async fn finish(mut self) -> Result<ContainerName> {
        if !self.buffer.is_empty() {
            self.put().await?;
        }
        let (pieces, digest) = (self.tags.len() as u32, digest(&[self.tags.as_flattened()]));
        Ok(ContainerName { pieces, digest, ..self.name })
    }
}

/// Reads the container called `of`. Every piece is verified and the digest of all compared before
/// anything is returned.
pub(crate) async fn read(
    store: &dyn Store,
    keys: &KeyRing,
    of: ContainerName,
) -> Result<Vec<Section>> {
    let lied = || Error::CloudLied(Suspicion::Piece);
    let keys = keys.of(of.opening).ok_or_else(lied)?;
    let (mut stream, mut tags, mut sections) = (Vec::new(), Vec::new(), Vec::new());
    for (piece, name) in of.piece_names().enumerate() {
        let (sealed, _) = store.blob_get(&name).await?.ok_or_else(lied)?;
        let opened = keys.blobs().open(of.place(piece as u32), name.as_bytes(), &sealed);
        stream.extend_from_slice(&opened.map_err(|_| lied())?);
        tags.push(digest(&[&sealed]));
        take_complete(&mut stream, &mut sections)?;
    }
    if digest(&[tags.as_flattened()]) != of.digest {
        return Err(lied());
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

#[cfg(test)]
mod tests {
    use fogbank_seal::{MasterKey, Salt, StoreId};
    use fogbank_store::MemoryStore;

    use super::*;

    /// How long pieces are has changed, and stores stay: the commit record says how many there are, and each
    /// says itself how long it is.
    #[tokio::test]
    async fn pieces_of_any_size_are_read() {
        let (store, master) = (MemoryStore::new(), MasterKey::from_bytes(&mut [7; 32]));
        let keys = KeyRing::derive(&master, StoreId([1; 16]), &[Salt([2; 16])]).unwrap();
        let section = |tag, length: usize| {
            let data = (0..length).map(|byte| byte as u8).collect();
            Section { tag, padded_len: length + 100, data }
        };
        let sections = || vec![section(1, 0), section(2, 1_500_000), section(3, 1)];
        let stream: usize = sections().iter().map(|each| HEADER_BYTES + each.padded_len).sum();
        for kind in [Kind::Full, Kind::Delta] {
            for (number, piece_bytes) in [9_999, 1 << 20, 8 << 20].into_iter().enumerate() {
                let place = (kind, number as u64);
                let made = Box::new(sections().into_iter().map(Ok));
                let name = write_in(&store, &keys, place, piece_bytes, made).await.unwrap();
                assert_eq!(name.pieces as usize, stream.div_ceil(piece_bytes));
                assert_eq!(read(&store, &keys, name).await.unwrap(), sections(), "{piece_bytes}");
                // The canary: of another number of pieces it is not what was written.
                let fewer = ContainerName { pieces: name.pieces - 1, ..name };
                assert!(read(&store, &keys, fewer).await.is_err());
            }
        }
    }
}
