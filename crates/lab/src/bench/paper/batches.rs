//! Figures 10b and 10c: throughput of the parallel engine, and the time of a batch, by the size of
//! a batch.
//!
//! An epoch is one batch of reads, so that little else helps: buckets are held back until the end
//! of the batch, where the paper's engine of these figures holds none back. Engines of one size
//! after the other are loaded; each is measured at all distances.

use crate::args::PaperFigure;
use fogbank::Result;

use super::ask::{Ask, OBJECTS, sites, sites_words};
use super::figure::{Drawn, Figure, Panel, Spread};
use super::lane::{Buckets, Lane, Round};

/// Sizes of a batch, as far as there are so many objects.
const SIZES: [usize; 6] = [1, 10, 100, 500, 1_000, 2_000];

/// Measures both figures.
pub async fn figures(ask: &Ask) -> Result<[Figure; 2]> {
    let objects = ask.objects(OBJECTS, 1.0);
    let (sizes, too_large): (Vec<usize>, Vec<usize>) =
        SIZES.iter().partition(|size| **size <= objects as usize);
    let steps = ask.steps("10b, 10c", sizes.len() * sites().len());
    let mut rounds: Vec<(usize, [Vec<Round>; 4])> = Vec::new();
    for size in sizes {
        let config = ask.engine(objects, 1, size, 0)?;
        let mut lane = Lane::load(&config, Buckets::Buffered, ask).await?;
        let mut at: [Vec<Round>; 4] = Default::default();
        for _ in 0..ask.rounds {
            for (site, rounds) in sites().iter().zip(&mut at) {
                rounds.push(lane.round(&site.link, ask).await?);
                steps.inc(1);
            }
        }
        rounds.push((size, at));
    }
    steps.finish_and_clear();
    let below = "reads of a batch";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::CurvesByTens);
    let mut times = Panel::new("latency", "ms a batch", below, Drawn::CurvesByTens);
    for (i, site) in sites().into_iter().enumerate() {
        let spread = |value: fn(&Round) -> f64| {
            let of = move |(size, at): &(usize, [Vec<Round>; 4])| {
                (*size, Spread::of(at[i].iter().map(value).collect()))
            };
            rounds.iter().map(of).collect::<Vec<_>>()
        };
        let per_s = spread(|round| round.per_s);
        // What the paper tells is its highest point, so it stands beside ours.
        let most = per_s.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median));
        let most = most.map_or(0, |most| most.0);
        for (size, ours) in per_s {
            let told = site.told.most.filter(|_| size == most);
            rates.add(&site.place(), size.to_string(), ours, told);
        }
        for (size, ours) in spread(|round| round.epoch_ms) {
            times.add(&site.place(), size.to_string(), ours, None);
        }
    }
    let config = ask.engine(objects, 1, 1, 0)?;
    let setting = format!(
        "{}; reads alone, a batch an epoch; {}; {}",
        ask.engine_words(&config),
        sites_words(),
        ask.rounds_words()
    );
    let mut differs = ask.engine_differs(&config);
    differs
        .push("the paper's engine holds no bucket back, ours does until the end of a batch".into());
    if (ask.shape.batch, ask.shape.write_batch) != (None, None) {
        differs.push("--batch and --write-batch are not used here: this figure has batches of all sizes and no writes".into());
    }
    if !too_large.is_empty() {
        differs.push(format!("no batches of {too_large:?}: there are {objects} objects"));
    }
    let figure = |id, title: &str, panel| Figure {
        id,
        title: title.into(),
        setting: setting.clone(),
        differs: differs.clone(),
        panels: vec![panel],
    };
    Ok([
        figure(PaperFigure::BatchThroughput, "Throughput by the size of a batch", rates),
        figure(PaperFigure::BatchLatency, "Time of a batch by its size", times),
    ])
}
