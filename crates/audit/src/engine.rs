//! What this crate has to know of an engine. A new engine is a module in `oracle`, in which the
//! tail of its public configuration is an [`Engine`], and a place in [`ENGINES`].

use fogbank_store::trace::{PublicConfig, TraceClock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::distinguish::Grid;
use crate::oracle::{ENGINES, Machine, Refused};
use crate::report::Tree;
use crate::statistics::Free;

/// The tail of a public configuration, and what follows from it.
pub(crate) trait Engine {
    /// The public state machine.
    ///
    /// # Errors
    /// [`Refused`] for a configuration that the machine does not follow.
    fn machine(&self, clock: TraceClock) -> Result<Box<dyn Machine + Send>, Refused>;

    /// Whether the traces of a run were recorded at once, each by a client of its own.
    fn is_joint(&self) -> bool {
        false
    }

    /// What the machine leaves free.
    fn free(&self) -> Free;

    /// At which points messages leave.
    fn grid(&self) -> Grid;

    /// The tree, if there is one to be drawn.
    fn tree(&self) -> Option<Tree>;

    /// The configuration in words, by subject. `config` is the head.
    fn lines(&self, config: &PublicConfig) -> Vec<(&'static str, String)>;

    /// What the configuration itself gives away, if anything.
    fn caveat(&self) -> Option<&'static str>;
}

/// The entry of an engine.
pub(crate) struct Entry {
    /// As it stands in the head of a trace.
    pub name: &'static str,
    /// Reads its tail: see [`read`].
    pub read: fn(&PublicConfig) -> Result<Read, String>,
}

/// A configuration with all that heads of older traces leave out, and the engine's part of it.
pub(crate) type Read = (PublicConfig, Box<dyn Engine>);

/// Reads a tail of the type `T`.
pub(crate) fn read<T>(config: &PublicConfig) -> Result<Read, String>
where
    T: Engine + Serialize + DeserializeOwned + 'static,
{
    let tail: T = config.tail()?;
    Ok((config.clone().with_tail(&tail), Box::new(tail)))
}

/// Reads the tail of a configuration.
///
/// # Errors
/// What does not fit, in words.
pub(crate) fn of(config: &PublicConfig) -> Result<Read, String> {
    let entry = ENGINES.iter().find(|entry| entry.name == config.engine);
    let entry = entry.ok_or_else(|| format!("there is no engine {}", config.engine))?;
    (entry.read)(config)
}

/// Reads the head of a trace.
///
/// # Errors
/// As [`of`].
pub(crate) fn decode(head: &[u8]) -> Result<Read, String> {
    of(&PublicConfig::decode(head)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heads as they were first written, without what has come since.
    const RING: &str = r#"{"clock":"real","engine":"ring","capacity":9,"value_bytes":9,"read_batches":2,"read_batch":4,"write_batch":4,"interval_ns":0,"slack_ns":0,"quantum_ns":0,"reals":4,"dummies":6,"evict_every":3,"leaf_level":2,"cached_levels":0,"array":1,"cell_bytes":33,"window_cells":8,"window_chunks":8,"epoch_buffer":true,"prefetch":false,"xor":false,"keep_superseded":false,"vault":null}"#;
    const TAO: &str = r#"{"clock":"virtual","engine":"tao","capacity":9,"value_bytes":9,"reals":4,"leaf_level":2,"cached_levels":0,"array":1,"cell_bytes":33,"write_back_every":40,"write_backs_a_checkpoint":9,"window_chunks":8,"windows":2,"write_backs_max":6,"under_way_max":64,"parts_max":64,"part_bytes":27,"vault":{"commit_bytes":9,"commit_bytes_an_opening":16,"piece_bytes":9,"pieces":1,"last_piece_bytes":9,"journal":{"record_bytes":9,"delta_piece_bytes":0,"delta_pieces":0,"delta_last_piece_bytes":0,"full_every":1}}}"#;

    #[test]
    fn heads_of_older_traces_are_those_that_say_it_all() {
        for (head, said) in [
            (RING, r#""in_flight":1,"pauses":false,"windows":1,"#),
            (TAO, r#""clients":false,"rate":null,"#),
        ] {
            let (config, engine) = decode(head.as_bytes()).unwrap();
            let said = head.replace(r#""array""#, &format!(r#"{said}"array""#));
            let (whole, _) = decode(said.as_bytes()).unwrap();
            assert_eq!(config, whole);
            assert_eq!(PublicConfig::decode(&config.encode()), Ok(whole));
            assert!(engine.machine(config.clock).is_ok());
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let other = TAO.replace(r#""tao""#, r#""other""#);
        let without = TAO.replace(r#""part_bytes":27,"#, "");
        for (head, why) in [(other, "no engine other"), (without, "part_bytes")] {
            let told = decode(head.as_bytes()).err().unwrap();
            assert!(told.contains(why), "{told}");
        }
    }
}
