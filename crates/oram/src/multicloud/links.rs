//! The sessions with both clouds: messages leave and come in order, and a session that has ended is
//! opened again.
//!
//! A task a session carries messages, so who serves never waits for a cloud that is behind. What is
//! sent while there is no session is dropped: all that is under way is done again when there is one
//! ([`super::MulticloudPlane::repeat`]). What waits for its turn can be taken back ([`Outbox`]).
//!
//! A cloud that says nothing, though it owes something, is as one that has ended (`waiting`). That
//! one has no session for more than a second is told, and that it has one again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fogbank_env::{Mutex, Nanos};
use fogbank_mix::message::Reached;
use fogbank_mix::session::{FromCloud, MixCloud, Opening, Session, SessionError, ToCloud};
use fogbank_mix::signed::PublicKey;
use fogbank_store::{Absences, DepartureGrid};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::{Error, Result, lied};

/// From one try to the next, at first and at most; and for how long it is tried. A session that
/// ends sooner than that brings nothing, so the next one waits, too.
pub(super) const PATIENCE: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_secs(2), Duration::from_secs(60)];

/// A try that takes so long is told while it goes on.
const SILENCE: Duration = Duration::from_secs(5);
const OPENING: &str = "a session";

/// What happens on a link.
#[derive(Debug)]
pub enum OfLink {
    /// A session is open: what is under way has to be done again. And the last place of the journal
    /// that the cloud was told before.
    Opened(Arc<Outbox>, Reached),
    /// A message has come.
    Comes(FromCloud),
    /// It has ended, and is opened again; why.
    Broken(String),
    /// No session is to be had.
    Failed(Error),
}

/// What waits to be carried to a cloud in a session.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<VecDeque<ToCloud>>,
    more: Notify,
}

impl Outbox {
    fn push(&self, message: ToCloud) {
        self.waiting.lock().push_back(message);
        self.more.notify_one();
    }

    /// The next, when there is one.
    async fn next(&self) -> ToCloud {
        loop {
            let next = self.waiting.lock().pop_front();
            match next {
                Some(message) => return message,
                None => self.more.notified().await,
            }
        }
    }
}

/// The way to one of the clouds.
pub struct Link {
    cloud: Arc<dyn MixCloud>,
    /// By which it signs, as noted when the volume was made.
    key: PublicKey,
    opening: Opening,
    grid: DepartureGrid,
    /// Told of what happens, when it does.
    told: Arc<dyn Fn(OfLink) + Send + Sync>,
    absences: Arc<Absences>,
    outbox: Option<Arc<Outbox>>,
    /// The last place of the journal that was said in this session.
    reached: Option<Reached>,
    tasks: JoinSet<()>,
    /// The number of the last try: an answer to one may be lost, and its number is used up.
    session: Arc<AtomicU64>,
    /// When a message came last, or a session was open.
    sign: Nanos,
    /// When the last session was begun, and how long it had waited.
    last: Option<(Nanos, Nanos)>,
    /// When a session ended last, and why.
    ended: Option<(Nanos, String)>,
}

impl Link {
    /// A link to the cloud of this name that opens its first session, of a number above this one.
    pub fn new(
        name: &'static str,
        (cloud, key): (Arc<dyn MixCloud>, PublicKey),
        opening: Opening,
        grid: DepartureGrid,
        told: Arc<dyn Fn(OfLink) + Send + Sync>,
    ) -> Self {
        let (outbox, reached, tasks) = (None, None, JoinSet::new());
        let session = Arc::new(AtomicU64::new(opening.session));
        let (sign, last, ended) = (grid.now(), None, None);
        let absences = Arc::new(Absences::new(name));
        let mut link = Self {
            cloud,
            key,
            opening,
            grid,
            told,
            absences,
            outbox,
            reached,
            tasks,
            session,
            sign,
            last,
            ended,
        };
        link.open();
        link
    }

