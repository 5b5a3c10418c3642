//! One store through several lives of its proxy, each but the last cut short at a call to the cloud.
//!
//! Everything runs in one process and in virtual time, from one seed: clients that transfer money,
//! the proxy as it ships, the cloud and the register of the trusted side, which outlast it. A life
//! ends before, within or after any single call: then no call gets through any more. The next one
//! knows nothing but the key, the register and the cloud.
//!
//! After the last life: every acknowledged transfer is there, every transfer is there wholly or not
//! at all, and every life began by reading exactly what the one before had read since its last
//! commit, as far as that got.

mod bank;
mod stopping;

pub use stopping::{How, Stop};

use std::fmt;
use std::sync::Arc;

use fogbank_durable::{MemoryRegister, Opening, Recovered, Vault, VaultSettings};
use fogbank_env::{Clock, Metrics, Purpose, Randomness, SystemClock};
use fogbank_oram::ring::{RingEngine, RingSettings, record_bytes};
use fogbank_seal::MasterKey;
use fogbank_store::{MemoryStore, Paced, Store};
use fogbank_txn::{Components, FIRST_SECTION_TAG, Keeping, Proxy};
use rand_core::Rng;

use self::bank::Ledger;
use self::stopping::{CellName, Stopping, Watched};
use crate::scene::Shape;

/// A story: how long each life but the last is.
#[derive(Debug, Clone)]
pub struct Lives {
    /// All randomness follows from it.
    pub seed: u64,
    /// The public shape.
    pub shape: Shape,
    /// From one full checkpoint to the next.
    pub full_every: u64,
    /// Clients at once.
    pub clients: u32,
    /// Where each life but the last ends.
    pub stops: Vec<Stop>,
}

/// What a story came to.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Transfers that were acknowledged.
    pub acknowledged: usize,
    /// Calls of each life.
    pub calls: Vec<u64>,
    /// Lives that began in an epoch that the one before had opened.
    pub repeated: usize,
}

impl fmt::Display for Lives {
    /// The line that tells the story again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} full_every {} stops {:?}", self.seed, self.full_every, self.stops)
    }
}

/// What outlasts a life.
struct World {
    cloud: Arc<MemoryStore>,
    register: Arc<MemoryRegister>,
    master: MasterKey,
    random: Randomness,
    clock: Arc<dyn Clock>,
}

/// Plays a story.
///
/// # Errors
/// What is not as it has to be, in words, with the line that tells the story again.
pub fn play(lives: &Lives) -> Result<Told, String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().map_err(|e| e.to_string())?;
    runtime.block_on(live_all(lives)).map_err(|what| format!("{what} ({lives})"))
}

async fn live_all(lives: &Lives) -> Result<Told, String> {
    let random = Randomness::repeatable(lives.seed);
    let mut key = [0; 32];
    random.stream(Purpose::MasterKey).fill_bytes(&mut key);
    let world = World {
        cloud: Arc::default(),
        register: Arc::default(),
        master: MasterKey::from_bytes(&mut key),
        random,
        clock: Arc::new(SystemClock::starting_at(0)),
    };
    let (ledger, mut told, mut before) = (Ledger::default(), Told::default(), Vec::new());
    for (number, stop) in lives.stops.iter().map(Some).chain([None]).enumerate() {
        let life = Life { lives, world: &world, number: number as u64, stop: stop.copied() };
        let (seen, calls) = life.live(&ledger).await?;
        told.calls.push(calls);
        told.repeated += usize::from(!before.is_empty() && !seen.repeated.is_empty());
        before = compare(&before, seen, stop.is_none())?;
    }
    told.acknowledged = ledger.acknowledged();
    Ok(told)
}

/// Holds what a life repeated against what the one before had read since its commit; returns what
/// the next one has to repeat.
fn compare(
    before: &[CellName],
    seen: stopping::Seen,
    whole: bool,
) -> Result<Vec<CellName>, String> {
    let repeated = seen.repeated.len().min(before.len());
    if seen.repeated[..repeated] != before[..repeated] {
        return Err("a recovery read other cells than the proxy before".into());
    }
    if whole && repeated < before.len() {
        return Err("a recovery did not read all that the proxy before had read".into());
    }
    // A life that ended while it repeated leaves the rest to the next.
    Ok(if repeated < before.len() { before.to_vec() } else { seen.since_commit })
}

/// One life of the proxy.
struct Life<'a> {
    lives: &'a Lives,
    world: &'a World,
    number: u64,
    stop: Option<Stop>,
}

