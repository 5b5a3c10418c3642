//! One partition: its counters, its levels, its stash, and how what lies in it came there.
//!
//! # Invariants
//! - `done` <= `given`, and `done` is a multiple of U.
//! - The levels that are there are those that [`Shape::filled`] names.
//! - At most one job.

use std::collections::VecDeque;

use fogbank_mix::{Generation, Shape};

use super::job::Job;
use super::level::Level;
use super::lineage::Lineage;
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
    /// Accesses under way that departed before that: while there is one, neither cloud is told.
    pub old_reads: u32,
    /// Whether both have to be told.
    pub is_untold: bool,
    /// Accesses that have departed and not ended.
    pub under_way: u32,
    /// How what lies in its levels came there.
    pub lineage: Lineage,
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
            old_reads: 0,
            is_untold: false,
            under_way: 0,
            lineage: Lineage::default(),
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

    /// Takes `block` out of the stash.
    pub fn unstash(&mut self, block: u32) {
        if let Some(at) = self.stash.iter().position(|held| *held == block) {
            self.stash.remove(at);
        }
    }

    /// Whether an access may depart: every filled level bears another read, or there is room in a
    /// list that is out. Public.
    pub fn bears_a_read(&self, shape: &Shape) -> bool {
        let bears = |level: u8, held: &Level| held.reads < shape.bears(level);
        match &self.job {
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
