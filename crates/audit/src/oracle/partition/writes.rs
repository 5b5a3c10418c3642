//! Jobs: what they read, what they write, and the barrier behind it.
//!
//! 1. A job reads of every source what its quota lacks.
//! 2. When its cells have come, and those of accesses to its partition cut before it, its destinations
//!    are written, in messages of a public size, one job after the other, so many under way at once.
//! 3. When all of it was written there is a barrier, for all that were before it.

use std::collections::VecDeque;

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::ChunkSeen;

use super::job::{Job, Phase};
use super::layout::name;
use super::{CellSeen, Own, Partition};
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::turns::check_turn;
use crate::oracle::shape::below;
use crate::{Observation, Observer};

/// Short messages under way at once, at most.
const MESSAGES_MAX: u64 = 48;

impl Partition {
    /// A message of the job of `partition` reads these cells. They are a set, drawn at once: in an
    /// order drawn here each is uniform among those left, exactly if the set is among all of its size.
    pub(super) fn read_job(
        &mut self,
        partition: u32,
        cells: &[CellSeen],
        out: &mut dyn Observer,
    ) -> Step {
        let Some(job) = self.state.job(partition) else { return Ok(()) };
        let mut rest = cells;
        for (level, count) in job.reads.clone() {
            let pyramid = &mut self.pyramids[partition as usize];
            let Some(held) = &mut pyramid.levels[usize::from(level)] else { continue };
            let due = name(partition, level, held.version);
            let own = rest.iter().take_while(|(seen, _)| *seen == due).count();
            if own != usize::from(count) {
                let due = format!("{count} cells of {due:x?}");
                return fault(
                    "job-quota",
                    due,
                    format!("{own} of them, then {:x?}", rest.get(own)),
                );
            }
            if !rest[..own].is_sorted_by(|a, b| a.1 <= b.1) {
                return fault("job-quota", "cells in the order of their places", "others");
            }
            let mut set: Vec<u16> = rest[..own].iter().map(|(_, cell)| *cell).collect();
            while !set.is_empty() {
                let cell = set.swap_remove(below(&mut self.random, set.len() as u32) as usize);
                let (unread, rank) = held.take(cell)?;
                let nth = self.state.layout.cells(level) - unread;
                let (chunk, version) = (partition, held.version);
                let seen = Observation::PathCell { chunk, level, version, nth, cell, unread, rank };
                out.observe(&seen);
            }
            rest = &rest[own..];
        }
        if let Some(seen) = rest.first() {
            return fault("job-quota", "no further cell", format!("{seen:x?}"));
        }
        Ok(())
    }

    pub(super) fn job_comes(&mut self, partition: u32, at: Nanos) {
        if let Some(job) = self.state.job_mut(partition) {
            (job.step, job.came) = (Phase::Come, job.came.max((at, job.order.0, job.order.1)));
        }
    }

    /// Jobs whose cells have come, and those of accesses before them, write.
    pub(super) fn jobs_are_whole(&mut self) {
        for partition in 0..self.config.partitions {
            let Some(job) = self.state.job(partition) else { continue };
            if job.step == Phase::Come && job.early.is_empty() {
                let windows = self.windows_of(partition, job);
                if let Some(job) = self.state.job_mut(partition) {
                    (job.step, job.windows) = (Phase::Writing, windows);
                }
            }
        }
    }

    /// Whether one message more may be under way.
    fn may_write(&self) -> bool {
        let (messages, bytes) = self.now.windows;
        let is_short = messages < MESSAGES_MAX && bytes < self.config.bytes_at_once;
        messages < self.config.windows.into() || is_short
    }

    fn windows_of(&self, partition: u32, job: &Job) -> VecDeque<Vec<ChunkName>> {
        let (mut windows, mut window, mut bytes) = (VecDeque::new(), Vec::new(), 0);
        let layout = self.state.layout;
        let chunks = |level: &u8| layout.chunks(partition, *level, job.version);
        for chunk in job.destinations.iter().flat_map(chunks) {
            bytes += layout.chunk_cells(&chunk) * u64::from(self.config.cell_bytes);
            window.push(chunk);
            if bytes >= self.config.window_bytes {
                windows.push_back(std::mem::take(&mut window));
                bytes = 0;
            }
        }
        windows.extend((!window.is_empty()).then_some(window));
        windows
    }

    /// The partitions of which any may write next: that whose job has begun, or those that could first.
    /// On a grid that is one.
    pub(super) fn next_write(&self) -> Option<Vec<u32>> {
        let open = |(partition, counters): (u32, &super::Counters)| {
            let job = counters.job.as_ref().filter(|job| !job.windows.is_empty())?;
            let (at, record, nth) = job.came;
            let in_order = (record, nth, partition);
            let in_order = if self.config.quantum_ns > 0 { in_order } else { (0, 0, 0) };
            Some(((!job.has_begun(), at, in_order), partition))
        };
        let open: Vec<_> = (0..).zip(&self.state.partitions).filter_map(open).collect();
        let (first, _) = open.iter().min().filter(|_| self.may_write())?;
        Some(open.iter().filter(|(order, _)| order == first).map(|(_, p)| *p).collect())
    }

