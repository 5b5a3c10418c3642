//! A cloud of the two: holder and shuffler of one volume, over a store and beside the other cloud.
//!
//! 1. *Opening*: the number of the session is durable in the store, so that a lower one is refused
//!    by a server that was started again, too. The session before is told that it is over, and its
//!    work is waited for; then the new one is open. Of another opening of the volume it begins
//!    without what had come for reads.
//! 2. *Messages of the client* are worked off at once for different partitions, up to a bound, and
//!    in order for one; what has to go to the other cloud keeps none of them waiting. What comes of
//!    one goes to the client, then to the other cloud. What the client says of its journal is
//!    durable before that (`seen`).
//! 3. *Messages of the other cloud* are taken when the volume is open, in any order, if it has
//!    signed them. One is acknowledged when it is worked off here; what has to go back for it does
//!    so in the session.
//! 4. *A break*: a message that the other cloud does not take ends the session as absent, and the
//!    client does all again. So nothing is kept for sending it again. What a cloud itself cannot
//!    keep ends its own session, with the reason.
//!
//! # Invariants
//! - A lock is never held while a message is on its way: no cloud waits for the other in a circle.
//! - What a session sent and was not begun before a later one was open is never done.
//! - In memory is what a shuffler keeps while there is room ([`KeptRoom`]), and what is on its way;
//!   all else is in the store. On its way is a bounded number of messages, and a level a partition.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use fogbank_env::{RwLock, compute_over};
use fogbank_store::{BlobTag, PutCondition, PutOutcome, Store, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::message::{Across, Back, Level, Reached, ToSession};
use crate::seen::{self, Seen};
use crate::session::{FromCloud, MixCloud, Opening, QUEUED_MAX, Session, SessionError, ToCloud};
use crate::signed::{PublicKey, Signed, Signer, Signing};
use crate::{
    Elsewhere, Error, Generation, Holder, HolderSends, KeptRoom, KeptShelf, Seed, Shape, Shuffler,
    ShufflerSends,
};

/// A message between the clouds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Between {
    /// From a holder to the shuffler.
    Across(Across),
    /// From a shuffler to the holder.
    Back(Back),
}

/// The way to the other cloud.
#[async_trait]
pub trait PeerLink: Send + Sync {
    /// Returns when the other cloud has worked it off. Messages may overtake each other, and come
    /// twice.
    ///
    /// # Errors
    /// [`SessionError::Absent`] if it did not, or it is not known; another if it does not want it,
    /// which is as if it had been lost.
    async fn pass(&self, message: Between) -> Result<(), SessionError>;
}

/// See the module. What is under way ends when it is dropped.
pub struct MixServer {
    store: Arc<dyn Store>,
    peer: Arc<dyn PeerLink>,
    signer: Arc<Signer>,
    elsewhere: Option<Arc<dyn Elsewhere>>,
    room: Arc<KeptRoom>,
    bounds: Bounds,
    volume: watch::Sender<Option<Arc<Volume>>>,
    session: tokio::sync::Mutex<Option<Running>>,
}

/// What is bounded of a session. Tests have servers without.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Messages in each of its queues.
    queued: usize,
    /// Messages of a client that are worked off at once.
    at_once: usize,
    /// Whether of a partition one level goes back at a time.
    one_level: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { queued: QUEUED_MAX, at_once: AT_ONCE_MAX, one_level: true }
    }
}

