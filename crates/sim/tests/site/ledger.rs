//! A ledger of nonces: whatever clients seal and send, no session seals two things by one tick.
//!
//! A session is known by the salt that its process has drawn, so two to whom a liar gives one
//! number are two. What is sent twice has to be the same bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_seal::{Digest, Sealer, TAG_BYTES, TICK_BITS, digest};
use fogbank_store::{Call, Log, LogEntry, LogEvents, Reply, Result, Store, store_by_calls};

use crate::touches::Touches;
use crate::world::VALUE_BYTES;

type Salt = [u8; 32];

/// What was sealed, by session and tick.
#[derive(Default)]
pub struct Ledger(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    sealed: BTreeMap<(Salt, u64), Digest>,
    twice: Vec<String>,
}

const CELL_BYTES: usize = 4 + VALUE_BYTES + TAG_BYTES;
const TURN_BYTES: usize = 8;

impl Ledger {
    /// How many seals there were.
    ///
    /// # Errors
    /// What was sealed by a nonce that had been used.
    pub fn count(&self) -> std::result::Result<usize, Vec<String>> {
        let Entries { sealed, twice } = &*self.0.lock();
        if twice.is_empty() { Ok(sealed.len()) } else { Err(twice.clone()) }
    }

    fn enter(&self, salt: &Salt, what: &str, tick: u64, bytes: &[u8]) {
        let Entries { sealed, twice } = &mut *self.0.lock();
        let found = digest(&[bytes]);
        if *sealed.entry((*salt, tick)).or_insert(found) != found {
            twice.push(format!("{what}, by tick {tick}"));
        }
    }
}

/// The page of one client.
pub struct Page {
    ledger: Arc<Ledger>,
    salt: Mutex<Salt>,
}

impl Page {
    /// A new one.
    pub fn of(ledger: &Arc<Ledger>) -> Arc<Self> {
        Arc::new(Self { ledger: ledger.clone(), salt: Mutex::new([0; 32]) })
    }

    /// Something that begins with who sealed it.
    fn enter(&self, what: &str, sealed: &[u8]) {
        let tick = Sealer::of(sealed).unwrap().tick;
        self.ledger.enter(&self.salt.lock(), what, tick, sealed);
    }
}

/// A way to the store on which all that is sealed is noted, and all that is touched.
pub struct Noted<S> {
    pub inner: S,
    pub page: Arc<Page>,
    pub touches: Arc<Touches>,
}

impl<S: Store> Noted<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        match &call {
            Call::BlobPut(name, bytes, _) if name.starts_with("session/") => {
                let (salt, sealed) = bytes.split_first_chunk().unwrap();
                *self.page.salt.lock() = *salt;
                self.page.enter(name, sealed);
            }
            Call::BlobPut(name, bytes, _) => self.page.enter(name, bytes),
            Call::WriteChunks(writes) => {
                for write in writes {
                    let first = write.chunk.version & ((1 << TICK_BITS) - 1);
                    let cells = write.data.chunks_exact(CELL_BYTES);
                    let written = cells.filter(|cell| cell.iter().any(|byte| *byte != 0));
                    for (tick, cell) in (first..).zip(written) {
                        let what = format!("{:?}", write.chunk);
                        self.page.ledger.enter(&self.page.salt.lock(), &what, tick, cell);
                    }
                }
            }
            Call::ReadCells(reads) => self.touches.enter(reads),
            _ => {}
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Noted);

/// The same for the log.
pub struct NotedLog {
    pub log: Arc<dyn Log>,
    pub page: Arc<Page>,
}

#[async_trait]
impl Log for NotedLog {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        self.page.enter("an entry", &entry.bytes[TURN_BYTES..]);
        self.log.append(entry).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        self.page.enter("a result", &result);
        self.log.publish(place, result).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        self.log.follow(from).await
    }

    async fn forget(&self, before: u64) -> Result<()> {
        self.log.forget(before).await
    }
}
