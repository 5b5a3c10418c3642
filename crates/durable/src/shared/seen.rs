//! What a client has seen of a site, on its own disk: by it the client notices that the server goes
//! back, or shows it another history.
//!
//! It is saved before anything is touched in what it names: otherwise a server that goes back after
//! a crash of the client makes it touch the same slots for another query.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::{Mutex, compute};
use fogbank_held::SlotFile;
use fogbank_seal::Digest;

use super::{Site, Superblock};
use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The newest superblock.
    pub superblock: u64,
    /// Its digest as stored.
    pub stored: Digest,
    /// Entries of the log.
    pub length: u64,
    /// The digest of that log.
    pub digest: Digest,
    /// The digest of the log before the epoch of its last entry.
    pub epoch_start: Digest,
}

impl Seen {
    /// What whoever comes anew has seen: the newest superblock that the server shows, and nothing
    /// of the log.
    ///
    /// # Errors
    /// By blame.
    pub async fn at_first(site: &Arc<Site>) -> Result<Self> {
        let newest = Superblock::newest(site, 1, None).await?;
        let (superblock, stored) = newest.first().ok_or(Error::NoStore)?;
        let header = site.header();
        Ok(Self {
            superblock: superblock.number,
            stored: *stored,
            length: 0,
            digest: header,
            epoch_start: header,
        })
    }

    /// As bytes.
    fn encode(&self) -> Vec<u8> {
        let mut w = SectionWriter::default();
        w.u64(self.superblock).raw(&self.stored);
        w.u64(self.length).raw(&self.digest).raw(&self.epoch_start);
        w.0
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = SectionReader(bytes);
        Ok(Self {
            superblock: r.u64()?,
            stored: r.digest()?,
            length: r.u64()?,
            digest: r.digest()?,
            epoch_start: r.digest()?,
        })
    }
}

/// Where a client keeps what it has seen. One process at a time.
#[async_trait]
pub trait SeenRegister: Send + Sync {
    /// What it has seen; `None` before the first time.
    ///
    /// # Errors
    /// [`Error::Register`] if it cannot be read or is damaged.
    async fn read(&self) -> Result<Option<Seen>>;

    /// Keeps it; when this returns a power cut cannot undo it.
    ///
    /// # Errors
    /// [`Error::Register`] if it cannot be written.
    async fn save(&self, seen: &Seen) -> Result<()>;
}

/// In memory, for clients that end with the process.
#[derive(Debug, Default)]
pub struct MemorySeen(Mutex<Option<Seen>>);

#[async_trait]
impl SeenRegister for MemorySeen {
    async fn read(&self) -> Result<Option<Seen>> {
        Ok(*self.0.lock())
    }

    async fn save(&self, seen: &Seen) -> Result<()> {
        *self.0.lock() = Some(*seen);
        Ok(())
    }
}

/// As a file on the client's disk. Whoever uses it holds a lock beside it.
#[derive(Debug)]
pub struct FileSeen {
    path: PathBuf,
    open: Mutex<Option<SlotFile>>,
}

const MAGIC: [u8; 8] = *b"fogseen1";

impl FileSeen {
    /// What is kept in the file at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: Mutex::default() }
    }

    fn fault(&self, reason: impl ToString) -> Error {
        Error::Register { place: self.path.display().to_string(), reason: reason.to_string() }
    }

    fn load(&self) -> Result<std::sync::MutexGuard<'_, Option<SlotFile>>> {
        let mut open = self.open.lock();
        if open.is_none() {
            *open = SlotFile::open(&self.path, MAGIC).map_err(|e| match e.kind() {
                ErrorKind::InvalidData => self.fault(format!(
                    "{e}: put its newest copy back. Without it the server could show this client \
                     an old state; another client of the site goes on meanwhile"
                )),
                _ => self.fault(e),
            })?;
        }
        Ok(open)
    }
}

#[async_trait]
impl SeenRegister for FileSeen {
    async fn read(&self) -> Result<Option<Seen>> {
        compute(|| {
            let open = self.load()?;
            open.as_ref().and_then(SlotFile::value).map(Seen::decode).transpose()
        })
    }

    async fn save(&self, seen: &Seen) -> Result<()> {
        compute(|| {
            let mut open = self.load()?;
            let file = match &mut *open {
                Some(file) => file,
                none => {
                    none.insert(SlotFile::create(&self.path, MAGIC).map_err(|e| self.fault(e))?)
                }
            };
            file.replace(&seen.encode()).map_err(|e| self.fault(e))
        })
    }
}
