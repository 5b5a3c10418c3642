//! What every scene stands on: a clock, a store that is recorded, randomness.

use std::path::Path;
use std::sync::Arc;

use fogbank_durable::Section;
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::RingEngine;
use fogbank_seal::KeyRing;
use fogbank_store::trace::{TraceOptions, TraceWriter, VaultConfig};
use fogbank_store::{Delay, OrderedGridStore, Recorded, Store};
use tokio::sync::Notify;

use super::canary::Canary;
use super::death::Dying;
use super::hold::Holding;
use super::leaks::{Hasty, Keeping};
use super::liar::Liar;
use super::vault::TestStore;
use super::{Cast, Scene, SceneError};

/// What users' clocks show when a scene begins.
const WALL_ORIGIN_MS: u64 = 1_700_000_000_000;
/// Where the numbers of openings begin among the parts of a scene's randomness, after clients.
const OPENINGS: u64 = 1 << 32;

/// The stage of one scene.
pub(super) struct Stage<'a> {
    pub clock: Arc<dyn Clock>,
    pub random: Randomness,
    /// The recorded store, with departures at points.
    pub paced: Arc<dyn Store>,
    /// Told when the proxy has died.
    pub dead: Arc<Notify>,
    trace: TraceWriter,
    pub test_store: &'a TestStore,
}

impl<'a> Stage<'a> {
    /// Sets the stage; the trace begins.
    pub fn set(
        scene: &Scene,
        test_store: &'a TestStore,
        vault: Option<VaultConfig>,
        (opening, path): (u64, &Path),
    ) -> Result<Self, SceneError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::starting_at(WALL_ORIGIN_MS));
        let first = Randomness::repeatable(scene.seed);
        let random = if opening == 0 { first } else { first.split(OPENINGS + opening) };
        let config = scene.shape.public(vault)?.encode();
        let trace = TraceWriter::create(path, &config, clock.clone(), TraceOptions::default())?;
        let jitter = random.stream(Purpose::Faults);
        let far = Delay::new(test_store.store.clone(), clock.clone(), scene.link, jitter);
        let held = Holding::new(far, clock.clone(), scene.hold);
        let dead = Arc::new(Notify::new());
        let held = Dying::sent(held, scene.death, dead.clone());
        let store: Arc<dyn Store> = match scene.lie {
            None => Arc::new(Recorded::new(held, trace.clone())),
            rule => Arc::new(Recorded::new(Liar::new(held, trace.clone(), rule), trace.clone())),
        };
        let calls = Dying::unsent(store.clone(), scene.death, dead.clone());
        let paced = OrderedGridStore::new(calls, clock.clone(), scene.shape.quantum());
        let paced: Arc<dyn Store> = match scene.canary {
            Some(Canary::ReplyEarly) => {
                let usual = scene.shape.quantum() + 2 * scene.link.round_trip;
                let cell_bytes = scene.shape.cell_bytes();
                Arc::new(Hasty::new(Arc::new(paced), clock.clone(), usual, cell_bytes))
            }
            Some(Canary::CiphertextKept) => Arc::new(Keeping::new(paced, scene.shape.cell_bytes())),
            _ => Arc::new(paced),
        };
        Ok(Self { clock, random, paced, dead, trace, test_store })
    }

    /// The engine of the scene: as it was when `saved`, or in a new store.
    pub async fn engine(
        &self,
        scene: &Scene,
        keys: Arc<KeyRing>,
        saved: &[Section],
    ) -> Result<RingEngine, SceneError> {
        let random = match scene.canary {
            Some(Canary::ConstantSeed) => Randomness::repeatable(0),
            _ => self.random.clone(),
        };
        let (store, mut settings) = (self.paced.clone(), scene.shape.ring_settings());
        let journalled = scene.cast == Cast::Journalled;
        settings.keep_superseded |= journalled || scene.canary == Some(Canary::SupersededKept);
        settings.log_epochs = journalled;
        settings.epoch_buffer &= scene.canary != Some(Canary::WrittenThrough);
        let mut engine = RingEngine::open(store, keys, settings, &random, saved).await?;
        if let Some(canary) = scene.canary {
            engine.set_canary(canary.in_engine());
        }
        Ok(engine)
    }

    /// Ends the trace; how many events it has.
    pub fn finish(&self) -> Result<u64, SceneError> {
        Ok(self.trace.finish()?.events)
    }
}
