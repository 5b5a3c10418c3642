//! Shapes by name: what a new store has where nothing else is said, and which of them carries what
//! a store of another shape refuses.

use bytesize::ByteSize;
use clap::ValueEnum;
use fogbank_front::resp::Advisor;
use fogbank_txn::{Bound, Error, Limits};
use serde::Deserialize;

use crate::args::ShapeArgs;
use crate::config::StoreConfig;

/// A shape by name. `docs/tuning.md` says what each carries and costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// A laptop, or an ordinary application: little traffic.
    #[default]
    Small,
    /// A server with many clients: ten times the records, and traffic to match.
    Busy,
}

/// The shape of a preset. What is not in it follows from it.
#[derive(Debug, Clone, Copy)]
pub struct PresetShape {
    /// Records.
    pub capacity: u32,
    /// Bytes of a record's value.
    pub value_size: ByteSize,
    /// R.
    pub read_batches: usize,
    /// Reads of a batch.
    pub batch: usize,
    /// Writes of an epoch.
    pub write_batch: usize,
    /// Distance of the points of the grid.
    pub interval_ms: u64,
    /// Memory for the top of the tree.
    pub cache: ByteSize,
}

/// All presets, from the least to the largest. Decision 0043 says why these figures.
const TABLE: [(Preset, PresetShape); 2] = [
    (
        Preset::Small,
        PresetShape {
            capacity: 100_000,
            value_size: ByteSize::b(512),
            read_batches: 2,
            batch: 132,
            write_batch: 132,
            interval_ms: 160,
            cache: ByteSize::mib(64),
        },
    ),
    (
        Preset::Busy,
        PresetShape {
            capacity: 1_000_000,
            value_size: ByteSize::b(512),
            read_batches: 4,
            batch: 500,
            write_batch: 500,
            interval_ms: 100,
            cache: ByteSize::mib(256),
        },
    ),
];

impl Preset {
    /// Its row of the table.
    pub fn shape(self) -> PresetShape {
        let [(_, least), ..] = TABLE;
        TABLE.into_iter().find(|(preset, _)| *preset == self).map_or(least, |(_, shape)| shape)
    }

    /// What would be typed in its place.
    pub fn settings(self) -> ShapeArgs {
        let shape = self.shape();
        ShapeArgs {
            capacity: Some(shape.capacity),
            value_size: Some(shape.value_size),
            read_batches: Some(shape.read_batches),
            batch: Some(shape.batch),
            write_batch: Some(shape.write_batch),
            interval_ms: Some(shape.interval_ms),
            cache: Some(shape.cache),
            ..ShapeArgs::default()
        }
    }

    /// How it is typed.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn limits(self) -> Option<Limits> {
        let typed = ShapeArgs { preset: Some(self), ..ShapeArgs::default() };
        StoreConfig::derive(&typed, false).ok().map(|config| config.limits())
    }
}

/// Sizes that are advised are round.
const VALUE_SIZE_STEP: usize = 64;

impl StoreConfig {
    /// What a command may ask of a store of this shape.
    pub fn limits(&self) -> Limits {
        Limits::of(&self.proxy_settings(), &self.ring_settings().shape)
    }

    /// What a larger store would be made with that does what this one refuses with `error`; nothing
    /// if that does not lie in the shape.
    pub fn advice(&self, error: &Error) -> Option<String> {
        let by_shape = |flag: String, needed: usize, held: fn(&Limits) -> usize| {
            let of = |preset: Preset| Some((preset, preset.limits().map(|limits| held(&limits))?));
            let carries = |(_, limit): &(Preset, usize)| *limit >= needed;
            let such = TABLE.iter().filter_map(|(preset, _)| of(*preset)).find(carries);
            let such = such.map_or_else(
                || "no preset does".into(),
                |(preset, limit)| format!("--preset {} takes {limit}", preset.name()),
            );
            let split = if matches!(error, Error::TooLarge { .. }) { "split it, or " } else { "" };
            Some(format!("{split}make a new store with {flag} at least; {such}"))
        };
        match *error {
            // No figure that is known would be enough.
            Error::TooLarge { what: Bound::Reads | Bound::Writes | Bound::Reply, .. } => {
                Some("split it".into())
            }
            Error::TooLarge { what: Bound::Steps, needed, limit } => {
                let more = needed.saturating_sub(limit).div_ceil(2);
                let capacity = (self.capacity as usize).saturating_add(more);
                by_shape(format!("--capacity {capacity}"), needed, |limits| limits.steps_max)
            }
            Error::ValueTooLong { bytes, .. } => {
                let size = bytes.div_ceil(self.batch.min(self.write_batch).max(1));
                let size = size.next_multiple_of(VALUE_SIZE_STEP);
                by_shape(format!("--value-size {size}B"), bytes, |l| l.value_bytes_max)
            }
            Error::KeyTooLong { bytes, limit } if limit < self.proxy_settings().key_bytes_max => {
                let slots = bytes.div_ceil(limit.div_ceil(self.write_batch.max(1)).max(1));
                by_shape(format!("--write-batch {slots}"), bytes, |limits| limits.key_bytes_max)
            }
            Error::OutOfSpace | Error::NoRoom(_) => {
                let twice = self.capacity.saturating_mul(2);
                let larger = |(_, shape): &&(Preset, PresetShape)| shape.capacity > self.capacity;
                let such = TABLE.iter().find(larger).map(|(preset, shape)| {
                    format!(" (--preset {} holds {})", preset.name(), shape.capacity)
                });
                Some(format!(
                    "it has room for {} records of {} bytes each and {} bytes of keys; `fogbank \
                     rotate-key --capacity {twice}` copies it into a larger one{}",
                    self.capacity,
                    self.value_size,
                    self.key_budget as u64 * u64::from(self.capacity),
                    such.unwrap_or_default()
                ))
            }
            _ => None,
        }
    }
}

