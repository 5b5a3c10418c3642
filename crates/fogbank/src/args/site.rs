//! What is typed after `fogbank site`.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Args, Subcommand};
use fogbank_env::within;

use super::KeyFileArgs;
use crate::limits;
use crate::link::LinkArgs;

/// What to do with a site.
#[derive(Debug, Subcommand)]
pub enum SiteCommand {
    /// Say what a site will need, by the number of its clients, before it is made.
    Plan(SitePlanArgs),
    /// Make a site, and DIR its first client.
    Create(SiteCreateArgs),
    /// Write the site's key to a file, under a passphrase, for somebody who is to join.
    Invite(SiteInviteArgs),
    /// Make DIR a client of a site that there is.
    Join(SiteJoinArgs),
    /// Say what a site is and how far it has come.
    Status(SiteArgs),
    /// Tell a code of what this client has seen. Read it to whoever has another client: if theirs
    /// at the same epoch is another, the server has shown you two histories.
    Compare(SiteCompareArgs),
    /// Serve the disk of a site to this machine (NBD), until a signal says stop. Others do so, too.
    Serve(SiteServeArgs),
    /// Build the tables of a site for all clients, until a signal says stop: they then send hardly
    /// more than what they ask for.
    ///
    /// For a machine with a good link to the server. It serves no disk, and stopping it at any time
    /// does no harm: the clients go on with what it builds.
    Build(SiteBuildArgs),
    /// Read a site from one end to the other and check that every byte is what was written. Others
    /// may work on it meanwhile.
    Verify(SiteArgs),
    /// Copy everything a site holds at one moment into one sealed file. Others may work on it
    /// meanwhile.
    Backup(SiteBackupArgs),
    /// Make a new site, with a key of its own, of what a backup of one holds.
    Restore(SiteRestoreArgs),
    /// Copy a site into a new one that has a key of its own: who has the old key alone is no client
    /// of it. Stop all clients before.
    ///
    /// Nothing that the old site holds is changed or deleted, but no client starts there any more
    /// (`stay` takes that back); have its tenant removed when the others have joined the new one.
    RotateKey(SiteRotateKeyArgs),
    /// Say to all clients that nothing came of a move: they work at this site again.
    ///
    /// Once `rotate-key` has begun no client starts here, so that nothing is written which the new
    /// site does not have. Say this only if there is no new site, or if nobody is to work there.
    Stay(SiteArgs),
}

/// Which client of a site.
#[derive(Debug, Clone, Args)]
pub struct SiteArgs {
    /// Directory of this client's own side (in DIR/proxy).
    #[arg(long, value_name = "DIR", env = "FOGBANK_DATA", default_value = "fogbank-data")]
    pub data: PathBuf,
}

