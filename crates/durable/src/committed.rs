//! What a store holds by its newest commit, read without taking the store over: to salvage what
//! there is, or to see whether it is there while another process serves it.
//!
//! 1. The register is read, then the commit record, which has to be the register's or its
//!    successor.
//! 2. Full checkpoint and deltas are read and verified.
//!
//! The journal of the open epoch is left alone: what it stands for was never acknowledged. That is
//! so for an engine that commits epochs and not for one that serves accesses as they come.
//!
//! Invariants
//! - Nothing is put, and nothing is sealed: the keys hold one opening more than the commit record,
//!   so that an engine can be restored, whose salt nobody is told.
//! - While a proxy runs two of these reads may be of two moments. Then something is missing or does
//!   not fit, and the register has moved on: whoever asks holds it against a later one before he
//!   blames the cloud.
//!
//! What the cloud sees: one read each of the commit record and of the blobs that it leads to.

use std::sync::Arc;

use fogbank_env::{Purpose, Randomness};
use fogbank_seal::{KeyRing, MasterKey};
use fogbank_store::Store;

use crate::container::{self, Kind};
use crate::error::Blob;
use crate::freshness::Known;
use crate::journal::record_name;
use crate::opening::{key_ring, look, read_deltas, unused_salt};
use crate::{Recovered, Register, RegisterValue, Result};

/// The newest commit of a store. All of it has been verified.
pub struct Committed {
    /// The public configuration.
    pub config: Vec<u8>,
    /// The keys of all openings, and of one that will never be.
    pub keys: Arc<KeyRing>,
    /// What it holds, without a journal.
    pub recovered: Recovered,
    /// The number of the commit record.
    pub sequence: u64,
}

impl Committed {
    /// Reads it.
    ///
    /// # Errors
    /// [`crate::Error::NoStore`], [`crate::Error::CloudEmpty`], [`crate::Error::RegisterLost`];
    /// [`crate::Error::CloudLied`] also if a proxy that runs has committed meanwhile.
    pub async fn read(
        store: &dyn Store,
        register: &dyn Register,
        master: &MasterKey,
        random: &Randomness,
    ) -> Result<Self> {
        let known = register.read().await?;
        let mut view = look(store, register, master, known, false).await?;
        Known::check(&view.record, view.digest, known)?;
        let mut stream = random.stream(Purpose::Incarnation);
        let salt = unused_salt(view.record.public.salts.iter(), &mut stream);
        view.record.public.salts.push(salt);
        let keys = Arc::new(key_ring(master, &view.record)?);
        let full = match view.record.full {
            None => Vec::new(),
            Some(name) => container::read(store, &keys, name).await?,
        };
        let (deltas, _) = read_deltas(store, &keys, &view.record).await?;
        let (epoch, sequence) = (view.record.epoch, view.record.public.sequence);
        let recovered = Recovered { full, deltas, epoch, ..Recovered::default() };
        Ok(Self { config: view.record.public.config, keys, recovered, sequence })
    }
}

/// The first record of the open epoch's journal that the register knows and `listed` does not.
pub fn missing_record(known: &RegisterValue, listed: &[String]) -> Option<Blob> {
    let epoch = known.epoch + 1;
    let is_missing = |place: &u64| !listed.contains(&record_name(epoch, *place));
    (0..known.place).find(is_missing).map(|place| Blob::Journal { epoch, place })
}

/// The prefix of the names of all journal records.
pub const JOURNAL_PREFIX: &str = crate::journal::PREFIX;

/// The prefixes of the names of all blobs of a vault but the commit record: who keeps them on the
/// trusted disk shows a cloud that record alone.
pub const ALL_BUT_COMMIT: &[&str] = &[JOURNAL_PREFIX, Kind::Full.prefix(), Kind::Delta.prefix()];
