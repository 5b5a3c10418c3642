//! What was typed, as clap parses it: the commands of the program that holds no user's key.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fogbank::link::{LinkArgs, PaceArgs};
use fogbank_env::within;

mod bench;
pub mod limits;
mod tune;

pub use bench::{Application, BenchAppArgs, BenchPaperArgs, BenchSiteArgs, PaperFigure, System};
pub use fogbank::args::ShapeArgs;
pub use tune::TuneArgs;

/// Measures, tunes and audits; `fogbank` starts it from beside itself.
#[derive(Debug, Parser)]
#[command(
    name = "fogbank",
    bin_name = "fogbank",
    version,
    about,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 a check failed, 3 too little data to say, 64 wrong usage, \
                  130 stopped by a signal, others as in sysexits.h."
)]
pub struct Lab {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Propose a shape for a new store from a short run of your application, and say what the
    /// choice reveals.
    ///
    /// What is observed is secret: it is printed here and kept nowhere.
    Tune(Box<TuneArgs>),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Check recorded traces: is there anything in them that the cloud must not learn?
    ///
    /// Every record is held against what the public configuration predicts; what chance decides has
    /// to look like chance; and given two labels, with four runs or more each, a classifier is
    /// trained to tell them apart. Exit codes: 0 nothing found, 1 a leak was found, 3 too little
    /// data to say.
    Audit(AuditArgs),
    /// Print what completes commands in a shell: for bash, fogbank completions bash > FILE, and
    /// source it.
    Completions(CompletionsArgs),
    /// Write manual pages: one for every command, for man -l FILE or a folder of MANPATH.
    Man(ManArgs),
}

/// Which shell.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// Its name.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Where to.
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// A folder, which is made if there is none.
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The engine alone: epochs of distinct uniform real keys, every value read checked.
    Engine(Box<BenchEngineArgs>),
    /// What journal, commits and checkpoints cost, and how long a recovery takes.
    Recovery(Box<BenchRecoveryArgs>),
    /// The figures of Obladi's paper, figure 8 of TaoStore's, and figures 8 to 13 and 16 of
    /// ObliviStore's, with our values beside what the papers tell: as tables, drawings, JSON, and
    /// as a page.
    Paper(Box<BenchPaperArgs>),
    /// Clients that each wait for their answer, on the engines of volumes, one after the other over
    /// the same link. Journal and checkpoints are included, every value read is checked. With
    /// --profile the settings of TaoStore's paper, swept and drawn beside what the paper tells.
    Volume(Box<BenchVolumeArgs>),
    /// Clients of a site, each at the end of a link of its own, from when all blocks are written
    /// and tables of all levels are being built. Every value read is checked.
    Site(Box<BenchSiteArgs>),
    /// An application on Fogbank, and on what runs it without privacy, in one run. Its own rules
    /// are checked afterwards: where they do not hold nothing is printed.
    App(Box<BenchAppArgs>),
}

/// What to audit.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// A run, as serve --record wrote it, and what to call its history. Several runs may bear one
    /// label; give them in the order in which they were recorded, the labels taking turns. A run of
    /// several processes of one store after the other: LABEL=FIRST,SECOND. Of a site: the traces of
    /// all its clients, in any order.
    #[arg(long, value_name = "LABEL=FILE", required = true)]
    pub trace: Vec<String>,
    /// What was asked in the first run of a label (mode 0600): drawn beside what the cloud saw,
    /// read by no check, and makes the page a secret.
    #[arg(long, value_name = "LABEL=FILE")]
    pub history: Vec<String>,
    /// Write a page for people to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The advantage of a classifier that is still let pass: above 0, at most 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = within(limits::SHARE_OF_SOME))]
    pub bound: f64,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// What the engine benchmark runs.
#[derive(Debug, Clone, Args)]
pub struct BenchEngineArgs {
    /// The engine.
    #[arg(long, value_enum, default_value_t = Engine::Ring)]
    pub engine: Engine,
    /// The cloud side: memory:, or a URL as for serve (which must hold no store, and is left
    /// there).
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub store: String,
    /// The shape. Defaults here: 100,000 records of 1 KiB, 8 read batches of 500, 500 writes,
    /// interval 0, cache 0, Z 100.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Seconds to measure, after load and warm-up.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = within(limits::SECONDS))]
    pub seconds: f64,
    /// The link to the store: shaped in the proxy, while it is measured.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Journal and commit the epochs as a proxy does (with a freshness register in memory).
    #[arg(long)]
    pub durable: bool,
    /// Write every bucket as soon as it is rewritten, as plain Ring ORAM does (for comparison).
    #[arg(long, conflicts_with = "durable")]
    pub no_epoch_buffer: bool,
    /// Seed of keys and of the engine's randomness.
    #[arg(long, default_value_t = 1, value_parser = within(limits::SEED))]
    pub seed: u64,
    /// Write a trace of everything the store saw to this file, which must be new.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// What the benchmark of durability runs.
#[derive(Debug, Clone, Args)]
pub struct BenchRecoveryArgs {
    /// The shape. Defaults as for bench engine.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// The link to the store, which is in memory [a round trip of 0.3 ms].
    #[command(flatten)]
    pub link: LinkArgs,
    /// Where the freshness register is.
    #[arg(long, value_enum, default_value = "memory")]
    pub register: BenchRegister,
    /// Seconds of a round.
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = within(limits::SECONDS))]
    pub seconds: f64,
    /// Rounds with and without, in turn.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = within(1..=1_000_u32))]
    pub rounds: u32,
    /// Where the register's file is, while it runs.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Seed of keys and of the engines' randomness.
    #[arg(long, default_value_t = 1, value_parser = within(limits::SEED))]
    pub seed: u64,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// An engine of volumes that `bench volume` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VolumeEngineName {
    /// Path ORAM.
    Tao,
    /// Partitions.
    Partition,
    /// Epochs, as large as the clients fill, one after the other.
    Ring,
    /// Two clouds that shuffle for each other: two fogbank-cloud processes on this machine.
    Multicloud,
}

