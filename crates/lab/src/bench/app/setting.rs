//! What a run measures: the application with its size, the epochs that suit it, the load.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::args::{Application, BenchAppArgs, ShapeArgs, System};
use bytesize::ByteSize;
use fogbank::config::StoreConfig;
use fogbank::limits;
use fogbank::{Error, Result};
use fogbank_store::Link;
use fogbank_workload::Workload;
use fogbank_workload::drive::{Load, Span};
use fogbank_workload::file::Described;
use fogbank_workload::freehealth::FreeHealth;
use fogbank_workload::smallbank::SmallBank;
use fogbank_workload::tpcc::{Scale, Tpcc};
use fogbank_workload::ycsb::Ycsb;

use crate::tune::{Need, Seen};

/// Everything a run is made of.
pub struct Setting {
    /// The application.
    pub workload: Arc<dyn Workload>,
    /// What it runs on.
    pub systems: Vec<System>,
    /// The shape of fogbank's epochs.
    pub shape: ShapeArgs,
    /// The cloud side.
    pub store: String,
    /// The link to it.
    pub link: Link,
    /// The same in words.
    pub link_words: String,
    /// When transactions come.
    pub load: Load,
    /// How long is measured.
    pub span: Span,
    /// How often.
    pub rounds: usize,
    /// Of what is drawn.
    pub seed: u64,
}

/// Transactions that are under way at most when arrivals wait for nobody.
const UNDER_WAY_MAX: usize = 20_000;
/// A round trip from which on an epoch mostly waits for its messages, whatever is in it: so as much
/// is as a small machine serves.
pub const FAR: Duration = Duration::from_millis(5);

impl Setting {
    /// Of what was typed.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be measured.
    pub fn of(args: &BenchAppArgs) -> Result<Self> {
        let span = Span {
            ramp: Duration::from_secs_f64(args.ramp),
            measured: Duration::from_secs_f64(args.seconds),
        };
        let (workload, usual) = match &args.workload_file {
            Some(file) => described(file)?,
            None => application(args.workload, args.scale)?,
        };
        let scans = !workload.scanned_groups().is_empty();
        if scans
            && let Some(system) = args.on.iter().find(|system| **system == System::FogbankRedis)
        {
            let (name, other) = (workload.name(), System::Fogbank.name());
            let reason =
                format!("{name} scans: measure it on {other} instead of {}", system.name());
            return Err(Error::Usage(reason));
        }
        let link = args.link.link()?;
        let typed = args.shape.clone().spelled_out();
        let batches = (typed.batch, typed.write_batch);
        let usual = match link.round_trip >= FAR && batches == (None, None) {
            true => usual.across(args.clients),
            false => usual,
        };
        let load = match (args.rate, args.clients) {
            (Some(per_s), _) => Load::Open { per_s, under_way_max: UNDER_WAY_MAX },
            (None, clients) => Load::Closed { clients: clients.unwrap_or(usual.clients) },
        };
        Ok(Self {
            workload,
            systems: args.on.clone(),
            shape: match args.shape.preset {
                None => typed.or(usual.shape),
                // All of it: its buckets follow from it as those of a store that serves.
                Some(_) => typed,
            },
            store: args.store.clone(),
            link,
            link_words: args.link.words(),
            load,
            span,
            rounds: args.rounds,
            seed: args.seed,
        })
    }

    /// The configuration of fogbank's store.
    ///
    /// # Errors
    /// [`Error::Usage`] naming what is out of its limits.
    pub fn config(&self) -> Result<StoreConfig> {
        // A store in memory combines cells for whoever asks for that.
        StoreConfig::derive(&self.shape, true)
    }

    /// Transactions that are under way at most.
    pub fn clients(&self) -> usize {
        match self.load {
            Load::Closed { clients } => clients,
            Load::Open { under_way_max, .. } => under_way_max,
        }
    }

    /// Fogbank's epochs, if it is measured.
    ///
    /// # Errors
    /// As [`Setting::config`].
    pub fn epochs(&self) -> Result<Option<Epochs>> {
        if !self.systems.iter().any(|system| system.is_fogbank()) {
            return Ok(None);
        }
        let config = self.config()?;
        let (read_batches, batch) = (config.read_batches, config.batch);
        Ok(Some(Epochs { read_batches, batch, write_batch: config.write_batch }))
    }

