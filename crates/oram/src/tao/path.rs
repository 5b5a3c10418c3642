//! Buckets as the cloud holds them: a path opened, a write-back sealed.
//!
//! Every cell of a path is verified before anything of it is used, dummies as well.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::compute;
use fogbank_seal::{KeyRing, Place, TAG_BYTES};
use fogbank_store::{ArrayId, ArrayShape, ChunkName, ChunkWrite};
use rayon::prelude::*;

use super::journal::{self, Entry};
use super::processor::{PathRequest, Processor};
use super::writeback::{WriteBack, Written};
use crate::geometry::{BLOCK_ID_BYTES, Geometry, opening_of, tick_of, version};
use crate::immediate::arrival::PADDING;
use crate::immediate::plane::{Codec, Message, Reply};
use crate::{Error, Result, Unverified, miscounted};

/// What a dummy says its block is.
const DUMMY: u64 = u64::MAX;

/// A bucket of a path that has come back: its blocks, each with its plaintext (id and value).
#[derive(Debug)]
pub struct Opened {
    pub name: ChunkName,
    pub blocks: Vec<(u32, Box<[u8]>)>,
}

/// Seals and opens buckets and records.
#[derive(Debug)]
pub struct TaoCodec {
    pub keys: Arc<KeyRing>,
    pub geometry: Geometry,
    pub array: ArrayId,
}

impl Codec<Processor> for TaoCodec {
    fn arrays(&self) -> Vec<(ArrayId, ArrayShape)> {
        vec![(self.array, self.geometry.array_shape())]
    }

    fn encode(&self, parts: &[Entry], _: usize) -> Vec<u8> {
        journal::encode(parts.iter(), self.geometry.value_bytes)
    }

    fn open(&self, _: &PathRequest, message: &Message, reply: Reply) -> Result<Vec<Opened>> {
        let (Message::Chunks(names), Reply::Chunks(chunks)) = (message, reply) else {
            return Err(Error::Bug("a path is read by its buckets".into()));
        };
        if chunks.len() != names.len() {
            return Err(miscounted(chunks.len(), names.len()));
        }
        let buckets = names.iter().zip(chunks);
        let open =
            |(name, chunk): (&ChunkName, _)| open_bucket(&self.keys, &self.geometry, *name, chunk);
        buckets.map(open).collect()
    }

    fn seal(&self, due: WriteBack) -> (Written, Vec<ChunkWrite>) {
        let WriteBack { tick, flushed, images } = due;
        let opening = self.keys.current().0;
        let chunks: Vec<u32> = images.iter().map(|(chunk, _)| *chunk).collect();
        let writes = compute(|| {
            let sealed = images.into_par_iter().map(|(chunk, image)| {
                let name = ChunkName { array: self.array, chunk, version: version(opening, tick) };
                seal(&self.keys, &self.geometry, name, image)
            });
            sealed.collect()
        });
        (Written { tick, flushed, chunks }, writes)
    }

    fn reply_bytes(&self, message: &Message) -> u64 {
        match message {
            Message::Chunks(names) => (names.len() * self.geometry.chunk_bytes()) as u64,
            Message::Cells(reads) => (reads.cell_count() * self.geometry.cell_bytes()) as u64,
        }
    }
}

fn open_bucket(
    keys: &KeyRing,
    geometry: &Geometry,
    name: ChunkName,
    chunk: Option<Bytes>,
) -> Result<Opened> {
    let chunk = chunk.filter(|chunk| chunk.len() == geometry.chunk_bytes());
    let keys = keys.of(opening_of(&name));
    let (Some(chunk), Some(keys)) = (chunk, keys) else {
        return Err(Error::CloudLied(Unverified::Chunk(name)));
    };
    let mut blocks = Vec::new();
    let mut plaintext = Vec::new();
    for (cell, sealed) in chunk.chunks_exact(geometry.cell_bytes()).enumerate() {
        plaintext.resize(geometry.plaintext_bytes(), 0);
        let opened = keys.cells().open(place(&name, cell), sealed, &mut plaintext);
        let lied = |_| Unverified::Cell { chunk: name, cell: cell as u16 };
        opened.map_err(|forged| Error::CloudLied(lied(forged)))?;
        let id = plaintext.first_chunk::<BLOCK_ID_BYTES>().map(|id| u64::from_le_bytes(*id));
        match id {
            Some(DUMMY) => {}
            Some(id) if id < u64::from(geometry.capacity) => {
                blocks.push((id as u32, std::mem::take(&mut plaintext).into_boxed_slice()));
            }
            _ => return Err(Error::Bug("a cell holds no block of this store".into())),
        }
    }
    Ok(Opened { name, blocks })
}

/// The image of a bucket before it is sealed: the plaintexts of its blocks, then dummies, with room
/// for a tag behind each.
pub(super) fn image<'a>(geometry: &Geometry, blocks: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut image = Vec::with_capacity(geometry.chunk_bytes());
    for plaintext in blocks {
        image.extend_from_slice(plaintext);
        image.extend_from_slice(&[0; TAG_BYTES]);
    }
    while image.len() < geometry.chunk_bytes() {
        image.extend_from_slice(&DUMMY.to_le_bytes());
        image.resize(image.len() - BLOCK_ID_BYTES + geometry.cell_bytes(), 0);
    }
    image
}

/// Seals an image in place.
pub(super) fn seal(
    keys: &KeyRing,
    geometry: &Geometry,
    chunk: ChunkName,
    mut image: Vec<u8>,
) -> ChunkWrite {
    let (_, keys) = keys.current();
    for (cell, bytes) in image.chunks_exact_mut(geometry.cell_bytes()).enumerate() {
        keys.cells().seal(place(&chunk, cell), bytes);
    }
    ChunkWrite { chunk, data: image.into() }
}

/// The AEAD is bound to bucket and time stamp: both are in the nonce.
fn place(name: &ChunkName, cell: usize) -> Place {
    Place { array: name.array.0 as u8, chunk: name.chunk, cell: cell as u16, tick: tick_of(name) }
}

const _: () = assert!(PADDING as u64 != DUMMY, "ids are told apart by their width");
