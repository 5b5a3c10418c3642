//! A new store that is filled before it serves anybody: what a restore and a load do.
//!
//! 1. A marker on the trusted side says that what is there is not whole yet; a load keeps its note
//!    in it.
//! 2. The store is created; blocks are written in epochs of [`LOAD_BATCH`] slots, as many epochs as
//!    a full store needs, whatever there is. Each is journalled and committed as when serving, and
//!    its delta says how many epochs and blocks there were so far.
//! 3. Engine and directory become a checkpoint, the store is closed, the marker goes.
//!
//! After a stop in 2 or 3 whoever has the same blocks in the same order goes on ([`Fill::begin`]):
//! the store is taken over as ever, the epoch that was open is read again exactly and committed
//! without its writes, and the blocks of committed epochs are left out. How many these are stands
//! in the sealed deltas; the trusted side notes it too, after each commit, so that who goes on can
//! pass over them before the cloud hears of it ([`blocks_noted`]): between the opening and the next
//! epoch at most one epoch's blocks are passed over, however many the store holds.
//!
//! What the cloud sees: a store that is created and filled by a number of epochs that follows from
//! its capacity, all of one shape; after a stop also what an opening shows, and one epoch more. A
//! store that was not filled to the end is not opened for anything else.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fogbank_durable::{Opening, Recovered, Section};
use fogbank_env::Purpose;
use fogbank_oram::{Address, RecoverableEngine, Sections, batch};
use fogbank_store::{OrderedGridStore, Store};
use fogbank_txn::SharedVault;

use crate::config::StoreConfig;
use crate::engines::ring;
use crate::error::{Error, Result};
use crate::new_folder::NewFolders;
use crate::open::{FillTarget, OpenOptions};
use crate::registers::RegisterPlace;

/// Write slots of an epoch while a store is filled.
const LOAD_BATCH: usize = 500;
/// The file on the trusted side that says that a store was not filled to the end.
pub(crate) const MARKER: &str = "restoring";

/// What the newest commits say, beside the marker; gone with it.
pub(crate) const NOTED: &str = "filled";

/// How many blocks a filling had committed when it was stopped, as its trusted side noted: those of
/// the last epoch may be missing.
pub(crate) fn blocks_noted(trusted: &Path) -> u64 {
    let noted = std::fs::read(trusted.join(NOTED)).ok();
    noted.and_then(|noted| Filled::decode(&noted)).map_or(0, |filled| filled.blocks)
}

/// How many of how many: what a long command tells while it runs.
pub type Progress<'a> = dyn FnMut(u32, u32) + Send + 'a;

/// A store that is being filled.
pub(crate) struct Fill<'a, 'p> {
    target: FillTarget,
    vault: SharedVault,
    engine: Box<dyn RecoverableEngine>,
    waiting: Vec<(Address, Option<Bytes>)>,
    /// Blocks that are still to come and that the store holds already.
    left_out: u64,
    filled: Filled,
    epochs: u32,
    progress: &'a mut Progress<'p>,
}

impl<'a, 'p> Fill<'a, 'p> {
    /// Makes a store of this configuration where there is none, with `note` in its marker; or, if
    /// `goes_on`, takes over the one whose filling was begun with that note. The caller has passed
    /// over `passed` blocks, at most [`blocks_noted`], which come no more.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is one, or the one that was begun has another configuration.
    pub async fn begin(
        options: OpenOptions,
        config: &StoreConfig,
        note: &[u8],
        goes_on: bool,
        passed: u64,
        progress: &'a mut Progress<'p>,
    ) -> Result<Self> {
        if !goes_on {
            options.check_room(config)?;
        }
        let folders = (!goes_on).then(|| NewFolders::of(options.place()));
        let (asking, asked) = (options.clone(), OnceLock::new());
        let begun = async {
            let target = options.fill_target(note, goes_on).await?;
            let _ = asked.set(target.store.clone());
            Self::begin_at(target, options, config, passed, progress).await
        };
        NewFolders::kept_if_made(folders, begun, &asking, &asked).await
    }