    /// What fogbank keeps of its tree in memory, if it is measured.
    ///
    /// # Errors
    /// As [`Setting::config`].
    pub fn kept(&self) -> Result<Option<Kept>> {
        if !self.systems.iter().any(|system| system.is_fogbank()) {
            return Ok(None);
        }
        let config = self.config()?;
        let geometry = config.geometry()?;
        let (levels, of) = (geometry.cached_levels, geometry.leaf_level() + 1);
        Ok(Some(Kept { cache: config.cache, levels, of }))
    }
}

/// What every epoch of fogbank has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    /// Read batches.
    pub read_batches: usize,
    /// Blocks that one of them reads.
    pub batch: usize,
    /// Blocks that the epoch writes.
    pub write_batch: usize,
}

impl Epochs {
    /// In words.
    pub fn words(&self) -> String {
        let Self { read_batches, batch, write_batch } = self;
        format!("epochs of {read_batches} batches of {batch} and {write_batch} writes")
    }
}

/// The top of fogbank's tree, which its proxy keeps in memory: what is there does not cross the
/// link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The most bytes that it may take.
    pub cache: u64,
    /// Levels.
    pub levels: u8,
    /// Levels of the whole tree.
    pub of: u8,
}

impl Kept {
    /// In words.
    pub fn words(&self) -> String {
        let (cache, levels, of) = (ByteSize::b(self.cache), self.levels, self.of);
        format!(
            "{levels} of {of} levels of fogbank's tree are in its memory, at most {cache} (--cache)"
        )
    }
}

/// What suits an application.
struct Usual {
    shape: ShapeArgs,
    clients: usize,
    far: Option<Far>,
}

/// What suits an application whose store is far.
#[derive(Clone, Copy)]
struct Far {
    clients: usize,
    /// Blocks that a batch reads for each of them, in percent.
    reads: usize,
    /// Blocks that an epoch writes for each of them, in percent.
    writes: usize,
}

impl Usual {
    /// The same for a store that is far: batches as large as the clients fill.
    fn across(self, clients: Option<usize>) -> Self {
        let Some(far) = self.far else { return self };
        let clients = clients.unwrap_or(far.clients);
        let filled = |near: Option<usize>, percent: usize| {
            let filled = clients.saturating_mul(percent).div_ceil(100).min(*limits::BATCH.end());
            near.map(|near| near.max(filled))
        };
        let batch = filled(self.shape.batch, far.reads);
        let write_batch = filled(self.shape.write_batch, far.writes);
        Self { shape: ShapeArgs { batch, write_batch, ..self.shape }, clients, ..self }
    }
}

/// Clients that suit an application, its store being far or not.
pub fn usual_clients(which: Application, is_far: bool) -> usize {
    match (which, far(which)) {
        (_, Some(far)) if is_far => far.clients,
        (Application::Tpcc, _) => 300,
        (Application::Smallbank | Application::SmallbankHot | Application::Freehealth, _) => 500,
        _ => 1_000,
    }
}

fn far(which: Application) -> Option<Far> {
    match which {
        Application::Tpcc => Some(Far { clients: 2_000, reads: 250, writes: 700 }),
        Application::Smallbank | Application::SmallbankHot => {
            Some(Far { clients: 3_000, reads: 100, writes: 100 })
        }
        Application::Freehealth => Some(Far { clients: 6_000, reads: 100, writes: 120 }),
        _ => None,
    }
}

fn application(which: Application, scale: Option<u32>) -> Result<(Arc<dyn Workload>, Usual)> {
    let (clients, far) = (usual_clients(which, false), far(which));
    match which {
        Application::Smallbank | Application::SmallbankHot => {
            let customers = scale.unwrap_or(100_000);
            let bank = match which {
                Application::Smallbank => SmallBank::uniform(customers),
                _ => SmallBank::hot(customers),
            };
            let shape = shape(customers.saturating_mul(3), (64, 3, 1_000, 1_000));
            Ok((Arc::new(bank), Usual { shape, clients, far }))
        }
        Application::Tpcc => {
            let warehouses = scale.unwrap_or(1);
            let records = warehouses.saturating_mul(RECORDS_A_WAREHOUSE).saturating_add(ITEMS);
            let shape = shape(records, (TPCC_RECORD, 8, 600, 2_000));
            Ok((Arc::new(Tpcc::new(warehouses, Scale::full())), Usual { shape, clients, far }))
        }
        Application::Freehealth => {
            let patients = scale.unwrap_or(1_000);
            let usual = FreeHealth::default();
            // As many patients a user as there are by default: lists by user are neither empty nor
            // full.
            let users = patients.div_ceil(usual.patients / usual.users).max(usual.users);
            let clinic = FreeHealth { patients, users, ..usual };
            let records = clinic.records().count();
            let records = u32::try_from(records).unwrap_or(u32::MAX);
            // What is created in a run stays.
            let shape = shape(records.saturating_add(500_000), (500, 5, 500, 500));
            Ok((Arc::new(clinic), Usual { shape, clients, far }))
        }
        ycsb => {
            let records = scale.unwrap_or(100_000);
            let bench = Ycsb::new(letter(ycsb), records);
            let bench = bench.ok_or_else(|| Error::Bug("no such letter".into()))?;
            let shape = shape(records.saturating_add(100_000), (1_024, 2, 1_000, 1_000));
            Ok((Arc::new(bench), Usual { shape, clients, far }))
        }
    }
}

