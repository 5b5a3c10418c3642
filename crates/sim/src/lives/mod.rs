//! One store through several lives of its proxy, each but the last cut short at a call to the
//! cloud.
//!
//! Everything runs in one process and in virtual time, from one seed: clients that transfer money,
//! the proxy as it ships, the cloud and the register of the trusted side, which outlast it. A life
//! ends before, within or after any single call: then no call gets through any more. The next one
//! knows nothing but the key, the register and the cloud.
//!
//! After the last life: every acknowledged transfer is there, every transfer is there wholly or not
//! at all, and every life began by reading exactly what the one before had read since its last
//! commit, as far as that got.

mod bank;
mod book;
mod meeting;
mod pausing;
mod stopping;
mod story;
mod tampering;
mod volume;
mod world;

pub use book::Printing;
pub use meeting::{Ground, Meeting, Met, meet};
pub use pausing::Hold;
pub use stopping::{How, Stop};
pub use story::{Count, Story};
pub use tampering::{Broken, Lie, Outcome, Tally};
pub use volume::{End, Object, Volume};

use std::fmt;
use std::sync::Arc;

use fogbank_store::Store;
use fogbank_txn::Proxy;
use tokio::task::JoinSet;

use self::bank::Ledger;
use self::book::Book;
use self::stopping::{CellName, Stopping, Watched};
use self::world::World;
use crate::scene::{Clients, Intensity, Scene, SceneError, Shape, Workload};

/// A story: how long each life but the last is.
#[derive(Debug, Clone)]
pub struct Lives {
    /// All randomness follows from it.
    pub seed: u64,
    /// The public shape.
    pub shape: Shape,
    /// From one full checkpoint to the next.
    pub full_every: u64,
    /// Clients that transfer money, at once.
    pub clients: u32,
    /// What others do meanwhile.
    pub workload: Workload,
    /// And how much of it.
    pub intensity: Intensity,
    /// How many epochs a life goes on that nothing cuts short.
    pub epochs: u32,
    /// Where each life but the last ends.
    pub stops: Vec<Stop>,
}

/// What a story came to.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Transfers that were acknowledged.
    pub acknowledged: usize,
    /// Editions of a book that were acknowledged.
    pub editions: u64,
    /// Calls of each life.
    pub calls: Vec<u64>,
    /// Lives that began in an epoch that the one before had opened.
    pub repeated: usize,
}

impl fmt::Display for Lives {
    /// The line that tells the story again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, full_every, stops, workload, intensity, epochs, .. } = self;
        write!(f, "lives of seed {seed}: {workload:?} {intensity:?}, {epochs} epochs, ")?;
        write!(f, "full_every {full_every}, stops {stops:?}")
    }
}

/// Plays a story.
///
/// # Errors
/// What is not as it has to be, in words, with the line that tells the story again.
pub fn play(lives: &Lives) -> Result<Told, String> {
    play_told(lives, Ledger::default(), None)
}

/// The same with a ledger that knows of a transfer that never was: it has to be missed.
///
/// # Errors
/// As [`play`].
pub fn play_with_a_transfer_that_never_was(lives: &Lives) -> Result<Told, String> {
    let ledger = Ledger::default();
    ledger.acknowledge(ledger.begin());
    play_told(lives, ledger, None)
}

/// The same with a book that is rewritten meanwhile, by programs that take several epochs.
///
/// # Errors
/// As [`play`].
pub fn play_with_a_book(lives: &Lives, printing: Printing) -> Result<Told, String> {
    play_told(lives, Ledger::default(), Some(Book::new(printing)))
}

fn play_told(lives: &Lives, ledger: Ledger, book: Option<Book>) -> Result<Told, String> {
    let papers = Papers { ledger, book };
    in_virtual_time(live_all(lives, papers)).map_err(|what| format!("{what} ({lives})"))
}

fn in_virtual_time<T>(story: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().map_err(|e| e.to_string())?;
    runtime.block_on(story)
}

/// What clients were told, over all lives.
struct Papers {
    ledger: Ledger,
    book: Option<Book>,
}

impl Papers {
    async fn check(&self, proxy: &Proxy) -> Result<(), String> {
        if let Some(book) = &self.book {
            book.check(proxy).await?;
        }
        self.ledger.check(proxy).await
    }
}

