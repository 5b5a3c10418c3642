//! Figures 11a and 11b: what checkpoints and all of durability cost, and how long a recovery takes.
//!
//! Throughput is that of two engines in turns: one alone, and one with journal, commits,
//! checkpoints and a register in memory. A recovery is that of a whole proxy that was cut off as
//! far from its last full checkpoint as it gets (`bench recovery`), across the link.

use crate::args::PaperFigure;
use fogbank::Result;
use fogbank_durable::VaultSettings;

use super::ask::{Ask, BATCHES, OBJECTS, Site, lan, wan};
use super::figure::{Drawn, Figure, Panel, Spread};
use super::lane::{Buckets, Lane};
use super::published::{durability, recovery_s};
use crate::bench::recovery::Cut;

/// Epochs from one full checkpoint to the next; one has no deltas.
const FULL_EVERY: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Sizes of figure 11b.
const SIZES: [u32; 3] = [10_000, 100_000, 1_000_000];
/// The share of them that is usual.
const SCALE: f64 = 0.1;

/// Measures figure 11a.
pub async fn checkpoints(ask: &Ask) -> Result<Figure> {
    let objects = ask.objects(OBJECTS, 1.0);
    let config = ask.engine(objects, BATCHES, ask.batch(), ask.writes())?;
    let sites = [lan(), wan()];
    let steps = ask.steps("11a", 2 * FULL_EVERY.len() * sites.len());
    let below = "epochs from one full checkpoint to the next";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::Curves);
    let words = "share of the accesses/s without durability";
    let mut shares = Panel::new("share", words, below, Drawn::Curves);
    let mut alone = Lane::load(&config, Buckets::Buffered, ask).await?;
    for full_every in FULL_EVERY {
        let vault = VaultSettings { full_every, ..config.vault_settings()? };
        let mut durable = Lane::durable(&config, vault, ask).await?;
        for site in &sites {
            let lanes = [&mut alone, &mut durable];
            let [alone, durable] = turns(lanes, site, ask, &steps).await?;
            let (place, share) = (full_every.to_string(), durable.over(&alone));
            rates.add(&format!("durable, {}", site.place()), &place, durable, None);
            rates.add(&format!("alone, {}", site.place()), &place, alone, None);
            shares.add(&site.place(), &place, share, None);
        }
    }
    steps.finish_and_clear();
    Ok(Figure {
        id: PaperFigure::Checkpoints,
        title: "Throughput by how often a full checkpoint is made".into(),
        setting: format!(
            "{}; epochs of {} batches of {} and {} writes; a full checkpoint every so many epochs, \
             deltas at others; register in memory; {}",
            ask.engine_words(&config),
            config.read_batches,
            config.batch,
            config.write_batch,
            ask.rounds_words()
        ),
        differs: ask.engine_differs(&config),
        panels: vec![rates, shares],
    })
}

/// Measures figure 11b.
pub async fn recovery(ask: &Ask) -> Result<Figure> {
    let sizes = SIZES.map(|size| ask.objects(size, SCALE));
    let site = wan();
    let steps = ask.steps("11b", 3 * sizes.len());
    let below = "objects";
    let mut rates = Panel::new("throughput", "accesses/s", below, Drawn::Bars);
    let words = "share of the accesses/s without durability";
    let mut shares = Panel::new("share", words, below, Drawn::Bars);
    let mut seconds = Panel::new("recovery", "seconds of a recovery", below, Drawn::Bars);
    let mut repeated = Panel::new("repeated", "what it repeats", below, Drawn::Bars);
    let mut done = Vec::new();
    for objects in sizes {
        if done.contains(&objects) {
            continue; // --capacity says one size for all
        }
        done.push(objects);
        let shape = ask.engine_shape(objects, BATCHES, ask.batch(), ask.writes());
        let config = ask.engine(objects, BATCHES, ask.batch(), ask.writes())?;
        let mut alone = Lane::load(&config, Buckets::Buffered, ask).await?;
        let mut durable = Lane::durable(&config, config.vault_settings()?, ask).await?;
        let lanes = [&mut alone, &mut durable];
        let [of_alone, of_durable] = turns(lanes, &site, ask, &steps).await?;
        drop((alone, durable)); // their memory is wanted for the proxy
        let place = objects.to_string();
        rates.add("alone", &place, of_alone, None);
        rates.add("durable", &place, of_durable, None);
        shares.add("durable", &place, of_durable.over(&of_alone), durability(objects));
        let (mut took, mut epochs, mut batches) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ask.rounds {
            let cut = Cut { shape: &shape, config: &config, clock: &ask.clock };
            let recovered = cut.recover(site.link.link()?).await?;
            took.push(recovered.seconds);
            epochs.push(recovered.epochs as f64);
            batches.push(recovered.batches as f64);
            steps.inc(1);
        }
        seconds.add("recovery", &place, Spread::of(took), recovery_s(objects));
        repeated.add("epochs", &place, Spread::of(epochs), None);
        repeated.add("batches of the open epoch", &place, Spread::of(batches), None);
    }
    steps.finish_and_clear();
    let config = ask.engine(sizes[0], BATCHES, ask.batch(), ask.writes())?;
    let mut differs = Vec::new();
    if done != SIZES {
        differs.push(format!("{done:?} objects instead of {SIZES:?}"));
    }
    differs.push(
        "a recovery is told as one time: positions, permutations and paths are read together here"
            .into(),
    );
    Ok(Figure {
        id: PaperFigure::Recovery,
        title: "What durability costs, and how long a recovery takes".into(),
        setting: format!(
            "{} ({}); objects of {} B; epochs of {BATCHES} batches of up to {} and {} writes, no \
             more than there are objects; {}",
            site.place(),
            site.profile,
            config.value_size,
            ask.batch(),
            ask.writes(),
            ask.rounds_words()
        ),
        differs,
        panels: vec![shares, rates, seconds, repeated],
    })
}

/// Two engines in turns.
async fn turns(
    mut lanes: [&mut Lane; 2],
    site: &Site,
    ask: &Ask,
    steps: &indicatif::ProgressBar,
) -> Result<[Spread; 2]> {
    let mut rounds: [Vec<f64>; 2] = Default::default();
    for _ in 0..ask.rounds {
        for (lane, rounds) in lanes.iter_mut().zip(&mut rounds) {
            rounds.push(lane.round(&site.link, ask).await?.per_s);
            steps.inc(1);
        }
    }
    Ok(rounds.map(Spread::of))
}