/// The session that is open.
struct Running {
    out: Outlet,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Volume {
    opening: Opening,
    holder: Holder,
    shuffler: Shuffler,
    kept: KeptShelf,
    signing: Signing,
    seen: Seen,
    /// Of which opening the last session was.
    opened: AtomicU64,
    out: RwLock<Option<Outlet>>,
}

/// The way to the client, and whether the session is over.
#[derive(Clone)]
struct Outlet {
    client: mpsc::Sender<Result<FromCloud, SessionError>>,
    /// What the other cloud's messages make this one send back: levels, one a job, of which one a
    /// partition is on its way. Whoever was sent the message does not wait for it: the clouds would
    /// wait for each other in a circle.
    back: mpsc::UnboundedSender<Back>,
    over: Arc<watch::Sender<bool>>,
}

/// What comes of a message.
#[derive(Default)]
struct Sends {
    client: Vec<FromCloud>,
    peer: Vec<Between>,
}

impl MixServer {
    /// Of the volume in `store`, or of one that is made at the first opening.
    /// What it sends to the other is signed.
    pub fn new(store: Arc<dyn Store>, peer: Arc<dyn PeerLink>, signer: Arc<Signer>) -> Self {
        let (volume, session) = (watch::Sender::new(None), tokio::sync::Mutex::default());
        let (elsewhere, room, bounds) = (None, KeptRoom::unbounded(), Bounds::default());
        Self { store, peer, signer, elsewhere, room, bounds, volume, session }
    }

    /// The same, with room for what its shuffler keeps in memory; the rest goes into the store.
    pub fn within(self, room: Arc<KeptRoom>) -> Self {
        Self { room, ..self }
    }

    /// The same, its shuffler beside levels that are kept elsewhere, if there are any.
    pub fn beside(self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Self {
        Self { elsewhere, ..self }
    }

    /// A message of the other cloud. Waits until the volume is open.
    ///
    /// # Errors
    /// [`SessionError`], by blame: [`SessionError::Misbehaved`] if it does not fit.
    pub async fn receive(&self, message: Between) -> Result<(), SessionError> {
        self.receive_heard(message, |_| Ok(())).await
    }

    /// The same, told of a message before anything is done of it, if the other cloud has signed it.
    ///
    /// # Errors
    /// As [`MixServer::receive`]; those of whoever is told.
    pub async fn receive_heard(
        &self,
        message: Between,
        hears: impl FnOnce(&Between) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let mut opened = self.volume.subscribe();
        let volume = opened.wait_for(Option::is_some).await.map(|volume| volume.clone());
        let gone = || SessionError::Absent("the server is closing".into());
        let volume = volume.ok().flatten().ok_or_else(gone)?;
        let is_theirs = match &message {
            Between::Across(message) => volume.signing.is_theirs(message),
            Between::Back(message) => volume.signing.is_theirs(message),
        };
        if !is_theirs {
            return Err(SessionError::Misbehaved("what comes is not signed".into()));
        }
        hears(&message)?;
        let sends = match message {
            Between::Across(message) => {
                let bytes = message.batch().cells.bytes().len();
                compute_over(bytes, || volume.shuffler.across(message)).map(Sends::from)
            }
            Between::Back(message) => volume.holder.level(message).await.map(Sends::from),
        };
        let out = volume.out.read().clone();
        let sends = match (sends, &out) {
            // What this cloud cannot keep it says itself: told by the other it would be the
            // other's.
            (Err(error @ (Error::Absent(_) | Error::Refused(_) | Error::Lost(_))), Some(out)) => {
                out.fail(blame(error)).await;
                return Ok(());
            }
            (sends, _) => sends.map_err(blame)?,
        };
        let Some(out) = out else { return Ok(()) };
        if let Err(error) = volume.seen.settle().await {
            out.fail(error).await;
            return Ok(());
        }
        for message in sends.client {
            out.tell(Ok(message)).await;
        }
        let signed = sends.peer.into_iter().map(|message| volume.signed(message));
        for message in signed {
            if let Between::Back(level) = message {
                let _session_is_over = out.back.send(level);
            }
        }
        Ok(())
    }

    /// The shape of its volume: what a message of the other cloud is read with. Waits until the
    /// volume is open; `None` if it never is.
    pub async fn shape(&self) -> Option<Shape> {
        let mut opened = self.volume.subscribe();
        let volume = opened.wait_for(Option::is_some).await.ok()?;
        volume.as_ref().map(|volume| volume.opening.shape)
    }

    /// Whether a volume was ever opened in `store`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn has_volume(store: &dyn Store) -> Result<bool, StoreError> {
        Ok(store.blob_get(FENCE).await?.is_some())
    }

