//! The `shape` file of an array: lines `name=number`, readable by eye.

use std::path::Path;

use super::disk::{read_small, write_new_file};
use crate::{ArrayShape, Result, StoreError};

/// Writes `shape` to a new file.
pub(super) fn write_shape(path: &Path, shape: ArrayShape) -> Result<()> {
    let ArrayShape { chunks, cells_per_chunk: cells, cell_bytes: bytes } = shape;
    let text =
        format!("format={FORMAT}\nchunks={chunks}\ncells_per_chunk={cells}\ncell_bytes={bytes}\n");
    write_new_file(path, text.as_bytes())
}

/// Reads what [`write_shape`] wrote.
pub(super) fn read_shape(path: &Path) -> Result<ArrayShape> {
    let damaged = || StoreError::Misbehaved(format!("{} is no array's shape", path.display()));
    let bytes = read_small(path)?.ok_or_else(damaged)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
    let number = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line?.parse().ok()
    };
    let format = number("format").ok_or_else(damaged)?;
    if format != FORMAT {
        return Err(StoreError::Misbehaved(format!(
            "{} has format {format}; this build knows format {FORMAT}: it was changed, or a newer \
             version \
             of fogbank made it",
            path.display()
        )));
    }
    let read = || {
        Some(ArrayShape {
            chunks: number("chunks")?.try_into().ok()?,
            cells_per_chunk: number("cells_per_chunk")?.try_into().ok()?,
            cell_bytes: number("cell_bytes")?.try_into().ok()?,
        })
    };
    read().filter(|shape| shape.check().is_ok()).ok_or_else(damaged)
}

const FORMAT: u64 = 1;
