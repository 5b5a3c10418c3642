//! The register at servers of others that crash, lag, forge and fall back.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_durable::{
    Ballot, Error, Held, PeerDown, QuorumRegister, Register, RegisterPeer, RegisterValue, Stamp,
};
use fogbank_env::{Clock, Mutex, Purpose, Randomness, SystemClock};
use fogbank_seal::{RegisterKey, StoreId};
use fogbank_store::{MemoryStore, PutCondition, RetrySchedule, Store};
use world::{Promised, World, master};

#[derive(Debug, Clone, PartialEq)]
enum Mood {
    Honest,
    Down,
    /// Takes no writes, and says so.
    Late,
    /// Flips a bit of what it holds.
    Forging,
    /// Answers by what it held once, and forgets what it is told.
    Back(Held),
}

struct Peer {
    mood: Mutex<Mood>,
    held: Mutex<Held>,
}

impl Peer {
    fn answer(&self, act: impl FnOnce(&mut Held) -> Held) -> Result<Held, PeerDown> {
        let mut held = self.held.lock();
        match self.mood.lock().clone() {
            Mood::Honest => Ok(act(&mut held)),
            Mood::Down => Err(PeerDown("down".into())),
            Mood::Late => Ok(held.clone()),
            Mood::Forging => {
                let mut answer = act(&mut held);
                let mut value = answer.value.to_vec();
                value.first_mut().map(|byte| *byte ^= 1).unwrap_or_else(|| value.push(1));
                answer.value = value.into();
                Ok(answer)
            }
            Mood::Back(mut old) => Ok(act(&mut old)),
        }
    }
}

#[async_trait]
impl RegisterPeer for Peer {
    async fn read(&self, promise: Ballot) -> Result<Held, PeerDown> {
        self.answer(|held| held.read(promise))
    }

    async fn write(&self, stamp: Stamp, value: Bytes) -> Result<Held, PeerDown> {
        self.answer(|held| held.write(stamp, value))
    }
}

struct Peers(Vec<Arc<Peer>>);

impl Peers {
    fn new(count: usize) -> Self {
        let peer = || Arc::new(Peer { mood: Mutex::new(Mood::Honest), held: Mutex::default() });
        Self((0..count).map(|_| peer()).collect())
    }

    fn register(&self, seed: u64) -> QuorumRegister {
        let peers = self.0.iter().map(|peer| peer.clone() as Arc<dyn RegisterPeer>).collect();
        QuorumRegister::new(peers, &master(), Randomness::repeatable(seed).stream(Purpose::Faults))
    }

    fn set(&self, peer: usize, mood: Mood) {
        *self.0[peer].mood.lock() = mood;
    }

    fn held(&self, peer: usize) -> Held {
        self.0[peer].held.lock().clone()
    }
}

fn value(sequence: u64) -> RegisterValue {
    let (store, digest) = (StoreId([1; 16]), [sequence as u8; 32]);
    RegisterValue {
        store,
        opening: 1,
        sequence,
        commit: digest,
        epoch: 7,
        place: 3,
        journal: digest,
    }
}

#[tokio::test]
async fn f_servers_of_2f_plus_1_may_fail_in_any_way() {
    for (count, faulty) in [(1, 0), (3, 1), (5, 2)] {
        for mood in [Mood::Down, Mood::Late, Mood::Forging] {
            let peers = Peers::new(count);
            for peer in 0..faulty {
                peers.set(peer, mood.clone());
            }
            let register = peers.register(1);
            assert_eq!(register.take().await.unwrap(), None);
            register.write(None, value(1)).await.unwrap();
            register.write(Some(value(1)), value(2)).await.unwrap();
            assert_eq!(register.read().await.unwrap(), Some(value(2)));
            assert_eq!(peers.register(2).take().await.unwrap(), Some(value(2)));
            // The canary: one more and nothing goes.
            peers.set(faulty, mood.clone());
            let refused = peers.register(3).take().await;
            assert!(
                matches!(refused, Err(Error::Register { .. } | Error::Fenced)),
                "{mood:?} of {count}: {refused:?}"
            );
        }
    }
}

