//! Which object holds what: names under the prefix of the store.
//!
//! ```text
//! format                                      says which of these layouts it is
//! arrays/AAAA                                 the shape of an array
//! chunks/AAAA/D/CCCCCCCC-VVVVVVVVVVVVVVVV     a chunk version: array, chunk, version
//! blobs/NAME                                  a blob
//! ```
//!
//! Numbers are hexadecimal of fixed width, so that a list comes in their order. `D` is the chunk's
//! last digit: providers spread load over ranges of names, and an array that is used evenly uses
//! all sixteen folders evenly, however large it is; and sixteen lists can run side by side.
//!
//! A blob's name is kept readable: its segments between `/` are written as the names of files are
//! (`fogbank_store::shape::blob_file_name`), an empty one as `%`, which no other becomes. All but
//! the last end with `~`: some servers keep objects as files, where `a` and `a/b` cannot both be.

use fogbank_store::shape::{blob_file_name, blob_name};
use fogbank_store::{ArrayId, ChunkName, Result, StoreError};
use object_store::path::Path;

/// The folders of an array's chunks.
pub(crate) const SHARDS: u32 = 16;

/// Names objects under a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// Empty, or ends with `/`.
    prefix: String,
}

impl Names {
    /// Names under `prefix`, which may be empty.
    pub(crate) fn under(prefix: &str) -> Result<Self> {
        let prefix = prefix.trim_matches('/');
        Path::parse(prefix).map_err(|e| StoreError::Caller(format!("the store's prefix: {e}")))?;
        if prefix.len() > PREFIX_BYTES_MAX {
            let words = format!("the store's prefix is longer than {PREFIX_BYTES_MAX} bytes");
            return Err(StoreError::Caller(words));
        }
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Self { prefix: format!("{prefix}{slash}") })
    }

    /// Empty, or ends with `/`.
    #[cfg(feature = "dynamodb")]
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn format(&self) -> Result<Path> {
        self.path("format")
    }

    pub(crate) fn array(&self, array: ArrayId) -> Result<Path> {
        self.path(&format!("arrays/{:04x}", array.0))
    }

    /// The folder of the shapes of all arrays.
    pub(crate) fn array_folder(&self) -> Result<Path> {
        self.path("arrays")
    }

    /// The array whose shape the object `path` holds; `None` if it is none.
    pub(crate) fn parse_array(&self, path: &Path) -> Option<ArrayId> {
        let array = ArrayId(u16::from_str_radix(path.filename()?, 16).ok()?);
        (self.array(array).ok()? == *path).then_some(array)
    }

    pub(crate) fn chunk(&self, name: ChunkName) -> Result<Path> {
        let ChunkName { array, chunk, version } = name;
        let shard = chunk % SHARDS;
        self.path(&format!("chunks/{:04x}/{shard:x}/{chunk:08x}-{version:016x}", array.0))
    }

    /// The folder of those chunks of `array` that end with the digit `shard`.
    pub(crate) fn shard(&self, array: ArrayId, shard: u32) -> Result<Path> {
        self.path(&format!("chunks/{:04x}/{shard:x}", array.0))
    }

    /// The chunk version of `array` that the object `path` is; `None` if it is none.
    pub(crate) fn parse_chunk(&self, array: ArrayId, path: &Path) -> Option<ChunkName> {
        let (chunk, version) = path.filename()?.split_once('-')?;
        let name = ChunkName {
            array,
            chunk: u32::from_str_radix(chunk, 16).ok()?,
            version: u64::from_str_radix(version, 16).ok()?,
        };
        (self.chunk(name).ok()? == *path).then_some(name)
    }

    pub(crate) fn blob(&self, name: &str) -> Result<Path> {
        let segments: Vec<String> = name.split('/').map(encode_segment).collect();
        self.path(&format!("blobs/{}", segments.join(FOLDER_END)))
    }

    /// The folder that holds all blobs whose names start with `prefix`, and maybe others.
    pub(crate) fn blob_folder(&self, prefix: &str) -> Result<Path> {
        match prefix.rsplit_once('/') {
            Some((folder, _)) => {
                let folder = self.blob(folder)?;
                Path::parse(format!("{folder}~")).map_err(|e| StoreError::Caller(e.to_string()))
            }
            None => self.path("blobs"),
        }
    }

    /// The blob that the object `path` is; `None` if it is none.
    pub(crate) fn parse_blob(&self, path: &Path) -> Option<String> {
        let rest = path.as_ref().strip_prefix(&self.prefix)?.strip_prefix("blobs/")?;
        let segments: Option<Vec<String>> = rest.split(FOLDER_END).map(decode_segment).collect();
        Some(segments?.join("/"))
    }

    fn path(&self, rest: &str) -> Result<Path> {
        Path::parse(format!("{}{rest}", self.prefix))
            .map_err(|e| StoreError::Caller(format!("an object's name: {e}")))
    }
}

