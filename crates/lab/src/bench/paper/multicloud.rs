//! Figures 7 to 10 and 12 to 15 of the paper of two clouds: `multicloud` with two servers.
//!
//! 1. Volumes are sparse (`bench/volume/multicloud/sparse`): all blocks are there from the
//!    beginning, and nothing is loaded. How far partitions are in their cycles is spread evenly.
//! 2. Clients run across the links; after a fifth of a round, a round is measured.
//! 3. No partition comes to its refresh meanwhile: what refreshes add is reckoned.
//!
//! Figure 11 is of several servers a cloud, which this engine does not have. The drawings have no
//! numbers; what the text tells is taken, and nothing is read off them.

use std::hint::black_box;
use std::time::Duration;

use fogbank::{Error, Result};
use fogbank_mix::{Point, Seed};
use fogbank_oram::ImmediateShape;
use fogbank_oram::immediate::Traffic;
use fogbank_oram::multicloud::MulticloudSettings;
use fogbank_process::say_error;
use fogbank_store::Link;

use super::ask::Ask;
use super::figure::{Drawn, Figure, Panel, Spread};
use super::published::Published;
use crate::args::PaperFigure;
use crate::bench::machine::memory_available;
use crate::bench::volume::multicloud::{Links, Made, Measured, PARTS, Pair, REFRESH};

const SIZES: [f64; 4] = [5e10, 1e11, 2e11, 3e11];
/// Below, there are too few partitions for any of this.
const BYTES_MIN: f64 = 1e6;
const BLOCKS: [usize; 3] = [4096, 8192, 16384];
const ROUND_TRIPS_MS: [u64; 5] = [10, 50, 100, 200, 400];
/// The round trip where it is not varied.
const ROUND_TRIP_MS: u64 = 50;
/// MB/s between the servers: two that the paper saw, and one that holds nobody up.
const BETWEEN_MB_S: [u64; 3] = [30, 60, 200];
const CLIENTS: usize = 250;
const SECONDS: f64 = 10.0;
const GRID: Duration = Duration::from_millis(1);
/// c0.
const KEPT_LEVELS: u8 = 3;
/// What two servers in memory take of what a round writes, and makes, beside the client.
const BESIDE_BYTES: f64 = 4e9;
/// Bytes that are summed for a figure of the checksum.
const SUMMED_BYTES: usize = 1 << 28;

const SINGLE: &str = "Multi-cloud, section 5.2";
const SMALL_BLOCKS: &str = "Multi-cloud, section 5.2: 0.8 to 1.0 MB/s at 300 GB, the middle";
const LARGE_BLOCKS: &str = "Multi-cloud, section 5.2: 1.2 to 1.6 MB/s, the middle";
const ABOVE: &str = "Multi-cloud, section 5.2: 200 to 300 ms more than the round trip, the middle";

/// What a point came to.
struct At {
    place: String,
    mb_s: Spread,
    mean_ms: Spread,
    between_mb_s: Spread,
    between: Spread,
    parts: [Spread; PARTS.len()],
    client: Spread,
    /// Blocks an access that refreshes would add.
    refreshes: f64,
    /// Blocks an access between the clouds, reckoned.
    reckoned: f64,
    /// Tops that are rebuilt in a round, each partition with its even share.
    tops: f64,
}

