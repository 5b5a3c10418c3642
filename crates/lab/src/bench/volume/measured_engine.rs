//! The engines that serve accesses as they come, as a lane measures them.

use fogbank::Result;
use fogbank_durable::VaultSettings;
use fogbank_oram::ImmediateEngine;
use fogbank_oram::immediate::{Parts, ShellSettings};
use fogbank_oram::partition::{PartitionEngine, PartitionSettings};
use fogbank_oram::tao::{TaoEngine, TaoSettings};

/// The settings of an engine, from which it is opened.
pub trait MeasuredEngine: Clone + PartialEq + Send + Sync + 'static {
    /// What serves.
    type Engine: ImmediateEngine + 'static;
    /// Its figures.
    type Stats: Copy;

    /// What all such engines are told.
    fn shell(&self) -> &ShellSettings;

    /// The same with another shell.
    fn with_shell(self, change: impl FnOnce(&mut ShellSettings)) -> Self;

    /// What its vault is opened with.
    fn vault(&self) -> VaultSettings;

    /// Takes a store on.
    ///
    /// # Errors
    /// By blame, see [`fogbank::Error`].
    fn open(self, parts: Parts<'_>) -> impl Future<Output = Result<Self::Engine>> + Send;

    /// Figures so far.
    fn stats(engine: &Self::Engine) -> Self::Stats;

    /// Checkpoints among them.
    fn checkpoints(stats: &Self::Stats) -> u64;
}

macro_rules! measured {
    ($settings:ty, $engine:ty, $stats:ty) => {
        impl MeasuredEngine for $settings {
            type Engine = $engine;
            type Stats = $stats;

            fn shell(&self) -> &ShellSettings {
                &self.shell
            }

            fn with_shell(self, change: impl FnOnce(&mut ShellSettings)) -> Self {
                Self::with_shell(self, change)
            }

            fn vault(&self) -> VaultSettings {
                Self::vault(self)
            }

            async fn open(self, parts: Parts<'_>) -> Result<Self::Engine> {
                Ok(<$engine>::open(self, parts).await?)
            }

            fn stats(engine: &Self::Engine) -> Self::Stats {
                engine.stats()
            }

            fn checkpoints(stats: &Self::Stats) -> u64 {
                stats.checkpoints
            }
        }
    };
}

measured!(TaoSettings, TaoEngine, fogbank_oram::tao::Stats);
measured!(PartitionSettings, PartitionEngine, fogbank_oram::partition::Stats);