fn encode_segment(segment: &str) -> String {
    if segment.is_empty() { EMPTY_SEGMENT.into() } else { blob_file_name(segment) }
}

fn decode_segment(encoded: &str) -> Option<String> {
    if encoded == EMPTY_SEGMENT { Some(String::new()) } else { blob_name(encoded) }
}

const FOLDER_END: &str = "~/";
const EMPTY_SEGMENT: &str = "%";
/// Names of objects have 1,024 bytes with all providers; ours take less than half of that.
const PREFIX_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(chunk: u32, version: u64) -> ChunkName {
        ChunkName { array: ArrayId(0x1f), chunk, version }
    }

    #[test]
    fn chunks_have_names_of_one_length_and_back() {
        for prefix in ["", "a", "/a/b c/"] {
            let names = Names::under(prefix).unwrap();
            for name in [name(0, 0), name(0x2a, 1 << 40), name(u32::MAX, u64::MAX)] {
                let path = names.chunk(name).unwrap();
                assert_eq!(names.parse_chunk(name.array, &path), Some(name));
                assert_eq!(names.parse_chunk(ArrayId(1), &path), None);
                assert!(path.prefix_matches(&names.shard(name.array, name.chunk % 16).unwrap()));
                let length = names.prefix.len() + "chunks/001f/a/0000002a-0000010000000000".len();
                assert_eq!(path.as_ref().len(), length);
            }
        }
        let names = Names::under("p").unwrap();
        assert_eq!(
            names.chunk(name(0x2a, 1 << 40)).unwrap().as_ref(),
            "p/chunks/001f/a/0000002a-0000010000000000"
        );
        for foreign in ["p/chunks/001f/b/0000002a-0000010000000000", "p/chunks/001f/a/2a-1", "x"] {
            let path = Path::parse(foreign).unwrap();
            assert_eq!(names.parse_chunk(ArrayId(0x1f), &path), None, "{foreign}");
        }
    }

    #[test]
    fn arrays_have_names_and_back() {
        let names = Names::under("p").unwrap();
        for array in [0, 0x1f, u16::MAX].map(ArrayId) {
            assert_eq!(names.parse_array(&names.array(array).unwrap()), Some(array));
        }
        for foreign in ["p/arrays/1f", "p/arrays/001F", "p/arrays/x/001f", "q/arrays/001f"] {
            assert_eq!(names.parse_array(&Path::parse(foreign).unwrap()), None, "{foreign}");
        }
    }

    #[test]
    fn blobs_keep_their_names() {
        let names = Names::under("p").unwrap();
        for blob in ["commit", "journal/00-01", "", "/", "a//b", "..", "a/../b", "%", "ö \0", "a/"]
        {
            let path = names.blob(blob).unwrap();
            assert_eq!(names.parse_blob(&path).as_deref(), Some(blob), "{path}");
        }
        assert_eq!(names.blob("journal/00-01").unwrap().as_ref(), "p/blobs/journal~/00-01");
        assert_eq!(names.blob_folder("journal/00").unwrap().as_ref(), "p/blobs/journal~");
        assert_eq!(names.blob_folder("jour").unwrap().as_ref(), "p/blobs");
        for foreign in ["q/blobs/a", "p/blobs/a/b", "p/blobs/%41", "p/arrays/0001"] {
            assert_eq!(names.parse_blob(&Path::parse(foreign).unwrap()), None, "{foreign}");
        }
    }

    #[test]
    fn a_prefix_is_plain() {
        for wrong in ["a/../b", "a//b", &"x".repeat(513)] {
            assert!(matches!(Names::under(wrong), Err(StoreError::Caller(_))), "{wrong}");
        }
    }
}