/// Measures figures 7, 8 and 12: one sweep over sizes and blocks.
///
/// # Errors
/// By blame.
pub async fn sizes(ask: &Ask) -> Result<[Figure; 3]> {
    let ask = &ask.lasting(SECONDS, SECONDS / 5.0);
    let mut differs = differs(ask);
    let mut rates = panel("throughput", "MB/s of blocks", "volume");
    let mut times = panel("latency", "mean ms", "volume");
    let mut across = panel("between", "blocks of an access between the clouds", "volume");
    let mut parts = Panel::new("parts", "blocks of an access", "blocks of a volume", Drawn::Bars);
    let mut noted = Vec::new();
    for block_bytes in BLOCKS {
        let name = format!("blocks of {} KiB", block_bytes >> 10);
        let paper = match block_bytes {
            4096 => told(0.9, SMALL_BLOCKS),
            _ => told(1.4, LARGE_BLOCKS),
        };
        let mut sizes = SIZES.map(|bytes| (bytes * ask.scale_or(1.0)).max(BYTES_MIN)).to_vec();
        sizes.dedup();
        let mut largest = None;
        for bytes in sizes {
            let size = fogbank::plan::size(bytes);
            if let Some(gb) = lacking(bytes, block_bytes)? {
                let blocks = block_bytes >> 10;
                let why = format!("no {size} of {blocks} KiB: that takes {gb:.1} GB of memory");
                if !differs.contains(&why) {
                    differs.push(why);
                }
                continue;
            }
            let pair = load(ask, bytes, block_bytes).await?;
            let at = point(ask, &pair, (1, size), (ROUND_TRIP_MS, None)).await?;
            pair.close().await?;
            rates.add(&name, &at.place, at.mb_s, paper);
            times.add(&name, &at.place, at.mean_ms, told(250.0 + ROUND_TRIP_MS as f64, ABOVE));
            across.add(&name, &at.place, at.between, None);
            noted.push((format!("{} of {} KiB", at.place, block_bytes >> 10), at.beside()));
            largest = Some(at);
        }
        // The largest has the most levels, and so the most records.
        if let Some(At { place, parts: of, client, .. }) = largest {
            let place = format!("{} KiB, {place}", block_bytes >> 10);
            for (part, blocks) in PARTS.iter().zip(of) {
                parts.add(part, &place, blocks, None);
            }
            parts.add("all", &place, client, told(2.6, SINGLE));
        }
    }
    differs.extend(note(&noted));
    let figure = |id, title: &str, panels| Figure {
        id,
        title: title.into(),
        setting: format!("{}, {ROUND_TRIP_MS} ms away", setting(ask)),
        differs: differs.clone(),
        panels,
    };
    use PaperFigure as F;
    Ok([
        figure(F::CloudsThroughput, "Throughput by the size of the volume", vec![rates, across]),
        figure(F::CloudsResponse, "Response time by the size of the volume", vec![times]),
        figure(F::CloudsParts, "What goes over the client's link", vec![parts]),
    ])
}

/// Measures figures 9 and 10: one volume, at several distances.
///
/// # Errors
/// By blame.
pub async fn round_trips(ask: &Ask) -> Result<[Figure; 2]> {
    let ask = &ask.lasting(SECONDS, SECONDS / 5.0);
    let (pair, size) = largest(ask).await?;
    let below = "ms of a round trip";
    let mut rates = panel("throughput", "MB/s of blocks", below);
    let (mut times, mut noted) = (panel("latency", "mean ms", below), Vec::new());
    for (number, ms) in (1..).zip(ROUND_TRIPS_MS) {
        let at = point(ask, &pair, (number, ms.to_string()), (ms, None)).await?;
        rates.add("multicloud", &at.place, at.mb_s, told(0.9, SMALL_BLOCKS));
        times.add("multicloud", &at.place, at.mean_ms, told(250.0 + ms as f64, ABOVE));
        noted.push((format!("{ms} ms"), at.beside()));
    }
    pair.close().await?;
    let differs = [differs(ask), note(&noted)].concat();
    let figure = |id, title: &str, panel| Figure {
        id,
        title: title.into(),
        setting: format!("{}; {size} of blocks of 4 KiB", setting(ask)),
        differs: differs.clone(),
        panels: vec![panel],
    };
    use PaperFigure as F;
    Ok([
        figure(F::CloudsRoundTripThroughput, "Throughput by the round trip", rates),
        figure(F::CloudsRoundTripResponse, "Response time by the round trip", times),
    ])
}

