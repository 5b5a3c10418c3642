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

    /// Bytes that accesses have read for themselves, if others read, too.
    fn asked_bytes(&self, stats: &Self::Stats) -> Option<u64>;

    /// What shuffling is behind, in orders, if any waits.
    fn debt(stats: &Self::Stats) -> Option<u64>;

    /// Whether a new store is full: all blocks have their places, and only bytes are lacking.
    const BEGINS_FULL: bool;
}

macro_rules! measured {
    ($settings:ty, $engine:ty, $stats:ty, $begins_full:expr, $asked:expr, $debt:expr) => {
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

            fn asked_bytes(&self, stats: &Self::Stats) -> Option<u64> {
                let asked: fn(&Self, &Self::Stats) -> Option<u64> = $asked;
                asked(self, stats)
            }

            fn debt(stats: &Self::Stats) -> Option<u64> {
                let debt: fn(&Self::Stats) -> Option<u64> = $debt;
                debt(stats)
            }

            const BEGINS_FULL: bool = $begins_full;
        }
    };
}

// All that `tao` reads is paths.
measured!(TaoSettings, TaoEngine, fogbank_oram::tao::Stats, false, |_, _| None, |_| None);
measured!(
    PartitionSettings,
    PartitionEngine,
    fogbank_oram::partition::Stats,
    true,
    |settings, stats| Some(stats.cells_asked * settings.cell_bytes() as u64),
    |stats| Some(stats.orders_open)
);
