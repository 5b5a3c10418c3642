//! The public configuration in the head of a trace: all that a reader of it needs to know what the
//! traffic ought to look like. Nothing in it is secret; the cloud could work out most of it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the head of a trace says about the run: what all engines have, and the tail, which is the
/// engine's own. In the JSON they stand side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicConfig {
    /// Whether departures are exact to the nanosecond.
    pub clock: TraceClock,
    /// The engine.
    pub engine: String,
    /// Logical blocks.
    pub capacity: u32,
    /// Bytes of a block.
    pub value_bytes: u64,
    #[serde(flatten)]
    tail: Map<String, Value>,
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
    /// That of a run of `engine` with so many blocks of so many bytes. `tail` is a struct, or an
    /// object.
    pub fn new(
        clock: TraceClock,
        engine: &str,
        (capacity, value_bytes): (u32, u64),
        tail: impl Serialize,
    ) -> Self {
        let engine = engine.to_owned();
        Self { clock, engine, capacity, value_bytes, tail: Map::new() }.with_tail(tail)
    }

    /// The same with another tail.
    #[must_use]
    pub fn with_tail(self, tail: impl Serialize) -> Self {
        let tail = match serde_json::to_value(tail) {
            Ok(Value::Object(tail)) => tail,
            _ => Map::new(),
        };
        Self { tail, ..self }
    }

    /// The tail, as the engine `T` has it.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn tail<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_value(Value::Object(self.tail.clone())).map_err(|e| e.to_string())
    }

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
    fn head_and_tail_stand_side_by_side() {
        let rate = RateConfig { interval_ns: 5, accesses: 2 };
        let config = PublicConfig::new(TraceClock::Real, "x", (9, 16), rate);
        let json = r#"{"clock":"real","engine":"x","capacity":9,"value_bytes":16,"interval_ns":5,"accesses":2}"#;
        assert_eq!(config.encode(), json.as_bytes());
        let read = PublicConfig::decode(json.as_bytes()).unwrap();
        assert_eq!((&read, read.tail()), (&config, Ok(rate)));
        assert!(read.tail::<PaceConfig>().is_ok() && read.tail::<VaultConfig>().is_err());
    }
}
