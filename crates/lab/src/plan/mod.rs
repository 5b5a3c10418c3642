//! `fogbank plan`: what a store of a shape will need and cost, before it is made.
//!
//! Everything is reckoned from the public configuration (`fogbank::traffic`), the link ([`time`]), a price
//! table ([`price`]) and how fast this machine opens and seals cells, which is tried out for a moment.
//! Nothing is asked of the store and nothing is made.

mod price;
mod requests;
pub mod time;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::args::PlanArgs;
use fogbank::config::StoreConfig;
use fogbank::traffic::Traffic;
use fogbank::{Place, Result, across_a_link, check_scheme};
use fogbank_env::{Clock, SystemClock};
use fogbank_oram::ring::WINDOW_BYTES;
use serde_json::json;

use self::price::Cost;
use self::requests::Requests;
use self::time::{Epoch, Machine};
use crate::bench::bound;

/// Cells that are opened and sealed to see how fast that goes.
const TRIED_CELLS: usize = 20_000;
/// Bytes that are tried at the most.
const TRIED_BYTES_MAX: usize = 64 << 20;
/// What the engine takes beside authenticated encryption and a copy: finding, moving, accounting.
const BESIDE_S_A_CELL: f64 = 130e-9;
const WORK_FACTOR: f64 = 1.35;
const PLAN_S_A_CELL: f64 = 40e-9;
/// What epochs over 0.3 ms take beyond cells and round trips, by their messages: 0.16 to 0.19 ms each at
/// 10,000 and at 100,000 records, by `bench engine --durable` against this plan.
const MESSAGE_S: f64 = 170e-6;

/// Prints the plan.
///
/// # Errors
/// [`fogbank::Error::Usage`] for a shape, link or table that makes no sense.
pub fn run(args: PlanArgs) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let shape = args.shape.or_file(args.config.as_deref())?;
    let url = args.store.unwrap_or_else(|| Place::local("fogbank-data").store_url());
    check_scheme(&url)?;
    let config = {
        let link = across_a_link(&url);
        StoreConfig::derive_at(&shape, link, link)?
    };
    let prices = price::prices(args.prices.as_deref(), &url)?;
    args.link.link()?;
    let plan = Plan::of(&config, &args.link, &machine(&clock, &config))?;
    let requests = Requests::of(&config, &plan.traffic, &url);
    let at_rest = (plan.epoch.total_s, plan.storage_bytes);
    let cost = price::cost(&prices, &config, (&plan.traffic, &requests), at_rest);
    println!("{:<22} {}", "reckoned with", args.link.words());
    plan.print(&config, (&cost, &requests));
    if args.json {
        println!("{}", plan.json(&config, (&cost, &requests)));
    }
    Ok(())
}

/// What a store will need.
struct Plan {
    traffic: Traffic,
    epoch: Epoch,
    accesses: f64,
    storage_bytes: f64,
    proxy_bytes: f64,
}

impl Plan {
    fn of(config: &StoreConfig, link: &fogbank::link::LinkArgs, machine: &Machine) -> Result<Self> {
        let traffic = Traffic::of(config)?;
        let epoch = Epoch::of(config, &traffic, link, machine);
        let accesses = (config.read_batches * config.batch + config.write_batch) as f64;
        let geometry = config.geometry()?;
        // Buckets, those that an epoch writes beside the ones they replace, and the checkpoints.
        let chunk_bytes = geometry.chunk_bytes() as f64;
        let storage_bytes = geometry.storage_bytes() as f64
            + traffic.buckets * chunk_bytes
            + config.vault_settings()?.full_every as f64
                * (traffic.full_bytes + traffic.delta_bytes);
        let proxy_bytes = proxy_bytes(config, &traffic)?;
        Ok(Self { traffic, epoch, accesses, storage_bytes, proxy_bytes })
    }

    fn bytes_per_access(&self, config: &StoreConfig) -> f64 {
        (self.traffic.bytes_read(config) + self.traffic.bytes_written(config)) / self.accesses
    }

    fn cells_per_access(&self, config: &StoreConfig) -> f64 {
        let slots = f64::from(config.bucket_reals) + f64::from(config.bucket_dummies);
        let sent = self.traffic.path_cells_sent + self.traffic.rewrite_cells;
        (sent + self.traffic.buckets * slots) / self.accesses
    }

    /// From a request to its answer: a moment of the epoch to its end, or all of the next one.
    fn latency_s(&self) -> (f64, f64) {
        (1.5 * self.epoch.total_s, 2.0 * self.epoch.total_s)
    }

    fn json(
        &self,
        config: &StoreConfig,
        (cost, requests): (&Cost, &Requests),
    ) -> serde_json::Value {
        let (mean_s, max_s) = self.latency_s();
        let stored = config.geometry().map_or(0, |g| g.stored_levels());
        json!({
            "accesses_per_s": self.accesses / self.epoch.total_s,
            "cells_per_access": self.cells_per_access(config),
            "bytes_per_access": self.bytes_per_access(config),
            "rounds_per_epoch": self.epoch.rounds,
            "requests_per_access": (requests.gets + requests.puts) / self.accesses,
            "epoch_ms": self.epoch.total_s * 1e3,
            "commit_ms": self.epoch.commit_s * 1e3,
            "latency_ms_mean": mean_s * 1e3,
            "latency_ms_max": max_s * 1e3,
            "storage_bytes": self.storage_bytes,
            "proxy_bytes": self.proxy_bytes,
            "usd_per_million": cost.per_million_usd,
            "usd_per_month": cost.storage_per_month_usd,
            "usd_per_month_running": cost.running_per_month_usd,
            "bucket_reals": config.bucket_reals,
            "bucket_dummies": config.bucket_dummies,
            "evict_every": config.evict_every,
            "leaf_level": config.leaf_level,
            "stored_levels": stored,
            "cell_bytes": config.cell_bytes(),
        })
    }

