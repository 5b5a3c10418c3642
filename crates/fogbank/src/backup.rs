//! A store as a sealed file, and a new store from such a file.
//!
//! Backing up: the store is opened like any other time and its epochs end; then the directory, then
//! every block in the order in which a scan meets it go to the file
//! (`fogbank_durable::BackupWriter`).
//!
//! Restoring: a new store with a key, an id, salts and cells of its own is filled
//! ([`crate::fill`]). Its capacity may be another: the directory, which comes first, says whether
//! what there is fits, and every block gets a new address.
//!
//! A volume is backed up and restored block by block (`volume/whole.rs`); blocks of zeros are not
//! in the file, and are zeros in the new volume.
//!
//! Salvaging: the store is read as its newest commit has it and not taken over ([`crate::Stored`]);
//! what does not verify is passed over, and the records it belongs to are left out.
//!
//! What the cloud sees: a store that is opened, read once from one end to the other and closed; a
//! store that is created and filled by a number of epochs that follows from its capacity.

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Seek, Write};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fogbank_durable::{BackupError, BackupReader, BackupWriter, Section};
use fogbank_env::Randomness;
use fogbank_oram::{Address, Scanned, Unverified};
use fogbank_seal::MasterKey;
use fogbank_store::Store;
use fogbank_txn::{FIRST_SECTION_TAG, Key, Moved, Moving};

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::fill::{Fill, Progress};
use crate::new_folder::NewFolders;
use crate::open::OpenOptions;
use crate::opened::AtRest;
use crate::stored::Stored;
use crate::volume::{Flow, SECOND_STORE_FLAG, VolumeConfig, is_of_volume, open_at};

/// Sections of blocks: of each its address (u32) and its value.
const BLOCKS: u16 = 1;
/// Bytes from which on a section of blocks is written.
const SECTION_BYTES: usize = 1 << 20;

/// Writes everything that is in `resting` to `file`, sealed by `master`.
///
/// # Errors
/// [`Error::CloudLied`] if the store does not verify, [`Error::CannotUse`] if the file cannot be
/// written.
pub async fn back_up<W: Write + Send>(
    resting: &mut AtRest,
    file: W,
    master: &MasterKey,
    random: &Randomness,
    progress: &mut Progress<'_>,
) -> Result<W> {
    let config = resting.encoded();
    let mut writer = BackupWriter::begin(file, master, &config, random).map_err(unwritten)?;
    if let AtRest::Store(resting) = resting {
        for section in resting.directory() {
            writer.section(section.tag, &section.data).map_err(unwritten)?;
        }
    }
    let mut copy = Copy::new(writer, progress);
    copy.passes_zeros = matches!(resting, AtRest::Volume(_));
    let scanned = resting.scan(&mut copy).await;
    copy.end(scanned.err())
}

/// What could not be salvaged, for the owner's eyes.
#[derive(Debug, Clone, Default)]
pub struct Lost {
    /// What does not verify, in the order of chunks and cells.
    pub places: Vec<Unverified>,
    /// The blocks that were there.
    pub blocks: BTreeSet<Address>,
    /// The records of which a block is lost.
    pub keys: Vec<Key>,
    /// How many records there were.
    pub records: usize,
}

/// Writes everything of `stored` that verifies to `file`, sealed by `master`: the records of which
/// no block is lost. Which those are is known at the end only, so the blocks go to `aside` first,
/// sealed by a key that passes.
///
/// # Errors
/// [`Error::CannotUse`] if one of the files cannot be written; by blame if the store cannot be
/// read.
pub async fn salvage<A: Read + Write + Seek + Send, W: Write>(
    mut stored: Stored,
    (mut aside, passing): (A, &MasterKey),
    file: W,
    (master, random): (&MasterKey, &Randomness),
    progress: &mut Progress<'_>,
) -> Result<(W, Lost)> {
    let config = stored.config().clone();
    let bytes = config.encode();
    let writer = BackupWriter::begin(&mut aside, passing, &bytes, random).map_err(unwritten)?;
    let lost = Some(Lost { records: stored.directory().records(), ..Lost::default() });
    let mut copy = Copy { lost, ..Copy::new(writer, progress) };
    let scanned = stored.scan(&mut copy).await;
    let mut lost = copy.lost.take().unwrap_or_default();
    copy.end(scanned.err())?;
    lost.keys = stored.directory().leave_behind(&lost.blocks);
    aside.rewind().map_err(|error| unwritten(error.into()))?;
    let mut blocks = BackupReader::open(BufReader::new(aside), passing).map_err(unread)?;
    let mut writer = BackupWriter::begin(file, master, &bytes, random).map_err(unwritten)?;
    for section in stored.directory().sections(&config.ring_settings().shape, config.key_budget) {
        writer.section(section.tag, &section.data).map_err(unwritten)?;
    }
    while let Some((tag, data)) = blocks.section().map_err(unread)? {
        writer.section(tag, &data).map_err(unwritten)?;
    }
    Ok((writer.finish().map_err(unwritten)?, lost))
}

/// Takes blocks from a scan to a backup.
pub(crate) struct Copy<'a, 'p, W> {
    writer: BackupWriter<W>,
    blocks: Vec<u8>,
    /// Why the file could not be written: the scan knows only that it was ended.
    failure: Option<BackupError>,
    /// What is lost so far, of a copy that goes on past that.
    lost: Option<Lost>,
    /// Whether blocks of zeros are left out.
    passes_zeros: bool,
    progress: &'a mut Progress<'p>,
}

