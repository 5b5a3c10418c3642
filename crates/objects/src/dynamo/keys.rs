//! Which item holds what. Every item has a partition key `p` and a sort key `s`, both text.
//!
//! ```text
//! p                                   s                             what
//! format                              -                             says which of these layouts it is
//! arrays                              AAAA                          the shape of an array
//! chunks/AAAA/D                       CCCCCCCC-VVVVVVVVVVVVVVVV     that a chunk version is there
//! cells/AAAA/CCCCCCCC-VVVV...         IIII                          a cell of it
//! blobs/D                             NAME                          a blob, or its head
//! parts/NAME/TAG                      NNNN                          a part of a long blob
//! ```
//!
//! The store's prefix stands before `p`. Numbers are hexadecimal of fixed width. A partition of a
//! table takes so much traffic and no more, so cells lie in one each chunk version, and lists in
//! sixteen: `D` is the last digit of the chunk, or of the sum of the bytes of a blob's name.

use fogbank_store::{ArrayId, ChunkName};

use crate::names::SHARDS;

/// The key of an item.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub partition: String,
    pub sort: String,
}

/// Makes keys under a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// Empty, or ends with `/`.
    pub prefix: String,
}

impl Keys {
    pub(crate) fn format(&self) -> Key {
        self.key("format", "-".into())
    }

    pub(crate) fn array(&self, array: ArrayId) -> Key {
        self.key("arrays", format!("{:04x}", array.0))
    }

    /// The item that says that a chunk version is there.
    pub(crate) fn chunk(&self, name: ChunkName) -> Key {
        Key { partition: self.shard(name.array, name.chunk % SHARDS), sort: chunk_word(name) }
    }

    /// The partition of the chunks of `array` that end with the digit `shard`.
    pub(crate) fn shard(&self, array: ArrayId, shard: u32) -> String {
        format!("{}chunks/{:04x}/{shard:x}", self.prefix, array.0)
    }

    /// The chunk version of `array` whose item has the sort key `sort`; `None` if it is none.
    pub(crate) fn parse_chunk(array: ArrayId, sort: &str) -> Option<ChunkName> {
        let (chunk, version) = sort.split_once('-')?;
        let chunk = u32::from_str_radix(chunk, 16).ok()?;
        let version = u64::from_str_radix(version, 16).ok()?;
        let name = ChunkName { array, chunk, version };
        (chunk_word(name) == sort).then_some(name)
    }

    pub(crate) fn cell(&self, name: ChunkName, cell: u16) -> Key {
        Key { partition: self.cells(name), sort: format!("{cell:04x}") }
    }

    /// The partition of the cells of a chunk version.
    pub(crate) fn cells(&self, name: ChunkName) -> String {
        format!("{}cells/{:04x}/{}", self.prefix, name.array.0, chunk_word(name))
    }

    /// The cell whose item has the sort key `sort`.
    pub(crate) fn parse_cell(sort: &str) -> Option<u16> {
        u16::from_str_radix(sort, 16).ok().filter(|cell| format!("{cell:04x}") == sort)
    }

    pub(crate) fn blob(&self, name: &str) -> Key {
        let sum = name.bytes().fold(0, |sum, byte| sum + u32::from(byte));
        Key { partition: self.blob_shard(sum % SHARDS), sort: name.into() }
    }

    pub(crate) fn blob_shard(&self, shard: u32) -> String {
        format!("{}blobs/{shard:x}", self.prefix)
    }

    /// Part `number` of the content of the blob `name` that has this tag.
    pub(crate) fn part(&self, name: &str, tag: &str, number: usize) -> Key {
        self.key(&format!("parts/{name}/{tag}"), format!("{number:04x}"))
    }

    fn key(&self, partition: &str, sort: String) -> Key {
        Key { partition: format!("{}{partition}", self.prefix), sort }
    }
}

fn chunk_word(name: ChunkName) -> String {
    format!("{:08x}-{:016x}", name.chunk, name.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_keys_and_back() {
        let keys = Keys { prefix: "p/".into() };
        let array = ArrayId(0x1f);
        for (chunk, version) in [(0, 0), (0x2a, 1 << 40), (u32::MAX, u64::MAX)] {
            let name = ChunkName { array, chunk, version };
            let key = keys.chunk(name);
            assert_eq!(Keys::parse_chunk(array, &key.sort), Some(name));
            assert_eq!(key.partition, keys.shard(array, chunk % SHARDS));
            for cell in [0, 0x2a, u16::MAX] {
                let key = keys.cell(name, cell);
                assert_eq!(key.partition, keys.cells(name));
                assert_eq!(Keys::parse_cell(&key.sort), Some(cell));
            }
        }
        let name = ChunkName { array, chunk: 0x2a, version: 1 << 40 };
        assert_eq!(keys.chunk(name).partition, "p/chunks/001f/a");
        assert_eq!(keys.cells(name), "p/cells/001f/0000002a-0000010000000000");
        for foreign in ["", "2a-1", "0000002A-0000010000000000", "0000002a-000001000000000"] {
            assert_eq!(Keys::parse_chunk(array, foreign), None);
        }
        assert_eq!(Keys::parse_cell("2a"), None);
        assert_eq!(keys.blob("commit").partition, keys.blob("commit").partition);
        assert_ne!(keys.blob("a").partition, keys.blob("b").partition);
    }
}
