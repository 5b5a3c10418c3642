//! What was typed: the command line, as clap parses it. What it means is decided in `config`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fogbank_env::within;
use serde::Deserialize;

mod plan;
mod shape;
mod site;

pub use self::plan::{PlanArgs, VolumePlanArgs};
pub use self::site::{
    SiteArgs, SiteBackupArgs, SiteBuildArgs, SiteCommand, SiteCompareArgs, SiteCreateArgs,
    SiteInviteArgs, SiteJoinArgs, SitePlanArgs, SiteRecordArgs, SiteRestoreArgs, SiteRotateKeyArgs,
    SiteServeArgs, WitnessArgs,
};
use crate::engines::{VOLUME_ENGINES, VolumeEngine};
use crate::limits;
use crate::link::PaceArgs;
use crate::load::Format;
use crate::preset::Preset;
use crate::schedule::rest_after;
use crate::volume::Flags;

/// Storage in a cloud that cannot see what you touch.
#[derive(Debug, Parser)]
#[command(
    name = "fogbank",
    version,
    about,
    max_term_width = 100,
    after_help = "Where a flag is also an environment variable, --help names it.\n\
                  Exit codes: 0 done, 1 a check failed, 3 too little data to say, 64 wrong usage, \
                  130 stopped by a signal, others as in sysexits.h."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a store to Redis clients.
    Serve(Box<ServeArgs>),
    /// Keep freshness registers for proxies elsewhere: one of the servers of --registers.
    RegisterServer(RegisterServerArgs),
    /// Tell what is at a store or a volume: shape, size, last commit. Reads only, shows no secrets.
    Inspect(InspectArgs),
    /// Open a store however it was left, say what was recovered, and close it.
    Recover(RecoverArgs),
    /// Read a store from one end to the other and check that every byte is what was written; or,
    /// with --presence, look at one that is being served; or, with --repair, make a new one of what
    /// verifies.
    Verify(VerifyArgs),
    /// Copy everything a store holds into one sealed file.
    Backup(BackupArgs),
    /// Make a new store, with a key of its own, of what a backup holds.
    ///
    /// That is also how a key is changed: back up, restore into a new --data, delete the old store.
    Restore(RestoreArgs),
    /// Make a new store of a file of keys and values, quickly. The cloud sees no more of it than of
    /// an empty one of the same capacity that was filled.
    ///
    /// If it is stopped, the same command goes on where it was.
    Load(Box<LoadArgs>),
    /// Copy a store into a new one that has a key of its own. Stop its server before.
    ///
    /// Nothing of the old store is changed or deleted; delete it, with its key, when the new one
    /// serves.
    RotateKey(RotateKeyArgs),
    /// Disks that nobody can read over your shoulder: any file system goes on one.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// A disk that many clients share, which have a key in common and no proxy between them.
    #[command(subcommand)]
    Site(SiteCommand),
    /// Serve a volume, or the disk of a site, and mount the file system on it, until a signal says
    /// stop. Needs root, and nbdfuse.
    Mount(MountArgs),
    /// Say what a store will need and cost, before it is made.
    #[command(after_help = plan::PRICES_HELP)]
    Plan(Box<PlanArgs>),
    /// Settings.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Propose a shape for a new store from a short run of your application, and say what the
    /// choice reveals.
    #[command(disable_help_flag = true)]
    Tune(ForwardedArgs),
    /// Measure.
    #[command(disable_help_flag = true)]
    Bench(ForwardedArgs),
    /// Check recorded traces: is there anything in them that the cloud must not learn?
    #[command(disable_help_flag = true)]
    Audit(ForwardedArgs),
    /// Print what completes commands in a shell.
    #[command(disable_help_flag = true)]
    Completions(ForwardedArgs),
    /// Write manual pages.
    #[command(disable_help_flag = true)]
    Man(ForwardedArgs),
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// See whether `serve` takes settings, for a new store or the one that is there, without making
    /// or changing anything, and say what they stand for.
    Check(Box<ServeArgs>),
}