    fn print(&self, config: &StoreConfig, (cost, requests): (&Cost, &Requests)) {
        let (mean_s, max_s) = self.latency_s();
        let stored = config.geometry().map_or(0, |g| g.stored_levels());
        let line = |what: &str, figure: String| println!("{what:<22} {figure}");
        line(
            "tree",
            format!(
                "{} levels of which the proxy keeps {}; Z {}, S {}, A {}; cells of {} B",
                u32::from(config.leaf_level) + 1,
                u32::from(config.leaf_level) + 1 - u32::from(stored),
                config.bucket_reals,
                config.bucket_dummies,
                config.evict_every,
                config.cell_bytes()
            ),
        );
        line(
            "epoch",
            format!(
                "{} x {} reads, {} writes; {:.1} ms, of which {:.1} for the commit, {:.0} messages that wait for one \
                 another",
                config.read_batches,
                config.batch,
                config.write_batch,
                self.epoch.total_s * 1e3,
                self.epoch.commit_s * 1e3,
                self.epoch.rounds
            ),
        );
        line("accesses/s", format!("{:.0}", self.accesses / self.epoch.total_s));
        line("answer after", format!("{:.0} ms, at most {:.0} ms", mean_s * 1e3, max_s * 1e3));
        line(
            "an access moves",
            format!(
                "{:.1} cells, {}",
                self.cells_per_access(config),
                size(self.bytes_per_access(config))
            ),
        );
        let (down, up) = (self.traffic.bytes_read(config), self.traffic.bytes_written(config));
        line(
            "link",
            format!(
                "{}/s down, {}/s up, {}/s together: cells, journal and checkpoints, once every bucket is written",
                size(down / self.epoch.total_s),
                size(up / self.epoch.total_s),
                size((down + up) / self.epoch.total_s)
            ),
        );
        line(
            "requests of an epoch",
            format!("{:.0} that read, {:.1} that write", requests.gets, requests.puts),
        );
        line("stored in the cloud", size(self.storage_bytes));
        line("memory of the proxy", size(self.proxy_bytes));
        line("a million accesses", format!("$ {:.2}", cost.per_million_usd));
        line("storage, a month", format!("$ {:.2}", cost.storage_per_month_usd));
        if let Some(usd) = cost.running_per_month_usd {
            line("running, a month", format!("$ {usd:.2} (its epochs never stop, used or not)"));
        }
    }
}

/// How fast this machine is with cells of that size.
pub fn machine(clock: &Arc<dyn Clock>, config: &StoreConfig) -> Machine {
    let cell_bytes = config.cell_bytes();
    let cells = TRIED_CELLS.min(TRIED_BYTES_MAX / cell_bytes).max(2);
    let seconds = |opened, sealed| {
        bound::seconds(clock, bound::Moved { opened, sealed, cell_bytes }, 5) / cells as f64
    };
    let levels = config.geometry().map_or(0, |g| g.stored_levels());
    Machine {
        opens_s: WORK_FACTOR * seconds(cells, 0) + BESIDE_S_A_CELL,
        seals_s: WORK_FACTOR * seconds(0, cells),
        plans_s: f64::from(levels) * PLAN_S_A_CELL,
        message_s: MESSAGE_S,
    }
}

/// Bytes of memory once the store is full: positions, buckets' metadata, the cached top, the images of
/// an epoch, windows under way, the directory, and what the process takes anyway.
fn proxy_bytes(config: &StoreConfig, traffic: &Traffic) -> Result<f64> {
    let geometry = config.geometry()?;
    let (reals, slots) = (f64::from(config.bucket_reals), f64::from(geometry.bucket.slots()));
    let capacity = f64::from(config.capacity);
    let payload = geometry.plaintext_bytes() as f64;
    let metadata = f64::from(geometry.stored_buckets()) * (32.0 + 2.0 * slots + 4.0 * reals);
    let directory = capacity * (config.key_budget as f64 + 40.0);
    let held = f64::from(geometry.stash_blocks_max()) * payload;
    // A bucket is about half full.
    let images = traffic.buckets * (reals / 2.0 * payload + 4.0 * reals);
    let windows = config.in_flight.max(2) as f64 * config.windows as f64 * WINDOW_BYTES as f64;
    let windows = windows.min(2.0 * traffic.bytes_read(config));
    Ok(16e6 + 8.0 * capacity + metadata + directory + held + images + windows)
}

/// Decimal units, as clouds count.
pub fn size(bytes: f64) -> String {
    let unit = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")]
        .into_iter()
        .find(|(scale, _)| bytes >= *scale);
    match unit {
        Some((scale, unit)) => format!("{:.2} {unit}", bytes / scale),
        None => format!("{bytes:.0} B"),
    }
}