/// Disks under the store of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiskName {
    /// Seven disks of 12 ms a seek and 100 MB/s.
    #[value(name = "7-hdd")]
    Seven,
    /// Two solid state drives of 0.1 ms a seek and 250 MB/s.
    #[value(name = "2-ssd")]
    Solid,
}

/// What the benchmark of volumes runs.
#[derive(Debug, Clone, Args)]
pub struct BenchVolumeArgs {
    /// The engines, measured in turn [tao,partition; with --profile: tao].
    #[arg(long, value_enum, value_name = "ENGINE,..", value_delimiter = ',')]
    pub engine: Vec<VolumeEngineName>,
    /// A setting of TaoStore's paper, for the engine tao; other flags go before what it says.
    #[arg(long, value_enum, conflicts_with_all = ["disks", "sparse"])]
    pub profile: Option<TaoProfile>,
    /// Clients: each has one access under way. Several numbers are measured in turn [10].
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = within(limits::VOLUME_CLIENTS))]
    pub clients: Vec<usize>,
    /// Bytes of all blocks; the store in memory takes two to five times that [256MiB; profiles:
    /// 1GB, tao-sim 13GB].
    #[arg(long, value_name = "SIZE", value_parser = within(limits::DISK_SIZE))]
    pub size: Option<ByteSize>,
    /// Bytes of a block.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = within(limits::VALUE_SIZE))]
    pub block: ByteSize,
    /// Memory of the proxy for the top of the tree, or the lowest levels of partitions (of
    /// multicloud three to five). Each of several is loaded anew [64MiB; profiles: 0, tao-cache 0
    /// and 1/64, 1/32, 1/16 of the leaves].
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', value_parser = within(limits::MEMORY))]
    pub cache: Vec<ByteSize>,
    /// With --profile, k: paths from one write-back to the next. For each of several the store is
    /// opened anew [40; tao-k: 10, 20, 40, 80, 160, 320].
    #[arg(long, value_name = "K,..", value_delimiter = ',', requires = "profile", value_parser = within(limits::WRITE_BACK_EVERY))]
    pub write_back_every: Vec<u32>,
    /// At which pace messages leave.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Bytes of what is written that are under way at once [what the link carries in four round
    /// trips and 10 ms; without a limit 8MiB, of partition 32MiB].
    #[arg(long, value_name = "SIZE", value_parser = within(limits::WRITE_BEHIND))]
    pub write_behind: Option<ByteSize>,
    /// Messages leave at multiples of so many microseconds, as those of a volume do.
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = within(limits::QUANTUM_US))]
    pub quantum_us: u64,
    /// Seconds to measure at every point, after load and warm-up.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = within(limits::SECONDS))]
    pub seconds: f64,
    /// The link to the store.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Of multicloud: what its clouds can send each other, each way, in MB (10^6 bytes) a second
    /// [unlimited]. The kernel keeps that, in a network namespace of this program, where it may.
    #[arg(long, value_name = "MB/S", value_parser = within(limits::MB_S))]
    pub between_mb_s: Option<f64>,
    /// Disks under the store, at the far end of the link [none: memory].
    #[arg(long, value_enum, value_name = "DISKS")]
    pub disks: Option<DiskName>,
    /// Load nothing: cells that the engine has never written are made when it asks for them. For
    /// volumes that are larger than this machine's memory, and engines that place all blocks in a
    /// new store (partition), or imagine that they did (multicloud, both of whose servers are
    /// within this process then).
    #[arg(long)]
    pub sparse: bool,
    /// Seed of accesses and of the engine's randomness.
    #[arg(long, default_value_t = 1, value_parser = within(limits::SEED))]
    pub seed: u64,
    /// With --profile, draw what is swept as SVG into this folder, the paper's figures beside ours.
    #[arg(long, value_name = "DIR", requires = "profile")]
    pub plot: Option<PathBuf>,
    /// One JSON object a point, on a line of standard output of its own.
    #[arg(long)]
    pub json: bool,
    /// It is in a network namespace of its own, whose loopback it may make slow: this program says
    /// so to itself when it begins anew.
    #[arg(long, hide = true)]
    pub has_namespace: bool,
}

/// Settings of TaoStore's paper. Where it is silent, k is 40, there are 10 clients and no cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaoProfile {
    /// Proxy and store apart: 12 ms, 11 MB/s each way, 1 GB.
    TaoWan,
    /// In one datacentre: 0.5 ms, 125.25 MB/s each way, 1 GB.
    TaoDc,
    /// Simulated: 50 ms, no limit, 13 GB.
    TaoSim,
    /// As tao-wan, k swept.
    TaoK,
    /// As tao-wan, the cache swept from none to 6.3 % of the data.
    TaoCache,
    /// No link: the engine alone, 1 GB.
    None,
}

/// Where the register of the benchmark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchRegister {
    /// In memory: a bump costs nothing.
    Memory,
    /// In a file, synced at every bump.
    File,
}

/// The engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Batch-parallel Ring ORAM in epochs (Obladi).
    Ring,
}