/// What is typed after a command that is a program of its own.
#[derive(Debug, Clone, Args)]
pub struct ForwardedArgs {
    /// As they are; --help tells them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub words: Vec<OsString>,
}

/// What to do with a volume.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Make a volume: instant, whatever its size.
    Create(VolumeCreateArgs),
    /// Serve a volume as a network block device (NBD), until a signal says stop.
    Serve(VolumeServeArgs),
    /// Say what a volume will need and cost with every engine, before it is made.
    #[command(after_help = plan::PRICES_HELP)]
    Plan(Box<VolumePlanArgs>),
}

/// The shape of a new volume.
#[derive(Debug, Clone, Args)]
pub struct VolumeShapeArgs {
    /// Bytes of the volume.
    #[arg(long, value_name = "SIZE", value_parser = within(limits::DISK_SIZE))]
    pub size: ByteSize,
    /// Bytes of a block: what is read and written at once, and what a request is rounded to.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = within(limits::BLOCK_SIZE))]
    pub block: ByteSize,
    /// The engine.
    #[arg(long, value_parser = VolumeEngine::parser(), default_value = VOLUME_ENGINES[0].name)]
    pub engine: &'static VolumeEngine,
    /// The second cloud of an engine that needs two which do not collude: grpc://HOST:PORT/TENANT.
    /// It is noted in DIR/proxy/second-store, so later commands find it there.
    #[arg(long, value_name = "URL", env = "FOGBANK_SECOND_STORE")]
    pub second_store: Option<String>,
    /// What only some engines know.
    #[command(flatten)]
    pub flags: Flags,
}

/// What a volume is made with.
#[derive(Debug, Clone, Args)]
pub struct VolumeCreateArgs {
    /// Where.
    #[command(flatten)]
    pub place: StoreArgs,
    /// Of a volume in two clouds: a folder on another disk for all that is written to its journal,
    /// a second time: who loses DIR goes on with that and a copy of the key. It is noted in
    /// DIR/proxy/second-journal.
    #[arg(long, value_name = "FOLDER")]
    pub second_journal: Option<PathBuf>,
    /// Make it though its disk has not the room for all of it: it grows as it is written.
    #[arg(long)]
    pub sparse: bool,
    /// Of epochs: write what the cloud sees of this, too; the traces of volume serve --record
    /// follow it.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The shape.
    #[command(flatten)]
    pub shape: VolumeShapeArgs,
}

/// How the messages of a served volume leave.
#[derive(Debug, Clone, Copy, Args)]
pub struct FlowArgs {
    /// Accesses a second, whatever the file system does, so that their count tells nothing either.
    /// Without it accesses leave as they come.
    #[arg(long, value_name = "N", value_parser = within(limits::FIXED_RATE))]
    pub fixed_rate: Option<u64>,
    /// Milliseconds from one tick of the fixed rate to the next.
    #[arg(long, value_name = "MS", default_value_t = 10, requires = "fixed_rate", value_parser = within(limits::TICK_MS))]
    pub tick_ms: u64,
    /// At which pace messages leave, if they leave as accesses come.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Bytes of what is written that are under way at once, if accesses leave as they come [tao:
    /// 8MiB, 1MiB across a network; partition: 32MiB, 4MiB across one].
    #[arg(long, value_name = "SIZE", value_parser = within(limits::WRITE_BEHIND))]
    pub write_behind: Option<ByteSize>,
}

/// How a volume is served.
#[derive(Debug, Clone, Args)]
pub struct VolumeServeArgs {
    /// Where it is.
    #[command(flatten)]
    pub place: OpenArgs,
    /// Where to listen: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10809")]
    pub nbd: String,
    /// Take TRIM: a trimmed range reads as zeros, at the cost of writing it.
    #[arg(long)]
    pub trim: bool,
    /// Refuse writes.
    #[arg(long)]
    pub read_only: bool,
    /// A fixed rate.
    #[command(flatten)]
    pub flow: FlowArgs,
    /// Of epochs: rest, that is, send nothing, when no client has been connected for so long, such
    /// as 10m; the next one wakes the volume. The cloud then sees when somebody is there [never].
    #[arg(long, value_name = "TIME", value_parser = rest_after)]
    pub rest_after: Option<Duration>,
    /// Of epochs: write what the cloud sees, a trace for fogbank audit, to this file, which must be
    /// new. An audit needs the trace of volume create --record before it.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The server's certificate (PEM): clients have to speak TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM), mode 0600.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Without a certificate, serve other machines all the same: whoever is in the network between
    /// reads and changes everything on the disk.
    #[arg(long, conflicts_with = "tls_cert")]
    pub in_clear: bool,
}