    /// The last session that was open, if any ever was.
    async fn fenced(&self) -> Result<Option<(Opening, BlobTag)>, SessionError> {
        let kept = self.store.blob_get(FENCE).await.map_err(of_store)?;
        let Some((bytes, tag)) = kept else { return Ok(None) };
        let why = "a volume that another version of this server keeps is here";
        let last = Opening::decode(&bytes).map_err(|_| SessionError::Refused(why.into()))?;
        Ok(Some((last, tag)))
    }

    /// Makes the number of the session the highest that was ever open.
    async fn fence(&self, opening: &Opening) -> Result<(), SessionError> {
        let condition = match self.fenced().await? {
            None => PutCondition::IfAbsent,
            Some((last, tag)) => {
                if (last.volume, last.shape) != (opening.volume, opening.shape) {
                    return Err(occupied());
                }
                if last.session >= opening.session {
                    return Err(SessionError::Fenced);
                }
                PutCondition::IfUnchanged(tag)
            }
        };
        let public = Opening { point: Seed::new([0; 32]), ..opening.clone() };
        match self
            .store
            .blob_put(FENCE, public.encode().into(), condition)
            .await
            .map_err(of_store)?
        {
            PutOutcome::Done(_) => Ok(()),
            PutOutcome::ConditionFailed => Err(SessionError::Fenced),
        }
    }

    async fn volume(&self, opening: &Opening) -> Result<Arc<Volume>, SessionError> {
        let open = self.volume.borrow().clone();
        if let Some(volume) = open {
            let of = |opening: &Opening| (opening.point.clone(), opening.other);
            return match of(&volume.opening) == of(opening) {
                true => Ok(volume),
                false => Err(SessionError::Refused("the secrets of another volume".into())),
            };
        }
        let Opening { shape, ref point, .. } = *opening;
        let holder = Holder::open(shape, point, self.store.clone()).await.map_err(blame)?;
        let kept = KeptShelf::open(self.store.clone(), shape).await.map_err(blame)?;
        let shuffler = Shuffler::new(shape, point).beside(self.elsewhere.clone());
        let shuffler = shuffler.within(self.room.clone());
        let seen = Seen::open(self.store.clone(), opening.volume).await?;
        let (volume, own, other) = (opening.volume, self.signer.clone(), opening.other);
        let signing = Signing { volume, own, other };
        let (opening, opened, out) = (opening.clone(), AtomicU64::default(), RwLock::default());
        Ok(Arc::new(Volume { opening, holder, shuffler, kept, signing, seen, opened, out }))
    }
}

fn occupied() -> SessionError {
    SessionError::Refused("another volume, or one of another shape, is here".into())
}

#[async_trait]
impl MixCloud for MixServer {
    async fn open(&self, opening: &Opening) -> Result<Session, SessionError> {
        opening.shape.check().map_err(blame)?;
        let mut session = self.session.lock().await;
        self.fence(opening).await?;
        if let Some(mut before) = session.take() {
            before.out.over.send_replace(true);
            before.out.tell_last(SessionError::Fenced);
            let _whether_it_panicked = (&mut before.task).await;
        }
        let volume = self.volume(opening).await?;
        if volume.opened.swap(opening.of_volume(), Ordering::Relaxed) != opening.of_volume() {
            volume.shuffler.begins_anew();
        }
        volume.seen.look_again().await?;
        let reached = volume.seen.reached();
        let bounds = self.bounds;
        let (sender, asked) = mpsc::channel(bounds.queued);
        let (client, receiver) = mpsc::channel(bounds.queued);
        let (back, returning) = mpsc::unbounded_channel();
        let out = Outlet { client, back, over: Arc::new(watch::Sender::new(false)) };
        *volume.out.write() = Some(out.clone());
        self.volume.send_replace(Some(volume.clone()));
        let works = Works { volume, peer: self.peer.clone(), out: out.clone(), bounds };
        let task = tokio::spawn(works.run(asked, returning));
        *session = Some(Running { out, task });
        Ok(Session { sender, receiver, reached, key: self.signer.key() })
    }

