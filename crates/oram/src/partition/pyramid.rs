//! One partition: its counters, its levels, its stash and the job that is rewriting it.
//!
//! # Invariants
//! - `done` <= `sure` <= `given`.
//! - A level below the top is there if its bit of `done` is 1, the top always.
//! - At most one job. While it lasts the levels that it reads stay, and give no cell any more.

use std::collections::VecDeque;

use super::job::Job;
use super::layout::Layout;
use super::level::Level;
use crate::position::Home;

/// See the module.
#[derive(Debug, Clone)]
pub struct Pyramid {
    /// Orders carried out; public. Those of a new store are spread evenly.
    pub done: u64,
    /// Orders given at cuts; public.
    pub given: u64,
    /// Those of them in records that are known to be durable; public.
    pub sure: u64,
    /// By level; none for those of the proxy.
    pub levels: Box<[Option<Level>]>,
    /// Evicted blocks, and those of the levels that are the proxy's; the oldest first.
    pub stash: VecDeque<u32>,
    /// What is rewriting it.
    pub job: Option<Job>,
    /// Whether it waits for a job.
    pub is_ready: bool,
}

impl Pyramid {
    /// One that has carried out `done` orders and holds nothing.
    pub fn new(layout: &Layout, done: u64) -> Self {
        Self {
            done,
            given: done,
            sure: done,
            levels: (0..layout.levels).map(|_| None).collect(),
            stash: VecDeque::new(),
            job: None,
            is_ready: false,
        }
    }

    /// The level, which is filled.
    pub fn level(&mut self, level: u8) -> Option<&mut Level> {
        self.levels.get_mut(usize::from(level)).and_then(Option::as_mut)
    }

    /// Where `block` is, if it is here. Whatever the partition holds is looked through, wherever
    /// that is: how long it takes is not to tell.
    pub fn find(&self, block: u32) -> Option<Home> {
        let is_stashed = self.stash.iter().fold(false, |is, held| is | (*held == block));
        let planned = self.job.as_ref().and_then(|job| job.find(block));
        let filled = (0..).zip(&self.levels).filter_map(|(at, held)| Some((at, held.as_ref()?)));
        let stored = filled.map(|(level, held)| {
            held.find(block).map(|found| Home::Level { level, rank: found.place })
        });
        let stored = stored.fold(None, Option::or);
        is_stashed.then_some(Home::Stash).or(planned).or(stored)
    }

    /// Takes `block` out of the stash; whether it was there.
    pub fn unstash(&mut self, block: u32) -> bool {
        if let Some(job) = &mut self.job {
            job.overflow.retain(|held| *held != block);
        }
        let at = self.stash.iter().position(|held| *held == block);
        at.and_then(|at| self.stash.remove(at)).is_some()
    }

    /// Orders that stay within the proxy are carried out at once; how many.
    pub fn settle(&mut self, layout: &Layout) -> u64 {
        if self.job.is_some() || layout.needs_job(self.sure, self.done) {
            return 0;
        }
        let settled = self.sure - self.done;
        self.done = self.sure;
        settled
    }

    /// Whether a job may begin now.
    pub fn may_begin(&self, layout: &Layout) -> bool {
        self.job.is_none() && layout.needs_job(self.sure, self.done)
    }
}
