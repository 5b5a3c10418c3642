//! An engine over its own store in memory at the far end of its own link, loaded and warm.

use std::sync::Arc;

use fogbank::Result;
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;
use fogbank_durable::{MemoryRegister, VaultSettings};
use fogbank_env::Purpose;
use fogbank_oram::ring::RingEngine;
use fogbank_store::{Delay, Link, MemoryStore, Store};

use super::ask::Ask;
use crate::bench::driver::{Driver, LOAD_BATCH, Measured};
use crate::bench::durable::Durable;
use crate::bench::engine::keys;

/// A store at the far end of a link.
pub type Far = Arc<Delay<Arc<MemoryStore>>>;

/// When an engine writes buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buckets {
    /// Once an epoch.
    Buffered,
    /// Whenever they change.
    WrittenThrough,
}

/// A warm engine.
pub struct Lane {
    driver: Driver,
    far: Far,
}

/// A store in memory, and the way to it.
pub fn far(ask: &Ask) -> (Arc<MemoryStore>, Far) {
    let near = Arc::new(MemoryStore::new());
    let stream = ask.randomness(0).stream(Purpose::Faults);
    let far = Delay::new(near.clone(), ask.clock.clone(), Link::instant(), stream);
    (near, Arc::new(far))
}

impl Lane {
    /// An engine alone: nothing is kept for a recovery.
    pub async fn load(config: &StoreConfig, buckets: Buckets, ask: &Ask) -> Result<Self> {
        let (_, far) = far(ask);
        Self::over(far.clone(), far, (config, buckets), ask).await
    }

    /// The same over a `store` that reaches `far`.
    pub async fn over(
        store: Arc<dyn Store>,
        far: Far,
        (config, buckets): (&StoreConfig, Buckets),
        ask: &Ask,
    ) -> Result<Self> {
        let mut settings = config.ring_settings();
        (settings.log_epochs, settings.keep_superseded) = (false, false);
        settings.epoch_buffer = buckets == Buckets::Buffered;
        if config.write_batch == 0 {
            // The load needs write batches even where the epochs measured have none.
            settings.shape.write_batch = LOAD_BATCH;
        }
        let random = ask.randomness(1);
        let engine = RingEngine::create(store, keys()?, settings, &random).await?;
        Self::warm(Driver::new(engine, None, config, (&ask.clock, &random)), far).await
    }

    /// An engine with journal, commits and checkpoints, and a register in memory.
    pub async fn durable(config: &StoreConfig, vault: VaultSettings, ask: &Ask) -> Result<Self> {
        let (_, far) = far(ask);
        let random = ask.randomness(2);
        let register = Arc::new(MemoryRegister::default());
        let made = Durable::with_vault(far.clone(), register, (config, vault), &random).await;
        let (durable, engine) = made?;
        Self::warm(Driver::new(engine, Some(durable), config, (&ask.clock, &random)), far).await
    }

    async fn warm(mut driver: Driver, far: Far) -> Result<Self> {
        driver.load().await?;
        driver.warm_up().await?;
        Ok(Self { driver, far })
    }

    /// A round across a link, after its ramp.
    pub async fn round(&mut self, link: &LinkArgs, ask: &Ask) -> Result<Round> {
        self.far.set_link(link.link()?);
        if ask.ramp > 0.0 {
            self.driver.measure(ask.ramp).await?;
        }
        let measured = self.driver.measure(ask.seconds).await?;
        self.far.set_link(Link::instant());
        Ok(Round::of(&measured))
    }

    /// A round of whole cycles of `epochs`, for engines that are so slow that a second has no
    /// eviction.
    pub async fn cycles(&mut self, link: &LinkArgs, epochs: u64, ask: &Ask) -> Result<Round> {
        self.far.set_link(link.link()?);
        let (mut accesses, mut seconds) = (0.0, 0.0);
        while seconds < ask.seconds {
            let measured = self.driver.measure_epochs(epochs).await?;
            accesses += measured.stats.accesses as f64;
            seconds += measured.wall_s;
        }
        self.far.set_link(Link::instant());
        Ok(Round { per_s: accesses / seconds, ..Round::default() })
    }
}

/// What a round came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Round {
    /// Accesses a second.
    pub per_s: f64,
    /// Milliseconds of an epoch.
    pub epoch_ms: f64,
    /// Cells that were moved, an access.
    pub cells: f64,
}

impl Round {
    fn of(measured: &Measured) -> Self {
        Self {
            per_s: measured.stats.accesses as f64 / measured.wall_s,
            epoch_ms: measured.wall_s * 1e3 / measured.epochs as f64,
            cells: measured.stats.cells_per_access(),
        }
    }
}
