//! The public configuration in the head of a trace: all that a reader of it needs to know what the
//! traffic ought to look like. Nothing in it is secret; the cloud could work out most of it.

use serde::{Deserialize, Serialize};

/// What the head of a trace says about the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicConfig {
    /// Whether departures are exact to the nanosecond.
    pub clock: TraceClock,
    /// The engine and its shape.
    #[serde(flatten)]
    pub engine: EngineConfig,
}

/// What clock the times of a trace are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceClock {
    /// The machine's: departures come a little after their points.
    Real,
    /// A simulated one: departures are their points.
    Virtual,
}

/// Which engine ran, and its public shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "engine", rename_all = "lowercase")]
pub enum EngineConfig {
    /// Obladi's batch-parallel Ring ORAM.
    Ring(RingConfig),
    /// TaoStore's asynchronous Path ORAM.
    Tao(TaoConfig),
}

/// The public shape of a `ring` store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingConfig {
    /// Logical blocks.
    pub capacity: u32,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// R: read batches of an epoch.
    pub read_batches: u32,
    /// Path reads of a read batch.
    pub read_batch: u32,
    /// Slots of a write batch.
    pub write_batch: u32,
    /// The points of the epochs' grid are multiples of this; 0 is back to back.
    pub interval_ns: u64,
    /// How long after its point a batch is sent.
    pub slack_ns: u64,
    /// Departures are multiples of this; 0 is at once.
    pub quantum_ns: u64,
    /// Z.
    pub reals: u16,
    /// S.
    pub dummies: u16,
    /// A.
    pub evict_every: u16,
    /// L: the root is level 0, leaves are level L.
    pub leaf_level: u8,
    /// Levels kept in the proxy, from the root.
    pub cached_levels: u8,
    /// The array of the tree.
    pub array: u16,
    /// Bytes of a sealed cell.
    pub cell_bytes: u32,
    /// Cells that one message names at most before the next window of a batch begins.
    pub window_cells: u32,
    /// Buckets that one message writes at most.
    pub window_chunks: u32,
    /// Windows of a batch, or of a commit, that are under way at once.
    #[serde(default = "one")]
    pub windows: u32,
    /// Read batches that are under way at once.
    #[serde(default = "one")]
    pub in_flight: u32,
    /// Whether an epoch may begin later than it could: a schedule says when epochs run.
    #[serde(default)]
    pub pauses: bool,
    /// Whether rewritten buckets stay in the proxy to the end of the epoch.
    pub epoch_buffer: bool,
    /// Whether the last read batch of an epoch fetches for the write batch's evictions.
    pub prefetch: bool,
    /// Whether a path read is one XORed cell.
    pub xor: bool,
    /// Whether superseded versions stay until a later, public moment.
    pub keep_superseded: bool,
    /// Sizes of the objects around the tree; `None` where a bare engine runs.
    pub vault: Option<VaultConfig>,
}

/// The public shape of a `tao` store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaoConfig {
    /// Logical blocks.
    pub capacity: u32,
    /// Bytes of a block.
    pub value_bytes: u64,
    /// Z.
    pub reals: u16,
    /// L: the root is level 0, leaves are level L.
    pub leaf_level: u8,
    /// Levels kept in the proxy, from the root.
    pub cached_levels: u8,
    /// The array of the tree.
    pub array: u16,
    /// Bytes of a sealed cell.
    pub cell_bytes: u32,
    /// k: paths from one write-back to the next.
    pub write_back_every: u32,
    /// s: write-backs from one checkpoint to the next.
    pub write_backs_a_checkpoint: u64,
    /// Buckets that one message writes at most.
    pub window_chunks: u32,
    /// Messages of write-backs that are under way at once.
    pub windows: u32,
    /// Write-backs that are begun and not acknowledged, at most: then nothing departs.
    pub write_backs_max: u32,
    /// Messages leave at multiples of this; 0 if they leave as soon as they can.
    #[serde(default)]
    pub quantum_ns: u64,
    /// Paths that are under way at once, at most.
    pub under_way_max: u32,
    /// Accesses of a journal record, at most.
    pub parts_max: u32,
    /// What every access of a journal record but the first adds to its bytes.
    pub part_bytes: u64,
    /// The rate, if it is fixed.
    #[serde(default)]
    pub rate: Option<RateConfig>,
    /// At which pace paths and write-backs leave.
    #[serde(default)]
    pub pace: PaceConfig,
    /// Whether the trace holds when accesses arrive and are answered.
    #[serde(default)]
    pub clients: bool,
    /// Sizes of the objects around the tree. There are no deltas; a record of the journal is one of one
    /// access.
    pub vault: VaultConfig,
}

