//! Counts what passes between a client and the query log, and how far the log has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_store::{FarLog, Log, LogEntry, LogEvent, LogEvents, Result};

use super::phases::Phases;

/// What has passed so far, of all clients together.
#[derive(Debug, Default)]
pub struct LogTraffic {
    /// Bytes of entries and results that were sent.
    pub up: AtomicU64,
    /// And that came.
    pub down: AtomicU64,
    /// Entries of the log, so far as anybody has heard.
    pub length: AtomicU64,
}

impl LogTraffic {
    /// Bytes up and down.
    pub fn bytes(&self) -> [u64; 2] {
        [&self.up, &self.down].map(|part| part.load(Ordering::Relaxed))
    }

    /// Entries of the log.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    fn hear(&self, event: &LogEvent) {
        let (LogEvent::Entry(_, bytes) | LogEvent::Result(_, bytes)) = event;
        self.down.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let LogEvent::Entry(place, _) = event {
            self.length.fetch_max(place + 1, Ordering::Relaxed);
        }
    }
}

/// A log that counts.
pub struct CountedLog {
    log: FarLog,
    traffic: Arc<LogTraffic>,
    phases: Arc<Phases>,
}

impl CountedLog {
    /// Counts what passes to `log` in `traffic`, and notes in `phases` when.
    pub fn new(log: FarLog, traffic: Arc<LogTraffic>, phases: Arc<Phases>) -> Self {
        let (heard, times) = (traffic.clone(), phases.clone());
        let log = log.heard_by(move |event| {
            heard.hear(event);
            if let LogEvent::Entry(_, entry) = event {
                times.hears(entry);
            }
        });
        Self { log, traffic, phases }
    }

    fn sends(&self, bytes: &Bytes) {
        self.traffic.up.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

#[async_trait]
impl Log for CountedLog {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        self.sends(&entry.bytes);
        self.phases.appends(&entry.bytes);
        self.log.append(entry).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        self.sends(&result);
        self.phases.publishes();
        self.log.publish(place, result).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        self.log.follow(from).await
    }

    async fn forget(&self, before: u64) -> Result<()> {
        self.log.forget(before).await
    }
}
