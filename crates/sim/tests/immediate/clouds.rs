//! Two clouds in this process that do not collude, each over a store of its own.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::{Clock, Mutex, SystemClock};
use fogbank_mix::Seed;
use fogbank_mix::message::{Across, Back, FromHolder, FromShuffler, Reached, ToHolder, ToShuffler};
use fogbank_mix::server::{Between, LocalPeer, MixServer, PeerLink};
use fogbank_mix::session::{
    FromCloud, MixCloud, Opening, QUEUED_MAX, Session, SessionError, ToCloud,
};
use fogbank_mix::signed::{PublicKey, Signer, Signing};
use fogbank_mix::traced;
use fogbank_store::trace::{Event, Sent, Shown};
use fogbank_store::{MemoryStore, Store};
use hashbrown::HashMap;
use tokio::sync::mpsc;

/// What the clouds hold. It outlives whoever talks to them.
pub struct TwoClouds {
    stores: Mutex<[Arc<dyn Store>; 2]>,
    /// The ways to the first and to the second, for the other.
    peers: [Arc<LocalPeer>; 2],
    servers: Mutex<[Option<Arc<MixServer>>; 2]>,
    signers: [Arc<Signer>; 2],
    /// Messages between the clouds so far, and the one at which a cloud stops and starts again.
    passed: Mutex<u64>,
    stops_at: Mutex<Option<(u64, usize)>>,
    /// What the clouds have seen under each name first, and names under which they saw two things.
    named: Mutex<HashMap<Name, Vec<u8>>>,
    repeats: Mutex<Vec<Name>>,
    /// A cloud that neither takes nor gives messages, and whether it opens sessions.
    silent: Mutex<Option<(usize, bool)>>,
    /// Clouds from which nothing comes to the other, and whether they learn that.
    cut: Mutex<Option<(Cut, bool)>>,
    /// How long a message takes from one cloud to the other.
    takes: Mutex<u64>,
    /// A cloud that says that it has seen nothing.
    says_nothing: Mutex<Option<usize>>,
    /// A cloud that lies to the other, and whether it has.
    liar: Mutex<Option<Liar>>,
    has_lied: Mutex<bool>,
    volume: Mutex<u64>,
    /// Until when nothing comes to the client.
    held: Mutex<Option<(SystemClock, u64)>>,
    /// What has come to each, if anybody looks.
    views: Mutex<Option<[Vec<Event>; 2]>>,
}

/// A cloud that sends the other a read with a bit changed, and then does what it can not to be told
/// by name.
#[derive(Debug, Clone)]
pub struct Liar {
    pub cloud: usize,
    /// Reads of which it sends the right cells before.
    pub spares: u32,
    /// How its sessions end from then on.
    pub then: SessionError,
    /// Whether it takes nothing any more from the other either.
    pub refuses: bool,
    /// How long after its lie.
    pub after: u64,
}

/// Whether nothing comes from the first and the second cloud to the other.
pub type Cut = [bool; 2];

