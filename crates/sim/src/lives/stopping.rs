//! A store whose proxy dies at one of its calls, and what the cloud saw until then.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fogbank_env::Mutex;
use fogbank_store::{
    Call, ChunkName, PutOutcome, Reply, Result, Store, StoreError, store_by_calls,
};

/// Where a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// At which call, from 1.
    pub call: u64,
    /// At what of it.
    pub how: How,
}

/// What of the last call the cloud still sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing.
    Before,
    /// The first half of a batch; of any other call, nothing.
    Within,
    /// All of it, but the reply is lost.
    After,
}

impl How {
    /// All of them.
    pub const ALL: [How; 3] = [How::Before, How::Within, How::After];
}

/// Lets calls through until the one where the life ends; from then on there is no reply to
/// anything.
pub(super) struct Stopping<S> {
    inner: S,
    stop: Option<Stop>,
    calls: AtomicU64,
    dead: AtomicBool,
}

impl<S: Store> Stopping<S> {
    pub fn new(inner: S, stop: Option<Stop>) -> Self {
        Self { inner, stop, calls: AtomicU64::new(0), dead: AtomicBool::new(false) }
    }

    /// Calls made, the last one included.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Ends the life now, if it has not ended.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        if self.dead.load(Ordering::Relaxed) {
            return Err(dead());
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(stop) = self.stop.filter(|stop| number >= stop.call) else {
            return call.perform(&self.inner).await;
        };
        self.kill();
        if number == stop.call {
            match stop.how {
                How::Before => {}
                How::Within => self.half(call).await?,
                How::After => drop(call.perform(&self.inner).await?),
            }
        }
        Err(dead())
    }

    async fn half(&self, call: Call<'_>) -> Result<()> {
        match call {
            Call::WriteChunks(mut writes) => {
                writes.truncate(writes.len() / 2);
                self.inner.write_chunks(writes).await
            }
            Call::DeleteChunks(chunks) => {
                self.inner.delete_chunks(&chunks[..chunks.len() / 2]).await
            }
            Call::BlobDelete(names) => self.inner.blob_delete(&names[..names.len() / 2]).await,
            _ => Ok(()),
        }
    }
}

store_by_calls!(Stopping);

fn dead() -> StoreError {
    StoreError::Absent("this proxy is dead".into())
}

/// A cell, as the cloud knows it.
pub(super) type CellName = (ChunkName, u16);

/// What the cloud saw read, by the moments that matter to a recovery.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// In this life.
    pub all: Vec<CellName>,
    /// Since the last commit record that was put.
    pub since_commit: Vec<CellName>,
    /// Before the first journal record behind the takeover.
    pub repeated: Vec<CellName>,
    journal_puts: u64,
    commit_puts: u64,
}

/// Notes what the cloud sees of one life.
pub(super) struct Watched<S> {
    inner: S,
    seen: Mutex<Seen>,
}

impl<S: Store> Watched<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, seen: Mutex::default() }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        self.note_reads(&call);
        let put = match &call {
            Call::BlobPut(name, ..) => Some((*name).to_owned()),
            _ => None,
        };
        let reply = call.perform(&self.inner).await?;
        if let (Some(name), Reply::Put(PutOutcome::Done(_))) = (put, &reply) {
            self.note_put(&name);
        }
        Ok(reply)
    }

    fn note_reads(&self, call: &Call<'_>) {
        let (Call::ReadCells(reads) | Call::ReadXor(reads, _)) = call else { return };
        let mut seen = self.seen.lock();
        for read in reads.iter() {
            let cells = read.cells.iter().map(|cell| (read.chunk, *cell));
            let cells: Vec<CellName> = cells.collect();
            if seen.journal_puts <= 1 {
                seen.repeated.extend(&cells);
            }
            seen.since_commit.extend(&cells);
            seen.all.extend(cells);
        }
    }

    fn note_put(&self, name: &str) {
        let mut seen = self.seen.lock();
        if name == "commit" {
            seen.commit_puts += 1;
            if seen.commit_puts > 1 {
                seen.since_commit.clear(); // the first of a life claims the store
            }
        }
        seen.journal_puts += u64::from(name.starts_with("journal/"));
    }
}

store_by_calls!(Watched);
