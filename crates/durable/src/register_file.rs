//! The register as a file on the trusted side: two slots written in turn, so that a bump is one
//! small write in place and one sync of its data, and the value before is there until it is done.
//!
//! ```text
//! file     slot 0 | slot 1
//! slot     8 magic "fogregs2" | 8 serial | 104 value | zeros | 8 first bytes of the SHA-256 of these; 512 B
//! ```
//! The newest value is in the slot with the higher serial. A slot is a sector, which a disk writes
//! whole or not at all: one that is neither empty nor right is damage, not an interrupted write, and
//! damage must not pass for an older value.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use fogbank_env::compute;

use crate::{Error, Register, RegisterValue, Result};

/// A file on the trusted side. One process at a time: whoever uses it holds a lock beside it.
#[derive(Debug)]
pub struct FileRegister {
    path: PathBuf,
    open: Mutex<Option<Open>>,
    /// Held for as long as anybody may write: a vault outlives the handle that opened it.
    _lock: Option<Arc<File>>,
}

/// The file, kept open, and what it holds.
#[derive(Debug)]
struct Open {
    file: File,
    newest: Option<(u64, RegisterValue)>,
}

const MAGIC: &[u8; 8] = b"fogregs2";
const SLOT_BYTES: usize = 512;
const CHECKED_BYTES: usize = SLOT_BYTES - 8;
const HEAD_BYTES: usize = 8 + 8;

impl FileRegister {
    /// The register kept in the file at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: Mutex::default(), _lock: None }
    }

    /// Keeps `lock`, which keeps other processes away, until nobody uses the register any more.
    pub fn holding(self, lock: Arc<File>) -> Self {
        Self { _lock: Some(lock), ..self }
    }

    fn fault(&self, reason: impl ToString) -> Error {
        Error::Register { place: self.place(), reason: reason.to_string() }
    }

    /// What the file holds now; opens it at the first use. `None` inside if there is no file.
    fn load(&self) -> Result<MutexGuard<'_, Option<Open>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            let file = match OpenOptions::new().read(true).write(true).open(&self.path) {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(open),
                file => file.map_err(|e| self.fault(e))?,
            };
            let newest = self.newest(&file)?;
            *open = Some(Open { file, newest });
        }
        Ok(open)
    }

    fn newest(&self, file: &File) -> Result<Option<(u64, RegisterValue)>> {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut &*file, &mut bytes).map_err(|e| self.fault(e))?;
        if bytes.starts_with(b"fogregs1") {
            return Err(self.fault("it was written by an older version of this program"));
        }
        let damaged = || self.fault("it is damaged; restore the trusted side from your backup");
        if bytes.len() != 2 * SLOT_BYTES {
            return Err(damaged());
        }
        let (first, second) = bytes.split_at(SLOT_BYTES);
        let first = decode(first).ok_or_else(damaged)?;
        let second = decode(second).ok_or_else(damaged)?;
        Ok(first.into_iter().chain(second).max_by_key(|(serial, _)| *serial))
    }

    /// Makes the file with two empty slots; what is written afterwards changes its data only.
    fn create(&self) -> std::io::Result<Open> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&self.path)?;
        file.write_all_at(&[0; 2 * SLOT_BYTES], 0)?;
        file.sync_all()?;
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Open { file, newest: None })
    }

    fn replace(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        let mut open = self.load()?;
        let held = match &mut *open {
            Some(held) => held,
            none => none.insert(self.create().map_err(|e| self.fault(e))?),
        };
        let there = held.newest.map(|(_, value)| value);
        if there == Some(to) {
            return Ok(());
        }
        if there != from {
            return Err(Error::Fenced);
        }
        let serial = held.newest.map_or(1, |(serial, _)| serial + 1);
        let written = held.write(serial, to);
        if written.is_err() {
            *open = None; // what the file holds has to be read again
        }
        written.map_err(|e| self.fault(e))
    }
}

impl Open {
    fn write(&mut self, serial: u64, value: RegisterValue) -> std::io::Result<()> {
        let at = (serial % 2) * SLOT_BYTES as u64;
        self.file.write_all_at(&encode(serial, value), at)?;
        self.file.sync_data()?;
        self.newest = Some((serial, value));
        Ok(())
    }
}

#[async_trait]
impl Register for FileRegister {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        let open = compute(|| self.load())?;
        Ok(open.as_ref().and_then(|open| open.newest).map(|(_, value)| value))
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        compute(|| self.replace(from, to))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

fn encode(serial: u64, value: RegisterValue) -> Vec<u8> {
    let mut slot = MAGIC.to_vec();
    slot.extend_from_slice(&serial.to_le_bytes());
    slot.extend_from_slice(&value.encode());
    slot.resize(CHECKED_BYTES, 0);
    let check = fogbank_seal::digest(&[&slot]);
    slot.extend_from_slice(&check[..8]);
    slot
}

/// What a slot holds: `None` if it is damaged, nothing inside if it was never written.
fn decode(slot: &[u8]) -> Option<Option<(u64, RegisterValue)>> {
    if slot.iter().all(|byte| *byte == 0) {
        return Some(None);
    }
    let (checked, check) = slot.split_at(CHECKED_BYTES);
    if !checked.starts_with(MAGIC) || fogbank_seal::digest(&[checked])[..8] != *check {
        return None;
    }
    let serial = u64::from_le_bytes(checked[8..HEAD_BYTES].try_into().ok()?);
    let value = RegisterValue::decode(&checked[HEAD_BYTES..HEAD_BYTES + RegisterValue::BYTES])?;
    Some(Some((serial, value)))
}
