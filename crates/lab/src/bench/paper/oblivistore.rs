//! Figures 8 to 13 and 16 of ObliviStore's paper: `partition` on seven disks and on two solid state
//! drives.
//!
//! 1. Volumes are sparse (`bench/volume/sparse`): all blocks have their places from the beginning,
//!    and nothing is loaded. Counters of partitions are spread evenly, so any span has its share of
//!    rebuilt tops.
//! 2. After a fifth of a round, in which shuffling comes to be as far behind as it stays, a round
//!    is measured.
//! 3. With each figure stands its bandwidth, how many tops were rebuilt, and what shuffling was
//!    behind before and afterwards.
//!
//! What the paper tells of these figures in words is little; the drawings have no numbers, and none
//! is read off them.

use std::time::Duration;

use crate::args::PaperFigure;
use fogbank::Result;
use fogbank_oram::ImmediateShape;
use fogbank_oram::partition::PartitionSettings;
use fogbank_process::say_error;
use fogbank_store::Link;

use super::ask::Ask;
use super::figure::{Drawn, Figure, Panel, Spread};
use super::published::Published;
use crate::bench::machine::memory_available;
use crate::bench::volume::{Disks, Lane, Row, Site};

const BLOCK_BYTES: usize = 4096;
const SIZES: [f64; 4] = [1e9, 1e10, 1e11, 1e12];
/// Below, there are too few partitions for any of this.
const BYTES_MIN: f64 = 1e6;
/// The size where it is not varied.
const SIZE: f64 = 1e10;
const ROUND_TRIPS_MS: [u64; 5] = [10, 50, 200, 500, 1000];
/// The round trip where it is not varied.
const ROUND_TRIP_MS: u64 = 50;
/// c0.
const KEPT_LEVELS: u8 = 3;
const SECONDS: f64 = 10.0;
const GRID: Duration = Duration::from_millis(1);
/// What a store in memory takes of what a round writes, beside the proxy.
const BESIDE_BYTES: f64 = 3e9;

const DISKS: &str = "ObliviStore, section VII-A 1";
const DRIVES: &str = "ObliviStore, section VII-A 2";
const MIDDLE: &str = "ObliviStore, section VII-A 1: 140 to 200 ms plus the round trip, the middle";
const HALF: &str = "ObliviStore, section VII-A 2: about half of that with disks";
const NODE: &str = "ObliviStore, section VII-B: 31.5 MB/s of ten nodes with two drives each";
const SEVENTH: &str =
    "from section VII: two drives make 3.15 MB/s, which is 6 to 8 times what seven disks make";

/// What the store is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// Seven disks.
    Disks,
    /// Two solid state drives.
    Drives,
}

impl Media {
    fn disks(self) -> Disks {
        match self {
            Self::Disks => Disks::SEVEN,
            Self::Drives => Disks::SOLID,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Disks => "seven disks",
            Self::Drives => "two drives",
        }
    }

    /// As many clients as are served about as soon as the paper's, by the rate of such disks; far
    /// away so many that two round trips do not bound the rate.
    fn clients(self, is_far: bool) -> usize {
        match (self, is_far) {
            (Self::Disks, false) => 32,
            (Self::Disks, true) => 500,
            (Self::Drives, false) => 256,
            (Self::Drives, true) => 1_000,
        }
    }
}

/// What a point came to.
struct At {
    place: String,
    mb_s: Spread,
    mean_ms: Spread,
    seeks: Spread,
    link_mb_s: Spread,
    /// The share of tops that were rebuilt in a round.
    tops: f64,
    debt: (u64, u64),
}