    async fn reached(&self, opening: &Opening) -> Result<Option<Reached>, SessionError> {
        match self.fenced().await? {
            None => Ok(None),
            Some((last, _)) if last.volume != opening.volume => Err(occupied()),
            Some(_) => Ok(Some(seen::read(&*self.store, opening.volume).await?.0)),
        }
    }

    async fn key(&self, _: &Opening) -> Result<PublicKey, SessionError> {
        Ok(self.signer.key())
    }
}

impl Volume {
    /// The message, signed.
    fn signed(&self, mut message: Between) -> Between {
        match &mut message {
            Between::Across(message) => self.signing.sign(message),
            Between::Back(message) => self.signing.sign(message),
        }
        message
    }
}

/// What the works of a session share.
#[derive(Clone)]
struct Works {
    volume: Arc<Volume>,
    peer: Arc<dyn PeerLink>,
    out: Outlet,
    bounds: Bounds,
}

impl Works {
    /// Until the session is over, and what it began is done.
    async fn run(
        self,
        mut asked: mpsc::Receiver<ToCloud>,
        mut returning: mpsc::UnboundedReceiver<Back>,
    ) {
        let mut works = JoinSet::new();
        let room = Arc::new(Semaphore::new(self.bounds.at_once));
        let mut lanes: HashMap<u16, oneshot::Receiver<()>> = HashMap::new();
        let mut levels: HashMap<u16, (Generation, AbortHandle)> = HashMap::new();
        let mut over = self.out.over.subscribe();
        loop {
            let has_room = room.available_permits() > 0;
            tokio::select! {
                biased;
                _ = over.wait_for(|over| *over) => break,
                Some(_) = works.join_next() => {}
                Some(message) = returning.recv() => {
                    // A partition has one job at a time: nobody needs what one before it made.
                    let Back::Level(Level { partition, generation, .. }) = message;
                    if levels.get(&partition).is_some_and(|(newest, _)| *newest > generation) {
                        continue;
                    }
                    let own = self.clone();
                    let passes = async move { own.pass(vec![Between::Back(message)]).await };
                    let before = levels.insert(partition, (generation, works.spawn(passes)));
                    if let Some((_, before)) = before.filter(|_| self.bounds.one_level) {
                        before.abort();
                    }
                }
                message = asked.recv(), if has_room => {
                    let Some(message) = message else { break };
                    if let ToCloud::Session(ToSession::Reached(reached)) = message {
                        self.volume.seen.hears(reached);
                        continue;
                    }
                    let Ok(permit) = room.clone().try_acquire_owned() else { break };
                    let (done, next) = oneshot::channel::<()>();
                    let before = lanes.insert(message.partition(), next);
                    let own = self.clone();
                    works.spawn(async move {
                        if let Some(before) = before {
                            let _done = before.await;
                        }
                        own.ask(message, done).await;
                        drop(permit);
                    });
                }
            }
        }
        self.out.over.send_replace(true);
        while works.join_next().await.is_some() {}
    }

