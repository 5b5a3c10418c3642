//! What a request may name, given the shape of an array.
//!
//! Every back end checks the same things in the same words, before it touches anything: a request
//! that fails here has had no effect. The checks read the request only, which the cloud sees.

use crate::{
    ArrayId, ArrayShape, BlobTag, CellRead, CellReads, ChunkName, ChunkWrite, Result, StoreError,
};

/// No chunk is larger than this: a length beyond it is a mistake, not a wish.
pub const CHUNK_BYTES_MAX: usize = 1 << 30;

/// Names of blobs in a list; of more it may leave some out. A checkpoint of so many pieces of 1 MiB
/// would be larger than a proxy's memory, and the journal has some hundreds of records.
pub const BLOBS_LISTED_MAX: u64 = 1 << 20;

/// Entity tags of providers have some tens of bytes, generations of Google nineteen, our own up to
/// 36.
pub const TAG_BYTES_MAX: usize = 256;

const LISTED_VERSIONS: u64 = 8;
/// For arrays of a few chunks.
const LISTED_SPARE: u64 = 1024;

/// File systems take names of 255 bytes; a few are left for whoever copies a store with suffixes.
const BLOB_FILE_NAME_BYTES_MAX: usize = 240;

impl ArrayShape {
    /// Whether such an array can be.
    pub fn check(&self) -> Result<()> {
        if self.chunks == 0 || self.cells_per_chunk == 0 || self.cell_bytes == 0 {
            return Err(StoreError::Caller(format!("an array needs some of everything: {self:?}")));
        }
        if self.chunk_bytes() > CHUNK_BYTES_MAX {
            return Err(StoreError::Caller(format!(
                "chunks of {} bytes are larger than {CHUNK_BYTES_MAX}",
                self.chunk_bytes()
            )));
        }
        Ok(())
    }

    /// So many chunk versions a list has, of a store that was not stopped very often; of more it
    /// may leave some out ([`crate::Store::list_chunks`]).
    ///
    /// Of a chunk there are three versions while all goes well: the one that counts, one being
    /// written, one being deleted. A proxy that has overtaken this one may have three of its own.
    /// An opening that stops before it has swept leaves two at most. So in a list of eight, one at
    /// least is left over.
    pub fn listed_max(&self) -> u64 {
        u64::from(self.chunks) * LISTED_VERSIONS + LISTED_SPARE
    }

    /// Whether `name` lies in an array of this shape.
    pub fn check_chunk(&self, name: ChunkName) -> Result<()> {
        if name.chunk < self.chunks {
            return Ok(());
        }
        Err(StoreError::Caller(format!(
            "chunk {} of array {}, which has {}",
            name.chunk, name.array.0, self.chunks
        )))
    }

    /// Whether `read` names cells that can be, strictly increasing.
    pub fn check_read(&self, read: CellRead<'_>) -> Result<()> {
        self.check_chunk(read.chunk)?;
        if let Some(last) = read.cells.last()
            && *last >= self.cells_per_chunk
        {
            return Err(StoreError::Caller(format!(
                "cell {last} of a chunk of array {}, which has {}",
                read.chunk.array.0, self.cells_per_chunk
            )));
        }
        if read.cells.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(StoreError::Caller("the cells of a read must strictly increase".into()));
        }
        Ok(())
    }

    /// Whether `write` is one whole chunk of this shape.
    pub fn check_write(&self, write: &ChunkWrite) -> Result<()> {
        self.check_chunk(write.chunk)?;
        if write.data.len() == self.chunk_bytes() {
            return Ok(());
        }
        Err(StoreError::Caller(format!(
            "{} bytes for a chunk of array {}, which takes {}",
            write.data.len(),
            write.chunk.array.0,
            self.chunk_bytes()
        )))
    }
}

