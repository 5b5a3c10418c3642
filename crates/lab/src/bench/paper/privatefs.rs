//! Figures 6 to 9 of PD-ORAM's paper: clients that share a key, on one site in memory.
//!
//! 1. Figures 6 and 7 begin at a site that is full and whose tables are all being built
//!    (`bench/site/warm`). Unless seconds are asked for, a point lasts until a table of the largest
//!    level has been built.
//! 2. Figure 8 begins at a site that nobody has used, so that it grows while clients ask.
//! 3. Figure 9 goes on until a table of the largest level has been built, and looks at it from time
//!    to time.
//!
//! Every read is checked. The paper goes to 1 TB, of which these are a share. Its drawings have no
//! numbers; what its text tells is taken, and nothing is read off them.
//!
//! Here all clients share the cores of one machine. What the protocol, the links and builds make
//! without that is drawn by hand, in virtual time:
//! `cargo test -p fogbank-lab --bins --release -- --ignored --nocapture figures_of_privatefs`.

use std::time::Duration;

use fogbank::Result;
use fogbank_process::say_error;
use fogbank_store::Link;

use super::ask::Ask;
use super::figure::{Drawn, Figure, Panel, Spread};
use super::published::Published;
use crate::args::PaperFigure;
use crate::bench::site::{Progress, Warm};

const BLOCK_BYTES: u64 = 4096;
/// The paper's largest, and smaller ones.
const SIZES: [f64; 3] = [6.25e10, 2.5e11, 1e12];
/// The share of them that is usual. At four times that one client takes half an hour for a point.
const SCALE: f64 = 1.6e-5;
/// Below, a site has too few levels for any of this.
const BYTES_MIN: f64 = 2e6;
const CLIENTS: [usize; 5] = [1, 5, 10, 20, 30];
/// Clients where they are not varied, but for figure 8.
const CLIENTS_MOST: usize = 30;
const ROUND_TRIPS_MS: [u64; 4] = [10, 50, 100, 200];
/// The round trip where it is not varied.
const ROUND_TRIP_MS: u64 = 50;
/// Each client's own, a gigabit each way.
const LINK_BYTES_PER_S: u64 = 125_000_000;
const QUANTUM_US: u64 = 1000;
/// Of one span of figure 8.
const SECONDS: f64 = 8.0;
/// Spans of time of figure 8.
const SPANS: usize = 12;
/// Seconds from one look of figure 9 to the next.
const LOOK_SECONDS: f64 = 5.0;

const TYPICAL: &str = "PD-ORAM, section 6.2: most queries take around 1,200 ms";
const BANDS: &str = "PD-ORAM, section 6.2: the upper of the bands at 2,600 and 3,100 ms";

/// Measures figure 6: sizes and clients.
///
/// # Errors
/// By blame.
pub async fn sizes(ask: &Ask) -> Result<Figure> {
    let mut rates = panel("throughput", "queries/s of all clients", "clients");
    let mut times = panel("latency", "mean ms", "clients");
    for bytes in SIZES.map(|bytes| scaled(ask, bytes)) {
        let size = size(bytes);
        let mut warm = warm(ask, bytes).await?;
        for clients in CLIENTS {
            say_error!("{size}: {clients} clients");
            let [rate, ms] = point(ask, &mut warm, (clients, ROUND_TRIP_MS)).await?;
            let place = clients.to_string();
            rates.add(&size, &place, rate, None);
            times.add(&size, &place, ms, told(1200.0, TYPICAL).filter(|_| clients == 1));
        }
    }
    Ok(Figure {
        id: PaperFigure::SiteSizes,
        title: "Throughput by size and clients".into(),
        setting: format!("{}, {ROUND_TRIP_MS} ms away", setting(ask)),
        differs: differs(ask),
        panels: vec![rates, times],
    })
}