/// What a file describes. Epochs suit it by the rule of `tune`.
fn described(file: &Path) -> Result<(Arc<dyn Workload>, Usual)> {
    let wrong = |e: &dyn Display| Error::Usage(format!("--workload-file {}: {e}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
    let workload = Described::parse(&text).map_err(|e| wrong(&e))?;
    let mut seen = Seen::default();
    workload.footprints().for_each(|(percent, footprint)| seen.add(&footprint, percent.into()));
    let need = Need::of(&seen, FILE_CLIENTS as f64, true);
    // What is inserted in a run stays.
    let grows = if workload.grows() { 100_000 } else { 0 };
    let records = workload.first_records().saturating_add(grows);
    let shape = shape(records, (need.value_bytes, need.read_batches, need.batch, need.write_batch));
    Ok((Arc::new(workload), Usual { shape, clients: FILE_CLIENTS, far: None }))
}

/// YCSB's name of a mix.
fn letter(application: Application) -> char {
    match application {
        Application::YcsbA => 'A',
        Application::YcsbB => 'B',
        Application::YcsbC => 'C',
        Application::YcsbD => 'D',
        Application::YcsbE => 'E',
        _ => 'F',
    }
}

/// Records of TPC-C, and bytes of its longest, a customer.
const RECORDS_A_WAREHOUSE: u32 = 269_100;
const ITEMS: u32 = 100_000;
const TPCC_RECORD: u64 = 688;

/// Clients that run what a file describes.
const FILE_CLIENTS: usize = 200;

/// Epochs of R batches for so many records, with room for a quarter more.
fn shape(
    records: u32,
    (value, read_batches, batch, write_batch): (u64, usize, usize, usize),
) -> ShapeArgs {
    ShapeArgs {
        capacity: Some(records.saturating_add(records / 4).saturating_add(1_000)),
        value_size: Some(ByteSize::b(value)),
        read_batches: Some(read_batches),
        batch: Some(batch),
        write_batch: Some(write_batch),
        interval_ms: Some(0),
        bucket_reals: Some(100),
        ..ShapeArgs::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::args::BenchCommand;

    use super::*;
    use crate::bench::typed;

    /// Clients, batch and write batch of what was typed.
    fn epochs(words: &str) -> (usize, usize, usize) {
        let words: Vec<String> =
            format!("app --scale 100 {words}").split(' ').map(Into::into).collect();
        let BenchCommand::App(args) = typed(&words).unwrap() else { panic!("another command") };
        let setting = Setting::of(&args).unwrap();
        let Load::Closed { clients } = setting.load else { panic!("no clients") };
        let epochs = setting.epochs().unwrap().unwrap();
        (clients, epochs.batch, epochs.write_batch)
    }

    #[test]
    fn a_store_that_is_far_has_more_clients_and_batches_that_they_fill() {
        let of = |more: &str| epochs(&format!("--workload freehealth {more}"));
        assert_eq!(of("--rtt-ms 0.3"), (500, 500, 500));
        assert_eq!(of("--rtt-ms 10"), (6_000, 6_000, 7_200));
        assert_eq!(of("--rtt-ms 10 --clients 8000"), (8_000, 8_000, 9_600));
        assert_eq!(of("--rtt-ms 10 --clients 8"), (8, 500, 500));
        assert_eq!(of("--rtt-ms 10 --clients 90000"), (90_000, 90_000, 100_000));
        // What was typed stays, and has the clients that it has nearby.
        assert_eq!(of("--rtt-ms 10 --batch 50"), (500, 50, 500));
        assert_eq!(epochs("--workload ycsb-a --rtt-ms 10"), epochs("--workload ycsb-a --rtt-ms 1"));
    }
}