/// How a volume is mounted.
#[derive(Debug, Clone, Args)]
pub struct MountArgs {
    /// Directory of the volume's trusted side and, unless --store says otherwise, of its cloud
    /// side; or that of a client of a site.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// An empty folder.
    #[arg(value_name = "MOUNTPOINT")]
    pub mount_point: PathBuf,
    /// The cloud side, as it was said to create the volume.
    #[arg(long, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: Option<String>,
    /// Of a volume in two clouds: where the second one is now, if it has moved:
    /// grpc://HOST:PORT/TENANT [as noted in DIR/proxy/second-store].
    #[arg(long, value_name = "URL", env = "FOGBANK_SECOND_STORE")]
    pub second_store: Option<String>,
    /// Of a volume in two clouds: a folder on another disk where its journal lies a second time
    /// from now on [as noted in DIR/proxy/second-journal].
    #[arg(long, value_name = "FOLDER")]
    pub second_journal: Option<PathBuf>,
    /// Where the freshness register is, if not in DIR/proxy.
    #[command(flatten)]
    pub registers: RegistersArgs,
    /// Make a file system first, if there is none of that type yet; refused if there is anything
    /// else on the volume.
    #[arg(long, value_enum, value_name = "TYPE")]
    pub mkfs: Option<FileSystem>,
    /// A fixed rate.
    #[command(flatten)]
    pub flow: FlowArgs,
}

/// A file system that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    /// Linux's own.
    Ext4,
}

/// Where a store is.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// Directory of both sides.
    ///
    /// Of the trusted side (in DIR/proxy) and, unless --store says otherwise, of the cloud side (in
    /// DIR/cloud).
    #[arg(long, help_heading = WHERE, value_name = "DIR", env = "FOGBANK_DATA", default_value = "fogbank-data")]
    pub data: PathBuf,
    /// URL of the cloud side [file://DIR/cloud].
    ///
    /// file://DIR; s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX (with the
    /// credentials that the cloud's own tools find in the environment); grpc://HOST:PORT/TENANT (a
    /// fogbank-cloud; credentials from ?credentials=FILE or FOGBANK_CLOUD_CREDENTIALS);
    /// dynamodb://TABLE/PREFIX (in a build with that feature); or memory: (gone when the process
    /// ends).
    #[arg(long, help_heading = WHERE, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: Option<String>,
    /// TOML file with the shape.
    ///
    /// As in preset = "busy", capacity = 1000; flags and environment go before it.
    #[arg(long, help_heading = WHERE, value_name = "FILE", env = "FOGBANK_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where the freshness register is, if not in DIR/proxy.
    #[command(flatten)]
    pub registers: RegistersArgs,
}

/// Which servers keep the freshness register.
#[derive(Debug, Clone, Default, Args)]
pub struct RegistersArgs {
    /// File with servers of the freshness register.
    ///
    /// They keep it instead of DIR/proxy. The file has mode 0600 and their addresses, one a line
    /// (see fogbank register-server), 3 or another odd number.
    #[arg(long, help_heading = WHERE, value_name = "FILE", env = "FOGBANK_REGISTERS")]
    pub registers: Option<PathBuf>,
}

/// What a register server is told.
#[derive(Debug, Clone, Args)]
pub struct RegisterServerArgs {
    /// Directory of what it keeps, made if there is none: its certificate and token, and the
    /// registers.
    #[arg(long, value_name = "DIR", default_value = "fogbank-register-data")]
    pub data: PathBuf,
    /// Where proxies connect.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7379")]
    pub listen: String,
}

