//! A checkpoint or an epoch's delta on the cloud: sections one after the other, cut into sealed
//! pieces of one size.
//!
//! ```text
//! stream   per section: 2 tag | 8 length | 8 padded length | data | zeros up to the padded length
//! piece    so much of the stream ([`Piecing`]), sealed; nonce (kind, piece, number), bound to its name
//! ```
//! The stream's length, so the number and size of pieces, follows from public configuration.

use std::sync::Arc;

use fogbank_env::compute;
use fogbank_seal::{BlobPlace, Digest, KeyRing, TAG_BYTES, digest};
use fogbank_store::Store;

use crate::error::{Blob, Suspicion, asked};
use crate::link::LINK_BYTES;
use crate::piece_writer::PieceWriter;
use crate::section::SectionReader;
use crate::{Error, Piecing, Result, Section, Sections};

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
    /// The prefix of the names of all pieces of this kind.
    pub(crate) const fn prefix(self) -> &'static str {
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
        piece_name(self.kind, self.opening, self.number, piece)
    }

    /// What is wrong if this piece is.
    pub(crate) fn suspicion(&self, piece: u32) -> Suspicion {
        let (opening, number) = (self.opening, self.number);
        Suspicion::Piece(match self.kind {
            Kind::Full => Blob::Checkpoint { opening, sequence: number, piece },
            Kind::Delta => Blob::Delta { opening, epoch: number, piece },
        })
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

    pub(crate) fn place(&self, piece: u32) -> BlobPlace {
        BlobPlace { kind: self.kind as u8, piece, sequence: self.number }
    }
}

/// The name of a piece of a container.
pub(crate) fn piece_name(kind: Kind, opening: u32, number: u64, piece: u32) -> String {
    format!("{}{opening:08x}-{number:016x}/{piece:06}", kind.prefix())
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

impl Piecing {
    /// The pieces of a checkpoint whose sections have these padded lengths.
    pub fn checkpoint(&self, section_lengths: impl IntoIterator<Item = usize>) -> Pieces {
        let stream: usize = section_lengths.into_iter().map(|length| HEADER_BYTES + length).sum();
        let count = stream.div_ceil(self.bytes);
        let last = stream - count.saturating_sub(1) * self.bytes;
        let sealed = |bytes: usize| (bytes + TAG_BYTES) as u64;
        Pieces { count: count as u32, bytes: sealed(self.bytes), last_bytes: sealed(last) }
    }

    /// Those of an epoch's delta whose sections have these padded lengths.
    pub fn delta(&self, section_lengths: impl IntoIterator<Item = usize>) -> Pieces {
        self.checkpoint(std::iter::once(LINK_BYTES).chain(section_lengths))
    }
}

impl Pieces {
    /// Bytes of all of them.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.count.saturating_sub(1)) * self.bytes + self.last_bytes
    }
}

/// Writes `sections` as container `number` of its kind, sealed by the current keys; returns its
/// name once it is durable. No more than one section, the pieces under way and one more are in
/// memory.
pub(crate) async fn write(
    store: &Arc<dyn Store>,
    keys: &KeyRing,
    (kind, number): (Kind, u64),
    pieces: Piecing,
    mut sections: Sections<'_>,
) -> Result<ContainerName> {
    let (opening, keys) = keys.current();
    let name = ContainerName { opening, number, ..ContainerName::none(kind) };
    let mut writer = PieceWriter::new(store.clone(), keys, name, pieces);
    let written = write_sections(&mut writer, &mut sections).await;
    if written.is_err() {
        writer.stop().await;
    }
    written
}

async fn write_sections(
    writer: &mut PieceWriter<'_>,
    sections: &mut Sections<'_>,
) -> Result<ContainerName> {
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

/// Reads the container called `of`. Every piece is verified and the digest of all compared before
/// anything is returned.
pub(crate) async fn read(
    store: &dyn Store,
    keys: &KeyRing,
    of: ContainerName,
) -> Result<Vec<Section>> {
    let lied = |piece| Error::CloudLied(of.suspicion(piece));
    let keys = keys.of(of.opening).ok_or_else(|| lied(0))?;
    let (mut incoming, mut tags) = (Incoming::default(), Vec::new());
    for (piece, name) in (0..).zip(of.piece_names()) {
        let found = store.blob_get(&name).await.map_err(|e| asked(e, of.suspicion(piece)))?;
        let (sealed, _) = found.ok_or_else(|| lied(piece))?;
        let opened = keys.blobs().open(of.place(piece), name.as_bytes(), &sealed);
        incoming.take(&opened.map_err(|_| lied(piece))?)?;
        tags.push(digest(&[&sealed]));
    }
    if digest(&[tags.as_flattened()]) != of.digest {
        // Each is one that was sealed for its place, and not all are of one writing.
        return Err(lied(0));
    }
    incoming.end()
}

/// A stream of sections as it comes in: nothing of it is here twice, and no padding.
#[derive(Default)]
struct Incoming {
    head: Vec<u8>,
    open: Option<Coming>,
    sections: Vec<Section>,
}

/// A section of which something is to come.
struct Coming {
    section: Section,
    length: usize,
    /// Bytes to come, padding too.
    missing: usize,
}

impl Incoming {
    /// Takes in what comes next.
    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            let Some(Coming { section, length, missing }) = &mut self.open else {
                let lacks = HEADER_BYTES - self.head.len();
                let (head, rest) = bytes.split_at(lacks.min(bytes.len()));
                self.head.extend_from_slice(head);
                if self.head.len() < HEADER_BYTES {
                    return Ok(());
                }
                bytes = rest;
                self.open = Some(Coming::new(&std::mem::take(&mut self.head))?);
                continue;
            };
            let (here, rest) = bytes.split_at((*missing).min(bytes.len()));
            let data = here.len().min(*length - section.data.len());
            section.data.extend_from_slice(&here[..data]);
            (bytes, *missing) = (rest, *missing - here.len());
            if *missing > 0 {
                return Ok(());
            }
            self.sections.extend(self.open.take().map(|coming| coming.section));
        }
    }

    /// All sections, if nothing of one is missing.
    fn end(self) -> Result<Vec<Section>> {
        match self.head.is_empty() && self.open.is_none() {
            true => Ok(self.sections),
            false => Err(Error::Bug("bytes after the last section".into())),
        }
    }
}

impl Coming {
    fn new(head: &[u8]) -> Result<Self> {
        let mut r = SectionReader(head);
        let (tag, length, padded_len) = (r.u16()?, r.u64()? as usize, r.u64()? as usize);
        if length > padded_len {
            return Err(Error::Bug("section past its end".into()));
        }
        // As long as it says: the piece that says so has verified.
        let section = Section { tag, padded_len, data: Vec::with_capacity(length) };
        Ok(Self { section, length, missing: padded_len })
    }
}
