//! `fogbank plan`: what a store of a shape will need and cost, before it is made.

use std::sync::Arc;

use fogbank::args::PlanArgs;
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;
use fogbank::object_default::{seconds, shape_for};
use fogbank::plan::bill::Bill;
use fogbank::plan::distance::link_to;
use fogbank::plan::lines::{self, Line};
use fogbank::plan::price::prices;
use fogbank::plan::requests::Requests;
use fogbank::plan::{Plan, machine, size};
use fogbank::{Result, across_a_link, check_url};
use fogbank_env::{Clock, SystemClock};
use fogbank_process::say;
use serde_json::json;

/// Prints the plan.
///
/// # Errors
/// [`fogbank::Error::Usage`] for a shape, link or table that makes no sense.
pub fn run(args: PlanArgs) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let shape = args.shape.or_file(args.config.as_deref())?;
    let site = args.site;
    let url = site.url();
    check_url(&url)?;
    let config = {
        let (shape, across) = (shape_for(&shape, &url)?, across_a_link(&url));
        StoreConfig::derive_at(&shape, across, across)?
    };
    let prices = prices(site.prices.as_deref(), &url)?;
    site.link.link()?;
    let (link, how) = link_to(&url, &site.link);
    let plan = Plan::of(&config, &link, &machine::tried(&clock, &config))?;
    let requests = Requests::of(&config, &plan.traffic, &url);
    let bill = Bill::of_epochs(&config, &plan, &requests, &prices);
    let planned = Planned { config, plan, requests, bill, link, how };
    let beside = lines::beside(&planned.config, &url, &prices)?;
    planned.print(lines::of_bill(&bill, &url, false).into_iter().chain(beside));
    if site.all {
        planned.print_all();
    } else {
        line("more", "fogbank plan --all: tree, epoch, traffic and requests".into());
    }
    if site.json {
        say!("{}", planned.json());
    }
    Ok(())
}

fn line(what: &str, figure: String) {
    say!("{what:<22} {figure}");
}

struct Planned {
    config: StoreConfig,
    plan: Plan,
    requests: Requests,
    bill: Bill,
    link: LinkArgs,
    /// Where the link comes from, in words.
    how: String,
}

impl Planned {
    fn json(&self) -> serde_json::Value {
        let Self { config, plan, requests, bill, link, .. } = self;
        let (mean_s, max_s) = plan.latency_s();
        let stored = config.geometry().map_or(0, |g| g.stored_levels());
        let running =
            |part: fn(&fogbank::plan::price::Spent) -> f64| bill.running.as_ref().map(part);
        json!({
            "accesses_per_s": plan.accesses / plan.epoch.total_s,
            "cells_per_access": plan.cells_per_access(config),
            "bytes_per_access": plan.bytes_per_access(config),
            "rounds_per_epoch": plan.epoch.rounds,
            "requests_per_access": (requests.gets + requests.puts) / plan.accesses,
            "rtt_ms": link.rtt_ms,
            "interval_ms": config.interval_ms,
            "epoch_ms": plan.epoch.total_s * 1e3,
            "commit_ms": plan.epoch.commit_s * 1e3,
            "latency_ms_mean": mean_s * 1e3,
            "latency_ms_max": max_s * 1e3,
            "storage_bytes": plan.storage_bytes,
            "written_bytes_per_day": bill.written_a_day,
            "proxy_bytes": plan.proxy_bytes,
            "usd_per_million": bill.per_million.usd(),
            "usd_per_month": bill.usd(),
            "usd_per_month_requests": running(|spent| spent.requests_usd),
            "usd_per_month_storage": bill.storage_usd,
            "usd_per_month_traffic": running(|spent| spent.traffic_usd),
            "usd_per_month_running": running(|spent| spent.usd()),
            "bucket_reals": config.bucket_reals,
            "bucket_dummies": config.bucket_dummies,
            "evict_every": config.evict_every,
            "leaf_level": config.leaf_level,
            "stored_levels": stored,
            "cell_bytes": config.cell_bytes(),
        })
    }

    /// How fast, how much memory and how many dollars, and from what that follows.
    fn print(&self, bill: impl Iterator<Item = Line>) {
        let plan = &self.plan;
        let (mean_s, max_s) = plan.latency_s();
        let per_s = plan.accesses / plan.epoch.total_s;
        let (mean, most) = (seconds(mean_s), seconds(max_s));
        line("answers after", format!("{mean}, at most {most}; {per_s:.0} accesses/s"));
        line("memory of the proxy", size(plan.proxy_bytes));
        bill.for_each(|(what, said)| line(what, said));
        line("a million accesses", format!("$ {:.2}", self.bill.per_million.usd()));
        line("stored in the cloud", size(plan.storage_bytes));
        line("reckoned with", self.how.clone());
    }

    /// Of what all that is made.
    fn print_all(&self) {
        let Self { config, plan, requests, .. } = self;
        line("tree", self.tree());
        line(
            "epoch",
            format!(
                "{} x {} reads, {} writes; {:.1} ms, of which {:.1} for the commit, {:.0} messages \
                 that wait for one another",
                config.read_batches,
                config.batch,
                config.write_batch,
                plan.epoch.total_s * 1e3,
                plan.epoch.commit_s * 1e3,
                plan.epoch.rounds
            ),
        );
        line(
            "an access moves",
            format!(
                "{:.1} cells, {}",
                plan.cells_per_access(config),
                size(plan.bytes_per_access(config))
            ),
        );
        line("link", self.traffic());
        line(
            "requests of an epoch",
            format!("{:.0} that read, {:.1} that write", requests.gets, requests.puts),
        );
    }

    fn tree(&self) -> String {
        let config = &self.config;
        let stored = config.geometry().map_or(0, |g| g.stored_levels());
        let levels = u32::from(config.leaf_level) + 1;
        format!(
            "{levels} levels of which the proxy keeps {}; Z {}, S {}, A {}; cells of {} B",
            levels - u32::from(stored),
            config.bucket_reals,
            config.bucket_dummies,
            config.evict_every,
            config.cell_bytes()
        )
    }

    fn traffic(&self) -> String {
        let (down, up) = (
            self.plan.traffic.bytes_read(&self.config),
            self.plan.traffic.bytes_written(&self.config),
        );
        let rate = |bytes: f64| size(bytes / self.plan.epoch.total_s);
        format!(
            "{}/s down, {}/s up, {}/s together: cells, journal and checkpoints, once every bucket \
             is written",
            rate(down),
            rate(up),
            rate(down + up)
        )
    }
}