/// The public shape of a store. Given at creation; later it may be left out or must be the same.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ShapeArgs {
    /// By name [small].
    ///
    /// For all that is not given otherwise.
    #[arg(long, help_heading = SHAPE, value_enum, env = "FOGBANK_PRESET")]
    pub preset: Option<Preset>,
    /// Records that it can hold [100000].
    ///
    /// Of at most --value-size bytes; longer ones take several.
    #[arg(long, help_heading = SHAPE, value_name = "N", env = "FOGBANK_CAPACITY", value_parser = within(limits::CAPACITY))]
    pub capacity: Option<u32>,
    /// Bytes of a value that one cell holds [512 B].
    #[arg(long, help_heading = SHAPE, value_name = "SIZE", env = "FOGBANK_VALUE_SIZE", value_parser = within(limits::VALUE_SIZE))]
    pub value_size: Option<ByteSize>,
    /// Read batches an epoch [2].
    ///
    /// The longest chain of dependent reads that a transaction can make in one.
    #[arg(long, help_heading = SHAPE, value_name = "R", env = "FOGBANK_READ_BATCHES", value_parser = within(limits::READ_BATCHES))]
    pub read_batches: Option<usize>,
    /// Read batches under way at once [1].
    ///
    /// More keep a slow link busy: a batch leaves while the one before is still on its way; a chain
    /// of dependent reads is that many times shorter.
    #[arg(long, help_heading = SHAPE, value_name = "N", env = "FOGBANK_IN_FLIGHT", value_parser = within(limits::READ_BATCHES))]
    pub in_flight: Option<usize>,
    /// Messages of 2 MiB under way at once [6].
    ///
    /// Of a batch or of a commit. More fill a longer or faster link and take as much more memory.
    #[arg(long, help_heading = SHAPE, value_name = "N", env = "FOGBANK_WINDOWS", value_parser = within(limits::WINDOWS))]
    pub windows: Option<usize>,
    /// Reads of a read batch [132].
    ///
    /// A command that reads more than --read-batches times this takes several epochs.
    #[arg(long, help_heading = SHAPE, value_name = "N", env = "FOGBANK_BATCH", value_parser = within(limits::BATCH))]
    pub batch: Option<usize>,
    /// Writes of an epoch [132].
    ///
    /// A command that changes more takes several epochs.
    #[arg(long, help_heading = SHAPE, value_name = "N", env = "FOGBANK_WRITE_BATCH", value_parser = within(limits::WRITE_BATCH))]
    pub write_batch: Option<usize>,
    /// Milliseconds between batches [160].
    ///
    /// 0 sends each as soon as the one before is done, which shows the cloud how long the proxy's
    /// own work takes (benchmarks only).
    #[arg(long, help_heading = SHAPE, value_name = "MS", env = "FOGBANK_INTERVAL_MS", value_parser = within(limits::INTERVAL_MS))]
    pub interval_ms: Option<u64>,
    /// Memory for the top of the tree [64MiB].
    ///
    /// 0 keeps none of it in the proxy.
    #[arg(long, help_heading = SHAPE, value_name = "SIZE", env = "FOGBANK_CACHE", value_parser = within(limits::MEMORY))]
    pub cache: Option<ByteSize>,
    /// Z: real blocks of a bucket [by capacity].
    #[arg(long, help_heading = SHAPE, value_name = "Z", env = "FOGBANK_BUCKET_REALS", value_parser = within(limits::BUCKET_REALS))]
    pub bucket_reals: Option<u16>,
    /// S: dummies of a bucket [by Z].
    #[arg(long, help_heading = SHAPE, value_name = "S", env = "FOGBANK_BUCKET_DUMMIES", value_parser = within(limits::BUCKET_DUMMIES))]
    pub bucket_dummies: Option<u16>,
    /// A: accesses between evictions [by Z].
    #[arg(long, help_heading = SHAPE, value_name = "A", env = "FOGBANK_EVICT_EVERY", value_parser = within(limits::EVICT_EVERY))]
    pub evict_every: Option<u32>,
    /// L: the level of the leaves [by capacity and A].
    #[arg(long, help_heading = SHAPE, value_name = "L", env = "FOGBANK_LEAF_LEVEL", value_parser = within(limits::LEAF_LEVEL))]
    pub leaf_level: Option<u32>,
    /// XORed reads.
    ///
    /// Whether a path read is one XORed cell.
    #[arg(long, help_heading = SHAPE, value_enum, env = "FOGBANK_XOR")]
    pub xor: Option<Xor>,
}

