//! What a run measures: the link, the blocks, and the points of its sweep. A profile says all of
//! it, flags go before it, and what cannot be measured is refused before anything is loaded.

use std::time::Duration;

use crate::args::{BenchVolumeArgs, TaoProfile};
use crate::bench::volume::asked::{WRITE_BACKS, pace, shape, write_behind};
use fogbank::link::LinkArgs;
use fogbank::{Error, Result};
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::LinkRate;
use fogbank_oram::tao::TaoSettings;
use fogbank_store::Link;

use crate::bench::machine::memory_available;

/// Which points are measured. Of what is not swept there is one value.
#[derive(Debug)]
pub struct Setting {
    /// The link, and in words.
    pub link: Link,
    /// The same in words.
    pub link_words: String,
    /// Whose measurements stand beside ours: none where the link is not the paper's.
    pub paper: Option<PaperLink>,
    /// Clients.
    pub clients: Vec<usize>,
    /// k: paths from one write-back to the next.
    pub write_back_every: Vec<u32>,
    /// Memory for the top of the tree, in bytes.
    pub caches: Vec<u64>,
    shape: ImmediateShape,
    pace: LinkRate,
    write_behind: usize,
    quantum: Duration,
}

/// The links that the paper measured over and tells figures of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaperLink {
    /// Between a university and a cloud.
    Wan,
    /// Within one datacentre.
    Datacentre,
}

/// What is swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swept {
    /// The number of clients.
    Clients,
    /// k.
    WriteBackEvery,
    /// The cache.
    Cache,
}

const GB: u64 = 1_000_000_000;
/// The parts of the leaves that the paper's server cached.
const PAPER_CACHES: [u64; 3] = [64, 32, 16];
const K_SWEPT: [u32; 6] = [10, 20, 40, 80, 160, 320];

impl Setting {
    /// Of a profile and the flags that go before it.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be measured.
    pub fn of(args: &BenchVolumeArgs, profile: TaoProfile) -> Result<Self> {
        let own_link = !args.link.is_instant();
        let link = if own_link { args.link } else { link_of(profile) };
        let link_words = link.words();
        let link = link.link()?;
        let (write_behind, pace) = (write_behind(args, &link, WRITE_BACKS), pace(args, &link)?);
        let block = args.block.as_u64();
        let of_profile = if profile == TaoProfile::TaoSim { 13 * GB } else { GB };
        let shape = shape(args.size.map_or(of_profile, |size| size.as_u64()), block)?;
        let mut setting = Self {
            link,
            link_words,
            paper: paper_link(profile).filter(|_| !own_link),
            clients: or_else(&args.clients, || vec![10]),
            write_back_every: or_else(&args.write_back_every, || match profile {
                TaoProfile::TaoK => K_SWEPT.to_vec(),
                _ => vec![40],
            }),
            caches: args.cache.iter().map(|cache| cache.as_u64()).collect(),
            shape,
            pace,
            write_behind,
            quantum: Duration::from_micros(args.quantum_us),
        };
        if setting.caches.is_empty() {
            setting.caches = setting.caches_of(profile)?;
        }
        setting.check()?;
        Ok(setting)
    }

    /// The engine's settings at a point.
    ///
    /// # Errors
    /// [`Error::Usage`] for a shape outside the engine's limits.
    pub fn engine(&self, cache_bytes: u64, write_back_every: u32) -> Result<TaoSettings> {
        let settings =
            TaoSettings { cache_bytes, write_back_every, ..TaoSettings::new(self.shape) }
                .with_shell(|shell| {
                    shell.pace = self.pace;
                    shell.quantum = self.quantum;
                });
        Ok(settings.with_write_behind(self.write_behind)?)
    }

    /// Bytes of all blocks.
    pub fn data_bytes(&self) -> u64 {
        u64::from(self.shape.capacity) * self.shape.value_bytes as u64
    }

    /// What more than one value is measured of.
    pub fn swept(&self) -> Vec<Swept> {
        let lengths = [
            (Swept::Clients, self.clients.len()),
            (Swept::WriteBackEvery, self.write_back_every.len()),
            (Swept::Cache, self.caches.len()),
        ];
        lengths.into_iter().filter(|(_, values)| *values > 1).map(|(swept, _)| swept).collect()
    }

    /// The caches of the paper's server as whole levels of our proxy.
    fn caches_of(&self, profile: TaoProfile) -> Result<Vec<u64>> {
        if profile != TaoProfile::TaoCache {
            return Ok(vec![0]);
        }
        let bare = self.engine(0, 1)?;
        let leaves = 1u64 << bare.geometry()?.leaf_level();
        let bucket_bytes = u64::from(bare.bucket_blocks) * self.shape.value_bytes as u64;
        let part = |part: u64| leaves / part * bucket_bytes;
        Ok(std::iter::once(0).chain(PAPER_CACHES.map(part)).collect())
    }

    fn check(&self) -> Result<()> {
        distinct("--clients", &self.clients)?;
        distinct("--write-back-every", &self.write_back_every)?;
        let mut levels = Vec::new();
        for cache in &self.caches {
            let geometry = self.engine(*cache, 1)?.geometry()?;
            check_memory(geometry.storage_bytes() + cache)?;
            levels.push(geometry.cached_levels);
        }
        distinct("--cache", &levels).map_err(|_| {
            usage("--cache: two of these keep the same levels; give others, or a larger --size")
        })
    }
}

