//! Figure 8 of TaoStore's paper, and the same over k: what `bench volume --engine tao` measures, in
//! rounds.

use crate::args::{BenchCommand, PaperFigure};
use fogbank::{Error, Result};
use fogbank_process::say_error;

use super::ask::Ask;
use super::figure::{Drawn, Figure, Panel, Spread};
use super::published::Published;
use crate::bench::typed;
use crate::bench::volume::tao::{OfPaper, Point, Setting, published};
use crate::bench::volume::{Lane, Site};

/// The share of the paper's gigabyte that is usual.
const SCALE: f64 = 0.1;
const PAPER_BYTES: f64 = 1e9;
/// Below, the paper's shares of the tree are no whole levels.
const BYTES_MIN: f64 = 2e6;
const CLIENTS: &str = "1,2,5,10,15";
const PLACE: &str = "TaoStore, Experimental Results";

/// What one point of a sweep came to.
struct Swept {
    clients: usize,
    write_back_every: u32,
    cached_share: f64,
    ops_per_s: Spread,
    latency_ms: Spread,
    path_ms: Spread,
    told: OfPaper,
}

/// Measures figure 8 (a), at both distances.
pub async fn clients(ask: &Ask) -> Result<Figure> {
    let below = "clients";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::CurvesByTens);
    let mut times = Panel::new("latency", "mean ms", below, Drawn::CurvesByTens);
    let mut commands = Vec::new();
    for profile in ["tao-wan", "tao-dc"] {
        let words = words(ask, profile, &["--clients", CLIENTS]);
        for at in sweep(ask, &words).await? {
            let place = at.clients.to_string();
            rates.add(profile, &place, at.ops_per_s, told(at.told.ops_per_s));
            times.add(profile, &place, at.latency_ms, told(at.told.latency_ms));
        }
        commands.push(words);
    }
    Ok(Figure {
        id: PaperFigure::TaoClients,
        title: "Throughput and response time by the number of clients".into(),
        setting: setting(ask, &commands),
        differs: differs(ask),
        panels: vec![rates, times],
    })
}

/// Measures figures 8 (b), (c) and (d): one sweep.
pub async fn caches(ask: &Ask) -> Result<[Figure; 3]> {
    let below = "cached part of the data (%)";
    let panel = |name, measure: &str| Panel::new(name, measure, below, Drawn::Curves);
    let mut paths = panel("path", "ms a path");
    let mut times = panel("latency", "mean ms");
    let mut rates = panel("throughput", "accesses/s");
    let words = words(ask, "tao-cache", &[]);
    for at in sweep(ask, &words).await? {
        let place = format!("{:.1}", at.cached_share * 100.0);
        paths.add("tao-cache", &place, at.path_ms, told(at.told.path_ms));
        times.add("tao-cache", &place, at.latency_ms, told(at.told.latency_ms));
        rates.add("tao-cache", &place, at.ops_per_s, told(at.told.ops_per_s));
    }
    let setting = setting(ask, &[words]);
    let figure = |id, title: &str, panel, own: &[&str]| Figure {
        id,
        title: title.into(),
        setting: setting.clone(),
        differs: differs(ask).into_iter().chain(own.iter().map(|own| (*own).into())).collect(),
        panels: vec![panel],
    };
    let whose = "the paper's cache is its server's memory and spares a disk, ours is the proxy's \
        and spares the link";
    let not_alike =
        "the paper's time is from its server's disk, ours includes the link: the ratio says little";
    Ok([
        figure(PaperFigure::TaoCachePath, "Time to fetch a path", paths, &[whose, not_alike]),
        figure(PaperFigure::TaoCacheResponse, "Response time by the cache", times, &[whose]),
        figure(PaperFigure::TaoCacheThroughput, "Throughput by the cache", rates, &[whose]),
    ])
}

