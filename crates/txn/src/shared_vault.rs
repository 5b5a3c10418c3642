//! The vault between its two users: the engine, which journals what it is about to read, and the
//! driver, which commits epochs. They take turns; nobody waits long for the lock.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_durable::{Error, Vault};
use fogbank_oram::{ReadJournal, Section, Sections};
use tokio::sync::Mutex;

/// A vault that several hold; clones are the same one.
#[derive(Clone)]
pub struct SharedVault(Arc<Mutex<Option<Vault>>>);

type Result<T> = std::result::Result<T, fogbank_oram::Error>;

impl SharedVault {
    /// Shares `vault`.
    pub fn new(vault: Vault) -> Self {
        Self(Arc::new(Mutex::new(Some(vault))))
    }

    /// Writes the full checkpoint and closes the store.
    ///
    /// # Errors
    /// Those of [`Vault::close`].
    pub async fn close(&self, full: Sections<'_>) -> std::result::Result<(), Error> {
        let vault = self.0.lock().await.take();
        vault.ok_or(Error::Stopped)?.close(full).await
    }

    /// Whether the next [`SharedVault::commit`] has to be given a full checkpoint: public.
    ///
    /// # Errors
    /// Once the vault is closed.
    pub async fn full_is_due(&self) -> Result<bool> {
        let vault = self.0.lock().await;
        Ok(vault.as_ref().ok_or(Error::Stopped)?.full_is_due())
    }

    /// As [`Vault::commit_epoch`].
    ///
    /// # Errors
    /// Its errors, as those of an engine.
    pub async fn commit(&self, delta: &[Section], full: Option<Sections<'_>>) -> Result<()> {
        let mut vault = self.0.lock().await;
        Ok(vault.as_mut().ok_or(Error::Stopped)?.commit_epoch(delta, full).await?)
    }

    /// Whom an error of the engine is to be blamed on: what another proxy has deleted looks to this
    /// one as if the cloud had lied.
    pub(crate) async fn blame(&self, error: fogbank_oram::Error) -> fogbank_oram::Error {
        let vault = self.0.lock().await;
        match (&error, &*vault) {
            (fogbank_oram::Error::CloudLied(_), Some(vault)) if vault.is_overtaken().await => {
                fogbank_oram::Error::Fenced
            }
            _ => error,
        }
    }

    /// As [`Vault::collect`].
    ///
    /// # Errors
    /// Its errors, as those of an engine.
    pub async fn collect(&self) -> Result<()> {
        let mut vault = self.0.lock().await;
        Ok(vault.as_mut().ok_or(Error::Stopped)?.collect().await?)
    }
}

#[async_trait]
impl ReadJournal for SharedVault {
    async fn append(&mut self, record: &[u8]) -> Result<()> {
        let mut vault = self.0.lock().await;
        Ok(vault.as_mut().ok_or(Error::Stopped)?.append(record).await?)
    }
}
