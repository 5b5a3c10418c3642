//! How what lies in the levels of one partition came there: its rebuilds of the top since the last
//! refresh, and the attempts by which its jobs were done.

use std::collections::BTreeMap;
use std::sync::Arc;

use fogbank_mix::message::{Source, Sources};
use fogbank_mix::{Generation, Marks, Shape};

/// See the module. A copy costs a reference a rebuild.
#[derive(Debug, Clone, Default)]
pub struct Lineage {
    /// Rebuilds of the top since the last refresh, that one too; the oldest first. Those before it
    /// stay until no read is under way that needs them.
    pub rebuilds: Vec<Arc<Rebuild>>,
    /// By d, the attempt by which a job was done, if it was not the first.
    pub attempts: BTreeMap<u64, u16>,
}

/// How a top came about.
#[derive(Debug)]
pub struct Rebuild {
    /// The job.
    pub generation: Generation,
    /// What it read; none of a refresh, after which chains begin anew.
    pub sources: Sources,
    /// A mark a cell of these: which it carried.
    pub list: Marks,
}

impl Lineage {
    /// The job that wrote what a level was after `count` evictions.
    pub fn generation(&self, count: u64) -> Generation {
        Generation::new(count, self.attempts.get(&count).copied().unwrap_or(0))
    }

    /// What the job of `partition` that ends at `count` reads, now or when it was done.
    pub fn sources(&self, shape: &Shape, partition: u16, count: u64) -> Sources {
        let source = |(level, count)| Source { level, generation: self.generation(count) };
        Sources(shape.sources(partition, count).map(source).collect())
    }

    /// A job is done.
    pub fn note(&mut self, generation: Generation) {
        if generation.attempt() != 0 {
            self.attempts.insert(generation.count(), generation.attempt());
        }
    }

    /// No cell is read any more that is older than the last refresh: no chain goes beyond it.
    pub fn forget_before_refresh(&mut self) {
        let Some(at) = self.rebuilds.iter().rposition(|one| one.sources.0.is_empty()) else {
            return;
        };
        self.rebuilds.drain(..at);
        let first = self.rebuilds[0].generation.count();
        self.attempts.retain(|count, _| *count >= first);
    }
}
