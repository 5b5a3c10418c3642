//! The engine as it runs, in virtual time, beside two clouds that write down what comes to them.

use async_trait::async_trait;
use fogbank_durable::{MemoryRegister, Opening as OpeningVault};
use fogbank_env::{Clock, Mutex, SystemClock};
use fogbank_mix::message::Reached;
use fogbank_mix::server::{Between, LocalPeer, MixServer, PeerLink};
use fogbank_mix::session::{MixCloud, Opening, QUEUED_MAX, Session, SessionError};
use fogbank_mix::signed::PublicKey;
use fogbank_mix::traced;
use fogbank_store::DepartureGrid;
use fogbank_store::trace::Request;
use tokio::sync::mpsc;

use super::views::{asked, played};
use super::*;
use crate::multicloud::MulticloudEngine;
use crate::multicloud::plane::Truths;
use crate::{Address, ImmediateEngine};

/// Accesses that are asked for together.
const TOGETHER: u32 = 8;
/// How long a message takes from one cloud to the other: jobs go on beside later accesses.
const BETWEEN_NANOS: u64 = 1_000_000;

/// What came to a cloud, as it stands in its trace.
type Came = Arc<Mutex<Vec<Request>>>;

/// The client's way to a cloud.
struct Way(Arc<MixServer>, Came);

/// The other cloud's.
struct Beside(LocalPeer, Came);

type Told<T> = std::result::Result<T, SessionError>;

#[async_trait]
impl PeerLink for Beside {
    async fn pass(&self, message: Between) -> Told<()> {
        self.1.lock().push(traced::passed(&message).into());
        let clock = SystemClock::new();
        clock.sleep_until(clock.now() + BETWEEN_NANOS).await;
        self.0.pass(message).await
    }
}

#[async_trait]
impl MixCloud for Way {
    async fn open(&self, opening: &Opening) -> Told<Session> {
        let session = self.0.open(opening).await?;
        let (sender, mut asked) = mpsc::channel(QUEUED_MAX);
        let (passes, came) = (session.sender, self.1.clone());
        tokio::spawn(async move {
            while let Some(message) = asked.recv().await {
                came.lock().extend(traced::asked(&message).map(Request::from));
                if passes.send(message).await.is_err() {
                    break;
                }
            }
        });
        Ok(Session { sender, ..session })
    }

    async fn reached(&self, opening: &Opening) -> Told<Option<Reached>> {
        self.0.reached(opening).await
    }

    async fn key(&self, opening: &Opening) -> Told<PublicKey> {
        self.0.key(opening).await
    }
}

/// Two clouds, and what comes to each.
fn clouds() -> ([Arc<dyn MixCloud>; 2], [Came; 2]) {
    let came: [Came; 2] = Default::default();
    let to = |cloud: usize| Arc::new(Beside(LocalPeer::default(), came[cloud].clone()));
    let (peers, signers) = ([to(0), to(1)], signers());
    let ways = [0, 1].map(|cloud: usize| {
        let (store, signer) = (Arc::new(MemoryStore::new()), signers[cloud].clone());
        let server = Arc::new(MixServer::new(store, peers[1 - cloud].clone(), signer));
        peers[cloud].0.is(Some(server.clone()));
        Arc::new(Way(server, came[cloud].clone())) as Arc<dyn MixCloud>
    });
    (ways, came)
}

/// The volume of the game, new, over a trusted side in memory; and its truths.
async fn engine(canary: Canary, ways: [Arc<dyn MixCloud>; 2]) -> (MulticloudEngine, Truths) {
    let (settings, random) = (played(), Randomness::repeatable(5));
    let vault = OpeningVault {
        store: Arc::new(MemoryStore::new()),
        register: Arc::new(MemoryRegister::default()),
        master: &MasterKey::from_bytes(&mut [7; 32]),
        random: &random,
        settings: settings.vault().unwrap(),
        accept_rollback_risk: false,
    };
    let vault = vault.create(Vec::new()).await.unwrap();
    let grid = DepartureGrid::new(Arc::new(SystemClock::new()), settings.quantum);
    let keys = Arc::new(vault.keys().split());
    let mut plane = MulticloudPlane::new(settings, keys, &random).unwrap();
    plane.canary = canary;
    let truths = plane.truths.clone();
    let engine = MulticloudEngine::begin(plane, 0, (vault, grid), ways).await.unwrap();
    (engine, truths)
}

/// The engine is asked for as many blocks as a plane would be, in the same order. When reads have
/// ended, though jobs may go on, `looks` gets what came to both clouds since the last time.
pub fn plays_engine(
    canary: Canary,
    accesses: u32,
    mut looks: impl FnMut(&Shape, &[Vec<Request>; 2], &Truths),
) {
    let shape = played().public().unwrap();
    let plays = async {
        let ((ways, came), clock) = (clouds(), SystemClock::new());
        let (engine, truths) = engine(canary, ways).await;
        for first in (0..accesses).step_by(TOGETHER as usize) {
            let asked = (first..accesses.min(first + TOGETHER)).map(|access| asked(access).0);
            let tickets = asked.map(|block| engine.submit(Address(block), Access::Read));
            for ticket in tickets.collect::<Vec<_>>() {
                ticket.await.unwrap();
            }
            // While nothing is read, no time passes by itself.
            clock.sleep_until(clock.now() + BETWEEN_NANOS / 2).await;
            let came = came.each_ref().map(|came| std::mem::take(&mut *came.lock()));
            looks(&shape, &came, &truths);
            truths.lock().clear();
        }
        engine.close().await.unwrap();
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(plays);
}
