//! A store that lies: for tests of whoever must notice.
//!
//! It keeps everything it was ever given, so that it can answer with what was true once. A lie that
//! cannot be told of a reply (no older version, nothing to swap) leaves it alone and stays armed.

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_env::Mutex;

use crate::store_by_calls;
use crate::{ArrayId, Call, Cell, ChunkName, Operation, Reply, Result, Store};

/// How a reply is falsified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// The bit of this number (modulo their length) of the first bytes in the reply is flipped.
    FlipBit(usize),
    /// Two cells or chunks of the reply change places.
    Swap,
    /// The first cell or chunk, or the blob, is as it was in an older version.
    Stale,
    /// The first cell or chunk, or the blob, was never written.
    Missing,
    /// The first bytes are shorter by one.
    Short,
}

/// When to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LieRule {
    /// About which calls: reads of cells, of chunks, XORs or reads of blobs.
    pub operation: Operation,
    /// From which of them on, from 1.
    pub nth: u64,
    /// How.
    pub lie: Lie,
    /// Once, or from then on always.
    pub always: bool,
}

/// Lies by rule; otherwise the store inside.
pub struct Tampering<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rules: Vec<(LieRule, u64)>,
    told: u64,
    chunks: BTreeMap<(ArrayId, u32), BTreeMap<u64, Bytes>>,
    blobs: BTreeMap<String, Vec<Bytes>>,
    cell_bytes: BTreeMap<ArrayId, usize>,
}

impl<S: Store> Tampering<S> {
    /// A store that is honest for now.
    pub fn new(inner: S) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// Adds a rule, which counts from the next call on.
    pub fn add(&self, rule: LieRule) {
        self.state.lock().rules.push((rule, 0));
    }

    /// Forgets all rules, not what was stored.
    pub fn be_honest(&self) {
        self.state.lock().rules.clear();
    }

    /// How many replies were falsified.
    pub fn lies_told(&self) -> u64 {
        self.state.lock().told
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        self.state.lock().remember(&call);
        let mut reply = call.clone().perform(&self.inner).await?;
        self.state.lock().falsify(&call, &mut reply);
        Ok(reply)
    }
}

store_by_calls!(Tampering);

impl State {
    fn remember(&mut self, call: &Call<'_>) {
        match call {
            Call::CreateArray(array, shape) => {
                self.cell_bytes.insert(*array, shape.cell_bytes as usize);
            }
            Call::WriteChunks(writes) => {
                for write in writes {
                    let ChunkName { array, chunk, version } = write.chunk;
                    let versions = self.chunks.entry((array, chunk)).or_default();
                    versions.insert(version, write.data.clone());
                }
            }
            Call::BlobPut(name, data, _) => {
                self.blobs.entry((*name).to_owned()).or_default().push(data.clone());
            }
            _ => {}
        }
    }

    fn falsify(&mut self, call: &Call<'_>, reply: &mut Reply) {
        let mut rules = std::mem::take(&mut self.rules);
        rules.retain_mut(|(rule, counted)| {
            if rule.operation != call.operation() {
                return true;
            }
            *counted += 1;
            if *counted < rule.nth || !self.tell(rule.lie, call, reply) {
                return true;
            }
            self.told += 1;
            rule.always
        });
        self.rules = rules;
    }

    /// Falsifies the reply; `false` if it cannot be.
    fn tell(&self, lie: Lie, call: &Call<'_>, reply: &mut Reply) -> bool {
        match reply {
            Reply::Cells(cells) => match lie {
                Lie::Swap => swap(cells),
                Lie::Stale => self.stale_cell(call, cells),
                Lie::Missing => {
                    miss(cells.iter_mut().find(|c| **c != Cell::NotWritten), Cell::NotWritten)
                }
                _ => cells.iter_mut().any(|cell| match cell {
                    Cell::Bytes(bytes) => change(bytes, lie),
                    Cell::NotWritten => false,
                }),
            },
            Reply::Chunks(chunks) => match lie {
                Lie::Swap => swap(chunks),
                Lie::Stale => self.stale_chunk(call, chunks),
                Lie::Missing => miss(chunks.iter_mut().find(|c| c.is_some()), None),
                _ => chunks.iter_mut().flatten().any(|bytes| change(bytes, lie)),
            },
            Reply::Blob(blob) => match (lie, &mut *blob) {
                (Lie::Missing, Some(_)) => miss(Some(blob), None),
                (Lie::Stale, Some((bytes, _))) => self.stale_blob(call, bytes),
                (_, Some((bytes, _))) => change(bytes, lie),
                (_, None) => false,
            },
            _ => false,
        }
    }

    fn older(&self, name: ChunkName) -> Option<&Bytes> {
        let versions = self.chunks.get(&(name.array, name.chunk))?;
        versions.range(..name.version).next_back().map(|(_, data)| data)
    }

