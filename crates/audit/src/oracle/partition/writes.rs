//! Jobs: what they read, what they write, and the barrier behind it.
//!
//! 1. A job reads of every source what its quota lacks.
//! 2. When its cells have come, and those of accesses to its partition cut before it, its
//!    destinations are written, one job after the other, in messages of a public size: what several
//!    have to write goes into one as long as that is shorter. So many are under way at once, and no
//!    further one while they have so many bytes.
//! 3. When all of it was written there is a barrier, for all that were before it.

use std::collections::VecDeque;

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::ChunkSeen;

use super::job::{Came, Job, Phase};
use super::layout::name;
use super::{CellSeen, Own, Partition};
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::turns::check_turn;
use crate::oracle::shape::below;
use crate::{Observation, Observer};

impl Partition {
    /// A message of the job of `partition` reads these cells. They are a set, drawn at once: in an
    /// order drawn here each is uniform among those left, exactly if the set is among all of its
    /// size.
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
        messages == 0
            || (messages < self.config.windows.into() && bytes < self.config.bytes_at_once)
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

    /// The partitions of which any may write the next message, or the first of it.
    pub(super) fn next_write(&self) -> Option<Vec<u32>> {
        self.next_windows().filter(|_| self.may_write())
    }

    /// The partitions of which any has what is written next: that whose job has begun, or those
    /// that could first. On a grid that is one.
    pub(super) fn next_windows(&self) -> Option<Vec<u32>> {
        let open = self.open_windows();
        let (first, _) = open.first()?;
        Some(open.iter().take_while(|(order, _)| order == first).map(|(_, p)| *p).collect())
    }

    /// Partitions whose jobs have windows that have not left, in their order.
    pub(super) fn open_windows(&self) -> Vec<((bool, Came, u32), u32)> {
        let open = |(partition, counters): (u32, &super::Counters)| {
            let job = counters.job.as_ref().filter(|job| !job.windows.is_empty())?;
            let (at, record, nth) = job.came;
            let (came, tie) = match self.config.quantum_ns {
                0 => ((at, 0, 0), 0),
                _ => ((at, record, nth), partition),
            };
            Some(((!job.has_begun(), came, tie), partition))
        };
        let mut open: Vec<_> = (0..).zip(&self.state.partitions).filter_map(open).collect();
        open.sort_unstable();
        open
    }

    /// A message of what is written leaves at `at`.
    pub(super) fn write(
        &mut self,
        at: Nanos,
        writes: &[(ChunkName, ChunkSeen)],
        out: &mut dyn Observer,
    ) -> Step<Own> {
        if !self.may_write() {
            let due = format!("the end of a message before: {:?} are under way", self.now.windows);
            return fault("level-whole", due, format!("{:x?}", writes.first()));
        }
        check_turn(self.turns.due(at), at)?;
        let (mut windows, mut rest, mut bytes) = (Vec::new(), writes, 0);
        while windows.is_empty() || (bytes < self.config.window_bytes && !rest.is_empty()) {
            let (partition, names) = self.next_window(rest)?;
            let own;
            (own, rest) = rest.split_at(names.len());
            for (name, seen) in own {
                bytes += self.write_chunk(*name, seen, out)?;
            }
            windows.push((partition, names));
        }
        let has_room = bytes < self.config.window_bytes;
        let next = self.next_windows().filter(|next| has_room && self.is_in_time(next, at));
        if !rest.is_empty() || next.is_some() {
            let due = next.map_or("nothing more in it".into(), |next| format!("{next:?} as well"));
            return fault("level-whole", due, format!("{} chunks", writes.len()));
        }
        self.turns.take(at, bytes);
        let (messages, under_way) = self.now.windows;
        self.now.windows = (messages + 1, under_way + bytes);
        Ok(Own::Write(windows))
    }

    /// Whether what jobs of these partitions write is there for a message of `at`: without points,
    /// what gets whole within the instant may be too late for it.
    fn is_in_time(&self, partitions: &[u32], at: Nanos) -> bool {
        let is_there = |job: &Job| job.has_begun() || job.came.0 < at;
        let mut jobs = partitions.iter().filter_map(|partition| self.state.job(*partition));
        self.config.quantum_ns > 0 || jobs.any(is_there)
    }

    /// The window of a job that comes first of these chunks: its partition, and what is due in it.
    fn next_window(&mut self, writes: &[(ChunkName, ChunkSeen)]) -> Step<(u32, Vec<ChunkName>)> {
        let seen = || format!("{:x?}", writes.first().map(|(name, _)| name));
        let first = writes.first().and_then(|(name, _)| self.state.layout.level_of(name));
        let partition = first.map_or(u32::MAX, |(partition, _)| partition);
        let Some(next) = self.next_windows().filter(|next| next.contains(&partition)) else {
            let rule = match (self.state.job(partition).map(|job| job.step), self.next_due()) {
                (Some(Phase::Reading), Some(due)) => due.rule(),
                (Some(Phase::Reading | Phase::Come), _) => "early-cell",
                _ => "level-whole",
            };
            return fault(rule, format!("what is due of {:?}", self.next_windows()), seen());
        };
        let Some(job) = self.state.job_mut(partition) else {
            return fault("level-whole", format!("{next:?}"), seen());
        };
        if !job.has_begun() {
            (job.nth, self.now.begun) = (self.now.begun, self.now.begun + 1);
        }
        let names = job.windows.pop_front().unwrap_or_default();
        job.under_way += 1;
        job.sent += 1;
        let own = writes.iter().map(|(name, _)| name).take(names.len());
        match own.eq(&names) {
            true => Ok((partition, names)),
            false => {
                fault("level-whole", format!("{names:x?}"), format!("{} chunks", writes.len()))
            }
        }
    }

    /// A chunk leaves, whole; its bytes.
    fn write_chunk(
        &mut self,
        name: ChunkName,
        seen: &ChunkSeen,
        out: &mut dyn Observer,
    ) -> Step<u64> {
        let cells = self.state.layout.chunk_cells(&name);
        let due = cells * u64::from(self.config.cell_bytes);
        if seen.bytes != due {
            return fault("level-whole", format!("{due} bytes"), format!("{}", seen.bytes));
        }
        self.stored.write(name, cells as usize, &seen.fingerprints);
        let (chunk, version, fingerprints) = (name.chunk, name.version, &seen.fingerprints[..]);
        out.observe(&Observation::Image { chunk, version, fingerprints });
        self.images += 1;
        Ok(due)
    }

    pub(super) fn write_ended(&mut self, windows: &[(u32, Vec<ChunkName>)]) {
        let names = windows.iter().flat_map(|(_, names)| names);
        let cells: u64 = names.clone().map(|name| self.state.layout.chunk_cells(name)).sum();
        let bytes = cells * u64::from(self.config.cell_bytes);
        let (messages, under_way) = self.now.windows;
        self.now.windows = (messages - 1, under_way - bytes);
        names.for_each(|name| self.stored.written(*name));
        for (partition, _) in windows {
            let Some(job) = self.state.job_mut(*partition) else { continue };
            job.under_way -= 1;
            if job.windows.is_empty() && job.under_way == 0 {
                self.now.acknowledged.push((job.nth, *partition));
            }
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
