//! An engine over its own store at the far end of a link, loaded once and opened anew for another k.
//!
//! Loading, opening and closing go over no link: only what clients do is measured.

use std::sync::Arc;
use std::time::Duration;

use fogbank::{Result, open_store};
use fogbank_durable::{MemoryRegister, Opening, Recovered, Vault};
use fogbank_env::{Clock, Mutex, Purpose, Randomness};
use fogbank_oram::ImmediateEngine;
use fogbank_oram::immediate::{Parts, ShellSettings};
use fogbank_seal::MasterKey;
use fogbank_store::{Delay, DepartureGrid, GridStore, Link, Store};

use super::clients::{Answers, Field, Span, Written};
use super::measured_engine::MeasuredEngine;
use super::path_times::PathTimes;
use crate::bench::counted::{Counted, Traffic};
use fogbank_terminal::bar;

type Far = Arc<Delay<Arc<dyn Store>>>;
type Paths = Arc<PathTimes<Far>>;

/// A loaded store with an open engine.
pub struct Lane<S: MeasuredEngine> {
    ground: Ground,
    field: Arc<Field<S::Engine>>,
    settings: S,
}

/// What stays when the engine is closed.
struct Ground {
    clock: Arc<dyn Clock>,
    random: Randomness,
    far: Far,
    paths: Paths,
    store: Arc<Counted<Paths>>,
    register: Arc<MemoryRegister>,
    written: Arc<Written>,
    /// Parts of `random` that were taken: no two openings and no two points share one.
    taken: u64,
}

/// What one point came to.
pub struct Measured<S> {
    /// When clients were answered.
    pub answers: Answers,
    /// What passed to the store.
    pub traffic: Traffic,
    /// The mean milliseconds of a path.
    pub path_ms: f64,
    /// Checkpoints meanwhile.
    pub checkpoints: u64,
    /// The engine's figures since it was opened.
    pub stats: S,
}

impl<S: MeasuredEngine> Lane<S> {
    /// Makes a store and loads it, as fast as it can.
    pub async fn load(settings: S, seed: u64) -> Result<Self> {
        let shape = settings.shell().shape;
        let usual = ShellSettings::new(shape);
        let settings = settings.with_shell(|shell| {
            shell.quantum = Duration::ZERO;
            shell.pace = usual.pace;
            shell.window_bytes = usual.window_bytes;
            shell.windows = usual.windows;
        });
        let mut ground = Ground::new(shape.capacity, seed).await?;
        let random = ground.random();
        let key = key();
        let points = DepartureGrid::new(ground.clock.clone(), settings.shell().quantum);
        let opening = ground.opening(&settings, &points, (&key, &random));
        let vault = opening.create(b"bench".to_vec()).await?;
        let opened = (vault, Recovered::default());
        let engine = ground.engine(&settings, points, opened, &random).await?;
        let field = Field::new(engine, ground.clock.clone(), ground.written.clone());
        let bar = bar("loading");
        field.load(&mut random.stream(Purpose::Workload), &bar).await?;
        bar.finish_and_clear();
        Ok(Self { ground, field, settings })
    }

    /// The same store, closed and opened with other settings of the same shape.
    pub async fn reopen(mut self, settings: S) -> Result<Self> {
        if settings == self.settings {
            return Ok(self);
        }
        self.field.engine.close().await?;
        let (key, random) = (key(), self.ground.random());
        let points = DepartureGrid::new(self.ground.clock.clone(), settings.shell().quantum);
        let opened = self.ground.opening(&settings, &points, (&key, &random)).recover().await?;
        let engine = self.ground.engine(&settings, points, opened, &random).await?;
        self.field = Field::new(engine, self.ground.clock.clone(), self.ground.written.clone());
        Ok(Self { settings, ..self })
    }

