//! The shell of an immediate engine: what its tasks share, and what holds them.
//!
//! One task cuts records (`departure`), one lets messages leave (`leaving`), one takes replies
//! (`returns`), two seal and send what is written (`writing`). What the engine knows is behind one
//! lock (`core`), held for a step at a time.
//!
//! # Invariants
//! - Every message and answer leaves at a point of a grid ([`ShellSettings::quantum`]). What comes
//!   is taken in the middle between two, and what may leave is decided at a point at which nothing
//!   is being taken. So work that fits half a quantum is not seen, and work that does not moves
//!   what follows by whole quanta.
//! - Whatever goes wrong ends everything: nothing leaves after it, and all who wait are told.
//! - Nothing is held across I/O but the journal by its owner; no lock across a cipher.

use std::sync::Arc;

use fogbank_durable::{Recovered, Vault};
use fogbank_env::{Mutex, Nanos, Randomness};
use fogbank_seal::KeyRing;
use fogbank_store::{ChunkName, DepartureGrid, GridStore, Store};
use tokio::sync::{Notify, RwLock, RwLockReadGuard, mpsc};
use tokio::task::JoinSet;

use super::arrival::Arrival;
use super::core::Core;
use super::departure::Departures;
use super::entrance::{Entered, Entrance, Fault, Told, ended_midway};
use super::plane::{Codec, Plane};
use super::returns::Returned;
use super::{ShellSettings, leaving, returns, writing};
use crate::{Error, Result, blame, blame_new, sweep};

/// An engine whose plane is `P`. See the plane for the protocol.
pub struct Immediate<P: Plane> {
    pub(crate) shared: Arc<Shared<P>>,
    entrance: Entrance<Arrival>,
}

/// What all tasks of an engine share.
pub struct Shared<P: Plane> {
    /// The cloud side, where nothing waits for a point.
    pub bare: Arc<dyn Store>,
    /// The cloud side.
    pub store: GridStore<Arc<dyn Store>>,
    pub keys: Arc<KeyRing>,
    pub shell: ShellSettings,
    /// Accesses that go into one record at most.
    pub group_max: usize,
    pub codec: P::Codec,
    pub grid: DepartureGrid,
    /// Written while replies are being taken, read by those who decide what leaves.
    pub taking: RwLock<()>,
    pub core: Mutex<Core<P>>,
    pub changed: Notify,
    pub fault: Arc<Fault>,
    pub returned: mpsc::UnboundedSender<Returned<P>>,
    pub due: mpsc::UnboundedSender<P::Due>,
    /// Requests whose record is durable.
    pub departing: mpsc::UnboundedSender<P::Request>,
}

/// What an engine is given.
pub struct Parts<'a> {
    /// The cloud side, where nothing waits for a point yet.
    pub store: Arc<dyn Store>,
    /// Journal, checkpoints and keys, opened with the settings of the engine.
    pub vault: Vault,
    /// What the store held; nothing for one just created.
    pub recovered: Recovered,
    /// Where what is drawn comes from.
    pub random: &'a Randomness,
    /// Time, in quanta of [`ShellSettings::quantum`].
    pub grid: DepartureGrid,
    /// Told of what is read again: so much of so much.
    pub progress: &'a Progress,
}

/// Told how far something is: so much of so much.
pub type Progress = dyn Fn(usize, usize) + Send + Sync;

impl<P: Plane> Entered for Immediate<P> {
    type Told = Arrival;

    fn entrance(&self) -> &Entrance<Arrival> {
        &self.entrance
    }
}

impl Told for Arrival {
    fn arrives(arrival: Arrival) -> Self {
        arrival
    }

    fn closes(_: Nanos) -> Option<Self> {
        None
    }
}

