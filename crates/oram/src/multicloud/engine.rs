//! The engine as it is held: what is submitted goes to the task that serves.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::{Mutex, Nanos};
use fogbank_mix::session::{MixCloud, Opening};
use fogbank_store::DepartureGrid;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::journal::{self, Entry};
use super::links::{Link, OfLink};
use super::plane::MulticloudPlane;
use super::serving::{Event, Events, Fault, Limits, Serving, State};
use super::settings::MulticloudSettings;
use crate::immediate::Parts;
use crate::immediate::arrival::Arrival;
use crate::{Access, Address, Error, ImmediateEngine, ImmediateShape, Result, Ticket};

/// The engine. See the module `multicloud` for the protocol.
pub struct MulticloudEngine {
    shape: ImmediateShape,
    grid: DepartureGrid,
    events: Events,
    fault: Arc<watch::Sender<Option<Error>>>,
    serving: Mutex<Option<JoinHandle<Result<()>>>>,
}

/// Entries of an access: itself, and its result.
const ENTRIES: u64 = 2;

impl MulticloudEngine {
    /// Takes a volume on: the state is that of the last checkpoint and the journal, what was under
    /// way is done again, and accesses are served from then on. The vault's journal has to be the
    /// one that this volume wrote: numbers of reads and jobs continue in it.
    ///
    /// # Errors
    /// As for an access; [`Error::Caller`] for settings of another volume.
    pub async fn open(
        settings: MulticloudSettings,
        parts: Parts<'_>,
        clouds: [Arc<dyn MixCloud>; 2],
    ) -> Result<Self> {
        let Parts { vault, recovered, random, grid, progress, .. } = parts;
        let (shape, of) = (settings.public()?, settings.shape);
        // 1. What is known of the volume.
        let ring = vault.keys();
        let (opening, keys) = (ring.current().0, Arc::new(ring.split()));
        let mut entries = Vec::new();
        for (at, record) in recovered.journal.iter().enumerate() {
            for entry in journal::entries(record)? {
                entries.push(Entry::decode(entry, &shape, of.capacity, of.value_bytes)?);
            }
            progress(at + 1, recovered.journal.len());
        }
        let was_midway = !entries.is_empty();
        let saved = (&recovered.full[..], opening);
        let plane = MulticloudPlane::recover(settings.clone(), (keys, random), saved, entries)?;
        // 2. Sessions. When both are open all that is under way is done again.
        let (told, events) = mpsc::unbounded_channel();
        let mut number = [0; 8];
        number.copy_from_slice(&ring.store().0[..8]);
        let link = |cloud: usize| {
            let told: Events = told.clone();
            let opening = Opening {
                volume: u64::from_be_bytes(number),
                shape,
                point: plane.point(cloud as u8),
                session: u64::from(opening) << 32,
            };
            let told = move |at: Nanos, what: OfLink| {
                let _it_has_ended = told.send((at, Event::Link(cloud, what)));
            };
            Link::new(clouds[cloud].clone(), opening, grid.clone(), Arc::new(told))
        };
        let links = [link(0), link(1)];
        let fault = Arc::new(watch::Sender::new(None));
        let limits = Limits {
            under_way_max: settings.under_way_max,
            entries_max: ENTRIES * settings.checkpoint_every,
            record_bytes_max: settings.record_bytes_max()?,
        };
        let mut state = State::default();
        if was_midway {
            state.since_cut = limits.entries_max; // so the journal does not grow on
        }
        let mut serving = Serving {
            plane,
            vault,
            grid: grid.clone(),
            links,
            told: told.clone(),
            events,
            fault: Fault(fault.clone()),
            shape,
            limits,
            state,
        };
        serving.begin().await?;
        let serving = Mutex::new(Some(tokio::spawn(serving.run())));
        Ok(Self { shape: of, grid, events: told, fault, serving })
    }

    fn reason(&self) -> Error {
        let fault = self.fault.borrow().clone();
        fault.unwrap_or_else(|| Error::Caller("the engine is closed".into()))
    }
}

#[async_trait]
impl ImmediateEngine for MulticloudEngine {
    fn shape(&self) -> ImmediateShape {
        self.shape
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        let (reply, ticket) = Ticket::new();
        let at = self.grid.now();
        let checked = self.shape.check(address, &access);
        let arrival = Arrival { at, address, access, reply: Some(reply) };
        if let Err(error) = checked {
            arrival.refuse(&error);
        } else if let Err(refused) = self.events.send((at, Event::Arrives(arrival)))
            && let Event::Arrives(arrival) = refused.0.1
        {
            arrival.refuse(&self.reason());
        }
        ticket
    }

    async fn close(&self) -> Result<()> {
        let serving = self.serving.lock().take().ok_or_else(|| self.reason())?;
        let _it_has_ended = self.events.send((self.grid.now(), Event::Closes));
        serving.await.unwrap_or_else(|_| Err(Error::Bug("the engine ended midway".into())))
    }

    async fn stopped(&self) -> Error {
        let stopped = self.fault.subscribe().wait_for(Option::is_some).await.is_ok();
        debug_assert!(stopped, "its sender is here");
        self.reason()
    }
}

impl Drop for MulticloudEngine {
    fn drop(&mut self) {
        // As if it were killed: nothing leaves any more.
        self.serving.lock().take().into_iter().for_each(|serving| serving.abort());
    }
}
