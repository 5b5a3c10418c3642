//! What is typed to measure applications.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};

use super::{BenchVolumeArgs, ShapeArgs, VolumeEngineName, limits};
use fogbank::link::{LinkArgs, PaceArgs};
use fogbank_env::within;

/// Which application is measured, on what.
#[derive(Debug, Clone, Args)]
pub struct BenchAppArgs {
    /// The application.
    #[arg(long, value_enum, default_value = "smallbank")]
    pub workload: Application,
    /// An application of your own instead, in a TOML file: examples/practice.toml is one,
    /// docs/tuning.md says what it may hold.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "scale"])]
    pub workload_file: Option<PathBuf>,
    /// What it runs on, one after the other: what privacy costs is the ratio of two.
    #[arg(
        long,
        value_enum,
        value_name = "SYSTEM,..",
        value_delimiter = ',',
        default_value = "fogbank,nopriv"
    )]
    pub on: Vec<System>,
    /// Clients that wait for their answers [what suits the workload and the link; then batches are
    /// as large as they fill].
    #[arg(long, value_name = "N", conflicts_with = "rate", value_parser = within(limits::CLIENTS))]
    pub clients: Option<usize>,
    /// Transactions a second that arrive whether those before them are answered or not, instead of
    /// clients.
    #[arg(long, value_name = "PER_S", value_parser = within(limits::RATE))]
    pub rate: Option<f64>,
    /// Seconds that are measured.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = within(limits::SECONDS))]
    pub seconds: f64,
    /// Seconds before, and again after, that are not.
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = within(limits::RAMP))]
    pub ramp: f64,
    /// Times that each system is measured; the median counts.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within(limits::ROUNDS))]
    pub rounds: usize,
    /// Its size: customers of SmallBank, who have two accounts each, warehouses of TPC-C, patients
    /// of FreeHealth, records of YCSB [100000; 1; 1000; 100000].
    #[arg(long, value_name = "N", value_parser = within(limits::SCALE))]
    pub scale: Option<u32>,
    /// The cloud side of fogbank and nopriv: memory:, or a URL as for serve that holds no store.
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub store: String,
    /// The shape of fogbank's epochs. Defaults follow from the application, unless --preset is
    /// given.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// The link to the store: shaped in the proxy, while it is measured.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1, value_parser = within(limits::SEED))]
    pub seed: u64,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// The applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Application {
    /// A bank: transfers between the accounts of customers that are all alike.
    Smallbank,
    /// The same, nine of ten accesses to a hundred customers.
    SmallbankHot,
    /// A wholesale supplier: orders, payments, deliveries.
    Tpcc,
    /// The medical records of hospitals.
    Freehealth,
    /// Single records: half reads, half updates.
    YcsbA,
    /// Single records: reads, and an update in twenty.
    YcsbB,
    /// Single records: reads.
    YcsbC,
    /// Single records: reads of what is new, and an insert in twenty.
    YcsbD,
    /// Scans of up to a hundred records, and an insert in twenty.
    YcsbE,
    /// Single records: half reads, half reads that are followed by a write.
    YcsbF,
}

/// What an application runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum System {
    /// Fogbank with the engine ring: journal, commits and checkpoints included.
    Fogbank,
    /// The same, asked as a Redis: commands go through the front end, each round trip to it is an
    /// epoch. Not for what scans.
    FogbankRedis,
    /// The same transactions without privacy: no batches, no encryption, nothing kept for a
    /// recovery.
    Nopriv,
    /// A redis-server that is started for this, on this machine and so without the link; it keeps
    /// nothing on disk.
    Redis,
    /// A PostgreSQL that is started for this, the same way; it syncs every commit.
    Postgresql,
}

impl System {
    /// Whether its transactions run in epochs.
    pub fn is_fogbank(self) -> bool {
        matches!(self, Self::Fogbank | Self::FogbankRedis)
    }

    /// Whether its store is at the far end of the link.
    pub fn has_link(self) -> bool {
        self.is_fogbank() || self == Self::Nopriv
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fogbank => "fogbank",
            Self::FogbankRedis => "fogbank-redis",
            Self::Nopriv => "nopriv",
            Self::Redis => "redis",
            Self::Postgresql => "postgresql",
        }
    }
}