#[tokio::test]
async fn who_took_it_before_is_fenced() {
    let peers = Peers::new(3);
    let (first, second) = (peers.register(1), peers.register(2));
    first.take().await.unwrap();
    first.write(None, value(1)).await.unwrap();
    assert_eq!(second.take().await.unwrap(), Some(value(1)));
    assert!(matches!(first.write(Some(value(1)), value(2)).await, Err(Error::Fenced)));
    second.write(Some(value(1)), value(3)).await.unwrap();
    assert_eq!(peers.register(3).read().await.unwrap(), Some(value(3)));
}

/// A write that reached one server only: the next proxy that sees it makes it stand.
#[tokio::test]
async fn a_value_that_was_seen_once_is_not_lost_again() {
    let peers = Peers::new(3);
    let first = peers.register(1);
    first.take().await.unwrap();
    first.write(None, value(1)).await.unwrap();
    peers.set(1, Mood::Down);
    peers.set(2, Mood::Down);
    assert!(matches!(first.write(Some(value(1)), value(2)).await, Err(Error::Register { .. })));
    peers.set(1, Mood::Honest);
    assert_eq!(peers.register(2).take().await.unwrap(), Some(value(2)));
    peers.set(0, Mood::Down);
    peers.set(2, Mood::Honest);
    assert_eq!(peers.register(3).take().await.unwrap(), Some(value(2)));
}

#[tokio::test]
async fn a_server_that_fell_back_is_outvoted() {
    let peers = Peers::new(3);
    let register = peers.register(1);
    register.take().await.unwrap();
    register.write(None, value(1)).await.unwrap();
    while peers.held(0).value.len() == RegisterKey::BYTES {
        tokio::task::yield_now().await;
    }
    let old = peers.held(0);
    register.write(Some(value(1)), value(2)).await.unwrap();
    peers.set(0, Mood::Back(old));
    assert_eq!(peers.register(2).take().await.unwrap(), Some(value(2)));
}

/// The same randomness twice, as after a restored snapshot: two values under one stamp.
#[tokio::test]
async fn a_fork_is_seen() {
    let universes = [Peers::new(3), Peers::new(3)];
    for (number, peers) in universes.iter().enumerate() {
        let register = peers.register(1);
        register.take().await.unwrap();
        register.write(None, value(number as u64 + 1)).await.unwrap();
        while peers.0.iter().any(|peer| peer.held.lock().value.len() == RegisterKey::BYTES) {
            tokio::task::yield_now().await;
        }
    }
    let mixed = Peers([&universes[0].0[..1], &universes[1].0[..2]].concat());
    let forked = mixed.register(2).take().await;
    assert!(matches!(forked, Err(Error::Register { reason, .. }) if reason.contains("forked")));
}

#[tokio::test]
async fn a_vault_lives_on_a_quorum() {
    let (world, mut promised) = (World::default(), Promised::default());
    let peers = Peers::new(3);
    for life in 0..6 {
        peers.set(life % 3, [Mood::Down, Mood::Late, Mood::Forging][life / 2].clone());
        let register = Arc::new(peers.register(10 + life as u64));
        promised.live_with(&world, world.healthy(), register, 3).await.unwrap();
        peers.set(life % 3, Mood::Honest);
    }
}