    /// Works it off. The next of its partition is not kept waiting for the other cloud: what goes
    /// there may be long, and the link slow.
    async fn ask(&self, message: ToCloud, worked_off: oneshot::Sender<()>) {
        if self.out.is_over() {
            return;
        }
        let done = async {
            Ok(match message {
                ToCloud::Holder(message) => self.volume.holder.ask(message).await?.into(),
                ToCloud::Shuffler(message) => {
                    self.volume.kept.ask(&self.volume.shuffler, message).await?.into()
                }
                ToCloud::Session(_) => Sends::default(),
            })
        };
        // What it stands on is made durable meanwhile.
        let (sends, settled) = tokio::join!(done, self.volume.seen.settle());
        if let Err(error) = settled {
            return self.out.fail(error).await;
        }
        match sends {
            Ok(Sends { client, peer }) => {
                for message in client {
                    self.out.tell(Ok(message)).await;
                }
                drop(worked_off);
                let signed = peer.into_iter().map(|message| self.volume.signed(message));
                self.pass(signed.collect()).await;
            }
            Err(Error::Other(_)) => {} // the other cloud's fault: as if it had said nothing
            Err(error) => self.out.fail(blame(error)).await,
        }
    }

    async fn pass(&self, messages: Vec<Between>) {
        let mut over = self.out.over.subscribe();
        for message in messages {
            let passed = tokio::select! {
                _ = over.wait_for(|over| *over) => return,
                passed = self.peer.pass(message) => passed,
            };
            match passed {
                Err(SessionError::Absent(why)) => {
                    let why = format!("{UNREACHED}: {why}");
                    self.out.fail(SessionError::Absent(why)).await;
                }
                // Its token is another one, or its operator does not want it: nothing will come.
                Err(SessionError::Refused(why)) => {
                    let why = format!("the other cloud takes nothing from it: {why}");
                    self.out.fail(SessionError::Refused(why)).await;
                }
                _ => {}
            }
        }
    }
}

impl Outlet {
    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// Waits until the client has room for it, or the session is over.
    async fn tell(&self, message: Result<FromCloud, SessionError>) {
        let mut over = self.over.subscribe();
        tokio::select! {
            _ = over.wait_for(|over| *over) => {}
            _nobody_hears = self.client.send(message) => {}
        }
    }

    /// The last that is said.
    async fn fail(&self, error: SessionError) {
        if !self.is_over() {
            self.tell(Err(error)).await;
            self.over.send_replace(true);
        }
    }

    /// Says it if there is room: whoever finds none learns it by opening the next.
    fn tell_last(&self, error: SessionError) {
        let _full_or_gone = self.client.try_send(Err(error));
    }
}

impl ToCloud {
    /// Which partition it is about.
    fn partition(&self) -> u16 {
        match self {
            Self::Holder(message) => message.partition(),
            Self::Shuffler(message) => message.partition(),
            Self::Session(_) => 0, // is never worked off
        }
    }
}

impl From<Vec<HolderSends>> for Sends {
    fn from(all: Vec<HolderSends>) -> Self {
        let mut sends = Self::default();
        for sent in all {
            match sent {
                HolderSends::Client(message) => sends.client.push(FromCloud::Holder(message)),
                HolderSends::Shuffler(message) => sends.peer.push(Between::Across(message)),
            }
        }
        sends
    }
}

impl From<Vec<ShufflerSends>> for Sends {
    fn from(all: Vec<ShufflerSends>) -> Self {
        let mut sends = Self::default();
        for sent in all {
            match sent {
                ShufflerSends::Client(message) => sends.client.push(FromCloud::Shuffler(message)),
                ShufflerSends::Holder(message) => sends.peer.push(Between::Back(message)),
                ShufflerSends::Store(_) => {} // of what a client asks, which is done by then
            }
        }
        sends
    }
}

/// The other cloud in this process, or nobody, until one is named.
#[derive(Default)]
pub struct LocalPeer(RwLock<Option<Arc<MixServer>>>);

impl LocalPeer {
    /// The other is this one from now on.
    pub fn is(&self, other: Option<Arc<MixServer>>) {
        *self.0.write() = other;
    }
}

#[async_trait]
impl PeerLink for LocalPeer {
    async fn pass(&self, message: Between) -> Result<(), SessionError> {
        let other = self.0.read().clone();
        other.ok_or_else(|| SessionError::Absent("it is not there".into()))?.receive(message).await
    }
}

fn blame(error: Error) -> SessionError {
    match error {
        Error::Client(why) => SessionError::Refused(why.into()),
        Error::Other(why) => SessionError::Misbehaved(why.into()),
        Error::Absent(why) => SessionError::Absent(why),
        Error::Refused(why) => SessionError::Refused(why),
        Error::Lacks(_) | Error::Lost(_) | Error::Bug(_) => {
            SessionError::Misbehaved(error.to_string())
        }
    }
}

/// What the store of a cloud says of itself.
pub(crate) fn of_store(error: StoreError) -> SessionError {
    blame(error.into())
}

/// How a cloud begins to say that it is the way to the other that does not work.
pub const UNREACHED: &str = "it does not reach the other cloud";
/// The blob that says which volume is here, and the number of its last session.
const FENCE: &str = "mix-session";
/// Messages of a client that are worked off at once.
const AT_ONCE_MAX: usize = 64;

#[cfg(test)]
mod pressure;

#[cfg(test)]
mod tests {
    use fogbank_store::MemoryStore;

