//! The flags of `volume create` that not every engine knows.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use fogbank_env::within;

use crate::engines::{VOLUME_ENGINES, VolumeEngine, names};
use crate::limits;

/// A flag of `volume create` that some engines know.
#[derive(Debug)]
pub(crate) struct Flag {
    /// Without dashes.
    pub name: &'static str,
    pub value_name: &'static str,
    pub about: &'static str,
    pub parse: fn(&str) -> Result<u64, String>,
}

impl Flag {
    pub fn is_in(&self, flags: &[&Flag]) -> bool {
        flags.iter().any(|flag| flag.name == self.name)
    }

    /// All of them, each once.
    fn all() -> Vec<&'static Flag> {
        let mut all: Vec<&Flag> = Vec::new();
        for flag in VOLUME_ENGINES.iter().flat_map(|engine| engine.flags.iter().copied()) {
            if !flag.is_in(&all) {
                all.push(flag);
            }
        }
        all
    }
}

/// Memory for the top of a tree, or the lowest levels of partitions.
pub(crate) static CACHE: Flag = Flag {
    name: "cache",
    value_name: "SIZE",
    about: "Memory of the proxy for the top of the tree, or for the lowest levels of partitions \
            (in two clouds three to five levels). In one cloud every doubling saves the link one \
            bucket a path, or a cell or two an access [64MiB]",
    parse: |typed| within(limits::MEMORY)(typed).map(|size| size.as_u64()),
};
/// What [`CACHE`] is if it is not said.
pub(crate) const CACHE_BYTES: u64 = 64 << 20;

/// The grid of an engine that serves accesses as they come.
pub(crate) static QUANTUM_US: Flag = Flag {
    name: "quantum-us",
    value_name: "US",
    about: "Whatever leaves does so at multiples of so many microseconds, so that its moment does \
            not tell how long the proxy worked; 0 sends them as soon as they can (benchmarks only) \
            [1000; at most a second]",
    parse: |typed| within(limits::QUANTUM_US)(typed),
};

/// The flags that were given, with their values.
#[derive(Debug, Clone, Default)]
pub struct Flags(BTreeMap<&'static str, u64>);

impl Flags {
    /// What was said of this one.
    pub(crate) fn get(&self, flag: &Flag) -> Option<u64> {
        self.0.get(flag.name).copied()
    }

    /// Those that `engine` knows.
    pub(crate) fn known_to(&self, engine: &VolumeEngine) -> Self {
        let known = |name: &str| engine.flags.iter().any(|flag| flag.name == name);
        Self(self.0.iter().filter(|(name, _)| known(name)).map(|(n, v)| (*n, *v)).collect())
    }

    /// Those that were given.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static Flag> {
        Flag::all().into_iter().filter(|flag| self.0.contains_key(flag.name))
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |flag: &Flag| matches.get_one(flag.name).copied();
        Ok(Self(
            Flag::all().into_iter().filter_map(|flag| Some((flag.name, given(flag)?))).collect(),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        Flag::all().into_iter().fold(command, |command, flag| {
            let knowing = names(|engine| flag.is_in(engine.flags)).join(", ");
            let flag = Arg::new(flag.name)
                .long(flag.name)
                .value_name(flag.value_name)
                .value_parser(flag.parse)
                .help(format!("{} ({knowing})", flag.about));
            command.arg(flag)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Flags {
        pub(crate) fn with(mut self, flag: &'static Flag, value: u64) -> Self {
            self.0.insert(flag.name, value);
            self
        }
    }

    #[test]
    fn what_is_typed_is_read_by_its_flag() {
        let command = Flags::augment_args(Command::new("create"));
        let read = |typed: &[&str]| {
            let matches = command.clone().try_get_matches_from([&["create"], typed].concat());
            matches.and_then(|matches| Flags::from_arg_matches(&matches))
        };
        let flags = read(&["--cache", "2MiB", "--quantum-us", "0"]).unwrap();
        assert_eq!((flags.get(&CACHE), flags.get(&QUANTUM_US)), (Some(2 << 20), Some(0)));
        assert_eq!(flags.flags().count(), 2);
        for wrong in [
            ["--cache", "much"],
            ["--quantum-us", "-1"],
            ["--quantum-us", "1000001"],
            ["--write-back-every", "4294967296"],
        ] {
            assert!(read(&wrong).is_err(), "{wrong:?}");
        }
    }
}
