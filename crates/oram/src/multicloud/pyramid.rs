//! One partition: its counters, its levels, its stash, and how what lies in it came there.
//!
//! # Invariants
//! - `done` <= `given`, and `done` is a multiple of U.
//! - The levels that are there are those that [`Shape::filled`] names.
//! - At most one job.

use std::collections::{BTreeMap, VecDeque};

use fogbank_mix::message::{Source, Sources};
use fogbank_mix::{Generation, Marks, Shape};

use super::job::Job;
use super::level::Level;
use crate::{Error, Result};

/// See the module.
#[derive(Debug)]
pub struct Pyramid {
    /// Evictions given; public.
    pub given: u64,
    /// Evictions carried out; public.
    pub done: u64,
    /// By level; none for those of the client.
    pub levels: Box<[Option<Level>]>,
    /// Evicted blocks; the oldest first.
    pub stash: VecDeque<u32>,
    /// What is under way.
    pub job: Option<Job>,
    /// The job committed last.
    pub last: Option<Generation>,
    /// Accesses that have departed and not ended.
    pub under_way: u32,
    /// Rebuilds of the top since the last refresh, that one too; the oldest first.
    pub rebuilds: Vec<Rebuild>,
    /// By d, the attempt by which a job was done, if it was not the first.
    attempts: BTreeMap<u64, u16>,
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

impl Pyramid {
    /// One of a new volume.
    pub fn new(shape: &Shape, partition: u16) -> Self {
        let first = shape.first(partition);
        Self {
            given: first,
            done: first,
            levels: (0..shape.levels).map(|_| None).collect(),
            stash: VecDeque::new(),
            job: None,
            last: None,
            under_way: 0,
            rebuilds: Vec::new(),
            attempts: BTreeMap::new(),
        }
    }

    /// The level, which is filled.
    ///
    /// # Errors
    /// [`Error::Bug`] if it is not.
    pub fn level(&self, level: u8) -> Result<&Level> {
        let held = self.levels.get(usize::from(level)).and_then(Option::as_ref);
        held.ok_or_else(not_filled)
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// As [`Pyramid::level`].
    pub fn level_mut(&mut self, level: u8) -> Result<&mut Level> {
        let held = self.levels.get_mut(usize::from(level)).and_then(Option::as_mut);
        held.ok_or_else(not_filled)
    }

    /// Cells with a block.
    pub fn blocks(&self) -> u32 {
        self.levels.iter().flatten().map(Level::blocks).sum()
    }

    /// The job that wrote what `level` was after `count` evictions.
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
        self.last = Some(generation);
        if generation.attempt() != 0 {
            self.attempts.insert(generation.count(), generation.attempt());
        }
    }

    /// A refresh is done: no chain goes beyond it.
    pub fn begin_chains_anew(&mut self, refresh: Generation) {
        self.rebuilds.clear();
        self.attempts.retain(|count, _| *count >= refresh.count());
    }

    /// Takes `block` out of the stash.
    pub fn unstash(&mut self, block: u32) {
        if let Some(at) = self.stash.iter().position(|held| *held == block) {
            self.stash.remove(at);
        }
    }

    /// Whether an access may depart: every filled level bears another read, or there is room in a
    /// list that is out, and no commit waits. Public.
    pub fn bears_a_read(&self, shape: &Shape) -> bool {
        let bears = |level: u8, held: &Level| held.reads < shape.bears(level);
        match &self.job {
            Some(job) if job.is_stored() => false,
            Some(job) if job.list.is_some() => job.list_reads < u32::from(shape.spare),
            _ => (0..)
                .zip(&self.levels)
                .all(|(level, held)| held.as_ref().is_none_or(|held| bears(level, held))),
        }
    }
}

fn not_filled() -> Error {
    Error::Bug("a level is not filled".into())
}
