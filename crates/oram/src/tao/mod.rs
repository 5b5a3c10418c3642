//! `tao`: TaoStore's asynchronous Path ORAM.
//!
//! # The protocol, one access
//!
//! 1. It arrives and gets its place in the *sequencer*. The first request for a block reads the path
//!    that the block is mapped to; one that finds another request for its block waiting reads a path
//!    drawn at random. Either way one path, at once; so that requests for one block look like any.
//! 2. What is about to be read is journalled, together with whatever else has arrived, before it leaves
//!    (`departure`).
//! 3. It leaves (`leaving`) and names the buckets of the path that are not here (the *subtree*), and the
//!    lowest: those that are here are fresher. The reply may come whenever and in whatever order the network
//!    and the cloud please. Every cell of it is verified.
//! 4. If it was the block's own path, all requests that wait for the block are served in their order
//!    and the block is mapped to a fresh leaf, in one step.
//! 5. *Flush*: the blocks of the path and those waiting above it go as deep along the path as they may.
//! 6. Answers leave in the order of arrival, each when its own path has come back and its block is known.
//! 7. Every k flushes the k paths are written back as the union of their buckets under the next time
//!    stamp. Nothing waits for it, unless a public number of write-backs is not acknowledged: then nothing
//!    departs. When it is acknowledged, buckets that have not changed since and that no path under way goes
//!    through are dropped from the subtree.
//!
//! The top of the tree never leaves the proxy. After a public number of write-backs the trusted state is
//! written as a checkpoint, beside everything else; what it takes the place of is deleted.
//!
//! # Invariants
//!
//! - The fresh-subtree invariant (`subtree`): a bucket that is not here is current in the cloud.
//! - A path is journalled, and the register bumped, before it is read; recovery reads the same paths.
//! - The leaf of every path read is uniform and independent of everything before it.
//! - A block is in exactly one of stash, subtree and cloud.
//! - No version is used twice: (opening, time stamp).
//! - Every message and answer leaves at a point of a grid ([`ShellSettings::quantum`](crate::immediate::ShellSettings)). What comes is taken
//!   in the middle between two, paths in the order of their accesses, and what may leave is decided at a
//!   point at which nothing is being taken. So work that fits half a quantum is not seen, and work that
//!   does not moves what follows by whole quanta.
//! - Nothing is held across I/O but the journal by its owner; no lock across a cipher.
//!
//! # What the cloud sees
//!
//! For every access that arrives one uniform path, less what of it the cloud knows to be here, in the order
//! of arrival, in records as long as their number; after every k paths that came back, the union of those
//! in the order in which they did; a checkpoint of constant size after a constant number of write-backs.
//! How many accesses arrive, and when, is public, and so is when they are answered; at a fixed rate
//! ([`ShellSettings::rate`](crate::immediate::ShellSettings)) neither is seen.
//!
//! # Departures from the paper
//!
//! Buckets that are here are not asked for (decision 0034). Versions are in the names of what is written,
//! so the cloud compares no time stamps. One lock in place of one a bucket: under it blocks move as handles
//! and write-backs are copied; ciphers run outside. Integrity, journal, checkpoints and recovery are ours.
//!
//! Paper: TaoStore, sections 5 (TaoORAM) and 6 (security: aaob).

#[cfg(not(feature = "canaries"))]
mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
mod departure;
mod journal;
mod leaving;
mod path;
mod path_requests;
mod processor;
mod public;
mod replay;
mod returns;
mod settings;
mod state;
mod stats;
mod subtree;
mod writeback;

#[cfg(test)]
mod tests;

