//! A system to measure, loaded: what it stands on, and how to reach it.

use std::sync::Arc;

use crate::args::System;
use fogbank::{Error, OpenOptions, Opened, Place, Result, open_store};
use fogbank_env::{Clock, Nanos, Purpose, Randomness};
use fogbank_front::resp::Filled;
use fogbank_process::say_error;
use fogbank_store::{Delay, Link, Store};
use fogbank_terminal::{bar, show};
use fogbank_txn::NoPriv;
use fogbank_workload::servers::{Keeps, PostgresServer, RedisServer};
use fogbank_workload::{Database, Fogbank, Postgresql, Redis};
use tempfile::TempDir;

use super::endpoint::{self, Endpoint};
use super::setting::Setting;
use crate::bench::counted::{Counted, Traffic};

/// How often the baseline runs a transaction before it gives up.
const ATTEMPTS_MAX: u32 = 1_000;
/// Room of the baseline for what has been replaced and an older transaction may still read: one
/// that is under way for a fifth of a second holds back what thousands of others replace, however
/// few records there are.
const HELD_BACK: u32 = 50_000;
/// Records that the baseline is given in one message.
const LOADED_AT_ONCE: usize = 10_000;

type Far = Arc<Delay<Arc<dyn Store>>>;

/// A loaded system.
pub struct SystemUnderTest {
    /// Which one.
    pub system: System,
    /// The way to it.
    pub database: Arc<dyn Database>,
    far: Far,
    store: Arc<Counted<Far>>,
    standing: Standing,
}

/// What has to stay for as long as a system is used, each before the folder that it is in.
enum Standing {
    Fogbank(Box<Opened>, TempDir),
    FogbankRedis(Endpoint, Box<Opened>, TempDir),
    Baseline,
    Redis(RedisServer, TempDir),
    Postgresql(PostgresServer, TempDir),
}

/// From one look at how far the warm-up is to the next.
const LOOK_NANOS: Nanos = 50_000_000;
/// Longest warm-up at an interval.
const WARM_UP_NANOS: Nanos = 60_000_000_000;

/// Connections to a server: more gain nothing on one machine.
const CONNECTIONS: usize = 50;

impl SystemUnderTest {
    /// Loads a system with what the application begins with, over no link.
    ///
    /// # Errors
    /// By blame.
    pub async fn load(
        system: System,
        setting: &Setting,
        clock: &Arc<dyn Clock>,
        random: &Randomness,
    ) -> Result<Self> {
        let bare = open_store(&setting.store, clock).await?;
        let faults = random.stream(Purpose::Faults);
        let far = Arc::new(Delay::new(bare, clock.clone(), Link::instant(), faults));
        let store = Arc::new(Counted::new(far.clone()));
        let (database, standing): (Arc<dyn Database>, _) = match system {
            System::Fogbank => {
                let records =
                    setting.workload.records().map(|(key, value)| Ok(vec![(key, value, 0)]));
                let (opened, folder) = fogbank(setting, records, store.clone(), clock).await?;
                let database = Fogbank(opened.proxy().clone());
                (Arc::new(database), Standing::Fogbank(Box::new(opened), folder))
            }
            System::FogbankRedis => {
                let records = setting.workload.records().map(endpoint::kept);
                let (opened, folder) = fogbank(setting, records, store.clone(), clock).await?;
                let (endpoint, database) =
                    Endpoint::serve(&opened, setting.clients(), clock).await?;
                (Arc::new(database), Standing::FogbankRedis(endpoint, Box::new(opened), folder))
            }
            System::Nopriv => (Arc::new(nopriv(setting, store.clone()).await?), Standing::Baseline),
            System::Redis => {
                let folder = folder()?;
                let server = started(RedisServer::start(folder.path(), Keeps::Nothing))?;
                let groups = setting.workload.scanned_groups();
                let database = Redis::connect(server.address(), CONNECTIONS, &groups).await;
                let database = started(database)?;
                started(database.load(setting.workload.records()).await)?;
                (Arc::new(database), Standing::Redis(server, folder))
            }
            System::Postgresql => {
                let folder = folder()?;
                let server = started(PostgresServer::start(folder.path(), CONNECTIONS))?;
                let database = started(Postgresql::connect(&server.config(), CONNECTIONS).await)?;
                started(database.load(setting.workload.records()).await)?;
                (Arc::new(database), Standing::Postgresql(server, folder))
            }
        };
        Ok(Self { system, database, far, store, standing })
    }

    /// Says what would keep one of the systems from being loaded before another is measured in
    /// vain. A place that holds a store of Fogbank's is not ours to write into, and could not be
    /// opened, since its key is elsewhere.
    ///
    /// # Errors
    /// [`Error::Usage`] for that, and for two systems that would each make one;
    /// [`Error::CannotUse`] for a server that is not installed.
    pub async fn can_be_had(setting: &Setting, clock: &Arc<dyn Clock>) -> Result<()> {
        let (url, systems) = (&setting.store, &setting.systems);
        for system in systems {
            started(match system {
                System::Redis => RedisServer::found(),
                System::Postgresql => PostgresServer::found(),
                _ => Ok(()),
            })?;
        }
        if url == "memory:" || !systems.iter().any(|system| system.has_link()) {
            return Ok(()); // each has its own
        }
        if systems.iter().filter(|system| system.is_fogbank()).count() > 1 {
            let reason =
                format!("--store {url} has room for one store: measure one of them, or in memory:");
            return Err(Error::Usage(reason));
        }
        let store = open_store(url, clock).await?;
        let blobs = store.blob_list("").await?;
        match blobs.is_empty() {
            true => Ok(()),
            false => {
                let reason = format!("--store {url} holds a store already: name an empty place");
                Err(Error::Usage(reason))
            }
        }
    }

