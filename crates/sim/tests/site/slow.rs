//! A log far away: every call and every event takes a time of its own.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos, Stream, SystemClock};
use fogbank_store::{LOG_EVENTS_AHEAD, Log, LogEntry, LogEvents, Result, StoreError};
use rand_core::Rng;
use tokio::sync::{Semaphore, mpsc};

use crate::ways::Ways;

pub struct SlowLog {
    log: Arc<dyn Log>,
    ways: Arc<Ways>,
    clock: SystemClock,
    dice: Mutex<Stream>,
    /// Of a way, at most.
    late: Nanos,
    /// Calls that the way has room for, beside who listens; whoever comes first goes first.
    room: Semaphore,
}

/// Entries would fill it, if those after a missing one came first.
const ROOM: usize = 9;

impl SlowLog {
    pub fn new(log: Arc<dyn Log>, ways: Arc<Ways>, dice: Stream, late: Nanos) -> Self {
        let room = Semaphore::new(ROOM);
        Self { log, ways, clock: SystemClock::new(), dice: Mutex::new(dice), late, room }
    }

    fn some_time(&self) -> Nanos {
        self.dice.lock().next_u64() % self.late
    }

    async fn way(&self) {
        let time = self.some_time();
        self.ways.pass(&self.clock, time).await;
    }

    /// One call in fifteen is done, and its answer is lost.
    fn is_lost(&self) -> bool {
        let is_lost = self.dice.lock().next_u64().is_multiple_of(15);
        if is_lost {
            self.ways.lose();
        }
        is_lost
    }
}

#[async_trait]
impl Log for SlowLog {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        let _room = self.room.acquire().await.map_err(|e| StoreError::Absent(e.to_string()))?;
        self.way().await;
        let appended = self.log.append(entry).await;
        self.way().await;
        if self.is_lost() { Err(StoreError::Absent("a test".into())) } else { appended }
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        let _room = self.room.acquire().await.map_err(|e| StoreError::Absent(e.to_string()))?;
        self.way().await;
        let published = self.log.publish(place, result).await;
        self.way().await;
        if self.is_lost() { Err(StoreError::Absent("a test".into())) } else { published }
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        self.way().await;
        let mut events = self.log.follow(from).await?;
        let (sender, receiver) = mpsc::channel(LOG_EVENTS_AHEAD);
        let (clock, late, ways) = (self.clock.clone(), self.late, self.ways.clone());
        let ends_after = 20 + self.dice.lock().next_u64() % 200;
        let first = self.some_time();
        tokio::spawn(async move {
            for number in 0..ends_after {
                let Some(event) = events.recv().await else { return };
                // In their order, some of them far behind.
                let wait = first.wrapping_mul(number + 1) % late;
                clock.sleep_until(clock.now() + wait / 4).await;
                if sender.send(event).await.is_err() {
                    return;
                }
            }
            ways.lose();
            let _gone = sender.send(Err(StoreError::Absent("a test".into()))).await;
        });
        Ok(receiver)
    }

    async fn forget(&self, before: u64) -> Result<()> {
        self.way().await;
        let forgotten = self.log.forget(before).await;
        if self.is_lost() { Err(StoreError::Absent("a test".into())) } else { forgotten }
    }
}
