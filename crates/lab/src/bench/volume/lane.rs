//! An engine over its own store at the far end of a link, loaded once and opened anew for another
//! k.
//!
//! Loading, opening and closing go over no link: only what clients do is measured.

use std::sync::Arc;
use std::time::Duration;

use fogbank::{Error, Result, open_store};
use fogbank_durable::{MemoryRegister, Opening, Recovered, Vault};
use fogbank_env::{Clock, Purpose, Randomness};
use fogbank_oram::ImmediateEngine;
use fogbank_oram::immediate::{Parts, ShellSettings};
use fogbank_seal::MasterKey;
use fogbank_store::{Delay, DepartureGrid, GridStore, Link, Store};

use super::clients::{Answers, Field, Span, Written};
use super::disks::{Disks, OnDisks};
use super::measured_engine::MeasuredEngine;
use super::path_times::PathTimes;
use super::sparse;
use crate::bench::counted::{Counted, Traffic};
use fogbank_terminal::bar;

type Stored = Arc<OnDisks<Arc<dyn Store>>>;
type Far = Arc<Delay<Stored>>;
type Paths = Arc<PathTimes<Far>>;

/// Accesses under way while loading.
const LOAD_UNDER_WAY: usize = 256;

/// A loaded store with an open engine.
pub struct Lane<S: MeasuredEngine> {
    ground: Ground,
    field: Arc<Field<S::Engine>>,
    settings: S,
}

/// On what a lane stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Site {
    /// Seed of accesses, of the engine's randomness, and of cells that nobody has written.
    pub seed: u64,
    /// Disks under the store; none are as fast as memory.
    pub disks: Option<Disks>,
    /// Whether the store is full without being filled.
    pub is_sparse: bool,
}

/// What stays when the engine is closed.
pub(super) struct Ground {
    site: Site,
    stored: Stored,
    /// What the engine is given.
    pub near: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    random: Randomness,
    far: Far,
    paths: Paths,
    store: Arc<Counted<Paths>>,
    register: Arc<MemoryRegister>,
    pub written: Arc<Written>,
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
    /// Bytes that accesses have read for themselves meanwhile, if others read, too.
    pub asked_bytes: Option<u64>,
    /// Pieces that disks went to.
    pub seeks: u64,
    /// Orders that shuffling was behind before, and afterwards.
    pub debt: Option<(u64, u64)>,
    /// The engine's figures since it was opened.
    pub stats: S,
}