/// Measures figures 14 and 15: one volume, with several links between the clouds.
///
/// # Errors
/// By blame.
pub async fn between(ask: &Ask) -> Result<[Figure; 2]> {
    let ask = &ask.lasting(SECONDS, SECONDS / 5.0);
    let (pair, size) = largest(ask).await?;
    let below = "MB/s between the clouds, each way";
    let mut rates = panel("throughput", "MB/s of blocks", below);
    let mut shares = panel("share", "share of both ways of that link", below);
    let (mut times, mut noted) = (panel("latency", "mean ms", below), Vec::new());
    for (number, mb_s) in (1..).zip(BETWEEN_MB_S) {
        let link = Some(mb_s * 1_000_000);
        let at = point(ask, &pair, (number, mb_s.to_string()), (ROUND_TRIP_MS, link)).await?;
        let both_ways = Spread::of(vec![2.0 * mb_s as f64]);
        rates.add("multicloud", &at.place, at.mb_s, None);
        shares.add("multicloud", &at.place, at.between_mb_s.over(&both_ways), None);
        times.add("multicloud", &at.place, at.mean_ms, None);
        noted.push((format!("{mb_s} MB/s"), at.beside()));
    }
    pair.close().await?;
    let differs = [differs(ask), note(&noted)].concat();
    let figure = |id, title: &str, panels| Figure {
        id,
        title: title.into(),
        setting: format!("{}, {ROUND_TRIP_MS} ms away; {size} of blocks of 4 KiB", setting(ask)),
        differs: differs.clone(),
        panels,
    };
    use PaperFigure as F;
    Ok([
        figure(
            F::CloudsBetweenThroughput,
            "Throughput by the link between the clouds",
            vec![rates, shares],
        ),
        figure(
            F::CloudsBetweenResponse,
            "Response time by the link between the clouds",
            vec![times],
        ),
    ])
}

/// Measures figure 13: how fast cells are summed, on one core.
///
/// # Errors
/// None.
pub fn checksums(ask: &Ask) -> Result<Figure> {
    let mut rates = panel("rate", "MB/s of one core", "bytes of a block");
    for block_bytes in BLOCKS {
        let point = Point::new(&Seed::new([7; 32]), block_bytes);
        let cells = vec![3; SUMMED_BYTES.max(block_bytes)];
        let round = || {
            let began = ask.clock.now();
            cells.chunks_exact(block_bytes).for_each(|cell| _ = black_box(point.sum(cell)));
            cells.len() as f64 / 1e6 / ((ask.clock.now() - began).max(1) as f64 / 1e9)
        };
        let rounds = Spread::of((0..ask.rounds).map(|_| round()).collect());
        rates.add("sums", block_bytes.to_string(), rounds, None);
    }
    Ok(Figure {
        id: PaperFigure::CloudsChecksum,
        title: "Rate of the sums that shuffles are checked by".into(),
        setting: format!("one core, {} rounds of 256 MiB in memory", ask.rounds),
        differs: vec!["one core; the paper's is of all cores of a server".into()],
        panels: vec![rates],
    })
}

/// Gigabytes of memory that a volume takes, if there is less.
fn lacking(bytes: f64, block_bytes: usize) -> Result<Option<f64>> {
    let takes = settings(bytes, block_bytes)?.memory()?.total() + BESIDE_BYTES;
    let is_less = memory_available().is_some_and(|available| takes > available as f64);
    Ok(is_less.then_some(takes / 1e9))
}

/// The paper's largest at the scale asked for, of blocks of 4 KiB.
async fn largest(ask: &Ask) -> Result<(Pair, String)> {
    let bytes = (SIZES[3] * ask.scale_or(1.0)).max(BYTES_MIN);
    if let Some(gb) = lacking(bytes, BLOCKS[0])? {
        let why = format!("that takes {gb:.0} GB of memory: give a smaller --scale");
        return Err(Error::CannotUse(why));
    }
    Ok((load(ask, bytes, BLOCKS[0]).await?, fogbank::plan::size(bytes)))
}

fn settings(bytes: f64, block_bytes: usize) -> Result<MulticloudSettings> {
    let capacity = (bytes / block_bytes as f64) as u32;
    let shape = ImmediateShape { capacity, value_bytes: block_bytes };
    Ok(MulticloudSettings::new(shape, KEPT_LEVELS)?)
}

async fn load(ask: &Ask, bytes: f64, block_bytes: usize) -> Result<Pair> {
    let usual = settings(bytes, block_bytes)?;
    let settings = MulticloudSettings { quantum: GRID, under_way_max: CLIENTS, ..usual };
    Pair::load(Made { settings, seed: ask.seed, is_sparse: true }, None).await
}

