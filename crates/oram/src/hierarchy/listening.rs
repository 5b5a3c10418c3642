//! Listening to the log: what comes is opened and told, and a stream that ends is begun again. It
//! begins with what was told before, which has to be the same.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fogbank_durable::shared::Site;
use fogbank_env::Nanos;
use fogbank_seal::{Digest, digest};
use fogbank_store::{DepartureGrid, Log, LogEntry, LogEvent, LogEvents, StoreError};
use futures_util::TryFutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::entry::{Entry, Found};
use super::sealed::{open_entry, open_result};
use crate::{Error, Result, blame};

/// From one try to the next, at first and at most; and for how long it is tried.
const PATIENCE: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_secs(2), Duration::from_secs(60)];

/// What was heard.
#[derive(Debug)]
pub enum Heard {
    /// The entry of a place, and the digest of what is stored.
    Entry(u64, Entry, Digest),
    /// The result of a place.
    Result(Found),
}

/// What one process hears of the log of a site.
pub struct Listener {
    site: Arc<Site>,
    log: Arc<dyn Log>,
    grid: DepartureGrid,
    events: Option<LogEvents>,
    /// The next place whose entry has not been heard.
    next: u64,
    /// Results below it are not wanted any more: where the stream is begun again.
    from: u64,
    /// What was told of the places from there on: a stream that is begun again tells the same.
    told: VecDeque<Digest>,
}

impl Listener {
    /// Listens from the place `from` on.
    pub fn new(site: &Arc<Site>, log: &Arc<dyn Log>, grid: &DepartureGrid, from: u64) -> Self {
        let (site, log, grid) = (site.clone(), log.clone(), grid.clone());
        Self { site, log, grid, events: None, next: from, from, told: VecDeque::new() }
    }

    /// Results of places below `place` are no longer wanted.
    pub fn has_replayed(&mut self, place: u64) {
        let from = self.from.max(place.min(self.next));
        self.told.drain(..(from - self.from) as usize);
        self.from = from;
    }

