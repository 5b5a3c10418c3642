//! What is typed to have a shape proposed.

use std::path::PathBuf;

use clap::Args;

use super::{Application, limits};
use fogbank::link::LinkArgs;
use fogbank_env::within;

/// What is observed, and over which link the store will be.
#[derive(Debug, Clone, Args)]
pub struct TuneArgs {
    /// The application.
    #[command(flatten)]
    pub of: TunedFor,
    /// Its size, as for bench app.
    #[arg(long, value_name = "N", conflicts_with_all = ["workload_file", "serve"], value_parser = within(limits::SCALE))]
    pub scale: Option<u32>,
    /// Clients that will wait for their answers, all of them served in each epoch [as bench app
    /// has]. Not with --serve, where your application comes as it comes.
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "serve"], value_parser = within(limits::CLIENTS))]
    pub clients: Option<usize>,
    /// Transactions a second that will arrive, instead of clients.
    #[arg(long, value_name = "PER_S", conflicts_with = "serve", value_parser = within(limits::RATE))]
    pub rate: Option<f64>,
    /// Seconds to observe [5; with --serve: until Ctrl-C or SIGTERM].
    #[arg(long, value_name = "S", value_parser = within(limits::SECONDS))]
    pub seconds: Option<f64>,
    /// The link to the store that is to be tuned.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Run the same application for --seconds on a store of the proposed shape in memory, at the
    /// far end of that link, and print what it did. Loading that store and bringing it to its
    /// steady state takes up to some minutes. Not with --serve.
    #[arg(long, conflicts_with = "serve")]
    pub r#try: bool,
    /// Seed of everything that is drawn.
    #[arg(long, default_value_t = 1, value_parser = within(limits::SEED))]
    pub seed: u64,
    /// One JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// The application that is observed: one of these.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct TunedFor {
    /// One that bench app knows, run here on a store in memory.
    #[arg(long, value_enum)]
    pub workload: Option<Application>,
    /// One that a file describes (docs/tuning.md), run the same way.
    #[arg(long, value_name = "FILE")]
    pub workload_file: Option<PathBuf>,
    /// Your own: a Redis endpoint over an empty store in memory, to run it against. Nothing that is
    /// written there is kept.
    #[arg(long, value_name = "HOST:PORT")]
    pub serve: Option<String>,
}
