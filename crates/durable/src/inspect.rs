//! Looking at a store without opening it: reads the commit record, changes nothing.
//!
//! Without the key what is told is what the cloud knows, and only claimed. With key and register it
//! is also said whether the record verifies, whether it is the newest state, and where it stands.
//!
//! What the cloud sees: one read of the commit record.

use fogbank_seal::{MasterKey, StoreId};
use fogbank_store::Store;

use crate::commit::CommitRecord;
use crate::commit::{COMMIT_BLOB, PublicPart, State};
use crate::error::commit_asked;
use crate::freshness::Known;
use crate::opening::{look, unopened};
use crate::{Error, Register, Result, Vault};

/// What a commit record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// Which store.
    pub store: StoreId,
    /// The number of the commit record: epochs, openings and closes so far.
    pub sequence: u64,
    /// What the last proxy said of the store.
    pub state: State,
    /// How often it was opened, the creation included.
    pub openings: u32,
    /// The public configuration.
    pub config: Vec<u8>,
    /// Bytes of the record.
    pub record_bytes: u64,
    /// What is known if there are key and register: all of the above is authentic then.
    pub verified: Option<Standing>,
}

/// Where a store stands, by a commit record that verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Epochs committed.
    pub epoch: u64,
    /// The epoch at whose end the newest full checkpoint was taken, and its pieces.
    pub full_epoch: u64,
    /// Pieces of it; 0 if there is none yet.
    pub full_pieces: u32,
}

impl Vault {
    /// The public configuration of the store, by a commit record that opens by the key: authentic,
    /// though it may be an old one of this store. `None` if there is no store and the register
    /// knows of none.
    ///
    /// # Errors
    /// [`Error::CloudEmpty`], [`Error::CloudLied`]; [`Error::Format`] if the register says that the
    /// record is genuine.
    pub async fn config_by_key(
        store: &dyn Store,
        register: &dyn Register,
        master: &MasterKey,
    ) -> Result<Option<Vec<u8>>> {
        let Some((bytes, _)) = store.blob_get(COMMIT_BLOB).await.map_err(commit_asked)? else {
            let known = register.read().await?;
            let begun = known.is_some_and(|known| known.sequence > 0);
            return if begun { Err(Error::CloudEmpty) } else { Ok(None) };
        };
        match CommitRecord::open(&bytes, master) {
            Ok((record, ..)) => Ok(Some(record.public.config)),
            // A register that cannot be asked vouches for nothing.
            Err(error) => Err(unopened(error, &bytes, register.read().await.ok().flatten())),
        }
    }

    /// The public configuration of the store, as its commit record claims it; `None` if there is no
    /// store. Authentic only once the store is open: for whoever has no key.
    ///
    /// # Errors
    /// [`Error::Absent`], [`Error::CloudLied`] or [`Error::Format`].
    pub async fn claimed_config(store: &dyn Store) -> Result<Option<Vec<u8>>> {
        match store.blob_get(COMMIT_BLOB).await.map_err(commit_asked)? {
            None => Ok(None),
            Some((record, _)) => Ok(Some(PublicPart::decode(&record)?.0.config)),
        }
    }
}

/// Reads the commit record of the store; with `trusted`, holds it against key and register.
///
/// # Errors
/// [`Error::NoStore`]; with `trusted` those of [`crate::Opening::recover`], too.
pub async fn inspect(
    store: &dyn Store,
    trusted: Option<(&dyn Register, &MasterKey)>,
) -> Result<Inspected> {
    let (public, record_bytes, verified) = match trusted {
        None => {
            let (record, _) =
                store.blob_get(COMMIT_BLOB).await.map_err(commit_asked)?.ok_or(Error::NoStore)?;
            (PublicPart::decode(&record)?.0, record.len() as u64, None)
        }
        Some((register, master)) => {
            let known = register.read().await?;
            let view = look(store, register, master, known, false).await?;
            Known::check(&view.record, view.digest, known)?;
            let standing = Standing {
                epoch: view.record.epoch,
                full_epoch: view.record.full_epoch,
                full_pieces: view.record.full.map_or(0, |full| full.pieces),
            };
            (view.record.public, view.bytes, Some(standing))
        }
    };
    let PublicPart { store, sequence, state, config, salts } = public;
    let openings = salts.len() as u32;
    Ok(Inspected { store, sequence, state, openings, config, record_bytes, verified })
}