    /// What is heard next.
    ///
    /// # Errors
    /// [`Error::Absent`] if the cloud is away for long; [`Error::CloudLied`] if it does not open;
    /// [`Error::Refused`] if what comes next was forgotten.
    pub async fn hear(&mut self) -> Result<Heard> {
        let mut patience = Patience::new(&self.grid);
        loop {
            let heard = match &mut self.events {
                Some(events) => match events.recv().await {
                    Some(event) => event,
                    None => Err(StoreError::Absent("the log has ended".into())),
                },
                None => match self.log.follow(self.from).await {
                    Ok(events) => {
                        self.events = Some(events);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match heard {
                Ok(event) => {
                    if let Some(heard) = self.opened(event).await? {
                        return Ok(heard);
                    }
                }
                Err(error) => {
                    self.events = None;
                    patience.wait(error).await?;
                }
            }
        }
    }

    async fn opened(&mut self, event: LogEvent) -> Result<Option<Heard>> {
        let block_bytes = self.site.parameters().block_bytes as usize;
        match event {
            LogEvent::Entry(place, stored) if place < self.next => {
                let before = place.checked_sub(self.from).and_then(|at| self.told.get(at as usize));
                match before.is_none_or(|before| *before == digest(&[&stored])) {
                    true => Ok(None),
                    false => Err(crate::lied("the log tells another entry than it has told")),
                }
            }
            LogEvent::Entry(place, stored) => {
                if place != self.next {
                    return Err(crate::lied("the log has a gap"));
                }
                self.next += 1;
                let entry = open_entry(&self.site, &stored, block_bytes).await?;
                let stored = digest(&[&stored]);
                self.told.push_back(stored);
                Ok(Some(Heard::Entry(place, entry, stored)))
            }
            LogEvent::Result(place, _) if place < self.from => Ok(None),
            LogEvent::Result(place, stored) => {
                if place >= self.next {
                    return Err(crate::lied("a result came before its entry"));
                }
                let found = open_result(&self.site, place, &stored, block_bytes).await?;
                Ok(Some(Heard::Result(found)))
            }
        }
    }
}

/// Appends an entry, the same bytes again until the cloud answers.
///
/// # Errors
/// Whatever is not the cloud being away.
pub async fn append(
    log: Arc<dyn Log>,
    grid: DepartureGrid,
    entry: LogEntry,
) -> Result<Option<u64>> {
    patiently(&grid, || log.append(entry.clone())).await
}

/// Entries that are on their way to the log at once: fewer than the way there has room for, so the
/// lowest turn that is missing is always among them.
const APPENDED_AT_ONCE: usize = 8;

/// Appends what comes, in the order of turns, some at once: an entry waits at the server for those
/// before it. Tells each turn and its place.
pub async fn append_all(
    log: Arc<dyn Log>,
    grid: DepartureGrid,
    mut entries: mpsc::UnboundedReceiver<LogEntry>,
    tell: impl Fn(Result<(u64, Option<u64>)>),
) {
    let mut calls = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(place) = calls.next() => tell(place),
            Some(entry) = entries.recv(), if calls.len() < APPENDED_AT_ONCE => {
                let (turn, log, grid) = (entry.turn, log.clone(), grid.clone());
                calls.push(append(log, grid, entry).map_ok(move |place| (turn, place)));
            }
            else => return,
        }
    }
}

/// Says that places below `before` are no longer wanted, until the cloud answers.
///
/// # Errors
/// Whatever is not the cloud being away.
pub async fn forget(log: &dyn Log, grid: &DepartureGrid, before: u64) -> Result<()> {
    patiently(grid, || log.forget(before)).await
}

/// Publishes what is sealed of a place whose entry was heard, until the cloud answers.
///
/// # Errors
/// Whatever is not the cloud being away. [`Error::CloudLied`] if the log does not have the place.
pub async fn publish(
    log: Arc<dyn Log>,
    grid: DepartureGrid,
    place: u64,
    result: bytes::Bytes,
) -> Result<()> {
    let goes_back = |error| match error {
        StoreError::Caller(why) => {
            let why = format!("the log has gone back behind what it has told: {why}");
            StoreError::Misbehaved(why)
        }
        error => error,
    };
    patiently(&grid, || log.publish(place, result.clone()).map_err(goes_back)).await
}

async fn patiently<T, F>(grid: &DepartureGrid, ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = fogbank_store::Result<T>>,
{
    let mut patience = Patience::new(grid);
    loop {
        match ask().await {
            Err(error) => patience.wait(error).await?,
            Ok(answer) => return Ok(answer),
        }
    }
}

/// With a cloud that is away.
struct Patience {
    grid: DepartureGrid,
    wait: Nanos,
    /// Since the first failure.
    until: Option<Nanos>,
}

impl Patience {
    fn new(grid: &DepartureGrid) -> Self {
        let wait = PATIENCE[0].as_nanos() as Nanos;
        Self { grid: grid.clone(), wait, until: None }
    }

    /// Waits for the next try after this one has failed.
    ///
    /// # Errors
    /// The error, if it is of another kind or this has gone on for long.
    async fn wait(&mut self, error: StoreError) -> Result<()> {
        let is_passing = matches!(error, StoreError::Absent(_));
        let patience = PATIENCE[2].as_nanos() as Nanos;
        let until = *self.until.get_or_insert(self.grid.now() + patience);
        if !is_passing || self.grid.now() >= until {
            return Err(blame(error));
        }
        self.grid.come(self.grid.now() + self.wait).await;
        self.wait = (2 * self.wait).min(PATIENCE[1].as_nanos() as Nanos);
        Ok(())
    }
}

/// What the log does not have any more.
pub fn forgotten() -> Error {
    Error::Refused(
        "this client was away for longer than the site keeps its log, and what became of its last \
         queries is not known: start it again"
            .into(),
    )
}

/// The log is said to have forgotten what it may not, as far as anybody has sealed.
pub fn not_so_far() -> Error {
    crate::lied("the log is said to be forgotten, and no superblock is so far")
}
