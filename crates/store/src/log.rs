//! The query log of a site: where clients that share a key, and no proxy, meet.
//!
//! 1. *Append*: an entry gets the next place. A session's entries stand in the order of its turns,
//!    however late or often they come.
//! 2. *Publish*: what was found for a place is put beside its entry, by whoever is first.
//! 3. *Follow*: whoever listens is told of both, from a place of his choice on.
//! 4. *Forget*: what is old goes; the last turn of every session stays for good.
//!
//! The cloud sees who appends when, and who listens. What an entry or a result says is sealed.

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{Result, StoreError};

/// An entry that is to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Whose it is.
    pub session: u32,
    /// 1, 2, .. within the session.
    pub turn: u64,
    /// What is kept of it, at most [`LOG_BYTES_MAX`].
    pub bytes: Bytes,
}

/// What a listener is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    /// The entry of a place. They come in the order of places, without a gap.
    Entry(u64, Bytes),
    /// What was published of a place, once its entry has come.
    Result(u64, Bytes),
}

/// Bytes of an entry or a result, at most.
pub const LOG_BYTES_MAX: usize = 1 << 20;

/// What was told and not taken yet, at most; the log waits then.
pub const LOG_EVENTS_AHEAD: usize = 64;

/// What comes of [`Log::follow`]. It ends with an error that says whose fault it is.
pub type LogEvents = mpsc::Receiver<Result<LogEvent>>;

/// Whether an entry or a result may have these bytes.
///
/// # Errors
/// [`StoreError::Caller`] if they are too many.
pub fn check_log_bytes(bytes: &Bytes) -> Result<()> {
    if bytes.len() <= LOG_BYTES_MAX {
        return Ok(());
    }
    let why = format!("{} bytes for a log, which takes {LOG_BYTES_MAX}", bytes.len());
    Err(StoreError::Caller(why))
}

/// See the module.
#[async_trait]
pub trait Log: Send + Sync {
    /// Appends an entry and returns its place; it is durable then. An entry whose turn is not above
    /// the session's last changes nothing: its place is that of the first one of this turn, or
    /// `None` if that was forgotten. One that comes before its predecessor waits for it.
    ///
    /// # Errors
    /// [`StoreError::Absent`] if the predecessor does not come, or the cloud is away: the same
    /// bytes again are sound. [`StoreError::Caller`] for an entry that is too large;
    /// [`StoreError::Refused`] if the log is full until something is forgotten.
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>>;

    /// Puts the result of a place if there is none; nothing if it was forgotten. Durable on return.
    ///
    /// # Errors
    /// As for an entry; [`StoreError::Caller`] for a place that the log does not have.
    async fn publish(&self, place: u64, result: Bytes) -> Result<()>;

    /// All entries and results of places from `from` on, and then what comes, until the receiver is
    /// dropped.
    ///
    /// # Errors
    /// [`StoreError::Absent`] if the cloud is away; [`StoreError::Refused`] if places from `from`
    /// on were forgotten; [`StoreError::Misbehaved`] if the log ends before `from`, where one
    /// process alone appends.
    async fn follow(&self, from: u64) -> Result<LogEvents>;

    /// Entries and results of places below `before` are no longer wanted. Fine if they are gone.
    ///
    /// # Errors
    /// [`StoreError::Absent`] if the cloud is away.
    async fn forget(&self, before: u64) -> Result<()>;
}
