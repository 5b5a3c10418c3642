//! What was measured, for people and for programs.

use crate::args::System;
use fogbank_process::say;
use fogbank_workload::drive::{Load, Measured, Tally};
use serde_json::json;

use super::endpoint::CONNECTIONS_MAX;
use super::setting::{Epochs, Kept, Setting};
use crate::bench::counted::Traffic;
use crate::bench::spread::Spread;

/// The share of what arrives that has to be served: the rest may be chance.
const SERVED: f64 = 0.9;

/// What one system came to.
pub struct Row {
    /// Which one.
    pub system: System,
    /// Transactions a second by round, in their order.
    pub per_s: Vec<f64>,
    /// Mean milliseconds by round, in their order.
    pub mean_ms: Vec<f64>,
    /// All rounds together, by kind.
    pub kinds: Vec<Tally>,
    /// Transactions that were given up.
    pub given_up: u64,
    /// What passed to the store in all rounds, ramps included.
    pub traffic: Traffic,
}

impl Row {
    /// Of the rounds of a system.
    pub fn of(system: System, rounds: &[Measured], traffic: Traffic) -> Self {
        let per_s = rounds.iter().map(Measured::per_s).collect();
        let mean_ms = rounds.iter().map(|round| round.all().mean_ms()).collect();
        let mut kinds: Vec<Tally> =
            rounds.first().map(|round| round.kinds.clone()).unwrap_or_default();
        for round in rounds.iter().skip(1) {
            kinds.iter_mut().zip(&round.kinds).for_each(|(to, from)| to.add(from));
        }
        let given_up = rounds.iter().map(|round| round.given_up).sum();
        Self { system, per_s, mean_ms, kinds, given_up, traffic }
    }

    /// Transactions a second.
    pub fn rate(&self) -> Spread {
        Spread::of(self.per_s.clone())
    }

    /// Whether anything was committed while it was measured.
    pub fn came_to_something(&self) -> bool {
        self.rate().median > 0.0
    }

    /// All kinds together.
    pub fn all(&self) -> Tally {
        let mut all = Tally::new();
        self.kinds.iter().for_each(|tally| all.add(tally));
        all
    }

    /// Runs of a procedure for one that committed.
    pub fn attempts(&self) -> f64 {
        let all = self.all();
        all.attempts as f64 / (all.latency_us.len().max(1)) as f64
    }
}

/// Prints rows, and ratios to the first.
pub fn print(
    setting: &Setting,
    (epochs, kept): (Option<Epochs>, Option<Kept>),
    rows: &[Row],
    as_json: bool,
) {
    say!(
        "{} over {}; {}{}{}",
        setting.workload.name(),
        setting.link_words,
        match setting.load {
            Load::Closed { clients } => format!("{clients} clients"),
            Load::Open { per_s, .. } => format!("{per_s} arrivals a second"),
        },
        epochs.map_or(String::new(), |epochs| format!("; {}", epochs.words())),
        kept.map_or(String::new(), |kept| format!("; {}", kept.words()))
    );
    say!(
        "system            tx/s   slowest   fastest   mean ms    p50 ms    p99 ms   runs/tx  given \
         up"
    );
    for row in rows {
        let (all, rate) = (row.all(), row.rate());
        say!(
            "{:<13} {:>8.0}  {:>8.0}  {:>8.0}  {:>8.2}  {:>8.2}  {:>8.2}  {:>8.2}  {:>8}",
            row.system.name(),
            rate.median,
            rate.least,
            rate.greatest,
            all.mean_ms(),
            all.percentile_ms(50.0),
            all.percentile_ms(99.0),
            row.attempts(),
            row.given_up,
        );
    }
    let here: Vec<&str> = rows
        .iter()
        .map(|row| row.system)
        .filter(|system| !system.has_link())
        .map(System::name)
        .collect();
    let clients = setting.clients();
    if clients > CONNECTIONS_MAX && rows.iter().any(|row| row.system == System::FogbankRedis) {
        let name = System::FogbankRedis.name();
        say!("{name}: {clients} clients share {CONNECTIONS_MAX} connections");
    }
    if !here.is_empty() {
        say!("{}: on this machine, without the link", here.join(", "));
    }
    if let Load::Open { per_s, .. } = setting.load {
        for row in rows.iter().filter(|row| row.rate().median < SERVED * per_s) {
            let name = row.system.name();
            say!(
                "{name}: serves less than arrives, so its latency grows for as long as it is \
                 measured"
            );
        }
    }
    if let [first, others @ ..] = rows {
        for other in
            others.iter().filter(|other| first.came_to_something() && other.came_to_something())
        {
            let (first_name, name) = (first.system.name(), other.system.name());
            say!(
                "{name} / {first_name}: {:.2}x the throughput; latency of {first_name} / {name}: \
                 {:.2}x",
                other.rate().median / first.rate().median,
                first.all().mean_ms() / other.all().mean_ms(),
            );
        }
    }
    if as_json {
        let (clients, arrivals) = match setting.load {
            Load::Closed { clients } => (Some(clients), None),
            Load::Open { per_s, .. } => (None, Some(per_s)),
        };
        let systems: Vec<_> = rows.iter().map(|row| json_of(setting, row)).collect();
        say!(
            "{}",
            json!({
                "workload": setting.workload.name(),
                "link": setting.link_words,
                "clients": clients,
                "arrivals_per_s": arrivals,
                "seconds": setting.span.measured.as_secs_f64(),
                "ramp": setting.span.ramp.as_secs_f64(),
                "rounds": setting.rounds,
                "seed": setting.seed,
                "read_batches": epochs.map(|epochs| epochs.read_batches),
                "batch": epochs.map(|epochs| epochs.batch),
                "write_batch": epochs.map(|epochs| epochs.write_batch),
                "cache_bytes": kept.map(|kept| kept.cache),
                "cached_levels": kept.map(|kept| kept.levels),
                "levels": kept.map(|kept| kept.of),
                "systems": systems,
            })
        );
    }
}

fn json_of(setting: &Setting, row: &Row) -> serde_json::Value {
    let figures = |tally: &Tally| {
        json!({
            "committed": tally.latency_us.len(),
            "latency_ms_mean": tally.mean_ms(),
            "latency_ms_p50": tally.percentile_ms(50.0),
            "latency_ms_p99": tally.percentile_ms(99.0),
            "latency_ms_p999": tally.percentile_ms(99.9),
        })
    };
    let kinds: serde_json::Map<String, serde_json::Value> = (setting.workload.kinds().iter())
        .zip(&row.kinds)
        .map(|((name, _), tally)| ((*name).to_owned(), figures(tally)))
        .collect();
    json!({
        "system": row.system.name(),
        "has_link": row.system.has_link(),
        "transactions_per_s": row.rate().median,
        "transactions_per_s_by_round": row.per_s,
        "runs_per_transaction": row.attempts(),
        "given_up": row.given_up,
        "all": figures(&row.all()),
        "kinds": kinds,
        "bytes_read": row.traffic.read,
        "bytes_written": row.traffic.written,
        "calls": row.traffic.calls,
    })
}