    /// A message of what is written leaves at `at`.
    pub(super) fn write(
        &mut self,
        at: Nanos,
        writes: &[(ChunkName, ChunkSeen)],
        out: &mut dyn Observer,
    ) -> Step<Own> {
        let seen = || format!("{:x?}", writes.first().map(|(name, _)| name));
        let layout = self.state.layout;
        let first = writes.first().and_then(|(name, _)| layout.level_of(name));
        let partition = first.map_or(u32::MAX, |(partition, _)| partition);
        let Some(next) = self.next_write().filter(|next| next.contains(&partition)) else {
            let job = self.state.job(partition);
            let due = self.next_due();
            let rule = match (job.map(|job| job.step), due) {
                (Some(Phase::Reading), Some(due)) => due.rule(),
                (Some(Phase::Reading | Phase::Come), _) => "early-cell",
                _ => "level-whole",
            };
            return fault(rule, format!("what is due of {:?}", self.next_write()), seen());
        };
        let due = self.turns.due(at);
        check_turn(due, at)?;
        let cell_bytes = u64::from(self.config.cell_bytes);
        let Some(job) = self.state.job_mut(partition) else {
            return fault("level-whole", format!("{next:?}"), seen());
        };
        if !job.has_begun() {
            (job.nth, self.now.begun) = (self.now.begun, self.now.begun + 1);
        }
        let names = job.windows.pop_front().unwrap_or_default();
        job.under_way += 1;
        job.sent += 1;
        if !names.iter().eq(writes.iter().map(|(name, _)| name)) {
            return fault("level-whole", format!("{names:x?}"), format!("{} chunks", writes.len()));
        }
        let mut bytes = 0;
        for (name, seen) in writes {
            let cells = layout.chunk_cells(name);
            let due = cells * cell_bytes;
            if seen.bytes != due {
                return fault("level-whole", format!("{due} bytes"), format!("{}", seen.bytes));
            }
            bytes += due;
            self.stored.write(*name, cells as usize, &seen.fingerprints);
            let (chunk, version, fingerprints) = (name.chunk, name.version, &seen.fingerprints[..]);
            out.observe(&Observation::Image { chunk, version, fingerprints });
            self.images += 1;
        }
        self.turns.take(at, bytes);
        let (messages, under_way) = self.now.windows;
        self.now.windows = (messages + 1, under_way + bytes);
        Ok(Own::Write(partition, names))
    }

    pub(super) fn write_ended(&mut self, partition: u32, names: &[ChunkName]) {
        let cells: u64 = names.iter().map(|name| self.state.layout.chunk_cells(name)).sum();
        let bytes = cells * u64::from(self.config.cell_bytes);
        let (messages, under_way) = self.now.windows;
        self.now.windows = (messages - 1, under_way - bytes);
        names.iter().for_each(|name| self.stored.written(*name));
        let Some(job) = self.state.job_mut(partition) else { return };
        job.under_way -= 1;
        if job.windows.is_empty() && job.under_way == 0 {
            self.now.acknowledged.push((job.nth, partition));
        }
    }

    pub(super) fn barrier_is_due(&self) -> bool {
        !self.now.has_barrier && !self.now.acknowledged.is_empty()
    }

    /// A barrier leaves: it serves all that were acknowledged before it.
    pub(super) fn barrier(&mut self) -> Own {
        (self.now.served, self.now.has_barrier) =
            (std::mem::take(&mut self.now.acknowledged), true);
        Own::Barrier
    }

    /// They count in the order in which they were written.
    pub(super) fn barrier_ended(&mut self) {
        self.now.has_barrier = false;
        self.now.served.sort_unstable();
        self.now.written.extend(self.now.served.drain(..).map(|(_, partition)| partition));
    }

    /// What should have left by `at` and has not.
    pub(super) fn check_all_left(&mut self, at: Nanos) -> Step {
        if let Some(due) = self.next_due() {
            return fault(due.rule(), format!("{due:?} at once"), "nothing");
        }
        if self.config.clients && self.now.due_answers > 0 {
            return fault("reply-time", format!("{} answers", self.now.due_answers), "nothing");
        }
        if let Some(next) = self.next_write().filter(|_| self.turns.due(at) <= at) {
            return fault("level-whole", format!("what the jobs of {next:?} write"), "nothing");
        }
        match self.barrier_is_due() {
            true => fault("commit-after-barrier", "a barrier at once", "nothing"),
            false => Ok(()),
        }
    }
}