impl<P: Plane> Immediate<P> {
    /// Takes a store on, whose state is `plane`: reads again what the journal names, writes a
    /// checkpoint if there was anything, deletes what a stop left behind, and serves from then on.
    ///
    /// # Errors
    /// As for an access.
    pub(crate) async fn begin(
        plane: P,
        (codec, shell, group_max): (P::Codec, ShellSettings, usize),
        parts: Parts<'_>,
    ) -> Result<Self> {
        let Parts { store, vault, recovered, grid, progress, .. } = parts;
        let (returned, returns) = mpsc::unbounded_channel();
        let (due, falls_due) = mpsc::unbounded_channel();
        let (sealed, windows) = mpsc::unbounded_channel();
        let (departing, durable) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            store: GridStore::new(store.clone(), grid.clone()),
            taking: RwLock::default(),
            bare: store,
            keys: vault.keys(),
            shell,
            group_max,
            codec,
            grid,
            core: Mutex::new(Core::new(plane)),
            changed: Notify::new(),
            fault: Arc::default(),
            returned,
            due,
            departing,
        });
        let mut beside = JoinSet::new();
        let seal_all = async |shared, due: &mut _| writing::seal_all(shared, due, sealed).await;
        beside.spawn(guarded_over(shared.clone(), durable, leaving::leave_all));
        beside.spawn(guarded_over(shared.clone(), returns, returns::take_all));
        beside.spawn(guarded_over(shared.clone(), falls_due, seal_all));
        beside.spawn(guarded_over(shared.clone(), windows, writing::send_all));
        for (array, shape) in shared.codec.arrays() {
            shared.store.create_array(array, shape).await.map_err(blame_new)?;
        }
        let was_midway = P::replay(&shared, recovered.journal, progress).await?;
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let mut departures = Departures::new(shared.clone(), vault, arrived, beside);
        if was_midway {
            departures.checkpoint().await?;
        }
        shared.sweep().await?;
        let due = shared.step(|core| core.plane.begins_again())?;
        shared.send(due)?;
        let (of, told) =
            ((shared.shell.shape, shared.grid.clone()), (arrivals, shared.fault.clone()));
        let entrance = Entrance::new(of, told, tokio::spawn(departures.run()));
        Ok(Self { shared, entrance })
    }

    /// From now on the shell leaks what `canary` says.
    #[cfg(feature = "canaries")]
    pub fn set_shell_canary(&self, canary: super::canary::Canary) {
        self.shared.step(|core| core.canary = canary);
    }
}

impl<P: Plane> std::fmt::Debug for Immediate<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Immediate").field("codec", &self.shared.codec).finish_non_exhaustive()
    }
}

impl<P: Plane> Shared<P> {
    /// One step of the core, and whoever waits for a change is told.
    pub fn step<T>(&self, step: impl FnOnce(&mut Core<P>) -> T) -> T {
        let result = self.look(step);
        self.changed.notify_waiters();
        result
    }

    /// The same where nothing changes that anybody waits for.
    pub fn look<T>(&self, look: impl FnOnce(&mut Core<P>) -> T) -> T {
        look(&mut self.core.lock())
    }

