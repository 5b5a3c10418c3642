//! What the driver and the clerk hand each other: all that departures have in common with clients.
//!
//! 1. The driver *asks* for what is to leave at its next point: the reads of a batch, the writes of
//!    the epoch. It does not wait for the answer; it sleeps until its point.
//! 2. The clerk *claims* the ask once it has the core, fills it, and goes on.
//! 3. At its point the driver takes what is there. An ask that nobody has claimed it withdraws:
//!    then a batch of padding leaves, or an empty write, and clients wait for the next one.
//! 4. What comes back (values, the outcome of a commit) the driver *tells*, and does not wait
//!    either.
//!
//! Invariants: asks and news are taken in the order in which they were sent. An ask is claimed or
//! withdrawn, never both. What follows a claim is bounded by the shape. So nothing that a client
//! can send makes the driver wait: the locks here are held for a few assignments.
//!
//! What the cloud sees: nothing. A batch of padding looks like any other.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Mutex, Nanos};
use fogbank_oram::Address;
use tokio::sync::{Notify, mpsc};

use crate::delta::Delta;
use crate::directory::Directory;
use crate::error::{Error, Result};

/// What the driver sends the clerk, in order.
pub(crate) enum Message {
    /// Freeze the next batch: which addresses are in it.
    Freeze(Asked<(), Vec<Address>>),
    /// Close the epoch. With the ask goes the driver's hold on the directory, which closing
    /// changes.
    Close {
        /// Its write batch.
        ask: Asked<Arc<Directory>, Written>,
        /// When what it has written leaves.
        send: Nanos,
        /// Whether nothing is admitted after it.
        last: bool,
    },
    /// The values of the oldest batch under way.
    Values(Vec<Option<Bytes>>),
    /// The epoch closed last is durable, or never will be.
    Ended(Result<()>),
    /// No epoch runs for now; whoever waits is told why, if there is a reason.
    Rest(Option<Error>),
    /// Nothing runs any more.
    Stop(Error),
}

/// What an epoch has written.
#[derive(Default)]
pub(crate) struct Written {
    /// The write batch.
    pub writes: Vec<(Address, Option<Bytes>)>,
    /// What it changes in the directory.
    pub delta: Delta,
    /// The directory with it. Whoever holds this holds up the next close.
    pub directory: Arc<Directory>,
}

/// Something the driver has asked for. `G` is given with it and comes back if it is withdrawn.
pub(crate) struct Ask<G, T>(Arc<Inner<G, T>>);

/// The same as the clerk has it.
pub(crate) struct Asked<G, T>(Arc<Inner<G, T>>);

/// What the clerk has claimed. Dropped unfilled, it tells the driver that we erred.
pub(crate) struct Claim<G, T>(Arc<Inner<G, T>>);

struct Inner<G, T> {
    state: Mutex<State<G, T>>,
    filled: Notify,
}

enum State<G, T> {
    Open(G),
    Claimed,
    Filled(Result<T>),
    Over,
}

impl<G, T> Inner<G, T> {
    fn fill(&self, result: Result<T>) {
        *self.state.lock() = State::Filled(result);
        self.filled.notify_one();
    }
}

/// What has become of an ask at its point.
pub(crate) enum Taken<G, T> {
    /// This was there.
    Filled(T),
    /// The clerk had begun, and this came when it was done.
    Late(T),
    /// Nobody had come to it: it is withdrawn.
    Withdrawn(G),
}

/// An ask with what is given with it, and the clerk's end of it.
pub(crate) fn ask<G, T>(given: G) -> (Ask<G, T>, Asked<G, T>) {
    let inner = Arc::new(Inner { state: Mutex::new(State::Open(given)), filled: Notify::new() });
    (Ask(inner.clone()), Asked(inner))
}

impl<G, T> Ask<G, T> {
    /// Takes what there is. Waits for one thing alone: what the clerk has claimed.
    pub(crate) async fn take(self) -> Result<Taken<G, T>> {
        let mut taken: fn(T) -> Taken<G, T> = Taken::Filled;
        loop {
            {
                let mut state = self.0.state.lock();
                match std::mem::replace(&mut *state, State::Over) {
                    State::Open(given) => return Ok(Taken::Withdrawn(given)),
                    State::Filled(result) => return result.map(taken),
                    State::Over => return Err(Error::fault("an ask was taken twice")),
                    State::Claimed => *state = State::Claimed,
                }
            }
            self.0.filled.notified().await;
            taken = Taken::Late;
        }
    }

    /// Waits until it is filled, however long that takes: where there is no grid to keep.
    pub(crate) async fn wait(&self) {
        while matches!(&*self.0.state.lock(), State::Open(_) | State::Claimed) {
            self.0.filled.notified().await;
        }
    }
}

impl<G, T> Asked<G, T> {
    /// Begins; `None` if it has been withdrawn.
    pub(crate) fn claim(self) -> Option<(G, Claim<G, T>)> {
        let mut state = self.0.state.lock();
        match std::mem::replace(&mut *state, State::Claimed) {
            State::Open(given) => Some((given, Claim(self.0.clone()))),
            other => {
                *state = other;
                None
            }
        }
    }
}

impl<G, T> Drop for Asked<G, T> {
    fn drop(&mut self) {
        if matches!(&*self.0.state.lock(), State::Open(_)) {
            self.0.fill(Err(Error::fault("the clerk has ended")));
        }
    }
}

impl<G, T> Claim<G, T> {
    /// Hands over what was asked for.
    pub(crate) fn fill(self, result: Result<T>) {
        self.0.fill(result);
    }
}

impl<G, T> Drop for Claim<G, T> {
    fn drop(&mut self) {
        if matches!(&*self.0.state.lock(), State::Claimed) {
            self.0.fill(Err(Error::fault("the clerk left an ask unfilled")));
        }
    }
}

/// The driver's end of the handover.
#[derive(Clone)]
pub(crate) struct Handover(mpsc::UnboundedSender<Message>);

impl Handover {
    /// Both ends.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Sends; fails if there is no clerk any more, which no orderly end does.
    pub(crate) fn send(&self, message: Message) -> Result<()> {
        self.0.send(message).map_err(|_| Error::fault("the clerk has ended"))
    }
}