    fn stale_cell(&self, call: &Call<'_>, cells: &mut [Cell]) -> bool {
        let Call::ReadCells(reads) = call else { return false };
        let mut at = 0;
        for read in reads.iter() {
            let cell_bytes = self.cell_bytes.get(&read.chunk.array);
            if let (Some(old), Some(&first), Some(bytes)) =
                (self.older(read.chunk), read.cells.first(), cell_bytes)
            {
                let start = first as usize * bytes;
                cells[at] = Cell::Bytes(old.slice(start..start + bytes));
                return true;
            }
            at += read.cells.len();
        }
        false
    }

    fn stale_chunk(&self, call: &Call<'_>, chunks: &mut [Option<Bytes>]) -> bool {
        let Call::ReadChunks(names) = call else { return false };
        let mut asked = names.iter().zip(chunks);
        asked.any(|(&name, data)| {
            let older = self.older(name);
            if older.is_some() {
                *data = older.cloned();
            }
            older.is_some()
        })
    }

    fn stale_blob(&self, call: &Call<'_>, bytes: &mut Bytes) -> bool {
        let Call::BlobGet(name) = call else { return false };
        let older = self.blobs.get(*name).and_then(|all| {
            let there = all.iter().rposition(|data| data == bytes)?;
            all[..there].iter().rev().find(|data| *data != bytes)
        });
        older.is_some_and(|older| {
            *bytes = older.clone();
            true
        })
    }
}

/// Exchanges the first entry with the first that differs from it.
fn swap<T: PartialEq>(entries: &mut [T]) -> bool {
    let other = entries.iter().position(|entry| *entry != entries[0]);
    other.is_some_and(|other| {
        entries.swap(0, other);
        true
    })
}

fn miss<T>(entry: Option<&mut T>, nothing: T) -> bool {
    entry.is_some_and(|entry| {
        *entry = nothing;
        true
    })
}

fn change(bytes: &mut Bytes, lie: Lie) -> bool {
    if bytes.is_empty() {
        return false;
    }
    let mut changed = bytes.to_vec();
    match lie {
        Lie::FlipBit(bit) => changed[bit / 8 % bytes.len()] ^= 1 << (bit % 8),
        Lie::Short => changed.truncate(bytes.len() - 1),
        Lie::Swap | Lie::Stale | Lie::Missing => return false,
    }
    *bytes = changed.into();
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayShape, CellReads, ChunkWrite, MemoryStore, PutCondition, conformance};

    #[tokio::test]
    async fn conforms_while_it_is_honest() {
        conformance::run(&Tampering::new(MemoryStore::new())).await;
    }

    #[tokio::test]
    async fn tells_each_lie_once_and_about_what_it_was_asked() {
        let store = Tampering::new(MemoryStore::new());
        let array = ArrayId(1);
        let shape = ArrayShape { chunks: 4, cells_per_chunk: 2, cell_bytes: 3 };
        store.create_array(array, shape).await.unwrap();
        let name = |chunk, version| ChunkName { array, chunk, version };
        for (chunk, version) in [(0, 1), (0, 2), (1, 1)] {
            let data = vec![(16 * chunk + version as u32) as u8; 6].into();
            let write = ChunkWrite { chunk: name(chunk, version), data };
            store.write_chunks(vec![write]).await.unwrap();
        }
        let mut reads = CellReads::default();
        reads.push(name(0, 2), [1]);
        reads.push(name(1, 1), [0]);
        let read = async || store.read_cells(&reads).await.unwrap();
        let cell = |byte: u8| Cell::Bytes(vec![byte; 3].into());
        let truth = vec![cell(2), cell(17)];
        let flipped = Cell::Bytes(vec![2, 2 ^ 2, 2].into());
        for (lie, told) in [
            (Lie::FlipBit(9), vec![flipped, cell(17)]),
            (Lie::Swap, vec![cell(17), cell(2)]),
            (Lie::Stale, vec![cell(1), cell(17)]),
            (Lie::Missing, vec![Cell::NotWritten, cell(17)]),
            (Lie::Short, vec![Cell::Bytes(vec![2; 2].into()), cell(17)]),
        ] {
            store.add(LieRule { operation: Operation::ReadCells, nth: 2, lie, always: false });
            assert_eq!(read().await, truth);
            assert_eq!(read().await, told, "{lie:?}");
            assert_eq!(read().await, truth);
        }
        assert_eq!(store.lies_told(), 5);
        for data in ["old", "new"] {
            store.blob_put("commit", data.into(), PutCondition::Always).await.unwrap();
        }
        let lie = |lie| LieRule { operation: Operation::BlobGet, nth: 1, lie, always: true };
        store.add(lie(Lie::Stale));
        let (data, _) = store.blob_get("commit").await.unwrap().unwrap();
        assert_eq!(data, "old");
        store.be_honest();
        store.add(lie(Lie::Missing));
        assert_eq!(store.blob_get("commit").await.unwrap(), None);
    }
}
