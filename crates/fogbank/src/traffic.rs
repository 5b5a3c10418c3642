//! What an epoch moves, from the public configuration alone: expected values once every bucket has
//! been written, reckoned level by level.
//!
//! At level l the tree has n = 2^l buckets. Evictions come every A accesses and take the buckets of
//! a level in turn, so after k of them min(k, n) have been rewritten in this epoch; these images
//! answer without a message. Therefore:
//!
//! - a read of a path asks for a cell of level l with probability 1 - min(k, n)/n;
//! - the j-th eviction of the epoch reads Z cells of level l if j <= n, and nothing otherwise;
//! - min(E, n) buckets of level l are written when the epoch ends, after E evictions;
//! - a bucket that serves S reads before its turn is reshuffled: Z cells and an image more. Reads
//!   of a bucket version are close to Poisson.
//!
//! Where an epoch begins between two evictions differs from epoch to epoch; the mean over phases is
//! taken.

use fogbank_oram::geometry::Geometry;
use fogbank_store::trace::VaultConfig;

use crate::config::StoreConfig;
use crate::error::Result;

/// Phases that the mean is taken over.
const PHASES: u32 = 32;

/// What an epoch moves on average. Cells are counted as the cloud sends or takes them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Cells that path reads ask for.
    pub path_cells: f64,
    /// Cells that evictions and early reshuffles read, Z at a time out of one bucket.
    pub rewrite_cells: f64,
    /// Those of them that fall due in the write batch.
    pub write_batch_cells: f64,
    /// Cells sent for path reads: fewer than asked for where the cloud XORs them.
    pub path_cells_sent: f64,
    /// Buckets written.
    pub buckets: f64,
    /// Journal records.
    pub records: f64,
    /// Bytes of each.
    pub record_bytes: f64,
    /// Pieces of the delta; 0 in an epoch that ends with a full checkpoint.
    pub delta_pieces: f64,
    /// Bytes of them all.
    pub delta_bytes: f64,
    /// Pieces of full checkpoints.
    pub full_pieces: f64,
    /// Bytes of them.
    pub full_bytes: f64,
    /// Bytes of the commit record.
    pub commit_bytes: f64,
}

impl Traffic {
    /// Expected traffic of an epoch of a store of this configuration.
    ///
    /// # Errors
    /// If the shape is out of the engine's limits.
    pub fn of(config: &StoreConfig) -> Result<Self> {
        let geometry = config.geometry()?;
        let mut traffic = Self::of_tree(config, &geometry);
        traffic.add_vault(config, &config.public_vault(config.encode().len())?);
        Ok(traffic)
    }

    /// Bytes that come from the cloud.
    pub fn bytes_read(&self, config: &StoreConfig) -> f64 {
        (self.path_cells_sent + self.rewrite_cells) * config.cell_bytes() as f64
    }

    /// Bytes that go there.
    pub fn bytes_written(&self, config: &StoreConfig) -> f64 {
        let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
        let buckets = self.buckets * slots * config.cell_bytes() as f64;
        let journal = self.records * self.record_bytes;
        buckets + journal + self.delta_bytes + self.full_bytes + self.commit_bytes
    }

    /// Bytes a second both ways when epochs run at the points of the grid; `None` if they run back
    /// to back.
    pub fn bytes_per_s(&self, config: &StoreConfig) -> Option<f64> {
        let epoch_s = config.epoch_ms() as f64 / 1000.0;
        let bytes = self.bytes_read(config) + self.bytes_written(config);
        (config.interval_ms > 0).then(|| bytes / epoch_s)
    }

