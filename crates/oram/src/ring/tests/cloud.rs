//! A cloud in memory that records what it sees and lies when told to.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Mutex;
use fogbank_store::*;

/// What the cloud saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Read(Vec<(ChunkName, Vec<u16>)>),
    Xor(Vec<(ChunkName, Vec<u16>)>, Vec<u32>),
    Write(Vec<(ChunkName, Bytes)>),
    Delete(Vec<ChunkName>),
    Barrier,
}

/// What to do with cell number `.0` of the replies from now on.
#[derive(Debug, Clone, Copy)]
pub enum Lie {
    Flip(u64, usize),
    Shorten(u64),
    Deny(u64),
    Swap(u64),
    Drop,
    /// That one and all that follow.
    DenyFrom(u64),
}

#[derive(Default)]
pub struct Cloud {
    state: Mutex<State>,
    pub xors: bool,
}

#[derive(Default)]
struct State {
    shape: Option<ArrayShape>,
    chunks: BTreeMap<ChunkName, Bytes>,
    seen: Vec<Seen>,
    lie: Option<Lie>,
    sent: u64,
    listed_max: Option<usize>,
}

impl Cloud {
    pub fn that_xors() -> Self {
        Self { xors: true, ..Self::default() }
    }

    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().seen)
    }

    pub fn lie(&self, lie: Lie) {
        let mut state = self.state.lock();
        state.lie = Some(lie);
        state.sent = 0;
    }

    /// From now on lists have so many names, the newest of every chunk first.
    pub fn list_at_most(&self, names: usize) {
        self.state.lock().listed_max = Some(names);
    }

    pub fn chunks(&self) -> Vec<ChunkName> {
        self.state.lock().chunks.keys().copied().collect()
    }
}

impl State {
    fn cell(&self, name: ChunkName, cell: u16) -> Cell {
        let bytes = self.shape.unwrap().cell_bytes as usize;
        let at = usize::from(cell) * bytes;
        self.chunks.get(&name).map_or(Cell::NotWritten, |c| Cell::Bytes(c.slice(at..at + bytes)))
    }

    fn xor(&self, reads: &[(ChunkName, Vec<u16>)]) -> Cell {
        let mut sum = vec![0; self.shape.unwrap().cell_bytes as usize];
        for (name, cells) in reads {
            for cell in cells {
                let Cell::Bytes(bytes) = self.cell(*name, *cell) else { return Cell::NotWritten };
                sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
            }
        }
        Cell::Bytes(sum.into())
    }

    fn tamper(&mut self, mut reply: Vec<Cell>) -> Vec<Cell> {
        let first = self.sent;
        self.sent += reply.len() as u64;
        let at = |n: u64| n.checked_sub(first).map(|n| n as usize).filter(|n| *n < reply.len());
        match self.lie {
            Some(Lie::Flip(n, bit)) => {
                if let Some(n) = at(n)
                    && let Cell::Bytes(bytes) = &reply[n]
                {
                    let mut forged = bytes.to_vec();
                    let bit = bit % (forged.len() * 8);
                    forged[bit / 8] ^= 1 << (bit % 8);
                    reply[n] = Cell::Bytes(forged.into());
                }
            }
            Some(Lie::Shorten(n)) => {
                if let Some(n) = at(n)
                    && let Cell::Bytes(bytes) = &reply[n]
                {
                    reply[n] = Cell::Bytes(bytes.slice(1..));
                }
            }
            Some(Lie::Deny(n)) => {
                if let Some(n) = at(n) {
                    reply[n] = Cell::NotWritten;
                }
            }
            Some(Lie::Swap(n)) => {
                if let Some(n) = at(n) {
                    let other = (n + 1) % reply.len();
                    reply.swap(n, other);
                }
            }
            Some(Lie::Drop) => drop(reply.pop()),
            Some(Lie::DenyFrom(n)) => {
                let from = n.saturating_sub(first).min(reply.len() as u64) as usize;
                reply[from..].fill(Cell::NotWritten);
            }
            None => {}
        }
        reply
    }
}

fn listed(reads: &CellReads) -> Vec<(ChunkName, Vec<u16>)> {
    for read in reads.iter() {
        assert!(read.cells.is_sorted_by(|a, b| a < b), "cells rise");
    }
    reads.iter().map(|read| (read.chunk, read.cells.to_vec())).collect()
}

#[async_trait]
impl Store for Cloud {
    async fn create_array(&self, _: ArrayId, shape: ArrayShape) -> Result<()> {
        self.state.lock().shape = Some(shape);
        Ok(())
    }

    fn expect_array(&self, _: ArrayId, shape: ArrayShape) -> Result<()> {
        assert_eq!(self.state.lock().shape, Some(shape));
        Ok(())
    }

    async fn drop_array(&self, _: ArrayId) -> Result<()> {
        Ok(())
    }

    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        let mut state = self.state.lock();
        let listed = listed(reads);
        let each = listed.iter().flat_map(|(name, cells)| cells.iter().map(|c| (*name, *c)));
        let reply = each.map(|(name, cell)| state.cell(name, cell)).collect();
        state.seen.push(Seen::Read(listed));
        Ok(state.tamper(reply))
    }

    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
        let state = self.state.lock();
        Ok(chunks.iter().map(|name| state.chunks.get(name).cloned()).collect())
    }

    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        let mut state = self.state.lock();
        let shape = state.shape.unwrap();
        for write in &writes {
            assert!(write.chunk.chunk < shape.chunks);
            assert_eq!(write.data.len(), shape.chunk_bytes());
            assert!(state.chunks.insert(write.chunk, write.data.clone()).is_none(), "reused name");
        }
        state.seen.push(Seen::Write(writes.into_iter().map(|w| (w.chunk, w.data)).collect()));
        Ok(())
    }

    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
        let mut state = self.state.lock();
        chunks.iter().for_each(|name| drop(state.chunks.remove(name)));
        state.seen.push(Seen::Delete(chunks.to_vec()));
        Ok(())
    }

    async fn list_chunks(&self, _: ArrayId) -> Result<Vec<ChunkName>> {
        let mut names = self.chunks();
        if let Some(most) = self.state.lock().listed_max {
            let newest: BTreeMap<u32, u64> = names.iter().map(|n| (n.chunk, n.version)).collect();
            names.sort_by_key(|name| newest[&name.chunk] != name.version);
            names.truncate(most);
        }
        Ok(names)
    }

    async fn blob_get(&self, _: &str) -> Result<Option<(Bytes, BlobTag)>> {
        Ok(None)
    }

    async fn blob_put(&self, _: &str, _: Bytes, _: PutCondition) -> Result<PutOutcome> {
        Err(StoreError::Caller("no blobs here".into()))
    }

    async fn blob_delete(&self, _: &[&str]) -> Result<()> {
        Ok(())
    }

    async fn blob_list(&self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn barrier(&self) -> Result<()> {
        self.state.lock().seen.push(Seen::Barrier);
        Ok(())
    }

    fn xor(&self) -> Option<&dyn XorCells> {
        self.xors.then_some(self)
    }
}

#[async_trait]
impl XorCells for Cloud {
    async fn read_xor(&self, reads: &CellReads, groups: &[u32]) -> Result<Vec<Cell>> {
        let mut state = self.state.lock();
        let listed = listed(reads);
        let starts = std::iter::once(0).chain(groups.iter().copied());
        let reply = starts
            .zip(groups)
            .map(|(start, end)| state.xor(&listed[start as usize..*end as usize]))
            .collect();
        state.seen.push(Seen::Xor(listed, groups.to_vec()));
        Ok(state.tamper(reply))
    }
}
