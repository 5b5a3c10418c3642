//! What is measured without a profile: as it was typed, checked, with the defaults in their places.

use std::time::Duration;

use fogbank::{Error, Result};
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::LinkRate;
use fogbank_oram::partition::PartitionSettings;
use fogbank_oram::tao::TaoSettings;
use fogbank_process::say;
use fogbank_store::Link;

use super::disks::Disks;
use super::lane::Site;
use super::measured_engine::MeasuredEngine;
use super::row::Row;
use crate::args::{BenchVolumeArgs, DiskName, VolumeEngineName, limits};

/// Accesses under way at least.
const UNDER_WAY_MIN: usize = 64;
const CLIENTS: usize = 10;
const BYTES: u64 = 256 << 20;
const CACHE_BYTES: u64 = 64 << 20;

/// See the module.
pub struct Asked {
    /// As it was typed.
    pub args: BenchVolumeArgs,
    /// What is measured, in turn.
    pub engines: Vec<VolumeEngineName>,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Memory of the proxy for what is kept of the store, in bytes.
    pub caches: Vec<u64>,
    /// The blocks.
    pub shape: ImmediateShape,
    /// The way to the store.
    pub link: Link,
    /// The store.
    pub site: Site,
}

impl Asked {
    /// Of what was typed.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be measured.
    pub fn of(args: BenchVolumeArgs) -> Result<Self> {
        let link = args.link.link()?;
        pace(&args, &link)?;
        let or = |given: &[VolumeEngineName]| match given {
            [] => vec![VolumeEngineName::Tao, VolumeEngineName::Partition],
            given => given.to_vec(),
        };
        let caches: Vec<u64> = args.cache.iter().map(|cache| cache.as_u64()).collect();
        let site = Site {
            seed: args.seed,
            disks: args.disks.map(DiskName::disks),
            is_sparse: args.sparse,
        };
        Ok(Self {
            engines: or(&args.engine),
            clients: if args.clients.is_empty() { vec![CLIENTS] } else { args.clients.clone() },
            caches: if caches.is_empty() { vec![CACHE_BYTES] } else { caches },
            shape: shape(args.size.map_or(BYTES, |size| size.as_u64()), args.block.as_u64())?,
            link,
            site,
            args,
        })
    }

    /// The setting in words.
    pub fn words(&self) -> String {
        let disks = self.site.disks.map_or("memory".into(), |disks| disks.words());
        let ImmediateShape { capacity, value_bytes } = self.shape;
        let link = self.args.link.words();
        let sparse = match self.site.is_sparse {
            true => "; sparse: cells that were never written are made on demand",
            false => "",
        };
        format!("{link}; {disks}; {capacity} blocks of {value_bytes} bytes{sparse}")
    }

    /// Settings of `tao` with so much memory.
    ///
    /// # Errors
    /// [`Error::Usage`] for a shape outside the engine's limits.
    pub fn tao(&self, cache_bytes: u64) -> Result<TaoSettings> {
        let settings = TaoSettings { cache_bytes, ..TaoSettings::new(self.shape) };
        let settings = self.on_link(settings)?;
        Ok(settings.with_write_behind(write_behind(&self.args, &self.link, WRITE_BACKS))?)
    }

    /// The same of `partition`.
    ///
    /// # Errors
    /// As [`Asked::tao`].
    pub fn partition(&self, cache_bytes: u64) -> Result<PartitionSettings> {
        let mut settings = PartitionSettings::new(self.shape, 0)?;
        let blocks = cache_bytes / self.shape.value_bytes as u64;
        settings.layout = settings.layout.with_kept_blocks(blocks);
        let settings = self.on_link(settings)?.with_usual_checkpoints();
        Ok(settings.with_write_behind(write_behind(&self.args, &self.link, JOBS)))
    }

