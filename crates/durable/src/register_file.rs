//! The register as a file on the trusted side: a [`SlotFile`], so that a bump is one small write in
//! place and one sync of its data.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use async_trait::async_trait;
use fogbank_env::{Mutex, compute};

use crate::SlotFile;
use crate::{Error, Register, RegisterValue, Result};

/// A file on the trusted side. One process at a time: whoever uses it holds a lock beside it.
#[derive(Debug)]
pub struct FileRegister {
    path: PathBuf,
    open: Mutex<Option<SlotFile>>,
}

const MAGIC: [u8; 8] = *b"fogregs3";

impl FileRegister {
    /// The register kept in the file at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: Mutex::default() }
    }

    fn fault(&self, reason: impl ToString) -> Error {
        Error::Register { place: self.place(), reason: reason.to_string() }
    }

    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        self.fault(format!(
            "{what}; put its newest copy back, or accept the risk that the cloud shows an old \
             state with `fogbank recover --accept-rollback-risk`"
        ))
    }

    /// What the file holds now; opens it at the first use. `None` inside if there is no file.
    fn load(&self) -> Result<MutexGuard<'_, Option<SlotFile>>> {
        let mut open = self.open.lock();
        if open.is_none() {
            *open = SlotFile::open(&self.path, MAGIC).map_err(|e| match e.kind() {
                ErrorKind::InvalidData => self.damaged(e),
                _ => self.fault(e),
            })?;
        }
        Ok(open)
    }

    fn value(&self, file: Option<&SlotFile>) -> Result<Option<RegisterValue>> {
        let Some(bytes) = file.and_then(SlotFile::value) else { return Ok(None) };
        let value = bytes.get(..RegisterValue::BYTES).and_then(RegisterValue::decode);
        value.map(Some).ok_or_else(|| self.damaged("it is damaged"))
    }

    fn replace(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        let mut open = self.load()?;
        let there = self.value(open.as_ref())?;
        if there == Some(to) {
            return Ok(());
        }
        if there != from {
            return Err(Error::Fenced);
        }
        let file = match &mut *open {
            Some(file) => file,
            none => none.insert(SlotFile::create(&self.path, MAGIC).map_err(|e| self.fault(e))?),
        };
        let written = file.replace(&to.encode());
        if written.is_err() {
            *open = None; // what the file holds has to be read again
        }
        written.map_err(|e| self.fault(e))
    }
}

#[async_trait]
impl Register for FileRegister {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        compute(|| self.value(self.load()?.as_ref()))
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        compute(|| self.replace(from, to))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}