async fn live_all(lives: &Lives, papers: Papers) -> Result<Told, String> {
    let world = World::new(lives.seed, lives.shape.clone(), lives.full_every);
    let (mut told, mut before) = (Told::default(), Vec::new());
    for (number, stop) in lives.stops.iter().map(Some).chain([None]).enumerate() {
        let life = Life { lives, world: &world, number: number as u64, stop: stop.copied() };
        let (seen, calls) = life.live(&papers).await?;
        told.calls.push(calls);
        told.repeated += usize::from(!before.is_empty() && !seen.repeated.is_empty());
        before = compare(&before, seen, stop.is_none())?;
    }
    told.acknowledged = papers.ledger.acknowledged();
    told.editions = papers.book.map_or(0, |book| book.acknowledged());
    Ok(told)
}

/// Holds what a life repeated against what the one before had read since its commit; returns what
/// the next one has to repeat.
fn compare(
    before: &[CellName],
    seen: stopping::Seen,
    whole: bool,
) -> Result<Vec<CellName>, String> {
    let repeated = seen.repeated.len().min(before.len());
    if seen.repeated[..repeated] != before[..repeated] {
        return Err("a recovery read other cells than the proxy before".into());
    }
    if whole && repeated < before.len() {
        return Err("a recovery did not read all that the proxy before had read".into());
    }
    // A life that ended while it repeated leaves the rest to the next.
    Ok(if repeated < before.len() { before.to_vec() } else { seen.since_commit })
}

/// One life of the proxy.
struct Life<'a> {
    lives: &'a Lives,
    world: &'a World,
    number: u64,
    stop: Option<Stop>,
}

impl Life<'_> {
    async fn live(&self, papers: &Papers) -> Result<(stopping::Seen, u64), String> {
        let watched = Arc::new(Watched::new(self.world.cloud.clone()));
        let stopping = Arc::new(Stopping::new(watched.clone(), self.stop));
        let lived = self.epochs(stopping.clone(), papers).await;
        stopping.kill(); // what is still on its way of a story cut short does not arrive
        // How a life ended that was to be cut short does not matter: it is dead.
        if let (Err(what), None) = (lived, self.stop) {
            return Err(what);
        }
        Ok((watched.seen(), stopping.calls()))
    }

    async fn epochs(&self, store: Arc<dyn Store>, papers: &Papers) -> Result<(), String> {
        let words = |e: SceneError| e.to_string();
        let running = self.world.open(store, self.number).await.map_err(words)?;
        if self.stop.is_none() {
            papers.check(&running.proxy).await?;
        }
        let mut clients = self.clients(&running.proxy, papers);
        let others = Clients::start(&self.scene(), &running.proxy, &self.world.clock);
        tokio::select! {
            error = running.proxy.stopped() => return Err(error.to_string()),
            () = self.world.sleep(f64::from(self.lives.epochs)) => {}
        }
        if self.stop.is_some() {
            return Ok(()); // it is cut short here all the same: nothing was closed
        }
        drop(others);
        clients.shutdown().await;
        papers.check(&running.proxy).await?;
        running.close().await.map_err(words)
    }

    fn scene(&self) -> Scene {
        let Lives { workload, intensity, seed, shape, .. } = self.lives.clone();
        Scene { intensity, shape, ..Scene::new(workload, seed) }
    }

    fn clients(&self, proxy: &Proxy, papers: &Papers) -> JoinSet<()> {
        let random = self.world.random(self.number);
        let transfers = papers.ledger.clients(proxy, &random).take(self.lives.clients as usize);
        let mut clients: JoinSet<()> = transfers.collect();
        if let Some(book) = papers.book.clone() {
            clients.spawn(book.write(proxy.clone()));
        }
        clients
    }
}

#[cfg(test)]
mod tests {
    use fogbank_store::{ArrayId, ChunkName};

    use super::*;

    #[test]
    fn a_recovery_that_reads_something_else_or_too_little_is_noticed() {
        let cell = |chunk| (ChunkName { array: ArrayId(0), chunk, version: 1 }, 0);
        let seen = |repeated: &[CellName]| {
            let mut seen = stopping::Seen::default();
            (seen.repeated, seen.since_commit) = (repeated.to_vec(), vec![cell(9)]);
            seen
        };
        let before = [cell(1), cell(2)];
        let next = |repeated: &[CellName], whole| compare(&before, seen(repeated), whole);
        assert_eq!(next(&[cell(1), cell(2), cell(3)], true), Ok(vec![cell(9)]));
        assert_eq!(next(&[cell(1)], false), Ok(before.to_vec()));
        assert!(next(&[cell(1)], true).is_err());
        assert!(next(&[cell(2), cell(1)], true).is_err());
    }
}
