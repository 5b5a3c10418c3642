//! One who listens to a log: it takes what it is told at its own pace.

use std::sync::Arc;

use fogbank_env::Mutex;
use tokio::sync::{mpsc, watch};

use super::kept::{Heard, Kept};
use crate::{LOG_EVENTS_AHEAD, LogEvent, LogEvents, Result, StoreError};

/// See [`super::BlobLog::listen`].
pub struct LogListener {
    pub(super) kept: Arc<Mutex<Kept>>,
    pub(super) grown: watch::Receiver<()>,
    pub(super) heard: Heard,
}

impl LogListener {
    /// What comes next; waits for it. Nothing is lost if the wait is broken off.
    ///
    /// # Errors [`StoreError::Absent`] if that was forgotten before it was taken, or the log is no
    /// longer open.
    pub async fn next(&mut self) -> Result<LogEvent> {
        loop {
            // Before the look: what comes after it wakes.
            self.grown.borrow_and_update();
            if let Some(event) = self.ready()? {
                return Ok(event);
            }
            let closed = |_| StoreError::Absent("the log was closed".into());
            self.grown.changed().await.map_err(closed)?;
        }
    }

    /// What comes next, if it is there.
    ///
    /// # Errors
    /// As [`LogListener::next`].
    pub fn ready(&mut self) -> Result<Option<LogEvent>> {
        self.kept.lock().tell(&mut self.heard)
    }

    /// The same as a channel.
    pub(super) fn run(mut self) -> LogEvents {
        let (told, events) = mpsc::channel(LOG_EVENTS_AHEAD);
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    event = self.next() => event,
                    () = told.closed() => return,
                };
                let last = event.is_err();
                if told.send(event).await.is_err() || last {
                    return;
                }
            }
        });
        events
    }
}