    use super::*;
    use crate::message::{
        Blinded, Carry, Commit, Fetch, FromShuffler, Hand, Look, Mix, Place, Recall, Source,
        Sources, ToHolder, Upload, Want,
    };
    use crate::signed::UNSIGNED;
    use crate::{Cells, Marks};

    pub fn opening(volume: u64, session: u64) -> Opening {
        let shape = Shape { partitions: 2, ..crate::tests::shape() };
        Opening { volume, shape, point: Seed::new([3; 32]), other: [4; 32], session }
    }

    fn server(store: &Arc<dyn Store>) -> MixServer {
        let signer = Arc::new(Signer::new(&Seed::new([5; 32])));
        MixServer::new(store.clone(), Arc::<LocalPeer>::default(), signer)
    }

    #[tokio::test]
    async fn a_session_ends_those_before_it_also_after_a_start() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cloud = server(&store);
        let mut first = cloud.open(&opening(1, 5)).await.unwrap();
        let _second = cloud.open(&opening(1, 6)).await.unwrap();
        assert_eq!(first.receiver.recv().await, Some(Err(SessionError::Fenced)));
        assert_eq!(first.receiver.recv().await, None);
        for again in [cloud, server(&store)] {
            for session in [5, 6] {
                let fenced = again.open(&opening(1, session)).await.err();
                assert_eq!(fenced, Some(SessionError::Fenced));
            }
            let other = again.open(&opening(2, 9)).await.err();
            assert!(matches!(other, Some(SessionError::Refused(_))), "{other:?}");
        }
        server(&store).open(&opening(1, 7)).await.unwrap();
    }

    /// What the other cloud sends of a read counts once within an opening of the volume, since it
    /// may have to be shown. Opened anew, the same read is answered from what comes then: the other
    /// cloud may have been put right.
    #[tokio::test]
    async fn who_opens_a_volume_anew_is_not_answered_from_what_came_before() {
        let other = Arc::new(Signer::new(&Seed::new([6; 32])));
        let opening = |opened: u64, session| Opening {
            other: other.key(),
            ..opening(1, (opened << 32) + session)
        };
        let (read, partition, signature) = (7, 0, UNSIGNED);
        let want = Want { read, partition, cells: 1, index: 0 };
        let cells = |byte| Cells::of(vec![byte; 32], 32).unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cloud = server(&store);
        let signing = Signing { volume: 1, own: other.clone(), other: cloud.signer.key() };
        let comes = async |byte| {
            let mut message = Across::Blinded(Blinded { read, signature, cells: cells(byte) });
            signing.sign(&mut message);
            cloud.receive(Between::Across(message)).await.unwrap();
        };
        for (opened, session, sent, answered) in
            [(1, 1, 8, 8), (1, 2, 9, 8), (2, 1, 9, 9), (2, 2, 8, 9)]
        {
            let mut session = cloud.open(&opening(opened, session)).await.unwrap();
            comes(sent).await;
            session.sender.send(ToCloud::Shuffler(want.clone().into())).await.unwrap();
            let told = session.receiver.recv().await;
            let Some(Ok(FromCloud::Shuffler(FromShuffler::Answer(answer)))) = told else {
                panic!("{told:?}")
            };
            assert_eq!(answer.cells, cells(answered), "{opened} {sent}");
        }
    }

