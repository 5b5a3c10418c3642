//! Where a holder keeps its levels: in a [`Store`], two arrays a level and length of it.
//!
//! ```text
//! array 4 l + 0, 1    cells and records of level l             chunk: the partition
//! array 4 l + 2, 3    the same of one with spare dummies       version: the job
//! ```
//! The records have one more than the cells, the seal of all (`message::NewRecords`).
//! The cells of a level are one chunk version, written whole and read singly; its records are
//! another, written when the client has checked the level. So what has records was checked, and
//! which level counts follows from what is there (`holder`).
//!
//! What it keeps may be had by whoever has the disk: it is noise.

use std::sync::Arc;

use fogbank_store::{
    ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, Store, StoreError,
};

use crate::message::{Place, Record, Source};
use crate::{Cells, Error, Generation, Result, Shape};

/// See the module.
pub struct Shelf {
    store: Arc<dyn Store>,
    shape: Shape,
}

/// What a chunk holds: the cells of a level, or their records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shelved {
    /// Of which partition.
    pub partition: u16,
    /// The job that wrote the level.
    pub generation: Generation,
    /// Whether it is the records; they are there only if the cells are.
    pub of_records: bool,
}

impl Shelved {
    /// Its chunk.
    pub fn name(&self, shape: &Shape) -> ChunkName {
        let count = self.generation.count();
        let level = shape.written(count);
        let array = array(level, shape.has_spare(level, count), self.of_records);
        ChunkName { array, chunk: self.partition.into(), version: self.generation.0 }
    }

    /// What is in the chunk of this name, if a holder has such a one.
    pub fn of(shape: &Shape, name: &ChunkName) -> Option<Self> {
        let partition = u16::try_from(name.chunk).ok()?;
        let generation = Generation(name.version);
        let it = Self { partition, generation, of_records: name.array.0 % 2 == 1 };
        (it.name(shape) == *name).then_some(it)
    }
}