/// When to ask the store to combine cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Xor {
    /// Where the store offers it and a link lies between.
    Auto,
    /// Always; an error where the store does not offer it.
    On,
    /// Never.
    Off,
}

/// The groups of the help of a server.
const WHERE: &str = "Where";
const SHAPE: &str = "Shape of a new store";
const CLIENTS: &str = "Clients";
const WHEN: &str = "When";
const OBSERVED: &str = "To look at";

/// How to reach the server.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Where the store is.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Its shape.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// For Redis.
    ///
    /// Where clients connect.
    #[arg(
        long,
        help_heading = CLIENTS,
        value_name = "HOST:PORT",
        env = "FOGBANK_LISTEN",
        default_value = "127.0.0.1:6379"
    )]
    pub listen: String,
    /// File whose first line is their password.
    #[arg(long, help_heading = CLIENTS, value_name = "FILE", env = "FOGBANK_PASSWORD_FILE")]
    pub password_file: Option<PathBuf>,
    /// Certificate chain (PEM) for TLS.
    #[arg(long, help_heading = CLIENTS, value_name = "FILE", env = "FOGBANK_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM) of --tls-cert, mode 0600.
    #[arg(long, help_heading = CLIENTS, value_name = "FILE", env = "FOGBANK_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Connections at once.
    #[arg(long, help_heading = CLIENTS, value_name = "N", env = "FOGBANK_MAX_CONNECTIONS", default_value_t = 10_000, value_parser = within(limits::CONNECTIONS))]
    pub max_connections: usize,
    /// Let INFO show secret figures.
    ///
    /// What the cloud must not learn: hits, deduplicated reads, stash size.
    #[arg(long, help_heading = OBSERVED)]
    pub secret_metrics: bool,
    /// Write what the cloud sees.
    ///
    /// A trace of everything, to this file, which must be new (and FILE.1, FILE.2 and so on, which
    /// follow it).
    #[arg(long, value_name = "FILE", env = "FOGBANK_RECORD", help_heading = OBSERVED)]
    pub record: Option<PathBuf>,
    /// Write what is asked. Secret.
    ///
    /// Which key, when, whether to change it: to this new file, which only its owner may read, for
    /// the auditor's picture.
    #[arg(long, value_name = "FILE", env = "FOGBANK_HISTORY", help_heading = OBSERVED)]
    pub history: Option<PathBuf>,
    /// When epochs run.
    #[command(flatten)]
    pub schedule: ScheduleArgs,
    /// What to show while it runs.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// When epochs run.
#[derive(Debug, Clone, Args)]
pub struct ScheduleArgs {
    /// When there is traffic.
    ///
    /// always; or hours such as "mon-fri 08:00-18:00", outside which commands are refused.
    #[arg(long, help_heading = WHEN, value_name = "WHEN", env = "FOGBANK_SCHEDULE", default_value = "always")]
    pub schedule: String,
    /// Of --schedule [this machine's].
    ///
    /// The time zone of its hours, such as Europe/Berlin.
    #[arg(long, help_heading = WHEN, value_name = "ZONE", env = "FOGBANK_TIME_ZONE")]
    pub time_zone: Option<String>,
    /// Send nothing without clients [never].
    ///
    /// Rest when no client has been connected for so long, such as 10m; the next one wakes the
    /// store. The cloud then sees when somebody is there.
    #[arg(long, help_heading = WHEN, value_name = "TIME", env = "FOGBANK_REST_AFTER", value_parser = rest_after)]
    pub rest_after: Option<Duration>,
    /// What --rest-after was.
    #[arg(long, help_heading = WHEN, hide = true, env = "FOGBANK_LINGER_S")]
    pub linger_s: Option<String>,
}

