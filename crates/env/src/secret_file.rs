//! Files that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The permission bits of `file` if anybody but its owner may do anything with it.
///
/// # Errors
/// As the system says; [`io::ErrorKind::IsADirectory`] for a folder, which has other bits.
pub fn open_to_others(file: &File) -> io::Result<Option<u32>> {
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, and no file"));
    }
    let mode = found.mode() & 0o7777;
    Ok((mode & 0o077 != 0).then_some(mode))
}

/// Writes `secret` to `path`, mode 0600: there whole and durable when this returns, and never in
/// part. What was there is replaced.
///
/// # Errors
/// As the system says.
pub fn write_secret(path: &Path, secret: &[u8]) -> io::Result<()> {
    std::fs::rename(write_beside(path, secret)?, path)?;
    sync_folder_of(path)
}

/// The same where nothing is there yet.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if something is, which then stays as it is; others as the
/// system says.
pub fn create_secret(path: &Path, secret: &[u8]) -> io::Result<()> {
    let unready = write_beside(path, secret)?;
    let linked = std::fs::hard_link(&unready, path);
    std::fs::remove_file(&unready)?;
    linked?;
    sync_folder_of(path)
}

/// The secret, whole and durable, in a file beside the place where it belongs.
fn write_beside(path: &Path, secret: &[u8]) -> io::Result<PathBuf> {
    let unready = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unready)?;
    file.write_all(secret)?;
    file.sync_all()?;
    Ok(unready)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        // What a stop has left behind keeps nobody from trying again.
        std::fs::write(path.with_extension("new"), "ha").unwrap();
        create_secret(&path, b"one").unwrap();
        let again = create_secret(&path, b"two").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write_secret(&path, b"three").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(open_to_others(&File::open(&path).unwrap()).unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
