//! `fogbank plan`: what a store of a shape will need and cost, before it is made.

use std::sync::Arc;

use fogbank::args::PlanArgs;
use fogbank::config::StoreConfig;
use fogbank::plan::price::{self, Cost};
use fogbank::plan::requests::Requests;
use fogbank::plan::{Plan, machine, size};
use fogbank::{Place, Result, across_a_link, check_scheme};
use fogbank_env::{Clock, SystemClock};
use serde_json::json;

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
    let plan = Plan::of(&config, &args.link, &machine::tried(&clock, &config))?;
    let requests = Requests::of(&config, &plan.traffic, &url);
    let at_rest = (plan.epoch.total_s, plan.storage_bytes);
    let cost = price::cost(&prices, &config, (&plan.traffic, &requests), at_rest);
    println!("{:<22} {}", "reckoned with", args.link.words());
    print(&plan, &config, (&cost, &requests));
    if args.json {
        println!("{}", json(&plan, &config, (&cost, &requests)));
    }
    Ok(())
}

fn json(
    plan: &Plan,
    config: &StoreConfig,
    (cost, requests): (&Cost, &Requests),
) -> serde_json::Value {
    let (mean_s, max_s) = plan.latency_s();
    let stored = config.geometry().map_or(0, |g| g.stored_levels());
    json!({
        "accesses_per_s": plan.accesses / plan.epoch.total_s,
        "cells_per_access": plan.cells_per_access(config),
        "bytes_per_access": plan.bytes_per_access(config),
        "rounds_per_epoch": plan.epoch.rounds,
        "requests_per_access": (requests.gets + requests.puts) / plan.accesses,
        "epoch_ms": plan.epoch.total_s * 1e3,
        "commit_ms": plan.epoch.commit_s * 1e3,
        "latency_ms_mean": mean_s * 1e3,
        "latency_ms_max": max_s * 1e3,
        "storage_bytes": plan.storage_bytes,
        "proxy_bytes": plan.proxy_bytes,
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

fn print(plan: &Plan, config: &StoreConfig, (cost, requests): (&Cost, &Requests)) {
    let (mean_s, max_s) = plan.latency_s();
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
            plan.epoch.total_s * 1e3,
            plan.epoch.commit_s * 1e3,
            plan.epoch.rounds
        ),
    );
    line("accesses/s", format!("{:.0}", plan.accesses / plan.epoch.total_s));
    line("answer after", format!("{:.0} ms, at most {:.0} ms", mean_s * 1e3, max_s * 1e3));
    line(
        "an access moves",
        format!(
            "{:.1} cells, {}",
            plan.cells_per_access(config),
            size(plan.bytes_per_access(config))
        ),
    );
    let (down, up) = (plan.traffic.bytes_read(config), plan.traffic.bytes_written(config));
    line(
        "link",
        format!(
            "{}/s down, {}/s up, {}/s together: cells, journal and checkpoints, once every bucket is written",
            size(down / plan.epoch.total_s),
            size(up / plan.epoch.total_s),
            size((down + up) / plan.epoch.total_s)
        ),
    );
    line(
        "requests of an epoch",
        format!("{:.0} that read, {:.1} that write", requests.gets, requests.puts),
    );
    line("stored in the cloud", size(plan.storage_bytes));
    line("memory of the proxy", size(plan.proxy_bytes));
    line("a million accesses", format!("$ {:.2}", cost.per_million_usd));
    line("storage, a month", format!("$ {:.2}", cost.storage_per_month_usd));
    if let Some(usd) = cost.running_per_month_usd {
        line("running, a month", format!("$ {usd:.2} (its epochs never stop, used or not)"));
    }
}