/// Measures figure 7: clients and round trips.
///
/// # Errors
/// By blame.
pub async fn round_trips(ask: &Ask) -> Result<Figure> {
    let mut rates = panel("throughput", "queries/s of all clients", "ms of a round trip");
    let mut times = panel("latency", "mean ms", "ms of a round trip");
    let mut warm = warm(ask, middle(ask)).await?;
    for clients in [1, 10, CLIENTS_MOST] {
        for ms in ROUND_TRIPS_MS {
            say_error!("{clients} clients, {ms} ms");
            let [rate, mean] = point(ask, &mut warm, (clients, ms)).await?;
            let series = format!("{clients} clients");
            rates.add(&series, ms.to_string(), rate, None);
            times.add(&series, ms.to_string(), mean, None);
        }
    }
    Ok(Figure {
        id: PaperFigure::SiteRoundTrips,
        title: "Throughput by clients and the round trip".into(),
        setting: format!("{}; {}", setting(ask), size(middle(ask))),
        differs: differs(ask),
        panels: vec![rates, times],
    })
}

/// Measures figure 8: what queries take while a site grows.
///
/// # Errors
/// By blame.
pub async fn growing(ask: &Ask) -> Result<Figure> {
    let ask = &ask.lasting(SECONDS, 0.0);
    let bytes = middle(ask);
    let parameters = fogbank::site::parameters_of(bytes, BLOCK_BYTES)?;
    let mut times = panel("latency", "ms of a query", "places of the log so far");
    let mut empty = Warm::empty(parameters, ask.seed).await?;
    let spans = (ask.seconds, SPANS);
    for (answers, places) in empty.grow(10, (link(ROUND_TRIP_MS), QUANTUM_US), spans).await? {
        if answers.latencies.is_empty() {
            continue;
        }
        let ms = |share| answers.latencies.value_at_quantile(share) as f64 / 1e6;
        let place = places.to_string();
        let once = |value| Spread::of(vec![value]);
        times.add("half of them", &place, once(ms(0.5)), told(1200.0, TYPICAL));
        times.add("99 of 100", &place, once(ms(0.99)), None);
        times.add("the longest", &place, once(ms(1.0)), told(3100.0, BANDS));
    }
    Ok(Figure {
        id: PaperFigure::SiteGrowing,
        title: "What a query takes while the site grows".into(),
        setting: format!(
            "engine hierarchy, {} of blocks of 4 KiB, none written at first, 10 clients, a gigabit \
             each, {ROUND_TRIP_MS} ms away; {SPANS} spans of {} s",
            size(bytes),
            ask.seconds
        ),
        differs: differs(ask),
        panels: vec![times],
    })
}

/// Measures figure 9: how far a table is built, by the log and by what was written.
///
/// # Errors
/// By blame.
pub async fn progress(ask: &Ask) -> Result<Figure> {
    let ask = &ask.lasting(LOOK_SECONDS, 0.0);
    let look_nanos = (ask.seconds * 1e9) as u64;
    let bytes = middle(ask);
    let mut warm = warm(ask, bytes).await?;
    let mut looks: Vec<Progress> = Vec::new();
    let mut last = None;
    let tell = |now: Progress| {
        if looks.last().is_none_or(|look| now.nanos >= look.nanos + look_nanos) {
            looks.push(now);
        }
        last = Some(now);
    };
    let far = (link(ROUND_TRIP_MS), QUANTUM_US);
    warm.measure_watched((CLIENTS_MOST, None), far, tell).await?;
    looks.extend(last);
    let all = last.map_or(0, |last| last.written).max(1) as f64;
    let mut shares = panel("progress", "share of the table", "s");
    for Progress { nanos, places, written } in looks {
        let place = format!("{:.0}", nanos as f64 / 1e9);
        let once = |value| Spread::of(vec![value]);
        shares.add("by the log", &place, once(places.min(1.0)), None);
        shares.add("written", &place, once(written as f64 / all), None);
    }
    Ok(Figure {
        id: PaperFigure::SiteProgress,
        title: "How far a table of the largest level is built".into(),
        setting: format!(
            "engine hierarchy, {} of blocks of 4 KiB, {CLIENTS_MOST} clients, a gigabit each, \
             {ROUND_TRIP_MS} ms away; a look every {} s",
            size(bytes),
            ask.seconds
        ),
        differs: [
            differs(ask),
            vec!["queries go on, and pace the build; the paper measured it without".into()],
        ]
        .concat(),
        panels: vec![shares],
    })
}