/// What to look at.
#[derive(Debug, Clone, Args)]
pub struct InspectArgs {
    /// Where the store is.
    #[command(flatten)]
    pub place: StoreArgs,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// Where an existing store is.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// Directory of the trusted side (in DIR/proxy) and, unless --store says otherwise, of the
    /// cloud side (in DIR/cloud).
    #[arg(long, value_name = "DIR", env = "FOGBANK_DATA", default_value = "fogbank-data")]
    pub data: PathBuf,
    /// The cloud side, as it was said to serve: file://DIR; s3://BUCKET/PREFIX,
    /// az://CONTAINER/PREFIX, gs://BUCKET/PREFIX; grpc://HOST:PORT/TENANT; or
    /// dynamodb://TABLE/PREFIX (in a build with that feature).
    #[arg(long, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: Option<String>,
    /// Where the freshness register is, if not in DIR/proxy.
    #[command(flatten)]
    pub registers: RegistersArgs,
}

/// Where a store is that is opened.
#[derive(Debug, Clone, Args)]
pub struct OpenArgs {
    /// Where.
    #[command(flatten)]
    pub place: StoreArgs,
    /// Of a volume in two clouds: where the second one is now, if it has moved:
    /// grpc://HOST:PORT/TENANT. Later commands find it there [as noted in DIR/proxy/second-store].
    #[arg(long, value_name = "URL", env = "FOGBANK_SECOND_STORE")]
    pub second_store: Option<String>,
    /// Of a volume in two clouds: a folder on another disk where its journal lies a second time
    /// from now on, also for later commands [as noted in DIR/proxy/second-journal].
    #[arg(long, value_name = "FOLDER")]
    pub second_journal: Option<PathBuf>,
}

/// What to recover.
#[derive(Debug, Clone, Args)]
pub struct RecoverArgs {
    /// Where the store is.
    #[command(flatten)]
    pub place: OpenArgs,
    /// Go on though the freshness register is lost: whatever the cloud shows is taken for the
    /// newest state, also if it is an old copy of it. What was answered since then would be gone
    /// unnoticed, and the cloud could link what is read again to what was read then.
    #[arg(long)]
    pub accept_rollback_risk: bool,
    /// Before that, take the freshness register from DIR/proxy to the --registers, or back.
    #[arg(long, value_enum, value_name = "WHERE", requires = "registers")]
    pub move_register: Option<MoveRegister>,
}

/// Where to take the freshness register to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MoveRegister {
    /// To the servers that --registers names.
    Servers,
    /// From them to the file DIR/proxy/register.
    File,
}

/// What to verify.
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// Where the store is.
    #[command(flatten)]
    pub place: OpenArgs,
    /// Only look whether everything that has to be in the cloud is there. Takes nothing over and
    /// changes nothing, so the store may be served meanwhile. What is in the buckets is not read.
    #[arg(long, conflicts_with = "repair")]
    pub presence: bool,
    /// Carry on past what is lost: make a new store, with a key of its own, of every record that
    /// verifies, and name those that are lost. The store itself is left as it is.
    #[arg(long, requires = "to")]
    pub repair: bool,
    /// For --repair: directory of the new store's trusted side, which must have none yet, and,
    /// unless --to-store says otherwise, of its cloud side.
    #[arg(long, value_name = "NEWDIR", requires = "repair")]
    pub to: Option<PathBuf>,
    /// For --repair: the new cloud side, better another cloud: a URL as for serve, with no store in
    /// it.
    #[arg(long, value_name = "URL", requires = "repair")]
    pub to_store: Option<String>,
}

/// What to back up, and where to.
#[derive(Debug, Clone, Args)]
pub struct BackupArgs {
    /// Where the store is.
    #[command(flatten)]
    pub place: OpenArgs,
    /// The file to write, which must be new. It is sealed by the store's key: keep a copy of
    /// DIR/proxy/key apart from it.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Carry on past what does not verify: leave out the records of which something is lost, and
    /// name them. The store is read as it was committed last, and left as it is.
    #[arg(long)]
    pub salvage: bool,
}

