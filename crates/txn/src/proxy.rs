//! The handles: the proxy, and a session of programs.

use std::future::Future;
use std::sync::Arc;

use fogbank_env::{Mutex, Visibility};
use fogbank_oram::{BatchEngine, Section, Sections};
use tokio::runtime::Handle;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;

use crate::answers;
use crate::checkpoint;
use crate::clerk::Clerk;
use crate::core::Core;
use crate::directory::Directory;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::footprint::Observer;
use crate::handover::Handover;
use crate::limits::Limits;
use crate::program::{Program, Submission, submission};
use crate::settings::{Components, Settings};
use crate::shared::{Presence, Shared};
use crate::shared_vault::SharedVault;
use crate::transaction::Transaction;
use crate::uptime::Uptime;

/// The tasks of a proxy.
struct Running {
    driver: JoinHandle<Result<Box<dyn BatchEngine>>>,
    clerk: JoinHandle<()>,
    answers: JoinHandle<()>,
}

/// A running proxy's transaction layer. Clones are handles to the same one; when the last is
/// dropped without [`Proxy::close`], the open epoch is finished and the rest is refused.
#[derive(Clone)]
pub struct Proxy {
    pub(crate) shared: Arc<Shared>,
    life: Arc<Life>,
    limits: Limits,
    settings: Settings,
}

/// Ends the epochs when the last handle goes.
struct Life {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.shared.begin_to_close();
    }
}

/// What an orderly close hands back.
pub struct Closed {
    /// The engine, between two epochs.
    pub engine: Box<dyn BatchEngine>,
    directory: Arc<Directory>,
    key_budget: usize,
}

impl Closed {
    /// The directory alone, as in [`Closed::save`].
    pub fn directory(&self) -> impl Iterator<Item = Section> + Send + use<> {
        let mut pieces = checkpoint::Pieces::new(&self.engine.shape(), self.key_budget);
        let directory = self.directory.clone();
        std::iter::from_fn(move || pieces.next(&directory))
    }

    /// Engine and directory as a full checkpoint: every section is made when it is asked for.
    ///
    /// # Errors
    /// Those of [`BatchEngine::save`].
    pub fn save(&mut self) -> fogbank_oram::Result<Sections<'_>> {
        let directory = &self.directory;
        checkpoint::save(&mut *self.engine, self.key_budget, |pieces| pieces.next(directory))
    }
}

impl Proxy {
    /// Starts epochs that are not made durable, over an engine, with the directory of a checkpoint
    /// if there is one: of `restored` it reads its own sections and leaves the others alone.
    pub async fn start(
        settings: Settings,
        engine: Box<dyn BatchEngine>,
        components: Components,
        restored: Option<&[Section]>,
    ) -> Result<Self> {
        let mut directory = match restored {
            Some(sections) => checkpoint::restore(sections, &engine.shape())?,
            None => Directory::default(),
        };
        directory.drop_staged(); // its program has gone
        Ok(Self::begin_epochs(settings, engine, None, components, directory))
    }

    /// Starts the epochs on what was recovered.
    pub(crate) fn begin_epochs(
        settings: Settings,
        engine: Box<dyn BatchEngine>,
        vault: Option<SharedVault>,
        components: Components,
        directory: Directory,
    ) -> Self {
        let shape = engine.shape();
        let Components { clock, random, metrics, clients } = components;
        let clients = clients.unwrap_or_else(Handle::current);
        let read_batches = settings.read_batches.max(1);
        let in_flight = settings.in_flight.clamp(1, read_batches);
        let settings = Settings { read_batches, in_flight, ..settings };
        let core = Core::new(settings.clone(), shape, directory, &random);
        let (limits, directory) = (core.limits, core.directory.clone());
        let shared = Shared::new(core, clock.clone());
        let (handover, messages) = Handover::new();
        let (sender, answers) = unbounded_channel();
        let clerk = Clerk {
            shared: shared.clone(),
            messages,
            answers: sender,
            aborts: metrics.gauge(Visibility::Secret, "transactions_aborted"),
            programs: metrics.gauge(Visibility::Secret, "programs_committed"),
            back_to_back: settings.interval.is_zero(),
            unanswered: None,
            leaving: None,
            fault: None,
        };
        let ends = (clock, shared.signals.clone(), handover);
        let driver = Driver::new(ends, engine, vault, directory, &settings, &metrics);
        clients.spawn(shared.clone().sweep());
        let running = Running {
            clerk: tokio::spawn(clerk.run()),
            answers: clients.spawn(answers::leave(answers)),
            driver: tokio::spawn(driver.run()),
        };
        let life = Arc::new(Life { shared: shared.clone(), running: Mutex::new(Some(running)) });
        Self { shared, life, limits, settings }
    }

