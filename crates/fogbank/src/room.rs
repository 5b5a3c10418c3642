//! Whether what a new store or volume holds when it is full fits on the disk where it is to be
//! made.
//!
//! Its files grow as it is written, so a disk that is too small would be found out later, with data
//! in it. Nothing is reserved: what else fills the disk afterwards is not foreseen.

use std::path::Path;

use bytesize::ByteSize;

use crate::error::{Error, Result};
use crate::place::{Place, absolute};

impl Place {
    /// Refuses to make what takes up to `bytes` in a folder of this machine that has not as much
    /// room; `flag` would make it smaller. What a folder has cannot be told everywhere: then it is
    /// taken to do.
    ///
    /// # Errors
    /// [`Error::Usage`], with what is there.
    pub(crate) fn check_room(&self, bytes: f64, flag: &str) -> Result<()> {
        let Some(folder) = self.store_folder() else { return Ok(()) };
        let Some(free) = free_bytes(&folder) else { return Ok(()) };
        if bytes <= free as f64 {
            return Ok(());
        }
        let show = |bytes: u64| ByteSize::b(bytes).display().iec().to_string();
        Err(Error::Usage(format!(
            "it would take up to {} in {} when it is full, where {} are free: choose a smaller \
             {flag}, or another place with --data or --store (nothing was made)",
            show(bytes as u64),
            folder.display(),
            show(free)
        )))
    }
}

/// What whoever runs this may still write where `folder` is or will be.
fn free_bytes(folder: &Path) -> Option<u64> {
    let folder = absolute(folder);
    let there = folder.ancestors().find(|there| there.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::local(folder.path().join("not/there/yet"));
        let free = free_bytes(&folder.path().join("not/there/yet")).unwrap();
        assert!(free > 0);
        assert!(place.check_room(1.0, "--capacity").is_ok());
        let told = place.check_room(1e24, "--capacity").unwrap_err().to_string();
        assert!(told.contains("smaller --capacity") && told.contains("free"), "{told}");
        let store = Some("memory:".into());
        assert!(Place { store, ..place }.check_room(1e24, "--capacity").is_ok());
    }
}
