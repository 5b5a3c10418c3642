//! Files and folders as the store wants them: private, locked, and with errors that say what
//! failed.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::MutexGuard;

use crate::{Result, StoreError};
use fogbank_env::Mutex;

/// Makes a folder for its owner alone, and those above it; fine if it is there.
pub(super) fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| failed("make the folder", path, &error))
}

/// Refuses what is no file: a pipe in the place of one would keep whoever opens it for ever.
pub(super) fn is_file(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(what) if !what.is_file() => {
            let path = path.display();
            Err(StoreError::Misbehaved(format!("{path} is no file any more: it was changed")))
        }
        _ => Ok(()), // what cannot be looked at cannot be opened, which says why
    }
}

/// Opens a file for reading and writing; makes it, for its owner alone, if `create`.
pub(super) fn open_file(path: &Path, create: bool) -> Result<File> {
    is_file(path)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false).mode(0o600);
    options.open(path).map_err(|error| failed("open", path, &error))
}

/// Opens a file that was made together with others that are there: it went alone, and not by us.
pub(super) fn open_made(path: &Path) -> Result<File> {
    match path.try_exists() {
        Ok(false) => Err(StoreError::Misbehaved(format!("{} is gone", path.display()))),
        _ => open_file(path, false),
    }
}

/// Whether the name still leads to the open file. What is written to a file that was deleted or
/// replaced is gone when it is closed, and until then nothing else tells.
pub(super) fn still_named(file: &File, path: &Path) -> Result<()> {
    let look = |error| failed("look at", path, &error);
    let open = file.metadata().map_err(look)?;
    let named = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        named => Some(named.map_err(look)?),
    };
    let same = |named: &Metadata| (named.dev(), named.ino()) == (open.dev(), open.ino());
    if named.as_ref().is_some_and(same) {
        return Ok(());
    }
    let what = if named.is_some() { "was replaced" } else { "was removed" };
    Err(StoreError::Misbehaved(format!("{} {what} while it was open", path.display())))
}

/// Makes a file that must not be there, with this content, durable but for its name.
pub(super) fn write_new_file(path: &Path, content: &[u8]) -> Result<()> {
    use std::io::Write;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path).map_err(|error| failed("make", path, &error))?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| failed("write", path, &error))
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed("make durable the folder", path, &error))
}

/// A lock that excludes the other threads of this process and all other processes.
#[derive(Debug)]
pub(super) struct FileLock(Mutex<File>);

impl FileLock {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self(Mutex::new(open_file(path, true)?)))
    }

    pub(super) fn lock(&self) -> Result<FileLockGuard<'_>> {
        let file = self.0.lock();
        file.lock().map_err(|error| StoreError::Absent(format!("cannot lock: {error}")))?;
        Ok(FileLockGuard(file))
    }
}

pub(super) struct FileLockGuard<'a>(MutexGuard<'a, File>);

impl FileLockGuard<'_> {
    /// The next of a row of numbers, each given once, kept in the locked file. A power cut may set
    /// it back.
    pub(super) fn count(&self) -> io::Result<u64> {
        let mut last = [0; 8];
        if self.0.metadata()?.len() >= 8 {
            self.0.read_exact_at(&mut last, 0)?;
        }
        let next = u64::from_le_bytes(last).wrapping_add(1);
        self.0.write_all_at(&next.to_le_bytes(), 0)?;
        Ok(next)
    }
}

impl Drop for FileLockGuard<'_> {
    fn drop(&mut self) {
        // An unlock that fails leaves the lock to end with the handle; there is no more to do.
        let _ = self.0.unlock();
    }
}

/// The error of a file operation, by blame: what an operator must allow is refused, what may pass
/// (a full disk is emptied, a network file system comes back) is the store's absence. Whatever the
/// store made and that is gone, cut short or something else now was changed by somebody: no crash
/// does that.
pub(super) fn failed(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    let path = path.display();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            StoreError::Absent(format!("cannot {doing} {path}: the disk is full ({error})"))
        }
        ErrorKind::PermissionDenied => {
            StoreError::Refused(format!("cannot {doing} {path}: permission denied ({error})"))
        }
        ErrorKind::ReadOnlyFilesystem => {
            StoreError::Refused(format!("cannot {doing} {path}: {error}"))
        }
        ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::DirectoryNotEmpty
        | ErrorKind::UnexpectedEof
        | ErrorKind::InvalidData => {
            StoreError::Misbehaved(format!("cannot {doing} {path}: {error}"))
        }
        _ if error.raw_os_error() == Some(TOO_MANY_LINKS) => {
            StoreError::Misbehaved(format!("cannot {doing} {path}: {error}"))
        }
        _ => StoreError::Absent(format!("cannot {doing} {path}: {error}")),
    }
}

/// What Linux says of a link that leads to itself; the library has no stable name for it.
const TOO_MANY_LINKS: i32 = 40;
/// No text that the store itself writes is longer.
const TEXT_BYTES_MAX: u64 = 4096;

/// What a small file of the store's own holds, whatever it is; `None` if there is none.
pub(super) fn read_small(path: &Path) -> Result<Option<Vec<u8>>> {
    use std::io::Read;
    is_file(path)?;
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed("open", path, &error))?,
    };
    let mut bytes = Vec::new();
    let read = file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| failed("read", path, &error)).map(|_| Some(bytes))
}
