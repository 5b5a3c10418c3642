//! Scenes of `partition`: see [`super::volume`].

pub mod canary;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fogbank_durable::VaultSettings;
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::{Parts, ShellSettings};
use fogbank_oram::partition::canary::{Canary as PyramidCanary, Leak as Pyramid};
use fogbank_oram::partition::{PartitionEngine, PartitionSettings};
use fogbank_store::Link;
use fogbank_store::trace::{PublicConfig, TraceClock, TraceWriter};

pub use super::volume::{Load, Schedule, VolumePlayed};

use self::canary::Leak;
use super::SceneError;
use super::volume::{Played, VolumeScene};

/// A scene of `partition`.
pub type PartitionScene = VolumeScene<Settings>;

/// The settings of the engine, and its budgets if they are not the usual ones.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The engine's.
    pub engine: PartitionSettings,
    /// Orders given and not carried out, and cells of open jobs, at most.
    pub budgets: Option<(u64, u64)>,
}

#[async_trait]
impl Played for Settings {
    type Engine = PartitionEngine;
    type Leak = Leak;

    fn shell(&self) -> &ShellSettings {
        &self.engine.shell
    }

    fn vault(&self) -> VaultSettings {
        self.engine.vault()
    }

    fn public(&self, config_bytes: usize) -> Result<PublicConfig, SceneError> {
        let engine = &self.engine;
        let budgets = self.budgets.unwrap_or((engine.orders_max(), engine.job_cells_max()));
        Ok(engine.public_within(budgets, TraceClock::Virtual, config_bytes, true))
    }

    async fn open(
        self,
        parts: Parts<'_>,
        trace: &TraceWriter,
        leak: Option<Leak>,
    ) -> fogbank_oram::Result<PartitionEngine> {
        let trace = trace.clone();
        let silent = Arc::new(move |nth: u32, partition: u32| {
            let number = u64::from(nth) << 32 | u64::from(partition);
            let _ended = trace.mark("reads-nothing", number);
        });
        let canary = match leak {
            Some(Leak::Pyramid(leak @ (Pyramid::ReplayFreshDummies | Pyramid::CellsInOrder))) => {
                PyramidCanary::new(leak)
            }
            _ => PyramidCanary::default(),
        };
        let engine = PartitionEngine::open_leaking(self.engine, parts, silent, canary).await?;
        if let Some(budgets) = self.budgets {
            engine.set_budgets(budgets);
        }
        Ok(engine)
    }

    fn begin(leak: Leak, engine: &PartitionEngine) {
        leak.begin(engine);
    }
}

impl PartitionScene {
    /// Five clients on a small store that checkpoints often, over a link of 8 ms with as much
    /// jitter, to a cloud that holds one message in eight.
    ///
    /// # Panics
    /// Never: the shape is one.
    pub fn new(load: Load, seed: u64) -> Self {
        let ms = Duration::from_millis;
        Self {
            load,
            clients: 5,
            accesses: 80,
            gap: ms(50),
            serves_until: Duration::ZERO,
            seed,
            arrivals: seed,
            settings: Settings { engine: small(5_000), budgets: None },
            link: Link { round_trip: ms(8), jitter: ms(8), ..Link::instant() },
            schedule: Schedule { every: 8, most: ms(40) },
            lie: None,
            death: None,
            leak: None,
        }
    }
}

/// A small store of so many blocks, one level of whose partitions stays in the proxy.
#[allow(clippy::unwrap_used)] // the shape is one
pub fn small(blocks: u32) -> PartitionSettings {
    let shape = ImmediateShape { capacity: blocks, value_bytes: 16 };
    let settings = PartitionSettings::new(shape, 1).unwrap();
    PartitionSettings { checkpoint_every: 60, ..settings }.with_shell(|shell| {
        shell.records_at_once = 4;
        shell.window_bytes = 1_200;
        (shell.windows, shell.bytes_at_once) = (3, 1 << 20);
    })
}