fn usage(words: impl Into<String>) -> Error {
    Error::Usage(words.into())
}

fn or_else<T: Clone>(given: &[T], otherwise: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if given.is_empty() { otherwise() } else { given.to_vec() }
}

fn distinct<T: PartialEq>(flag: &str, values: &[T]) -> Result<()> {
    let again = (1..values.len()).any(|i| values[..i].contains(&values[i]));
    if again { Err(usage(format!("{flag}: a value is given twice"))) } else { Ok(()) }
}

fn link_of(profile: TaoProfile) -> LinkArgs {
    let limited = |rtt_ms, mb_s| LinkArgs {
        up_mb_s: Some(mb_s),
        down_mb_s: Some(mb_s),
        ..LinkArgs::of_round_trip(rtt_ms)
    };
    match profile {
        TaoProfile::TaoWan | TaoProfile::TaoK | TaoProfile::TaoCache => limited(12.0, 11.0),
        TaoProfile::TaoDc => limited(0.5, 125.25),
        TaoProfile::TaoSim => LinkArgs::of_round_trip(50.0),
        TaoProfile::None => LinkArgs::default(),
    }
}

fn paper_link(profile: TaoProfile) -> Option<PaperLink> {
    match profile {
        TaoProfile::TaoWan | TaoProfile::TaoK | TaoProfile::TaoCache => Some(PaperLink::Wan),
        TaoProfile::TaoDc => Some(PaperLink::Datacentre),
        TaoProfile::TaoSim | TaoProfile::None => None,
    }
}

/// Refuses a tree that this machine has no memory for: it would be killed after minutes of loading.
fn check_memory(tree_bytes: u64) -> Result<()> {
    match memory_available() {
        Some(available) if tree_bytes > available => Err(usage(format!(
            "the tree takes {:.1} GB of memory and {:.1} GB are free: give a smaller --size",
            tree_bytes as f64 / 1e9,
            available as f64 / 1e9
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{BenchCommand, Command, Lab};
    use clap::Parser;

    use super::*;

    fn setting(flags: &str) -> Result<Setting> {
        let profile = if flags.contains("--profile") { "" } else { "--profile tao-wan" };
        let line = format!("fogbank bench volume {profile} {flags}");
        let typed = Lab::try_parse_from(line.split_whitespace());
        match typed.map_err(|refused| usage(refused.to_string()))?.command {
            Command::Bench(BenchCommand::Volume(args)) => {
                Setting::of(&args, args.profile.unwrap_or(TaoProfile::None))
            }
            _ => unreachable!("that is the command"),
        }
    }

    #[test]
    fn profiles_are_those_of_the_paper_and_flags_go_before_them() {
        let wan = setting("").unwrap();
        assert_eq!((wan.data_bytes() / 1_000_000, wan.paper), (999, Some(PaperLink::Wan)));
        assert_eq!((&wan.clients[..], wan.swept()), (&[10][..], vec![]));
        let k = setting("--profile tao-k").unwrap();
        assert_eq!((k.swept(), k.link), (vec![Swept::WriteBackEvery], wan.link));
        // As the paper's shares: 1.6, 3.1 and 6.3 % of the leaves are whole levels.
        let cached = setting("--profile tao-cache").unwrap();
        assert_eq!(cached.swept(), [Swept::Cache]);
        let levels = cached.caches.iter().map(|cache| {
            let geometry = cached.engine(*cache, 40).unwrap().geometry().unwrap();
            (geometry.leaf_level(), geometry.cached_levels)
        });
        assert_eq!(levels.collect::<Vec<_>>(), [(16, 0), (16, 10), (16, 11), (16, 12)]);
        let mut flags = "--profile tao-cache --cache 1MB --clients 1,5 --rtt-ms 3".to_owned();
        flags += " --size 8MiB --block 1KiB";
        let other = setting(&flags).unwrap();
        assert_eq!(
            (other.caches.as_slice(), other.clients.as_slice()),
            (&[1_000_000][..], &[1, 5][..])
        );
        assert_eq!((other.data_bytes(), other.paper), (8 << 20, None));
        assert_eq!(other.swept(), [Swept::Clients]);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_and_says_why() {
        for (flags, why) in [
            ("--clients 0", "give 1 to 10000"),
            ("--clients 1,5,1", "--clients: a value is given twice"),
            ("--write-back-every 0,5", "give 1 to"),
            ("--write-back-every 5,5", "--write-back-every: a value is given twice"),
            ("--cache 0,1", "--cache: two of these keep the same levels"),
            ("--profile tao-cache --size 64KiB", "a larger --size"),
            ("--seconds nan", "give 0.001 to 86400"),
            ("--quantum-us 0 --send-mb-s 1", "need points"),
            ("--write-behind 0", "give 1 B to"),
            ("--size 4000", "--size holds no block"),
            ("--size 4PB --block 1", "too many blocks"),
            ("--size 16TB --block 16MB", "smaller --size"),
        ] {
            let told = setting(flags).unwrap_err().to_string();
            assert!(told.contains(why), "{flags}: {told}");
        }
    }
}
