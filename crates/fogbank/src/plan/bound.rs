//! The bound to compare with: authenticated encryption of the same cells and one copy of each, on
//! the same cores, over a buffer as large as an epoch.

use std::sync::Arc;

use fogbank_env::{Clock, compute};
use fogbank_seal::{CellKey, IncarnationKeys, MasterKey, Place, Salt, StoreId, TAG_BYTES};
use rayon::prelude::*;

/// Cells that one core takes in a row.
const RUN_CELLS: usize = 64;

/// What an epoch moves.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    /// Cells opened.
    pub opened: usize,
    /// Cells sealed.
    pub sealed: usize,
    /// Bytes of each.
    pub cell_bytes: usize,
}

/// Seconds that opening, sealing and copying `moved` takes at the least: the best of `rounds`.
pub fn seconds(clock: &Arc<dyn Clock>, moved: Moved, rounds: usize) -> f64 {
    let keys = IncarnationKeys::derive(
        &MasterKey::from_bytes(&mut [1; 32]),
        StoreId([2; 16]),
        Salt([3; 16]),
    );
    let mut cells = vec![0; (moved.opened + moved.sealed) * moved.cell_bytes];
    let mut copy = vec![0; cells.len()];
    compute(|| {
        seal_all(keys.cells(), &mut cells, moved.cell_bytes);
        let best = (0..rounds).map(|_| {
            let started = clock.now();
            let (opened, sealed) = cells.split_at_mut(moved.opened * moved.cell_bytes);
            open_all(keys.cells(), opened, moved.cell_bytes);
            seal_all(keys.cells(), sealed, moved.cell_bytes);
            copy_all(&cells, &mut copy, moved.cell_bytes);
            (clock.now() - started) as f64 / 1e9
        });
        best.fold(f64::INFINITY, f64::min)
    })
}

fn place(index: usize) -> Place {
    Place { array: 0, chunk: index as u32, cell: 0, tick: 1 }
}

fn seal_all(key: &CellKey, cells: &mut [u8], cell_bytes: usize) {
    let runs = cells.par_chunks_mut(RUN_CELLS * cell_bytes).enumerate();
    runs.for_each(|(run, cells)| {
        for (i, cell) in cells.chunks_exact_mut(cell_bytes).enumerate() {
            key.seal(place(run * RUN_CELLS + i), cell);
        }
    });
}

/// Opens into one buffer a core; that the cells verify is not the question here.
fn open_all(key: &CellKey, cells: &[u8], cell_bytes: usize) {
    let runs = cells.par_chunks(RUN_CELLS * cell_bytes).enumerate();
    runs.for_each_init(
        || vec![0; cell_bytes - TAG_BYTES],
        |plaintext, (run, cells)| {
            for (i, cell) in cells.chunks_exact(cell_bytes).enumerate() {
                let _ = key.open(place(run * RUN_CELLS + i), cell, plaintext);
            }
        },
    );
}

fn copy_all(from: &[u8], to: &mut [u8], cell_bytes: usize) {
    let bytes = RUN_CELLS * cell_bytes;
    from.par_chunks(bytes).zip(to.par_chunks_mut(bytes)).for_each(|(from, to)| {
        to.copy_from_slice(from);
    });
}
