//! From what a vault recovered to running epochs.
//!
//! 1. The directory: the full checkpoint's, then the delta of every epoch committed since. What is
//!    staged and not marked is dropped: the next delta says so.
//! 2. The engine: the same, then exactly the cells of every batch in the journal of the open epoch
//!    are read again ([`fogbank_oram::batch::recover`]).
//! 3. The open epoch: the batches that are missing are dummies, journalled like any other; its
//!    commit is empty, so whatever its transactions did never was.
//! 4. What a stop left in the cloud is swept; then the epochs go on.
//!
//! A stop anywhere in here is recovered from in the same way: the dummies are in the journal then.
//! What the cloud sees: the cells of before, an epoch of its usual shape, and that there was a
//! stop.

use fogbank_durable::Recovered;
use fogbank_oram::batch::{self, OpenEpoch};
use fogbank_oram::{BatchShape, RecoverableEngine};

use crate::checkpoint;
use crate::delta::{self, Delta};
use crate::directory::Directory;
use crate::error::Result;
use crate::proxy::Proxy;
use crate::settings::{Components, Settings};
use crate::shared_vault::SharedVault;

impl Proxy {
    /// Goes on where the proxy before stopped, however it did. `engine` is as the sections of
    /// `recovered.full` left it, or new if there are none; it logs its epochs and keeps what they
    /// supersede. `progress` is told how many of how many steps are done.
    ///
    /// # Errors
    /// [`crate::Error::BadCheckpoint`] if the directory cannot be read, [`crate::Error::Stopped`]
    /// if the engine or the vault fails: then it can be tried again from the start.
    pub async fn recover(
        settings: Settings,
        mut engine: Box<dyn RecoverableEngine>,
        vault: SharedVault,
        components: Components,
        recovered: &Recovered,
        progress: impl Fn(usize, usize) + Send + Sync,
    ) -> Result<Self> {
        let directory = restore_directory(&engine.shape(), recovered)?;
        let open = batch::recover(&mut *engine, recovered, &progress).await?;
        engine.set_journal(Box::new(vault.clone()));
        if let Some(open) = open {
            complete(open, &mut *engine, &vault, &directory, &settings).await?;
        }
        engine.sweep().await?;
        let steps = recovered.deltas.len() + recovered.journal.len() + 1;
        progress(steps, steps);
        Ok(Self::begin_epochs(settings, engine, Some(vault), components, directory))
    }
}

/// The directory as the newest commit has it.
pub(crate) fn restore_directory(shape: &BatchShape, recovered: &Recovered) -> Result<Directory> {
    let mut directory = match &recovered.full[..] {
        [] => Directory::default(),
        sections => checkpoint::restore(sections, shape)?,
    };
    for sections in &recovered.deltas {
        delta::apply(&mut directory, sections, shape)?;
    }
    directory.drop_staged(); // its program has gone
    Ok(directory)
}

/// Completes an epoch with dummies and commits it, empty.
async fn complete(
    open: OpenEpoch,
    engine: &mut dyn RecoverableEngine,
    vault: &SharedVault,
    directory: &Directory,
    settings: &Settings,
) -> fogbank_oram::Result<()> {
    if !open.written {
        for _ in open.reads..settings.read_batches {
            engine.read_batch(&[]).await?;
        }
        engine.write_batch(Vec::new()).await?;
    }
    let mut delta = engine.commit().await?;
    delta.push(Delta::dropping().into_section(&engine.shape()));
    let full = match vault.full_is_due().await? {
        true => Some(checkpoint::save(engine, settings.key_budget_bytes, |pieces| {
            pieces.next(directory)
        })?),
        false => None,
    };
    vault.commit(&delta, full).await?;
    tokio::try_join!(biased; engine.collect(), vault.collect()).map(drop)
}