    fn on_link<S: MeasuredEngine>(&self, settings: S) -> Result<S> {
        let (pace, quantum_us) = (pace(&self.args, &self.link)?, self.args.quantum_us);
        let under_way = self.clients.iter().copied().max().unwrap_or(0).max(UNDER_WAY_MIN);
        Ok(settings.with_shell(|shell| {
            shell.under_way_max = under_way;
            shell.pace = pace;
            shell.quantum = Duration::from_micros(quantum_us);
        }))
    }

    /// Prints a point.
    pub fn say(&self, engine: &str, cache_bytes: u64, row: &Row) {
        let ImmediateShape { capacity, value_bytes } = self.shape;
        say!("{}", row.line(engine, value_bytes as u64));
        if self.args.json {
            let mut figures = row.json(engine, value_bytes as u64);
            figures["link"] = self.args.link.words().into();
            figures["disks"] = self.site.disks.map(|disks| disks.words()).into();
            figures["sparse"] = self.site.is_sparse.into();
            figures["blocks"] = capacity.into();
            figures["cache"] = cache_bytes.into();
            say!("{figures}");
        }
    }
}

impl DiskName {
    /// What it stands for.
    pub fn disks(self) -> Disks {
        match self {
            Self::Seven => Disks::SEVEN,
            Self::Solid => Disks::SOLID,
        }
    }
}

/// Bytes of write-backs, and of what jobs write, that are under way on a link that never fills.
pub const WRITE_BACKS: u64 = 8 << 20;
const JOBS: u64 = 32 << 20;

/// Bytes of what is written that are under way at once; `unlimited` on a link that never fills.
pub fn write_behind(args: &BenchVolumeArgs, link: &Link, unlimited: u64) -> usize {
    let asked = args.write_behind.map(|bytes| bytes.as_u64());
    asked.or_else(|| carried_by(link)).unwrap_or(unlimited) as usize
}

/// At which pace messages leave.
///
/// # Errors
/// [`Error::Usage`] for one that needs points where there are none.
pub fn pace(args: &BenchVolumeArgs, link: &Link) -> Result<LinkRate> {
    let pace = args.pace.pace()?;
    if args.quantum_us == 0 && pace != LinkRate::default() {
        return Err(usage("--send-mb-s and --receive-mb-s need points: leave --quantum-us 0 out"));
    }
    Ok(pace_on(link, pace, args.quantum_us))
}

/// So many bytes in blocks.
///
/// # Errors
/// [`Error::Usage`] for none, or too many.
pub fn shape(bytes: u64, block_bytes: u64) -> Result<ImmediateShape> {
    let capacity = bytes.checked_div(block_bytes).unwrap_or(0);
    let capacity = capacity.try_into().map_err(|_| usage("--size: too many blocks"))?;
    if capacity == 0 {
        return Err(usage("--size holds no block of --block"));
    }
    Ok(ImmediateShape { capacity, value_bytes: block_bytes as usize })
}

/// What was asked for; else a little less than the link carries, for what is not paced has to pass,
/// too. Where nothing waits for points there is none.
fn pace_on(link: &Link, asked: LinkRate, quantum_us: u64) -> LinkRate {
    let most =
        |bytes: Option<u64>| bytes.filter(|_| quantum_us > 0).map(|bytes| (bytes / 20 * 19).max(1));
    LinkRate {
        up_bytes_per_s: asked.up_bytes_per_s.or(most(link.up_bytes_per_s)),
        down_bytes_per_s: asked.down_bytes_per_s.or(most(link.down_bytes_per_s)),
    }
}

/// Bytes of write-backs under way: their pace is the link's, so this is only to be more than it
/// carries until they have been acknowledged: round trips, points, a piece of a checkpoint, paths
/// that are on their way back.
fn carried_by(link: &Link) -> Option<u64> {
    let until = 4 * link.round_trip + Duration::from_millis(10);
    let carried = link.up_bytes_per_s.map(|bytes| bytes as f64 * until.as_secs_f64());
    carried.map(|carried| (carried.ceil() as u64).clamp(1, limits::WRITE_BEHIND.end().as_u64()))
}

fn usage(words: impl Into<String>) -> Error {
    Error::Usage(words.into())
}
