//! The engine as it is held: what is submitted goes to the task that serves.

use std::sync::Arc;

use fogbank_durable::Vault;
use fogbank_env::{Nanos, compute};
use fogbank_mix::Shape;
use fogbank_mix::session::{MixCloud, Opening};
use fogbank_store::DepartureGrid;

use super::canary::Canary;
use super::departing::Departing;
use super::journal::{self, Entry};
use super::links::{Link, OfLink};
use super::plane::MulticloudPlane;
use super::serving::{Event, Limits, Serving, State, gone};
use super::settings::{MulticloudSettings, RECORDS_AT_ONCE};
use super::waiting::{Looks, patience};
use super::walking::Walking;
use super::witness;
use crate::immediate::Parts;
use crate::immediate::entrance::{Entered, Entrance, Fault};
use crate::immediate::events::Events;
use crate::{ImmediateShape, Result};

/// The engine. See the module `multicloud` for the protocol.
pub struct MulticloudEngine(Entrance<(Nanos, Event)>);

/// Entries of an access: itself, and its result.
const ENTRIES: u64 = 2;
/// A commit record has fewer bytes: it grows by what each opening leaves.
const COMMIT_BYTES_MAX: u64 = 1 << 20;
/// How long the trusted disk may take to keep a checkpoint, and to forget what it supersedes,
/// beside a time for its bytes.
const CLOSING_NANOS: Nanos = 300_000_000_000;
const CLOSING_NANOS_PER_BYTE: Nanos = 1_000;

impl MulticloudEngine {
    /// Takes a volume on: the state is that of the last checkpoint and the journal, of which a few
    /// records are in memory at once; what was under way is done again, and accesses are served
    /// from then on. The vault's journal has to be the one that this volume wrote: numbers of reads
    /// and jobs continue in it.
    ///
    /// # Errors
    /// As for an access; [`Error::Caller`] for settings of another volume.
    pub async fn open(
        settings: MulticloudSettings,
        parts: Parts<'_>,
        clouds: [Arc<dyn MixCloud>; 2],
    ) -> Result<Self> {
        Self::open_with(Canary::default(), settings, parts, clouds).await
    }

    /// The same, leaking what `canary` says.
    ///
    /// # Errors
    /// As [`MulticloudEngine::open`].
    #[cfg(feature = "canaries")]
    pub async fn open_leaking(
        canary: Canary,
        settings: MulticloudSettings,
        parts: Parts<'_>,
        clouds: [Arc<dyn MixCloud>; 2],
    ) -> Result<Self> {
        Self::open_with(canary, settings, parts, clouds).await
    }

    async fn open_with(
        canary: Canary,
        settings: MulticloudSettings,
        parts: Parts<'_>,
        clouds: [Arc<dyn MixCloud>; 2],
    ) -> Result<Self> {
        let Parts { vault, recovered, random, grid, progress, .. } = parts;
        let (shape, of) = (settings.public()?, settings.shape);
        let ring = vault.keys();
        let (opening, keys) = (ring.current().0, Arc::new(ring.split()));
        let (records, saved) = (recovered.records, (recovered.full, opening));
        let mut plane = MulticloudPlane::recover(canary, settings.clone(), (keys, random), saved)?;
        let (mut journal, mut replayed) = (vault.journalled(), 0);
        while let Some(record) = journal.next().await? {
            replayed += 1;
            progress(replayed, records as usize);
            compute(|| replay(&mut plane, &record, &shape, of))?;
        }
        Self::begin(plane, records, (vault, grid), clouds).await
    }

    /// Takes a new volume on as if it were full, and an [imagined](super::Imagined) one: what both
    /// clouds have has to be that of these settings and of the vault's keys.
    ///
    /// # Errors
    /// As [`MulticloudEngine::open`].
    pub async fn imagined(
        settings: MulticloudSettings,
        parts: Parts<'_>,
        clouds: [Arc<dyn MixCloud>; 2],
    ) -> Result<Self> {
        let Parts { vault, random, grid, .. } = parts;
        let keys = Arc::new(vault.keys().split());
        let plane = compute(|| MulticloudPlane::imagined(settings, keys, random))?;
        Self::begin(plane, 0, (vault, grid), clouds).await
    }

    /// Opens sessions, behind so many records of the journal. When both are open all that is under
    /// way is done again.
    pub(super) async fn begin(
        plane: MulticloudPlane,
        records: u64,
        (vault, grid): (Vault, DepartureGrid),
        clouds: [Arc<dyn MixCloud>; 2],
    ) -> Result<Self> {
        let (settings, shape) = (plane.settings.clone(), plane.public());
        let (ring, of) = (vault.keys(), settings.shape);
        let opening = ring.current().0;
        let (tells, events) = Events::new(&grid);
        let link = |cloud: usize| {
            let tells = tells.clone();
            let opening = Opening {
                volume: witness::number(ring.store()),
                shape,
                point: plane.point(cloud as u8),
                other: settings.signers[1 - cloud],
                session: u64::from(opening) << 32,
            };
            let told = move |what: OfLink| {
                let _it_has_ended = tells.tell(Event::Link(cloud, what));
            };
            let of = (clouds[cloud].clone(), settings.signers[cloud]);
            Link::new(witness::CLOUDS[cloud], of, opening, grid.clone(), Arc::new(told))
        };
        let links = [link(0), link(1)];
        let fault = Arc::<Fault>::default();
        let limits = Limits {
            under_way_max: settings.at_once()?,
            entries_max: ENTRIES * settings.checkpoint_every,
            commit_nanos: patience(COMMIT_BYTES_MAX),
            closing_nanos: CLOSING_NANOS + settings.checkpoint_bytes()? * CLOSING_NANOS_PER_BYTE,
        };
        let since_cut = if records > 0 { limits.entries_max } else { 0 }; // it does not grow on
        let state = State { since_cut, ..State::default() };
        let (records, bytes) = (RECORDS_AT_ONCE as usize, settings.record_bytes_max()?);
        let departing = Departing::new(shape, records, bytes);
        let looks = Looks::new(&shape, grid.now());
        let of_chains = tells.clone();
        let walking = Walking::usual(Arc::new(move |found| {
            of_chains.tell(Event::Uncovered(found)).map_err(|_| gone())
        }));
        let mut serving = Serving {
            plane,
            vault,
            grid,
            links,
            tells: tells.clone(),
            events,
            fault: fault.clone(),
            departing,
            limits,
            looks,
            walking,
            state,
        };
        serving.begin().await?;
        Ok(Self(tells.entrance(of, fault, tokio::spawn(serving.run()))))
    }
}

/// Takes what a record says.
fn replay(
    plane: &mut MulticloudPlane,
    record: &[u8],
    shape: &Shape,
    of: ImmediateShape,
) -> Result<()> {
    let mut entries = journal::entries(record)?.into_iter();
    entries.try_for_each(|entry| {
        plane.replay(Entry::decode(entry, shape, of.capacity, of.value_bytes)?)
    })
}

impl Entered for MulticloudEngine {
    type Told = (Nanos, Event);

    fn entrance(&self) -> &Entrance<Self::Told> {
        &self.0
    }
}
