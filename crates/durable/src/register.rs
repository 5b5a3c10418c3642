//! The freshness register: the one small thing that the cloud must not be able to roll back.
//!
//! It holds the newest commit record's number and digest and how far the journal of the open epoch
//! goes. It is bumped once a batch and once a commit: after the cloud has made the object durable
//! and before anything that depends on it happens (the batch's reads, the answers).
//!
//! Invariant: it is changed from the value that the writer last saw or wrote, or not at all. So a
//! proxy that another has overtaken is refused, whatever the cloud tells it.

use async_trait::async_trait;
use fogbank_env::Mutex;
use fogbank_seal::{Digest, StoreId};

use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

/// What the register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterValue {
    /// The store it belongs to.
    pub store: StoreId,
    /// The number of the opening in the newest commit record, from 1.
    pub opening: u32,
    /// The number of the newest commit record; 0 if a store is being created.
    pub sequence: u64,
    /// Its digest.
    pub commit: Digest,
    /// Epochs committed by it.
    pub epoch: u64,
    /// Records in the journal of the epoch after that.
    pub place: u64,
    /// The digest of the last of them; of what the journal starts from if there is none.
    pub journal: Digest,
}

impl RegisterValue {
    /// Bytes of a value as it is written down.
    pub const BYTES: usize = 16 + 4 + 8 + 32 + 8 + 8 + 32;

    /// The value as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = SectionWriter::default();
        w.raw(&self.store.0).u32(self.opening).u64(self.sequence).raw(&self.commit);
        w.u64(self.epoch).u64(self.place).raw(&self.journal);
        w.0
    }

    /// The value that [`RegisterValue::encode`] made these bytes from; `None` if it did not.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = SectionReader(bytes);
        let mut store = StoreId([0; 16]);
        store.0.copy_from_slice(r.raw(16).ok()?);
        let (opening, sequence, commit) = (r.u32().ok()?, r.u64().ok()?, r.digest().ok()?);
        let (epoch, place, journal) = (r.u64().ok()?, r.u64().ok()?, r.digest().ok()?);
        let value = Self { store, opening, sequence, commit, epoch, place, journal };
        r.is_empty().then_some(value)
    }
}

/// A small value that only rises and that the cloud cannot touch.
#[async_trait]
pub trait Register: Send + Sync {
    /// What it holds; `None` if it was never written.
    ///
    /// # Errors
    /// [`Error::Register`] if it cannot be read or is damaged.
    async fn read(&self) -> Result<Option<RegisterValue>>;

    /// Reads it for a proxy that opens the store. A register that several machines share refuses
    /// from here on whoever took it before.
    ///
    /// # Errors
    /// As [`Register::read`].
    async fn take(&self) -> Result<Option<RegisterValue>> {
        self.read().await
    }

    /// Replaces `from`, which it has to hold, by `to`; returns when a power cut can no longer undo
    /// it. If it holds `to` already, that is success: somebody who saw the same did it.
    ///
    /// # Errors
    /// [`Error::Fenced`] if it holds anything else; [`Error::Register`] if it cannot be written.
    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()>;

    /// Where it is, for messages.
    fn place(&self) -> String;
}

/// A register in memory, for stores that end with the process.
#[derive(Debug, Default)]
pub struct MemoryRegister(Mutex<Option<RegisterValue>>);

#[async_trait]
impl Register for MemoryRegister {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        Ok(*self.0.lock())
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        let mut held = self.0.lock();
        if *held != from && *held != Some(to) {
            return Err(Error::Fenced);
        }
        *held = Some(to);
        Ok(())
    }

    fn place(&self) -> String {
        "in memory".into()
    }
}