/// What the benchmark of sites runs.
#[derive(Debug, Clone, Args)]
pub struct BenchSiteArgs {
    /// Clients: each has one query under way. Several numbers are measured in turn.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "30", value_parser = within(limits::SITE_CLIENTS))]
    pub clients: Vec<usize>,
    /// Bytes of all blocks; the server in memory takes some 15 times that.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = within(limits::DISK_SIZE))]
    pub size: ByteSize,
    /// Bytes of a block.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = within(limits::BLOCK_SIZE))]
    pub block: ByteSize,
    /// Seconds to measure at every point [until one table of the largest level has been built].
    #[arg(long, value_name = "S", value_parser = within(limits::SECONDS))]
    pub seconds: Option<f64>,
    /// Messages leave at multiples of so many microseconds, as those of a site do.
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = within(limits::QUANTUM_US))]
    pub quantum_us: u64,
    /// The link of every client to the server.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Seed of queries and of the clients' randomness.
    #[arg(long, default_value_t = 1, value_parser = within(limits::SEED))]
    pub seed: u64,
    /// Engines of volumes that are measured afterwards, with as many blocks, clients and bytes a
    /// second: what a site costs beside one trusted proxy for all.
    #[arg(long, value_enum, value_name = "ENGINE,..", value_delimiter = ',')]
    pub beside: Vec<VolumeEngineName>,
    /// One JSON object a point, on a line of standard output of its own.
    #[arg(long)]
    pub json: bool,
}

impl BenchSiteArgs {
    /// What is measured beside it.
    pub fn volumes(self) -> BenchVolumeArgs {
        BenchVolumeArgs {
            engine: self.beside,
            clients: self.clients,
            size: Some(self.size),
            block: self.block,
            quantum_us: self.quantum_us,
            seconds: self.seconds.unwrap_or(BESIDE_SECONDS),
            link: self.link,
            seed: self.seed,
            json: self.json,
            profile: None,
            cache: Vec::new(),
            write_back_every: Vec::new(),
            pace: PaceArgs::default(),
            write_behind: None,
            between_mb_s: None,
            disks: None,
            sparse: false,
            plot: None,
            has_namespace: false,
        }
    }
}

/// How long volumes are measured beside a site that is until a table has been built.
const BESIDE_SECONDS: f64 = 20.0;

