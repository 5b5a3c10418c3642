//! `ring`: the engine of stores of keys and values, and of volumes of epochs.

mod public;
mod volume;

use std::sync::Arc;

use fogbank_durable::{Committed, Recovered};
use fogbank_env::Randomness;
use fogbank_oram::RecoverableEngine;
use fogbank_oram::ring::{RingEngine, RingSettings};
use fogbank_seal::KeyRing;
use fogbank_store::Store;

use crate::error::Result;

pub(super) use volume::ENGINE;

/// As it stands in the configuration of a store.
pub(crate) const NAME: &str = "ring";

/// The engine as the newest full checkpoint has it, or a new one.
pub(crate) async fn open(
    store: Arc<dyn Store>,
    keys: Arc<KeyRing>,
    settings: RingSettings,
    random: &Randomness,
    recovered: &Recovered,
) -> Result<Box<dyn RecoverableEngine>> {
    Ok(Box::new(RingEngine::open(store, keys, settings, random, &recovered.full).await?))
}

/// The engine as it was at a commit; `blind` if its array may be gone.
pub(crate) fn at(
    committed: &Committed,
    store: Arc<dyn Store>,
    settings: RingSettings,
    random: &Randomness,
    blind: bool,
) -> Result<Box<dyn RecoverableEngine>> {
    let (keys, recovered) = (committed.keys.clone(), &committed.recovered);
    let (mut engine, there) =
        RingEngine::restore_blind(store, keys, settings, random, &recovered.full)?;
    match there {
        Err(fogbank_oram::Error::CloudLied(_)) if blind => {}
        there => there?,
    }
    for delta in &recovered.deltas {
        engine.replay_epoch(delta)?;
    }
    Ok(Box::new(engine))
}