pub use settings::{TaoSettings, Traffic};
pub use state::checkpoint_lengths;
pub use stats::{SecretStats, Stats};

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_durable::{Recovered, Vault};
use fogbank_env::{Mutex, Nanos, Randomness};
use fogbank_seal::KeyRing;
use fogbank_store::{ArrayId, ChunkName, DepartureGrid, GridStore, Store};
use tokio::sync::{Notify, RwLock, RwLockReadGuard, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use self::departure::Departures;
use self::processor::{PathRequest, Processor};
use self::returns::Returned;
use self::writeback::WriteBack;
use crate::geometry::Geometry;
use crate::immediate::arrival::Arrival;
use crate::immediate::core::Core;
use crate::{
    Access, Address, Error, ImmediateEngine, ImmediateShape, Result, Ticket, blame, sweep,
};

/// The engine. See the module for the protocol.
pub struct TaoEngine {
    shared: Arc<Shared>,
    /// None when the engine is closed.
    arrivals: Mutex<Option<mpsc::UnboundedSender<Arrival>>>,
    departures: Mutex<Option<JoinHandle<Result<()>>>>,
}

/// What all tasks of an engine share.
pub(crate) struct Shared {
    /// The cloud side, where nothing waits for a point.
    bare: Arc<dyn Store>,
    /// The cloud side.
    store: GridStore<Arc<dyn Store>>,
    keys: Arc<KeyRing>,
    settings: TaoSettings,
    geometry: Geometry,
    array: ArrayId,
    points: DepartureGrid,
    /// Written while paths that came back are being taken, read by those who decide what leaves.
    taking: RwLock<()>,
    core: Mutex<Core<Processor>>,
    changed: Notify,
    /// What has stopped the engine.
    fault: watch::Sender<Option<Error>>,
    returned: mpsc::UnboundedSender<Returned>,
    write_backs: mpsc::UnboundedSender<WriteBack>,
    /// Paths whose record is durable.
    departing: mpsc::UnboundedSender<PathRequest>,
}

/// What an engine is given.
pub struct Parts<'a> {
    /// The cloud side, where nothing waits for a point yet.
    pub store: Arc<dyn Store>,
    /// Journal, checkpoints and keys, opened with [`TaoSettings::vault`].
    pub vault: Vault,
    /// What the store held; nothing for one just created.
    pub recovered: Recovered,
    /// Where leaves come from.
    pub random: &'a Randomness,
    /// Time, in quanta of [`ShellSettings::quantum`](crate::immediate::ShellSettings).
    pub points: DepartureGrid,
    /// Told of paths read again: so many of so many.
    pub progress: &'a Progress,
}

/// Told how far something is: so much of so much.
pub type Progress = dyn Fn(usize, usize) + Send + Sync;

#[async_trait]
impl ImmediateEngine for TaoEngine {
    fn shape(&self) -> ImmediateShape {
        self.shared.settings.shell.shape
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        let (reply, ticket) = Ticket::new();
        let at = self.shared.points.now();
        let mut arrival = Arrival { at, address, access, reply: Some(reply) };
        let refused = match self.shape().check(address, &arrival.access) {
            Err(error) => error,
            Ok(()) => match self.arrive(arrival) {
                None => return ticket,
                Some(refused) => {
                    arrival = refused;
                    self.shared.fault()
                }
            },
        };
        arrival.refuse(&refused);
        ticket
    }

    async fn close(&self) -> Result<()> {
        drop(self.arrivals.lock().take());
        let departures = self.departures.lock().take();
        let ended = departures.ok_or_else(|| self.shared.fault())?.await;
        ended.unwrap_or_else(|_| Err(Error::Bug("the engine ended midway".into())))
    }

    async fn stopped(&self) -> Error {
        self.shared.failed().await
    }
}

