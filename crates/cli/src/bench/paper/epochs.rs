//! Figures 10d and 10e: what it gains to hold buckets back until the end of an epoch, and to have longer epochs.

use fogbank::Result;
use fogbank::args::PaperFigure;
use fogbank::config::StoreConfig;

use super::ask::{Ask, BATCHES, OBJECTS, sites, sites_words};
use super::figure::{Drawn, Figure, Panel, Spread};
use super::lane::{Buckets, Lane};
use super::published::cells_an_access;

/// Batches of an epoch, as far as there are so many objects.
const LENGTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Measures figure 10d: both engines at once, in turns.
pub async fn buffering(ask: &Ask) -> Result<Figure> {
    let objects = ask.objects(OBJECTS, 1.0);
    let config = ask.engine(objects, BATCHES, ask.batch(), ask.writes())?;
    let steps = ask.steps("10d", 2 * sites().len());
    let mut lanes = [
        Lane::load(&config, Buckets::Buffered, ask).await?,
        Lane::load(&config, Buckets::WrittenThrough, ask).await?,
    ];
    let below = "store";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::Bars);
    let words = "times the accesses/s without buffering";
    let mut gains = Panel::new("gain", words, below, Drawn::Bars);
    for site in sites() {
        let mut rounds: [Vec<f64>; 2] = Default::default();
        for _ in 0..ask.rounds {
            for (lane, rounds) in lanes.iter_mut().zip(&mut rounds) {
                rounds.push(lane.round(&site.link, ask).await?.per_s);
                steps.inc(1);
            }
        }
        let [with, without] = rounds.map(Spread::of);
        rates.add("written once an epoch", site.place(), with, None);
        rates.add("written whenever they change", site.place(), without, None);
        gains.add("written once an epoch", site.place(), with.over(&without), site.told.buffering);
    }
    steps.finish_and_clear();
    let mut differs = ask.engine_differs(&config);
    differs.push(
        "without buffering ours waits for each eviction to be written; the paper's writes in parallel, as far as \
         buckets allow, so more is gained here"
            .into(),
    );
    Ok(Figure {
        id: PaperFigure::Buffering,
        title: "Buckets held back until the end of an epoch".into(),
        setting: setting(ask, &config),
        differs,
        panels: vec![rates, gains],
    })
}

/// Measures figure 10e: one engine after the other, each at all distances.
pub async fn lengths(ask: &Ask) -> Result<Figure> {
    let objects = ask.objects(OBJECTS, 1.0);
    let fits = |batches: &&usize| **batches * ask.batch() <= objects as usize;
    let lengths: Vec<usize> = LENGTHS.iter().filter(fits).copied().collect();
    let lengths = if lengths.is_empty() { vec![1] } else { lengths };
    let steps = ask.steps("10e", lengths.len() * sites().len());
    let below = "batches of an epoch";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::CurvesByTens);
    let mut cells = Panel::new("cells", "cells an access", below, Drawn::Curves);
    for batches in &lengths {
        let config = ask.engine(objects, *batches, ask.batch(), ask.writes())?;
        let mut lane = Lane::load(&config, Buckets::Buffered, ask).await?;
        let mut per_s: [Vec<f64>; 4] = Default::default();
        let mut moved = Vec::new();
        for _ in 0..ask.rounds {
            for (site, per_s) in sites().iter().zip(&mut per_s) {
                let round = lane.round(&site.link, ask).await?;
                per_s.push(round.per_s);
                moved.push(round.cells);
                steps.inc(1);
            }
        }
        for (site, per_s) in sites().iter().zip(per_s) {
            rates.add(&site.place(), batches.to_string(), Spread::of(per_s), None);
        }
        let told = cells_an_access(*batches);
        cells.add("read and written", batches.to_string(), Spread::of(moved), told);
    }
    steps.finish_and_clear();
    let config = ask.engine(objects, BATCHES, ask.batch(), ask.writes())?;
    let mut differs = ask.engine_differs(&config);
    if lengths.len() < LENGTHS.len() {
        let longest = lengths.last().copied().unwrap_or(1);
        differs
            .push(format!("no epochs of more than {longest} batches: there are {objects} objects"));
    }
    Ok(Figure {
        id: PaperFigure::EpochSize,
        title: "Throughput and work by the batches of an epoch".into(),
        setting: setting(ask, &config),
        differs,
        panels: vec![rates, cells],
    })
}

fn setting(ask: &Ask, config: &StoreConfig) -> String {
    format!(
        "{}; batches of {}, {} writes an epoch; {}; {}",
        ask.engine_words(config),
        config.batch,
        config.write_batch,
        sites_words(),
        ask.rounds_words()
    )
}
