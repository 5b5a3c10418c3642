//! Two proxies on one store: the first is held at one of its calls while the second takes the store
//! over, works on it, and stops caring; then the first goes on.
//!
//! They share the register, or each has a copy of the trusted side (key and register), as a folder
//! that was copied while the store was closed. Nobody tells either of the other.
//!
//! What has to be true: the first one answers nothing any more, reads nothing that its journal did
//! not hold before it was overtaken, sends nothing after its error, and is told why. What both have
//! acknowledged is in the store, and all else that is there is there wholly.

use std::sync::Arc;

use fogbank_durable::{MemoryRegister, Register};
use fogbank_store::MemoryStore;
use fogbank_txn::Error::Stopped;
use fogbank_txn::Proxy;
use tokio::task::JoinSet;

use super::bank::Ledger;
use super::pausing::{Hold, Pausing};
use super::stopping::Watched;
use super::world::{Running, World};
use crate::scene::{SceneError, Shape};

/// Two proxies that meet at one store.
#[derive(Debug, Clone)]
pub struct Meeting {
    /// All randomness follows from it.
    pub seed: u64,
    /// The public shape.
    pub shape: Shape,
    /// From one full checkpoint to the next.
    pub full_every: u64,
    /// Clients of each.
    pub clients: u32,
    /// Where the first is held.
    pub hold: Hold,
    /// Which sides they share.
    pub ground: Ground,
}

/// What two proxies share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Everything.
    Shared,
    /// The cloud; each has a trusted side of its own, copied while the store was closed.
    Copied,
    /// Nothing, which no proxy has to notice. A canary: it breaks all that has to be true.
    Apart,
}

/// How a meeting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// The first proxy lived its epochs without coming to the call where it was to be held.
    Never,
    /// It was told that another has opened the store.
    Fenced,
    /// It was told that something does not verify: what it was about to read is gone.
    Refused,
    /// The second one was refused, as its register is too old, and the first goes on.
    SecondRefused,
}

/// Whole epochs in which the first one may be held, and that the second one works.
const EPOCHS: f64 = 2.0;

/// Lets two proxies meet.
///
/// # Errors
/// What is not as it has to be, in words.
pub fn meet(meeting: &Meeting) -> Result<Met, String> {
    super::in_virtual_time(play(meeting)).map_err(|what| format!("{what} ({meeting:?})"))
}

type Cloud = Watched<Arc<MemoryStore>>;

async fn play(meeting: &Meeting) -> Result<Met, String> {
    let world = World::new(meeting.seed, meeting.shape.clone(), meeting.full_every);
    let ledger = Ledger::default();
    let story = Story { meeting, world: &world, ledger: &ledger };
    story.found().await?;
    let other = match meeting.ground {
        Ground::Shared => world.clone(),
        Ground::Copied => copy(&world).await?,
        Ground::Apart => World::new(meeting.seed + 1, meeting.shape.clone(), meeting.full_every),
    };
    let seen = Arc::new(Watched::new(world.cloud.clone()));
    let pausing = Arc::new(Pausing::new(seen.clone(), meeting.hold));
    let first = world.open(pausing.clone(), 1).await.map_err(words)?;
    pausing.arm();
    let clients = story.clients(&first.proxy, 1);
    let held = tokio::select! {
        biased;
        () = pausing.reached() => true,
        () = world.sleep(EPOCHS + 1.0) => false,
    };
    if !held {
        return Ok(Met::Never);
    }
    world.sleep(0.01).await; // clients are told what was on its way to them
    let read_before = seen.seen().all.len();
    let watched = Arc::new(Watched::new(other.cloud.clone()));
    let second = match other.open(watched.clone(), 2).await {
        Ok(second) => second,
        Err(SceneError::Vault(fogbank_durable::Error::CloudLied(_)))
            if meeting.ground == Ground::Copied =>
        {
            return story.first_goes_on(first, &pausing, clients).await;
        }
        Err(error) => return Err(format!("the second one cannot open: {error}")),
    };
    let mut others = story.clients(&second.proxy, 2);
    world.sleep(EPOCHS).await;
    others.shutdown().await;
    let acknowledged = ledger.acknowledged();
    pausing.go();
    let met = story.end_of_first(&first, &pausing).await;
    let mut wrong: Vec<String> = met.as_ref().err().cloned().into_iter().collect();
    if ledger.acknowledged() != acknowledged {
        wrong.push("a proxy that was overtaken has acknowledged something".into());
    }
    let (late, repeated) = (&seen.seen().all[read_before..], watched.seen().repeated);
    if !late.iter().all(|cell| repeated.contains(cell)) {
        wrong.push("a proxy that was overtaken read what the journal does not hold".into());
    }
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    drop((first, clients));
    ledger.check(&second.proxy).await?;
    second.close().await.map_err(words)?;
    story.ends_well(&other).await?;
    met
}