impl TaoEngine {
    /// Takes a store on: reads again what the journal names, writes a checkpoint if there was anything,
    /// deletes what a stop left behind, and serves from then on.
    ///
    /// # Errors
    /// As for an access; [`Error::Caller`] for settings outside the limits or of another store.
    pub async fn open(settings: TaoSettings, parts: Parts<'_>) -> Result<Self> {
        let Parts { store, vault, recovered, random, points, progress } = parts;
        let geometry = settings.geometry()?;
        let keys = vault.keys();
        let mut state = Processor::new(&settings, random)?;
        if !recovered.full.is_empty() {
            state::restore(&mut state, keys.current().0, &recovered.full)?;
        }
        let (returned, returns) = mpsc::unbounded_channel();
        let (write_backs, due) = mpsc::unbounded_channel();
        let (sealed, windows) = mpsc::unbounded_channel();
        let (departing, durable) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            store: GridStore::new(store.clone(), points.clone()),
            taking: RwLock::default(),
            bare: store,
            keys,
            settings,
            geometry,
            array: state.array,
            points,
            core: Mutex::new(Core::new(state)),
            changed: Notify::new(),
            fault: watch::Sender::new(None),
            returned,
            write_backs,
            departing,
        });
        let mut beside = JoinSet::new();
        beside.spawn(guarded(shared.clone(), leaving::leave_all(shared.clone(), durable)));
        beside.spawn(guarded(shared.clone(), returns::take_all(shared.clone(), returns)));
        beside.spawn(guarded(shared.clone(), writeback::seal_all(shared.clone(), due, sealed)));
        beside.spawn(guarded(shared.clone(), writeback::send_all(shared.clone(), windows)));
        let shape = geometry.array_shape();
        shared.store.create_array(shared.array, shape).await.map_err(crate::blame_making)?;
        let mut entries = Vec::new();
        for record in &recovered.journal {
            entries.extend(journal::decode(record, &geometry)?);
        }
        replay::replay(&shared, &entries, progress).await?;
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let mut departures = Departures::new(shared.clone(), vault, arrived, beside);
        if !entries.is_empty() {
            departures.checkpoint().await?;
        }
        shared.sweep().await?;
        let departures = tokio::spawn(departures.run());
        let (arrivals, departures) = (Mutex::new(Some(arrivals)), Mutex::new(Some(departures)));
        Ok(Self { shared, arrivals, departures })
    }

    /// Hands an arrival over; gives it back if nothing departs any more.
    fn arrive(&self, arrival: Arrival) -> Option<Arrival> {
        match &*self.arrivals.lock() {
            None => Some(arrival),
            Some(arrivals) => arrivals.send(arrival).err().map(|refused| refused.0),
        }
    }

    /// The shape of the tree.
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// Figures so far.
    pub fn stats(&self) -> Stats {
        self.shared.look(|core| core.plane.stats)
    }

    /// From now on the shell leaks what `canary` says.
    #[cfg(feature = "canaries")]
    pub fn set_shell_canary(&self, canary: crate::immediate::canary::Canary) {
        self.shared.step(|core| core.canary = canary);
    }

    /// From now on the tree leaks what `canary` says.
    #[cfg(feature = "canaries")]
    pub fn set_canary(&self, canary: canary::Canary) {
        self.shared.step(|core| core.plane.canary = canary);
    }
}

/// An engine that is dropped sends nothing more: as if its process had died.
impl Drop for TaoEngine {
    fn drop(&mut self) {
        if let Some(departures) = &*self.departures.lock() {
            departures.abort();
        }
    }
}

