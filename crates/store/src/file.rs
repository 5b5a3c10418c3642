//! A store in a folder of a local disk.
//!
//! ```text
//! DIR/format            "fogbank file store 1"
//! DIR/lock              locked while blobs are named and arrays come and go; counts blob puts
//! DIR/blobs/NAME        one file a blob
//! DIR/tmp/              blobs being written
//! DIR/arrays/00007/     shape, cells (one frame a chunk version), frames (what each frame holds)
//! ```
//!
//! Creating an array is instant: files grow as chunks are written. Folders are 0700, files 0600.
//! Several handles, in one process or several, may use one folder: conditional puts are atomic
//! among them, and each array is owned by one at a time (see `file/array.rs`). All work is done on
//! the calling thread and a small pool, never across an `await`: with paused time it simply runs.
//!
//! What the cloud sees: this is the cloud. The layout on the disk follows from the calls alone.

mod array;
mod blobs;
mod buffers;
mod disk;
mod frames;
mod index;
mod owned;
mod reads;
mod scan;
mod shape_file;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{RwLock, compute};

use self::array::{ArrayFile, Trouble};
use self::blobs::Blobs;
use self::buffers::Buffers;
use self::disk::{FileLock, failed, make_folder, read_small, sync_folder, write_new_file};
use self::reads::{Part, Wanted, read_all};
use crate::shape::{as_expected, check_groups, no_array};
use crate::xor::fold;
use crate::{
    ArrayId, ArrayShape, BlobTag, Cell, CellReads, ChunkName, ChunkWrite, PlaceHashing, PlaceMap,
    PutCondition, PutOutcome, Result, Store, StoreError, XorCells,
};

/// Settings of a [`FileStore`].
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Threads that read at once. More than there are cores keeps a disk's queue filled.
    pub read_threads: usize,
    /// How places are hashed: keyed where others than the operator choose them.
    pub hashing: PlaceHashing,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { read_threads: 4, hashing: PlaceHashing::default() }
    }
}

/// A store in a folder.
#[derive(Debug)]
pub struct FileStore {
    root: PathBuf,
    lock: FileLock,
    blobs: Blobs,
    arrays: RwLock<PlaceMap<ArrayId, Arc<ArrayFile>>>,
    pool: rayon::ThreadPool,
    buffers: Buffers,
    hashing: PlaceHashing,
}

