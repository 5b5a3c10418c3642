//! Figures of a site in virtual time: what the protocol, the links and builds make of it. No time
//! passes while clients compute, so all of them can share one machine. Those of large sites are
//! drawn by hand, with the name of one behind:
//! `cargo test -p fogbank-lab --bins -- --ignored --nocapture virtual_time`.

use std::time::Duration;

use fogbank_process::say;
use fogbank_store::Link;

use super::row::{HEAD, Row};
use super::warm::Warm;

/// Microseconds, as of a site.
const QUANTUM_US: u64 = 1_000;

/// Queries a second, and milliseconds of a query, on average and at the 99th percentile.
#[derive(Debug)]
struct Figures {
    per_s: f64,
    mean: f64,
    p99: f64,
}

/// So many clients, each number in turn, on a site of blocks of 4 KiB whose levels are all full,
/// while one table of the largest is built; 50 ms and 125 MB/s each way from every client.
async fn measured(size: u64, all: &[usize]) -> Vec<Figures> {
    let link = Link {
        round_trip: Duration::from_millis(50),
        up_bytes_per_s: Some(125_000_000),
        down_bytes_per_s: Some(125_000_000),
        ..Link::instant()
    };
    let parameters = fogbank::site::parameters_of(size, 4_096).unwrap();
    say!("{} blocks of 4 KiB\n{HEAD}", parameters.blocks);
    let mut warm = Warm::new(parameters, 1).await.unwrap();
    let mut found = Vec::new();
    for clients in all {
        let measured = warm.measure(*clients, (link, QUANTUM_US), None).await.unwrap();
        let row = Row::of(*clients, &measured, parameters.block_bytes).unwrap();
        say!("{}\n{}", row.line(), row.phases());
        let json = row.json();
        let of = |name: &str| json[name].as_f64().unwrap();
        let (per_s, mean, p99) = (of("ops_per_s"), of("latency_ms_mean"), of("latency_ms_p99"));
        found.push(Figures { per_s, mean, p99 });
    }
    found
}

/// One client waits for two round trips; of thirty nobody waits for builds.
async fn is_as_fast_as_its_link(size: u64) {
    for clients in [1, 30] {
        let [Figures { per_s, mean, p99 }] = measured(size, &[clients]).await[..] else { panic!() };
        let (least, most) = if clients == 1 { (8.7, 115.0) } else { (185.0, 162.0) };
        assert!(per_s > least && mean < most && p99 < 1.1 * mean, "{per_s} {mean} {p99}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_site_is_as_fast_as_its_link() {
    is_as_fast_as_its_link(16 << 20).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "figures: half an hour, and 20 GB of memory"]
async fn a_gigabyte_is_as_fast_as_its_link() {
    is_as_fast_as_its_link(1 << 30).await;
}

/// The numbers of clients, and the blocks, that were published for MVP-ORAM: a tree of height 17.
#[tokio::test(start_paused = true)]
#[ignore = "figures: an hour, and 10 GB of memory"]
async fn of_one_to_fifty_clients() {
    measured(1 << 29, &[1, 10, 20, 30, 40, 50]).await;
}
