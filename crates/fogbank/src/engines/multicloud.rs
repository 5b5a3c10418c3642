//! A volume of the engine `multicloud`: two clouds that do not collude shuffle for each other.
//!
//! 1. The first cloud is the store: of the vault it has the commit record alone. Both have cells.
//!    Where the second is stands in `DIR/proxy/second-store`, which the first does not see; by
//!    which both sign, in `DIR/proxy/cloud-keys`, since the volume was made.
//! 2. The journal holds what was written, and numbers that may never repeat. It stays on the
//!    trusted disk, in `DIR/proxy/journal`, and so do checkpoints, which are of no use without it:
//!    whoever loses that disk has no volume any more, unless there is a second place for both
//!    (`second_journal`).
//! 3. What the journal says is done, what was under way is done again; then the engine serves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fogbank_cloud::{Address, MixClient};
use fogbank_durable::ALL_BUT_COMMIT;
use fogbank_env::Clock;
use fogbank_mix::Shape;
use fogbank_mix::session::MixCloud;
use fogbank_mix::signed::PublicKey;
use fogbank_oram::immediate::ShellSettings;
use fogbank_oram::multicloud::{MulticloudEngine, MulticloudSettings, WitnessedRegister, signers};
use fogbank_oram::partition::Layout;
use fogbank_store::{BlobsApart, Store};
use fogbank_tls::Pin;
use serde::{Deserialize, Serialize};

use super::accesses::{KeptApart, Reckoned, Requests};
use super::partition::CHECKPOINT_EVERY;
use super::{NewVolume, VolumeEngine, VolumeOpening, VolumeTail, accesses, decode};
use crate::error::{Error, FROM_A_BACKUP, Result, no_acceptance};
use crate::place::{CLOUD_KEYS, Place, SECOND_STORE, absolute, of_new, of_store};
use crate::plan::lines::Line;
use crate::plan::two_clouds::TwoClouds;
use crate::plan::volume::{VolumePlan, VolumeSite};
use crate::second_journal::SecondJournal;
use crate::volume::{CACHE, CACHE_BYTES, Flow, QUANTUM_US, Volume, VolumeShape};

/// The entry.
pub(super) static ENGINE: VolumeEngine = VolumeEngine {
    name: "multicloud",
    about: "Multi-Cloud Oblivious Storage: two clouds that do not collude shuffle for each other, \
            so your own link carries two and a half blocks an access, whatever the size. Needs \
            --second-store. Every access leaves as it comes, so both see how many there are, and \
            when",
    flags: &[&CACHE, &CHECKPOINT_EVERY, &QUANTUM_US],
    flow: &[],
    has_two_clouds: true,
    no_other_flow: "sends nothing unless it is asked",
    no_record: Some(
        "what a cloud sees has what the other sends it, so a cloud writes it down: start each with \
         fogbank-cloud serve --record DIR",
    ),
    new: |volume| Ok(Arc::new(MulticloudVolume::new(volume)?)),
    decode: decode::<MulticloudVolume>,
};

/// In the folder of the trusted side, beside where the second cloud is: journal and checkpoints.
const JOURNAL: &str = "journal";

/// What the commit record says of it. Public.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MulticloudVolume {
    /// [`FORMAT`].
    format: u16,
    /// P.
    partitions: u32,
    /// L.
    levels: u8,
    /// C.
    top_blocks: u16,
    /// c0.
    kept_levels: u8,
    /// s: dummies of a level for reads while a list of it is out.
    spare: u16,
    /// e: dummies of a level below the top beyond those that its evictions ask for.
    extra: u16,
    /// R: every so many rebuilds of the top one goes through the client.
    refresh_every: u16,
    /// Accesses from one checkpoint to the next.
    checkpoint_every: u64,
    /// Messages leave at multiples of so many microseconds; 0: as soon as they can.
    quantum_us: u64,
    /// Of a new volume: where the second cloud is. Not in the commit record.
    #[serde(skip)]
    second_store: Option<String>,
}