    fn add_vault(&mut self, config: &StoreConfig, vault: &VaultConfig) {
        let journal = &vault.journal;
        // In one epoch of so many a full checkpoint is written in place of the delta.
        let full = 1.0 / journal.full_every.max(1) as f64;
        self.records = config.read_batches as f64 + 1.0;
        self.record_bytes = journal.record_bytes as f64;
        self.delta_pieces = (1.0 - full) * f64::from(journal.delta_pieces);
        self.delta_bytes = (1.0 - full)
            * pieces(
                journal.delta_pieces,
                journal.delta_piece_bytes,
                journal.delta_last_piece_bytes,
            );
        self.full_pieces = full * f64::from(vault.pieces);
        self.full_bytes = full * pieces(vault.pieces, vault.piece_bytes, vault.last_piece_bytes);
        self.commit_bytes = vault.commit_bytes as f64;
    }

    fn of_tree(config: &StoreConfig, geometry: &Geometry) -> Self {
        let z = f64::from(config.bucket_reals);
        let mut sum = Self::default();
        for level in geometry.cached_levels..geometry.tree.levels() {
            let level = Level::of(config, buckets_of(level));
            let rewritten = level.rewritten + level.early(config.bucket_dummies);
            sum.path_cells += level.path;
            sum.rewrite_cells += z * rewritten;
            sum.write_batch_cells += z * (level.rewritten - level.rewritten_by_reads);
            sum.buckets += rewritten;
        }
        sum.path_cells_sent = match config.xor {
            true => (config.read_batches * config.batch) as f64,
            false => sum.path_cells,
        };
        sum
    }
}

fn buckets_of(level: u8) -> f64 {
    2f64.powi(level.into())
}

/// What an epoch does at one level.
#[derive(Debug, Clone, Copy, Default)]
pub struct Level {
    /// Cells that path reads ask for.
    pub path: f64,
    /// Buckets that evictions rewrite.
    rewritten: f64,
    /// Those of them that fall due in read batches.
    rewritten_by_reads: f64,
}

/// Bytes of a checkpoint in pieces.
fn pieces(count: u32, each: u64, last: u64) -> f64 {
    f64::from(count.saturating_sub(1)) * each as f64 + last as f64
}

impl Level {
    /// All levels in the cloud and how many buckets each has.
    pub fn all(config: &StoreConfig) -> Vec<(f64, Self)> {
        let levels = config.geometry().map_or(0..0, |g| g.cached_levels..g.tree.levels());
        levels.map(buckets_of).map(|n| (n, Self::of(config, n))).collect()
    }

    /// The mean over phases at the level of `n` buckets.
    fn of(config: &StoreConfig, n: f64) -> Self {
        let every = f64::from(config.evict_every);
        let reads = (config.read_batches * config.batch) as f64;
        let accesses = reads + config.write_batch as f64;
        let mut sum = Self::default();
        for phase in 0..PHASES {
            // Accesses from the begin of the epoch to its first eviction.
            let first = (f64::from(phase) + 0.5) / f64::from(PHASES) * every;
            let evictions_by = |access: f64| ((access - first) / every + 1.0).floor().max(0.0);
            let (mut at, mut k) = (0.0, 0.0);
            while at < reads {
                let next = (first + k * every).min(reads);
                sum.path += (next - at) * (1.0 - (k / n).min(1.0));
                (at, k) = (next, k + 1.0);
            }
            sum.rewritten += evictions_by(accesses).min(n);
            sum.rewritten_by_reads += evictions_by(reads).min(n);
        }
        let phases = f64::from(PHASES);
        Self {
            path: sum.path / phases,
            rewritten: sum.rewritten / phases,
            rewritten_by_reads: sum.rewritten_by_reads / phases,
        }
    }

    /// Buckets that are reshuffled before their turn: a version that evictions retire has served
    /// path/rewritten reads on average.
    fn early(&self, dummies: u16) -> f64 {
        if self.rewritten == 0.0 {
            return 0.0;
        }
        self.rewritten * poisson_from(self.path / self.rewritten, dummies)
    }
}

/// Pr[Poisson(mean) >= k].
fn poisson_from(mean: f64, k: u16) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    let mut log_term = -mean;
    let mut below = 0.0;
    for i in 0..u32::from(k) {
        below += log_term.exp();
        log_term += mean.ln() - f64::from(i + 1).ln();
    }
    (1.0 - below).max(0.0)
}