impl std::fmt::Debug for TaoEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaoEngine").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl Shared {
    /// One step of the core, and whoever waits for a change is told.
    fn step<T>(&self, step: impl FnOnce(&mut Core<Processor>) -> T) -> T {
        let result = self.look(step);
        self.changed.notify_waiters();
        result
    }

    /// The same where nothing changes that anybody waits for.
    fn look<T>(&self, look: impl FnOnce(&mut Core<Processor>) -> T) -> T {
        look(&mut self.core.lock())
    }

    /// Waits until `reached`.
    ///
    /// # Errors
    /// What has stopped the engine meanwhile.
    async fn until(&self, reached: impl Fn(&Core<Processor>) -> bool) -> Result<()> {
        let come = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.look(|core| reached(core)) {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! { biased;
            failed = self.failed() => Err(failed),
            () = come => Ok(()),
        }
    }

    /// How many more accesses may be under way.
    fn room(&self) -> usize {
        self.look(|core| self.room_in(core))
    }

    fn room_in(&self, core: &Core<Processor>) -> usize {
        let room = match core.canary.ignores_room() {
            true => self.settings.shell.under_way_max,
            false => core.plane.room(&self.settings),
        };
        room.saturating_sub(core.under_way.len())
    }

    /// Answers leave whose turn it is.
    fn let_leave(&self) {
        self.step(|core| {
            core.canary.let_leave(&mut core.sequencer);
            core.sequencer.emit();
        });
    }

    /// Waits for a point at which it may be decided what leaves at the next: one at which no paths are being
    /// taken, or it would depend on how long that takes. None are taken until the guard is dropped.
    async fn decision(&self) -> (Nanos, RwLockReadGuard<'_, ()>) {
        loop {
            let point = self.points.departure().await;
            if let Ok(nothing_is_taken) = self.taking.try_read() {
                return (point, nothing_is_taken);
            }
        }
    }

    /// Waits for a point at which something may leave as it is decided now: one that is met, at which no paths
    /// are being taken. None are until the guard is dropped. Where nothing waits for points, at once.
    async fn at_point(&self) -> (Nanos, Option<RwLockReadGuard<'_, ()>>) {
        if self.points.quantum() == 0 {
            return (self.points.now(), None);
        }
        loop {
            if let (point, Ok(nothing_is_taken)) = self.points.met(|| self.taking.try_read()).await
            {
                return (point, Some(nothing_is_taken));
            }
        }
    }

    /// The engine has stopped, if it has not before: all who wait are told, and nothing more leaves.
    fn fail(&self, error: &Error) {
        self.fault.send_if_modified(|fault| match fault {
            Some(_) => false,
            None => {
                *fault = Some(error.clone());
                true
            }
        });
        let fault = self.fault();
        self.step(|core| core.sequencer.fail(&fault));
    }

    /// Completes when the engine has stopped, with the reason.
    async fn failed(&self) -> Error {
        let stopped = self.fault.subscribe().wait_for(Option::is_some).await.is_ok();
        debug_assert!(stopped, "its sender is here");
        self.fault()
    }

    /// Whether anything may be sent.
    fn sound(&self) -> Result<()> {
        self.fault.borrow().clone().map_or(Ok(()), Err)
    }

    fn fault(&self) -> Error {
        let fault = self.fault.borrow().clone();
        fault.unwrap_or_else(|| Error::Caller("the engine is closed".into()))
    }

    /// A write-back is due.
    fn send(&self, due: WriteBack) -> Result<()> {
        self.write_backs.send(due).map_err(|_| self.fault())
    }

    /// Deletes the chunk versions that `which` names. That is decided at a point, when what came before it
    /// has been taken.
    async fn delete(
        &self,
        which: impl FnOnce(&mut Core<Processor>) -> Vec<ChunkName>,
    ) -> Result<()> {
        let (_point, nothing_is_taken) = self.decision().await;
        let chunks = self.look(which);
        drop(nothing_is_taken);
        if chunks.is_empty() {
            return Ok(());
        }
        self.sound()?;
        self.store.delete_chunks(&chunks).await.map_err(blame)
    }

    /// Deletes every chunk version of earlier openings that is not current: what a stop left behind.
    async fn sweep(&self) -> Result<()> {
        let (opening, stored) = (self.keys.current().0, self.store.list_chunks(self.array).await);
        let stored = stored.map_err(blame)?;
        let stored = self
            .look(|core| sweep::left_behind(stored, opening, |name| core.plane.is_current(name)));
        if stored.is_empty() {
            return Ok(());
        }
        self.delete(|_| stored).await
    }
}

/// Runs a task of an engine: if it fails or panics the engine has stopped.
async fn guarded(shared: Arc<Shared>, task: impl Future<Output = Result<()>>) -> Result<()> {
    let ending = FailOnDrop { shared, is_midway: std::thread::panicking };
    let ended = task.await;
    ended.inspect_err(|error| ending.shared.fail(error)) // at once: nothing more is to leave
}

/// Tells whoever waits when a task ends as it should not.
struct FailOnDrop {
    shared: Arc<Shared>,
    is_midway: fn() -> bool,
}

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        if (self.is_midway)() {
            self.shared.fail(&Error::Bug("the engine ended midway".into()));
        }
    }
}