/// Measures the same over k.
pub async fn write_back(ask: &Ask) -> Result<Figure> {
    let below = "k: paths from one write-back to the next";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::Curves);
    let mut times = Panel::new("latency", "mean ms", below, Drawn::Curves);
    let words = words(ask, "tao-k", &[]);
    for at in sweep(ask, &words).await? {
        let place = at.write_back_every.to_string();
        rates.add("tao-k", &place, at.ops_per_s, told(at.told.ops_per_s));
        times.add("tao-k", &place, at.latency_ms, told(at.told.latency_ms));
    }
    Ok(Figure {
        id: PaperFigure::TaoWriteBack,
        title: "Throughput and response time by k".into(),
        setting: setting(ask, &[words]),
        differs: differs(ask),
        panels: vec![rates, times],
    })
}

/// All points of what `words` sweep; those of one loaded store in turns.
async fn sweep(ask: &Ask, words: &[String]) -> Result<Vec<Swept>> {
    say_error!("fogbank bench {}", words.join(" "));
    let args = match typed(words)? {
        BenchCommand::Volume(args) => args,
        _ => return Err(Error::Bug("bench volume is another command".into())),
    };
    let profile = args.profile.ok_or_else(|| Error::Bug("no profile was typed".into()))?;
    let setting = Setting::of(&args, profile)?;
    let mut all = Vec::new();
    for cache in &setting.caches {
        let of_k = |k: &u32| setting.engine(*cache, *k);
        let engines = setting.write_back_every.iter().map(of_k).collect::<Result<Vec<_>>>()?;
        let Some(first) = engines.first() else { continue };
        let mut lane =
            Lane::load(first.clone(), Site { seed: ask.seed, ..Site::default() }).await?;
        for engine in &engines {
            lane = lane.reopen(engine.clone()).await?;
            let mut points: Vec<Vec<Point>> = vec![Vec::new(); setting.clients.len()];
            for _ in 0..ask.rounds {
                for (clients, points) in setting.clients.iter().zip(&mut points) {
                    let measured = lane.measure(*clients, setting.link, ask.seconds).await?;
                    points.push(Point::of("", &setting, (engine, *clients), &measured)?);
                }
            }
            all.extend(points.iter().filter_map(|rounds| Swept::of(&setting, rounds)));
        }
        lane.close().await?;
    }
    Ok(all)
}

impl Swept {
    /// Of the rounds of a point.
    fn of(setting: &Setting, rounds: &[Point]) -> Option<Self> {
        let spread = |value: fn(&Point) -> f64| Spread::of(rounds.iter().map(value).collect());
        let Point { clients, write_back_every, cached_share, .. } = *rounds.first()?;
        Some(Self {
            clients,
            write_back_every,
            cached_share,
            ops_per_s: spread(|point| point.ops_per_s),
            latency_ms: spread(|point| point.latency_ms),
            path_ms: spread(|point| point.path_ms),
            told: published(setting.paper, clients, write_back_every, cached_share),
        })
    }
}

/// What is typed after `bench`.
fn words(ask: &Ask, profile: &str, more: &[&str]) -> Vec<String> {
    let [size, seconds, seed] =
        [format!("{}B", bytes(ask)), ask.seconds.to_string(), ask.seed.to_string()];
    let engine = ["volume", "--engine", "tao", "--profile", profile];
    let words = ["--size", &size, "--seconds", &seconds, "--seed", &seed];
    engine.iter().chain(&words).chain(more).map(|word| (*word).to_owned()).collect()
}

fn bytes(ask: &Ask) -> u64 {
    (PAPER_BYTES * ask.scale_or(SCALE)).max(BYTES_MIN) as u64
}

fn differs(ask: &Ask) -> Vec<String> {
    let bytes = bytes(ask) as f64;
    let smaller = format!("{} MB of blocks instead of {} MB", bytes / 1e6, PAPER_BYTES / 1e6);
    Vec::from_iter((bytes < PAPER_BYTES).then_some(smaller))
}

fn setting(ask: &Ask, commands: &[Vec<String>]) -> String {
    let commands: Vec<String> =
        commands.iter().map(|words| format!("fogbank bench {}", words.join(" "))).collect();
    format!(
        "median of {} rounds of {} s after a fifth of that; {}",
        ask.rounds,
        ask.seconds,
        commands.join("; ")
    )
}

fn told(value: Option<f64>) -> Option<Published> {
    value.map(|value| Published { value, place: PLACE })
}