/// All rounds of a point: queries a second, and their mean in milliseconds.
async fn point(
    ask: &Ask,
    warm: &mut Warm,
    (clients, round_trip_ms): (usize, u64),
) -> Result<[Spread; 2]> {
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    for _ in 0..ask.rounds {
        let far = (link(round_trip_ms), QUANTUM_US);
        let answers = warm.measure(clients, far, ask.seconds_typed()).await?.answers;
        rates.push(answers.latencies.len() as f64 / answers.seconds);
        times.push(answers.latencies.mean() / 1e6);
    }
    Ok([Spread::of(rates), Spread::of(times)])
}

async fn warm(ask: &Ask, bytes: u64) -> Result<Warm> {
    say_error!("loading {}", size(bytes));
    Warm::new(fogbank::site::parameters_of(bytes, BLOCK_BYTES)?, ask.seed).await
}

/// The size where it is not varied.
fn middle(ask: &Ask) -> u64 {
    scaled(ask, SIZES[1])
}

/// Whole blocks.
fn scaled(ask: &Ask, bytes: f64) -> u64 {
    (bytes * ask.scale_or(SCALE)).max(BYTES_MIN) as u64 / BLOCK_BYTES * BLOCK_BYTES
}

fn size(bytes: u64) -> String {
    fogbank::plan::size(bytes as f64)
}

fn link(round_trip_ms: u64) -> Link {
    Link {
        round_trip: Duration::from_millis(round_trip_ms),
        up_bytes_per_s: Some(LINK_BYTES_PER_S),
        down_bytes_per_s: Some(LINK_BYTES_PER_S),
        ..Link::instant()
    }
}

fn setting(ask: &Ask) -> String {
    let lasting = match ask.seconds_typed() {
        Some(seconds) => format!("{seconds} s"),
        None => "a whole build of the largest level".into(),
    };
    format!(
        "engine hierarchy, blocks of 4 KiB, all written, half of the queries write, a gigabit for \
         each client; median of {} rounds of {lasting}",
        ask.rounds
    )
}

/// What is not as in the paper.
fn differs(ask: &Ask) -> Vec<String> {
    vec![
        format!("volumes of {} of the paper's, whose largest has 1 TB", ask.scale_or(SCALE)),
        "the server is memory; the paper's has seven disks".into(),
        "clients find cells by an index in memory; the paper's by Bloom filters at the server"
            .into(),
        "all clients share the cores of one machine".into(),
    ]
}

fn panel(name: &'static str, measure: &str, below: &'static str) -> Panel {
    Panel::new(name, measure, below, Drawn::Curves)
}

fn told(value: f64, place: &'static str) -> Option<Published> {
    Some(Published { value, place })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Parser)]
    struct Asked {
        #[command(flatten)]
        args: crate::args::BenchPaperArgs,
    }

    /// 16, 64 and 256 MB.
    #[tokio::test(start_paused = true)]
    #[ignore = "figures: half an hour, and 6 GB of memory"]
    async fn figures_of_privatefs() {
        let figures = "privatefs-6,privatefs-7,privatefs-8,privatefs-9";
        let out = tempfile::tempdir().unwrap();
        let typed = ["", "--figure", figures, "--scale", "2.56e-4", "--rounds", "1", "--out"];
        let typed = typed.map(std::ffi::OsStr::new).into_iter().chain([out.path().as_os_str()]);
        crate::bench::paper::run(Asked::parse_from(typed).args).await.unwrap();
    }
}
