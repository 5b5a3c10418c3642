//! Disks under a store: each serves one piece after the other, and goes to where it is first.
//!
//! - A chunk version lies in one piece on one disk, drawn by its name. Cells of it that are asked
//!   for in one message are one piece if what lies between them is read over in less time than a
//!   seek takes.
//! - A blob is a piece on a disk drawn by its name. Deletions cost nothing.
//! - A call is done when its last piece is. Nothing is reordered or kept in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fogbank_env::{Clock, Mutex, Nanos};
use fogbank_store::{ArrayId, ArrayShape, Call, CellReads, ChunkName, PlaceHashing, Reply};
use fogbank_store::{Store, StoreError, store_by_calls};

/// Disks that are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disks {
    /// How many.
    pub count: usize,
    /// To go to a piece.
    pub seek: Duration,
    /// Bytes a second of a piece.
    pub bytes_per_s: u64,
}

impl Disks {
    /// The paper's: seven of 12 ms a seek; what they transfer it does not say.
    pub const SEVEN: Self =
        Self { count: 7, seek: Duration::from_millis(12), bytes_per_s: 100_000_000 };
    /// The paper's two solid state drives, as drives of its year are: it does not say.
    pub const SOLID: Self =
        Self { count: 2, seek: Duration::from_micros(100), bytes_per_s: 250_000_000 };

    /// In words.
    pub fn words(&self) -> String {
        let (seek, mb_s) = (self.seek.as_secs_f64() * 1e3, self.bytes_per_s as f64 / 1e6);
        format!("{} disks of {seek} ms a seek and {mb_s} MB/s", self.count)
    }

    fn takes(&self, bytes: u64) -> Nanos {
        self.seek.as_nanos() as u64 + self.transfers(bytes)
    }

    fn transfers(&self, bytes: u64) -> Nanos {
        (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.max(1))) as u64
    }
}

/// A store on such disks.
pub struct OnDisks<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    disks: Mutex<Option<Disks>>,
    free_at: Mutex<Vec<Nanos>>,
    shapes: Mutex<HashMap<ArrayId, ArrayShape>>,
    seeks: AtomicU64,
}

/// What is in one place of one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Drawn by the name of what it is of.
    drawn: u64,
    bytes: u64,
}

impl<S: Store> OnDisks<S> {
    /// Over `inner`, which takes no time until [`OnDisks::set`].
    pub fn new(inner: S, clock: Arc<dyn Clock>) -> Self {
        let (disks, free_at, shapes) = Default::default();
        Self { inner, clock, disks, free_at, shapes, seeks: 0.into() }
    }

    /// Other disks, or none, for calls from now on.
    pub fn set(&self, disks: Option<Disks>) {
        *self.free_at.lock() = vec![0; disks.map_or(0, |disks| disks.count.max(1))];
        *self.disks.lock() = disks;
    }

    /// Pieces that a disk went to so far.
    pub fn seeks(&self) -> u64 {
        self.seeks.load(Ordering::Relaxed)
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply, StoreError> {
        if let Call::CreateArray(array, shape) = &call {
            self.shapes.lock().insert(*array, *shape);
        }
        let disks = *self.disks.lock();
        if let Some(disks) = disks {
            let pieces = self.pieces(&call, &disks);
            self.seeks.fetch_add(pieces.len() as u64, Ordering::Relaxed);
            let done = self.serve(&pieces, &disks);
            self.clock.come_near(done).await;
        }
        call.perform(&self.inner).await
    }

    /// Every piece waits for its disk; when the last of them is done.
    fn serve(&self, pieces: &[Piece], disks: &Disks) -> Nanos {
        let (now, mut free_at) = (self.clock.now(), self.free_at.lock());
        let mut done = now;
        for piece in pieces {
            let disk = (piece.drawn % free_at.len().max(1) as u64) as usize;
            if let Some(free_at) = free_at.get_mut(disk) {
                *free_at = now.max(*free_at) + disks.takes(piece.bytes);
                done = done.max(*free_at);
            }
        }
        done
    }

    fn pieces(&self, call: &Call<'_>, disks: &Disks) -> Vec<Piece> {
        let piece = |name, bytes: usize| Piece { drawn: name, bytes: bytes as u64 };
        match call {
            Call::ReadCells(reads) => self.pieces_of_cells(reads, disks),
            Call::ReadChunks(chunks) => {
                let shapes = self.shapes.lock();
                let bytes =
                    |name: &ChunkName| shapes.get(&name.array).map_or(0, |s| s.chunk_bytes());
                chunks.iter().map(|name| piece(drawn(name), bytes(name))).collect()
            }
            Call::WriteChunks(writes) => {
                writes.iter().map(|write| piece(drawn(&write.chunk), write.data.len())).collect()
            }
            Call::BlobPut(name, data, _) => vec![piece(drawn(name), data.len())],
            Call::BlobGet(name) => vec![piece(drawn(name), 0)],
            _ => Vec::new(),
        }
    }

    fn pieces_of_cells(&self, reads: &CellReads, disks: &Disks) -> Vec<Piece> {
        let (mut pieces, shapes) = (Vec::<Piece>::new(), self.shapes.lock());
        let mut last: Option<(ChunkName, u16)> = None;
        for read in reads.iter() {
            let cell_bytes = shapes.get(&read.chunk.array).map_or(0, |s| u64::from(s.cell_bytes));
            for cell in read.cells {
                // Cells up to the one that the head has passed last, if it stays on the way.
                let next = last.filter(|(chunk, at)| *chunk == read.chunk && at < cell);
                let over = next.map(|(_, at)| u64::from(cell - at) * cell_bytes);
                let is_near = |over: &u64| disks.transfers(over - cell_bytes) < disks.takes(0);
                match (over.filter(is_near), pieces.last_mut()) {
                    (Some(over), Some(piece)) => piece.bytes += over,
                    _ => pieces.push(Piece { drawn: drawn(&read.chunk), bytes: cell_bytes }),
                }
                last = Some((read.chunk, *cell));
            }
        }
        pieces
    }
}

store_by_calls!(OnDisks);

fn drawn(name: &(impl Hash + ?Sized)) -> u64 {
    // The lowest bits of a product are those of its factors.
    PlaceHashing::default().hash_one(name) >> 17
}

#[cfg(test)]
mod tests {
    use fogbank_env::SystemClock;
    use fogbank_store::{ChunkWrite, MemoryStore, conformance};

