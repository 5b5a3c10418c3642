//! The engine as it is held: what is submitted goes to the task that serves.

use std::sync::Arc;
use std::time::Duration;

use fogbank_durable::shared::{SeenRegister, Site, SiteParameters};
use fogbank_env::Nanos;
use fogbank_store::{DepartureGrid, GridStore, Log};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::canary::Canary;
use super::cells::Cells;
use super::join::{Joined, join};
use super::listening::{Listener, append_all};
use super::schedule::Schedule;
use super::serving::{Event, Serving, State};
use super::upkeep::{POLLS, Upkeep};
use crate::Result;
use crate::immediate::entrance::{Entered, Entrance, Fault};
use crate::immediate::events::{Events, Tells};

/// A client of a site. See the module `hierarchy` for the protocol.
pub struct HierarchyEngine {
    entrance: Entrance<(Nanos, Event)>,
    tells: Tells<Event>,
    others: usize,
}

/// The schedule of a site of these parameters.
///
/// # Errors
/// [`crate::Error::Caller`] if there is no such site.
pub fn schedule_of(parameters: &SiteParameters) -> Result<Schedule> {
    let SiteParameters { blocks, block_bytes, epoch, growth, draw, piece, .. } = *parameters;
    let schedule = Schedule::new(blocks, epoch, growth, draw, parameters.has_image)?;
    Ok(schedule.in_pieces(piece)?.of_blocks(block_bytes))
}

impl HierarchyEngine {
    /// Joins the site with the session that was taken there, and serves from then on. All clocks
    /// of the site tick by the `grid` given. If the session has come to move the site elsewhere,
    /// all others that are there end by [`crate::Error::Moved`], and what they were told to be done
    /// is in what this one reads.
    ///
    /// # Errors
    /// As for an access.
    pub async fn open(
        site: Site,
        log: Arc<dyn Log>,
        seen: Arc<dyn SeenRegister>,
        grid: DepartureGrid,
    ) -> Result<Self> {
        Self::open_with(site, (log, seen), grid, Canary::default()).await
    }

    /// How many other sessions were at work when this one came: they had said something in the
    /// epoch before, and not that they leave.
    pub fn others(&self) -> usize {
        self.others
    }

    /// One that leaks.
    ///
    /// # Errors
    /// As [`HierarchyEngine::open`].
    #[cfg(feature = "canaries")]
    pub async fn open_leaking(
        site: Site,
        (log, seen): (Arc<dyn Log>, Arc<dyn SeenRegister>),
        grid: DepartureGrid,
        leak: super::canary::Leak,
    ) -> Result<Self> {
        Self::open_with(site, (log, seen), grid, Canary::new(leak)).await
    }

    async fn open_with(
        site: Site,
        (log, seen): (Arc<dyn Log>, Arc<dyn SeenRegister>),
        grid: DepartureGrid,
        canary: Canary,
    ) -> Result<Self> {
        let parameters = site.parameters();
        let schedule = schedule_of(&parameters)?;
        // 1. What was seen of it, and what is there.
        let known = seen.read().await?;
        // Whatever but a touch asks of the store leaves at a point, however long its making takes.
        let bare = site.store().clone();
        let paced = Arc::new(GridStore::new(bare.clone(), grid.clone()));
        let site = Arc::new(site.by_way_of(paced));
        let cells = || Cells::new(site.clone(), bare.clone(), schedule, &grid);
        let parts = (schedule, Arc::new(canary));
        let joined = join(&site, &log, &grid, cells, parts, known.as_ref()).await?;
        let Joined { client, cells, listener, superblock, effects } = joined;
        // 2. Who listens, and who serves.
        let public_time = Nanos::from(parameters.public_ms) * 1_000_000;
        let (tells, events) = Events::new(&grid);
        let newest = client.newest_superblock();
        let session = (site.session(), newest);
        let upkeep = Upkeep::new(client.follower(), public_time, session, grid.now());
        let shape = client.shape();
        let fault = Arc::<Fault>::default();
        let now = grid.now();
        let follower = client.follower();
        let living = follower.sessions.living(schedule.epoch.into());
        let others = living.iter().filter(|session| **session != site.session()).count();
        let missing = (follower.replayed()..follower.length()).map(|place| (place, now));
        let mut state = State { superblock, ..State::default() };
        state.missing.extend(missing);
        let (appends, entries) = mpsc::unbounded_channel();
        let appended = tells.clone();
        let append = append_all(log.clone(), grid.clone(), entries, move |done| {
            let event = done.map_or_else(Event::Failed, |(turn, at)| Event::Appended(turn, at));
            let _nobody_serves = appended.tell(event);
        });
        let replayed = Arc::new(watch::Sender::new(follower.replayed()));
        let every = Duration::from_nanos(public_time / POLLS).max(Duration::from_millis(1));
        let length = watch::Sender::new(follower.length());
        let mut beside = JoinSet::new();
        beside.spawn(listen(listener, replayed.subscribe(), tells.clone()));
        beside.spawn(append);
        beside.spawn(tick(grid.clone(), every, tells.clone()));
        let serving = Serving {
            client,
            site,
            cells: Arc::new(cells),
            log,
            seen,
            grid,
            tells: tells.clone(),
            events,
            fault: fault.clone(),
            state,
            upkeep,
            appends,
            replayed,
            length,
            closing: watch::Sender::new(false),
            _beside: beside,
        };
        let served = tokio::spawn(serving.run(effects));
        Ok(Self { entrance: tells.clone().entrance(shape, fault, served), tells, others })
    }

    /// Tells the task that serves, if it still does.
    pub(super) fn tell(&self, event: Event) {
        let _nobody_serves = self.tells.tell(event);
    }
}

async fn listen(mut listener: Listener, replayed: watch::Receiver<u64>, tells: Tells<Event>) {
    loop {
        listener.has_replayed(*replayed.borrow());
        let heard = listener.hear().await;
        let is_over = heard.is_err();
        let event = heard.map_or_else(Event::Failed, Event::Heard);
        if tells.tell(event).is_err() || is_over {
            return;
        }
    }
}

async fn tick(grid: DepartureGrid, every: Duration, tells: Tells<Event>) {
    let every = every.as_nanos() as Nanos;
    let mut next = grid.now();
    loop {
        next += every;
        grid.come_near(next).await;
        if tells.tell(Event::Tick).is_err() {
            return;
        }
    }
}

impl Entered for HierarchyEngine {
    type Told = (Nanos, Event);

    fn entrance(&self) -> &Entrance<Self::Told> {
        &self.entrance
    }
}
