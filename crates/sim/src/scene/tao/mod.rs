//! Scenes of `tao`: see [`super::volume`].

pub mod canary;

use std::time::Duration;

use async_trait::async_trait;
use fogbank_durable::VaultSettings;
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::ShellSettings;
use fogbank_oram::tao::{Parts, TaoEngine, TaoSettings};
use fogbank_store::Link;
use fogbank_store::trace::{PublicConfig, TraceClock, TraceWriter};

pub use super::volume::{FILE_SYSTEM_BLOCKS, Load, Observed, Schedule, VolumePlayed as TaoPlayed};

use self::canary::Leak;
use super::SceneError;
use super::volume::{Played, VolumeScene};

/// A scene of `tao`.
pub type TaoScene = VolumeScene<TaoSettings>;

#[async_trait]
impl Played for TaoSettings {
    type Engine = TaoEngine;
    type Leak = Leak;

    fn shell(&self) -> &ShellSettings {
        &self.shell
    }

    fn vault(&self) -> VaultSettings {
        self.vault()
    }

    fn public(&self, config_bytes: usize) -> Result<PublicConfig, SceneError> {
        Ok(self.public(TraceClock::Virtual, config_bytes, true)?)
    }

    async fn open(
        self,
        parts: Parts<'_>,
        _: &TraceWriter,
        _: Option<Leak>,
    ) -> fogbank_oram::Result<TaoEngine> {
        TaoEngine::open(self, parts).await
    }

    fn begin(leak: Leak, engine: &TaoEngine) {
        leak.begin(engine);
    }
}

impl TaoScene {
    /// Five clients on a small store that writes back and checkpoints often, over a link of 8 ms
    /// with as much jitter, to a cloud that holds one message in eight.
    pub fn new(load: Load, seed: u64) -> Self {
        let shape = ImmediateShape { capacity: 100, value_bytes: 16 };
        let ms = Duration::from_millis;
        Self {
            load,
            clients: 5,
            accesses: 600,
            gap: ms(12),
            serves_until: Duration::ZERO,
            seed,
            arrivals: seed,
            settings: TaoSettings { write_back_every: 5, ..TaoSettings::new(shape) }.with_shell(
                |shell| {
                    shell.window_bytes = 600;
                    shell.windows = 2;
                },
            ),
            link: Link { round_trip: ms(8), jitter: ms(8), ..Link::instant() },
            schedule: Schedule { every: 8, most: ms(40) },
            lie: None,
            death: None,
            leak: None,
        }
    }
}
