//! Transactions over a bare engine, in no vault: for leaks that show without one.

use std::sync::Arc;

use fogbank_env::{Metrics, Nanos, Visibility};
use fogbank_oram::BatchEngine;
use fogbank_txn::{Components, Proxy};

use super::canary::Canary;
use super::clients::Clients;
use super::leaks::{Lagging, Queueing, Undoing};
use super::stage::Stage;
use super::vault::key_ring;
use super::working::Working;
use super::{Scene, SceneError, SecretFigures, Workload};

/// The figure that counts aborts.
const ABORTS: &str = "transactions_aborted";

/// Plays a scene of the whole proxy.
pub(super) async fn play(
    scene: &Scene,
    stage: &Stage<'_>,
) -> Result<(Option<String>, SecretFigures), SceneError> {
    let engine = stage.engine(scene, Arc::new(key_ring(&stage.random)?), &[]).await?;
    let metrics = Metrics::default();
    let mut clock = stage.clock.clone();
    let mut engine: Box<dyn BatchEngine> = Box::new(engine);
    match scene.canary {
        Some(Canary::CatchUp) => clock = Arc::new(Lagging::new(clock)),
        Some(Canary::ClockMovedByAborts) => {
            let aborts = metrics.gauge(Visibility::Secret, ABORTS);
            engine = Box::new(Undoing::new(engine, clock.clone(), aborts));
        }
        Some(Canary::QueueBehindClients) => {
            let working = Working::new(clock.clone());
            engine = Box::new(Queueing::new(engine, working.clone()));
            clock = working;
        }
        _ if scene.workload == Workload::LongPrograms => clock = Working::new(clock),
        _ => {}
    }
    let components =
        Components { clock, random: stage.random.clone(), metrics: metrics.clone(), clients: None };
    let proxy = Proxy::start(scene.shape.proxy_settings(), engine, components, None).await?;
    let clients = Clients::start(scene, &proxy, &stage.clock);
    stage.clock.sleep_until(end_of(scene, stage.clock.now())).await;
    drop(clients);
    let stopped = proxy.close().await.err().map(|error| error.to_string());
    Ok((stopped, figures(&metrics)))
}

/// In the middle of the last epoch with clients.
pub(super) fn end_of(scene: &Scene, now: Nanos) -> Nanos {
    let interval = scene.shape.interval.as_nanos() as Nanos;
    let points = (scene.shape.read_batches as Nanos + 1) * Nanos::from(scene.epochs);
    now.next_multiple_of(interval) + points * interval - interval / 2
}

pub(super) fn figures(metrics: &Metrics) -> SecretFigures {
    let secret = |name| metrics.gauge(Visibility::Secret, name).get();
    SecretFigures {
        reads: secret("blocks_read"),
        writes: secret("blocks_written"),
        aborts: secret(ABORTS),
    }
}