/// A key that is not in its own folder.
#[derive(Debug, Clone, Args)]
pub struct KeyFileArgs {
    /// The key file: a copy of DIR/proxy/key of where it comes from, or one under a passphrase.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// If the key is under a passphrase: a file whose first line that is, which nobody else can
    /// read [it is asked for at the terminal].
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// What to restore, and where to.
#[derive(Debug, Clone, Args)]
pub struct RestoreArgs {
    /// The backup.
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// The key of the store that was backed up.
    #[command(flatten)]
    pub key: KeyFileArgs,
    /// Directory of the new store's trusted side, which must have none yet, and, unless --store
    /// says otherwise, of its cloud side.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The new cloud side: a URL as for serve, with no store in it.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Of a volume whose engine needs two clouds: the new second one.
    #[arg(long, value_name = "URL")]
    pub second_store: Option<String>,
    /// Records that the new store can hold [as many as the old one]. Everything else of its shape
    /// stays. A volume keeps its size.
    #[arg(long, value_name = "N", value_parser = within(limits::CAPACITY))]
    pub capacity: Option<u32>,
    /// Where the new store's freshness register is to be, if not in DIR/proxy.
    #[command(flatten)]
    pub registers: RegistersArgs,
}

/// What to load, and where to.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// Where the new store is to be.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Its shape.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// The records: comma-separated with a first line that names the columns key and value, or one
    /// JSON object a line with the members key and value (key_base64, value_base64 for what is no
    /// text), or what Redis writes at SAVE.
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// What the file is, if its name does not end in .csv, .jsonl or .rdb.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Leave out keys of a Redis dump that cannot be stored: of other types than strings, hashes
    /// and sorted sets, or of other databases than 0.
    #[arg(long)]
    pub skip_unsupported: bool,
}

/// Which store is to have a new key, and where to.
#[derive(Debug, Clone, Args)]
pub struct RotateKeyArgs {
    /// Where the store is.
    #[command(flatten)]
    pub place: OpenArgs,
    /// Directory of the new store's trusted side, which must have none yet, and, unless --to-store
    /// says otherwise, of its cloud side.
    #[arg(long, value_name = "NEWDIR")]
    pub to: PathBuf,
    /// The new cloud side: a URL as for serve, with no store in it.
    #[arg(long, value_name = "URL")]
    pub to_store: Option<String>,
    /// Of a volume whose engine needs two clouds: the new second one.
    #[arg(long, value_name = "URL")]
    pub to_second_store: Option<String>,
    /// Records that the new store can hold [as many as the old one]. Everything else of its shape
    /// stays. A volume keeps its size.
    #[arg(long, value_name = "N", value_parser = within(limits::CAPACITY))]
    pub capacity: Option<u32>,
}

/// What to show of a running server, and where.
#[derive(Debug, Clone, Default, Args)]
pub struct ViewArgs {
    /// A live page. Secret.
    ///
    /// Shows what is asked beside what the cloud sees: at an address of this machine only, such as
    /// 127.0.0.1:8080.
    #[arg(long, help_heading = OBSERVED, value_name = "HOST:PORT", env = "FOGBANK_DASHBOARD")]
    pub dashboard: Option<String>,
    /// Public figures, for Prometheus.
    ///
    /// At /metrics.
    #[arg(long, help_heading = OBSERVED, value_name = "HOST:PORT", env = "FOGBANK_METRICS")]
    pub metrics: Option<String>,
    /// Secret figures, for Prometheus.
    ///
    /// For one of the trusted side, at /metrics: an address of this machine only.
    #[arg(long, help_heading = OBSERVED, value_name = "HOST:PORT", env = "FOGBANK_SECRET_METRICS_ADDRESS")]
    pub secret_metrics_address: Option<String>,
    /// Let others reach the secret ones.
    ///
    /// --dashboard and --secret-metrics-address, from other machines, without password or
    /// encryption: only on a network that is trusted like the proxy.
    #[arg(long, help_heading = OBSERVED)]
    pub secrets_anywhere: bool,
}