/// Which figures of the papers are measured, and how.
#[derive(Debug, Clone, Args)]
pub struct BenchPaperArgs {
    /// The figures.
    #[arg(
        long,
        value_enum,
        value_name = "FIGURE,..",
        value_delimiter = ',',
        default_value = "all"
    )]
    pub figure: Vec<PaperFigure>,
    /// The share of the papers' sizes that is loaded, above 0 and up to 1; what is smaller is said
    /// with every figure [1 for sparse volumes and figures 10a to 10e and 11a, 0.1 for others].
    #[arg(long, value_name = "SHARE", value_parser = within(limits::SHARE_OF_SOME))]
    pub scale: Option<f64>,
    /// Seconds that are measured, of each point and round; one access at a time takes longer [3,
    /// figure 9: 8, figures 6 and 7 of sites: until a table of the largest level is built].
    #[arg(long, value_name = "S", value_parser = within(limits::SECONDS))]
    pub seconds: Option<f64>,
    /// Seconds before that are not measured; applications have as many after [1, figure 9: 3].
    #[arg(long, value_name = "S", value_parser = within(limits::RAMP))]
    pub ramp: Option<f64>,
    /// Times that each point is measured: the median counts, least and greatest are told.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = within(limits::ROUNDS))]
    pub rounds: usize,
    /// Where tables, JSON and drawings are written. Files of the same names are overwritten, others
    /// left.
    #[arg(long, value_name = "DIR", default_value = "fogbank-figures")]
    pub out: PathBuf,
    /// Write one page with all of it, too.
    #[arg(long)]
    pub html: bool,
    /// The shape of Obladi's engine, in place of what a figure says; what a figure varies it sets
    /// itself, and the size of applications is that of --scale.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1, value_parser = within(limits::SEED))]
    pub seed: u64,
    /// One JSON object with all figures as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// Figures of the papers; all but those of Obladi have a name before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum PaperFigure {
    /// All of them.
    All,
    /// Applications with and without privacy.
    #[value(name = "9")]
    Applications,
    /// A parallel engine and a sequential one, by distance from the store.
    #[value(name = "10a")]
    Parallel,
    /// Throughput by the size of a batch.
    #[value(name = "10b")]
    BatchThroughput,
    /// Time of a batch by its size.
    #[value(name = "10c")]
    BatchLatency,
    /// Buckets written once an epoch, or whenever they change.
    #[value(name = "10d")]
    Buffering,
    /// Throughput and cells an access by the batches of an epoch.
    #[value(name = "10e")]
    EpochSize,
    /// Throughput of applications by the batches of an epoch.
    #[value(name = "10f")]
    EpochLength,
    /// Throughput by how often a full checkpoint is made.
    #[value(name = "11a")]
    Checkpoints,
    /// What durability costs, and how long a recovery takes.
    #[value(name = "11b")]
    Recovery,
    /// Throughput and response time by the number of clients.
    #[value(name = "tao-8a")]
    TaoClients,
    /// Time to fetch a path by the size of the cache.
    #[value(name = "tao-8b")]
    TaoCachePath,
    /// Response time by the size of the cache.
    #[value(name = "tao-8c")]
    TaoCacheResponse,
    /// Throughput by the size of the cache.
    #[value(name = "tao-8d")]
    TaoCacheThroughput,
    /// Throughput and response time by k, the paths from one write-back to the next.
    #[value(name = "tao-k")]
    TaoWriteBack,
    /// Throughput of partition on seven disks by the size of the volume.
    #[value(name = "oblivistore-8")]
    DisksThroughput,
    /// Response time on seven disks by the size of the volume.
    #[value(name = "oblivistore-9")]
    DisksResponse,
    /// Throughput on seven disks by the round trip.
    #[value(name = "oblivistore-10")]
    DisksRoundTrip,
    /// Throughput on two solid state drives by the size of the volume.
    #[value(name = "oblivistore-11")]
    DrivesThroughput,
    /// Response time on two solid state drives by the size of the volume.
    #[value(name = "oblivistore-12")]
    DrivesResponse,
    /// Throughput on two solid state drives by the round trip.
    #[value(name = "oblivistore-13")]
    DrivesRoundTrip,
    /// Seeks an access by the size of the volume.
    #[value(name = "oblivistore-16")]
    Seeks,
    /// Throughput of multicloud by the size of the volume.
    #[value(name = "multicloud-7")]
    CloudsThroughput,
    /// Response time of multicloud by the size of the volume.
    #[value(name = "multicloud-8")]
    CloudsResponse,
    /// Throughput of multicloud by the round trip.
    #[value(name = "multicloud-9")]
    CloudsRoundTripThroughput,
    /// Response time of multicloud by the round trip.
    #[value(name = "multicloud-10")]
    CloudsRoundTripResponse,
    /// What goes over the client's link for an access of multicloud, by parts.
    #[value(name = "multicloud-12")]
    CloudsParts,
    /// How fast cells are summed, by the size of a block.
    #[value(name = "multicloud-13")]
    CloudsChecksum,
    /// Throughput of multicloud by the link between the clouds.
    #[value(name = "multicloud-14")]
    CloudsBetweenThroughput,
    /// Response time of multicloud by the link between the clouds.
    #[value(name = "multicloud-15")]
    CloudsBetweenResponse,
    /// Queries of a site by its size and its clients.
    #[value(name = "privatefs-6")]
    SiteSizes,
    /// Queries of a site by its clients and the round trip.
    #[value(name = "privatefs-7")]
    SiteRoundTrips,
    /// What queries take while a site grows.
    #[value(name = "privatefs-8")]
    SiteGrowing,
    /// How far a table of a site is built, by the log and by what was written.
    #[value(name = "privatefs-9")]
    SiteProgress,
}

impl PaperFigure {
    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Applications => "9",
            Self::Parallel => "10a",
            Self::BatchThroughput => "10b",
            Self::BatchLatency => "10c",
            Self::Buffering => "10d",
            Self::EpochSize => "10e",
            Self::EpochLength => "10f",
            Self::Checkpoints => "11a",
            Self::Recovery => "11b",
            Self::TaoClients => "tao-8a",
            Self::TaoCachePath => "tao-8b",
            Self::TaoCacheResponse => "tao-8c",
            Self::TaoCacheThroughput => "tao-8d",
            Self::TaoWriteBack => "tao-k",
            Self::DisksThroughput => "oblivistore-8",
            Self::DisksResponse => "oblivistore-9",
            Self::DisksRoundTrip => "oblivistore-10",
            Self::DrivesThroughput => "oblivistore-11",
            Self::DrivesResponse => "oblivistore-12",
            Self::DrivesRoundTrip => "oblivistore-13",
            Self::Seeks => "oblivistore-16",
            Self::CloudsThroughput => "multicloud-7",
            Self::CloudsResponse => "multicloud-8",
            Self::CloudsRoundTripThroughput => "multicloud-9",
            Self::CloudsRoundTripResponse => "multicloud-10",
            Self::CloudsParts => "multicloud-12",
            Self::CloudsChecksum => "multicloud-13",
            Self::CloudsBetweenThroughput => "multicloud-14",
            Self::CloudsBetweenResponse => "multicloud-15",
            Self::SiteSizes => "privatefs-6",
            Self::SiteRoundTrips => "privatefs-7",
            Self::SiteGrowing => "privatefs-8",
            Self::SiteProgress => "privatefs-9",
        }
    }
}
