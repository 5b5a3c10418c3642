//! `fogbank volume plan`: what a volume will need and cost with every engine, side by side.

use fogbank::args::VolumePlanArgs;
use fogbank::object_default::seconds;
use fogbank::plan::bill::{SECONDS_A_MONTH, usd};
use fogbank::plan::distance::link_to;
use fogbank::plan::price::prices;
use fogbank::plan::size;
use fogbank::plan::two_clouds::CloudPlan;
use fogbank::plan::volume::{OfEngine, VolumePlan, VolumeSite, choose, left_out, of_all};
use fogbank::{Error, Result, check_url};
use fogbank_process::say;
use serde_json::{Value, json};

/// Prints the plan.
///
/// # Errors
/// [`Error::Usage`] for a shape, link or table that makes no sense.
pub fn run(args: VolumePlanArgs) -> Result<()> {
    let site = &args.site;
    let url = site.url();
    check_url(&url)?;
    let prices_at = |url: &str| prices(site.prices.as_deref(), url);
    let prices = prices_at(&url)?;
    let second_prices = args.second_store.as_deref().map(prices_at).transpose()?;
    site.link.link()?;
    let (link, how) = link_to(&url, &site.link);
    let second_prices = second_prices.as_ref();
    let volume_site = VolumeSite { url: &url, prices: &prices, second_prices, link: &link };
    let plans = of_all(&args, &volume_site);
    if plans.iter().all(|(_, plan)| plan.is_err()) {
        // What is wrong with it is wrong for all.
        let why = plans.into_iter().find_map(|(_, plan)| plan.err());
        return Err(why.unwrap_or_else(|| Error::Bug("there is no engine".into())));
    }
    print(&plans, site.all);
    say!("{:<22} {how}", "reckoned with");
    let memory = args.memory.map_or(f64::INFINITY, |memory| memory.as_u64() as f64);
    let (engine, why) = choose(&plans, memory)?;
    say!("{:<22} --engine {}: {why}", "choose", engine.name);
    let hides = plans.iter().filter(|(_, plan)| plan.as_ref().is_ok_and(|p| !p.leaves_as_it_comes));
    let hides: String = hides.map(|(engine, _)| format!("--engine {} or ", engine.name)).collect();
    say!("{:<22} {hides}volume serve --fixed-rate N, which hide when you work", "or");
    let mut more = Vec::new();
    if !site.all {
        more.push("--all: requests, checkpoints, recovery".to_owned());
    }
    let left_out = left_out(&args);
    if !left_out.is_empty() {
        let engines = left_out.join(" and ");
        more.push(format!(
            "--second-store grpc://HOST:PORT/TENANT: {engines}, which needs two clouds"
        ));
    }
    if !more.is_empty() {
        say!("{:<22} fogbank volume plan {}", "more", more.join("; "));
    }
    if site.json {
        let of = |(engine, plan): &OfEngine| Some((engine.name, figures(plan.as_ref().ok()?)));
        let engines: serde_json::Map<String, Value> =
            plans.iter().filter_map(of).map(|(name, figures)| (name.to_owned(), figures)).collect();
        say!("{}", json!({ "choose": engine.name, "engines": engines }));
    }
    Ok(())
}

/// Stands where an engine has no figure.
const NONE: &str = "-";