    async fn begin_at(
        target: FillTarget,
        options: OpenOptions,
        config: &StoreConfig,
        passed: u64,
        progress: &'a mut Progress<'p>,
    ) -> Result<Self> {
        if target.claimed.as_ref().is_some_and(|claimed| *claimed != config.encode()) {
            return Err(Error::Usage(
                "the store was begun with another shape; say the same one again, or remove both \
                 sides of it"
                    .into(),
            ));
        }
        let quantum = config.departure_quantum();
        let paced = OrderedGridStore::new(target.store.clone(), target.clock.clone(), quantum);
        let store: Arc<dyn Store> = Arc::new(paced);
        let randomness = options.randomness()?;
        let mut stream = randomness.stream(Purpose::MasterKey);
        let is_new = target.claimed.is_none();
        let master = fogbank_seal::load_or_create(&target.trusted.join("key"), &mut stream, is_new)
            .map_err(|e| Error::CannotUse(e.to_string()))?;
        let kept = RegisterPlace::of(options.place())?;
        let register = kept.register(&master, &randomness, &target.clock)?;
        kept.note(&*register, is_new).await?;
        let opening = Opening {
            store: store.clone(),
            register,
            master: &master,
            random: &randomness,
            settings: config.vault_settings()?,
            accept_rollback_risk: false,
        };
        let (vault, recovered) = match &target.claimed {
            Some(claimed) => opening.recover_claimed(claimed).await?,
            None => (opening.create(config.encode()).await?, Recovered::default()),
        };
        let epochs = config.capacity.div_ceil(LOAD_BATCH as u32);
        let filled = Filled::of(&recovered, epochs)?;
        let mut settings = config.ring_settings();
        settings.shape.write_batch = LOAD_BATCH;
        let mut engine = ring::open(store, vault.keys(), settings, &randomness, &recovered).await?;
        let vault = SharedVault::new(vault);
        let open = batch::recover(&mut *engine, &recovered, &|_, _| {}).await?;
        engine.set_journal(Box::new(vault.clone()));
        let fewer = || Error::Bug("the store holds fewer blocks than were noted".into());
        let left_out = filled.blocks.checked_sub(passed).ok_or_else(fewer)?;
        let waiting = Vec::new();
        let mut fill = Self { target, vault, engine, waiting, left_out, filled, epochs, progress };
        if let Some(open) = open {
            if !open.written {
                fill.engine.write_batch(Vec::new()).await?;
            }
            fill.commit().await?; // of nothing: its blocks come again
        }
        fill.engine.sweep().await?;
        Ok(fill)
    }

    /// Takes in blocks, each address once, in the same order as before a stop.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn write(
        &mut self,
        blocks: impl IntoIterator<Item = (Address, Bytes)>,
    ) -> Result<()> {
        for (address, value) in blocks {
            if self.left_out > 0 {
                self.left_out -= 1;
                continue;
            }
            self.waiting.push((address, Some(value)));
            if self.waiting.len() == LOAD_BATCH {
                self.epoch().await?;
            }
        }
        Ok(())
    }

    /// The epochs that are left, whether there is anything to write or not; then the checkpoint,
    /// with the `directory`.
    ///
    /// # Errors
    /// Those of the engine and of the vault.
    pub async fn finish(mut self, directory: impl Iterator<Item = Section> + Send) -> Result<()> {
        while self.filled.epochs < self.epochs || !self.waiting.is_empty() {
            self.epoch().await?;
        }
        let full = self.engine.save()?.chain(directory.map(Ok));
        self.vault.close(Box::new(full)).await?;
        self.target.is_whole()
    }

    async fn epoch(&mut self) -> Result<()> {
        self.filled.epochs += 1;
        self.filled.blocks += self.waiting.len() as u64;
        self.engine.write_batch(std::mem::take(&mut self.waiting)).await?;
        self.commit().await?;
        (self.progress)(self.filled.epochs, self.epochs);
        Ok(())
    }

    async fn commit(&mut self) -> Result<()> {
        let mut delta = self.engine.commit().await?;
        delta.push(self.filled.section());
        let full: Option<Sections<'_>> = match self.vault.full_is_due().await? {
            true => Some(Box::new(
                self.engine.save()?.chain(std::iter::once(Ok(self.filled.section()))),
            )),
            false => None,
        };
        self.vault.commit(&delta, full).await?;
        self.target.note(NOTED, &self.filled.section().data)?;
        tokio::try_join!(biased; self.engine.collect(), self.vault.collect())?;
        Ok(())
    }
}

/// How far a filling is, by the epochs that are committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Filled {
    epochs: u32,
    blocks: u64,
}

impl Filled {
    /// What the newest commit says; all of `epochs` if that was the close.
    fn of(recovered: &Recovered, epochs: u32) -> Result<Self> {
        let newest = recovered.deltas.last().unwrap_or(&recovered.full);
        if let Some(section) = newest.iter().find(|section| section.tag == FILLED_TAG) {
            let torn = || Error::Bug("a filling does not say how far it is".into());
            return Self::decode(&section.data).ok_or_else(torn);
        }
        match newest.is_empty() {
            true => Ok(Self::default()),
            false => Ok(Self { epochs, blocks: u64::MAX }), // whole, but for the marker
        }
    }

    fn decode(data: &[u8]) -> Option<Self> {
        let (epochs, blocks) = data.split_first_chunk()?;
        let blocks = u64::from_le_bytes(blocks.try_into().ok()?);
        Some(Self { epochs: u32::from_le_bytes(*epochs), blocks })
    }

    fn section(self) -> Section {
        let data = [&self.epochs.to_le_bytes()[..], &self.blocks.to_le_bytes()].concat();
        Section { tag: FILLED_TAG, padded_len: data.len(), data }
    }
}

/// Beyond the tags of engine, directory and their deltas.
const FILLED_TAG: u16 = 0xE000;