    /// An ordered stream of programs: one connection.
    pub fn session(&self) -> Session {
        let id = self.shared.with(|core| core.schedule.open_session());
        Session { shared: self.shared.clone(), id, presence: None }
    }

    /// From the next epoch on, epochs run when `uptime` says so. Always, unless this is called.
    pub fn run_when(&self, uptime: Uptime) {
        self.shared.signals.run_when(uptime);
    }

    /// From now on `observer` is told what each program has asked for, which then is found out by
    /// running programs more often. For choosing a shape, not for serving: what it is told is
    /// secret.
    pub fn observe_programs(&self, observer: Arc<dyn Observer>) {
        self.shared.with(|core| core.observer = Some(observer));
    }

    /// An interactive transaction. It takes its epoch and its timestamp at its first statement.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.shared.clone(), None)
    }

    /// What one program or transaction may ask for.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How many records there are. Secret.
    pub fn records(&self) -> usize {
        self.shared.with(|core| core.directory.len())
    }

    /// Which epoch is open.
    pub fn epoch(&self) -> u64 {
        self.shared.with(|core| core.epoch)
    }

    /// Completes when the epochs have stopped, with the reason: from then on nothing is answered.
    pub async fn stopped(&self) -> Error {
        loop {
            let beat = self.shared.next_beat();
            if let Some(error) = self.shared.with(|core| core.stopped.clone()) {
                return error;
            }
            beat.await;
        }
    }

    /// Admits nothing more. What was accepted has the open epoch and [`Settings::closing_epochs`]
    /// more; what is then not answered is refused, and [`Proxy::stopped`] completes.
    pub fn begin_to_close(&self) {
        self.shared.begin_to_close();
    }

    /// The same, then runs an epoch of dummies only, and hands back what a checkpoint needs.
    pub async fn close(self) -> Result<Closed> {
        self.begin_to_close();
        let running = self.life.running.lock().take();
        let Running { driver, clerk, answers } = running.ok_or(Error::Closed)?;
        let ended = driver.await;
        let _told = (clerk.await, answers.await); // what the driver has said has reached everybody
        let engine = ended.map_err(|_| Error::fault("the driver has panicked"))??;
        let key_budget = self.settings.key_budget_bytes;
        let directory = self.shared.with(|core| core.directory.clone());
        Ok(Closed { engine, directory, key_budget })
    }

    pub(crate) fn attempts_max(&self) -> u32 {
        self.settings.attempts_max.max(1)
    }
}

/// An ordered stream of programs. Dropping it cancels those that have not run yet.
pub struct Session {
    shared: Arc<Shared>,
    id: u64,
    presence: Option<Presence>,
}

impl Session {
    /// From now on the session counts as a client that is here, see [`Uptime::WhilePresent`].
    pub fn attend(&mut self) {
        self.presence.get_or_insert_with(|| self.shared.welcome());
    }

    /// Queues a program behind those submitted before on this session. Resolves when its epoch has
    /// committed, or with an error. Dropping the future does not cancel the program.
    pub fn submit<P: Program>(
        &self,
        program: P,
    ) -> impl Future<Output = Result<P::Reply>> + Send + 'static + use<P> {
        let (body, answer) = submission(program);
        self.submit_body(body);
        answer
    }

    /// The same for a program that knows itself whom to answer.
    pub(crate) fn submit_body(&self, body: Box<dyn Submission>) {
        self.shared.with(|core| core.submit(self.id, body));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.with(|core| core.end_session(self.id));
    }
}