impl Advisor for StoreConfig {
    fn advice(&self, error: &Error) -> Option<String> {
        StoreConfig::advice(self, error)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;
    use crate::traffic::Traffic;

    fn made(preset: Preset) -> StoreConfig {
        let typed = ShapeArgs { preset: Some(preset), ..ShapeArgs::default() };
        StoreConfig::derive(&typed, false).unwrap()
    }

    #[test]
    fn every_preset_has_a_row() {
        for preset in Preset::value_variants() {
            assert!(TABLE.iter().any(|(of, _)| of == preset), "{preset:?}");
        }
    }

    /// What an ordinary application asks for, on a laptop.
    #[test]
    fn the_default_carries_ordinary_commands() {
        let config = StoreConfig::derive(&ShapeArgs::default(), false).unwrap();
        assert_eq!(config, made(Preset::Small));
        let limits = config.limits();
        assert!(limits.records_written_max >= 128 && limits.records_read_max >= 256);
        // A value, and when it expires.
        let value = (64 << 10) / config.value_size + 1;
        assert!(limits.value_bytes_max >= 64 << 10 && limits.records_written_max >= value);
        let per_s = Traffic::of(&config).unwrap().bytes_per_s(&config).unwrap();
        assert!(per_s <= 5e6, "{per_s}");
        let epoch_ms = config.epoch_ms();
        assert!(3 * epoch_ms <= 2 * 750, "an answer takes 1.5 epochs of {epoch_ms} ms on average");
    }

    /// A commit that outlasted its interval took a second one: a third less was carried, and every
    /// answer took a third longer than what everybody was told.
    #[test]
    fn a_small_commit_ends_within_its_interval() {
        let [small, busy] = [Preset::Small, Preset::Busy].map(made);
        let least = |config: &StoreConfig| (config.read_batches as u64 + 1) * config.interval_ms;
        assert_eq!(small.epoch_ms(), least(&small));
        assert_eq!(busy.epoch_ms(), least(&busy) + busy.interval_ms, "it has many pieces");
    }

    #[test]
    fn help_says_what_new_stores_have() {
        let serve = Cli::command();
        let serve = serve.find_subcommand("serve").unwrap();
        let typed = Preset::default().settings().flags();
        for setting in typed.chunks(2) {
            let name = setting[0].trim_start_matches("--");
            let arg = serve.get_arguments().find(|arg| arg.get_long() == Some(name)).unwrap();
            let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
            let said = help.split('[').nth(1).and_then(|rest| rest.split(']').next());
            let said = said.unwrap_or_else(|| panic!("--{name}: {help}"));
            let bytes = |word: &str| word.parse::<ByteSize>().map(|size| size.as_u64());
            assert_eq!(bytes(said), bytes(&setting[1]), "--{name}");
        }
    }

    #[test]
    fn what_is_refused_is_told_with_the_flag_and_the_preset_that_carry_it() {
        let config = made(Preset::Small);
        let limits = config.limits();
        let too_large = |what, limit: usize, more: usize| {
            config.advice(&Error::TooLarge { what, needed: limit + more, limit }).unwrap()
        };
        assert_eq!(too_large(Bound::Writes, limits.records_staged_max, 1), "split it");
        assert_eq!(too_large(Bound::Reads, limits.blocks_gathered_max, 1), "split it");
        let told = too_large(Bound::Steps, limits.steps_max, 1);
        assert!(told.contains("--capacity 100001") && told.contains("busy"), "{told}");
        let bytes = limits.value_bytes_max + 1;
        let long = Error::ValueTooLong { bytes, limit: limits.value_bytes_max };
        let told = config.advice(&long).unwrap();
        let size = (config.value_size + 1).next_multiple_of(VALUE_SIZE_STEP);
        assert!(told.contains(&format!("--value-size {size}B")), "{told}");
        assert!(told.contains("--preset busy takes 256000"), "{told}");
        let told = config.advice(&Error::OutOfSpace).unwrap();
        assert!(
            told.contains("--capacity 200000") && told.contains("busy holds 1000000"),
            "{told}"
        );
        assert_eq!(config.advice(&Error::Conflict), None);
    }

    /// The flag that is named really does it.
    #[test]
    fn a_store_made_as_advised_takes_what_was_refused() {
        let few = ShapeArgs { batch: Some(3), write_batch: Some(2), ..ShapeArgs::default() };
        let config = StoreConfig::derive(&few, false).unwrap();
        let bytes = config.limits().key_bytes_max + 300;
        let error = Error::KeyTooLong { bytes, limit: config.limits().key_bytes_max };
        let told = config.advice(&error).unwrap();
        let slots = told.split("--write-batch ").nth(1).and_then(|rest| rest.split(' ').next());
        let write_batch = Some(slots.unwrap().parse().unwrap());
        let made = StoreConfig::derive(&ShapeArgs { write_batch, ..few.clone() }, false).unwrap();
        assert!(made.limits().key_bytes_max >= bytes, "{told}");
        let bytes = 10_000;
        let error = Error::ValueTooLong { bytes, limit: config.limits().value_bytes_max };
        let told = config.advice(&error).unwrap();
        let size = told.split("--value-size ").nth(1).and_then(|rest| rest.split(' ').next());
        let value_size = Some(size.unwrap().parse().unwrap());
        let made = StoreConfig::derive(&ShapeArgs { value_size, ..few }, false).unwrap();
        assert!(made.limits().value_bytes_max >= bytes, "{told}");
        // The longest key of all shapes: none raises it.
        let limit = config.proxy_settings().key_bytes_max;
        assert_eq!(config.advice(&Error::KeyTooLong { bytes: limit + 1, limit }), None);
    }
}
