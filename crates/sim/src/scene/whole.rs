//! The whole proxy: transactions over the engine, in a vault or without one.

use std::sync::Arc;

use fogbank_durable::{MemoryRegister, Vault};
use fogbank_env::{Clock, Metrics, Nanos, Purpose, Randomness, SystemClock, Visibility};
use fogbank_oram::BatchEngine;
use fogbank_oram::ring::RingEngine;
use fogbank_seal::{KeyRing, Salt, StoreId};
use fogbank_store::trace::VaultConfig;
use fogbank_store::{MemoryStore, Store};
use fogbank_txn::{Components, Proxy};

use super::canary::Canary;
use super::clients::Clients;
use super::leaks::{Lagging, Undoing, unpad};
use super::stage::{Stage, master_key};
use super::{Cast, Scene, SceneError, SecretFigures, Shape};

/// The figure that counts aborts.
const ABORTS: &str = "transactions_aborted";

/// Plays a scene of the whole proxy.
pub(super) async fn play(
    scene: &Scene,
    stage: &Stage,
) -> Result<(Option<String>, SecretFigures), SceneError> {
    let mut vault = match scene.cast {
        Cast::Vault => Some(create_vault(stage.store.clone(), &scene.shape, &stage.random).await?),
        _ => None,
    };
    let keys = match &vault {
        Some(vault) => vault.keys(),
        None => Arc::new(key_ring(&stage.random)?),
    };
    let engine = stage.engine(scene, keys).await?;
    if let Some(vault) = &mut vault {
        vault.run().await?;
    }
    let metrics = Metrics::default();
    let mut clock = stage.clock.clone();
    let mut engine: Box<dyn BatchEngine> = Box::new(engine);
    match scene.canary {
        Some(Canary::CatchUp) => clock = Arc::new(Lagging::new(clock)),
        Some(Canary::ClockMovedByAborts) => {
            let aborts = metrics.gauge(Visibility::Secret, ABORTS);
            engine = Box::new(Undoing::new(engine, clock.clone(), aborts));
        }
        _ => {}
    }
    let components = Components { clock, random: stage.random.clone(), metrics: metrics.clone() };
    let proxy = Proxy::start(scene.shape.proxy_settings(), engine, components, None).await?;
    let clients = Clients::start(scene, &proxy, &stage.clock);
    stage.clock.sleep_until(end_of(scene, stage.clock.now())).await;
    drop(clients);
    let stopped = match close(proxy, vault, scene.canary).await {
        Ok(()) => None,
        Err(SceneError::Proxy(error)) => Some(error.to_string()),
        Err(error) => return Err(error),
    };
    Ok((stopped, figures(&metrics)))
}

/// In the middle of the last epoch with clients.
fn end_of(scene: &Scene, now: Nanos) -> Nanos {
    let interval = scene.shape.interval.as_nanos() as Nanos;
    let points = (scene.shape.read_batches as Nanos + 1) * Nanos::from(scene.epochs);
    now.next_multiple_of(interval) + points * interval - interval / 2
}

async fn close(
    proxy: Proxy,
    vault: Option<Vault>,
    canary: Option<Canary>,
) -> Result<(), SceneError> {
    let mut closed = proxy.close().await?;
    let Some(vault) = vault else { return Ok(()) };
    let mut sections = closed.engine.save()?;
    if canary == Some(Canary::UnpaddedStash) {
        unpad(&mut sections);
    }
    sections.append(&mut closed.sections);
    Ok(vault.close(&sections).await?)
}

async fn create_vault(
    store: Arc<dyn Store>,
    shape: &Shape,
    random: &Randomness,
) -> Result<Vault, SceneError> {
    let register = Arc::new(MemoryRegister::default());
    let config = shape.public(None)?.encode();
    Ok(Vault::create(store, register, &master_key(random), config, random).await?)
}

/// The keys of a store without a vault.
pub(super) fn key_ring(random: &Randomness) -> Result<KeyRing, SceneError> {
    let mut stream = random.stream(Purpose::Incarnation);
    let (store, salt) = (StoreId::draw(&mut stream), Salt::draw(&mut stream));
    let keys = KeyRing::derive(&master_key(random), store, &[salt]);
    keys.ok_or_else(|| fogbank_oram::Error::Bug("no opening".into()).into())
}

/// The sizes of the objects around the tree: those of a store of this shape that was opened and
/// closed with nothing in it. They are the same for every other.
pub(super) async fn vault_sizes(shape: &Shape) -> Result<VaultConfig, SceneError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(0));
    let (store, random): (Arc<dyn Store>, _) =
        (Arc::new(MemoryStore::new()), Randomness::repeatable(0));
    let vault = create_vault(store.clone(), shape, &random).await?;
    let engine =
        RingEngine::create(store.clone(), vault.keys(), shape.ring_settings(), &random).await?;
    let components = Components { clock, random, metrics: Metrics::default() };
    let proxy = Proxy::start(shape.proxy_settings(), Box::new(engine), components, None).await?;
    close(proxy, Some(vault), None).await?;
    let pieces = store.blob_list("checkpoint/").await?;
    let length = async |name: &str| -> Result<u64, SceneError> {
        Ok(store.blob_get(name).await?.map_or(0, |(blob, _)| blob.len() as u64))
    };
    Ok(VaultConfig {
        commit_bytes: length("commit").await?,
        commit_bytes_an_opening: size_of::<Salt>() as u64,
        piece_bytes: length(pieces.first().map_or("", String::as_str)).await?,
        pieces: pieces.len() as u32,
        last_piece_bytes: length(pieces.last().map_or("", String::as_str)).await?,
    })
}

fn figures(metrics: &Metrics) -> SecretFigures {
    let secret = |name| metrics.gauge(Visibility::Secret, name).get();
    SecretFigures {
        reads: secret("blocks_read"),
        writes: secret("blocks_written"),
        aborts: secret(ABORTS),
    }
}