/// A line: what it is, whether it is said unasked, and how it is said of an engine.
type Row = (&'static str, bool, fn(&VolumePlan) -> String);

const ROWS: [Row; 15] = [
    ("memory of the proxy", true, |plan| size(plan.memory_bytes)),
    ("stored in the cloud", true, |plan| size(plan.storage_bytes)),
    ("on your own disk", true, |plan| match plan.trusted_bytes {
        0.0 => NONE.into(),
        bytes => size(bytes),
    }),
    ("an access moves", true, |plan| size(plan.up_bytes + plan.down_bytes)),
    ("of which it sends", false, |plan| size(plan.up_bytes)),
    ("and receives", false, |plan| size(plan.down_bytes)),
    ("reads an access", false, |plan| format!("{:.1}", plan.reads)),
    ("writes an access", false, |plan| format!("{:.1}", plan.writes)),
    ("answers after", true, |plan| answer(plan.answer_s)),
    ("accesses/s at most", true, |plan| {
        plan.per_s.map_or(NONE.into(), |per_s| format!("{per_s:.0}"))
    }),
    ("a checkpoint", false, |plan| size(plan.checkpoint_bytes)),
    ("your disk, an access", false, |plan| match plan.disk_bytes {
        0.0 => NONE.into(),
        bytes => size(bytes),
    }),
    ("a recovery reads", false, |plan| size(plan.recovery_bytes)),
    ("and does again", false, |plan| match plan.recovery_accesses {
        0.0 => NONE.into(),
        accesses => format!("{accesses:.0}"),
    }),
    ("a million accesses", true, |plan| usd(plan.bill.per_million.usd())),
];

/// Says a row of a plan: a column for each that is planned.
pub fn row(what: &str, said: impl Iterator<Item = String>) {
    let cells: Vec<String> = said.map(|said| format!("{said:>14}")).collect();
    say!("{what:<22} {}", cells.concat());
}

/// A time until an answer, in words.
pub fn answer(answer_s: f64) -> String {
    match answer_s {
        0.0 => NONE.into(),
        short if short < 1.0 => format!("{:.0} ms", short * 1e3),
        long => seconds(long),
    }
}

fn print(plans: &[OfEngine], all: bool) {
    let of = |said: &dyn Fn(&OfEngine) -> String| plans.iter().map(said).collect::<Vec<_>>();
    row("", of(&|(engine, _)| engine.name.to_owned()).into_iter());
    for (what, _, said) in ROWS.into_iter().filter(|(_, unasked, _)| all || *unasked) {
        let cells = of(&|(_, plan)| plan.as_ref().map_or_else(|_| NONE.into(), said));
        // What no engine has is no row: most keep nothing on the trusted disk.
        if cells.iter().any(|cell| cell != NONE) {
            row(what, cells.into_iter());
        }
    }
    let month =
        of(&|(_, plan)| plan.as_ref().map_or_else(|_| NONE.into(), |plan| usd(plan.bill.usd())));
    row("a month, idle", month.into_iter());
    for (engine, plan) in plans {
        match plan {
            Err(why) => say!("{:<22} not possible: {why}", engine.name),
            Ok(plan) => {
                let lines = plan.two_clouds.iter().flat_map(|clouds| clouds.lines(plan.per_s));
                lines.for_each(|(what, said)| say!("{what:<22} {said}"));
            }
        }
    }
}

fn figures(plan: &VolumePlan) -> Value {
    let mut figures = of_whole(plan);
    if let Some(clouds) = &plan.two_clouds {
        figures["clouds"] = clouds.clouds.iter().map(|cloud| of_cloud(cloud, plan)).collect();
        let bytes = clouds.bytes_between();
        figures["between"] = json!({
            "cells_per_access": clouds.cells_between,
            "bytes_per_access": bytes,
            "bytes_per_month": plan.per_s.map(|per_s| bytes * per_s * SECONDS_A_MONTH),
            "priced_alike": clouds.are_priced_alike,
        });
    }
    figures
}

fn of_cloud(cloud: &CloudPlan, plan: &VolumePlan) -> Value {
    json!({
        "storage_bytes": cloud.storage_bytes,
        "to_client_bytes_per_access": cloud.to_client_bytes,
        "to_other_bytes_per_access": cloud.to_other_bytes,
        "usd_per_million": cloud.bill.per_million.usd(),
        "usd_per_month": cloud.bill.usd(),
        "usd_per_month_busy": plan.per_s.map(|per_s| cloud.bill.usd_at(per_s)),
    })
}

fn of_whole(plan: &VolumePlan) -> Value {
    json!({
        "proxy_bytes": plan.memory_bytes,
        "storage_bytes": plan.storage_bytes,
        "trusted_bytes": plan.trusted_bytes,
        "checkpoint_bytes": plan.checkpoint_bytes,
        "recovery_bytes": plan.recovery_bytes,
        "recovery_accesses": plan.recovery_accesses,
        "disk_bytes_per_access": plan.disk_bytes,
        "up_bytes_per_access": plan.up_bytes,
        "down_bytes_per_access": plan.down_bytes,
        "bytes_per_access": plan.up_bytes + plan.down_bytes,
        "reads_per_access": plan.reads,
        "writes_per_access": plan.writes,
        "answer_ms": plan.answer_s * 1e3,
        "accesses_per_s": plan.per_s,
        "usd_per_million": plan.bill.per_million.usd(),
        "usd_per_month": plan.bill.usd(),
    })
}