    /// Begins to open the next session; what the last one sends is heard no more.
    pub fn open(&mut self) {
        (self.outbox, self.reached) = (None, None);
        self.tasks = JoinSet::new();
        let [first, longest, patience] = PATIENCE.map(|time| time.as_nanos() as Nanos);
        let now = self.grid.now();
        let wait = match self.last {
            Some((begun, waited)) if now < begun + waited + patience => {
                (2 * waited).clamp(first, longest)
            }
            _ => 0,
        };
        self.last = Some((now, wait));
        let (cloud, noted, session) = (self.cloud.clone(), self.key, self.session.clone());
        let opening = self.opening.clone();
        let (grid, told) = (self.grid.clone(), self.told.clone());
        let absences = self.absences.clone();
        self.tasks.spawn(async move {
            if wait > 0 {
                grid.come(now + wait).await;
            }
            let opened = patiently(&*cloud, opening, &session, &grid, &absences).await;
            let session = match opened {
                Ok(session) => session,
                Err(error) => return told(OfLink::Failed(error)),
            };
            let Session { sender, mut receiver, reached, key } = session;
            if key != noted {
                let why = "it signs by another key than when the volume was made: put back the \
                           file tenants/NAME/signing of its server";
                return told(OfLink::Failed(Error::Refused(why.into())));
            }
            let outbox = Arc::<Outbox>::default();
            told(OfLink::Opened(outbox.clone(), reached));
            let sends = async move {
                // Room first: what has none yet can be taken back.
                while let Ok(room) = sender.reserve().await {
                    room.send(outbox.next().await);
                }
                std::future::pending::<()>().await // why it ended is said where messages come
            };
            let comes = async {
                loop {
                    match receiver.recv().await {
                        Some(Ok(message)) => told(OfLink::Comes(message)),
                        Some(Err(error)) if !is_passing(&error) => {
                            return told(OfLink::Failed(blame(error)));
                        }
                        Some(Err(error)) => return told(OfLink::Broken(of_absent(error))),
                        None => return told(OfLink::Broken("its session has ended".into())),
                    }
                }
            };
            tokio::select! { () = sends => {}, () = comes => {} }
        });
    }

    /// Begins to open the next, since the last has ended.
    pub fn open_after(&mut self, why: String) {
        self.ended = Some((self.grid.now(), why));
        self.open();
    }

    /// Why a session ended after this moment, if one did.
    pub fn ended_since(&self, moment: Nanos) -> Option<&str> {
        self.ended.as_ref().filter(|(at, _)| *at > moment).map(|(_, why)| &why[..])
    }

    /// What is sent goes there from now on.
    pub fn is_open(&mut self, outbox: Arc<Outbox>) {
        self.outbox = Some(outbox);
        self.is_heard();
    }

    /// The cloud has given a sign.
    pub fn is_heard(&mut self) {
        self.sign = self.grid.now();
    }

    /// Whether the cloud has given a sign after this moment.
    pub fn has_sign_since(&self, moment: Nanos) -> bool {
        self.sign > moment
    }

    /// Whether what is sent goes anywhere.
    pub fn has_session(&self) -> bool {
        self.outbox.is_some()
    }

    /// Takes back what has not left.
    pub fn falls_silent(&mut self) {
        self.outbox.iter().for_each(|outbox| outbox.waiting.lock().clear());
    }

    /// The message leaves, if there is a session. It stands on this place of the journal.
    pub fn send(&mut self, message: ToCloud, reached: Reached) {
        if let Some(outbox) = &self.outbox {
            if self.reached.replace(reached) != Some(reached) {
                outbox.push(ToCloud::Session(reached.into()));
            }
            outbox.push(message);
        }
    }
}

async fn patiently(
    cloud: &dyn MixCloud,
    mut opening: Opening,
    session: &AtomicU64,
    grid: &DepartureGrid,
    absences: &Absences,
) -> Result<Session> {
    let [mut wait, longest, patience] = PATIENCE.map(|time| time.as_nanos() as Nanos);
    let until = grid.now() + patience;
    loop {
        opening.session = session.fetch_add(1, Ordering::Relaxed) + 1;
        let (began, silent) = (grid.now(), "it does not answer");
        let late = async {
            grid.come(began + SILENCE.as_nanos() as Nanos).await;
            absences.failed((began, grid.now()), OPENING, silent);
            grid.come(until).await;
            Err(SessionError::Absent(silent.into()))
        };
        let opened = tokio::select! {
            biased;
            opened = cloud.open(&opening) => opened,
            late = late => late,
        };
        match opened {
            Ok(session) => {
                absences.answered(grid.now());
                return Ok(session);
            }
            Err(error) if is_passing(&error) && grid.now() < until => {
                absences.failed((began, grid.now()), OPENING, &of_absent(error));
                grid.come(grid.now() + wait).await;
                wait = (2 * wait).min(longest);
            }
            Err(error) => return Err(blame(error)),
        }
    }
}

fn of_absent(error: SessionError) -> String {
    match error {
        SessionError::Absent(why) => why,
        other => other.to_string(),
    }
}

fn is_passing(error: &SessionError) -> bool {
    matches!(error, SessionError::Absent(_))
}

fn blame(error: SessionError) -> Error {
    match error {
        SessionError::Absent(reason) => Error::Absent(reason),
        SessionError::Fenced => Error::Fenced,
        SessionError::Refused(reason) => Error::Refused(reason),
        SessionError::Misbehaved(what) => lied(what),
    }
}
