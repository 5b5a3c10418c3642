//! What `plan` is told.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use fogbank_env::within;

use super::ShapeArgs;
use crate::Place;
use crate::limits;
use crate::link::LinkArgs;
use crate::volume::Flags;

/// The format of `--prices`.
pub(super) const PRICES_HELP: &str = "\
A file for --prices has a table for each scheme of --store that it prices, or for one place; what
is left out costs nothing:

    [s3]
    get_usd_per_1000 = 0.0004        # a thousand requests that read
    get_bytes = 4096                 # longer reads count several times [one each]
    put_usd_per_1000 = 0.005         # a thousand that write
    put_bytes = 1024                 # longer writes count several times [one each]
    delete_usd_per_1000 = 0.0        # a thousand deletions
    storage_usd_per_gb_month = 0.023 # 10^9 bytes for a month
    egress_usd_per_gb = 0.09         # 10^9 bytes that leave the cloud

    ['grpc://cloud.example:7443']    # of this place, in place of [grpc]
    storage_usd_per_gb_month = 0.04";

/// Where what is planned would be, and how the answer is said.
#[derive(Debug, Clone, Args)]
pub struct PlanSiteArgs {
    /// The cloud side, for its prices and its distance: nothing is asked of it. file://DIR,
    /// s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX, grpc://HOST:PORT/TENANT,
    /// dynamodb://TABLE/PREFIX or memory: [file://fogbank-data/cloud].
    #[arg(long, value_name = "URL", env = "FOGBANK_STORE")]
    pub store: Option<String>,
    /// The link to the store.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Prices of clouds in US dollars, in place of list prices: a TOML file with a table for each
    /// scheme of --store, see below.
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Everything that is known, not only what decides.
    #[arg(long)]
    pub all: bool,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

impl PlanSiteArgs {
    /// The URL of the store.
    pub fn url(&self) -> String {
        self.store.clone().unwrap_or_else(|| Place::local("fogbank-data").store_url())
    }
}

/// What to plan.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// Where, and how it is said.
    #[command(flatten)]
    pub site: PlanSiteArgs,
    /// The shape.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// The shape (capacity = 1000, value-size = "4KiB", ...) from a TOML file; flags and
    /// environment go before it.
    #[arg(long, value_name = "FILE", env = "FOGBANK_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Which volume to plan.
#[derive(Debug, Clone, Args)]
pub struct VolumePlanArgs {
    /// Where, and how it is said.
    #[command(flatten)]
    pub site: PlanSiteArgs,
    /// Bytes of the volume.
    #[arg(long, value_name = "SIZE", value_parser = within(limits::DISK_SIZE))]
    pub size: ByteSize,
    /// Bytes of a block.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = within(limits::BLOCK_SIZE))]
    pub block: ByteSize,
    /// The second cloud, for engines that need two which do not collude: grpc://HOST:PORT/TENANT,
    /// as --store then is. For its prices, too; nothing is asked of it.
    #[arg(long, value_name = "URL", env = "FOGBANK_SECOND_STORE")]
    pub second_store: Option<String>,
    /// What only some engines know, for those that know it.
    #[command(flatten)]
    pub flags: Flags,
    /// Memory that the proxy may take: engines that take more are not proposed [no limit].
    #[arg(long, value_name = "SIZE", value_parser = within(limits::MEMORY))]
    pub memory: Option<ByteSize>,
}