    /// Lets so many clients run across `link` for so long, after a warm-up.
    pub async fn measure(
        &mut self,
        clients: usize,
        link: Link,
        seconds: f64,
    ) -> Result<Measured<S::Stats>> {
        let random = self.ground.random();
        let Ground { far, paths, store, clock, .. } = &self.ground;
        far.set_link(link);
        let (bar, span) = (bar("measuring"), Span::of(clock.as_ref(), seconds));
        let mut running = self.field.start(clients, &random);
        running.go_on(span.from, &bar).await?;
        let (before, fetched) = (store.traffic(), paths.fetched());
        let had = S::stats(&self.field.engine);
        running.go_on(span.to, &bar).await?;
        let (traffic, path_ms) = (store.traffic().since(before), paths.fetched().ms_since(fetched));
        let stats = S::stats(&self.field.engine);
        bar.finish_and_clear();
        far.set_link(Link::instant());
        let answers = running.end(span).await?;
        let checkpoints = S::checkpoints(&stats) - S::checkpoints(&had);
        Ok(Measured { answers, traffic, path_ms, checkpoints, stats })
    }

    /// Closes the engine; the store is gone then.
    pub async fn close(self) -> Result<()> {
        Ok(self.field.engine.close().await?)
    }
}

impl Ground {
    async fn new(capacity: u32, seed: u64) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(fogbank_env::SystemClock::new());
        let random = Randomness::repeatable(seed);
        let bare = open_store("memory:", &clock).await?;
        let faults = random.split(0).stream(Purpose::Faults);
        let far = Arc::new(Delay::new(bare, clock.clone(), Link::instant(), faults));
        let paths = Arc::new(PathTimes::new(far.clone(), clock.clone()));
        let store = Arc::new(Counted::new(paths.clone()));
        let written = Arc::new(Mutex::new(vec![0; capacity as usize]));
        let register = Arc::default();
        Ok(Self { clock, random, far, paths, store, register, written, taken: 0 })
    }

    /// The next part of the seed's randomness.
    fn random(&mut self) -> Randomness {
        self.taken += 1;
        self.random.split(self.taken)
    }

    fn opening<'a>(
        &self,
        settings: &impl MeasuredEngine,
        points: &DepartureGrid,
        (master, random): (&'a MasterKey, &'a Randomness),
    ) -> Opening<'a> {
        Opening {
            store: Arc::new(GridStore::new(self.store.clone(), points.clone())),
            register: self.register.clone(),
            master,
            random,
            settings: settings.vault(),
            accept_rollback_risk: false,
        }
    }

    async fn engine<S: MeasuredEngine>(
        &self,
        settings: &S,
        points: DepartureGrid,
        (vault, recovered): (Vault, Recovered),
        random: &Randomness,
    ) -> Result<S::Engine> {
        let store = self.store.clone();
        let parts = Parts { store, vault, recovered, random, grid: points, progress: &|_, _| {} };
        settings.clone().open(parts).await
    }
}

fn key() -> MasterKey {
    MasterKey::from_bytes(&mut [7; 32])
}

#[cfg(test)]
mod tests {
    use fogbank::Error;
    use fogbank_oram::ImmediateShape;
    use fogbank_oram::tao::TaoSettings;

    use super::*;

    /// The canary of the clients' check: had the store lost the last write of every block, they would
    /// say so, also after it was opened anew.
    #[tokio::test]
    async fn a_value_that_is_not_the_last_written_is_seen() {
        let shape = ImmediateShape { capacity: 16, value_bytes: 64 };
        let settings = TaoSettings { write_back_every: 4, ..TaoSettings::new(shape) };
        let mut lane = Lane::load(settings.clone(), 1).await.unwrap();
        lane.measure(2, Link::instant(), 0.05).await.unwrap();
        let mut lane = lane.reopen(TaoSettings { write_back_every: 5, ..settings }).await.unwrap();
        lane.measure(2, Link::instant(), 0.05).await.unwrap();
        lane.ground.written.lock().iter_mut().for_each(|count| *count += 1);
        let seen = lane.measure(2, Link::instant(), 0.05).await.map(drop);
        assert!(matches!(seen, Err(Error::CheckFailed(_))), "{seen:?}");
    }
}