/// What nothing else is sent under: a kind, a partition, a number.
pub type Name = (&'static str, u16, u64);

impl Default for TwoClouds {
    fn default() -> Self {
        Self::over([0, 1].map(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>))
    }
}

impl TwoClouds {
    /// Over these stores.
    pub fn over(stores: [Arc<dyn Store>; 2]) -> Self {
        let (peers, servers) = (Default::default(), Mutex::default());
        let signers = [1, 2].map(|secret| Arc::new(Signer::new(&Seed::new([secret; 32]))));
        let (passed, stops_at) = (Mutex::new(0), Mutex::new(None));
        let (named, repeats, says_nothing, silent, cut) = Default::default();
        let (liar, has_lied, volume, held, views) = Default::default();
        Self {
            stores: Mutex::new(stores),
            peers,
            servers,
            signers,
            passed,
            stops_at,
            named,
            repeats,
            silent,
            cut,
            takes: Mutex::new(0),
            says_nothing,
            liar,
            has_lied,
            volume,
            held,
            views,
        }
    }

    /// From now on what comes to each cloud is kept.
    pub fn is_watched(&self) {
        self.views.lock().get_or_insert_default();
    }

    /// What has come to a cloud.
    pub fn view(&self, cloud: usize) -> Vec<Event> {
        self.views.lock().as_ref().map_or(Vec::new(), |views| views[cloud].clone())
    }

    /// Something comes to a cloud, of the client (0) or of the other (1).
    fn comes(&self, cloud: usize, from: u8, shown: Option<Shown>) {
        let mut views = self.views.lock();
        if let (Some(views), Some(shown)) = (views.as_mut(), shown) {
            let view = &mut views[cloud];
            let (id, at) = (view.len() as u64, 0);
            let request = shown.into();
            view.push(Event::Sent(Sent { id, at, cloud: from, connection: 0, request }));
        }
    }

    /// Messages between the clouds so far.
    pub fn passed(&self) -> u64 {
        *self.passed.lock()
    }

    /// Names under which the clouds have seen two things.
    pub fn repeats(&self) -> Vec<Name> {
        self.repeats.lock().clone()
    }

    /// From now on this cloud says that it has seen nothing, or none does.
    pub fn says_nothing(&self, cloud: Option<usize>) {
        *self.says_nothing.lock() = cloud;
    }

    /// From now on this cloud is silent, opening sessions or not; or none is.
    pub fn is_silent(&self, cloud: Option<(usize, bool)>) {
        *self.silent.lock() = cloud;
    }

    /// From now on nothing comes from these clouds to the other: they learn that, or it is
    /// swallowed.
    pub fn is_cut(&self, cut: Option<(Cut, bool)>) {
        *self.cut.lock() = cut;
    }

    /// What comes to the client in the next so many nanoseconds comes at once after them.
    pub fn holds(&self, nanos: u64) {
        *self.held.lock() = Some((SystemClock::new(), nanos));
    }

    /// From now on this cloud lies.
    pub fn has_liar(&self, liar: Liar) {
        *self.liar.lock() = Some(liar);
    }

    /// What this cloud does since it has lied.
    fn since_lie(&self, cloud: usize) -> Option<Liar> {
        let liar = self.liar.lock().clone().filter(|liar| liar.cloud == cloud);
        liar.filter(|_| *self.has_lied.lock())
    }

    /// Returns some time after this cloud has lied, with how its sessions end.
    async fn breaks(&self, cloud: usize) -> SessionError {
        let clock = SystemClock::new();
        if self.liar.lock().is_none() {
            std::future::pending::<()>().await; // the next message asks again
        }
        loop {
            if let Some(liar) = self.since_lie(cloud) {
                clock.sleep_until(clock.now() + liar.after).await;
                return liar.then;
            }
            clock.sleep_until(clock.now() + 1_000).await;
        }
    }

    /// What a liar makes of a message to the other, once. It signs it.
    fn lies(&self, from: usize, message: &mut Between) {
        let mut liar = self.liar.lock();
        let liar = liar.as_mut().filter(|liar| liar.cloud == from);
        if let (Some(liar), Between::Across(across)) = (liar, message)
            && let Across::Blinded(blinded) = across
        {
            let spares = liar.spares;
            liar.spares = spares.saturating_sub(1);
            if spares > 0 || std::mem::replace(&mut *self.has_lied.lock(), true) {
                return;
            }
            blinded.cells.get_mut(0).into_iter().for_each(|cell| cell[0] ^= 1);
            let (volume, own) = (*self.volume.lock(), self.signers[from].clone());
            Signing { volume, own, other: PublicKey::default() }.sign(across);
        }
    }

    /// From now on a message from one cloud to the other takes so many nanoseconds.
    pub fn takes(&self, nanos: u64) {
        *self.takes.lock() = nanos;
    }

    /// Returns when something can come from this cloud to the other.
    async fn linked(&self, from: usize) -> Result<(), SessionError> {
        let clock = SystemClock::new();
        let cut = || self.cut.lock().filter(|(cut, _)| cut[from]);
        while let Some((_, is_told)) = cut() {
            if is_told {
                return Err(SessionError::Absent("the link is cut".into()));
            }
            clock.sleep_until(clock.now() + 100_000_000).await;
        }
        Ok(())
    }

    /// Returns when this cloud is not silent, as far as that is about sessions or messages.
    async fn awake(&self, cloud: usize, session: bool) {
        let clock = SystemClock::new();
        while self.silent.lock().is_some_and(|(at, opens)| at == cloud && !(session && opens)) {
            clock.sleep_until(clock.now() + 100_000_000).await;
        }
    }

    fn note(&self, name: Name, seen: Vec<u8>) {
        let mut named = self.named.lock();
        if *named.entry(name).or_insert_with(|| seen.clone()) != seen {
            self.repeats.lock().push(name);
        }
    }

    fn note_between(&self, message: &Between) {
        let (name, cells) = match message {
            Between::Across(Across::Blinded(read)) => (("read", 0, read.read), &read.cells),
            Between::Across(Across::Moved(job)) => {
                (("carry", job.partition, job.generation.0), &job.cells)
            }
            Between::Back(Back::Level(job)) => {
                (("level", job.partition, job.generation.0), &job.cells)
            }
            // As it is stored: nothing is covered anew.
            Between::Across(Across::Handed(_)) => return,
        };
        self.note(name, cells.bytes().to_vec());
    }

    fn note_asked(&self, message: &ToCloud) {
        match message {
            ToCloud::Holder(ToHolder::Look(look)) => {
                self.note(("look", 0, look.read), message.encode());
            }
            ToCloud::Shuffler(ToShuffler::Want(want)) => {
                self.note(("want", 0, want.read), message.encode());
            }
            ToCloud::Shuffler(ToShuffler::Upload(job)) => {
                self.note(("upload", job.partition, job.generation.0), message.encode());
            }
            _ => {}
        }
    }

    /// The ways to both.
    pub fn ways(self: &Arc<Self>) -> [Arc<dyn MixCloud>; 2] {
        [0, 1].map(|at| Arc::new(Way(self.clone(), at)) as Arc<dyn MixCloud>)
    }

    /// The cloud `at` stops and starts again when so many messages more have gone from one cloud to
    /// the other.
    pub fn stops_after(&self, messages: u64, at: usize) {
        let passed = *self.passed.lock();
        *self.stops_at.lock() = Some((passed + messages, at));
    }

    /// Whether it has.
    pub fn has_stopped(&self) -> bool {
        self.stops_at.lock().is_none()
    }

    /// The cloud `at` stops, and starts again with another state than it had.
    pub fn puts_back(self: &Arc<Self>, at: usize, store: Arc<dyn Store>) {
        self.stores.lock()[at] = store;
        self.restart(at);
    }

    /// What is under way is lost; what is in the store is not.
    fn restart(self: &Arc<Self>, at: usize) {
        self.servers.lock()[at] = None;
        self.peers[at].is(None);
    }

    fn told(&self, cloud: usize, reached: Reached) -> Reached {
        if *self.says_nothing.lock() == Some(cloud) { Reached::default() } else { reached }
    }

    fn server(self: &Arc<Self>, at: usize) -> Arc<MixServer> {
        let mut servers = self.servers.lock();
        let server = servers[at].get_or_insert_with(|| {
            let way = Arc::new(Peer(self.clone(), 1 - at));
            Arc::new(MixServer::new(self.stores.lock()[at].clone(), way, self.signers[at].clone()))
        });
        self.peers[at].is(Some(server.clone()));
        server.clone()
    }
}

/// From a cloud to the other, which may stop at any message.
struct Peer(Arc<TwoClouds>, usize);

#[async_trait]
impl PeerLink for Peer {
    async fn pass(&self, mut message: Between) -> Result<(), SessionError> {
        let Self(clouds, to) = self;
        clouds.note_between(&message);
        clouds.lies(1 - *to, &mut message);
        if clouds.since_lie(*to).is_some_and(|liar| liar.refuses) {
            clouds.breaks(*to).await;
            return Err(SessionError::Refused("it does not want that".into()));
        }
        clouds.awake(1 - *to, false).await;
        clouds.awake(*to, false).await;
        clouds.linked(1 - *to).await?;
        clouds.comes(*to, 1, Some(traced::passed(&message)));
        let (clock, takes) = (SystemClock::new(), *clouds.takes.lock());
        clock.sleep_until(clock.now() + takes).await;
        let stops = {
            let mut passed = clouds.passed.lock();
            *passed += 1;
            clouds.stops_at.lock().take_if(|(at, _)| *at <= *passed)
        };
        if let Some((_, at)) = stops {
            clouds.restart(at);
        }
        clouds.peers[*to].pass(message).await
    }
}

struct Way(Arc<TwoClouds>, usize);

fn is_proof(message: &Result<FromCloud, SessionError>) -> bool {
    matches!(
        message,
        Ok(FromCloud::Holder(FromHolder::Proof(_)) | FromCloud::Shuffler(FromShuffler::Proof(_)))
    )
}

/// From a lie to what a liar does about it, if it does not do it at once.
pub const LIE_NANOS: u64 = 20_000_000;

#[async_trait]
impl MixCloud for Way {
    async fn open(&self, opening: &Opening) -> Result<Session, SessionError> {
        self.0.awake(self.1, true).await;
        if let Some(liar) = self.0.since_lie(self.1) {
            return Err(liar.then);
        }
        *self.0.volume.lock() = opening.volume;
        let mut session = self.0.server(self.1).open(opening).await?;
        let reached = self.0.told(self.1, session.reached);
        let (sender, mut asked) = mpsc::channel(QUEUED_MAX);
        let (clouds, cloud) = (self.0.clone(), self.1);
        let (told, receiver) = mpsc::channel(QUEUED_MAX);
        let says = clouds.clone();
        tokio::spawn(async move {
            loop {
                let message = tokio::select! { biased;
                    message = session.receiver.recv() => message,
                    broken = says.breaks(cloud) => Some(Err(broken)),
                };
                let Some(message) = message else { break };
                says.awake(cloud, false).await;
                let held = says.held.lock().clone();
                if let Some((clock, until)) = held {
                    clock.sleep_until(until).await;
                }
                if is_proof(&message) {
                    // Long enough for a liar to do something about it.
                    let clock = SystemClock::new();
                    clock.sleep_until(clock.now() + 10 * LIE_NANOS).await;
                }
                if told.send(message).await.is_err() {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            while let Some(message) = asked.recv().await {
                clouds.note_asked(&message);
                clouds.comes(cloud, 0, traced::asked(&message));
                clouds.awake(cloud, false).await;
                if session.sender.send(message).await.is_err() {
                    break;
                }
            }
        });
        Ok(Session { sender, receiver, reached, key: session.key })
    }

    async fn reached(&self, opening: &Opening) -> Result<Option<Reached>, SessionError> {
        let reached = self.0.server(self.1).reached(opening).await?;
        Ok(reached.map(|reached| self.0.told(self.1, reached)))
    }

    async fn key(&self, opening: &Opening) -> Result<PublicKey, SessionError> {
        self.0.server(self.1).key(opening).await
    }
}