    /// Moves its store to the far end of another link.
    pub fn set_link(&self, link: Link) {
        self.far.set_link(link);
    }

    /// What has passed to its store so far, loading included.
    pub fn traffic(&self) -> Traffic {
        self.store.traffic()
    }

    /// Ends it.
    ///
    /// # Errors
    /// By blame.
    pub async fn close(self) -> Result<()> {
        drop(self.database);
        match self.standing {
            Standing::Fogbank(opened, _folder) => opened.close().await,
            Standing::FogbankRedis(endpoint, opened, _folder) => {
                endpoint.close().await;
                opened.close().await
            }
            Standing::Redis(_server, _folder) => Ok(()),
            Standing::Postgresql(_server, _folder) => Ok(()),
            Standing::Baseline => Ok(()),
        }
    }
}

/// A folder that goes with whoever uses it.
fn folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|e| Error::CannotUse(format!("no folder for a run: {e}")))
}

/// A server that cannot be used is not our fault.
fn started<T>(result: fogbank_workload::Result<T>) -> Result<T> {
    result.map_err(|e| Error::CannotUse(e.to_string()))
}

/// A store of fogbank's as anybody would open it, its trusted side in a folder that goes with it.
async fn fogbank(
    setting: &Setting,
    records: impl Iterator<Item = Result<Vec<Filled>>> + Send,
    store: Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
) -> Result<(Opened, TempDir)> {
    let folder = folder()?;
    let options = || {
        OpenOptions::new(Place::local(folder.path()))
            .shape(setting.shape.clone())
            .clock(clock.clone())
            .repeatable(setting.seed)
            .on(store.clone())
    };
    let bar = bar("loading fogbank");
    options().make_of(records, &mut |done, of| show(&bar, done, of)).await?;
    bar.finish_and_clear();
    let opened = options().open().await?;
    warm_up(&opened, clock).await?;
    Ok((opened, folder))
}

/// Lets epochs go by, with nothing asked, until every path has been evicted once: buckets that were
/// filled are not those of a tree that has been used, and memory that was never touched is slow. At
/// an interval that may take hours, so it ends early there.
async fn warm_up(opened: &Opened, clock: &Arc<dyn Clock>) -> Result<()> {
    let config = opened.config();
    let an_epoch = config.read_batches * config.batch + config.write_batch;
    let accesses = (1_usize << config.leaf_level) * usize::from(config.evict_every);
    let epochs = accesses.div_ceil(an_epoch.max(1)) as u64;
    let interval_s = config.interval_ms as f64 / 1e3;
    let until = (config.interval_ms > 0).then(|| clock.now() + WARM_UP_NANOS);
    match until {
        None => say_error!("warming up: {epochs} epochs"),
        Some(_) => {
            let seconds = epochs as f64 * (config.read_batches + 1) as f64 * interval_s;
            say_error!("warming up: {epochs} epochs, {seconds:.0} s at this interval");
        }
    }
    let first = opened.proxy().epoch();
    let gone = || opened.proxy().epoch() - first;
    let done = tokio::select! {
        done = gone_by(gone, epochs, until, clock) => done,
        error = opened.proxy().stopped() => return Err(error.into()),
    };
    if done < epochs {
        let seconds = WARM_UP_NANOS / 1_000_000_000;
        say_error!(
            "the rest of the warm-up is left out after {seconds} s, with {done} of {epochs} \
             epochs: some buckets are still as they were filled; --interval-ms 0 has it whole"
        );
    }
    Ok(())
}

/// Waits until so many epochs have gone by, or to a moment. How many have.
async fn gone_by(
    gone: impl Fn() -> u64,
    epochs: u64,
    until: Option<Nanos>,
    clock: &Arc<dyn Clock>,
) -> u64 {
    let bar = bar("warming up");
    let shown = |epochs: u64| u32::try_from(epochs).unwrap_or(u32::MAX);
    loop {
        let done = gone();
        show(&bar, shown(done.min(epochs)), shown(epochs));
        if done >= epochs || until.is_some_and(|until| clock.now() >= until) {
            bar.finish_and_clear();
            return done;
        }
        clock.sleep_until(clock.now() + LOOK_NANOS).await;
    }
}

/// The baseline over the same kind of store.
async fn nopriv(setting: &Setting, store: Arc<dyn Store>) -> Result<NoPriv> {
    let config = setting.config()?;
    let capacity = config.capacity.saturating_add(HELD_BACK);
    let proxy = NoPriv::create(store, capacity, config.value_size, ATTEMPTS_MAX).await?;
    let mut records = setting.workload.records();
    loop {
        let part: Vec<_> = records.by_ref().take(LOADED_AT_ONCE).collect();
        if part.is_empty() {
            return Ok(proxy);
        }
        proxy.load(part).await?;
    }
}

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_warm_up_ends_with_its_epochs_or_with_its_time() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        // An epoch a second.
        let gone = || clock.now() / 1_000_000_000;
        assert_eq!(gone_by(gone, 5, None, &clock).await, 5);
        assert_eq!(gone_by(gone, 8, Some(clock.now() + 60_000_000_000), &clock).await, 8);
        let until = clock.now() + WARM_UP_NANOS;
        assert_eq!(gone_by(gone, 1_000, Some(until), &clock).await, 68);
    }
}
