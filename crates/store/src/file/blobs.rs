//! Blobs as files, one each, put whole or not at all.
//!
//! A put writes a temporary file, makes it durable, gives it the blob's name while holding the lock
//! of the store, and makes the name durable: a reader, and whoever comes after a crash, sees the
//! old content or the new. A put is durable when it returns.
//!
//! ```text
//! 0  magic "fogblob1"    8  number of the put (u64)    16  xxh3 of the content (u64)    24  content
//! ```
//!
//! Number and fingerprint are the tag. The number, counted in the store's `lock` file, tells two
//! puts of the same content apart: of two writers that both put what was there already, one wins.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::disk::{FileLock, failed, is_file, make_folder, open_file, sync_folder};
use crate::shape::{blob_file_name, blob_name, check_blob_name};
use crate::{BlobTag, PutCondition, PutOutcome, Result, StoreError};

/// The blobs of one store.
#[derive(Debug)]
pub(super) struct Blobs {
    folder: PathBuf,
    temporary: PathBuf,
}

impl Blobs {
    /// Opens the folders, and removes what puts cut short left behind. The lock keeps others from
    /// beginning a put meanwhile; a put that runs holds a lock on its file.
    pub(super) fn open(root: &Path, lock: &FileLock) -> Result<Self> {
        let (folder, temporary) = (root.join("blobs"), root.join("tmp"));
        make_folder(&folder)?;
        make_folder(&temporary)?;
        let _lock = lock.lock()?;
        for entry in fs::read_dir(&temporary).map_err(|e| failed("list", &temporary, &e))? {
            let path = entry.map_err(|e| failed("list", &temporary, &e))?.path();
            if open_file(&path, false).is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(&path); // in nobody's way if it stays
            }
        }
        Ok(Self { folder, temporary })
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        if check_blob_name(name).is_err() {
            return Ok(None); // what cannot be put is not there
        }
        read(&self.path(name))
    }

    pub(super) fn put(
        &self,
        lock: &FileLock,
        name: &str,
        data: &[u8],
        condition: &PutCondition,
    ) -> Result<PutOutcome> {
        check_blob_name(name)?;
        let (temporary, file, number) = self.begin(lock)?;
        let head = head(number, data);
        let written = file.write_all_at(&head, 0);
        let written = written.and_then(|()| file.write_all_at(data, HEAD_BYTES as u64));
        let outcome = written
            .and_then(|()| file.sync_all())
            .map_err(|error| failed("write", &temporary, &error))
            .and_then(|()| self.finish(lock, &self.path(name), &temporary, condition))
            // Without the lock: puts at once share a sync. Also where the name was taken: by
            // something that is durable when anybody is told so.
            .and_then(|done| sync_folder(&self.folder).map(|()| done))
            .map(|done| match done {
                true => PutOutcome::Done(tag(&head)),
                false => PutOutcome::ConditionFailed,
            });
        if !matches!(outcome, Ok(PutOutcome::Done(_))) {
            let _ = fs::remove_file(&temporary); // else the next opening removes it
        }
        outcome
    }

    pub(super) fn delete(&self, lock: &FileLock, names: &[&str]) -> Result<()> {
        let _lock = lock.lock()?;
        for name in names.iter().filter(|name| check_blob_name(name).is_ok()) {
            let path = self.path(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed("delete", &path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(|e| failed("list", &self.folder, &e))? {
            let entry = entry.map_err(|e| failed("list", &self.folder, &e))?;
            let name = entry.file_name().to_str().and_then(blob_name);
            names.extend(name.filter(|name| name.starts_with(prefix)));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Makes deletions durable; puts already are.
    pub(super) fn sync(&self) -> Result<()> {
        sync_folder(&self.folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(blob_file_name(name))
    }

    /// The number of a put and a temporary file for it, locked so that nobody takes it for a
    /// leftover.
    fn begin(&self, lock: &FileLock) -> Result<(PathBuf, File, u64)> {
        let lock = lock.lock()?;
        let number = lock.count().map_err(|error| failed("count in", &self.temporary, &error))?;
        let path = self.temporary.join(number.to_string());
        let file = open_file(&path, true)?;
        let ready = file.lock().and_then(|()| file.set_len(0));
        ready.map_err(|error| failed("lock", &path, &error))?;
        Ok((path, file, number))
    }

    /// Gives the written file its name if the condition holds.
    fn finish(
        &self,
        lock: &FileLock,
        path: &Path,
        temporary: &Path,
        condition: &PutCondition,
    ) -> Result<bool> {
        let _lock = lock.lock()?;
        let named = match condition {
            PutCondition::Always => fs::rename(temporary, path).map(|()| true),
            PutCondition::IfAbsent => link(temporary, path),
            PutCondition::IfUnchanged(seen) => match read(path)? {
                Some((_, tag)) if tag == *seen => fs::rename(temporary, path).map(|()| true),
                _ => Ok(false),
            },
        };
        named.map_err(|error| failed("put", path, &error))
    }
}

/// Gives the file a name that must be free. A link is refused by the file system itself if the name
/// is taken, so this holds even where locks are not honoured; where links are unknown, the lock
/// that the caller holds has to do.
fn link(temporary: &Path, path: &Path) -> io::Result<bool> {
    match fs::hard_link(temporary, path) {
        Ok(()) => fs::remove_file(temporary).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error)
            if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) =>
        {
            if path.try_exists()? {
                return Ok(false);
            }
            fs::rename(temporary, path).map(|()| true)
        }
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> Result<Option<(Bytes, BlobTag)>> {
    is_file(path)?;
    let file = match fs::read(path) {
        Ok(file) => Bytes::from(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, &error)),
    };
    let sound = file.len() >= HEAD_BYTES && {
        let mut number = [0; 8];
        number.copy_from_slice(&file[8..16]);
        file[..HEAD_BYTES] == head(u64::from_le_bytes(number), &file[HEAD_BYTES..])
    };
    if !sound {
        return Err(StoreError::Misbehaved(format!("{} is no blob, or damaged", path.display())));
    }
    let tag = tag(&file[..HEAD_BYTES]);
    Ok(Some((file.slice(HEAD_BYTES..), tag)))
}

fn head(number: u64, data: &[u8]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(b"fogblob1");
    head[8..16].copy_from_slice(&number.to_le_bytes());
    head[16..].copy_from_slice(&xxh3_64(data).to_le_bytes());
    head
}

/// Number and fingerprint in hexadecimal.
fn tag(head: &[u8]) -> BlobTag {
    BlobTag(head[8..].iter().map(|byte| format!("{byte:02x}")).collect())
}

const HEAD_BYTES: usize = 24;