/// Of journal and checkpoints, of where they lie, and of what both clouds keep.
const FORMAT: u16 = 4;

impl MulticloudVolume {
    fn new(volume: &NewVolume<'_>) -> Result<Self> {
        check_both(volume.url, volume.second_store)?;
        let (shape, flags) = (volume.shape.of_accesses(), volume.flags);
        let cache = flags.get(&CACHE).unwrap_or(CACHE_BYTES);
        let usual = MulticloudSettings::with_cache(shape, cache)?;
        let Layout { partitions, levels, top_blocks, kept_levels, .. } = usual.layout;
        Ok(Self {
            format: FORMAT,
            partitions,
            levels,
            top_blocks,
            kept_levels,
            spare: usual.spare,
            extra: usual.extra,
            refresh_every: usual.refresh_every,
            checkpoint_every: flags.get(&CHECKPOINT_EVERY).unwrap_or(usual.checkpoint_every),
            quantum_us: flags.get(&QUANTUM_US).unwrap_or(1000),
            second_store: volume.second_store.map(str::to_owned),
        })
    }

    /// What the engine is made with.
    fn settings(&self, shape: VolumeShape) -> Result<MulticloudSettings> {
        let shape = shape.of_accesses();
        let layout = Layout {
            blocks: shape.capacity,
            partitions: self.partitions,
            levels: self.levels,
            top_blocks: self.top_blocks,
            kept_levels: self.kept_levels,
            segment_cells: u16::MAX,
        };
        layout.check()?;
        let settings = MulticloudSettings {
            spare: self.spare,
            extra: self.extra,
            refresh_every: self.refresh_every,
            checkpoint_every: self.checkpoint_every,
            quantum: Duration::from_micros(self.quantum_us),
            ..MulticloudSettings::of(shape, layout)
        };
        settings.public()?;
        Ok(settings)
    }

    /// Where the second cloud is; noted for a new volume, given or read for another.
    fn second_store(&self, place: &Place) -> Result<String> {
        if let Some(url) = &self.second_store {
            let url = lasting(url);
            note_second(&place.trusted(), &url)?;
            return Ok(url);
        }
        if let Some(url) = &place.second_store {
            return Ok(lasting(url)); // noted when it has turned out to be the one
        }
        noted(
            &place.trusted(),
            SECOND_STORE,
            "this volume lies in two clouds, and this file says where the second one is: say it \
             with --second-store grpc://HOST:PORT/TENANT",
        )
    }

    /// By which both clouds sign: asked and noted for a new volume, read for another.
    async fn signers(
        &self,
        trusted: &Path,
        clouds: &[Arc<dyn MixCloud>; 2],
        shape: Shape,
    ) -> Result<[PublicKey; 2]> {
        let file = trusted.join(CLOUD_KEYS);
        let told = signers(clouds, shape).await;
        if self.second_store.is_some() {
            let keys = told.map_err(|lie| of_new(lie_of(lie)))?;
            let text = keys.map(|key| format!("{}\n", Pin(key))).concat();
            fogbank_env::write_secret(&file, text.as_bytes())
                .map_err(|e| Error::CannotUse(format!("{}: {e}", file.display())))?;
            return Ok(keys);
        }
        // Whoever is absent, or refuses, is waited for, or told, by who opens the volume.
        if let Err(lie @ fogbank_oram::Error::CloudLied(_)) = told {
            return Err(lie_of(lie));
        }
        let advice = format!(
            "it says by which both clouds sign: put back the newest copy of the trusted side, \
             with this file in it; {FROM_A_BACKUP}"
        );
        let noted = noted(trusted, CLOUD_KEYS, &advice)?;
        let mut keys = noted.lines().map(|line| Pin::parse(line).map(|pin| pin.0));
        match (keys.next().flatten(), keys.next().flatten(), keys.next()) {
            (Some(first), Some(second), None) => Ok([first, second]),
            _ => Err(Error::CannotUse(format!("{} is damaged; {advice}", file.display()))),
        }
    }
}