/// Measures figures 8, 9, 11, 12 and 16: one sweep on each kind of disks.
///
/// # Errors
/// By blame.
pub async fn sizes(ask: &Ask) -> Result<[Figure; 5]> {
    let ask = &ask.lasting(SECONDS, SECONDS / 5.0);
    let mut differs = Vec::new();
    let mut sweeps = Vec::new();
    for media in [Media::Disks, Media::Drives] {
        let mut points = Vec::new();
        let mut sizes = SIZES.map(|bytes| (bytes * ask.scale_or(1.0)).max(BYTES_MIN)).to_vec();
        sizes.dedup();
        for bytes in sizes {
            let settings = settings(bytes, media.clients(false))?;
            let takes = settings.memory().total() + BESIDE_BYTES;
            if memory_available().is_some_and(|available| takes > available as f64) {
                let gb = takes / 1e9;
                let why = format!("no volume of {}: it takes {gb:.1} GB of memory", size(bytes));
                if !differs.contains(&why) {
                    differs.push(why);
                }
                continue;
            }
            points.push(point(ask, media, settings, (size(bytes), ROUND_TRIP_MS, false)).await?);
        }
        sweeps.push((media, points));
    }
    let mut seeks = panel("seeks", "seeks an access", "volume");
    let mut times_disks = panel("times-disks", "times what seven disks make", "volume");
    for (media, points) in &sweeps {
        for at in points {
            // At most: the text says 4 to 10.
            seeks.add(media.name(), &at.place, at.seeks, told(10.0, DRIVES));
        }
    }
    if let [(_, disks), (_, drives)] = &sweeps[..] {
        for (slow, fast) in disks.iter().zip(drives) {
            let times = fast.mb_s.over(&slow.mb_s);
            times_disks.add("two drives", &fast.place, times, told(7.0, "6 to 8, section VII-A 2"));
        }
    }
    let of = |media: Media| sweeps.iter().find(|sweep| sweep.0 == media).map_or(&[][..], |s| &s.1);
    let (rates, times) = (|media| rates(of(media), media), |media| times(of(media), media));
    let figure = |id, title: &str, media: &[Media], panels| {
        let points = media.iter().flat_map(|media| of(*media));
        let words: Vec<String> = media.iter().map(|media| setting(ask, *media, false)).collect();
        Figure {
            id,
            title: title.into(),
            setting: words.join("; "),
            differs: [&differs[..], &noted(points)].concat(),
            panels,
        }
    };
    use PaperFigure as F;
    let (disks, drives) = (Media::Disks, Media::Drives);
    let mut of_drives = rates(drives);
    of_drives.push(times_disks);
    Ok([
        figure(F::DisksThroughput, "Throughput on seven disks", &[disks], rates(disks)),
        figure(F::DisksResponse, "Response time on seven disks", &[disks], times(disks)),
        figure(F::DrivesThroughput, "Throughput on two drives", &[drives], of_drives),
        figure(F::DrivesResponse, "Response time on two drives", &[drives], times(drives)),
        figure(F::Seeks, "Seeks an access, all I/O included", &[disks, drives], vec![seeks]),
    ])
}

/// Measures figure 10 or 13.
///
/// # Errors
/// By blame.
pub async fn round_trips(ask: &Ask, media: Media) -> Result<Figure> {
    let ask = &ask.lasting(SECONDS, SECONDS / 5.0);
    let bytes = (SIZE * ask.scale_or(1.0)).max(BYTES_MIN);
    let mut points = Vec::new();
    for ms in ROUND_TRIPS_MS {
        let settings = settings(bytes, media.clients(true))?;
        points.push(point(ask, media, settings, (ms.to_string(), ms, true)).await?);
    }
    let below = "ms of a round trip";
    let mut rates = panel("throughput", "MB/s of blocks", below);
    let mut shares = panel("share", "share of the throughput at the shortest", below);
    for at in &points {
        rates.add(media.name(), &at.place, at.mb_s, None);
        // "Almost unaffected until about 1 second of network latency", of disks.
        let paper = told(1.0, DISKS).filter(|_| media == Media::Disks);
        let share = at.mb_s.over(&points[0].mb_s);
        shares.add(media.name(), &at.place, share, paper);
    }
    Ok(Figure {
        id: match media {
            Media::Disks => PaperFigure::DisksRoundTrip,
            Media::Drives => PaperFigure::DrivesRoundTrip,
        },
        title: format!("Throughput on {} by the round trip", media.name()),
        setting: format!("{} of blocks; {}", size(bytes), setting(ask, media, true)),
        differs: noted(points.iter()),
        panels: vec![shares, rates, bandwidth(&points, media, below)],
    })
}

fn rates(points: &[At], media: Media) -> Vec<Panel> {
    let paper = match media {
        Media::Disks => told(0.45, SEVENTH),
        Media::Drives => told(3.15, NODE),
    };
    let mut rates = panel("throughput", "MB/s of blocks", "volume");
    points.iter().for_each(|at| rates.add(media.name(), &at.place, at.mb_s, paper));
    vec![rates, bandwidth(points, media, "volume")]
}

