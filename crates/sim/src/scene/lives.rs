//! The whole proxy in its store, as it ships: one life of it, from its opening to its close
//! or its death.

use std::sync::Arc;

use fogbank_env::{Metrics, Randomness};
use fogbank_txn::{Components, Hours, Proxy, SharedVault, Uptime};

use super::canary::Canary;
use super::clients::Clients;
use super::leaks::unpadded;
use super::stage::Stage;
use super::vault::vault_settings;
use super::whole::{end_of, figures};
use super::working::Working;
use super::{Scene, SceneError, SecretFigures, Workload};

/// Plays one life. A proxy that dies, or is told that the store is absent, has stopped.
pub(super) async fn play(
    scene: &Scene,
    stage: &Stage<'_>,
) -> Result<(Option<String>, SecretFigures), SceneError> {
    let metrics = Metrics::default();
    let stopped = tokio::select! {
        lived = live(scene, stage, &metrics) => lived.err().map(|error| error.to_string()),
        () = stage.dead.notified() => Some("dead".into()),
    };
    Ok((stopped, figures(&metrics)))
}

/// Set hours that change often.
struct EveryOtherSecond;

impl Hours for EveryOtherSecond {
    fn closed_at(&self, wall_ms: u64) -> Option<String> {
        (wall_ms / 1_000 % 2 == 1).then(|| "an odd second".into())
    }
}

async fn live(scene: &Scene, stage: &Stage<'_>, metrics: &Metrics) -> Result<(), SceneError> {
    let first = Randomness::repeatable(scene.seed);
    let config = (vault_settings(&scene.shape), scene.shape.public(None)?.encode());
    let (vault, recovered) =
        stage.test_store.open(stage.paced.clone(), config, (&first, &stage.random)).await?;
    let engine = stage.engine(scene, vault.keys(), &recovered.full).await?;
    let vault = SharedVault::new(vault);
    let (mut clock, random) = (stage.clock.clone(), stage.random.clone());
    if scene.workload == Workload::LongPrograms {
        clock = Working::new(clock);
    }
    let components = Components { clock, random, metrics: metrics.clone(), clients: None };
    let settings = scene.shape.proxy_settings();
    let recovering = Proxy::recover(
        settings,
        Box::new(engine),
        vault.clone(),
        components,
        &recovered,
        |_, _| {},
    );
    let proxy = recovering.await?;
    if scene.shape.pauses {
        proxy.run_when(Uptime::Hours(Arc::new(EveryOtherSecond)));
    }
    let clients = Clients::start(scene, &proxy, &stage.clock);
    stage.clock.sleep_until(end_of(scene, stage.clock.now())).await;
    drop(clients);
    let mut closed = proxy.close().await?;
    let sections = closed.save()?;
    if scene.canary == Some(Canary::UnpaddedStash) {
        return Ok(vault.close(unpadded(sections)).await?);
    }
    Ok(vault.close(sections).await?)
}
