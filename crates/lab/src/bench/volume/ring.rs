//! `ring` beside the others: a disk of epochs (`txn/ticker`), which are as large as the clients
//! fill and follow one another without a grid.

use bytesize::ByteSize;
use fogbank::args::ShapeArgs;
use fogbank::{Error, OpenOptions, Place, Result};
use fogbank_process::say_error;
use fogbank_txn::Ticker;

use super::asked::Asked;
use super::clients::Field;
use super::lane::{Ground, Told};
use super::row::Row;
use fogbank_env::Purpose;
use fogbank_terminal::bar;

/// Measures it with every number of clients.
///
/// # Errors
/// [`Error::Usage`] for a sparse store: it begins with an empty one.
pub async fn measure(asked: &Asked, cache: u64) -> Result<()> {
    if asked.site.is_sparse {
        return Err(Error::Usage("--sparse is not for ring, whose new store is empty".into()));
    }
    let (blocks, value_bytes) = (asked.shape.capacity, asked.shape.value_bytes as u64);
    say_error!("ring: loading {blocks} blocks");
    for clients in &asked.clients {
        // A client has one access under way, so an epoch has at most as many.
        let shape = ShapeArgs {
            capacity: Some(Ticker::capacity_for(blocks)),
            value_size: Some(ByteSize(value_bytes)),
            read_batches: Some(1),
            batch: Some(*clients),
            write_batch: Some(*clients),
            interval_ms: Some(0),
            cache: Some(ByteSize(cache)),
            ..ShapeArgs::default()
        };
        let mut ground = Ground::new(asked.site).await?;
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|e| Error::CannotUse(format!("no folder for a run: {e}")))?;
        let opened = OpenOptions::new(Place::local(folder.path()))
            .shape(shape)
            .clock(ground.clock.clone())
            .repeatable(asked.args.seed)
            .on(ground.near.clone())
            .open()
            .await?;
        let ticker = Ticker::new(opened.proxy(), blocks)?;
        let field = Field::new(ticker, ground.clock.clone(), ground.written.clone());
        let (random, bar) = (ground.random(), bar("loading"));
        field.load(&mut random.stream(Purpose::Workload), *clients, &bar).await?;
        bar.finish_and_clear();
        let told = |_: &Ticker| Told { stats: (), checkpoints: 0, asked_bytes: None, debt: None };
        let run = (*clients, asked.link, asked.args.seconds);
        let measured = ground.measure(&field, run, told).await?;
        asked.say("ring", cache, &Row::of(*clients, &measured)?);
        drop(field);
        opened.close().await?;
    }
    Ok(())
}
