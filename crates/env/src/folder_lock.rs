//! One process a folder: a file `lock` in it, locked for as long as it is held.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The lock of a folder.
#[derive(Debug)]
pub struct FolderLock(#[allow(dead_code)] Option<File>); // closing the file gives it back

impl FolderLock {
    /// That of what is in no folder: nobody else comes to it.
    pub fn of_no_folder() -> Self {
        Self(None)
    }

    /// Makes `folder` (mode 0700) if there is none, and takes its lock; `None` if another process
    /// has it.
    ///
    /// # Errors
    /// As the system says.
    pub fn take(folder: &Path) -> io::Result<Option<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(folder.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(Some(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}