impl<'a, 'p, W: Write> Copy<'a, 'p, W> {
    /// To a backup that has been begun; it ends with the first block that is lost.
    pub(crate) fn new(writer: BackupWriter<W>, progress: &'a mut Progress<'p>) -> Self {
        let (blocks, failure, lost, passes_zeros) = (Vec::new(), None, None, false);
        Self { writer, blocks, failure, lost, passes_zeros, progress }
    }

    fn flush(&mut self) -> std::result::Result<(), BackupError> {
        self.writer.section(BLOCKS, &self.blocks)?;
        self.blocks.clear();
        Ok(())
    }

    /// After a scan that ended well, or with an error: the file.
    pub(crate) fn end(mut self, ended: Option<Error>) -> Result<W> {
        if let Some(failure) = self.failure.take() {
            return Err(unwritten(failure));
        }
        ended.map_or(Ok(()), Err)?;
        self.flush().map_err(unwritten)?;
        self.writer.finish().map_err(unwritten)
    }
}

impl<W: Write + Send> Scanned for Copy<'_, '_, W> {
    fn block(&mut self, address: Address, value: &[u8]) -> fogbank_oram::Result<()> {
        if self.passes_zeros && value.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
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

    fn lost(&mut self, place: Unverified, block: Option<Address>) -> fogbank_oram::Result<()> {
        let Some(lost) = &mut self.lost else {
            return Err(fogbank_oram::Error::CloudLied(place));
        };
        lost.blocks.extend(block);
        if lost.places.last() != Some(&place) {
            lost.places.push(place);
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.lost.is_some()
    }
}

/// Refuses a second cloud, said with `flag`, where what has this public configuration needs none,
/// and its absence where it does.
///
/// # Errors
/// [`Error::Usage`]; those of the configuration.
pub fn check_second_store(config: &[u8], flag: &str, second_store: Option<&str>) -> Result<()> {
    if is_of_volume(config) {
        return VolumeConfig::decode(config)?.engine().check_second_store(flag, second_store);
    }
    match second_store {
        Some(_) => Err(Error::Usage(format!("{flag} is for volumes: leave it out"))),
        None => Ok(()),
    }
}

impl OpenOptions {
    /// Makes a new store, or a new volume, of what `backup` holds. It has a key of its own, and the
    /// shape that was backed up but for a capacity that is asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is a store at the place already or what there is does not fit,
    /// then nothing was made; [`Error::CheckFailed`] if the backup does not open. A store that
    /// could not be filled to the end is not opened later.
    pub async fn restore<R: Read + Send>(
        self,
        mut backup: BackupReader<R>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        if is_of_volume(backup.config()) {
            return self.restore_volume(backup, progress).await;
        }
        check_second_store(
            backup.config(),
            SECOND_STORE_FLAG,
            self.place().second_store.as_deref(),
        )?;
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
            let blocks = blocks(config.value_size, tag, &data)?.into_iter();
            new.write(blocks.filter_map(|(old, value)| Some((moved.address(old)?, value)))).await?;
            section = backup.section().map_err(unread)?;
        }
        new.finish(moved.sections()).await
    }

    async fn restore_volume<R: Read + Send>(
        self,
        backup: BackupReader<R>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        if self.shape_args().capacity.is_some() {
            let why = "--capacity is for stores of keys: a volume keeps its size";
            return Err(Error::Usage(why.into()));
        }
        let (url, second) = (self.place().store_url(), self.place().second_store.as_deref());
        let config = VolumeConfig::decode(backup.config())?;
        let config = config.placed(&url, second)?;
        if !self.is_on_another() {
            config.check_room(self.place())?;
        }
        let folders = NewFolders::of(self.place());
        let (asking, asked) = (self.clone(), OnceLock::new());
        let filled = self.fill_volume(&config, backup, &asked, progress);
        NewFolders::kept_if_made(Some(folders), filled, &asking, &asked).await
    }

    /// A marker says that it is not whole until it is.
    async fn fill_volume<R: Read + Send>(
        self,
        config: &VolumeConfig,
        mut backup: BackupReader<R>,
        asked: &OnceLock<Arc<dyn Store>>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let target = self.fill_target(&[], false).await?;
        let _ = asked.set(target.store.clone());
        let volume = open_at(self, target.sides(), Some(config), Flow::default()).await?;
        let block_bytes = config.block_bytes();
        let mut section = Vec::new().into_iter();
        let next = || loop {
            if let Some(block) = section.next() {
                return Ok(Some(block));
            }
            section = match backup.section().map_err(unread)? {
                None => return Ok(None),
                Some((tag, data)) => blocks(block_bytes, tag, &data)?.into_iter(),
            };
        };
        volume.fill(next, progress).await?;
        volume.close().await?;
        target.is_whole()
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
            "--capacity {} is too small for what there is: it takes {least}, and room for more to \
             come",
            new.capacity
        )));
    }
    Ok(moving.arrive(&new.ring_settings().shape, new.key_budget, randomness)?)
}

/// The blocks of a section, each of `value_bytes`.
///
/// # Errors
/// [`Error::CheckFailed`] for a section of something else.
pub(crate) fn blocks(value_bytes: usize, tag: u16, data: &[u8]) -> Result<Vec<(Address, Bytes)>> {
    if tag != BLOCKS || !data.len().is_multiple_of(4 + value_bytes) {
        return Err(unread(BackupError::Damaged));
    }
    let one = |block: &[u8]| {
        let (address, value) = block.split_first_chunk().ok_or(unread(BackupError::Damaged))?;
        Ok((Address(u32::from_le_bytes(*address)), Bytes::copy_from_slice(value)))
    };
    data.chunks(4 + value_bytes).map(one).collect()
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

/// What it means that a backup cannot be written.
pub(crate) fn unwritten(error: BackupError) -> Error {
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