/// Which site to plan.
#[derive(Debug, Clone, Args)]
pub struct SitePlanArgs {
    /// Bytes of the disk.
    #[arg(long, value_name = "SIZE", value_parser = within(limits::DISK_SIZE))]
    pub size: ByteSize,
    /// Bytes of a block.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = within(limits::BLOCK_SIZE))]
    pub block: ByteSize,
    /// How many clients ask.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 5, 30],
          value_parser = within(1..=10_000_u32))]
    pub clients: Vec<u32>,
    /// Where clients would meet, for its prices and its distance: nothing is asked of it.
    /// grpc://HOST:PORT/TENANT, s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX
    /// [a fogbank-cloud].
    #[arg(long, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: Option<String>,
    /// The link of each client to it.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Prices of clouds in US dollars, in place of list prices: a TOML file, as for volume plan.
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// What somebody gets who is to join.
#[derive(Debug, Clone, Args)]
pub struct SiteInviteArgs {
    /// Which client.
    #[command(flatten)]
    pub client: SiteArgs,
    /// The file, which is not there yet.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// A file whose first line is the passphrase, which nobody else can read [it is asked for at
    /// the terminal].
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

/// What is copied.
#[derive(Debug, Clone, Args)]
pub struct SiteBackupArgs {
    /// Which client.
    #[command(flatten)]
    pub client: SiteArgs,
    /// The file, which is not there yet.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
}

/// What a site is made of.
#[derive(Debug, Clone, Args)]
pub struct SiteRestoreArgs {
    /// Which client: the first of the new site.
    #[command(flatten)]
    pub client: SiteArgs,
    /// The backup.
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// The key of the site that was backed up: a copy of the file proxy/key of a client, or an
    /// invitation.
    #[command(flatten)]
    pub key: KeyFileArgs,
    /// Where clients of the new site meet: grpc://HOST:PORT/TENANT, another tenant of a
    /// fogbank-cloud.
    #[arg(long, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: String,
    /// Who keeps its witness.
    #[command(flatten)]
    pub witness: WitnessArgs,
}

/// Where a site goes.
#[derive(Debug, Clone, Args)]
pub struct SiteRotateKeyArgs {
    /// Which client of the old site.
    #[command(flatten)]
    pub client: SiteArgs,
    /// Directory of the first client of the new site.
    #[arg(long, value_name = "NEWDIR")]
    pub to: PathBuf,
    /// Where clients of the new site meet: grpc://HOST:PORT/TENANT, another tenant of a
    /// fogbank-cloud.
    #[arg(long, value_name = "URL")]
    pub to_store: String,
}

/// What is compared.
#[derive(Debug, Clone, Args)]
pub struct SiteCompareArgs {
    /// Which client.
    #[command(flatten)]
    pub client: SiteArgs,
    /// Up to which epoch, as the other one told it [as far as this client has come].
    #[arg(long, value_name = "EPOCH", value_parser = within(0..=u64::MAX))]
    pub at: Option<u64>,
}

/// Who keeps the witness of a site.
#[derive(Debug, Clone, Default, Args)]
pub struct WitnessArgs {
    /// File with register servers that witness the site, so that its server cannot show two clients
    /// two histories for two epochs, nor an old one to a client that comes.
    ///
    /// The file has mode 0600 and their addresses, one a line (see fogbank register-server), 3 or
    /// another odd number. DIR/proxy keeps a copy. All clients need the same.
    #[arg(long, value_name = "FILE")]
    pub registers: Option<PathBuf>,
}

/// What a site is made with.
#[derive(Debug, Clone, Args)]
pub struct SiteCreateArgs {
    /// Which client.
    #[command(flatten)]
    pub client: SiteArgs,
    /// Where clients meet: grpc://HOST:PORT/TENANT, a fogbank-cloud, or a bucket:
    /// s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX.
    #[arg(long, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: String,
    /// Bytes of the disk.
    #[arg(long, value_name = "SIZE", value_parser = within(limits::DISK_SIZE))]
    pub size: ByteSize,
    /// Bytes of a block: what is read and written at once.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = within(limits::BLOCK_SIZE))]
    pub block: ByteSize,
    /// Who keeps its witness.
    #[command(flatten)]
    pub witness: WitnessArgs,
}

/// What a client joins by.
#[derive(Debug, Clone, Args)]
pub struct SiteJoinArgs {
    /// Which client.
    #[command(flatten)]
    pub client: SiteArgs,
    /// Where the site is, as this client reaches it.
    #[arg(long, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: String,
    /// What another client's fogbank site invite wrote, or a copy of its file proxy/key.
    #[command(flatten)]
    pub key: KeyFileArgs,
    /// The id of the site, as another client's fogbank site status tells it.
    #[arg(long, value_name = "ID")]
    pub id: String,
    /// Who keeps its witness.
    #[command(flatten)]
    pub witness: WitnessArgs,
}

/// How the disk of a site is served.
#[derive(Debug, Clone, Args)]
pub struct SiteServeArgs {
    /// Which client.
    #[command(flatten)]
    pub client: SiteArgs,
    /// Where to listen: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10809")]
    pub nbd: String,
    /// Refuse writes.
    #[arg(long)]
    pub read_only: bool,
    /// Serve other machines all the same: whoever is in the network between reads and changes
    /// everything on the disk.
    #[arg(long)]
    pub in_clear: bool,
    /// What is recorded.
    #[command(flatten)]
    pub record: SiteRecordArgs,
}

/// How tables of a site are built for others.
#[derive(Debug, Clone, Args)]
pub struct SiteBuildArgs {
    /// Which client.
    #[command(flatten)]
    pub client: SiteArgs,
    /// What is recorded.
    #[command(flatten)]
    pub record: SiteRecordArgs,
}

/// Whether what the server sees of a client is written down.
#[derive(Debug, Clone, Args)]
pub struct SiteRecordArgs {
    /// Write what the server sees of this client.
    ///
    /// A trace of everything, to this file, which must be new (and FILE.1, FILE.2 and so on, which
    /// follow it). `fogbank audit` takes those of all clients together.
    #[arg(long, value_name = "FILE", env = "FOGBANK_RECORD")]
    pub record: Option<PathBuf>,
}
