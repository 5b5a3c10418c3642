//! `fogbank site plan`: what a site will need, by the number of its clients.

use fogbank::args::SitePlanArgs;
use fogbank::plan::bill::usd;
use fogbank::plan::distance::link_to;
use fogbank::plan::price::prices;
use fogbank::plan::site::{Asked, At, SitePlan};
use fogbank::plan::size;
use fogbank::site::{check_store, is_in_bucket, parameters_of};
use fogbank::{Result, counted, disk_size};
use fogbank_process::say;
use serde_json::{Value, json};

use crate::volume_plan::{answer, row};

/// Prints the plan.
///
/// # Errors
/// [`fogbank::Error::Usage`] for a shape or a link of which there is no site.
pub fn run(args: &SitePlanArgs) -> Result<()> {
    let parameters = parameters_of(args.size.as_u64(), args.block.as_u64())?;
    let url = args.store.as_deref().unwrap_or(SERVER);
    check_store(url)?;
    let prices = prices(args.prices.as_deref(), url)?;
    let (link, how) = link_to(url, &args.link);
    let at = At { link: &link, prices: &prices, is_bucket: is_in_bucket(url) };
    let of = |clients: &u32| SitePlan::of(&parameters, *clients, &at);
    let plans = args.clients.iter().map(of).collect::<Result<Vec<_>>>()?;
    say!("a site of {}", disk_size(args.size.as_u64(), args.block.as_u64()));
    let said = |clients: u32| counted(clients as usize, "client", "clients");
    row("", plans.iter().map(|plan| said(plan.clients)));
    let of_bucket: &[Row] = if at.is_bucket { &OF_BUCKET } else { &[] };
    // A server is rented as a whole.
    let bill: &[Row] = if at.is_bucket || args.prices.is_some() { &BILL } else { &[] };
    for (what, said) in ROWS.iter().chain(of_bucket).chain(bill) {
        row(what, plans.iter().map(said));
    }
    say!("{:<22} {how}", "reckoned with");
    if args.json {
        let plans: Vec<Value> = plans.iter().map(figures).collect();
        say!("{}", json!({ "plans": plans }));
    }
    Ok(())
}

/// A line: what it is, and how it is said of a number of clients.
type Row = (&'static str, fn(&SitePlan) -> String);

const ROWS: [Row; 11] = [
    ("memory of a client", |plan| size(plan.memory_bytes)),
    ("stored at the server", |plan| size(plan.storage_bytes)),
    ("a query sends", |plan| size(plan.up_bytes)),
    ("and receives", |plan| size(plan.down_bytes)),
    ("answers after", |plan| answer(plan.answer_s)),
    ("queries/s of all", |plan| format!("{:.0}", plan.per_s)),
    ("beside a builder sends", |plan| size(plan.beside[0])),
    ("and receives", |plan| size(plan.beside[1])),
    ("queries/s of all", |plan| format!("{:.0}", plan.beside[2])),
    ("the builder sends", |plan| size(plan.builder_bytes[0])),
    ("and receives", |plan| size(plan.builder_bytes[1])),
];

const OF_BUCKET: [Row; 3] = [
    ("reads of a query", |plan| format!("{:.1} GET", asked(plan).for_query[0])),
    ("writes of a query", |plan| format!("{:.1} PUT", asked(plan).for_query[1])),
    ("looks of all", |plan| format!("{:.0} GET/s", asked(plan).idle_per_s)),
];

const BILL: [Row; 2] = [
    ("a million queries", |plan| usd(plan.bill.per_million.usd())),
    ("a month idle", |plan| usd(plan.bill.storage_usd)),
];

/// Where clients meet if nobody has said it.
const SERVER: &str = "grpc://HOST:7455/TENANT";

fn asked(plan: &SitePlan) -> Asked {
    plan.asked.unwrap_or_default()
}

fn figures(plan: &SitePlan) -> Value {
    json!({
        "clients": plan.clients,
        "client_bytes": plan.memory_bytes,
        "storage_bytes": plan.storage_bytes,
        "up_bytes_per_query": plan.up_bytes,
        "down_bytes_per_query": plan.down_bytes,
        "answer_ms": plan.answer_s * 1e3,
        "queries_per_s": plan.per_s,
        "gets_and_puts_per_query": plan.asked.map(|asked| asked.for_query),
        "idle_gets_per_s": plan.asked.map(|asked| asked.idle_per_s),
        "million_queries_usd": plan.bill.per_million.usd(),
        "idle_month_usd": plan.bill.storage_usd,
        "beside_a_builder": {
            "up_bytes_per_query": plan.beside[0],
            "down_bytes_per_query": plan.beside[1],
            "queries_per_s": plan.beside[2],
            "builder_up_bytes_per_query": plan.builder_bytes[0],
            "builder_down_bytes_per_query": plan.builder_bytes[1],
        },
    })
}