impl<S: MeasuredEngine> Lane<S> {
    /// Makes a store and loads it, as fast as it can; one that is sparse is full as it is.
    ///
    /// # Errors
    /// [`Error::Usage`] for a sparse store of an engine that begins with an empty one.
    pub async fn load(settings: S, site: Site) -> Result<Self> {
        if site.is_sparse && !S::BEGINS_FULL {
            let why = "--sparse is for engines that place all blocks in a new store: partition";
            return Err(Error::Usage(why.into()));
        }
        let shape = settings.shell().shape;
        let usual = ShellSettings::new(shape);
        let settings = settings.with_shell(|shell| {
            shell.quantum = Duration::ZERO;
            shell.pace = usual.pace;
            shell.window_bytes = usual.window_bytes;
            shell.windows = usual.windows;
            shell.bytes_at_once = usual.bytes_at_once;
        });
        let mut ground = Ground::new(site).await?;
        let random = ground.random();
        let key = key();
        let points = DepartureGrid::new(ground.clock.clone(), settings.shell().quantum);
        let opening = ground.opening(&settings, &points, (&key, &random));
        let vault = opening.create(b"bench".to_vec()).await?;
        let opened = (vault, Recovered::default());
        let engine = ground.engine(&settings, points, opened, &random).await?;
        let field = Field::new(engine, ground.clock.clone(), ground.written.clone());
        if !site.is_sparse {
            let bar = bar("loading");
            field.load(&mut random.stream(Purpose::Workload), LOAD_UNDER_WAY, &bar).await?;
            bar.finish_and_clear();
        }
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
    ///
    /// # Errors
    /// [`Error::CheckFailed`] if a value read is not the one written.
    pub async fn measure(
        &mut self,
        clients: usize,
        link: Link,
        seconds: f64,
    ) -> Result<Measured<S::Stats>> {
        let Self { ground, field, settings } = self;
        let told = |engine: &S::Engine| {
            let stats = S::stats(engine);
            let (checkpoints, debt) = (S::checkpoints(&stats), S::debt(&stats));
            Told { checkpoints, debt, asked_bytes: settings.asked_bytes(&stats), stats }
        };
        ground.measure(field, (clients, link, seconds), told).await
    }

    /// Closes the engine; the store is gone then.
    pub async fn close(self) -> Result<()> {
        Ok(self.field.engine.close().await?)
    }
}

/// What an engine tells of itself.
pub(super) struct Told<S> {
    pub stats: S,
    pub checkpoints: u64,
    pub asked_bytes: Option<u64>,
    pub debt: Option<u64>,
}

impl Ground {
    /// See [`Lane::measure`].
    pub async fn measure<E: ImmediateEngine + 'static, S>(
        &mut self,
        field: &Arc<Field<E>>,
        (clients, link, seconds): (usize, Link, f64),
        told: impl Fn(&E) -> Told<S>,
    ) -> Result<Measured<S>> {
        let random = self.random();
        let Ground { far, paths, store, stored, clock, .. } = &*self;
        far.set_link(link);
        stored.set(self.site.disks);
        let (bar, span) = (bar("measuring"), Span::of(clock.as_ref(), seconds));
        let mut running = field.start(clients, &random);
        running.go_on(span.from, &bar).await?;
        let (before, fetched) = (store.traffic(), paths.fetched());
        let (had, sought) = (told(&field.engine), stored.seeks());
        running.go_on(span.to, &bar).await?;
        let (traffic, path_ms) = (store.traffic().since(before), paths.fetched().ms_since(fetched));
        let (has, seeks) = (told(&field.engine), stored.seeks() - sought);
        bar.finish_and_clear();
        far.set_link(Link::instant());
        stored.set(None);
        Ok(Measured {
            answers: running.end(span).await?,
            traffic,
            path_ms,
            checkpoints: has.checkpoints - had.checkpoints,
            asked_bytes: has.asked_bytes.zip(had.asked_bytes).map(|(now, then)| now - then),
            seeks,
            debt: had.debt.zip(has.debt),
            stats: has.stats,
        })
    }

    pub async fn new(site: Site) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(fogbank_env::SystemClock::new());
        let random = Randomness::repeatable(site.seed);
        let mut bare = open_store("memory:", &clock).await?;
        let seed = site.is_sparse.then(|| sparse::Seed::new(site.seed));
        if let Some(seed) = &seed {
            bare = Arc::new(sparse::Far::new(bare, seed.clone()));
        }
        let stored = Arc::new(OnDisks::new(bare, clock.clone()));
        let faults = random.split(0).stream(Purpose::Faults);
        let far = Arc::new(Delay::new(stored.clone(), clock.clone(), Link::instant(), faults));
        let paths = Arc::new(PathTimes::new(far.clone(), clock.clone()));
        let store = Arc::new(Counted::new(paths.clone()));
        let near: Arc<dyn Store> = match seed {
            Some(seed) => Arc::new(sparse::Near::new(store.clone(), seed)),
            None => store.clone(),
        };
        let (written, register) = Default::default();
        Ok(Self {
            site,
            stored,
            near,
            clock,
            random,
            far,
            paths,
            store,
            register,
            written,
            taken: 0,
        })
    }

    /// The next part of the seed's randomness.
    pub fn random(&mut self) -> Randomness {
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
            store: Arc::new(GridStore::new(self.near.clone(), points.clone())),
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
        let store = self.near.clone();
        let parts = Parts { store, vault, recovered, random, grid: points, progress: &|_, _| {} };
        settings.clone().open(parts).await
    }
}

fn key() -> MasterKey {
    MasterKey::from_bytes(&mut [7; 32])
}

