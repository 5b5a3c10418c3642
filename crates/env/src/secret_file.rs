//! Files that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The permission bits of `file` if anybody but its owner may do anything with it.
///
/// # Errors
/// As the system says.
pub fn open_to_others(file: &File) -> io::Result<Option<u32>> {
    let mode = file.metadata()?.mode() & 0o7777;
    Ok((mode & 0o077 != 0).then_some(mode))
}

/// Writes `secret` to `path`, mode 0600: there whole and durable when this returns, and never in part.
/// What was there is replaced.
///
/// # Errors
/// As the system says.
pub fn write_secret(path: &Path, secret: &[u8]) -> io::Result<()> {
    let unready = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unready)?;
    file.write_all(secret)?;
    file.sync_all()?;
    std::fs::rename(&unready, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