/// The tag that a cloud says a blob has: text that can be shown and sent back.
///
/// # Errors
/// [`StoreError::Misbehaved`] if it is empty, longer than [`TAG_BYTES_MAX`], or anything but plain
/// text.
pub fn tag(said: impl Into<Box<str>>) -> Result<BlobTag> {
    let said = said.into();
    let plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if said.is_empty() || said.len() > TAG_BYTES_MAX || !said.bytes().all(plain) {
        return Err(StoreError::Misbehaved("a blob's tag is none".into()));
    }
    Ok(BlobTag(said))
}

/// Whether a blob may have this name: it must fit a file's, after [`blob_file_name`].
pub fn check_blob_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(StoreError::Caller("a blob needs a name".into()));
    }
    if blob_file_name(name).len() > BLOB_FILE_NAME_BYTES_MAX {
        return Err(StoreError::Caller(format!("the blob name {name:?} is too long")));
    }
    Ok(())
}

/// The name of the file that keeps the blob `name`: letters, digits, `_`, `-` and inner dots as
/// they are, every other byte as `%XX`, so that no name leaves its folder or meets a reserved one.
pub fn blob_file_name(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len() + 8);
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => encoded.push(byte as char),
            b'.' if index > 0 => encoded.push('.'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The blob that the file `encoded` keeps; `None` if it is no blob's.
pub fn blob_name(encoded: &str) -> Option<String> {
    let mut name = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            name.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            name.push(byte);
        }
    }
    let name = String::from_utf8(name).ok()?;
    (blob_file_name(&name) == encoded).then_some(name)
}

/// The error for an array that was not created.
pub fn no_array(array: ArrayId) -> StoreError {
    StoreError::NoArray(format!("there is no array {}", array.0))
}

/// Whether an array that is `there` has the `shape` that it was made with.
///
/// # Errors
/// [`StoreError::Misbehaved`] if it has not, or there is none.
pub fn as_expected(array: ArrayId, shape: ArrayShape, there: Option<ArrayShape>) -> Result<()> {
    if there == Some(shape) {
        return Ok(());
    }
    Err(StoreError::Misbehaved(format!("array {} is not there as it was made", array.0)))
}

/// The error for a chunk version written a second time with other bytes.
pub fn rewritten(name: ChunkName) -> StoreError {
    StoreError::Caller(format!(
        "version {} of chunk {} of array {} exists with other bytes",
        name.version, name.chunk, name.array.0
    ))
}

/// Whether `groups` cut `reads` into groups of at least one cell, leaving nothing over.
pub fn check_groups(reads: &CellReads, groups: &[u32]) -> Result<()> {
    let mut start = 0;
    for &end in groups {
        let end = end as usize;
        if end > reads.len() || end < start {
            return Err(StoreError::Caller("groups must cut the reads in order".into()));
        }
        if (start..end).all(|read| reads.get(read).cells.is_empty()) {
            return Err(StoreError::Caller("the XOR of no cells is nothing to ask for".into()));
        }
        start = end;
    }
    if start != reads.len() {
        return Err(StoreError::Caller("the last group must end with the reads".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blob_names_survive_as_file_names() {
        for name in ["a", "journal/0001", "..", ".", "a.b", "%41", "ö/\0 x", "-", "A_b-9"] {
            let file = blob_file_name(name);
            assert!(!file.contains('/') && !file.starts_with('.'), "{file}");
            assert_eq!(blob_name(&file).as_deref(), Some(name));
        }
        for foreign in ["%4", "%zz", ".hidden", "%41", "%c3%b6", "a b"] {
            assert_eq!(blob_name(foreign), None, "{foreign}");
        }
        assert!(check_blob_name("").is_err());
        assert!(tag("\"0x8D-7\"").is_ok() && tag("x".repeat(TAG_BYTES_MAX)).is_ok());
        for none in ["", "a\n", "\u{e9}", &"x".repeat(TAG_BYTES_MAX + 1)] {
            assert!(matches!(tag(none), Err(StoreError::Misbehaved(_))), "{none:?}");
        }
        assert!(check_blob_name(&"x".repeat(240)).is_ok());
        assert!(check_blob_name(&"/".repeat(81)).is_err());
    }
}