#[cfg(test)]
mod tests {
    use fogbank_oram::ImmediateShape;
    use fogbank_oram::partition::PartitionSettings;
    use fogbank_oram::tao::TaoSettings;

    use crate::bench::volume::Row;

    use super::*;

    /// The canary of the clients' check: had the store lost the last write of every block, they
    /// would say so, also after it was opened anew.
    #[tokio::test]
    async fn a_value_that_is_not_the_last_written_is_seen() {
        let shape = ImmediateShape { capacity: 16, value_bytes: 64 };
        let settings = TaoSettings { write_back_every: 4, ..TaoSettings::new(shape) };
        let mut lane =
            Lane::load(settings.clone(), Site { seed: 1, ..Site::default() }).await.unwrap();
        lane.measure(2, Link::instant(), 0.05).await.unwrap();
        let mut lane = lane.reopen(TaoSettings { write_back_every: 5, ..settings }).await.unwrap();
        lane.measure(2, Link::instant(), 0.05).await.unwrap();
        lane.ground.written.lock().values_mut().for_each(|count| *count += 1);
        let seen = lane.measure(2, Link::instant(), 0.05).await.map(drop);
        assert!(matches!(seen, Err(Error::CheckFailed(_))), "{seen:?}");
    }

    /// What `partition` moves is what its protocol says (section 2, c0 = 3), part by part: in
    /// virtual time, with few accesses under way, so that a job carries out one order.
    #[tokio::test(start_paused = true)]
    async fn traffic_is_the_protocols_part_by_part() {
        // Cells read and written by accesses and jobs, an access; a part of the journal, and 0.3 of
        // jobs and commits.
        let (blocks, read, written) = match std::env::var("FOGBANK_SIM_SCALE").is_ok() {
            false => (100_000, 9.2, 11.2),
            true => (1_000_000, 10.5, 12.6),
        };
        let shape = ImmediateShape { capacity: blocks, value_bytes: 1024 };
        let settings = PartitionSettings::new(shape, 3).unwrap();
        let site = Site { seed: 1, is_sparse: true, ..Site::default() };
        let mut lane = Lane::load(settings.clone(), site).await.unwrap();
        let link = Link { round_trip: Duration::from_millis(1), ..Link::instant() };
        // Four make 1,000 a second: a checkpoint comes in that time, and is written whole.
        let seconds = 1.5 * settings.checkpoint_every as f64 / 1e3;
        let row = Row::of(4, &lane.measure(4, link, seconds).await.unwrap()).unwrap();
        let (cell, part) = (settings.cell_bytes() as f64, settings.part_bytes() as f64);
        let near = |is: f64, told: f64| (is / told - 1.0).abs() < 0.05;
        let (down, up) = (row.down() / cell, row.shuffles_up / cell + row.journal / part);
        assert!(near(down, read) && near(up, written + 0.3), "{down} {up} {part} {row:?}");
        let queries = row.queries / cell;
        assert!(near(queries, f64::from(settings.layout.top() - 3) / 2.0 + 1.0), "{queries}");
        assert!(near(row.journal / part, 1.3), "{part} {row:?}");
        // The canary: with two levels more in the proxy it is another table.
        assert!(!near(down, settings.layout.with_kept_blocks(u64::MAX).cells_an_access().0));
        // Checkpoints come beside it, so long and so often as was said.
        let (count, bytes) = (row.checkpoint_count as f64, settings.checkpoint_bytes() as f64);
        let accesses = row.per_s * row.seconds;
        assert!(count >= 1.0 && near(row.checkpoints * accesses, count * bytes), "{row:?}");
        let shape = ImmediateShape { value_bytes: 4096, ..shape };
        let usual = PartitionSettings::of(shape, settings.layout);
        let each = usual.checkpoint_bytes() as f64 / usual.checkpoint_every as f64;
        let moved = (read + written + 0.3) * usual.cell_bytes() as f64;
        assert!(each < 0.06 * moved, "{each} of {moved}");
        lane.close().await.unwrap();
    }
}
