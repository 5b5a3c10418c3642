//! Opening what has arrived: every cell verified, on all cores.
//!
//! A plain read opens each cell, dummies and stale blocks into a scratch buffer. An XORed path is
//! one cell: the dummies on the path are sealed again and cancelled, and what is left must open as
//! the block sought, or be all zero if none was; so a change of any cell of the path is caught,
//! wherever the block was.

use std::cmp::Reverse;

use fogbank_seal::{IncarnationKeys, KeyRing, TAG_BYTES};
use fogbank_store::Cell;
use rayon::prelude::*;

use super::bucket::mark;
use super::canary::Trust;
use super::plan::Fetch;
use crate::geometry::BLOCK_ID_BYTES;
use crate::{Error, Result, Unverified};

/// Cells that one core opens in a row.
const RUN_CELLS: usize = 64;

/// Cells that are loaded at once before they are opened; few enough to stay in the nearest cache.
const TOUCHED_CELLS: usize = 8;

/// What verifies cells, and what may keep it from doing so in a test.
pub(super) type Verifier<'a> = (&'a KeyRing, Trust);

/// What came of verifying cells; the worst of many counts, and of those forged the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Sound,
    /// It verifies, but holds another block than the metadata says: our fault.
    Misplaced,
    /// The cell, or the path, of this number in the message.
    Forged(Reverse<usize>),
}

impl Verdict {
    fn forged(at: usize) -> Self {
        Self::Forged(Reverse(at))
    }

    /// `place` says where a cell or path of the message is.
    pub fn into_result(self, place: impl FnOnce(usize) -> Unverified) -> Result<()> {
        match self {
            Self::Sound => Ok(()),
            Self::Misplaced => Err(Error::Bug("a cell holds another block than planned".into())),
            Self::Forged(Reverse(at)) => Err(Error::CloudLied(place(at))),
        }
    }
}

/// Opens all cells on all cores, each to its payload or, where that is empty, to a scratch buffer
/// of `plaintext_bytes`. There are as many cells and payloads as fetches.
pub(super) fn open_cells(
    by: Verifier<'_>,
    fetches: &[Fetch],
    cells: &[Cell],
    payloads: &mut [Box<[u8]>],
    plaintext_bytes: usize,
) -> Verdict {
    let runs = payloads
        .par_chunks_mut(RUN_CELLS)
        .zip(fetches.par_chunks(RUN_CELLS))
        .zip(cells.par_chunks(RUN_CELLS));
    let open_run = |run: usize, buffers: &mut [Box<[u8]>], fetches: &[Fetch], cells: &[Cell]| {
        let mut scratch = vec![0; plaintext_bytes];
        let mut worst = Verdict::Sound;
        for (at, (buffer, fetch)) in buffers.iter_mut().zip(fetches).enumerate() {
            if at % TOUCHED_CELLS == 0 {
                cells[at..].iter().take(TOUCHED_CELLS).for_each(touch);
            }
            let into = if buffer.is_empty() { &mut scratch[..] } else { &mut buffer[..] };
            worst = worst.max(open_cell(by, (run * RUN_CELLS + at, fetch), &cells[at], into));
        }
        worst
    };
    let opened = runs
        .enumerate()
        .map(|(run, ((buffers, fetches), cells))| open_run(run, buffers, fetches, cells));
    opened.max().unwrap_or(Verdict::Sound)
}

/// Opens a cell of a message, which is `at` in it.
pub(super) fn open_cell(
    by: Verifier<'_>,
    (at, fetch): (usize, &Fetch),
    cell: &Cell,
    plaintext: &mut [u8],
) -> Verdict {
    let (keys, trust) = by;
    if trust.cell(fetch.block) {
        return Verdict::Sound;
    }
    let (Cell::Bytes(sealed), Some(keys)) = (cell, keys.of(fetch.opening)) else {
        return Verdict::forged(at);
    };
    if keys.cells().open(fetch.place, sealed, plaintext).is_err() {
        return Verdict::forged(at);
    }
    check_id(fetch.block, plaintext)
}

/// Loads a byte of every cache line. Cells of a store in memory are cold, and the AEAD would wait
/// for one line after the other; the loads of several cells wait all at once.
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

/// Opens all XORed paths on all cores: `paths` are fetches and where in them each path ends,
/// `payloads` as for [`open_cells`]. There are as many replies as paths.
pub(super) fn open_paths(
    by: Verifier<'_>,
    paths: (&[Fetch], &[u32]),
    replies: &[Cell],
    mut payloads: &mut [Box<[u8]>],
    plaintext_bytes: usize,
) -> Verdict {
    let (fetches, ends) = paths;
    let mut paths = Vec::with_capacity(ends.len());
    let mut start = 0;
    for (at, (end, reply)) in ends.iter().zip(replies).enumerate() {
        let end = *end as usize;
        let (of_path, rest) = payloads.split_at_mut(end - start);
        let fetches = &fetches[start..end];
        let sought = fetches.iter().zip(of_path).find(|(fetch, _)| fetch.block != mark::DUMMY);
        paths.push(Path { at, fetches, reply, sought });
        (payloads, start) = (rest, end);
    }
    let open_run = |run: &mut [Path<'_>]| {
        let mut rest = vec![0; plaintext_bytes + TAG_BYTES];
        let mut dummy = rest.clone();
        run.iter_mut().map(|path| path.open(by, &mut rest, &mut dummy)).max()
    };
    let worst = paths.par_chunks_mut(RUN_CELLS / 8).filter_map(open_run).max();
    worst.unwrap_or(Verdict::Sound)
}

/// One XORed path read and its reply.
struct Path<'a> {
    /// Which path of the message.
    at: usize,
    fetches: &'a [Fetch],
    reply: &'a Cell,
    sought: Option<(&'a Fetch, &'a mut Box<[u8]>)>,
}

impl Path<'_> {
    /// Cancels the dummies and opens what is left; `rest` and `dummy` are room for one cell each.
    fn open(&mut self, by: Verifier<'_>, rest: &mut [u8], dummy: &mut [u8]) -> Verdict {
        let (keys, trust) = by;
        let forged = Verdict::forged(self.at);
        let Cell::Bytes(reply) = self.reply else { return forged };
        if reply.len() != rest.len() {
            return forged;
        }
        rest.copy_from_slice(reply);
        for fetch in self.fetches.iter().filter(|fetch| fetch.block == mark::DUMMY) {
            let Some(keys) = keys.of(fetch.opening) else { return forged };
            seal_dummy(keys, fetch, dummy);
            rest.iter_mut().zip(&*dummy).for_each(|(rest, dummy)| *rest ^= dummy);
        }
        match &mut self.sought {
            Some((sought, payload)) => {
                let Some(keys) = keys.of(sought.opening) else { return forged };
                match keys.cells().open(sought.place, rest, payload) {
                    Ok(()) => check_id(sought.block, payload),
                    Err(_) => forged,
                }
            }
            None if trust.xor() => Verdict::Sound,
            None if rest.iter().all(|byte| *byte == 0) => Verdict::Sound,
            None => forged,
        }
    }
}

fn seal_dummy(keys: &IncarnationKeys, fetch: &Fetch, cell: &mut [u8]) {
    cell.fill(0);
    cell[..BLOCK_ID_BYTES].copy_from_slice(&u64::MAX.to_le_bytes());
    keys.cells().seal(fetch.place, cell);
}
