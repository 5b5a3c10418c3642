//! The whole proxy: transactions over the engine, in a vault or without one.

use std::sync::Arc;

use fogbank_durable::{Section, Vault};
use fogbank_env::{Metrics, Nanos, Visibility};
use fogbank_oram::BatchEngine;
use fogbank_txn::{Components, FIRST_SECTION_TAG, Proxy};

use super::canary::Canary;
use super::clients::Clients;
use super::leaks::{Lagging, Undoing, unpadded};
use super::stage::Stage;
use super::vault::key_ring;
use super::{Cast, Scene, SceneError, SecretFigures};

/// The figure that counts aborts.
const ABORTS: &str = "transactions_aborted";

/// Plays a scene of the whole proxy.
pub(super) async fn play(
    scene: &Scene,
    stage: &Stage<'_>,
) -> Result<(Option<String>, SecretFigures), SceneError> {
    let (mut vault, restored) = match scene.cast {
        Cast::Vault => stage.vault(scene).await.map(|(vault, restored)| (Some(vault), restored))?,
        _ => (None, Vec::new()),
    };
    let keys = match &vault {
        Some(vault) => vault.keys(),
        None => Arc::new(key_ring(&stage.random)?),
    };
    let (of_engine, of_proxy): (Vec<Section>, Vec<Section>) =
        restored.into_iter().partition(|section| section.tag < FIRST_SECTION_TAG);
    let engine = stage.engine(scene, keys, &of_engine).await?;
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
    let of_proxy = (!of_proxy.is_empty()).then_some(&of_proxy[..]);
    let proxy = Proxy::start(scene.shape.proxy_settings(), engine, components, of_proxy).await?;
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
pub(super) fn end_of(scene: &Scene, now: Nanos) -> Nanos {
    let interval = scene.shape.interval.as_nanos() as Nanos;
    let points = (scene.shape.read_batches as Nanos + 1) * Nanos::from(scene.epochs);
    now.next_multiple_of(interval) + points * interval - interval / 2
}

/// Ends the epochs and closes the store, if there is a vault.
pub(super) async fn close(
    proxy: Proxy,
    vault: Option<Vault>,
    canary: Option<Canary>,
) -> Result<(), SceneError> {
    let mut closed = proxy.close().await?;
    let Some(vault) = vault else { return Ok(()) };
    let sections = closed.save()?;
    if canary == Some(Canary::UnpaddedStash) {
        return Ok(vault.close(unpadded(sections)).await?);
    }
    Ok(vault.close(sections).await?)
}

pub(super) fn figures(metrics: &Metrics) -> SecretFigures {
    let secret = |name| metrics.gauge(Visibility::Secret, name).get();
    SecretFigures {
        reads: secret("blocks_read"),
        writes: secret("blocks_written"),
        aborts: secret(ABORTS),
    }
}
