//! The engine as it is held: what is submitted goes to the task that serves.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fogbank_durable::shared::{SeenRegister, Site, SiteParameters};
use fogbank_env::{Mutex, Nanos};
use fogbank_store::{DepartureGrid, Log};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use super::join::{Joined, join};
use super::listening::Listener;
use super::schedule::Schedule;
use super::serving::{Event, Serving, State};
use super::upkeep::{POLLS, Upkeep};
use crate::immediate::arrival::Arrival;
use crate::immediate::events::{Events, Fault, Tells};
use crate::{Access, Address, Error, ImmediateEngine, ImmediateShape, Result, Ticket};

/// A client of a site. See the module `hierarchy` for the protocol.
pub struct HierarchyEngine {
    shape: ImmediateShape,
    grid: DepartureGrid,
    tells: Tells<Event>,
    fault: Arc<watch::Sender<Option<Error>>>,
    serving: Mutex<Option<JoinHandle<Result<()>>>>,
    beside: [AbortHandle; 2],
}

/// The schedule of a site of these parameters, whose tables start empty.
///
/// # Errors
/// [`Error::Caller`] if there is no such site.
pub fn schedule_of(parameters: &SiteParameters) -> Result<Schedule> {
    let SiteParameters { blocks, epoch, growth, draw, .. } = *parameters;
    Schedule::new(blocks, epoch, growth, draw, false)
}

impl HierarchyEngine {
    /// Joins the site with the session that was taken there, and serves from then on. All clocks
    /// of the site tick by the `grid` given.
    ///
    /// # Errors
    /// As for an access.
    pub async fn open(
        site: Arc<Site>,
        log: Arc<dyn Log>,
        seen: Arc<dyn SeenRegister>,
        grid: DepartureGrid,
    ) -> Result<Self> {
        let parameters = site.parameters();
        let schedule = schedule_of(&parameters)?;
        // 1. What was seen of it, and what is there.
        let known = seen.read().await?;
        let joined = join(&site, &log, &grid, schedule, known.as_ref()).await?;
        let Joined { client, cells, listener, superblock, effects } = joined;
        // 2. Who listens, and who serves.
        let public_time = Nanos::from(parameters.public_ms) * 1_000_000;
        let (tells, events) = Events::new(&grid);
        let newest = client.newest_superblock();
        let upkeep = Upkeep::new(client.follower(), public_time, newest, grid.now());
        let shape = client.shape();
        let fault = Arc::new(watch::Sender::new(None));
        let now = grid.now();
        let follower = client.follower();
        let missing = (follower.replayed()..follower.length()).map(|place| (place, now));
        let mut state = State { superblock, ..State::default() };
        state.missing.extend(missing);
        let replayed = Arc::new(watch::Sender::new(follower.replayed()));
        let serving = Serving {
            client,
            site,
            cells: Arc::new(cells),
            log,
            seen,
            grid: grid.clone(),
            tells: tells.clone(),
            events,
            fault: Fault(fault.clone()),
            state,
            upkeep,
            replayed: replayed.clone(),
        };
        let listens = tokio::spawn(listen(listener, replayed.subscribe(), tells.clone()));
        let every = Duration::from_nanos(public_time / POLLS).max(Duration::from_millis(1));
        let ticks = tokio::spawn(tick(grid.clone(), every, tells.clone()));
        let beside = [listens.abort_handle(), ticks.abort_handle()];
        let serving = Mutex::new(Some(tokio::spawn(serving.run(effects))));
        Ok(Self { shape, grid, tells, fault, serving, beside })
    }

    fn reason(&self) -> Error {
        let fault = self.fault.borrow().clone();
        fault.unwrap_or_else(|| Error::Caller("the engine is closed".into()))
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
        grid.come(next).await;
        if tells.tell(Event::Tick).is_err() {
            return;
        }
    }
}

#[async_trait]
impl ImmediateEngine for HierarchyEngine {
    fn shape(&self) -> ImmediateShape {
        self.shape
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        let (reply, ticket) = Ticket::new();
        let checked = self.shape.check(address, &access);
        let arrival = Arrival { at: self.grid.now(), address, access, reply: Some(reply) };
        if let Err(error) = checked {
            arrival.refuse(&error);
        } else if let Err(Event::Arrives(arrival)) = self.tells.tell(Event::Arrives(arrival)) {
            arrival.refuse(&self.reason());
        }
        ticket
    }

    async fn close(&self) -> Result<()> {
        let serving = self.serving.lock().take().ok_or_else(|| self.reason())?;
        let _it_has_ended = self.tells.tell(Event::Closes);
        let ended = serving.await;
        self.beside.iter().for_each(AbortHandle::abort);
        ended.unwrap_or_else(|_| Err(Error::Bug("the engine ended midway".into())))
    }

    async fn stopped(&self) -> Error {
        let stopped = self.fault.subscribe().wait_for(Option::is_some).await.is_ok();
        debug_assert!(stopped, "its sender is here");
        self.reason()
    }
}

impl Drop for HierarchyEngine {
    fn drop(&mut self) {
        // As if it were killed: nothing leaves any more.
        self.serving.lock().take().into_iter().for_each(|serving| serving.abort());
        self.beside.iter().for_each(AbortHandle::abort);
    }
}
