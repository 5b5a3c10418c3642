//! Two proxies on one store, one of them paused between any two of its steps.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use fogbank_durable::{Error, MemoryRegister, Register, RegisterValue, Result};
use fogbank_store::{Call, Fault, FaultRule, Operation, Reply, Store, StoreError, store_by_calls};
use tokio::sync::Notify;
use world::{Promised, World};

/// Lets a proxy take a number of steps, then holds it until it is let go.
#[derive(Default)]
struct Gate {
    steps: AtomicU64,
    holds_at: u64,
    reached: Notify,
    go: Notify,
}

impl Gate {
    fn at(holds_at: u64) -> Arc<Self> {
        Arc::new(Self { holds_at, ..Self::default() })
    }

    async fn step(&self) {
        if self.steps.fetch_add(1, Ordering::Relaxed) + 1 == self.holds_at {
            self.reached.notify_one();
            self.go.notified().await;
        }
    }
}

struct Stepped<S> {
    inner: S,
    gate: Arc<Gate>,
}

impl<S: Store> Stepped<S> {
    async fn call(&self, call: Call<'_>) -> std::result::Result<Reply, StoreError> {
        self.gate.step().await;
        call.perform(&self.inner).await
    }
}

store_by_calls!(Stepped);

#[async_trait]
impl Register for Stepped<Arc<MemoryRegister>> {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        self.gate.step().await;
        self.inner.read().await
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        self.gate.step().await;
        self.inner.write(from, to).await
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

/// A store that two proxies will meet at: two epochs, then closed.
async fn ground() -> (World, Promised) {
    let (world, mut promised) = (World::default(), Promised::default());
    promised.live(&world, world.healthy(), 2).await.unwrap();
    (world, promised)
}

/// The same store with a trusted side of its own, as a copied folder is.
async fn copied(world: &World) -> World {
    let register = Arc::new(MemoryRegister::default());
    register.write(None, world.register.read().await.unwrap().unwrap()).await.unwrap();
    World { register, ..world.clone() }
}

type Life = tokio::task::JoinHandle<(Promised, Result<()>)>;

/// A proxy that lives on `world`, as far as `gate` lets it.
fn proxy(world: &World, mut promised: Promised, gate: Arc<Gate>) -> Life {
    let world = world.clone();
    tokio::spawn(async move {
        let store = Arc::new(Stepped { inner: world.cloud.clone(), gate: gate.clone() });
        let register = Arc::new(Stepped { inner: world.register.clone(), gate });
        let lived = promised.live_with(&world, store, register, 2).await;
        (promised, lived)
    })
}

/// Waits until the proxy is held; `false` if it came to its end instead.
async fn held(gate: &Gate, life: &mut Life) -> bool {
    tokio::select! {
        biased;
        () = gate.reached.notified() => true,
        _ = async { while !life.is_finished() { tokio::task::yield_now().await } } => false,
    }
}

#[tokio::test]
async fn a_proxy_that_was_held_while_another_opened_is_fenced_and_keeps_nothing_from_it() {
    for apart in [false, true] {
        let (mut fenced, mut held_at) = (0, 7); // from its claim on
        loop {
            held_at += 1;
            let (world, before) = ground().await;
            let copy = copied(&world).await;
            let gate = Gate::at(held_at);
            let mut old = proxy(&world, before.clone(), gate.clone());
            if !held(&gate, &mut old).await {
                old.await.unwrap().1.unwrap();
                break;
            }
            let there = if apart { copy } else { world.clone() };
            let Ok((mut vault, recovered)) = there.open(there.healthy()).await else {
                assert!(apart, "step {held_at}: only an old register may refuse");
                gate.go.notify_one();
                old.await.unwrap().1.unwrap();
                continue;
            };
            let mut new = Promised { epochs: world::epochs_of(&recovered), ..Promised::default() };
            new.journal = recovered.journal.clone();
            // Until there is a delta, which the old one, if it sweeps, must leave alone.
            for epoch in [75, 76] {
                new.append(&mut vault, b"of the new one".to_vec()).await.unwrap();
                new.commit(&mut vault, epoch).await.unwrap();
                vault.collect().await.unwrap();
                if vault.full_is_due() {
                    break;
                }
            }
            new.append(&mut vault, b"of the new one".to_vec()).await.unwrap();
            gate.go.notify_one();
            let (mut promised, lived) = old.await.unwrap();
            match lived {
                Err(Error::Fenced) => fenced += 1,
                // Held in the deletions at its end, or in its own opening.
                other => assert!(other.is_ok(), "step {held_at}: {other:?}"),
            }
            promised.check(&recovered);
            drop(vault);
            new.live(&there, there.healthy(), 1).await.unwrap();
        }
        assert!(held_at > 30 && fenced > if apart { 2 } else { 20 }, "{fenced} of {held_at}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_held_while_it_opens_finds_what_the_other_did_meanwhile() {
    for first_held_at in [8, 12, 16, 20, 24, 28] {
        let mut opened = 0;
        for held_at in 1.. {
            let (world, before) = ground().await;
            let first_gate = Gate::at(first_held_at);
            let mut first = proxy(&world, before.clone(), first_gate.clone());
            assert!(held(&first_gate, &mut first).await);
            let gate = Gate::at(held_at);
            // It knows nothing of the other's promises: what it finds is checked below.
            let (there, held_gate) = (world.clone(), gate.clone());
            let mut second = tokio::spawn(async move {
                let (gate, cloud) = (held_gate, there.cloud.clone());
                let store = Arc::new(Stepped { inner: cloud, gate: gate.clone() });
                let register = Arc::new(Stepped { inner: there.register.clone(), gate });
                there.open_with(store, register).await
            });
            let held = tokio::select! {
                biased;
                () = gate.reached.notified() => true,
                _ = async {
                    while !second.is_finished() {
                        tokio::task::yield_now().await
                    }
                } => false,
            };
            first_gate.go.notify_one();
            let (mut promised, lived) = first.await.unwrap();
            assert!(matches!(lived, Ok(()) | Err(Error::Fenced)), "{lived:?}");
            gate.go.notify_one();
            let (mut vault, recovered) = (&mut second).await.unwrap().unwrap();
            promised.check(&recovered);
            promised.append(&mut vault, b"of the second".to_vec()).await.unwrap();
            drop(vault);
            promised.live(&world, world.healthy(), 1).await.unwrap();
            opened += 1;
            if !held {
                break;
            }
        }
        assert!(opened > 12, "{opened}");
    }
}

/// Both read the same journal before either takes a place: the one whose takeover record comes last
/// in the journal wins, wherever each is held.
#[tokio::test]
async fn of_two_proxies_that_open_at_once_one_goes_on() {
    for first_at in 1..16 {
        for second_at in 1..16 {
            let (world, before) = ground().await;
            let gates = [Gate::at(first_at), Gate::at(second_at)];
            let open = |gate: &Arc<Gate>| {
                let (world, gate) = (world.clone(), gate.clone());
                tokio::spawn(async move {
                    let store =
                        Arc::new(Stepped { inner: world.cloud.clone(), gate: gate.clone() });
                    let register = Arc::new(Stepped { inner: world.register.clone(), gate });
                    world.open_with(store, register).await
                })
            };
            let (first, second) = (open(&gates[0]), open(&gates[1]));
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            gates[1].go.notify_one();
            let second = second.await.unwrap();
            gates[0].go.notify_one();
            let first = first.await.unwrap();
            let mut alive = 0;
            for opened in [first, second] {
                let mut promised = before.clone();
                match opened {
                    Ok((mut vault, recovered)) => {
                        promised.check(&recovered);
                        alive += u32::from(vault.append(b"alive").await.is_ok());
                    }
                    Err(error) => assert!(matches!(error, Error::Fenced), "{error:?}"),
                }
            }
            assert_eq!(alive, 1, "held at {first_at} and {second_at}");
        }
    }
}

/// Two that opened at once both took a place and died before they claimed the store: the journal
/// has two records more than any commit record says, and still no more than the register explains.
#[tokio::test]
async fn two_openings_that_came_to_nothing_do_not_look_like_a_long_journal() {
    let (world, mut promised) = ground().await;
    let gates = [Gate::at(7), Gate::at(5)]; // before the claim; before the takeover record
    let open = |gate: &Arc<Gate>| {
        let (world, gate) = (world.clone(), gate.clone());
        tokio::spawn(async move {
            let inner = world.healthy();
            inner.add(FaultRule::nth(Some(Operation::BlobPut), 3, Fault::Down));
            let store = Arc::new(Stepped { inner, gate: gate.clone() });
            let register = Arc::new(Stepped { inner: world.register.clone(), gate });
            world.open_with(store, register).await
        })
    };
    let late = open(&gates[1]);
    gates[1].reached.notified().await;
    let early = open(&gates[0]);
    gates[0].reached.notified().await;
    early.abort();
    gates[1].go.notify_one();
    assert!(matches!(late.await.unwrap(), Err(Error::Absent(_))));
    let journal = world.cloud.blob_list("journal/").await.unwrap();
    assert_eq!(journal.len(), 2);
    promised.live(&world, world.healthy(), 1).await.unwrap();
}