impl Shelf {
    /// In `store`, whose arrays are made if there are none.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn open(store: Arc<dyn Store>, shape: Shape) -> Result<Self> {
        let shelf = Self { store, shape };
        for (array, array_shape) in shelf.arrays() {
            shelf.store.create_array(array, array_shape).await?;
        }
        Ok(shelf)
    }

    /// All that is there.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn found(&self) -> Result<Vec<Shelved>> {
        let mut found = Vec::new();
        for (array, _) in self.arrays() {
            for name in self.store.list_chunks(array).await? {
                found.push(Shelved::of(&self.shape, &name).ok_or(STRANGE)?);
            }
        }
        Ok(found)
    }

    /// Keeps the cells of a level. Durable when it returns.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn put_cells(
        &self,
        partition: u16,
        generation: Generation,
        cells: Cells,
    ) -> Result<()> {
        let chunk = self.name(partition, generation, false);
        self.put(ChunkWrite { chunk, data: cells.into_bytes().into() }).await
    }

    /// Keeps its records. Durable when it returns.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn put_records(
        &self,
        partition: u16,
        generation: Generation,
        records: &[Record],
    ) -> Result<()> {
        let chunk = self.name(partition, generation, true);
        self.put(ChunkWrite { chunk, data: records.concat().into() }).await
    }

    async fn put(&self, write: ChunkWrite) -> Result<()> {
        self.store.write_chunks(vec![write]).await?;
        Ok(self.store.barrier().await?)
    }

    /// Cells and their records, in the order given: one call of the store, which is the same for
    /// every order.
    ///
    /// # Errors
    /// Those of the store; [`Error::Bug`] if they are not there.
    pub async fn read(&self, partition: u16, places: &[Place]) -> Result<(Cells, Vec<Record>)> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|at| places[*at].level);
        let mut reads = CellReads::default();
        for of_records in [false, true] {
            for at in &order {
                let Place { generation, place, .. } = places[*at];
                let cell = u16::try_from(place).map_err(|_| STRANGE)?;
                reads.push(self.name(partition, generation, of_records), [cell]);
            }
        }
        let read = self.store.read_cells(&reads).await?;
        let mut cells = Cells::zeros(self.shape.cell_bytes(), places.len());
        let mut records = vec![[0; 16]; places.len()];
        for (at, cell) in order.iter().zip(&read) {
            copy(cell, cells.get_mut(*at).ok_or(STRANGE)?)?;
        }
        for (at, record) in order.iter().zip(read.iter().skip(order.len())) {
            copy(record, &mut records[*at])?;
        }
        Ok((cells, records))
    }

    /// All cells of these levels in storage order.
    ///
    /// # Errors
    /// As [`Shelf::read`].
    pub async fn cells(&self, partition: u16, sources: &[Source]) -> Result<Cells> {
        let bytes = self.whole(partition, sources, false).await?;
        Cells::of(bytes, self.shape.cell_bytes()).ok_or(STRANGE)
    }

    /// All records of these levels in storage order, those of each followed by its seal.
    ///
    /// # Errors
    /// As [`Shelf::read`].
    pub async fn records(&self, partition: u16, sources: &[Source]) -> Result<Vec<Record>> {
        let bytes = self.whole(partition, sources, true).await?;
        Ok(bytes.as_chunks().0.to_vec())
    }

    async fn whole(&self, partition: u16, sources: &[Source], records: bool) -> Result<Vec<u8>> {
        let name = |source: &Source| self.name(partition, source.generation, records);
        let names: Vec<ChunkName> = sources.iter().map(name).collect();
        let each = if records { size_of::<Record>() } else { self.shape.cell_bytes() };
        let length = |source: &Source| {
            let size = self.shape.size(source.level, source.generation.count()) as usize;
            (size + usize::from(records)) * each
        };
        let mut bytes = Vec::with_capacity(sources.iter().map(length).sum());
        for (source, chunk) in sources.iter().zip(self.store.read_chunks(&names).await?) {
            let chunk = chunk.filter(|chunk| chunk.len() == length(source)).ok_or(STRANGE)?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Forgets levels, records first: what is left of one that is cut short was never checked.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn forget(&self, partition: u16, levels: &[Generation]) -> Result<()> {
        for of_records in [true, false] {
            let name = |generation: &Generation| self.name(partition, *generation, of_records);
            let names: Vec<ChunkName> = levels.iter().map(name).collect();
            if !names.is_empty() {
                self.store.delete_chunks(&names).await?;
            }
        }
        Ok(())
    }

    fn name(&self, partition: u16, generation: Generation, of_records: bool) -> ChunkName {
        Shelved { partition, generation, of_records }.name(&self.shape)
    }

    fn arrays(&self) -> Vec<(ArrayId, ArrayShape)> {
        let shape = self.shape;
        let mut arrays = Vec::new();
        for level in shape.stored_levels() {
            let counts = [shape.cycle(), shape.cycle() - (1 << level)];
            for count in counts.into_iter().take(if level == shape.top() { 1 } else { 2 }) {
                for of_records in [false, true] {
                    let each = if of_records { size_of::<Record>() } else { shape.cell_bytes() };
                    let array_shape = ArrayShape {
                        chunks: shape.partitions,
                        cells_per_chunk: shape.size(level, count) as u16 + u16::from(of_records),
                        cell_bytes: each as u32,
                    };
                    let is_last = shape.has_spare(level, count);
                    arrays.push((array(level, is_last, of_records), array_shape));
                }
            }
        }
        arrays
    }
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shelf(..)")
    }
}

fn array(level: u8, is_last: bool, of_records: bool) -> ArrayId {
    ArrayId(4 * u16::from(level) + 2 * u16::from(is_last) + u16::from(of_records))
}

fn copy(cell: &Cell, to: &mut [u8]) -> Result<()> {
    match cell {
        Cell::Bytes(bytes) if bytes.len() == to.len() => {
            to.copy_from_slice(bytes);
            Ok(())
        }
        _ => Err(STRANGE),
    }
}

const STRANGE: Error = Error::Bug("the store has lost what was durable");

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Absent(why) | StoreError::Near(why) => Self::Absent(why),
            // Arrays of another shape are here: something else's.
            StoreError::Refused(why) | StoreError::Caller(why) => Self::Refused(why),
            error @ (StoreError::Misbehaved(_) | StoreError::NoArray(_)) => {
                Self::Lost(error.to_string())
            }
        }
    }
}
