//! The public configuration of a site, and of which kind the specification follows it: a trace
//! comes from anywhere, and its head must not buy hours or memory.

use serde::{Deserialize, Serialize};

use crate::oracle::fault::Refused;

/// The tail of the public configuration, the same in the traces of all clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HierarchyConfig {
    /// N.
    pub blocks: u32,
    /// T.
    pub epoch: u32,
    /// G.
    pub growth: u32,
    /// M.
    pub draw: u32,
    /// Slots of a table that one piece of a build has before it.
    pub piece: u32,
    /// Cells of a chunk, at most.
    pub chunk_cells: u32,
    /// R.
    pub kept_epochs: u32,
    /// Whether the site was made of what another held.
    pub has_image: bool,
    /// After how long without a result another does a query's steps.
    pub public_ns: u64,
    /// Messages leave at multiples of this; 0 if they leave as soon as they can.
    pub quantum_ns: u64,
    /// Bytes of an entry as it is appended.
    pub entry_bytes: u64,
    /// Bytes of a result as it is published.
    pub result_bytes: u64,
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// Bytes that a seal adds to an object.
    pub sealed_bytes: u64,
    /// Bytes of the chunks of one request of a build, at most, but for one chunk.
    pub request_bytes: u32,
}

impl HierarchyConfig {
    /// Whether there can be such a site.
    pub(super) fn check(&self) -> Result<(), Refused> {
        let Self { blocks, epoch, growth, draw, piece, chunk_cells, .. } = *self;
        let fits = (1..=1 << 26).contains(&blocks)
            && (2..=16).contains(&growth)
            && (1..=1 << 16).contains(&epoch)
            && draw > 0
            && epoch.is_multiple_of(draw);
        let cut = (1..=1 << 16).contains(&chunk_cells)
            && piece >= chunk_cells
            && (piece == chunk_cells || piece.is_multiple_of(chunk_cells))
            // Fewer ranges of a table than would take long to go through.
            && blocks / piece < 1 << 12;
        let bytes = (1..=1 << 24).contains(&self.cell_bytes) && self.kept_epochs > 0;
        if fits && cut && bytes { Ok(()) } else { Err(Refused("a shape that no site has".into())) }
    }
}