/// The cloud shows each of two proxies a history of its own. The register is one: the older proxy
/// is stopped before the batch it has just journalled is read.
#[tokio::test]
async fn a_cloud_that_forks_itself_is_caught_by_the_register() {
    let (world, mut promised) = (World::default(), Promised::default());
    let peers = Peers::new(3);
    let (first, second) = (Arc::new(peers.register(1)), Arc::new(peers.register(2)));
    let (mut old, _) = world.open_with(world.healthy(), first).await.unwrap();
    promised.append(&mut old, b"one".to_vec()).await.unwrap();
    let other = World { cloud: copy(&world.cloud).await, ..world.clone() };
    let (mut new, recovered) = other.open_with(other.healthy(), second).await.unwrap();
    promised.clone().check(&recovered);
    assert!(matches!(old.append(b"two").await, Err(Error::Fenced)));
    assert!(matches!(old.commit_epoch(&[], None).await, Err(Error::Fenced)));
    new.append(b"two").await.unwrap();
}

async fn copy(cloud: &MemoryStore) -> Arc<MemoryStore> {
    let copy = MemoryStore::new();
    for name in cloud.blob_list("").await.unwrap() {
        let (data, _) = cloud.blob_get(&name).await.unwrap().unwrap();
        copy.blob_put(&name, data, PutCondition::Always).await.unwrap();
    }
    Arc::new(copy)
}

/// The same register as a proxy has it: it waits for a majority as for a cloud that does not
/// answer, and no longer.
#[tokio::test(start_paused = true)]
async fn while_no_majority_answers_the_same_is_asked_again_for_a_while() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (peers, schedule) = (Peers::new(3), RetrySchedule::default());
    let register = Arc::new(peers.register(1).patient(clock.clone(), schedule.clone()));
    register.take().await.unwrap();
    register.write(None, value(1)).await.unwrap();
    let down = |mood: Mood| (0..2).for_each(|peer| peers.set(peer, mood.clone()));
    down(Mood::Down);
    for number in 2..5 {
        let (writing, from) = (register.clone(), clock.now());
        let write = async move { writing.write(Some(value(number - 1)), value(number)).await };
        let write = tokio::spawn(write);
        clock.sleep_until(from + 5_000_000_000).await;
        assert!(!write.is_finished(), "nobody has the value but one");
        down(Mood::Honest);
        write.await.unwrap().unwrap();
        down(Mood::Down);
        let (reading, from) = (register.clone(), clock.now());
        let read = tokio::spawn(async move { reading.read().await });
        clock.sleep_until(from + 3_000_000_000).await;
        peers.set(1, Mood::Honest);
        assert_eq!(read.await.unwrap().unwrap(), Some(value(number)));
        down(Mood::Down);
    }
    let from = clock.now();
    let gave_up = register.write(Some(value(4)), value(5)).await;
    assert!(matches!(gave_up, Err(Error::Register { .. })), "{gave_up:?}");
    let waited = Duration::from_nanos(clock.now() - from);
    let most: Duration = schedule.waits.iter().sum();
    assert!((most..most + Duration::from_secs(1)).contains(&waited), "{waited:?}");
    // Who is overtaken does not wait.
    down(Mood::Honest);
    let second = peers.register(2);
    assert_eq!(second.take().await.unwrap(), Some(value(5)), "one server had it");
    let from = clock.now();
    let fenced = register.write(Some(value(5)), value(6)).await;
    assert!(matches!(fenced, Err(Error::Fenced)), "{fenced:?}");
    assert_eq!(clock.now(), from);
}

/// One server that says that it has promised somebody else is no proof that anybody came.
#[tokio::test]
async fn one_server_that_refuses_is_no_other_proxy() {
    let peers = Peers::new(3);
    let register = peers.register(1);
    register.take().await.unwrap();
    register.write(None, value(1)).await.unwrap();
    let promised = Ballot { round: 99, nonce: 1 };
    peers.set(0, Mood::Back(Held { promised, ..peers.held(0) }));
    register.write(Some(value(1)), value(2)).await.unwrap();
    peers.set(1, Mood::Down);
    let stopped = register.write(Some(value(2)), value(3)).await;
    assert!(matches!(stopped, Err(Error::Register { .. })), "{stopped:?}");
}