    use super::*;

    fn on_disks(disks: Disks) -> (OnDisks<MemoryStore>, Arc<dyn Clock>) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = OnDisks::new(MemoryStore::new(), clock.clone());
        store.set(Some(disks));
        (store, clock)
    }

    #[tokio::test(start_paused = true)]
    async fn conforms() {
        conformance::run(&on_disks(Disks::SEVEN).0).await;
    }

    #[tokio::test(start_paused = true)]
    async fn near_cells_are_one_seek_and_far_ones_two() {
        // A seek is as long as a hundred cells.
        let seek = Duration::from_millis(100);
        let (store, clock) = on_disks(Disks { count: 1, seek, bytes_per_s: 1_000_000 });
        let shape = ArrayShape { chunks: 1, cells_per_chunk: 1_000, cell_bytes: 1_000 };
        store.create_array(ArrayId(1), shape).await.unwrap();
        let chunk = ChunkName { array: ArrayId(1), chunk: 0, version: 1 };
        let ms = |clock: &Arc<dyn Clock>| clock.now() / 1_000_000;
        let began = ms(&clock);
        let data = vec![0; 1_000_000].into();
        store.write_chunks(vec![ChunkWrite { chunk, data }]).await.unwrap();
        assert_eq!(store.seeks(), 1, "a level is written in one piece");
        let written = ms(&clock) - began;
        assert!((1_100..1_103).contains(&written), "{written}");
        for (cells, seeks, takes_ms) in [
            (&[0, 1, 2][..], 1, 103),
            (&[0, 90], 1, 191),
            (&[0, 101], 2, 202),
            (&[0, 101, 150], 2, 251),
        ] {
            let mut reads = CellReads::default();
            reads.push(chunk, cells.iter().copied());
            let (before, began) = (store.seeks(), ms(&clock));
            store.read_cells(&reads).await.unwrap();
            assert_eq!(store.seeks() - before, seeks, "{cells:?}");
            let took = ms(&clock) - began;
            assert!((takes_ms..takes_ms + 3).contains(&took), "{cells:?}: {took}");
        }
    }

    /// Two that want the same disk wait for each other.
    #[tokio::test(start_paused = true)]
    async fn a_disk_serves_one_after_the_other() {
        let takes_ms = async |count| {
            let seek = Duration::from_millis(100);
            let (store, clock) = on_disks(Disks { count, seek, bytes_per_s: u64::MAX });
            let names: Vec<String> = (0..64).map(|name| format!("blob/{name}")).collect();
            let began = clock.now();
            let asked = names.iter().map(|name| store.blob_get(name));
            futures(asked.collect()).await;
            (clock.now() - began) / 1_000_000
        };
        assert!((6_400..6_410).contains(&takes_ms(1).await));
        let of_four = takes_ms(4).await;
        assert!((1_600..3_200).contains(&of_four), "{of_four}");
    }

    async fn futures<T>(asked: Vec<impl Future<Output = T>>) {
        let mut asked: Vec<_> = asked.into_iter().map(Box::pin).collect();
        std::future::poll_fn(|context| {
            asked.retain_mut(|one| one.as_mut().poll(context).is_pending());
            if asked.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}
