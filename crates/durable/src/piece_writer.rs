//! Puts the pieces of a container, a few of them under way at once.
//!
//! 1. A piece is filled, sealed and put, in a task of its own if several may be under way. The next
//!    one is begun when that one has left and fewer than [`Piecing::at_once`] are under way. Once
//!    one has failed nothing more leaves.
//! 2. If nobody knows what became of one, nothing more is begun until the others have ended; then
//!    those in doubt are looked for, lowest number first.
//! 3. The container is durable when every piece is.
//!
//! What the cloud sees: pieces in the order of their numbers. On a grid each has a point of its own
//! ([`Store::all_left`]): it has to be made within the same room as if it waited for the one
//! before, so that neither the moment of departure nor how many leave together tells how long
//! making them took.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::compute;
use fogbank_seal::{Digest, IncarnationKeys, digest};
use fogbank_store::{PutCondition, PutOutcome, Store};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::container::ContainerName;
use crate::put::{Doubt, Ended, Put, ended, find_out};
use crate::{Error, Piecing, Result};

/// The put of a piece, and how it ended.
struct Sent {
    piece: u32,
    sealed: Bytes,
    outcome: fogbank_store::Result<PutOutcome>,
}

/// Takes a container's stream and puts it in pieces.
pub(crate) struct PieceWriter<'a> {
    store: Arc<dyn Store>,
    keys: &'a IncarnationKeys,
    name: ContainerName,
    pieces: Piecing,
    buffer: Vec<u8>,
    /// The digest of each sealed piece.
    tags: Vec<Digest>,
    /// Tasks of their own: what a put does beyond leaving (a second try, a part of a part) is not
    /// to wait until the next piece is made.
    under_way: JoinSet<Sent>,
    doubtful: BTreeMap<u32, (Bytes, Doubt)>,
}

