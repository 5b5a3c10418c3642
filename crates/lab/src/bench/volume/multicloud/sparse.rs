//! What both servers of a sparse volume have although nobody wrote it (`Imagined`): made when it is
//! asked for.
//!
//! Over each server's own store lies one that makes what that lacks ([`Sparse`]): chunks that are
//! imagined and were not deleted. What a shuffler keeps of such levels is made as well. So these
//! servers hold the client's keys, and run within its process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fogbank_cloud::Overlay;
use fogbank_env::{Mutex, compute};
use fogbank_mix::message::Record;
use fogbank_mix::{Cells, Elsewhere, Generation, Shelved};
use fogbank_oram::multicloud::Imagined;
use fogbank_store::{ArrayId, Call, Cell, CellReads, ChunkName, PlaceMap, Reply};
use fogbank_store::{Result, Store, StoreError, store_by_calls};

/// What one of the two has, from the moment when the volume's keys are known.
pub struct Past {
    cloud: u16,
    imagined: OnceLock<Arc<Imagined>>,
    deleted: Mutex<PlaceMap<ChunkName, ()>>,
}

impl Past {
    /// Nothing yet, at the first cloud (0) or the second (1).
    pub fn new(cloud: u16) -> Arc<Self> {
        Arc::new(Self { cloud, imagined: OnceLock::new(), deleted: Mutex::default() })
    }

    /// It has this, unless it has something already.
    pub fn is(&self, imagined: &Arc<Imagined>) {
        let _had_one = self.imagined.set(imagined.clone());
    }

    /// What is imagined in a chunk, if it is here.
    fn of(&self, name: &ChunkName) -> Option<(&Imagined, Shelved)> {
        let imagined = self.imagined.get()?;
        let shelved = Shelved::of(&imagined.public(), name)?;
        let Shelved { partition, generation, .. } = shelved;
        let is_here = partition % 2 == self.cloud
            && imagined.has(partition, generation)
            && !self.deleted.lock().contains_key(name);
        is_here.then_some((imagined, shelved))
    }

    /// The chunks of an array.
    fn names(&self, array: ArrayId) -> Vec<ChunkName> {
        let Some(imagined) = self.imagined.get() else { return Vec::new() };
        let shape = imagined.public();
        let own = shape.all().skip(self.cloud.into()).step_by(2);
        let all = own.flat_map(|partition| {
            imagined.levels(partition).flat_map(move |(_, generation)| {
                [false, true].map(|of_records| Shelved { partition, generation, of_records })
            })
        });
        let names = all.map(|shelved| shelved.name(&shape)).filter(|name| name.array == array);
        let deleted = self.deleted.lock();
        names.filter(|name| !deleted.contains_key(name)).collect()
    }

    /// A whole chunk.
    fn chunk(&self, name: &ChunkName) -> Result<Option<Bytes>> {
        let Some((imagined, shelved)) = self.of(name) else { return Ok(None) };
        let Shelved { partition, generation, of_records } = shelved;
        let bytes = compute(|| match of_records {
            true => imagined.records(partition, generation).map(|records| records.concat()),
            false => imagined.cells(partition, generation).map(Cells::into_bytes),
        });
        Ok(Some(bytes.map_err(strange)?.into()))
    }

    /// Puts what is imagined where there is nothing. A cell and its record are made together.
    fn fill(&self, reads: &CellReads, cells: &mut [Cell]) -> Result<()> {
        let mut made: HashMap<(u16, Generation, u16), (Bytes, Record)> = HashMap::new();
        let places = reads.iter().flat_map(|read| read.cells.iter().map(move |c| (read.chunk, *c)));
        for (cell, (name, place)) in cells.iter_mut().zip(places) {
            if *cell != Cell::NotWritten {
                continue;
            }
            let Some((imagined, shelved)) = self.of(&name) else { continue };
            let Shelved { partition, generation, of_records } = shelved;
            let at = (partition, generation, place);
            let (bytes, record) = match made.entry(at) {
                Entry::Occupied(one) => one.into_mut(),
                Entry::Vacant(none) => {
                    let one = imagined.cell(partition, generation, place.into());
                    let (bytes, record) = one.map_err(strange)?;
                    none.insert((bytes.into(), record))
                }
            };
            *cell = Cell::Bytes(match of_records {
                true => Bytes::copy_from_slice(&record[..]),
                false => bytes.clone(),
            });
        }
        Ok(())
    }
}

impl Elsewhere for Past {
    fn level(&self, partition: u16, level: u8, generation: Generation) -> Option<Cells> {
        self.imagined.get()?.level(partition, level, generation)
    }
}

