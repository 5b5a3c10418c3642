//! What a shuffler keeps of levels: in memory while there is room, else in its own cloud's store.
//!
//! 1. *Room* is of all volumes of a server together ([`KeptRoom`]). When a job counts, its level
//!    takes as much as it has bytes, or, if there is not so much left, goes into the store
//!    ([`ShufflerSends::Store`]). Nobody who has room gives it up: small levels, which come and go
//!    more often, find it first, and those are worth most for their bytes.
//! 2. *What lies in the store* is read when the job that needs it begins. If it is not there, or
//!    not to be had, it is lost as what was in memory is in a stop: the holder hands it over.
//! 3. *It is forgotten* when a job counts that has read it. What could not be deleted is tried
//!    again with the next. What an earlier process left goes when a volume is opened: what was not
//!    made durable may be there in part, and a client would take that for a lie.
//!
//! ```text
//! array 64 + l    cells of level l without pads, zeros too, in storage order
//! chunk: the partition    version: the job
//! ```
//! What is kept, and where, follows from sizes and from the order of jobs, which are public, and
//! from what else the server keeps. It is noise: the shuffler made it, and knows where in it zeros
//! lie. That it comes back unchanged nobody checks here: what is made of it is held against the
//! client's records before it counts, as is what is made of what was kept in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank_env::compute_over;
use fogbank_store::{ArrayId, ArrayShape, ChunkName, ChunkWrite, Store, StoreError};

use crate::message::{Source, ToShuffler};
use crate::{Cells, Generation, Result, Shape, Shuffler, ShufflerSends};

/// Memory for levels that shufflers keep.
#[derive(Debug)]
pub struct KeptRoom {
    left: AtomicU64,
}

/// A part of it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    room: Arc<KeptRoom>,
    bytes: u64,
}

impl KeptRoom {
    /// So many bytes.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(bytes) })
    }

    /// As much as anybody wants.
    pub fn unbounded() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    /// What nobody has.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        let bytes = bytes as u64;
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(|_| Taken { room: self.clone(), bytes })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// What a shuffler has done in its cloud's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToStore {
    /// A level to be kept there.
    Put(KeptLevel, Cells),
    /// Levels that nobody reads any more.
    Forget(Vec<KeptLevel>),
}

/// A level that is kept in the store, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptLevel {
    /// Of which partition.
    pub partition: u16,
    /// Which level it is.
    pub level: u8,
    /// The job that wrote it.
    pub generation: Generation,
}

/// Where levels are kept that find no room in memory: in a [`Store`].
pub struct KeptShelf {
    store: Arc<dyn Store>,
    shape: Shape,
    /// Levels of which there is an array.
    made: Vec<u8>,
}

impl KeptShelf {
    /// In `store`; what an earlier process left goes. Of a level whose array the store does not
    /// take nothing is kept there.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn open(store: Arc<dyn Store>, shape: Shape) -> Result<Self> {
        let mut made = Vec::new();
        for level in shape.stored_levels().take_while(|level| level + 1 < shape.top()) {
            match store.create_array(array(level), array_shape(&shape, level)).await {
                Ok(()) => {}
                Err(StoreError::Refused(_) | StoreError::Caller(_)) => continue,
                Err(error) => return Err(error.into()),
            }
            let left = store.list_chunks(array(level)).await?;
            if !left.is_empty() {
                store.delete_chunks(&left).await?;
            }
            made.push(level);
        }
        Ok(Self { store, shape, made })
    }

    /// Has the shuffler do what its client asks. What it keeps here is brought to it, and what it
    /// has no room for is put here.
    ///
    /// # Errors
    /// Those of [`Shuffler::ask`], and none of the store: what is not to be had is lost.
    pub async fn ask(
        &self,
        shuffler: &Shuffler,
        message: ToShuffler,
    ) -> Result<Vec<ShufflerSends>> {
        let mut brought = Vec::new();
        if let ToShuffler::Mix(mix) = &message {
            for of in shuffler.away(mix.partition, &mix.sources) {
                brought.extend(self.read(of).await);
            }
        }
        let bytes = shuffler.bytes_of(&message);
        let sent = compute_over(bytes, || shuffler.ask_with(message, brought))?;
        let mut others = Vec::with_capacity(sent.len());
        for sent in sent {
            match sent {
                ShufflerSends::Store(ToStore::Put(of, cells)) => {
                    if self.put(of, cells).await {
                        shuffler.is_stored(of);
                    }
                }
                ShufflerSends::Store(ToStore::Forget(all)) => {
                    let names: Vec<ChunkName> = all.iter().map(|of| name(*of)).collect();
                    if self.store.delete_chunks(&names).await.is_ok() {
                        shuffler.is_forgotten(&all);
                    }
                }
                other => others.push(other),
            }
        }
        Ok(others)
    }

    /// The level, if it is there and as long as it has to be.
    async fn read(&self, of: KeptLevel) -> Option<(Source, Cells)> {
        let KeptLevel { level, generation, .. } = of;
        let read = self.store.read_chunks(&[name(of)]).await.ok()?;
        let cells = Cells::of(read.into_iter().next()??.into(), self.shape.cell_bytes())?;
        let is_whole = cells.len() as u32 == self.shape.size(level, generation.count());
        is_whole.then_some((Source { level, generation }, cells))
    }

    /// Whether it is there now.
    async fn put(&self, of: KeptLevel, cells: Cells) -> bool {
        let write = ChunkWrite { chunk: name(of), data: cells.into_bytes().into() };
        self.made.contains(&of.level) && self.store.write_chunks(vec![write]).await.is_ok()
    }
}

impl std::fmt::Debug for KeptShelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeptShelf(..)")
    }
}

/// Behind those of a holder.
const ARRAYS_FROM: u16 = 64;

fn array(level: u8) -> ArrayId {
    ArrayId(ARRAYS_FROM + u16::from(level))
}

/// Of the jobs that write a level which another below the top will read the first is as good as
/// any.
fn array_shape(shape: &Shape, level: u8) -> ArrayShape {
    ArrayShape {
        chunks: shape.partitions,
        cells_per_chunk: shape.size(level, 1 << level) as u16,
        cell_bytes: shape.cell_bytes() as u32,
    }
}

fn name(of: KeptLevel) -> ChunkName {
    let KeptLevel { partition, level, generation } = of;
    ChunkName { array: array(level), chunk: partition.into(), version: generation.0 }
}