impl<'a> PieceWriter<'a> {
    pub(crate) fn new(
        store: Arc<dyn Store>,
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
            under_way: JoinSet::new(),
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
    pub(crate) async fn finish(&mut self) -> Result<ContainerName> {
        if !self.buffer.is_empty() {
            self.put().await?;
        }
        self.end_all().await?;
        let (pieces, digest) = (self.tags.len() as u32, digest(&[self.tags.as_flattened()]));
        Ok(ContainerName { pieces, digest, ..self.name })
    }

    /// Gives up what is under way: after this nothing more leaves.
    pub(crate) async fn stop(&mut self) {
        self.under_way.shutdown().await;
    }

    async fn put_if_full(&mut self) -> Result<()> {
        if self.buffer.len() < self.pieces.bytes {
            return Ok(());
        }
        self.put().await?;
        while self.under_way.len() >= self.pieces.at_once.max(1)
            && let Some(sent) = self.under_way.join_next().await
        {
            self.note(of_task(sent)?)?;
        }
        if self.doubtful.is_empty() { Ok(()) } else { self.end_all().await }
    }

    /// Seals what there is and puts it; returns when that has left or ended.
    async fn put(&mut self) -> Result<()> {
        let put = self.sealed_put();
        while let Some(sent) = self.under_way.try_join_next() {
            self.note(of_task(sent)?)?;
        }
        if !self.doubtful.is_empty() {
            self.end_all().await?;
        }
        if self.pieces.at_once <= 1 {
            // Whoever puts one after the other does nothing else meanwhile.
            return self.note(put.await);
        }
        let (tell, mut left) = oneshot::channel();
        let store = self.store.clone();
        self.under_way.spawn(async move {
            let mut put = pin!(put);
            tokio::select! { biased;
                sent = put.as_mut() => return sent,
                () = store.all_left() => {}
            }
            let _ = tell.send(()); // nobody waits for it once another has failed
            put.await
        });
        loop {
            tokio::select! { biased;
                Some(sent) = self.under_way.join_next() => self.note(of_task(sent)?)?,
                _ = &mut left => return Ok(()),
            }
        }
    }

    fn sealed_put(&mut self) -> impl Future<Output = Sent> + Send + use<> {
        let piece = self.tags.len() as u32;
        let name = self.name.piece(piece);
        let plaintext = std::mem::take(&mut self.buffer);
        let place = self.name.place(piece);
        let seal = || Bytes::from(self.keys.blobs().seal(place, name.as_bytes(), plaintext));
        let sealed = compute(seal);
        self.tags.push(digest(&[&sealed]));
        let store = self.store.clone();
        async move {
            let outcome = store.blob_put(&name, sealed.clone(), PutCondition::Always).await;
            Sent { piece, sealed, outcome }
        }
    }

    fn note(&mut self, sent: Sent) -> Result<()> {
        if let Ended::Doubtful(doubt) = ended(sent.outcome)? {
            self.doubtful.insert(sent.piece, (sent.sealed, doubt));
        }
        Ok(())
    }

    /// Waits for every end, and looks for what is in doubt.
    async fn end_all(&mut self) -> Result<()> {
        while let Some(sent) = self.under_way.join_next().await {
            self.note(of_task(sent)?)?;
        }
        for (piece, (sealed, doubt)) in std::mem::take(&mut self.doubtful) {
            let name = self.name.piece(piece);
            let put = find_out(&*self.store, &name, sealed, PutCondition::Always, doubt).await?;
            // Nobody else puts pieces of this opening, and no condition was made.
            let lied = self.name.suspicion(piece);
            let Put::Ours(_) = put else { return Err(Error::CloudLied(lied)) };
        }
        Ok(())
    }
}

fn of_task(ended: std::result::Result<Sent, tokio::task::JoinError>) -> Result<Sent> {
    ended.map_err(|e| Error::Bug(format!("the put of a piece has ended: {e}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fogbank_env::{Clock, Nanos, Purpose, Randomness, SystemClock};
    use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
    use fogbank_store::{
        Call, Delay, Fault, Faulty, Link, MemoryStore, OrderedGridStore, Reply, Retry,
        RetrySchedule, StoreError, store_by_calls,
    };

    use fogbank_env::Mutex;

    use super::*;
    use crate::Suspicion;
    use crate::container::Kind;

    const PIECES: Piecing = Piecing { bytes: 10, at_once: 3 };

    /// When requests leave for pieces whose making takes so long, over a link of 20 ms. The store
    /// fails those of these numbers, and each is tried again 9 ms later.
    async fn departures(quantum_ms: u64, fails: &[u64], work_ms: [u64; 7]) -> Vec<Nanos> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let link = Link { round_trip: Duration::from_millis(20), ..Link::instant() };
        let stream = Randomness::repeatable(1).stream(Purpose::Workload);
        let far = Faulty::new(Delay::new(MemoryStore::new(), clock.clone(), link, stream));
        let left = Arc::new(Mutex::new(Vec::new()));
        let (note, at, fails) = (left.clone(), clock.clone(), fails.to_vec());
        far.on_call(move |_, number| {
            note.lock().push(at.now() / 1_000_000);
            fails.contains(&number).then_some(Fault::Before)
        });
        let schedule = RetrySchedule { waits: vec![Duration::from_millis(9)] };
        let far = Retry::new(far, clock.clone(), schedule);
        let store =
            Arc::new(OrderedGridStore::new(far, clock.clone(), Duration::from_millis(quantum_ms)));
        let (keys, name) = (keys(), ContainerName::none(Kind::Delta));
        let mut writer = PieceWriter::new(store, keys.current().1, name, PIECES);
        for work in work_ms {
            clock.sleep_until(clock.now() + work * 1_000_000).await;
            writer.append(&[1; 10]).await.unwrap();
        }
        assert_eq!(writer.finish().await.unwrap().pieces, 7);
        std::mem::take(&mut left.lock())
    }

    fn keys() -> KeyRing {
        let master = MasterKey::from_bytes(&mut [7; 32]);
        KeyRing::derive(&master, StoreId([1; 16]), &[Salt([2; 16])]).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn how_long_making_pieces_takes_is_not_seen() {
        let (quick, slow) = ([1, 0, 0, 0, 0, 0, 0], [3, 4, 1, 2, 4, 3, 4]);
        // One a point until three are under way; then each when one has ended.
        assert_eq!(departures(8, &[], quick).await, [8, 16, 24, 32, 40, 48, 56]);
        assert_eq!(departures(8, &[], slow).await, departures(8, &[], quick).await);
        // Nor by when a put is tried again, which waits for no point.
        for fails in 1..8 {
            let quick = departures(8, &[fails], quick).await;
            assert_eq!(departures(8, &[fails], slow).await, quick, "{fails}");
            assert_eq!(quick.len(), 8);
        }
        // The canary: without points the same work is plain to see.
        assert_eq!(departures(0, &[], [0; 7]).await, [0, 0, 0, 20, 20, 20, 40]);
        assert_ne!(departures(0, &[], slow).await, departures(0, &[], [0; 7]).await);
    }

    /// The same of whoever makes pieces without ever letting go of its thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_put_goes_on_while_the_next_piece_is_made() {
        let far = Faulty::new(MemoryStore::new());
        let (tell, told) = std::sync::mpsc::channel();
        far.on_call(move |_, number| {
            tell.send(number).unwrap();
            (number == 1).then_some(Fault::Before)
        });
        let schedule = RetrySchedule { waits: vec![Duration::from_millis(20)] };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Arc::new(Retry::new(far, clock, schedule));
        let (keys, name) = (keys(), ContainerName::none(Kind::Delta));
        // On a worker, as a proxy's driver is.
        let made = tokio::spawn(async move {
            let mut writer = PieceWriter::new(store, keys.current().1, name, PIECES);
            writer.append(&[1; 10]).await.unwrap();
            let calls = [0; 2].map(|_| told.recv_timeout(Duration::from_secs(20)));
            writer.finish().await.unwrap();
            calls
        });
        assert_eq!(made.await.unwrap(), [Ok(1), Ok(2)], "the second try waited for the maker");
    }

    /// Answers for one piece in place of the store, which does not get it.
    struct Instead<S> {
        inner: S,
        of: &'static str,
        answer: fn() -> fogbank_store::Result<Reply>,
    }

    impl<S: Store> Instead<S> {
        async fn call(&self, call: Call<'_>) -> fogbank_store::Result<Reply> {
            match call {
                Call::BlobPut(name, ..) if name.ends_with(self.of) => (self.answer)(),
                call => call.perform(&self.inner).await,
            }
        }
    }

    store_by_calls!(Instead);

    /// The first piece is refused at 18 ms, which is handed over at 20.
    #[tokio::test(start_paused = true)]
    async fn nothing_leaves_once_a_piece_has_failed() {
        // The second is made: in time to leave first; for a point that is after the failure; after
        // the failure.
        for (work_ms, departures) in [(1, &[8, 16][..]), (5, &[8]), (9, &[8])] {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let link = Link { round_trip: Duration::from_millis(10), ..Link::instant() };
            let stream = Randomness::repeatable(1).stream(Purpose::Workload);
            let answer = || Err(StoreError::Refused("no room".into()));
            let far = Instead { inner: MemoryStore::new(), of: "000000", answer };
            let far = Faulty::new(Delay::new(far, clock.clone(), link, stream));
            let left = Arc::new(Mutex::new(Vec::new()));
            let (note, at) = (left.clone(), clock.clone());
            far.on_call(move |_, _| {
                note.lock().push(at.now() / 1_000_000);
                None
            });
            let store =
                Arc::new(OrderedGridStore::new(far, clock.clone(), Duration::from_millis(8)));
            let (keys, name) = (keys(), ContainerName::none(Kind::Delta));
            let mut writer = PieceWriter::new(store, keys.current().1, name, PIECES);
            clock.sleep_until(1_000_000).await;
            writer.append(&[1; 10]).await.unwrap();
            clock.sleep_until(clock.now() + work_ms * 1_000_000).await;
            let written = match writer.append(&[1; 20]).await {
                Ok(()) => writer.finish().await.map(drop),
                Err(error) => Err(error),
            };
            assert!(matches!(written, Err(Error::Refused(_))), "{work_ms}: {written:?}");
            writer.stop().await;
            clock.sleep_until(clock.now() + 100_000_000).await;
            assert_eq!(*left.lock(), departures, "{work_ms}");
        }
    }

    #[tokio::test]
    async fn a_piece_that_is_not_there_is_not_durable() {
        let answer = || Ok(Reply::Put(PutOutcome::ConditionFailed));
        let far = Arc::new(Instead { inner: MemoryStore::new(), of: "000002", answer });
        let (keys, name) = (keys(), ContainerName::none(Kind::Delta));
        let mut writer = PieceWriter::new(far, keys.current().1, name, PIECES);
        let written = match writer.append(&[1; 60]).await {
            Ok(()) => writer.finish().await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(written, Err(Error::CloudLied(Suspicion::Piece(_)))), "{written:?}");
    }
}