/// What the link is taken to carry, in bytes a second; `None` where nothing waits for its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceConfig {
    /// Write-backs: the bytes of their buckets.
    pub up_bytes_per_s: Option<u64>,
    /// Paths: the bytes of the buckets that one names.
    pub down_bytes_per_s: Option<u64>,
}

/// So many accesses at every point of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateConfig {
    /// The points are multiples of this.
    pub interval_ns: u64,
    /// Accesses at each.
    pub accesses: u32,
}

/// Sizes of the objects in which a store is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VaultConfig {
    /// Bytes of the commit record in the first opening.
    pub commit_bytes: u64,
    /// Bytes that every further opening adds to it.
    pub commit_bytes_an_opening: u64,
    /// Bytes of all pieces of a checkpoint but the last.
    pub piece_bytes: u64,
    /// How many pieces.
    pub pieces: u32,
    /// Bytes of the last.
    pub last_piece_bytes: u64,
    /// How many pieces of a checkpoint or a delta are under way at once.
    #[serde(default = "one")]
    pub pieces_at_once: u32,
    /// What is written from batch to batch and from epoch to epoch.
    pub journal: JournalConfig,
}

/// Sizes of what a store is written from batch to batch and from epoch to epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalConfig {
    /// Bytes of every journal record.
    pub record_bytes: u64,
    /// Bytes of all pieces of an epoch's delta but the last.
    pub delta_piece_bytes: u64,
    /// How many pieces.
    pub delta_pieces: u32,
    /// Bytes of the last.
    pub delta_last_piece_bytes: u64,
    /// From one full checkpoint to the next, in epochs.
    pub full_every: u64,
}

/// What heads say nothing of that were written before there was a choice.
fn one() -> u32 {
    1
}

impl PublicConfig {
    /// The JSON for the head of a trace.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what [`PublicConfig::encode`] wrote.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vault of a proxy that kept no journal, as heads of older traces may say.
    #[test]
    fn a_vault_without_a_journal_is_refused() {
        let head = |journal: &str| {
            let sizes = r#""commit_bytes":9,"commit_bytes_an_opening":16,"piece_bytes":9,"pieces":1,"last_piece_bytes":9"#;
            serde_json::from_str::<VaultConfig>(&format!("{{{sizes}{journal}}}"))
        };
        let journal = r#","journal":{"record_bytes":9,"delta_piece_bytes":9,"delta_pieces":1,"delta_last_piece_bytes":9,"full_every":4}"#;
        assert!(head(journal).is_ok());
        assert!(head("").is_err_and(|error| error.to_string().contains("`journal`")));
    }

    #[test]
    fn a_head_of_tao_comes_back_and_may_say_nothing_of_rate_and_clients() {
        let journal = r#"{"record_bytes":9,"delta_piece_bytes":0,"delta_pieces":0,"delta_last_piece_bytes":0,"full_every":1}"#;
        let vault = format!(
            r#"{{"commit_bytes":9,"commit_bytes_an_opening":16,"piece_bytes":9,"pieces":1,"last_piece_bytes":9,"journal":{journal}}}"#
        );
        let head = format!(
            r#"{{"clock":"virtual","engine":"tao","capacity":9,"value_bytes":9,"reals":4,"leaf_level":2,"cached_levels":0,"array":1,"cell_bytes":33,"write_back_every":40,"write_backs_a_checkpoint":9,"window_chunks":8,"windows":2,"write_backs_max":6,"under_way_max":64,"parts_max":64,"part_bytes":27,"vault":{vault}}}"#
        );
        let config = PublicConfig::decode(head.as_bytes()).unwrap();
        assert_eq!(PublicConfig::decode(&config.encode()), Ok(config.clone()));
        let EngineConfig::Tao(tao) = config.engine else { unreachable!() };
        assert_eq!((tao.rate, tao.clients), (None, false));
    }
}
