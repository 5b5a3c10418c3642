//! A store as a sealed file, and a new store from such a file.
//!
//! Backing up: the store is opened like any other time and its epochs end; then the directory, then
//! every block in the order in which a scan meets it go to the file (`fogbank_durable::BackupWriter`).
//!
//! Restoring: a new store with a key, an id, salts and cells of its own is filled ([`crate::fill`]). Its
//! capacity may be another: the directory, which comes first, says whether what there is fits, and every
//! block gets a new address.
//!
//! What the cloud sees: a store that is opened, read once from one end to the other and closed; a
//! store that is created and filled by a number of epochs that follows from its capacity.

use std::io::{Read, Write};

use bytes::Bytes;
use fogbank_durable::{BackupError, BackupReader, BackupWriter, Section};
use fogbank_env::Randomness;
use fogbank_oram::{Address, Scanned};
use fogbank_seal::MasterKey;
use fogbank_txn::{FIRST_SECTION_TAG, Moved, Moving};

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::fill::{Fill, Progress};
use crate::open::OpenOptions;
use crate::opened::Resting;

/// Sections of blocks: of each its address (u32) and its value.
const BLOCKS: u16 = 1;
/// Bytes from which on a section of blocks is written.
const SECTION_BYTES: usize = 1 << 20;
/// Writes everything that `resting` holds to `file`, sealed by `master`.
///
/// # Errors
/// [`Error::CheckFailed`] if the store does not verify, [`Error::CannotUse`] if the file cannot be
/// written.
pub async fn back_up<W: Write + Send>(
    resting: &mut Resting,
    file: W,
    master: &MasterKey,
    random: &Randomness,
    progress: &mut Progress<'_>,
) -> Result<W> {
    let config = resting.config().encode();
    let mut writer = BackupWriter::begin(file, master, &config, random).map_err(unwritten)?;
    for section in resting.directory() {
        writer.section(section.tag, &section.data).map_err(unwritten)?;
    }
    let mut copy = Copy { writer, blocks: Vec::new(), failure: None, progress };
    let scanned = resting.scan(&mut copy).await;
    if let Some(failure) = copy.failure.take() {
        return Err(unwritten(failure));
    }
    scanned?;
    copy.flush().map_err(unwritten)?;
    copy.writer.finish().map_err(unwritten)
}

/// Takes blocks from a scan to a backup.
struct Copy<'a, 'p, W> {
    writer: BackupWriter<W>,
    blocks: Vec<u8>,
    /// Why the file could not be written: the scan knows only that it was ended.
    failure: Option<BackupError>,
    progress: &'a mut Progress<'p>,
}

impl<W: Write> Copy<'_, '_, W> {
    fn flush(&mut self) -> std::result::Result<(), BackupError> {
        self.writer.section(BLOCKS, &self.blocks)?;
        self.blocks.clear();
        Ok(())
    }
}

impl<W: Write + Send> Scanned for Copy<'_, '_, W> {
    fn block(&mut self, address: Address, value: &[u8]) -> fogbank_oram::Result<()> {
        self.blocks.extend_from_slice(&address.0.to_le_bytes());
        self.blocks.extend_from_slice(value);
        if self.blocks.len() >= SECTION_BYTES
            && let Err(failure) = self.flush()
        {
            self.failure = Some(failure);
            return Err(fogbank_oram::Error::Caller("the backup cannot be written".into()));
        }
        Ok(())
    }

    fn progress(&mut self, done: u32, of: u32) {
        (self.progress)(done, of);
    }
}

impl OpenOptions {
    /// Makes a new store of what `backup` holds. It has a key of its own, and the shape that was backed up
    /// but for a capacity that is asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a store at the place already or what there is does not fit, then nothing
    /// was made; [`Error::CheckFailed`] if the backup
    /// does not open. A store that could not be filled to the end is not opened later.
    pub async fn restore<R: Read + Send>(
        self,
        mut backup: BackupReader<R>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let old = StoreConfig::decode(backup.config())?;
        let config = match self.shape_args().capacity {
            Some(capacity) => old.with_capacity(capacity)?,
            None => old.clone(),
        };
        config.geometry()?;
        let mut directory = Vec::new();
        let mut section = backup.section().map_err(unread)?;
        while let Some((tag, data)) = section.take_if(|(tag, _)| *tag != BLOCKS) {
            directory.push(piece(&old, tag, data)?);
            section = backup.section().map_err(unread)?;
        }
        let moved = moved(&directory, &old, &config, &self.randomness()?)?;
        drop(directory);
        let mut new = Fill::begin(self, &config, &[], false, 0, progress).await?;
        while let Some((tag, data)) = section {
            if tag != BLOCKS {
                return Err(unread(BackupError::Damaged));
            }
            let blocks = blocks(&config, &data)?.into_iter();
            new.write(blocks.filter_map(|(old, value)| Some((moved.address(old)?, value)))).await?;
            section = backup.section().map_err(unread)?;
        }
        new.finish(moved.sections()).await
    }
}

/// The directory of a store of the configuration `old` in one of the configuration `new`.
fn moved(
    directory: &[Section],
    old: &StoreConfig,
    new: &StoreConfig,
    randomness: &Randomness,
) -> Result<Moved> {
    let moving = Moving::read(directory, &old.ring_settings().shape)?;
    let least = moving.capacity_min(new.key_budget);
    if least > new.capacity as usize {
        return Err(Error::Usage(format!(
            "--capacity {} is too small for what there is: it takes {least}, and room for more to come",
            new.capacity
        )));
    }
    Ok(moving.arrive(&new.ring_settings().shape, new.key_budget, randomness)?)
}

/// The blocks of a section.
fn blocks(config: &StoreConfig, data: &[u8]) -> Result<Vec<(Address, Bytes)>> {
    let one = |block: &[u8]| {
        let (address, value) = block.split_first_chunk().ok_or(unread(BackupError::Damaged))?;
        Ok((Address(u32::from_le_bytes(*address)), Bytes::copy_from_slice(value)))
    };
    data.chunks(4 + config.value_size).map(one).collect()
}

/// A piece of the directory at its public length.
fn piece(config: &StoreConfig, tag: u16, data: Vec<u8>) -> Result<Section> {
    let lengths = fogbank_txn::checkpoint_lengths(&config.ring_settings().shape, config.key_budget);
    let index = usize::from(tag).checked_sub(FIRST_SECTION_TAG.into());
    let padded_len = index.and_then(|index| lengths.get(index).copied());
    match padded_len {
        Some(padded_len) if data.len() <= padded_len => Ok(Section { tag, padded_len, data }),
        _ => Err(unread(BackupError::Damaged)),
    }
}

fn unwritten(error: BackupError) -> Error {
    Error::CannotUse(format!("the backup cannot be written: {error}"))
}

/// What a backup that cannot be read means.
pub fn unread(error: BackupError) -> Error {
    match error {
        BackupError::Io(error) => Error::CannotUse(format!("the backup cannot be read: {error}")),
        BackupError::NotABackup | BackupError::Format(_) => Error::Usage(error.to_string()),
        BackupError::Damaged => Error::CheckFailed(error.to_string()),
    }
}
