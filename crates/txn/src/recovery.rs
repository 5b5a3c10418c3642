//! From what a vault recovered to running epochs.
//!
//! 1. The directory: the full checkpoint's, then the delta of every epoch committed since.
//! 2. The engine: the same ([`RingEngine::replay_epoch`], no I/O).
//! 3. The open epoch: exactly the cells of every batch in its journal are read again
//!    ([`RingEngine::replay`]); the batches that are missing are dummies, journalled like any other;
//!    its commit is empty, so whatever its transactions did never was.
//! 4. What a stop left in the cloud is swept; then the epochs go on.
//!
//! A stop anywhere in here is recovered from in the same way: the dummies are in the journal then.
//! What the cloud sees: the cells of before, an epoch of its usual shape, and that there was a stop.

use fogbank_durable::Recovered;
use fogbank_oram::ring::{RingEngine, is_write_record};
use fogbank_oram::{BatchEngine, BatchShape};

use crate::checkpoint;
use crate::delta::{self, Delta};
use crate::directory::Directory;
use crate::error::Result;
use crate::keeping::Keeping;
use crate::proxy::Proxy;
use crate::settings::{Components, Settings};

impl Proxy {
    /// Goes on where the proxy before stopped, however it did. `engine` is as the sections of
    /// `recovered.full` left it, or new if there are none; it logs its epochs and keeps what they
    /// supersede. `progress` is told how many of how many steps are done.
    ///
    /// # Errors
    /// [`Error::BadCheckpoint`] if the directory cannot be read, [`Error::Stopped`] if the engine or
    /// the vault fails: then it can be tried again from the start.
    pub async fn recover(
        settings: Settings,
        mut engine: RingEngine,
        vault: Keeping,
        components: Components,
        recovered: &Recovered,
        progress: impl Fn(usize, usize) + Send,
    ) -> Result<Self> {
        let steps = recovered.deltas.len() + recovered.journal.len() + 1;
        let directory = restore_directory(&engine.shape(), recovered)?;
        for (done, delta) in recovered.deltas.iter().enumerate() {
            progress(done, steps);
            engine.replay_epoch(delta)?;
        }
        for (done, record) in recovered.journal.iter().enumerate() {
            progress(recovered.deltas.len() + done, steps);
            engine.replay(record).await?;
        }
        engine.set_journal(Box::new(vault.clone()));
        if !recovered.journal.is_empty() {
            let reads = recovered.journal.iter().filter(|record| !is_write_record(record)).count();
            let open = Open {
                reads_left: settings.read_batches.saturating_sub(reads),
                written: reads < recovered.journal.len(),
            };
            open.complete(&mut engine, &vault, &directory, &settings).await?;
        }
        engine.sweep().await?;
        progress(steps, steps);
        Ok(Self::begin_epochs(settings, Box::new(engine), Some(vault), components, directory))
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
    Ok(directory)
}

/// What is left of the epoch that a stop has opened.
struct Open {
    reads_left: usize,
    written: bool,
}

impl Open {
    /// Completes it with dummies and commits it, empty.
    async fn complete(
        self,
        engine: &mut RingEngine,
        vault: &Keeping,
        directory: &Directory,
        settings: &Settings,
    ) -> fogbank_oram::Result<()> {
        let reads_left = if self.written { 0 } else { self.reads_left };
        for _ in 0..reads_left {
            engine.read_batch(&[]).await?;
        }
        if !self.written {
            engine.write_batch(Vec::new()).await?;
        }
        let mut delta = engine.commit().await?;
        delta.push(Delta::default().into_section(&engine.shape()));
        let full = match vault.full_is_due().await? {
            true => Some(checkpoint::save(engine, settings.key_budget_bytes, |pieces| {
                pieces.next(directory)
            })?),
            false => None,
        };
        vault.commit(&delta, full).await?;
        tokio::try_join!(biased; engine.collect(), vault.collect()).map(drop)
    }
}