impl FileStore {
    /// Opens the store in `folder`, making it if there is none.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(folder, &FileOptions::default())
    }

    /// Opens the store in `folder` with settings.
    pub fn open_with(folder: impl AsRef<Path>, options: &FileOptions) -> Result<Self> {
        let root = folder.as_ref().to_owned();
        make_folder(&root.join("arrays"))?;
        let lock = FileLock::open(&root.join("lock"))?;
        check_format(&root, &lock)?;
        let blobs = Blobs::open(&root, &lock)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.read_threads.max(1))
            .thread_name(|index| format!("store-read-{index}"))
            .build()
            .map_err(|error| StoreError::Absent(format!("no threads to read with: {error}")))?;
        let (arrays, buffers) = (RwLock::default(), Buffers::default());
        let hashing = options.hashing;
        let store = Self { root, lock, blobs, arrays, pool, buffers, hashing };
        store.remove_leftovers()?;
        Ok(store)
    }

    /// The arrays that are there, by number, with their shapes.
    ///
    /// # Errors
    /// By blame, as those of [`Store`].
    pub fn arrays(&self) -> Result<Vec<(ArrayId, ArrayShape)>> {
        let folder = self.root.join("arrays");
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| failed("list", &folder, &error))? {
            let entry = entry.map_err(|error| failed("list", &folder, &error))?;
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(array) =
                number.map(|id| self.find_array(ArrayId(id))).transpose()?.flatten()
            {
                found.push((array.id, array.shape));
            }
        }
        found.sort_unstable_by_key(|(id, _)| *id);
        Ok(found)
    }

    /// Does `work` on an array, looking for it again if it was dropped since this handle opened it.
    fn with_array<T>(
        &self,
        id: ArrayId,
        mut work: impl FnMut(&ArrayFile) -> std::result::Result<T, Trouble>,
    ) -> Result<T> {
        for _ in 0..TRIES_MAX {
            let array = self.find_array(id)?.ok_or_else(|| no_array(id))?;
            match work(&array) {
                Ok(value) => return Ok(value),
                Err(Trouble::Store(error)) => return Err(error),
                Err(Trouble::Gone) => self.forget(&array),
            }
        }
        Err(no_array(id))
    }

    /// Reads until nothing moved meanwhile: at first beside everybody else, at last alone.
    fn read<'a>(
        &self,
        items: impl Iterator<Item = (ChunkName, Part<'a>)> + Clone,
    ) -> Result<Vec<Cell>> {
        for attempt in 0..TRIES_MAX {
            let arrays = self.arrays_of(items.clone().map(|(name, _)| name))?;
            for (name, part) in items.clone() {
                check(&arrays[place(&arrays, name)].shape, name, part)?;
            }
            let alone = attempt >= TRIES_BESIDE_OTHERS;
            match self.try_read(&arrays, items.clone(), alone) {
                Ok(Some(cells)) => return Ok(cells),
                Ok(None) => {}
                Err(Trouble::Store(error)) => return Err(error),
                Err(Trouble::Gone) => arrays.iter().for_each(|array| self.forget(array)),
            }
        }
        Err(StoreError::Absent("the array changes faster than it can be read".into()))
    }

    /// `None` if what was read does not count.
    fn try_read<'a>(
        &self,
        arrays: &[Arc<ArrayFile>],
        items: impl Iterator<Item = (ChunkName, Part<'a>)>,
        alone: bool,
    ) -> std::result::Result<Option<Vec<Cell>>, Trouble> {
        let tickets = arrays
            .iter()
            .map(|array| array.start_read())
            .collect::<std::result::Result<Vec<_>, _>>()?;
        // In the order of their numbers, so that two readers never wait for each other.
        let owned = match alone {
            true => {
                arrays.iter().map(|array| array.own()).collect::<std::result::Result<_, _>>()?
            }
            false => Vec::new(),
        };
        let indices: Vec<_> = arrays.iter().map(|array| array.index()).collect();
        let wanted: Vec<_> = items
            .map(|(name, part)| {
                let at = place(arrays, name);
                Wanted {
                    array: &arrays[at],
                    frame: indices[at].find(name.chunk, name.version),
                    part,
                }
            })
            .collect();
        drop(indices);
        let read = read_all(&wanted, &self.pool, &self.buffers);
        if !alone {
            for (array, ticket) in arrays.iter().zip(tickets) {
                if !array.read_counts(ticket)? {
                    return Ok(None);
                }
            }
        }
        drop(owned);
        Ok(Some(read?))
    }

    /// The arrays that the names are in, by number.
    fn arrays_of(&self, names: impl Iterator<Item = ChunkName>) -> Result<Vec<Arc<ArrayFile>>> {
        let mut arrays: Vec<Arc<ArrayFile>> = Vec::new();
        for name in names {
            if let Err(at) = arrays.binary_search_by_key(&name.array, |array| array.id) {
                let array = self.find_array(name.array)?.ok_or_else(|| no_array(name.array))?;
                arrays.insert(at, array);
            }
        }
        Ok(arrays)
    }

    /// The array, if there is one.
    fn find_array(&self, id: ArrayId) -> Result<Option<Arc<ArrayFile>>> {
        let arrays = self.arrays.read();
        if let Some(array) = arrays.get(&id) {
            return Ok(Some(array.clone()));
        }
        drop(arrays);
        let _lock = self.lock.lock()?;
        self.open_array(id)
    }

    /// Opens an array that this handle does not know yet. The store's lock is held.
    fn open_array(&self, id: ArrayId) -> Result<Option<Arc<ArrayFile>>> {
        let folder = self.array_folder(id);
        let there = folder.join("shape").try_exists();
        let failed = |error| failed("look for", &folder, &error);
        if !there.map_err(failed)? {
            // An array comes and goes with all its files at once.
            return match folder.try_exists().map_err(failed)? {
                false => Ok(None),
                true => {
                    Err(StoreError::Misbehaved(format!("{} has lost its shape", folder.display())))
                }
            };
        }
        let array = Arc::new(ArrayFile::open(id, &folder, self.hashing)?);
        let mut arrays = self.arrays.write();
        Ok(Some(arrays.entry(id).or_insert(array).clone()))
    }

    fn forget(&self, array: &Arc<ArrayFile>) {
        let mut arrays = self.arrays.write();
        if arrays.get(&array.id).is_some_and(|known| Arc::ptr_eq(known, array)) {
            arrays.remove(&array.id);
        }
    }

    fn create(&self, id: ArrayId, shape: ArrayShape) -> Result<()> {
        shape.check()?;
        let _lock = self.lock.lock()?;
        self.arrays.write().remove(&id); // may be stale
        if let Some(array) = self.open_array(id)? {
            match array.own() {
                Ok(_) if array.shape == shape => return Ok(()),
                Ok(_) => {
                    let there = array.shape;
                    let message = format!("array {} exists with another shape: {there:?}", id.0);
                    return Err(StoreError::Caller(message));
                }
                Err(Trouble::Gone) => self.forget(&array),
                Err(Trouble::Store(error)) => return Err(error),
            }
            self.remove_folder(id)?; // if it is a dropped one that a crash left there
        }
        let (arrays, folder) = (self.root.join("arrays"), self.array_folder(id));
        let making = arrays.join(format!("{LEFTOVER}{:05}", id.0));
        let _ = fs::remove_dir_all(&making); // a leftover, if anything
        make_folder(&making)?;
        ArrayFile::create(&making, shape)?;
        sync_folder(&making)?;
        fs::rename(&making, &folder).map_err(|error| failed("make", &folder, &error))?;
        sync_folder(&arrays)
    }

    fn drop_named(&self, id: ArrayId) -> Result<()> {
        let _lock = self.lock.lock()?;
        // A handle that was open before an array of the same number came is of no use here.
        self.arrays.write().remove(&id);
        let Some(array) = self.open_array(id)? else { return Ok(()) };
        self.forget(&array);
        match array.own() {
            Ok(mut owned) => owned.mark_dropped()?,
            Err(Trouble::Gone) => {} // marked before a crash, but still there
            Err(Trouble::Store(error)) => return Err(error),
        }
        self.remove_folder(id)
    }

    /// Removes the folder of a dropped array, if there is one. The store's lock is held.
    fn remove_folder(&self, id: ArrayId) -> Result<()> {
        let folder = self.array_folder(id);
        let leaving = self.root.join("arrays").join(format!("{LEFTOVER}{:05}", id.0));
        let _ = fs::remove_dir_all(&leaving); // a leftover, if anything
        match fs::rename(&folder, &leaving) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.map_err(|error| failed("drop", &folder, &error))?,
        }
        sync_folder(&self.root.join("arrays"))?;
        fs::remove_dir_all(&leaving).map_err(|error| failed("drop", &leaving, &error))
    }

    fn write(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        let arrays = self.arrays_of(writes.iter().map(|write| write.chunk))?;
        for write in &writes {
            arrays[place(&arrays, write.chunk)].shape.check_write(write)?;
        }
        let mut by_array: Vec<Vec<ChunkWrite>> = vec![Vec::new(); arrays.len()];
        for write in writes {
            by_array[place(&arrays, write.chunk)].push(write);
        }
        for (array, writes) in arrays.iter().zip(&by_array) {
            self.with_array(array.id, |array| Ok(array.own()?.write(writes)?))?;
        }
        Ok(())
    }

    fn delete(&self, chunks: &[ChunkName]) -> Result<()> {
        let mut ids: Vec<ArrayId> = chunks.iter().map(|name| name.array).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if self.find_array(id)?.is_none() {
                continue; // nothing of it is there
            }
            let of_array = |name: &&ChunkName| name.array == id;
            let names: Vec<_> = chunks.iter().filter(of_array).copied().collect();
            self.with_array(id, |array| Ok(array.own()?.delete(&names)?))?;
        }
        Ok(())
    }

    fn make_durable(&self) -> Result<()> {
        let arrays = self.arrays.read();
        let mut dirty: Vec<_> =
            arrays.values().filter(|array| array.dirty.load(Ordering::Acquire)).cloned().collect();
        drop(arrays);
        dirty.sort_unstable_by_key(|array| array.id);
        for array in dirty {
            match array.own() {
                Ok(mut owned) => owned.barrier()?,
                Err(Trouble::Gone) => self.forget(&array),
                Err(Trouble::Store(error)) => return Err(error),
            }
        }
        self.blobs.sync()
    }

    fn array_folder(&self, id: ArrayId) -> PathBuf {
        self.root.join("arrays").join(format!("{:05}", id.0))
    }

    /// Removes arrays whose making or dropping a crash cut short.
    fn remove_leftovers(&self) -> Result<()> {
        let _lock = self.lock.lock()?;
        let arrays = self.root.join("arrays");
        for entry in fs::read_dir(&arrays).map_err(|error| failed("list", &arrays, &error))? {
            let entry = entry.map_err(|error| failed("list", &arrays, &error))?;
            if entry.file_name().to_string_lossy().starts_with(LEFTOVER) {
                let _ = fs::remove_dir_all(entry.path()); // in nobody's way if it stays
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Store for FileStore {
    async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        compute(|| self.create(array, shape))
    }

    fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        let there = compute(|| self.find_array(array))?;
        as_expected(array, shape, there.map(|array| array.shape))
    }

    async fn drop_array(&self, array: ArrayId) -> Result<()> {
        compute(|| self.drop_named(array))
    }

    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        let items = (0..reads.len()).map(|index| {
            let read = reads.get(index);
            (read.chunk, Part::Cells(read.cells))
        });
        compute(|| self.read(items))
    }

    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
        let cells = compute(|| self.read(chunks.iter().map(|&name| (name, Part::Whole))))?;
        let bytes = |cell| match cell {
            Cell::Bytes(bytes) => Some(bytes),
            Cell::NotWritten => None,
        };
        Ok(cells.into_iter().map(bytes).collect())
    }

    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        compute(|| self.write(writes))
    }

    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
        compute(|| self.delete(chunks))
    }

    async fn list_chunks(&self, array: ArrayId) -> Result<Vec<ChunkName>> {
        compute(|| {
            self.with_array(array, |array| {
                let _owned = array.own()?;
                Ok(array.list())
            })
        })
    }

    async fn blob_get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        compute(|| self.blobs.get(name))
    }

    async fn blob_put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome> {
        compute(|| self.blobs.put(&self.lock, name, &data, &condition))
    }

    async fn blob_delete(&self, names: &[&str]) -> Result<()> {
        compute(|| self.blobs.delete(&self.lock, names))
    }

    async fn blob_list(&self, prefix: &str) -> Result<Vec<String>> {
        compute(|| self.blobs.list(prefix))
    }

    async fn barrier(&self) -> Result<()> {
        compute(|| self.make_durable())
    }

    fn xor(&self) -> Option<&dyn XorCells> {
        Some(self)
    }
}