    /// What another version has noted of a session: nobody has lied, and it is not taken over.
    #[tokio::test]
    async fn a_volume_of_another_version_is_refused() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut older = opening(1, 5).encode();
        older.truncate(older.len() - 32);
        let put = store.blob_put(FENCE, older.into(), PutCondition::IfAbsent).await;
        assert!(matches!(put, Ok(PutOutcome::Done(_))));
        let refused = server(&store).open(&opening(1, 6)).await.err();
        let is_told =
            matches!(&refused, Some(SessionError::Refused(why)) if why.contains("version"));
        assert!(is_told, "{refused:?}");
    }

    /// Whatever was answered is told, by a server that was started again as well.
    #[tokio::test]
    async fn how_far_a_journal_had_gone_is_durable_before_an_answer() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cloud = server(&store);
        assert_eq!(cloud.reached(&opening(1, 0)).await, Ok(None));
        let mut session = cloud.open(&opening(1, 1)).await.unwrap();
        assert_eq!(session.reached, Reached::default());
        let asked = server(&store).reached(&opening(1, 0)).await;
        assert_eq!(asked, Ok(Some(Reached::default())));
        let (partition, generation) = (0, Generation::new(2, 0));
        let recall = Recall { partition, generation, sources: Sources::default() };
        let last = Reached { epoch: 3, place: 4 };
        for place in [4, 2] {
            let told = Reached { epoch: 3, place };
            session.sender.send(ToCloud::Session(told.into())).await.unwrap();
            session.sender.send(ToCloud::Holder(recall.clone().into())).await.unwrap();
            assert!(matches!(session.receiver.recv().await, Some(Ok(FromCloud::Holder(_)))));
            let asked = server(&store).reached(&opening(1, 0)).await;
            assert_eq!(asked, Ok(Some(last)), "it only rises");
        }
        let other = server(&store).reached(&opening(2, 0)).await;
        assert!(matches!(other, Err(SessionError::Refused(_))), "{other:?}");
        // A server that has taken this store over writes it from now on: this one is fenced.
        let taken = server(&store);
        let over = taken.open(&opening(1, 2)).await.unwrap();
        assert_eq!(over.reached, last);
        for (session, place) in [(&over, 9), (&session, 10)] {
            let told = Reached { epoch: 3, place };
            session.sender.send(ToCloud::Session(told.into())).await.unwrap();
            session.sender.send(ToCloud::Holder(recall.clone().into())).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(session.receiver.recv().await, Some(Err(SessionError::Fenced)));
    }

    /// What is queued when another session opens is not done: here it would end in a refusal.
    #[tokio::test]
    async fn what_a_session_left_is_dropped() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cloud = server(&store);
        let first = cloud.open(&opening(1, 1)).await.unwrap();
        let generation = Generation::new(2, 0);
        let wrong = ToCloud::Holder(Commit { partition: 0, generation }.into());
        for _ in 0..QUEUED_MAX {
            first.sender.try_send(wrong.clone()).unwrap();
        }
        let mut second = cloud.open(&opening(1, 2)).await.unwrap();
        tokio::task::yield_now().await;
        assert!(second.receiver.try_recv().is_err(), "nothing was done in it");
        second.sender.send(wrong).await.unwrap();
        let refused = second.receiver.recv().await;
        assert!(matches!(refused, Some(Err(SessionError::Misbehaved(_)))), "{refused:?}");
    }

    /// What a server that has lost its levels is asked for that it has acknowledged: no refusal.
    #[tokio::test]
    async fn who_lacks_what_it_has_acknowledged_does_not_refuse() {
        let (partition, generation) = (0, Generation::new(4, 0));
        let of = |level, count| Source { level, generation: Generation::new(count, 0) };
        let (sources, pads) = (Sources(vec![of(1, 2)]), Seed::new([1; 32]));
        let place = Place { level: 1, generation: Generation::new(2, 0), place: 0 };
        let asks: [ToHolder; 6] = [
            Commit { partition, generation }.into(),
            Look { read: 0, partition, pads: pads.clone(), places: vec![place] }.into(),
            Recall { partition, generation, sources: sources.clone() }.into(),
            Hand { partition, generation, sources: sources.clone() }.into(),
            Carry { partition, generation, sources: sources.clone(), pads, list: Marks::none(8) }
                .into(),
            Fetch { partition, generation, sources, list: Marks::none(8) }.into(),
        ];
        for asked in asks {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let cloud = server(&store);
            let mut session = cloud.open(&opening(1, 1)).await.unwrap();
            session.sender.send(ToCloud::Holder(asked.clone())).await.unwrap();
            let told = session.receiver.recv().await;
            let is_told = matches!(
                &told, Some(Err(SessionError::Misbehaved(why))) if why.contains("acknowledged")
            );
            assert!(is_told, "{asked:?}: {told:?}");
        }
    }

    /// A message to the other cloud takes long: reads of its partition go on, and so do all others.
    #[tokio::test]
    async fn what_goes_to_the_other_cloud_keeps_nobody_waiting() {
        struct Slow;
        #[async_trait]
        impl PeerLink for Slow {
            async fn pass(&self, _: Between) -> Result<(), SessionError> {
                std::future::pending().await
            }
        }
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let signer = Arc::new(Signer::new(&Seed::new([5; 32])));
        let cloud = MixServer::new(store, Arc::new(Slow), signer);
        let mut session = cloud.open(&opening(1, 1)).await.unwrap();
        let (partition, generation) = (0, Generation::new(2, 0));
        let (order, pads) = (Seed::new([1; 32]), Seed::new([2; 32]));
        let sources = Sources::default();
        let mix = Mix { partition, level: 1, generation, sources: sources.clone(), order, pads };
        let upload = Upload { partition, generation, cells: Cells::zeros(32, 2) };
        for message in [mix.into(), upload.into()] {
            session.sender.send(ToCloud::Shuffler(message)).await.unwrap();
        }
        let recall = Recall { partition, generation, sources };
        session.sender.send(ToCloud::Holder(recall.into())).await.unwrap();
        let told = session.receiver.recv().await;
        assert!(matches!(told, Some(Ok(FromCloud::Holder(_)))), "{told:?}");
    }

    /// The other cloud is not there: the client hears of it, and has to do all again.
    #[tokio::test]
    async fn what_the_other_cloud_does_not_take_ends_the_session() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cloud = server(&store);
        let mut session = cloud.open(&opening(1, 1)).await.unwrap();
        let (partition, generation) = (0, Generation::new(2, 0));
        let (order, pads) = (Seed::new([1; 32]), Seed::new([2; 32]));
        let sources = Sources::default();
        let mix = Mix { partition, level: 1, generation, sources, order, pads };
        let upload = Upload { partition, generation, cells: Cells::zeros(32, 2) };
        for message in [mix.into(), upload.into()] {
            session.sender.send(ToCloud::Shuffler(message)).await.unwrap();
        }
        let ended = session.receiver.recv().await;
        assert!(matches!(ended, Some(Err(SessionError::Absent(_)))), "{ended:?}");
    }
}
