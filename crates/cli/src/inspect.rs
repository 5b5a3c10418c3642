//! `fogbank inspect`: what is at a store or a volume, without opening it. Nothing is changed and no
//! secret shown. Of a volume in two clouds it looks at the first, which has the commit record.

use std::sync::Arc;

use bytesize::ByteSize;
use fogbank::args::InspectArgs;
use fogbank::config::StoreConfig;
use fogbank::registers::RegisterPlace;
use fogbank::volume::{Flow, VolumeConfig, is_of_volume};
use fogbank::{Error, Place, Result, counted};
use fogbank_durable::{Inspected, State};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_process::say;
use fogbank_store::{ArrayId, Store};
use serde_json::{Value, json};

/// Looks at the store and tells what is there.
///
/// # Errors
/// [`Error::Usage`] if there is none; if the trusted side is there, too, what it says of the
/// record.
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
    let store = place.open_store(&clock).await?;
    let found = look(&*store, &place, &clock).await?;
    let shape = match is_of_volume(&found.config) {
        true => Shape::Volume(VolumeConfig::decode(&found.config)?),
        false => Shape::keys(&*store, StoreConfig::decode(&found.config)?).await?,
    };
    let held = Held::of(&*store).await?;
    let url = place.store_url();
    let told = Told { url: &url, found: &found, shape, held };
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

/// What it is, and what only one of the two has.
enum Shape {
    /// Keys and values, in a tree of which so many buckets are there.
    Keys { config: Box<StoreConfig>, buckets: usize },
    /// A disk.
    Volume(VolumeConfig),
}

impl Shape {
    async fn keys(store: &dyn Store, config: StoreConfig) -> Result<Self> {
        let settings = config.ring_settings();
        let array = ArrayId(settings.array.into());
        let shape = settings.geometry()?.array_shape();
        store.expect_array(array, shape).map_err(absent)?;
        let buckets = store.list_chunks(array).await.map_err(absent)?.len();
        Ok(Self::Keys { config: Box::new(config), buckets })
    }
}

/// Blobs of the store, by what they are for.
struct Held {
    pieces: usize,
    deltas: usize,
    journal: usize,
}

impl Held {
    async fn of(store: &dyn Store) -> Result<Self> {
        let count = async |prefix: &str| {
            Ok::<_, Error>(store.blob_list(prefix).await.map_err(absent)?.len())
        };
        Ok(Self {
            pieces: count("checkpoint/").await?,
            deltas: count("delta/").await?,
            journal: count("journal/").await?,
        })
    }
}

fn absent(error: fogbank_store::StoreError) -> Error {
    Error::from(fogbank_durable::Error::from(error))
}

struct Told<'a> {
    url: &'a str,
    found: &'a Inspected,
    shape: Shape,
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
        let (found, held) = (self.found, &self.held);
        say!("store         {}", self.url);
        say!("  id          {}", self.id());
        say!("  state       {}", self.state());
        let openings = counted(found.openings, "opening", "openings");
        say!("  commits     {} ({openings})", found.sequence);
        match found.verified {
            Some(standing) => say!(
                "  verified    newest state by key and register: epoch {}, full checkpoint of \
                 epoch {} in {}",
                standing.epoch,
                standing.full_epoch,
                counted(standing.full_pieces, "piece", "pieces")
            ),
            None => {
                say!("  verified    no: without the trusted side this is what the cloud claims")
            }
        }
        let blobs = [
            counted(held.pieces, "checkpoint piece", "checkpoint pieces"),
            counted(held.deltas, "delta", "deltas"),
            counted(held.journal, "journal record", "journal records"),
        ]
        .join(", ");
        let (config, buckets) = match &self.shape {
            Shape::Keys { config, buckets } => (config, *buckets),
            Shape::Volume(config) => {
                say!("  shape       a disk of {}, engine {}", config.size(), config.engine().name);
                for (what, said) in config.traffic(Flow::default()).into_iter().flatten() {
                    say!("  {what:<11} {said}");
                }
                say!("  held        {blobs}");
                return;
            }
        };
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
            "  held        {} ({}), {blobs}",
            counted(buckets, "bucket", "buckets"),
            size(bucket_bytes(config, buckets)),
        );
    }

    fn json(&self) -> Value {
        let (found, held) = (self.found, &self.held);
        // As it stands in the commit record.
        let config: Value = serde_json::from_slice(&found.config).unwrap_or_default();
        let mut told = json!({
            "url": self.url,
            "id": self.id(),
            "state": format!("{:?}", found.state).to_lowercase(),
            "sequence": found.sequence,
            "openings": found.openings,
            "verified": found.verified.is_some(),
            "epoch": found.verified.map(|standing| standing.epoch),
            "full_epoch": found.verified.map(|standing| standing.full_epoch),
            "full_pieces": found.verified.map(|standing| standing.full_pieces),
            "config": config,
            "checkpoint_pieces": held.pieces,
            "deltas": held.deltas,
            "journal_records": held.journal,
            "commit_record_bytes": found.record_bytes,
        });
        if let Shape::Keys { config, buckets } = &self.shape {
            told["epoch_ms"] = config.epoch_ms().into();
            told["buckets"] = (*buckets).into();
            told["bucket_bytes"] = bucket_bytes(config, *buckets).into();
        }
        told
    }
}

fn bucket_bytes(config: &StoreConfig, buckets: usize) -> u64 {
    let bytes = config.geometry().map_or(0, |geometry| geometry.chunk_bytes());
    buckets as u64 * bytes as u64
}

fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}
