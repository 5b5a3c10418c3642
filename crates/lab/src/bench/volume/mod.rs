//! `fogbank bench volume`: clients that each wait for their answer, on the engines of volumes.
//!
//! 1. Load (`lane`): without a link between, every block is written once, then as many accesses as a
//!    quarter of the blocks, so that the store is full and in its steady state.
//! 2. Measure (`clients`): across the link, each client draws a block, reads or writes it, holds what
//!    comes back against what it has to be, and goes on. Journal and checkpoints are included. A
//!    warm-up is left out, until the clients no longer move together.
//! 3. Go on to the next engine, over the same link with the same clients.

mod clients;
mod lane;
mod measured_engine;
mod path_times;

use std::time::Duration;

use fogbank::{Error, Result};
use fogbank_oram::ImmediateShape;
use fogbank_oram::partition::PartitionSettings;
use fogbank_oram::tao::TaoSettings;
use fogbank_process::{say, say_error};
use fogbank_store::Link;
use serde_json::json;

pub use self::lane::{Lane, Measured};
use self::measured_engine::MeasuredEngine;
use super::tao::{carried_by, pace_on};
use crate::args::{BenchVolumeArgs, VolumeEngineName};

/// Accesses under way at least.
const UNDER_WAY_MIN: usize = 64;

/// Runs the benchmark and prints its figures, a row an engine and number of clients.
///
/// # Errors
/// [`Error::CheckFailed`] if a value read is not the one written.
pub async fn run(args: BenchVolumeArgs) -> Result<()> {
    let link = args.link.link()?;
    let block = args.block.as_u64();
    let capacity = args.size.as_u64().checked_div(block).unwrap_or(0).try_into();
    let capacity = capacity.map_err(|_| Error::Usage("--size: too many blocks".into()))?;
    let shape = ImmediateShape { capacity, value_bytes: block as usize };
    say!("{}; {capacity} blocks of {block} bytes", args.link.words());
    say!("{HEAD}");
    for engine in &args.engine {
        match engine {
            VolumeEngineName::Tao => {
                let settings = TaoSettings::new(shape);
                let settings = TaoSettings { cache_bytes: args.cache.as_u64(), ..settings };
                let settings = on_link(settings, &args, &link);
                measure("tao", settings.with_write_behind(carried_by(&link) as usize)?, &args)
                    .await?;
            }
            VolumeEngineName::Partition => {
                let mut settings = PartitionSettings::new(shape, 0)?;
                let cached = args.cache.as_u64() / block;
                settings.layout = settings.layout.with_kept_blocks(cached);
                let settings = on_link(settings, &args, &link);
                let settings = settings.with_write_behind(carried_by(&link) as usize);
                measure("partition", settings, &args).await?;
            }
        }
    }
    Ok(())
}

fn on_link<S: MeasuredEngine>(settings: S, args: &BenchVolumeArgs, link: &Link) -> S {
    let under_way = args.clients.iter().copied().max().unwrap_or(0).max(UNDER_WAY_MIN);
    settings.with_shell(|shell| {
        shell.under_way_max = under_way;
        shell.pace = pace_on(link, shell.pace, args.quantum_us);
        shell.quantum = Duration::from_micros(args.quantum_us);
    })
}

const HEAD: &str =
    "engine      clients  accesses/s     MB/s   ms mean    ms p99    ms max  KB down    KB up";

async fn measure<S: MeasuredEngine>(name: &str, settings: S, args: &BenchVolumeArgs) -> Result<()> {
    say_error!("{name}: loading {} blocks", settings.shell().shape.capacity);
    let lane = Lane::load(settings.clone(), args.seed).await?;
    let mut lane = lane.reopen(settings).await?;
    for clients in &args.clients {
        let link = args.link.link()?;
        let Measured { answers, traffic, checkpoints, .. } =
            lane.measure(*clients, link, args.seconds).await?;
        let (latencies, seconds) = (&answers.latencies, answers.seconds);
        if latencies.is_empty() {
            return Err(Error::TooFewData(format!(
                "nobody was answered within {seconds} s: give more --seconds"
            )));
        }
        let ops = latencies.len() as f64;
        let per_s = ops / seconds;
        let mb_s = per_s * args.block.as_u64() as f64 / 1e6;
        let mean = latencies.mean() / 1e6;
        let [p99, max] = [0.99, 1.0].map(|share| latencies.value_at_quantile(share) as f64 / 1e6);
        let [down, up] = [traffic.read, traffic.written].map(|bytes| bytes as f64 / ops);
        say!(
            "{name:<11} {clients:>7} {per_s:>11.1} {mb_s:>8.2} {mean:>9.1} {p99:>9.1} {max:>9.1} \
             {:>8.1} {:>8.1}",
            down / 1e3,
            up / 1e3
        );
        if args.json {
            let figures = json!({
                "engine": name,
                "link": args.link.words(),
                "blocks": args.size.as_u64() / args.block.as_u64(),
                "block_bytes": args.block.as_u64(),
                "clients": clients,
                "seconds": seconds,
                "ops_per_s": per_s,
                "mb_per_s": mb_s,
                "latency_ms_mean": mean,
                "latency_ms_p99": p99,
                "latency_ms_max": max,
                "up_bytes_per_op": up,
                "down_bytes_per_op": down,
                "checkpoints": checkpoints,
            });
            say!("{figures}");
        }
    }
    lane.close().await
}
