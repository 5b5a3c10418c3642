//! A store as a sealed file, and a new store from such a file.
//!
//! Backing up: the store is opened like any other time and its epochs end; then the directory, then
//! every block in the order in which a scan meets it go to the file (`fogbank_durable::BackupWriter`).
//!
//! Restoring: a new store with a key, an id, salts and cells of its own.
//! 1. A marker on the trusted side says that what is there is not whole yet.
//! 2. The store is created; the blocks are written in epochs of [`LOAD_BATCH`] slots, as many epochs as
//!    a full store needs, whatever there is.
//! 3. Engine and directory become the first checkpoint, the store is closed, the marker goes.
//!
//! What the cloud sees: a store that is opened, read once from one end to the other and closed; a
//! store that is created and filled by a number of epochs that follows from its capacity.

use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{BackupError, BackupReader, BackupWriter, Opening, Section};
use fogbank_env::{Purpose, Randomness};
use fogbank_oram::ring::RingEngine;
use fogbank_oram::{Address, BatchEngine, Scanned};
use fogbank_seal::MasterKey;
use fogbank_store::{Paced, Store};
use fogbank_txn::FIRST_SECTION_TAG;

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::open::OpenOptions;
use crate::opened::Resting;
use crate::registers::RegisterPlace;

/// Sections of blocks: of each its address (u32) and its value.
const BLOCKS: u16 = 1;
/// Bytes from which on a section of blocks is written.
const SECTION_BYTES: usize = 1 << 20;
/// Write slots of an epoch while a store is filled.
const LOAD_BATCH: usize = 500;
/// The file on the trusted side that says that a restore has not come to its end.
pub(crate) const MARKER: &str = "restoring";

/// How many of how many: what a long command tells while it runs.
pub type Progress<'a> = dyn FnMut(u32, u32) + Send + 'a;

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
    /// Makes a new store of what `backup` holds. It has a key of its own.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a store at the place already, [`Error::CheckFailed`] if the backup
    /// does not open. A store that could not be filled to the end is not opened later.
    pub async fn restore<R: Read + Send>(
        self,
        mut backup: BackupReader<R>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let config = StoreConfig::decode(backup.config())?;
        config.geometry()?;
        let ground = self.ground_for_restore().await?;
        let store: Arc<dyn Store> = Arc::new(Paced::new(
            ground.store.clone(),
            ground.clock.clone(),
            config.departure_quantum(),
        ));
        let randomness = self.randomness()?;
        let mut stream = randomness.stream(Purpose::MasterKey);
        let master = fogbank_seal::load_or_create(&ground.trusted.join("key"), &mut stream, true)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let kept = RegisterPlace::of(self.place())?;
        let register = kept.register(&master, &randomness, &ground.clock)?;
        kept.note(&*register, true).await?;
        let opening = Opening {
            store: store.clone(),
            register,
            master: &master,
            random: &randomness,
            settings: config.vault_settings()?,
            accept_rollback_risk: false,
        };
        let vault = opening.create(config.encode()).await?;
        let mut settings = config.ring_settings();
        settings.shape.write_batch = LOAD_BATCH;
        (settings.log_epochs, settings.keep_superseded) = (false, false);
        let engine = RingEngine::create(store, vault.keys(), settings, &randomness).await?;
        let epochs = config.capacity.div_ceil(LOAD_BATCH as u32);
        let mut load = Load { engine, waiting: Vec::new(), done: 0, epochs, progress };
        let mut directory = Vec::new();
        while let Some((tag, data)) = backup.section().map_err(unread)? {
            match tag {
                BLOCKS => load.blocks(&config, &data).await?,
                _ => directory.push(piece(&config, tag, data)?),
            }
        }
        load.finish().await?;
        fogbank_txn::check_directory(&directory, &config.ring_settings().shape)?;
        let full = load.engine.save()?.chain(directory.into_iter().map(Ok));
        vault.close(Box::new(full)).await?;
        ground.is_whole()
    }
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

/// Fills an engine, in epochs of one write batch each.
struct Load<'a, 'p> {
    engine: RingEngine,
    waiting: Vec<(Address, Option<Bytes>)>,
    done: u32,
    epochs: u32,
    progress: &'a mut Progress<'p>,
}

impl Load<'_, '_> {
    async fn blocks(&mut self, config: &StoreConfig, data: &[u8]) -> Result<()> {
        for block in data.chunks(4 + config.value_size) {
            let (address, value) = block.split_first_chunk().ok_or(unread(BackupError::Damaged))?;
            let address = Address(u32::from_le_bytes(*address));
            self.waiting.push((address, Some(Bytes::copy_from_slice(value))));
            if self.waiting.len() == LOAD_BATCH {
                self.epoch().await?;
            }
        }
        Ok(())
    }

    /// The epochs that are left, whether there is anything to write or not.
    async fn finish(&mut self) -> Result<()> {
        while self.done < self.epochs || !self.waiting.is_empty() {
            self.epoch().await?;
        }
        Ok(())
    }

    async fn epoch(&mut self) -> Result<()> {
        self.engine.write_batch(std::mem::take(&mut self.waiting)).await?;
        self.engine.commit().await?;
        self.done += 1;
        (self.progress)(self.done, self.epochs);
        Ok(())
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
