//! What a proxy of `partition` does next, if all that is free is drawn as its law says: partitions
//! of accesses uniform, cells uniform among those unread. All else is as the machine has it due.

use std::collections::BTreeMap;

use fogbank_env::Stream;
use fogbank_store::ChunkName;
use fogbank_store::trace::{ChunkSeen, Request};

use super::accesses::{Record, Shown};
use super::layout::{Layout, name};
use super::{CellSeen, Due, Partition, Pyramid, READS_NOTHING, grouped};
use crate::oracle::immediate::acts::{Act, Acting};
use crate::oracle::shape::below;

impl Acting for Partition {
    fn next_read(&mut self) -> Option<Act> {
        let cells = match self.next_due()? {
            Due::Lacking(_) => self.now.replay.lacking.front()?.1.clone(),
            due => {
                self.begin_front();
                let front = self.now.records.front()?;
                let known = self.journal.get(&front.name).map(|record| &record.shown[..]);
                match (known.and_then(|shown| shown.get(front.seen)), due) {
                    (Some(Shown::Mark(number)), _) => {
                        return Some(Act::Says(READS_NOTHING, *number));
                    }
                    (Some(Shown::Cells(cells)), _) => cells.clone(),
                    (None, Due::Job(partition)) => self.draw_job(partition),
                    (None, _) => match self.draw_accesses() {
                        (Some(mark), _) => return Some(Act::Says(READS_NOTHING, mark)),
                        (None, cells) => cells,
                    },
                }
            }
        };
        let layout = self.state.layout;
        let cells: Vec<_> = cells.into_iter().map(|cell| layout.chunk_of(cell)).collect();
        Some(Act::Sends(Request::ReadCells { reads: grouped(&cells) }))
    }

    fn next_own(&mut self) -> Option<Act> {
        self.all_come_silent();
        if let Some(write) = self.next_written() {
            return Some(write);
        }
        if self.barrier_is_due() {
            return Some(Act::Sends(Request::Barrier));
        }
        let (connection, number) =
            self.now.unanswered.front().filter(|_| self.now.due_answers > 0)?;
        Some(Act::Answers(*connection, *number))
    }

    fn parts_due(&self, ends: bool) -> usize {
        let (commits, accesses) = self.parts_at_hand(ends);
        commits + self.state.clone().begin_jobs(self.budget()).len() + accesses
    }

    fn counts(&self, name: &ChunkName) -> bool {
        self.state.is_current(name)
    }
}

impl Partition {
    /// The accesses of the first record, drawn together: the number of the next mark of one that
    /// reads nothing, or the cells of the others.
    fn draw_accesses(&mut self) -> (Option<u64>, Vec<CellSeen>) {
        let Some(front) = self.now.records.front() else { return (None, Vec::new()) };
        if front.drawn.is_none() {
            let (mut random, mut touched) = (self.random.clone(), BTreeMap::new());
            let drawn = (0..front.accesses).map(|nth| {
                let partition = self.draw_partition(front, nth, &touched, &mut random);
                let pyramid = of(&self.pyramids, &mut touched, partition);
                let cells = draw_cells(&self.state.layout, pyramid, partition, &mut random);
                pyramid.given += 1;
                if let Some(also) = front.also.get(nth).copied().flatten() {
                    of(&self.pyramids, &mut touched, also).given += 1;
                }
                (partition, cells)
            });
            let drawn = Some(drawn.collect());
            self.random = random;
            self.now.records.front_mut().into_iter().for_each(|front| front.drawn = drawn.clone());
        }
        let Some(front) = self.now.records.front() else { return (None, Vec::new()) };
        let from = front.marked.back().map_or(0, |(nth, _)| nth + 1);
        let drawn = front.drawn.as_deref().unwrap_or_default();
        let is_silent = |nth: &usize| drawn[*nth].1.is_empty();
        let silent = (from..drawn.len()).find(is_silent);
        let mark = silent.map(|nth| (nth as u64) << 32 | u64::from(drawn[nth].0));
        (mark, drawn.iter().flat_map(|(_, cells)| cells).copied().collect())
    }

    /// That of the access with this place in the record: uniform, as far as no mark says it.
    /// Accesses before a mark that have none read something.
    fn draw_partition(
        &self,
        front: &Record,
        nth: usize,
        touched: &BTreeMap<u32, Pyramid>,
        random: &mut Stream,
    ) -> u32 {
        if let Some((_, marked)) = front.marked.iter().find(|(at, _)| *at == nth) {
            return *marked;
        }
        let is_before_mark = front.marked.back().is_some_and(|(at, _)| nth < *at);
        loop {
            let partition = below(random, self.config.partitions);
            let pyramid = touched.get(&partition).unwrap_or(&self.pyramids[partition as usize]);
            if !is_before_mark || !pyramid.shows(&self.state.layout).is_empty() {
                return partition;
            }
        }
    }

    /// Of every source of the job, so many cells: a uniform set.
    fn draw_job(&mut self, partition: u32) -> Vec<CellSeen> {
        let reads = self.state.job(partition).map(|job| job.reads.clone()).unwrap_or_default();
        let mut cells = Vec::new();
        for (level, count) in reads {
            let held = &self.pyramids[partition as usize].levels[usize::from(level)];
            let Some(mut held) = held.clone() else { continue };
            let chunk = name(partition, level, held.version);
            let mut set: Vec<u16> = (0..count).map(|_| held.draw(&mut self.random)).collect();
            set.sort_unstable();
            cells.extend(set.into_iter().map(|cell| (chunk, cell)));
        }
        cells
    }

    fn next_written(&self) -> Option<Act> {
        self.next_write()?;
        let windows = self.open_windows().into_iter().filter_map(|(_, p)| self.state.job(p));
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for chunks in windows.flat_map(|job| &job.windows) {
            for chunk in chunks {
                let due = self.state.layout.chunk_cells(chunk) * u64::from(self.config.cell_bytes);
                bytes += due;
                writes.push((*chunk, ChunkSeen { bytes: due, fingerprints: Vec::new() }));
            }
            if bytes >= self.config.window_bytes {
                break;
            }
        }
        Some(Act::Sends(Request::WriteChunks { writes }))
    }
}

/// A partition as it will be when all has been read that is drawn so far.
fn of<'a>(
    all: &[Pyramid],
    touched: &'a mut BTreeMap<u32, Pyramid>,
    partition: u32,
) -> &'a mut Pyramid {
    touched.entry(partition).or_insert_with(|| all[partition as usize].clone())
}

/// A cell of every level that an access shows.
fn draw_cells(
    layout: &Layout,
    pyramid: &mut Pyramid,
    partition: u32,
    random: &mut Stream,
) -> Vec<CellSeen> {
    let levels = pyramid.shows(layout);
    let cell = |level: u8| {
        let held = pyramid.levels[usize::from(level)].as_ref()?;
        let (chunk, cell) = (name(partition, level, held.version), held.clone().draw(random));
        let _taken = pyramid.read(layout, level, cell);
        Some((chunk, cell))
    };
    levels.into_iter().filter_map(cell).collect()
}
