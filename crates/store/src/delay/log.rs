//! A query log at the far end of a link: entries and results are pushed down it in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Nanos;
use tokio::sync::mpsc;

use super::Way;
use crate::{LOG_EVENTS_AHEAD, Log, LogEntry, LogEvent, LogEvents, Result};

/// See [`crate::Delay::far_log`].
pub struct FarLog {
    log: Arc<dyn Log>,
    way: Way,
    hears: Arc<dyn Fn(&LogEvent) + Send + Sync>,
}

/// Events that are on the link at once, at most: what a log may have told and nobody taken.
const ON_THE_WAY: usize = 16 * LOG_EVENTS_AHEAD;

impl FarLog {
    pub(super) fn new(log: Arc<dyn Log>, way: Way) -> Self {
        Self { log, way, hears: Arc::new(|_| ()) }
    }

    /// The same, where `hears` is told of each event that has come down the link, before whoever
    /// follows is.
    pub fn heard_by(self, hears: impl Fn(&LogEvent) + Send + Sync + 'static) -> Self {
        Self { hears: Arc::new(hears), ..self }
    }

    async fn back<T>(&self, done: T, way_back: Nanos) -> T {
        self.way.clock.come_near(self.way.arrive(0) + way_back).await;
        done
    }
}

/// Pushes events down the way, as they come to it, until nobody listens.
async fn push(
    way: Way,
    mut events: LogEvents,
    hears: Arc<dyn Fn(&LogEvent) + Send + Sync>,
    tells: mpsc::Sender<Result<LogEvent>>,
) {
    let mut under_way: VecDeque<(Nanos, Result<LogEvent>)> = VecDeque::new();
    let mut first_comes = way.clock.come_near(0);
    let mut is_over = false;
    loop {
        let (first, now) = (under_way.front().map(|(at, _)| *at), way.clock.now());
        let is_here = first.is_some_and(|at| at <= now);
        if is_over && first.is_none() {
            return;
        }
        tokio::select! {
            biased;
            taken = tells.reserve(), if is_here => {
                let (Ok(taken), Some((_, event))) = (taken, under_way.pop_front()) else { return };
                event.iter().for_each(|event| hears(event));
                taken.send(event);
            }
            () = &mut first_comes, if first.is_some() && !is_here => {}
            event = events.recv(), if under_way.len() < ON_THE_WAY && !is_over => {
                is_over = event.is_none();
                under_way.extend(event.map(|event| (way.pushed(bytes_of(&event)), event)));
            }
            () = tells.closed() => return,
        }
        let next = under_way.front().map(|(at, _)| *at);
        if let Some(at) = next.filter(|at| next != first || *at <= way.clock.now()) {
            first_comes = way.clock.come_near(at);
        }
    }
}

fn bytes_of(event: &Result<LogEvent>) -> u64 {
    match event {
        Ok(LogEvent::Entry(_, bytes) | LogEvent::Result(_, bytes)) => bytes.len() as u64,
        Err(_) => 0,
    }
}

#[async_trait]
impl Log for FarLog {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        let way_back = self.way.go(entry.bytes.len() as u64, true).await;
        let appended = self.log.append(entry).await;
        self.back(appended, way_back).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        let way_back = self.way.go(result.len() as u64, true).await;
        let published = self.log.publish(place, result).await;
        self.back(published, way_back).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        self.way.go(0, false).await;
        let events = self.log.follow(from).await?;
        let (tells, told) = mpsc::channel(LOG_EVENTS_AHEAD);
        tokio::spawn(push(self.way.clone(), events, self.hears.clone(), tells));
        Ok(told)
    }

    async fn forget(&self, before: u64) -> Result<()> {
        let way_back = self.way.go(0, true).await;
        let forgotten = self.log.forget(before).await;
        self.back(forgotten, way_back).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fogbank_env::{Clock, Purpose, Randomness, SystemClock};

    use super::*;
    use crate::{BlobLog, Delay, Link, MemoryStore, log_conformance};

    fn far(link: Link, log: BlobLog, clock: &Arc<dyn Clock>) -> FarLog {
        let randomness = Randomness::repeatable(1).stream(Purpose::Workload);
        let delay = Delay::new(MemoryStore::new(), clock.clone(), link, randomness);
        delay.far_log(Arc::new(log))
    }

    #[tokio::test(start_paused = true)]
    async fn conforms() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(10), ..Link::instant() };
        let store = Arc::new(MemoryStore::new());
        let open = async || {
            far(link, BlobLog::open(store.clone(), clock.clone(), 1 << 26).await.unwrap(), &clock)
        };
        log_conformance::run(open).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_heard_half_a_round_trip_after_it_came_there() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (round_trip, rate) = (Duration::from_millis(100), Some(1_000_000));
        let link = Link { round_trip, down_bytes_per_s: rate, ..Link::instant() };
        let log = BlobLog::open(Arc::new(MemoryStore::new()), clock.clone(), 1 << 20);
        let far = far(link, log.await.unwrap(), &clock);
        let mut events = far.follow(0).await.unwrap();
        let begun = clock.now();
        let bytes = vec![0; 100_000].into();
        let entry = LogEntry { session: 1, turn: 1, bytes };
        let (appended, _) = tokio::join!(far.append(entry), async {
            events.recv().await.unwrap().unwrap();
            // Half there, half back, and a tenth of a second on the way down.
            let took = (clock.now() - begun) / 1_000_000;
            assert!((200..205).contains(&took), "{took}");
        });
        appended.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_travels_all_the_same() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(100), ..Link::instant() };
        let log = BlobLog::open(Arc::new(MemoryStore::new()), clock.clone(), 1 << 20);
        let log = Arc::new(log.await.unwrap());
        let delay = Delay::new(
            MemoryStore::new(),
            clock.clone(),
            link,
            Randomness::repeatable(1).stream(Purpose::Workload),
        );
        let mut events = delay.far_log(log.clone()).follow(0).await.unwrap();
        let count = 4 * LOG_EVENTS_AHEAD as u64;
        for turn in 1..=count {
            log.append(LogEntry { session: 1, turn, bytes: Bytes::new() }).await.unwrap();
        }
        clock.sleep_until(clock.now() + 60_000_000).await;
        let begun = clock.now();
        for place in 0..count {
            assert_eq!(events.recv().await.unwrap().unwrap(), LogEvent::Entry(place, Bytes::new()));
        }
        assert!(clock.now() - begun < 1_000_000);
    }
}