#[async_trait]
impl VolumeTail for MulticloudVolume {
    fn check(&self, shape: VolumeShape) -> Result<()> {
        if self.format != FORMAT {
            return Err(Error::Usage(format!(
                "this volume was made by another version: it has format {}, and this program reads \
                 {FORMAT}; copy its files by the version that made it into a new volume",
                self.format
            )));
        }
        if self.checkpoint_every == 0 {
            return Err(Error::Usage("--checkpoint-every is at least 1".into()));
        }
        self.settings(shape).map(|_| ())
    }

    fn placed(&self, url: &str, second: Option<&str>) -> Result<Option<Arc<dyn VolumeTail>>> {
        check_both(url, second)?;
        let second_store = second.map(str::to_owned);
        Ok(Some(Arc::new(Self { second_store, ..self.clone() })))
    }

    fn traffic(&self, shape: VolumeShape, flow: Flow) -> Result<Vec<Line>> {
        let settings = self.settings(shape)?;
        let seen = "both clouds see how many blocks you ask for, and when";
        Ok(accesses::traffic(settings.traffic()?, settings.storage_bytes_max()?, flow, seen))
    }

    fn plan(&self, shape: VolumeShape, _: Flow, site: &VolumeSite<'_>) -> Result<VolumePlan> {
        let settings = self.settings(shape)?;
        let shell = ShellSettings {
            quantum: settings.quantum,
            under_way_max: settings.at_once()?,
            ..ShellSettings::new(settings.shape)
        };
        let two_clouds = TwoClouds::of(&settings, site.prices, site.second_prices)?;
        let plan = accesses::plan(
            &Reckoned {
                shell: &shell,
                memory: settings.memory()?,
                storage_bytes: settings.storage_bytes_max()?,
                checkpoint_bytes: settings.checkpoint_bytes()?,
                checkpoint_every: settings.checkpoint_every,
                traffic: settings.traffic()?,
                // No object, range or item: servers of our own, inside each cloud.
                requests: Requests { made: (0.0, 0.0), charged: (0.0, 0.0) },
                kept: Some(KeptApart {
                    bytes: settings.trusted_bytes_max()?,
                    journal_bytes: settings.journal_read_bytes()?,
                    written_bytes: settings.trusted_bytes_an_access()?,
                }),
            },
            site,
        );
        // Of what leaves a cloud most goes to the other one.
        Ok(VolumePlan { bill: two_clouds.bill(), two_clouds: Some(two_clouds), ..plan })
    }

    async fn open(&self, opening: VolumeOpening) -> Result<Volume> {
        let mut settings = self.settings(opening.config.shape())?;
        if opening.options.accepts_rollback_risk() {
            return Err(no_acceptance());
        }
        let (place, clock) = (opening.options.place(), opening.sides.clock.clone());
        let (trusted, first) = (place.trusted(), place.store_url());
        let twice = SecondJournal::of(place, JOURNAL, &clock).await?;
        let (second, has_moved) = (self.second_store(place)?, place.second_store.is_some());
        check(&first)?;
        check(&second)?;
        let clouds = [way_to(&first, &second, &clock)?, way_to(&second, &first, &clock)?];
        settings.signers = self.signers(&trusted, &clouds, settings.public()?).await?;
        let journal = trusted.join(JOURNAL);
        let journal = format!("file://{}", absolute(&journal).display());
        let journal = fogbank_store::url::open(&journal, &clock).await;
        let journal = journal.map_err(|e| Error::CannotUse(format!("{JOURNAL}: {e}")))?;
        let both =
            twice.as_ref().map(|twice| twice.journal(journal.clone(), JOURNAL)).transpose()?;
        if let Some(twice) = twice.as_ref().filter(|_| opening.is_new) {
            twice.note_where(&trusted)?;
        }
        let journal = both.clone().map_or(journal, |both| both as Arc<dyn Store>);
        let vault = (settings.vault()?, settings.quantum);
        let (shape, witnesses) = (settings.public()?, clouds.clone());
        let opened = accesses::open_with(
            opening,
            vault,
            |store| Arc::new(BlobsApart::new(store, journal, ALL_BUT_COMMIT)),
            |register, grid| {
                let register = match twice.as_ref().zip(both.clone()) {
                    Some((twice, both)) => twice.register(register, both),
                    None => register,
                };
                Arc::new(WitnessedRegister::new(register, witnesses, shape, grid))
            },
            |parts| Box::pin(MulticloudEngine::open(settings, parts, clouds)),
        );
        let volume = opened.await.map_err(|error| {
            let error = of_journal(error, &trusted);
            twice.iter().fold(error, |error, twice| twice.advised(error, &trusted))
        })?;
        if has_moved {
            note_second(&trusted, &second)?;
        }
        if let Some((twice, both)) = twice.zip(both) {
            // Whatever was needed of the first place has been read.
            both.settle().await.map_err(fogbank_durable::Error::from)?;
            twice.note(&trusted)?;
        }
        Ok(volume)
    }
}

