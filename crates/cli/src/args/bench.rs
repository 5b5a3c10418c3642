//! What is typed to measure applications.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ShapeArgs;
use crate::link::LinkArgs;

/// Which application is measured, on what.
#[derive(Debug, Clone, Args)]
pub struct BenchAppArgs {
    /// The application.
    #[arg(long, value_enum, default_value = "smallbank")]
    pub workload: Application,
    /// An application of your own instead, in a TOML file: examples/practice.toml is one, docs/tuning.md says what
    /// it may hold.
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
    /// Clients that wait for their answers [as many as fill the batches].
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    pub clients: Option<usize>,
    /// Transactions a second that arrive whether those before them are answered or not, instead of clients.
    #[arg(long, value_name = "PER_S")]
    pub rate: Option<f64>,
    /// Seconds that are measured.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds before, and again after, that are not.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub ramp: f64,
    /// Times that each system is measured; the median counts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub rounds: usize,
    /// Its size: accounts of SmallBank, warehouses of TPC-C, patients of FreeHealth, records of YCSB [100000;
    /// 1; 1000; 100000].
    #[arg(long, value_name = "N")]
    pub scale: Option<u32>,
    /// The cloud side of fogbank and nopriv: memory:, or a URL as for serve that holds no store.
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub store: String,
    /// The shape of fogbank's epochs. Defaults follow from the application.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// The link to the store: shaped in the proxy, while it is measured.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1)]
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
    /// The same transactions without privacy: no batches, no encryption, nothing kept for a recovery.
    Nopriv,
    /// A redis-server that is started for this, on this machine and so without the link; it keeps nothing on disk.
    Redis,
    /// A PostgreSQL that is started for this, the same way; it syncs every commit.
    Postgresql,
}

impl System {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fogbank => "fogbank",
            Self::Nopriv => "nopriv",
            Self::Redis => "redis",
            Self::Postgresql => "postgresql",
        }
    }
}
