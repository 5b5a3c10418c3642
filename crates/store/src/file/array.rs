//! One array on disk: a file of frames, each one chunk version, and a file saying what they hold.
//!
//! Invariants:
//! 1. A chunk version enters the index after its bytes and its record are written, and leaves it
//!    after its record says free.
//! 2. A barrier makes cells durable, then the records with the new epoch in the header. A record of
//!    that epoch or an earlier one is therefore true after any crash; a later one is believed only
//!    if the bytes in its frame have its fingerprint.
//! 3. A frame freed is used again only after a barrier has made its free record durable: no crash
//!    can leave a version that was durable under its name with other bytes.
//! 4. One handle at a time owns the array (the turn in the header). Whoever comes to an array that
//!    is not its own takes it over, under a file lock, by reading all records again. A read that
//!    the owner did without the lock counts only if it still owned the array afterwards.
//! 5. A read counts only if no frame became reusable (`generation`) since it looked up its frames.
//!
//! What the cloud sees: it is the cloud. Frame numbers follow from the order of the calls alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::RwLockReadGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::disk::{failed, open_made, write_new_file};
use super::frames::{HEADER_BYTES, Header};
use super::index::{Index, Place};
use super::owned::{Owned, Owner};
use super::shape_file::{read_shape, write_shape};
use crate::{ArrayId, ArrayShape, ChunkName, PlaceHashing, Result, StoreError};
use fogbank_env::{Mutex, RwLock};

/// Why an operation on an array did not happen.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The array was dropped, perhaps through another handle.
    Gone,
    Store(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Store(error)
    }
}

/// An open array.
#[derive(Debug)]
pub(super) struct ArrayFile {
    pub(super) id: ArrayId,
    pub(super) shape: ArrayShape,
    pub(super) folder: PathBuf,
    pub(super) frame_bytes: u64,
    pub(super) cells: File,
    pub(super) frames: File,
    pub(super) index: RwLock<Index>,
    pub(super) owner: Mutex<Owner>,
    /// The turn in which this handle owns the array; 0 if it does not.
    pub(super) turn: AtomicU64,
    pub(super) generation: AtomicU64,
    pub(super) dirty: AtomicBool,
    /// A sync has failed: what it covered may be lost though a later one succeeds.
    pub(super) sync_failed: AtomicBool,
}

/// Proof of a read: what must still hold after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    generation: u64,
    turn: u64,
}

impl ArrayFile {
    /// Makes the files of an array in `folder`, which holds none.
    pub(super) fn create(folder: &Path, shape: ArrayShape) -> Result<()> {
        let header = Header { epoch: 0, turn: 1, dropped: false };
        write_new_file(&folder.join("cells"), &[])?;
        write_new_file(&folder.join("frames"), &header.encode())?;
        write_shape(&folder.join("shape"), shape)
    }

    /// Opens the array in `folder`; the index is built on first use.
    pub(super) fn open(id: ArrayId, folder: &Path, hashing: PlaceHashing) -> Result<Self> {
        let shape = read_shape(&folder.join("shape"))?;
        Ok(Self {
            id,
            shape,
            folder: folder.to_owned(),
            frame_bytes: frame_bytes(shape),
            cells: open_made(&folder.join("cells"))?,
            frames: open_made(&folder.join("frames"))?,
            index: RwLock::new(Index::new(hashing)),
            owner: Mutex::default(),
            turn: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            sync_failed: AtomicBool::new(false),
        })
    }

    /// Takes the array for this handle and thread, rereading it if another handle had it.
    pub(super) fn own(&self) -> std::result::Result<Owned<'_>, Trouble> {
        let owner = self.owner.lock();
        self.frames.lock().map_err(|error| failed("lock", &self.frames_path(), &error))?;
        let mut owned = Owned::new(self, owner);
        let header = self.header()?.ok_or_else(|| {
            let path = self.frames_path();
            StoreError::Misbehaved(format!("{} has no head that this build knows", path.display()))
        })?;
        if header.dropped {
            return Err(Trouble::Gone);
        }
        if self.turn.load(Ordering::Acquire) != header.turn {
            owned.take_over(header)?;
        }
        Ok(owned)
    }

    /// Starts a read: this handle owns the array, or takes it.
    pub(super) fn start_read(&self) -> std::result::Result<Ticket, Trouble> {
        let ours = self.turn.load(Ordering::Acquire);
        let still = self.header()?.is_some_and(|header| !header.dropped && header.turn == ours);
        if !still {
            drop(self.own()?);
        }
        Ok(self.ticket())
    }

    /// The state that a read started now must still find when it ends.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket {
            generation: self.generation.load(Ordering::Acquire),
            turn: self.turn.load(Ordering::Acquire),
        }
    }

    /// Whether what was read since `ticket` was what it was taken for.
    pub(super) fn read_counts(&self, ticket: Ticket) -> Result<bool> {
        if self.generation.load(Ordering::Acquire) != ticket.generation {
            return Ok(false);
        }
        Ok(self.header()?.is_some_and(|h| !h.dropped && h.turn == ticket.turn))
    }

    /// Where the chunk versions are.
    pub(super) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read()
    }

    /// Every chunk version, in order of its name.
    pub(super) fn list(&self) -> Vec<ChunkName> {
        let index = self.index();
        let name = |place: &Place| ChunkName {
            array: self.id,
            chunk: place.chunk,
            version: place.version,
        };
        let mut names: Vec<_> = index.places().map(name).collect();
        names.sort_unstable();
        names
    }

    /// Fills `buffer` from `offset` within `frame`.
    pub(super) fn read_frame(&self, frame: u32, offset: usize, buffer: &mut [u8]) -> Result<()> {
        let at = u64::from(frame) * self.frame_bytes + offset as u64;
        self.cells.read_exact_at(buffer, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => StoreError::Misbehaved(format!(
                "{} ends before frame {frame}, which is in use",
                self.cells_path().display()
            )),
            _ => failed("read", &self.cells_path(), &error),
        })
    }

    pub(super) fn header(&self) -> Result<Option<Header>> {
        let mut bytes = [0; HEADER_BYTES];
        match self.frames.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Header::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(failed("read", &self.frames_path(), &error)),
        }
    }

    pub(super) fn write_header(&self, header: Header) -> Result<()> {
        let written = self.frames.write_all_at(&header.encode(), 0);
        written.map_err(|error| failed("write", &self.frames_path(), &error))
    }

    pub(super) fn sync(&self, file: &File, path: PathBuf) -> Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(StoreError::Absent(format!(
                "{} could not be made durable once; open the store again",
                path.display()
            )));
        }
        file.sync_data().map_err(|error| {
            self.sync_failed.store(true, Ordering::Release);
            failed("make durable", &path, &error)
        })
    }

    pub(super) fn cells_path(&self) -> PathBuf {
        self.folder.join("cells")
    }

    pub(super) fn frames_path(&self) -> PathBuf {
        self.folder.join("frames")
    }
}

/// How far frames are apart: whole pages where that costs little, so that writing one chunk never
/// has to read a page of its neighbour back.
fn frame_bytes(shape: ArrayShape) -> u64 {
    let chunk = shape.chunk_bytes() as u64;
    let paged = chunk.next_multiple_of(PAGE_BYTES);
    if paged - chunk <= chunk / 8 { paged } else { chunk }
}

const PAGE_BYTES: u64 = 4096;
