//! The XOR of cells: computed by a back end that offers it, or here when none does.
//!
//! What the cloud sees is the same request either way, except that without its help every cell
//! travels; whether it helps is public.

use bytes::Bytes;

use crate::shape::check_groups;
use crate::{Cell, CellReads, Result, Store, StoreError};

/// Asks the store for the XOR of each group, or reads the cells and folds them here.
///
/// The answer is the same in both cases; only the bytes on the way differ.
pub async fn read_xor_or_fold<S: Store + ?Sized>(
    store: &S,
    reads: &CellReads,
    groups: &[u32],
) -> Result<Vec<Cell>> {
    match store.xor() {
        Some(offer) => offer.read_xor(reads, groups).await,
        None => {
            check_groups(reads, groups)?;
            fold(reads, groups, &store.read_cells(reads).await?)
        }
    }
}

/// Folds the reply to `reads` into one cell a group.
pub(crate) fn fold(reads: &CellReads, groups: &[u32], cells: &[Cell]) -> Result<Vec<Cell>> {
    if cells.len() != reads.cell_count() {
        return Err(StoreError::Misbehaved("a reply with another number of cells".into()));
    }
    let mut folded = Vec::with_capacity(groups.len());
    let (mut read, mut cell) = (0, 0);
    for &group in groups {
        let first = cell;
        while read < group as usize {
            cell += reads.get(read).cells.len();
            read += 1;
        }
        folded.push(fold_group(&cells[first..cell])?);
    }
    Ok(folded)
}

fn fold_group(cells: &[Cell]) -> Result<Cell> {
    let mut sum: Vec<u8> = Vec::new();
    let mut written = true;
    for (index, cell) in cells.iter().enumerate() {
        match cell {
            Cell::NotWritten => written = false,
            Cell::Bytes(bytes) if index == 0 => sum.extend_from_slice(bytes),
            Cell::Bytes(bytes) if !written || bytes.len() == sum.len() => {
                if written {
                    xor_into(&mut sum, bytes);
                }
            }
            Cell::Bytes(_) => {
                return Err(StoreError::Caller("the XOR of cells of different lengths".into()));
            }
        }
    }
    Ok(if written { Cell::Bytes(Bytes::from(sum)) } else { Cell::NotWritten })
}

/// `sum ^= cell`, over the shorter of the two, in lanes of 64 bits.
pub fn xor_into(sum: &mut [u8], cell: &[u8]) {
    let length = sum.len().min(cell.len());
    let (sum, cell) = (&mut sum[..length], &cell[..length]);
    let mut sums = sum.chunks_exact_mut(8);
    let mut cells = cell.chunks_exact(8);
    for (s, c) in (&mut sums).zip(&mut cells) {
        let (mut a, mut b) = ([0; 8], [0; 8]);
        a.copy_from_slice(s);
        b.copy_from_slice(c);
        s.copy_from_slice(&(u64::from_ne_bytes(a) ^ u64::from_ne_bytes(b)).to_ne_bytes());
    }
    for (s, c) in sums.into_remainder().iter_mut().zip(cells.remainder()) {
        *s ^= c;
    }
}
