//! A trace as a test looks at it.

use std::path::Path;

use fogbank_audit::oracle::ring::RingConfig;
use fogbank_sim::scene::Played;
use fogbank_store::ChunkName;
use fogbank_store::trace::{Event, PublicConfig, Request, Sent, TraceReader};

/// A trace, read whole.
pub struct View {
    pub config: RingConfig,
    pub events: Vec<Event>,
    pub played: Played,
}

/// A read of cells. Without XOR, what asks for one cell of a bucket is of a path.
pub struct Batch {
    pub at: u64,
    pub path_cells: Vec<(ChunkName, u16)>,
    pub retired: Vec<(ChunkName, Vec<u16>)>,
}

impl View {
    pub fn read(path: &Path, played: Played) -> Self {
        let reader = TraceReader::open(path).unwrap();
        let config = PublicConfig::decode(reader.config()).unwrap().tail().unwrap();
        let events = reader.collect::<Result<_, _>>().unwrap();
        Self { config, events, played }
    }

    pub fn sent(&self) -> impl Iterator<Item = &Sent> {
        self.events.iter().filter_map(|event| match event {
            Event::Sent(sent) => Some(sent),
            _ => None,
        })
    }

    pub fn batches(&self) -> Vec<Batch> {
        let reads = self.sent().filter_map(|sent| match &sent.request {
            Request::ReadCells { reads } => Some((sent.at, reads)),
            _ => None,
        });
        let batch = |(at, reads): (u64, &Vec<_>)| {
            let (mut path_cells, mut retired) = (Vec::new(), Vec::new());
            for fogbank_store::trace::ChunkCells { chunk, cells } in reads {
                match cells[..] {
                    [cell] => path_cells.push((*chunk, cell)),
                    _ => retired.push((*chunk, cells.clone())),
                }
            }
            Batch { at, path_cells, retired }
        };
        reads.map(batch).collect()
    }

    /// Buckets written, by message.
    pub fn images(&self) -> Vec<Vec<ChunkName>> {
        let writes = self.sent().filter_map(|sent| match &sent.request {
            Request::WriteChunks { writes } => Some(writes.iter().map(|(name, _)| *name).collect()),
            _ => None,
        });
        writes.collect()
    }

    pub fn leaves(&self) -> u32 {
        1 << self.config.leaf_level
    }

    /// The leaf of a bucket at the lowest level.
    pub fn leaf(&self, chunk: u32) -> Option<u32> {
        chunk.checked_sub(self.leaves() - 1)
    }

    /// By batch: the leaves whose lowest bucket it reads.
    pub fn leaves_read(&self) -> Vec<Vec<u32>> {
        let leaves = |batch: Batch| {
            batch.path_cells.iter().filter_map(|(name, _)| self.leaf(name.chunk)).collect()
        };
        self.batches().into_iter().map(leaves).collect()
    }

    /// The cells that are read first, and how many on paths, of every version of a bucket in turn.
    pub fn lives(&self, chunk: u32) -> Vec<(u16, usize)> {
        let mut lives: Vec<(u64, u16, usize)> = Vec::new();
        for (name, cell) in self.batches().iter().flat_map(|batch| &batch.path_cells) {
            match lives.last_mut() {
                _ if name.chunk != chunk => {}
                Some(life) if life.0 == name.version => life.2 += 1,
                _ => lives.push((name.version, *cell, 1)),
            }
        }
        lives.into_iter().map(|(_, first, reads)| (first, reads)).collect()
    }

    /// The most path reads of any version.
    pub fn reads_max(&self) -> usize {
        let chunks = 0..2 * self.leaves() - 1;
        chunks.flat_map(|chunk| self.lives(chunk)).map(|(_, reads)| reads).max().unwrap_or(0)
    }
}