#[async_trait]
impl XorCells for FileStore {
    async fn read_xor(&self, reads: &CellReads, groups: &[u32]) -> Result<Vec<Cell>> {
        check_groups(reads, groups)?;
        let cells = self.read_cells(reads).await?;
        compute(|| fold(reads, groups, &cells))
    }
}

/// Where the array of `name` is among `arrays`, which holds it.
fn place(arrays: &[Arc<ArrayFile>], name: ChunkName) -> usize {
    match arrays {
        [_] => 0,
        _ => arrays.partition_point(|array| array.id < name.array),
    }
}

fn check(shape: &ArrayShape, chunk: ChunkName, part: Part<'_>) -> Result<()> {
    match part {
        Part::Whole => shape.check_chunk(chunk),
        Part::Cells(cells) => shape.check_read(crate::CellRead { chunk, cells }),
    }
}

/// Marks a new folder as a store, and refuses one whose mark is another: it was changed, or a newer
/// build made it, and only who knows the store can tell which.
fn check_format(root: &Path, lock: &FileLock) -> Result<()> {
    let _lock = lock.lock()?;
    let path = root.join("format");
    let line = format!("{FORMAT}\n");
    match read_small(&path)? {
        Some(text) if text.trim_ascii_end() == FORMAT.as_bytes() => Ok(()),
        // A crash came between making the file and filling it; there is nothing else yet.
        Some(text) if is_cut_short(&text, line.as_bytes()) && is_empty(root)? => {
            fs::remove_file(&path).map_err(|error| failed("remake", &path, &error))?;
            write_new_file(&path, line.as_bytes())?;
            sync_folder(root)
        }
        Some(text) => Err(StoreError::Misbehaved(format!(
            "{} says \"{}\"; this build knows \"{FORMAT}\": it was changed, or a newer version of \
             fogbank made it",
            path.display(),
            text[..text.len().min(FORMAT_SHOWN)].trim_ascii_end().escape_ascii()
        ))),
        None => {
            write_new_file(&path, line.as_bytes())?;
            sync_folder(root)
        }
    }
}

/// Whether a write of `line` that a power cut ended can have left this.
fn is_cut_short(text: &[u8], line: &[u8]) -> bool {
    text.len() <= line.len() && (line.starts_with(text) || text.iter().all(|&byte| byte == 0))
}

/// Whether nothing was ever kept here: there are no blobs and no arrays.
fn is_empty(root: &Path) -> Result<bool> {
    for folder in ["arrays", "blobs"].map(|name| root.join(name)) {
        let mut entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| failed("list", &folder, &error))?,
        };
        if entries.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

const FORMAT: &str = "fogbank file store 1";
/// So much of another mark is shown.
const FORMAT_SHOWN: usize = 40;
/// How the folders of arrays that are being made or dropped begin.
const LEFTOVER: &str = "unfinished-";
/// Reads that found the array changed before one takes it for itself.
const TRIES_BESIDE_OTHERS: usize = 3;
const TRIES_MAX: usize = 6;
