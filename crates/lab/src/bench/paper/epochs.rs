//! Figures 10d and 10e: what it gains to hold buckets back until the end of an epoch, and to have
//! longer epochs.

use crate::args::PaperFigure;
use fogbank::Result;
use fogbank::config::StoreConfig;
use fogbank::link::LinkArgs;

use super::ask::{Ask, BATCHES, OBJECTS, sites, sites_words};
use super::figure::{Drawn, Figure, Panel, Spread};
use super::lane::{Buckets, Lane};
use super::published::{CELLS_WRITTEN_THROUGH, cells_an_access};

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
        "without buffering ours waits for each eviction to be written; the paper's writes in \
         parallel, as far as buckets allow, so more is gained here"
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
    let steps = ask.steps("10e", lengths.len() * sites().len() + 1);
    let mut written = Vec::new();
    let below = "batches of an epoch";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::CurvesByTens);
    let mut cells = Panel::new("cells", "cells an access", below, Drawn::Curves);
    for batches in &lengths {
        let config = ask.engine(objects, *batches, ask.batch(), ask.writes())?;
        written.push(share_of_writes(&config));
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
        cells.add("written once an epoch", batches.to_string(), Spread::of(moved), told);
    }
    // How far the store is does not change what is moved.
    let reads = ask.engine(objects, 1, ask.batch(), 0)?;
    let mut lane = Lane::load(&reads, Buckets::WrittenThrough, ask).await?;
    let mut moved = Vec::new();
    for _ in 0..ask.rounds {
        moved.push(lane.round(&LinkArgs::default(), ask).await?.cells);
        steps.inc(1);
    }
    let name = "written whenever they change, reads alone";
    cells.add(name, "1", Spread::of(moved), CELLS_WRITTEN_THROUGH);
    steps.finish_and_clear();
    let config = ask.engine(objects, BATCHES, ask.batch(), ask.writes())?;
    let mut differs = ask.engine_differs(&config);
    if let ([first, .., last], Some(longest)) = (&written[..], lengths.last()) {
        differs.push(format!(
            "each epoch ends with its writes, however long it is: {first:.0} % of its accesses \
             with one batch, {last:.0} % with {longest}; a write reads no path"
        ));
    }
    differs.push(
        "41 cells an access, which the paper tells of one batch, are moved where nothing is held \
         back and nothing written, so they stand beside ours of that"
            .into(),
    );
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

/// How many of a hundred accesses of an epoch are writes.
fn share_of_writes(config: &StoreConfig) -> f64 {
    let (reads, writes) = (config.read_batches * config.batch, config.write_batch);
    100.0 * writes as f64 / (reads + writes).max(1) as f64
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