/// The same store with a trusted side of its own.
async fn copy(world: &World) -> Result<World, String> {
    let (register, held) = (MemoryRegister::default(), world.register.read().await);
    let held = held.map_err(|e| e.to_string())?.ok_or("the register is empty")?;
    register.write(None, held).await.map_err(|e| e.to_string())?;
    Ok(world.with_register(Arc::new(register)))
}

struct Story<'a> {
    meeting: &'a Meeting,
    world: &'a World,
    ledger: &'a Ledger,
}

impl Story<'_> {
    /// The store that both will meet at, closed.
    async fn found(&self) -> Result<(), String> {
        let running = self.world.open(self.world.cloud.clone(), 0).await.map_err(words)?;
        let mut clients = self.clients(&running.proxy, 0);
        self.world.sleep(EPOCHS).await;
        clients.shutdown().await;
        running.close().await.map_err(words)
    }

    fn clients(&self, proxy: &Proxy, opening: u64) -> JoinSet<()> {
        let random = self.world.random(opening);
        self.ledger.clients(proxy, &random).take(self.meeting.clients as usize).collect()
    }

    /// The second one did not come in: the first knows nothing of it.
    async fn first_goes_on(
        &self,
        first: Running,
        pausing: &Pausing<Arc<Cloud>>,
        mut clients: JoinSet<()>,
    ) -> Result<Met, String> {
        pausing.go();
        self.world.sleep(EPOCHS).await;
        clients.shutdown().await;
        self.ledger.check(&first.proxy).await?;
        first.close().await.map_err(words)?;
        self.ends_well(self.world).await?;
        Ok(Met::SecondRefused)
    }

    /// How the first one ends once it goes on, and that it is silent from then on.
    async fn end_of_first(
        &self,
        first: &Running,
        pausing: &Pausing<Arc<Cloud>>,
    ) -> Result<Met, String> {
        let error = tokio::select! {
            error = first.proxy.stopped() => error,
            () = self.world.sleep(4.0 * EPOCHS) => {
                return Err("a proxy that was overtaken goes on".into());
            }
        };
        let calls = pausing.calls();
        self.world.sleep(EPOCHS).await;
        if pausing.calls() != calls {
            return Err(format!("{} calls after its error", pausing.calls() - calls));
        }
        match error {
            Stopped(fogbank_oram::Error::Fenced) => Ok(Met::Fenced),
            Stopped(fogbank_oram::Error::CloudLied(_)) => Ok(Met::Refused),
            error => Err(format!("a proxy that was overtaken ended with: {error}")),
        }
    }

    /// The store can be opened by whoever came last, and is right.
    async fn ends_well(&self, world: &World) -> Result<(), String> {
        let third = world.open(world.cloud.clone(), 3).await.map_err(words)?;
        self.ledger.check(&third.proxy).await?;
        third.close().await.map_err(words)
    }
}

fn words(error: SceneError) -> String {
    error.to_string()
}