impl Life<'_> {
    async fn live(&self, ledger: &Ledger) -> Result<(stopping::Seen, u64), String> {
        let watched = Arc::new(Watched::new(self.world.cloud.clone()));
        let stopping = Arc::new(Stopping::new(watched.clone(), self.stop));
        let lived = self.epochs(stopping.clone(), ledger).await;
        stopping.kill(); // what is still on its way of a story cut short does not arrive
        // How a life ended that was to be cut short does not matter: it is dead.
        if let (Err(what), None) = (lived, self.stop) {
            return Err(what);
        }
        Ok((watched.seen(), stopping.calls()))
    }

    async fn epochs(&self, store: Arc<dyn Store>, ledger: &Ledger) -> Result<(), String> {
        let random = self.world.random.split(1 + self.number);
        let paced = Paced::new(store, self.world.clock.clone(), self.lives.shape.quantum());
        let store: Arc<dyn Store> = Arc::new(paced);
        let (vault, recovered) = self.open(store.clone(), &random).await?;
        let (proxy, vault) = self.start(store, vault, recovered, &random).await?;
        if self.stop.is_none() {
            ledger.check(&proxy).await?;
        }
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..self.lives.clients {
            let stream = random.split(u64::from(client)).stream(Purpose::Workload);
            clients.spawn(ledger.clone().transfer(proxy.clone(), stream));
        }
        let epochs =
            self.lives.shape.interval * (self.lives.shape.read_batches as u32 + 1) * EPOCHS;
        let until = self.world.clock.now() + epochs.as_nanos() as u64;
        tokio::select! {
            _ = proxy.stopped() => return Err("the proxy has stopped".into()),
            () = self.world.clock.sleep_until(until) => {}
        }
        if self.stop.is_some() {
            return Ok(()); // it is cut short here all the same: nothing was closed
        }
        clients.shutdown().await;
        ledger.check(&proxy).await?;
        let mut closed = proxy.close().await.map_err(|e| e.to_string())?;
        let full = closed.save().map_err(|e| e.to_string())?;
        vault.close(full).await.map_err(|e| e.to_string())
    }

    async fn open(
        &self,
        store: Arc<dyn Store>,
        random: &Randomness,
    ) -> Result<(Vault, Recovered), String> {
        let exists = Vault::claimed_config(&*self.world.cloud).await.map_err(|e| e.to_string())?;
        let opening = Opening {
            store,
            register: self.world.register.clone(),
            master: &self.world.master,
            random,
            settings: VaultSettings {
                record_bytes: record_bytes(self.lives.shape.batch.read_batch),
                full_every: self.lives.full_every,
            },
            accept_rollback_risk: false,
        };
        let opened = match exists {
            Some(_) => opening.recover().await,
            None => opening.create(b"lives".to_vec()).await.map(|vault| (vault, nothing())),
        };
        opened.map_err(|e| format!("cannot open: {e}"))
    }

    async fn start(
        &self,
        store: Arc<dyn Store>,
        vault: Vault,
        recovered: Recovered,
        random: &Randomness,
    ) -> Result<(Proxy, Keeping), String> {
        let settings = RingSettings {
            log_epochs: true,
            keep_superseded: true,
            ..self.lives.shape.ring_settings()
        };
        let of_engine: Vec<_> =
            recovered.full.iter().filter(|s| s.tag < FIRST_SECTION_TAG).cloned().collect();
        let engine = match &of_engine[..] {
            [] => RingEngine::create(store, vault.keys(), settings, random).await,
            saved => RingEngine::restore(store, vault.keys(), settings, random, saved),
        };
        let engine = engine.map_err(|e| format!("cannot restore: {e}"))?;
        let (clock, metrics) = (self.world.clock.clone(), Metrics::default());
        let components = Components { clock, random: random.clone(), metrics };
        let (keeping, settings) = (Keeping::new(vault), self.lives.shape.proxy_settings());
        let (vault, silent) = (keeping.clone(), |_: usize, _: usize| ());
        let proxy = Proxy::recover(settings, engine, vault, components, &recovered, silent).await;
        Ok((proxy.map_err(|e| format!("cannot recover: {e}"))?, keeping))
    }
}

fn nothing() -> Recovered {
    Recovered { full: Vec::new(), deltas: Vec::new(), journal: Vec::new(), epoch: 0 }
}

/// How many epochs a life goes on that nothing cuts short.
const EPOCHS: u32 = 4;
