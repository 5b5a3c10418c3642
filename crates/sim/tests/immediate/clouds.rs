//! Two clouds in this process that do not collude, each over a store of its own.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::Mutex;
use fogbank_mix::server::{Between, LocalPeer, MixServer, PeerLink};
use fogbank_mix::session::{MixCloud, Opening, Session, SessionError};
use fogbank_store::{MemoryStore, Store};

/// What the clouds hold. It outlives whoever talks to them.
pub struct TwoClouds {
    stores: [Arc<dyn Store>; 2],
    /// The ways to the first and to the second, for the other.
    peers: [Arc<LocalPeer>; 2],
    servers: Mutex<[Option<Arc<MixServer>>; 2]>,
    /// Messages between the clouds so far, and the one at which a cloud stops and starts again.
    passed: Mutex<u64>,
    stops_at: Mutex<Option<(u64, usize)>>,
}

impl Default for TwoClouds {
    fn default() -> Self {
        Self::over([0, 1].map(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>))
    }
}

impl TwoClouds {
    /// Over these stores.
    pub fn over(stores: [Arc<dyn Store>; 2]) -> Self {
        let (peers, servers) = (Default::default(), Mutex::default());
        let (passed, stops_at) = (Mutex::new(0), Mutex::new(None));
        Self { stores, peers, servers, passed, stops_at }
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

    /// What is under way is lost; what is in the store is not.
    fn restart(self: &Arc<Self>, at: usize) {
        self.servers.lock()[at] = None;
        self.peers[at].is(None);
    }

    fn server(self: &Arc<Self>, at: usize) -> Arc<MixServer> {
        let mut servers = self.servers.lock();
        let server = servers[at].get_or_insert_with(|| {
            let way = Arc::new(Peer(self.clone(), 1 - at));
            Arc::new(MixServer::new(self.stores[at].clone(), way))
        });
        self.peers[at].is(Some(server.clone()));
        server.clone()
    }
}

/// From a cloud to the other, which may stop at any message.
struct Peer(Arc<TwoClouds>, usize);

#[async_trait]
impl PeerLink for Peer {
    async fn pass(&self, message: Between) -> Result<(), SessionError> {
        let Self(clouds, to) = self;
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

#[async_trait]
impl MixCloud for Way {
    async fn open(&self, opening: &Opening) -> Result<Session, SessionError> {
        self.0.server(self.1).open(opening).await
    }
}
