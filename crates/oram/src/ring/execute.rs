//! Carrying out a plan: one message, every cell verified, payloads in place.
//!
//! A long message is sent in windows, the next while the one before is opened. Nothing is used
//! before every cell of all of them has verified. A plain read opens each cell,
//! dummies and stale blocks into a scratch buffer. An XORed path is one cell: the dummies on the
//! path are sealed again and cancelled, and what is left must open as the block sought, or be all
//! zero if none was; so a change of any cell of the path is caught, wherever the block was.

use fogbank_env::compute;
use fogbank_seal::{IncarnationKeys, KeyRing, TAG_BYTES};
use fogbank_store::{Cell, Store, StoreError};
use rayon::prelude::*;

use super::RingEngine;
use super::bucket::mark;
use super::plan::{Fetch, Plan, Reads};
use crate::canary::Canary;
use crate::geometry::BLOCK_ID_BYTES;
use crate::slab::Slab;
use crate::{Error, Result};

/// Cells that one core opens in a row.
const RUN_CELLS: usize = 64;

/// Cells that are loaded at once before they are opened; few enough to stay in the nearest cache.
const TOUCHED_CELLS: usize = 8;

impl RingEngine {
    /// Sends what is planned as one message, verifies every cell of the reply and fills payloads.
    pub(super) async fn fetch(&mut self) -> Result<()> {
        if !self.planner.plan.is_empty() {
            let plan = std::mem::replace(&mut self.planner.plan, std::mem::take(&mut self.spare));
            self.fetch_planned(&plan).await?;
            self.spare = plan;
            self.spare.clear();
        }
        self.planner.release_retired();
        Ok(())
    }

    async fn fetch_planned(&mut self, plan: &Plan) -> Result<()> {
        let (store, keys, slab) = (&*self.store, &*self.keys, &mut self.slab);
        let canary = &self.planner.canary;
        let mut windows = plan.cells.iter();
        let mut window = windows.next();
        let (cells, paths) = tokio::join!(read_cells(store, window), read_paths(store, plan));
        let (mut cells, paths) = (cells?, paths?);
        compute(|| {
            check_length(&paths, plan.path_ends.len())?;
            open_paths((keys, canary), plan, &paths, slab).into_result()
        })?;
        while let Some(here) = window {
            window = windows.next();
            let open = async {
                compute(|| {
                    check_length(&cells, here.fetches.len())?;
                    open_cells((keys, canary), &here.fetches, &cells, slab).into_result()
                })
            };
            let (next, opened) = tokio::join!(read_cells(store, window), open);
            opened?;
            cells = next?;
        }
        self.count_fetched(plan);
        Ok(())
    }

    fn count_fetched(&mut self, plan: &Plan) {
        let cells = plan.cell_count();
        self.moved.cells_read += (cells + plan.paths.fetches.len()) as u64;
        self.moved.cells_received += (cells + plan.path_ends.len()) as u64;
        self.moved.read_calls += 1;
    }
}

async fn read_cells(store: &dyn Store, window: Option<&Reads>) -> Result<Vec<Cell>> {
    match window {
        Some(reads) if !reads.is_empty() => store.read_cells(&reads.message).await.map_err(blame),
        _ => Ok(Vec::new()),
    }
}

async fn read_paths(store: &dyn Store, plan: &Plan) -> Result<Vec<Cell>> {
    match store.xor() {
        Some(xor) if !plan.paths.is_empty() => {
            xor.read_xor(&plan.paths.message, &plan.path_ends).await.map_err(blame)
        }
        _ => Ok(Vec::new()),
    }
}

/// A store's error by who is to blame for it.
pub(super) fn blame(error: StoreError) -> Error {
    match error {
        StoreError::Absent(reason) => Error::Absent(reason),
        StoreError::Misbehaved(_) => Error::CloudLied,
        StoreError::Caller(reason) => Error::Bug(reason),
    }
}

fn check_length(reply: &[Cell], expected: usize) -> Result<()> {
    if reply.len() == expected { Ok(()) } else { Err(Error::CloudLied) }
}

/// What verifies cells, and what may keep it from doing so in a test.
pub(super) type Verifier<'a> = (&'a KeyRing, &'a Canary);

/// What came of verifying cells; the worst of many counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Sound,
    /// It verifies, but holds another block than the metadata says: our fault.
    Misplaced,
    Forged,
}

impl Verdict {
    pub fn into_result(self) -> Result<()> {
        match self {
            Self::Sound => Ok(()),
            Self::Misplaced => Err(Error::Bug("a cell holds another block than planned".into())),
            Self::Forged => Err(Error::CloudLied),
        }
    }
}

