//! All that a site holds, read by one client: checked, or copied into a sealed file.
//!
//! The client joins like any other, and others may work meanwhile: what comes is the state at one
//! moment (`fogbank_oram::hierarchy`). A block of zeros is like one that was never written, and is
//! passed over.

use std::io::Write;

use fogbank_durable::BackupWriter;
use fogbank_oram::{Address, Scanned};
use fogbank_seal::MasterKey;
use serde::{Deserialize, Serialize};

use super::{Coming, Joined, SitePlace, randomness};
use crate::backup::{Copy, unwritten};
use crate::error::Result;
use crate::fill::Progress;

/// What a backup of a site says of it in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteShape {
    /// Blocks.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// Under which a backup says that.
#[derive(Serialize, Deserialize)]
struct OfSite {
    site: SiteShape,
}

impl SiteShape {
    /// As the configuration of a backup.
    pub(super) fn encode(self) -> Vec<u8> {
        serde_json::to_vec(&OfSite { site: self }).unwrap_or_default()
    }

    /// What the configuration of a backup says, if it is one of a site.
    pub(crate) fn of(config: &[u8]) -> Option<Self> {
        serde_json::from_slice(config).ok().map(|OfSite { site }| site)
    }

    /// Bytes of the disk.
    pub fn bytes(self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_bytes)
    }
}

impl SitePlace {
    /// Reads and checks all that the site holds; how many blocks are not zeros.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if anything is not what was written.
    pub async fn verify(&self, progress: &mut Progress<'_>) -> Result<u64> {
        let joined = self.join_engine(None, Coming::Read).await?;
        let mut nothing = Nothing(progress);
        let blocks = scan(&joined, &mut nothing).await?;
        joined.close().await?;
        Ok(blocks)
    }

    /// Writes all that the site holds to `file`, sealed by its key; the file, and how many blocks
    /// are in it.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if the site does not verify, [`Error::CannotUse`] if the file cannot be
    /// written.
    pub async fn back_up<W: Write + Send>(
        &self,
        file: W,
        progress: &mut Progress<'_>,
    ) -> Result<(W, u64)> {
        let joined = self.join_engine(None, Coming::Read).await?;
        copy(joined, file, None, progress).await
    }

    /// The same for a site that moves, sealed by another key: all `others` that are at work end by
    /// [`crate::Error::Moved`] before it is read, and what they have acknowledged is in it.
    ///
    /// # Errors
    /// As [`SitePlace::back_up`].
    pub async fn move_out<W: Write + Send>(
        &self,
        file: W,
        key: &MasterKey,
        others: &mut usize,
        progress: &mut Progress<'_>,
    ) -> Result<W> {
        let joined = self.join_engine(None, Coming::Move).await?;
        *others = joined.engine.others();
        Ok(copy(joined, file, Some(key), progress).await?.0)
    }

    /// Says to all clients that nothing came of a move, so that they work here again.
    ///
    /// # Errors
    /// By blame.
    pub async fn stay(&self) -> Result<()> {
        self.join_engine(None, Coming::Stay).await?.close().await
    }
}

async fn copy<W: Write + Send>(
    joined: Joined,
    file: W,
    key: Option<&MasterKey>,
    progress: &mut Progress<'_>,
) -> Result<(W, u64)> {
    let (key, shape) = (key.unwrap_or(&joined.master), joined.shape().encode());
    let writer = BackupWriter::begin(file, key, &shape, &randomness()?);
    let mut copy = Copy::new(writer.map_err(unwritten)?, progress);
    let scanned = scan(&joined, &mut copy).await;
    let (blocks, failed) = match scanned {
        Ok(blocks) => (blocks, None),
        Err(error) => (0, Some(error)),
    };
    let file = copy.end(failed)?;
    joined.close().await?;
    Ok((file, blocks))
}

async fn scan(joined: &Joined, into: &mut dyn Scanned) -> Result<u64> {
    let came = vec![false; joined.parameters.blocks as usize];
    let mut counted = Counted { came, blocks: 0, into };
    joined.engine.scan(&mut counted).await?;
    Ok(counted.blocks)
}

/// Counts blocks, and passes those over that are zeros.
struct Counted<'a> {
    /// By address: whether it was handed on.
    came: Vec<bool>,
    blocks: u64,
    into: &'a mut dyn Scanned,
}

impl Scanned for Counted<'_> {
    fn block(&mut self, address: Address, value: &[u8]) -> fogbank_oram::Result<()> {
        let beyond = || fogbank_oram::Error::Bug("a block beyond the site".into());
        let came = self.came.get_mut(address.0 as usize).ok_or_else(beyond)?;
        // It may have been written with zeros since it came.
        if !*came && value.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.blocks += u64::from(!std::mem::replace(came, true));
        self.into.block(address, value)
    }

    fn progress(&mut self, done: u32, of: u32) {
        self.into.progress(done, of);
    }
}

/// Keeps nothing of what it is given.
struct Nothing<'a, 'p>(&'a mut Progress<'p>);

impl Scanned for Nothing<'_, '_> {
    fn block(&mut self, _: Address, _: &[u8]) -> fogbank_oram::Result<()> {
        Ok(())
    }

    fn progress(&mut self, done: u32, of: u32) {
        (self.0)(done, of);
    }
}