impl Overlay for Past {
    fn over(self: Arc<Self>, store: Box<dyn Store>) -> Box<dyn Store> {
        Box::new(Sparse { inner: store, past: self })
    }

    fn elsewhere(self: Arc<Self>) -> Arc<dyn Elsewhere> {
        self
    }
}

impl std::fmt::Debug for Past {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Past(..)")
    }
}

/// A store that makes what it lacks and what is imagined.
struct Sparse<S> {
    inner: S,
    past: Arc<Past>,
}

impl<S: Store> Sparse<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        Ok(match call {
            Call::ListChunks(array) => {
                let mut names = self.inner.list_chunks(array).await?;
                names.extend(self.past.names(array));
                names.sort_unstable();
                Reply::Names(names)
            }
            Call::ReadChunks(names) => {
                let mut chunks = self.inner.read_chunks(names).await?;
                for (name, chunk) in names.iter().zip(&mut chunks) {
                    if chunk.is_none() {
                        *chunk = self.past.chunk(name)?;
                    }
                }
                Reply::Chunks(chunks)
            }
            Call::ReadCells(reads) => {
                let mut cells = self.inner.read_cells(reads).await?;
                compute(|| self.past.fill(reads, &mut cells))?;
                Reply::Cells(cells)
            }
            Call::DeleteChunks(names) => {
                let here = names.iter().filter(|name| self.past.of(name).is_some());
                let deleted: Vec<_> = here.map(|name| (*name, ())).collect();
                self.past.deleted.lock().extend(deleted);
                return call.perform(&self.inner).await;
            }
            call => return call.perform(&self.inner).await,
        })
    }
}

store_by_calls!(Sparse);

fn strange(error: fogbank_oram::Error) -> StoreError {
    StoreError::Misbehaved(error.to_string())
}

#[cfg(test)]
mod tests {
    use fogbank_mix::Holder;
    use fogbank_mix::message::{Look, Place, Recall, Source, Sources};
    use fogbank_mix::{HolderSends, Seed};
    use fogbank_oram::ImmediateShape;
    use fogbank_oram::multicloud::MulticloudSettings;
    use fogbank_seal::{MasterKey, SplitKeys, StoreId};
    use fogbank_store::{MemoryStore, conformance};

    use super::*;

    fn imagined() -> Arc<Imagined> {
        let shape = ImmediateShape { capacity: 900, value_bytes: 64 };
        let settings = MulticloudSettings::new(shape, 2).unwrap();
        let keys = SplitKeys::derive(&MasterKey::from_bytes(&mut [3; 32]), StoreId([1; 16]));
        Arc::new(Imagined::new(&settings, Arc::new(keys)).unwrap())
    }

    fn store(past: &Arc<Past>) -> Arc<dyn Store> {
        past.clone().over(Box::new(MemoryStore::new())).into()
    }

    /// Before anything is imagined it is a store like any other.
    #[tokio::test]
    async fn conforms() {
        conformance::run(&store(&Past::new(0))).await;
    }

    /// A holder finds all levels of its partitions, reads them singly and whole, and what it
    /// forgets is gone.
    #[tokio::test]
    async fn a_holder_finds_what_is_imagined() {
        let (past, imagined) = (Past::new(1), imagined());
        past.is(&imagined);
        let (shape, store) = (imagined.public(), store(&past));
        let holder = Holder::open(shape, &Seed::new([2; 32]), store.clone()).await.unwrap();
        let partition = 3;
        let levels: Vec<_> = imagined.levels(partition).collect();
        let place = |(level, generation)| Place { level, generation, place: 5 };
        let places = levels.iter().copied().map(place).collect();
        let look = Look { read: 1, partition, pads: Seed::new([4; 32]), places };
        let told = holder.ask(look.into()).await.unwrap();
        let [HolderSends::Shuffler(_), HolderSends::Client(_)] = &told[..] else { panic!() };
        // The other's partitions are not here.
        let other = Recall {
            partition: 2,
            generation: Generation::new(1 << 40, 0),
            sources: Sources(vec![Source { level: shape.top(), generation: levels[0].1 }]),
        };
        assert!(holder.ask(other.into()).await.is_err());
        for of_records in [true, false] {
            let generation = levels[0].1;
            let name = Shelved { partition, generation, of_records }.name(&shape);
            assert!(store.list_chunks(name.array).await.unwrap().contains(&name));
            assert!(store.read_chunks(&[name]).await.unwrap()[0].is_some());
            store.delete_chunks(&[name]).await.unwrap();
            assert_eq!(store.read_chunks(&[name]).await.unwrap(), [None]);
            assert!(!store.list_chunks(name.array).await.unwrap().contains(&name));
        }
    }
}
