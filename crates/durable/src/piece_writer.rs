//! Puts the pieces of a container, a few of them under way at once.
//!
//! 1. A piece is filled, sealed and put. The next one is begun when that one has left, and fewer than [`Piecing::at_once`]
//!    are under way.
//! 2. If nobody knows what became of one, nothing more is begun until the others have ended; then those in
//!    doubt are looked for, lowest number first.
//! 3. The container is durable when every piece is.
//!
//! What the cloud sees: pieces in the order of their numbers. On a grid each has a point of its own
//! ([`Store::all_left`]): it has to be made within the same room as if it waited for the one before, so that
//! neither the moment of departure nor how many leave together tells how long making them took.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};

use bytes::Bytes;
use fogbank_seal::{Digest, IncarnationKeys, digest};
use fogbank_store::{PutCondition, PutOutcome, Store};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::container::ContainerName;
use crate::put::{Doubt, Ended, ended, find_out};
use crate::{Piecing, Result};

/// The put of a piece, and how it ended.
struct Sent {
    piece: u32,
    sealed: Bytes,
    outcome: fogbank_store::Result<PutOutcome>,
}

/// Takes a container's stream and puts it in pieces.
pub(crate) struct PieceWriter<'a> {
    store: &'a dyn Store,
    keys: &'a IncarnationKeys,
    name: ContainerName,
    pieces: Piecing,
    buffer: Vec<u8>,
    /// The digest of each sealed piece.
    tags: Vec<Digest>,
    under_way: FuturesUnordered<Pin<Box<dyn Future<Output = Sent> + Send + 'a>>>,
    doubtful: BTreeMap<u32, (Bytes, Doubt)>,
}

impl<'a> PieceWriter<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        keys: &'a IncarnationKeys,
        name: ContainerName,
        pieces: Piecing,
    ) -> Self {
        Self {
            store,
            keys,
            name,
            pieces,
            buffer: Vec::new(),
            tags: Vec::new(),
            under_way: FuturesUnordered::new(),
            doubtful: BTreeMap::new(),
        }
    }

    pub(crate) async fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (head, tail) =
                bytes.split_at(bytes.len().min(self.pieces.bytes - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            bytes = tail;
            self.put_if_full().await?;
        }
        Ok(())
    }

    pub(crate) async fn append_zeros(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            let step = count.min(self.pieces.bytes - self.buffer.len());
            self.buffer.resize(self.buffer.len() + step, 0);
            count -= step;
            self.put_if_full().await?;
        }
        Ok(())
    }

    /// Waits until all pieces are durable. Returns the container's name.
    pub(crate) async fn finish(mut self) -> Result<ContainerName> {
        if !self.buffer.is_empty() {
            self.put();
        }
        self.end_all().await?;
        let (pieces, digest) = (self.tags.len() as u32, digest(&[self.tags.as_flattened()]));
        Ok(ContainerName { pieces, digest, ..self.name })
    }

    async fn put_if_full(&mut self) -> Result<()> {
        if self.buffer.len() < self.pieces.bytes {
            return Ok(());
        }
        self.put();
        self.wait_for_room().await
    }

    /// Seals what there is; it leaves when it is polled.
    fn put(&mut self) {
        let piece = self.tags.len() as u32;
        let name = self.name.piece(piece);
        let plaintext = std::mem::take(&mut self.buffer);
        let sealed = self.keys.blobs().seal(self.name.place(piece), name.as_bytes(), plaintext);
        let sealed = Bytes::from(sealed);
        self.tags.push(digest(&[&sealed]));
        let store = self.store;
        self.under_way.push(Box::pin(async move {
            let outcome = store.blob_put(&name, sealed.clone(), PutCondition::Always).await;
            Sent { piece, sealed, outcome }
        }));
    }

    /// Waits until the next piece may be begun.
    async fn wait_for_room(&mut self) -> Result<()> {
        if self.pieces.at_once > 1 {
            let mut all_left = pin!(self.store.all_left());
            loop {
                tokio::select! { biased;
                    Some(sent) = self.under_way.next() => note(&mut self.doubtful, sent)?,
                    () = &mut all_left => break,
                }
            }
        }
        while self.under_way.len() >= self.pieces.at_once.max(1)
            && let Some(sent) = self.under_way.next().await
        {
            note(&mut self.doubtful, sent)?;
        }
        if self.doubtful.is_empty() { Ok(()) } else { self.end_all().await }
    }

    /// Waits for every end, and looks for what is in doubt.
    async fn end_all(&mut self) -> Result<()> {
        while let Some(sent) = self.under_way.next().await {
            note(&mut self.doubtful, sent)?;
        }
        for (piece, (sealed, doubt)) in std::mem::take(&mut self.doubtful) {
            let name = self.name.piece(piece);
            find_out(self.store, &name, sealed, PutCondition::Always, doubt).await?;
        }
        Ok(())
    }
}

fn note(doubtful: &mut BTreeMap<u32, (Bytes, Doubt)>, sent: Sent) -> Result<()> {
    if let Ended::Doubtful(doubt) = ended(sent.outcome)? {
        doubtful.insert(sent.piece, (sent.sealed, doubt));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
    use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
    use fogbank_store::{Delay, Faulty, Link, MemoryStore, Paced};

    use super::*;
    use crate::container::Kind;

    /// When pieces leave whose making takes so long, over a link of 20 ms, three under way.
    async fn departures(quantum_ms: u64, work_ms: [u64; 7]) -> Vec<Nanos> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(20), ..Link::instant() };
        let stream = Randomness::repeatable(1).stream(Purpose::Workload);
        let far = Faulty::new(Delay::new(MemoryStore::new(), clock.clone(), link, stream));
        let left = Arc::new(Mutex::new(Vec::new()));
        let (note, at) = (left.clone(), clock.clone());
        far.on_call(move |_, _| {
            note.lock().unwrap().push(at.now() / 1_000_000);
            None
        });
        let store = Paced::new(far, clock.clone(), Duration::from_millis(quantum_ms));
        let master = MasterKey::from_bytes(&mut [7; 32]);
        let keys = KeyRing::derive(&master, StoreId([1; 16]), &[Salt([2; 16])]).unwrap();
        let (_, current) = keys.current();
        let pieces = Piecing { bytes: 10, at_once: 3 };
        let mut writer =
            PieceWriter::new(&store, current, ContainerName::none(Kind::Delta), pieces);
        for work in work_ms {
            clock.sleep_until(clock.now() + work * 1_000_000).await;
            writer.append(&[1; 10]).await.unwrap();
        }
        assert_eq!(writer.finish().await.unwrap().pieces, 7);
        std::mem::take(&mut left.lock().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn how_long_making_pieces_takes_is_not_seen() {
        let quick = departures(8, [1, 0, 0, 0, 0, 0, 0]).await;
        let slow = departures(8, [3, 4, 1, 2, 4, 3, 4]).await;
        // One a point until three are under way; then each when one has ended.
        assert_eq!(quick, [8, 16, 24, 32, 40, 48, 56]);
        assert_eq!(slow, quick);
        // The canary: without points the same work is plain to see.
        assert_ne!(departures(0, [0; 7]).await, departures(0, [3, 4, 1, 2, 4, 3, 4]).await);
        assert_eq!(departures(0, [0; 7]).await, [0, 0, 0, 20, 20, 20, 40]);
    }
}