/// Opens all cells on all cores, each to its payload or to a scratch buffer.
fn open_cells(by: Verifier<'_>, fetches: &[Fetch], cells: &[Cell], slab: &mut Slab) -> Verdict {
    let mut buffers: Vec<Box<[u8]>> = fetches.iter().map(|f| slab.take(f.payload)).collect();
    let plaintext_bytes = slab.buffer_bytes();
    let runs = buffers
        .par_chunks_mut(RUN_CELLS)
        .zip(fetches.par_chunks(RUN_CELLS))
        .zip(cells.par_chunks(RUN_CELLS));
    let open_run = |buffers: &mut [Box<[u8]>], fetches: &[Fetch], cells: &[Cell]| {
        let mut scratch = vec![0; plaintext_bytes];
        let mut worst = Verdict::Sound;
        for (at, (buffer, fetch)) in buffers.iter_mut().zip(fetches).enumerate() {
            if at % TOUCHED_CELLS == 0 {
                cells[at..].iter().take(TOUCHED_CELLS).for_each(touch);
            }
            let into = if buffer.is_empty() { &mut scratch[..] } else { &mut buffer[..] };
            worst = worst.max(open_cell(by, fetch, &cells[at], into));
        }
        worst
    };
    let opened = runs.map(|((buffers, fetches), cells)| open_run(buffers, fetches, cells));
    let worst = opened.max().unwrap_or(Verdict::Sound);
    for (fetch, buffer) in fetches.iter().zip(buffers) {
        slab.put(fetch.payload, buffer);
    }
    worst
}

pub(super) fn open_cell(
    by: Verifier<'_>,
    fetch: &Fetch,
    cell: &Cell,
    plaintext: &mut [u8],
) -> Verdict {
    let (keys, canary) = by;
    if canary.trusts(fetch.block) {
        return Verdict::Sound;
    }
    let (Cell::Bytes(sealed), Some(keys)) = (cell, keys.of(fetch.opening)) else {
        return Verdict::Forged;
    };
    if keys.cells().open(fetch.place, sealed, plaintext).is_err() {
        return Verdict::Forged;
    }
    check_id(fetch.block, plaintext)
}

/// Loads a byte of every cache line. Cells of a store in memory are cold, and the AEAD would wait for
/// one line after the other; the loads of several cells wait all at once.
fn touch(cell: &Cell) {
    let Cell::Bytes(cell) = cell else { return };
    std::hint::black_box(cell.iter().step_by(64).fold(0, |sum, byte| sum ^ byte));
}

fn check_id(block: u32, plaintext: &[u8]) -> Verdict {
    let expected = if block == mark::DUMMY { u64::MAX } else { u64::from(block) };
    let found = plaintext.first_chunk::<BLOCK_ID_BYTES>().map(|id| u64::from_le_bytes(*id));
    if block == mark::STALE || found == Some(expected) {
        Verdict::Sound
    } else {
        Verdict::Misplaced
    }
}

/// Opens all XORed paths on all cores.
fn open_paths(by: Verifier<'_>, plan: &Plan, replies: &[Cell], slab: &mut Slab) -> Verdict {
    let plaintext_bytes = slab.buffer_bytes();
    let starts = std::iter::once(0).chain(plan.path_ends.iter().copied());
    let mut paths: Vec<Path<'_>> = starts
        .zip(&plan.path_ends)
        .zip(replies)
        .map(|((start, end), reply)| {
            let fetches = &plan.paths.fetches[start as usize..*end as usize];
            let sought = fetches.iter().find(|fetch| fetch.block != mark::DUMMY);
            let payload = sought.map_or(Box::default(), |sought| slab.take(sought.payload));
            Path { fetches, reply, sought, payload }
        })
        .collect();
    let open_run = |run: &mut [Path<'_>]| {
        let mut rest = vec![0; plaintext_bytes + TAG_BYTES];
        let mut dummy = rest.clone();
        run.iter_mut().map(|path| path.open(by, &mut rest, &mut dummy)).max()
    };
    let worst = paths.par_chunks_mut(RUN_CELLS / 8).filter_map(open_run).max();
    for path in paths {
        if let Some(sought) = path.sought {
            slab.put(sought.payload, path.payload);
        }
    }
    worst.unwrap_or(Verdict::Sound)
}

/// One XORed path read and its reply.
struct Path<'a> {
    fetches: &'a [Fetch],
    reply: &'a Cell,
    sought: Option<&'a Fetch>,
    payload: Box<[u8]>,
}

impl Path<'_> {
    /// Cancels the dummies and opens what is left; `rest` and `dummy` are room for one cell each.
    fn open(&mut self, by: Verifier<'_>, rest: &mut [u8], dummy: &mut [u8]) -> Verdict {
        let (keys, canary) = by;
        let Cell::Bytes(reply) = self.reply else { return Verdict::Forged };
        if reply.len() != rest.len() {
            return Verdict::Forged;
        }
        rest.copy_from_slice(reply);
        for fetch in self.fetches.iter().filter(|fetch| fetch.block == mark::DUMMY) {
            let Some(keys) = keys.of(fetch.opening) else { return Verdict::Forged };
            seal_dummy(keys, fetch, dummy);
            rest.iter_mut().zip(&*dummy).for_each(|(rest, dummy)| *rest ^= dummy);
        }
        match self.sought {
            Some(sought) => {
                let Some(keys) = keys.of(sought.opening) else { return Verdict::Forged };
                match keys.cells().open(sought.place, rest, &mut self.payload) {
                    Ok(()) => check_id(sought.block, &self.payload),
                    Err(_) => Verdict::Forged,
                }
            }
            None if canary.trusts_xor() => Verdict::Sound,
            None if rest.iter().all(|byte| *byte == 0) => Verdict::Sound,
            None => Verdict::Forged,
        }
    }
}

fn seal_dummy(keys: &IncarnationKeys, fetch: &Fetch, cell: &mut [u8]) {
    cell.fill(0);
    cell[..BLOCK_ID_BYTES].copy_from_slice(&u64::MAX.to_le_bytes());
    keys.cells().seal(fetch.place, cell);
}