fn times(points: &[At], media: Media) -> Vec<Panel> {
    let paper = match media {
        Media::Disks => told(170.0 + ROUND_TRIP_MS as f64, MIDDLE),
        Media::Drives => told((170.0 + ROUND_TRIP_MS as f64) / 2.0, HALF),
    };
    let mut times = panel("latency", "mean ms", "volume");
    points.iter().for_each(|at| times.add(media.name(), &at.place, at.mean_ms, paper));
    vec![times]
}

fn bandwidth(points: &[At], media: Media, below: &'static str) -> Panel {
    let mut link = panel("bandwidth", "MB/s over the link, both ways", below);
    points.iter().for_each(|at| link.add(media.name(), &at.place, at.link_mb_s, None));
    link
}

fn panel(name: &'static str, measure: &str, below: &'static str) -> Panel {
    Panel::new(name, measure, below, Drawn::Curves)
}

fn told(value: f64, place: &'static str) -> Option<Published> {
    Some(Published { value, place })
}

fn settings(bytes: f64, under_way: usize) -> Result<PartitionSettings> {
    let capacity = (bytes / BLOCK_BYTES as f64) as u32;
    let shape = ImmediateShape { capacity, value_bytes: BLOCK_BYTES };
    let settings = PartitionSettings::new(shape, KEPT_LEVELS)?;
    let settings = settings.with_shell(|shell| {
        shell.under_way_max = under_way;
        shell.quantum = GRID;
    });
    Ok(settings.with_usual_checkpoints())
}

/// All rounds of a point.
async fn point(
    ask: &Ask,
    media: Media,
    settings: PartitionSettings,
    (place, round_trip_ms, is_far): (String, u64, bool),
) -> Result<At> {
    say_error!("{} on {}: {round_trip_ms} ms", place, media.name());
    let layout = settings.layout;
    let site = Site { seed: ask.seed, disks: Some(media.disks()), is_sparse: true };
    let lane = Lane::load(settings.clone(), site).await?;
    let mut lane = lane.reopen(settings).await?;
    let link = Link { round_trip: Duration::from_millis(round_trip_ms), ..Link::instant() };
    let clients = media.clients(is_far);
    let mut rows = Vec::new();
    for _ in 0..ask.rounds {
        rows.push(Row::of(clients, &lane.measure(clients, link, ask.seconds).await?)?);
    }
    lane.close().await?;
    let spread = |value: &dyn Fn(&Row) -> f64| Spread::of(rows.iter().map(value).collect());
    let orders_a_top = layout.cycle() as f64 / 1.25;
    let tops = |row: &Row| row.per_s * row.seconds / (orders_a_top * f64::from(layout.partitions));
    Ok(At {
        place,
        mb_s: spread(&|row| row.per_s * BLOCK_BYTES as f64 / 1e6),
        mean_ms: spread(&|row| row.mean_ms),
        seeks: spread(&|row| row.seeks),
        link_mb_s: spread(&|row| row.per_s * (row.up() + row.down()) / 1e6),
        tops: rows.iter().map(tops).fold(f64::INFINITY, f64::min),
        debt: rows.last().and_then(|row| row.debt).unwrap_or_default(),
    })
}

fn setting(ask: &Ask, media: Media, is_far: bool) -> String {
    let (clients, disks) = (media.clients(is_far), media.disks().words());
    let away = if is_far { String::new() } else { format!(", {ROUND_TRIP_MS} ms away") };
    format!(
        "engine partition, c0 = {KEPT_LEVELS}, blocks of 4 KiB, half of the accesses write, {clients} clients; {disks}\
         {away}; median of {} rounds of {} s after a fifth of that",
        ask.rounds, ask.seconds
    )
}

/// What is not as in the paper.
fn noted<'a>(points: impl Iterator<Item = &'a At>) -> Vec<String> {
    let (mut tops, mut debts) = (Vec::new(), Vec::new());
    for At { place, tops: share, debt: (before, after), .. } in points {
        tops.push(format!("{place} {:.1} %", share * 100.0));
        debts.push(format!("{place} {before} and {after}"));
    }
    vec![
        "sparse volumes: cells that were never written are made on demand".into(),
        "disks are modelled; what the paper's transfer is not told".into(),
        "where the paper's text tells one value, it stands beside every place".into(),
        format!("tops rebuilt in a round, each with its even share: {}", tops.join(", ")),
        format!("orders not carried out before and after: {}", debts.join(", ")),
    ]
}

fn size(bytes: f64) -> String {
    fogbank::plan::size(bytes)
}