/// The same URL, as it holds in whatever folder the next command is run.
fn lasting(url: &str) -> String {
    match Address::parse(url) {
        Ok(Address { place, tenant, credentials: Some(file) }) => {
            let file = absolute(&file);
            format!("{}{place}/{tenant}?credentials={}", fogbank_cloud::SCHEME, file.display())
        }
        _ => url.to_owned(),
    }
}

fn note_second(trusted: &Path, url: &str) -> Result<()> {
    let file = trusted.join(SECOND_STORE);
    fogbank_env::write_secret(&file, url.as_bytes())
        .map_err(|e| Error::CannotUse(format!("{}: {e}", file.display())))
}

/// What a file of the trusted side says; if it is missing, what to do.
fn noted(trusted: &Path, name: &str, advice: &str) -> Result<String> {
    let file = trusted.join(name);
    let noted = std::fs::read_to_string(&file).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::CannotUse(format!("{} is missing; {advice}", file.display()))
        }
        _ => Error::CannotUse(format!("{}: {e}", file.display())),
    })?;
    Ok(noted.trim().to_owned())
}

/// A lie before anything was read: no cell is to be put back.
fn lie_of(error: fogbank_oram::Error) -> Error {
    match error {
        fogbank_oram::Error::CloudLied(what) => Error::CloudLied(what.to_string()),
        error => error.into(),
    }
}

/// What is wrong with the journal or a checkpoint is not the cloud's doing: they lie on the trusted
/// disk.
fn of_journal(error: Error, trusted: &Path) -> Error {
    let is_ours = |why: &str| ALL_BUT_COMMIT.iter().any(|prefix| why.contains(prefix));
    match error {
        Error::CloudLied(why) if is_ours(&why) => Error::CannotUse(format!(
            "what {} holds is not what this volume wrote last; put back the newest copy of the \
             trusted side, for an older one could not go on unseen; {FROM_A_BACKUP} ({})",
            trusted.join(JOURNAL).display(),
            why.split(';').next().unwrap_or(&why) // what follows is for who has lost a store
        )),
        error => error,
    }
}

/// The cloud at `url`, as one that mixes with the `other`.
fn way_to(url: &str, other: &str, clock: &Arc<dyn Clock>) -> Result<Arc<dyn MixCloud>> {
    Ok(Arc::new(MixClient::open(url, other, clock).map_err(of_store)?))
}

/// Refuses what are no two clouds, if the second is known.
fn check_both(url: &str, second: Option<&str>) -> Result<()> {
    let Some(second) = second else { return Ok(()) };
    check(url)?;
    check(second)?;
    MixClient::check(url, second).map_err(of_store)
}

/// Refuses a cloud that only stores.
fn check(url: &str) -> Result<()> {
    if !url.starts_with(fogbank_cloud::SCHEME) {
        return Err(Error::Usage(format!(
            "{url:?} cannot do what the engine {} asks of a cloud; give two fogbank-cloud servers \
             at providers that do not work together, as grpc://HOST:PORT/TENANT",
            ENGINE.name
        )));
    }
    Ok(())
}