/// All rounds of a point.
async fn point(
    ask: &Ask,
    pair: &Pair,
    (number, place): (u64, String),
    (round_trip_ms, between): (u64, Option<u64>),
) -> Result<At> {
    say_error!("{place}: {CLIENTS} clients, {round_trip_ms} ms");
    let client = Link { round_trip: Duration::from_millis(round_trip_ms), ..Link::instant() };
    let mut rounds = Vec::new();
    for round in 0..ask.rounds as u64 {
        let drawn = (number * 1_000 + round, CLIENTS);
        rounds.push(pair.measure(drawn, Links { client, between }, ask.seconds).await?);
    }
    let spread = |value: &dyn Fn(&Measured) -> f64| Spread::of(rounds.iter().map(value).collect());
    let mb = pair.block_bytes() as f64 / 1e6;
    let (settings, accesses) = (pair.settings(), spread(&|of| of.accesses).median);
    let Traffic { up_bytes, down_bytes } = settings.refresh_traffic()?;
    let reckoned = (up_bytes + down_bytes) / pair.block_bytes() as f64;
    // Of a volume so small that refreshes fall into a round they are measured.
    let is_none = rounds.iter().all(|of| of.parts[REFRESH] == 0.0);
    let refreshes = if is_none { reckoned } else { 0.0 };
    Ok(At {
        place,
        mb_s: spread(&|of| of.per_s() * mb),
        mean_ms: spread(&|of| of.answers.latencies.mean() / 1e6),
        between_mb_s: spread(&|of| of.per_s() * of.between * mb),
        between: spread(&|of| of.between),
        parts: std::array::from_fn(|part| {
            let reckoned = if part == REFRESH { refreshes } else { 0.0 };
            spread(&|of| of.parts[part] + reckoned)
        }),
        client: spread(&|of| of.up + of.down + refreshes),
        refreshes,
        reckoned: pair.reckoned_between()?,
        tops: accesses * settings.tops_an_access()?,
    })
}

impl At {
    /// What is reckoned, of refreshes and between the clouds, and how many tops.
    fn beside(&self) -> [f64; 3] {
        [self.refreshes, self.reckoned, self.tops]
    }
}

/// What is to be known of points beside their figures.
fn note(points: &[(String, [f64; 3])]) -> Vec<String> {
    let list = |which: usize| {
        let points = points.iter().map(|(place, of)| format!("{place} {:.2}", of[which]));
        points.collect::<Vec<_>>().join(", ")
    };
    let [refreshes, between, tops] = [0, 1, 2].map(list);
    vec![
        format!("blocks an access of refreshes that are reckoned, in no round: {refreshes}"),
        format!("blocks an access between the clouds, over whole cycles, reckoned: {between}"),
        format!("tops rebuilt in a round, each partition with its even share: {tops}"),
    ]
}

fn setting(ask: &Ask) -> String {
    format!(
        "engine multicloud, two fogbank-cloud servers with TLS, {CLIENTS} clients, half of the \
         accesses write; median of {} rounds of {} s after a fifth of that",
        ask.rounds, ask.seconds
    )
}

/// What is not as in the paper.
fn differs(ask: &Ask) -> Vec<String> {
    let scale = ask.scale_or(1.0);
    let smaller = format!("volumes of {scale} of the paper's 50 to 300 GB");
    let always = [
        "sparse volumes: cells that were never written are made on demand",
        "servers keep what is written in memory; the paper's were held up by a blob store",
        "client, servers and links share one process, and the cores of one machine",
        "where the paper's text tells one value, it stands beside every place",
    ];
    let smaller = (scale < 1.0).then_some(smaller);
    smaller.into_iter().chain(always.map(String::from)).collect()
}

fn panel(name: &'static str, measure: &str, below: &'static str) -> Panel {
    Panel::new(name, measure, below, Drawn::Curves)
}

fn told(value: f64, place: &'static str) -> Option<Published> {
    Some(Published { value, place })
}