    /// Waits until `reached`.
    ///
    /// # Errors
    /// What has stopped the engine meanwhile.
    pub async fn until(&self, reached: impl Fn(&Core<P>) -> bool) -> Result<()> {
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
            failed = self.fault.come() => Err(failed),
            () = come => Ok(()),
        }
    }

    /// How many more accesses may be under way.
    pub fn room(&self) -> usize {
        self.look(|core| self.room_in(core))
    }

    pub fn room_in(&self, core: &Core<P>) -> usize {
        let room = match core.canary.ignores_room() {
            true => self.shell.under_way_max,
            false => core.plane.room(),
        };
        room.saturating_sub(core.under_way.len())
    }

    /// Answers leave whose turn it is.
    pub fn let_leave(&self) {
        self.step(|core| {
            core.canary.let_leave(&mut core.sequencer);
            core.sequencer.emit();
        });
    }

    /// Waits for a point at which it may be decided what leaves at the next: one at which nothing
    /// is being taken, or it would depend on how long that takes. Nothing is taken until the guard
    /// is dropped.
    pub async fn decision(&self) -> (Nanos, RwLockReadGuard<'_, ()>) {
        loop {
            let point = self.grid.departure().await;
            if let Ok(nothing_is_taken) = self.taking.try_read() {
                return (point, nothing_is_taken);
            }
        }
    }

    /// Waits for a point that can still be used and at which nothing is being taken: something may
    /// leave there as it is decided now. Nothing is taken until the guard is dropped. Where nothing
    /// waits for points, at once.
    pub async fn at_point(&self) -> (Nanos, Option<RwLockReadGuard<'_, ()>>) {
        if self.grid.quantum() == 0 {
            return (self.grid.now(), None);
        }
        loop {
            if let (point, Ok(nothing_is_taken)) =
                self.grid.next_usable_point(|| self.taking.try_read()).await
            {
                return (point, Some(nothing_is_taken));
            }
        }
    }

    /// The engine has stopped, if it has not before: all who wait are told, and nothing more
    /// leaves.
    pub fn fail(&self, error: &Error) {
        self.fault.set(error);
        let reason = self.fault.reason();
        self.step(|core| core.sequencer.fail(&reason));
    }

    /// This is due to be written.
    pub fn send(&self, due: impl IntoIterator<Item = P::Due>) -> Result<()> {
        due.into_iter().try_for_each(|due| self.due.send(due)).map_err(|_| self.fault.reason())
    }

    /// Deletes the chunk versions that `which` names. That is decided at a point, when what came
    /// before it has been taken.
    pub async fn delete(&self, which: impl FnOnce(&mut Core<P>) -> Vec<ChunkName>) -> Result<()> {
        let (_point, nothing_is_taken) = self.decision().await;
        let chunks = self.look(which);
        drop(nothing_is_taken);
        if chunks.is_empty() {
            return Ok(());
        }
        self.fault.sound()?;
        self.store.delete_chunks(&chunks).await.map_err(blame)
    }

    /// Deletes every chunk version of earlier openings that is not current: what a stop left
    /// behind.
    pub async fn sweep(&self) -> Result<()> {
        let opening = self.keys.current().0;
        let mut stored = Vec::new();
        for (array, _) in self.codec.arrays() {
            stored.extend(self.store.list_chunks(array).await.map_err(blame)?);
        }
        let stored = self
            .look(|core| sweep::left_behind(stored, opening, |name| core.plane.is_current(name)));
        if stored.is_empty() {
            return Ok(());
        }
        self.delete(|_| stored).await
    }
}

/// Runs a task of an engine: if it fails or panics the engine has stopped.
pub async fn guarded<P: Plane>(
    shared: Arc<Shared<P>>,
    task: impl Future<Output = Result<()>>,
) -> Result<()> {
    let fail_on_drop = FailOnDrop { shared, is_midway: std::thread::panicking };
    let ended = task.await;
    ended.inspect_err(|error| fail_on_drop.shared.fail(error)) // at once: nothing more is to leave
}

/// The same of a task that goes by what it is `told`. Whoever tells it something finds that it does
/// not listen any more only when he can find out why: he would say that the engine is closed, and
/// be the first to.
pub(crate) async fn guarded_over<P: Plane, T>(
    shared: Arc<Shared<P>>,
    mut told: mpsc::UnboundedReceiver<T>,
    task: impl AsyncFnOnce(Arc<Shared<P>>, &mut mpsc::UnboundedReceiver<T>) -> Result<()>,
) -> Result<()> {
    guarded(shared.clone(), task(shared, &mut told)).await
}

/// Tells whoever waits when a task ends as it should not.
pub struct FailOnDrop<P: Plane> {
    pub shared: Arc<Shared<P>>,
    pub is_midway: fn() -> bool,
}

impl<P: Plane> Drop for FailOnDrop<P> {
    fn drop(&mut self) {
        if (self.is_midway)() {
            self.shared.fail(&ended_midway());
        }
    }
}
