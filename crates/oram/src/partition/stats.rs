//! What a `partition` engine has done since it was opened.

/// Figures since the engine was opened. The cloud can count all of them but those in `secret`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Accesses, padding included.
    pub accesses: u64,
    /// Jobs begun.
    pub jobs: u64,
    /// Cells that accesses asked for.
    pub cells_asked: u64,
    /// Cells that jobs read.
    pub cells_read: u64,
    /// Cells that jobs write.
    pub cells_written: u64,
    /// Orders given and not carried out now: what shuffling is behind.
    pub orders_open: u64,
    /// Checkpoints committed.
    pub checkpoints: u64,
    /// What the cloud must not learn.
    pub secret: SecretStats,
}

/// Figures that must not leave the trusted side.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SecretStats {
    /// Accesses whose block was under way.
    pub duplicates: u64,
    /// The most blocks that were in memory at once.
    pub blocks_max: usize,
}
