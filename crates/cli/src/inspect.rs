//! `fogbank inspect`: what is at a store, without opening it. Nothing is changed and no secret shown.

use std::sync::Arc;

use bytesize::ByteSize;
use fogbank::args::InspectArgs;
use fogbank::config::StoreConfig;
use fogbank::registers::RegisterPlace;
use fogbank::{Error, Place, Result, counted, open_store};
use fogbank_durable::{Inspected, State};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_process::say;
use fogbank_store::{ArrayId, Store};
use serde_json::json;

/// Looks at the store and tells what is there.
///
/// # Errors
/// [`Error::Usage`] if there is none; if the trusted side is there, too, what it says of the record.
pub async fn run(args: InspectArgs) -> Result<()> {
    let place = Place::from(&args.place);
    let cloud = place.data.join("cloud");
    place.check_cloud_side()?;
    if place.store.is_none() && !cloud.exists() {
        return Err(Error::Usage(format!(
            "there is no {}; say where the store is with --data or --store",
            cloud.display()
        )));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = open_store(&place.store_url(), &clock).await?;
    let found = look(&*store, &place, &clock).await?;
    let config = StoreConfig::decode(&found.config)?;
    let held = held(&*store, &config).await?;
    let url = place.store_url();
    let told = Told { url: &url, found: &found, config: &config, held };
    if args.json {
        say!("{}", told.json())
    } else {
        told.print()
    }
    Ok(())
}

/// With key and register if they are there.
async fn look(store: &dyn Store, place: &Place, clock: &Arc<dyn Clock>) -> Result<Inspected> {
    let key = place.trusted().join("key");
    if !key.exists() {
        return Ok(fogbank_durable::inspect(store, None).await?);
    }
    let random = Randomness::repeatable(0); // nothing is drawn by reading
    let mut unused = random.stream(Purpose::MasterKey);
    let master = fogbank_seal::load_or_create(&key, &mut unused, false)
        .map_err(|e| Error::CannotUse(e.to_string()))?;
    let register = RegisterPlace::of(place)?.register(&master, &random, clock)?;
    Ok(fogbank_durable::inspect(store, Some((&*register, &master))).await?)
}

/// Objects of the store, by what they are for.
struct Held {
    buckets: usize,
    pieces: usize,
    deltas: usize,
    journal: usize,
}

async fn held(store: &dyn Store, config: &StoreConfig) -> Result<Held> {
    let settings = config.ring_settings();
    let array = ArrayId(settings.array.into());
    let shape = settings.geometry()?.array_shape();
    store.expect_array(array, shape).map_err(absent)?;
    let count =
        async |prefix: &str| Ok::<_, Error>(store.blob_list(prefix).await.map_err(absent)?.len());
    Ok(Held {
        buckets: store.list_chunks(array).await.map_err(absent)?.len(),
        pieces: count("checkpoint/").await?,
        deltas: count("delta/").await?,
        journal: count("journal/").await?,
    })
}

fn absent(error: fogbank_store::StoreError) -> Error {
    Error::from(fogbank_durable::Error::from(error))
}

struct Told<'a> {
    url: &'a str,
    found: &'a Inspected,
    config: &'a StoreConfig,
    held: Held,
}

impl Told<'_> {
    fn id(&self) -> String {
        self.found.store.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn state(&self) -> &'static str {
        match self.found.state {
            State::Claimed => {
                "claimed by a proxy that has committed no epoch yet: the next opening recovers it"
            }
            State::Running => "in use, or left without being closed: the next opening recovers it",
            State::Closed => "closed",
        }
    }

    fn print(&self) {
        let (found, config, held) = (self.found, self.config, &self.held);
        let size = |bytes: u64| ByteSize::b(bytes).display().iec().to_string();
        say!("store         {}", self.url);
        say!("  id          {}", self.id());
        say!("  state       {}", self.state());
        let openings = counted(found.openings, "opening", "openings");
        say!("  commits     {} ({openings})", found.sequence);
        match found.verified {
            Some(standing) => say!(
                "  verified    newest state by key and register: epoch {}, full checkpoint of epoch \
                 {} in {}",
                standing.epoch,
                standing.full_epoch,
                counted(standing.full_pieces, "piece", "pieces")
            ),
            None => {
                say!("  verified    no: without the trusted side this is what the cloud claims")
            }
        }
        say!(
            "  shape       {} records of {}, {}",
            config.capacity,
            size(config.value_size as u64),
            config.epochs()
        );
        say!(
            "  tree        Z {}, S {}, A {}, leaf level {}; cells of {}",
            config.bucket_reals,
            config.bucket_dummies,
            config.evict_every,
            config.leaf_level,
            size(config.cell_bytes() as u64)
        );
        say!(
            "  held        {} ({}), {}, {}, {}",
            counted(held.buckets, "bucket", "buckets"),
            size(self.bucket_bytes()),
            counted(held.pieces, "checkpoint piece", "checkpoint pieces"),
            counted(held.deltas, "delta", "deltas"),
            counted(held.journal, "journal record", "journal records")
        );
    }

    fn bucket_bytes(&self) -> u64 {
        let bytes = self.config.geometry().map_or(0, |geometry| geometry.chunk_bytes());
        self.held.buckets as u64 * bytes as u64
    }

    fn json(&self) -> serde_json::Value {
        let (found, held) = (self.found, &self.held);
        json!({
            "url": self.url,
            "id": self.id(),
            "state": format!("{:?}", found.state).to_lowercase(),
            "sequence": found.sequence,
            "openings": found.openings,
            "verified": found.verified.is_some(),
            "epoch": found.verified.map(|standing| standing.epoch),
            "full_epoch": found.verified.map(|standing| standing.full_epoch),
            "full_pieces": found.verified.map(|standing| standing.full_pieces),
            "config": self.config,
            "epoch_ms": self.config.epoch_ms(),
            "buckets": held.buckets,
            "bucket_bytes": self.bucket_bytes(),
            "checkpoint_pieces": held.pieces,
            "deltas": held.deltas,
            "journal_records": held.journal,
            "commit_record_bytes": found.record_bytes,
        })
    }
}
