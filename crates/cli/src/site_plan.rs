//! `fogbank site plan`: what a site will need, by the number of its clients.

use fogbank::args::SitePlanArgs;
use fogbank::plan::distance::link_to;
use fogbank::plan::site::SitePlan;
use fogbank::plan::size;
use fogbank::site::parameters_of;
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
    let (link, how) = link_to("grpc:", &args.link);
    let of = |clients: &u32| SitePlan::of(&parameters, *clients, &link);
    let plans = args.clients.iter().map(of).collect::<Result<Vec<_>>>()?;
    say!("a site of {}", disk_size(args.size.as_u64(), args.block.as_u64()));
    let said = |clients: u32| counted(clients as usize, "client", "clients");
    row("", plans.iter().map(|plan| said(plan.clients)));
    for (what, said) in ROWS {
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

fn figures(plan: &SitePlan) -> Value {
    json!({
        "clients": plan.clients,
        "client_bytes": plan.memory_bytes,
        "storage_bytes": plan.storage_bytes,
        "up_bytes_per_query": plan.up_bytes,
        "down_bytes_per_query": plan.down_bytes,
        "answer_ms": plan.answer_s * 1e3,
        "queries_per_s": plan.per_s,
        "beside_a_builder": {
            "up_bytes_per_query": plan.beside[0],
            "down_bytes_per_query": plan.beside[1],
            "queries_per_s": plan.beside[2],
            "builder_up_bytes_per_query": plan.builder_bytes[0],
            "builder_down_bytes_per_query": plan.builder_bytes[1],
        },
    })
}
