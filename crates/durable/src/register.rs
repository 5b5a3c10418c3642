//! The freshness register: the one small thing that the cloud must not be able to roll back.
//!
//! It holds the number and digest of the newest commit record. By default it is a file on the
//! trusted side, replaced atomically and synced before anything that depends on it goes on.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fogbank_seal::Digest;

use crate::{Error, Result};

/// What the register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterValue {
    /// The number of the newest commit record.
    pub sequence: u64,
    /// Its digest.
    pub digest: Digest,
}

/// A small value that only rises and that the cloud cannot touch.
pub trait Register: Send + Sync {
    /// What it holds; `None` if it was never written.
    ///
    /// # Errors
    /// [`Error::Register`] if it cannot be read or is damaged.
    fn read(&self) -> Result<Option<RegisterValue>>;

    /// Replaces it durably; returns when a power cut can no longer undo it.
    ///
    /// # Errors
    /// [`Error::Register`] if it cannot be written.
    fn write(&self, value: RegisterValue) -> Result<()>;

    /// Where it is, for messages.
    fn place(&self) -> String;
}

/// A file on the trusted side.
#[derive(Debug)]
pub struct FileRegister {
    path: PathBuf,
}

const MAGIC: &[u8; 8] = b"fogregs1";
const FILE_BYTES: usize = 8 + 8 + 32 + 8;

impl FileRegister {
    /// The register kept in the file at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn fault(&self, reason: impl ToString) -> Error {
        Error::Register { place: self.place(), reason: reason.to_string() }
    }

    fn write_file(&self, bytes: &[u8]) -> std::io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Register for FileRegister {
    fn read(&self) -> Result<Option<RegisterValue>> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.fault(e)),
        };
        decode(&bytes)
            .map(Some)
            .ok_or_else(|| self.fault("it is damaged; restore the trusted side from your backup"))
    }

    fn write(&self, value: RegisterValue) -> Result<()> {
        self.write_file(&encode(value)).map_err(|e| self.fault(e))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Layout: magic, sequence (8 B little-endian), digest (32 B), first 8 B of the SHA-256 of these.
fn encode(value: RegisterValue) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&value.sequence.to_le_bytes());
    bytes.extend_from_slice(&value.digest);
    let check = fogbank_seal::digest(&[&bytes]);
    bytes.extend_from_slice(&check[..8]);
    bytes
}

fn decode(bytes: &[u8]) -> Option<RegisterValue> {
    let whole = bytes.len() == FILE_BYTES && bytes.starts_with(MAGIC);
    if !whole || fogbank_seal::digest(&[&bytes[..48]])[..8] != bytes[48..] {
        return None;
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(&bytes[16..48]);
    let sequence = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    Some(RegisterValue { sequence, digest })
}

/// A register in memory, for stores that end with the process.
#[derive(Debug, Default)]
pub struct MemoryRegister(Mutex<Option<RegisterValue>>);

impl Register for MemoryRegister {
    fn read(&self) -> Result<Option<RegisterValue>> {
        Ok(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, value: RegisterValue) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        Ok(())
    }

    fn place(&self) -> String {
        "in memory".into()
    }
}
