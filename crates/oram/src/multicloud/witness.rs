//! Both clouds as witnesses of how far the journal has gone: an old copy of the whole trusted side
//! is refused, journal and register together.
//!
//! Reads, jobs and what covers them are numbered by the journal. Whoever goes on from a copy of it
//! repeats numbers that both clouds have seen, with other contents under the same covers. The copy
//! itself cannot know: its register is as old as its journal.
//!
//! 1. In every session the client says on which place of its journal a message stands, and the
//!    cloud makes that durable before anything of it leaves (`fogbank_mix::session`).
//! 2. At opening both clouds are asked before anything is put or claimed. The register has to be as
//!    far as the farther of the two: one cloud that says less changes nothing. One that knows
//!    nothing of a volume that has served is another one, or has lost it: then nothing is claimed
//!    either.
//! 3. A session says it again when it is open, so that a copy that ran meanwhile is noticed.
//!
//! The register is bumped before a message leaves, so what a cloud has seen is never beyond the
//! newest register: whoever stopped at any moment is let in.
//!
//! A cloud that says more than is true keeps the volume from being opened, which it can do anyhow.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_durable::{Error, Register, RegisterValue, Result, Suspicion};
use fogbank_env::Nanos;
use fogbank_mix::message::Reached;
use fogbank_mix::session::{MixCloud, Opening, SessionError};
use fogbank_mix::signed::PublicKey;
use fogbank_mix::{Seed, Shape};
use fogbank_seal::StoreId;
use fogbank_store::{DepartureGrid, StoreError};

use super::links::PATIENCE;
use crate::lied;

/// Whoever opens a volume is told after so long that a cloud is waited for.
const SILENCE_NANOS: Nanos = 5_000_000_000;

/// A register that is held against what both clouds have seen, whenever a proxy takes it.
pub struct WitnessedRegister {
    register: Arc<dyn Register>,
    clouds: [Arc<dyn MixCloud>; 2],
    shape: Shape,
    grid: DepartureGrid,
}

impl WitnessedRegister {
    /// This register, of a volume of this shape in these clouds.
    pub fn new(
        register: Arc<dyn Register>,
        clouds: [Arc<dyn MixCloud>; 2],
        shape: Shape,
        grid: DepartureGrid,
    ) -> Self {
        Self { register, clouds, shape, grid }
    }

    async fn seen(&self, cloud: usize, store: StoreId) -> Result<Option<Reached>> {
        let asked = asking(number(store), self.shape);
        let [mut wait, longest, patience] = PATIENCE.map(|time| time.as_nanos() as Nanos);
        let began = self.grid.now();
        let (until, mut tell_at) = (began + patience, Some(began + SILENCE_NANOS));
        loop {
            match self.clouds[cloud].reached(&asked).await {
                Ok(reached) => return Ok(reached),
                Err(SessionError::Absent(why)) if self.grid.now() < until => {
                    if tell_at.take_if(|at| *at <= self.grid.now()).is_some() {
                        let (name, left) = (NAMES[cloud], until - self.grid.now());
                        let left_s = left.div_ceil(1_000_000_000);
                        tracing::warn!("waiting {left_s} s more for the {name} cloud: {why}");
                    }
                    self.grid.come(self.grid.now() + wait).await;
                    wait = (2 * wait).min(longest);
                }
                Err(error) => return Err(blame(cloud, &error)),
            }
        }
    }
}

#[async_trait]
impl Register for WitnessedRegister {
    async fn read(&self) -> Result<Option<RegisterValue>> {
        self.register.read().await
    }

    async fn take(&self) -> Result<Option<RegisterValue>> {
        let known = self.register.take().await?;
        let Some(value) = known.filter(|known| known.sequence > 0) else { return Ok(known) };
        let reached = Reached { epoch: value.epoch, place: value.place };
        let (first, second) = tokio::join!(self.seen(0, value.store), self.seen(1, value.store));
        for (cloud, seen) in [first?, second?].into_iter().enumerate() {
            // With its first checkpoint, or its first entry, it had sessions with both.
            if seen.is_none() && reached > Reached::default() {
                return Err(Error::CloudLied(Suspicion::UnknownTo(NAMES[cloud])));
            }
            let seen = seen.unwrap_or_default();
            if seen > reached {
                let reason = older(reached, cloud, seen);
                return Err(Error::Register { place: self.place(), reason });
            }
        }
        Ok(known)
    }

    async fn write(&self, from: Option<RegisterValue>, to: RegisterValue) -> Result<()> {
        self.register.write(from, to).await
    }

    fn place(&self) -> String {
        self.register.place()
    }
}

/// An opening that opens nothing, and has no secret.
fn asking(volume: u64, shape: Shape) -> Opening {
    Opening { volume, shape, point: Seed::new([0; 32]), other: PublicKey::default(), session: 0 }
}

/// By which both clouds sign: whoever makes a volume notes it. Nothing is changed.
///
/// # Errors
/// Of the cloud that does not say, by name.
pub async fn signers(
    clouds: &[Arc<dyn MixCloud>; 2],
    shape: Shape,
) -> crate::Result<[PublicKey; 2]> {
    let mut keys = [PublicKey::default(); 2];
    for (cloud, key) in keys.iter_mut().enumerate() {
        let told = clouds[cloud].key(&asking(0, shape)).await;
        *key = told.map_err(|error| unsaid(cloud, &error))?;
    }
    Ok(keys)
}

/// By which number the clouds know a volume.
pub fn number(store: StoreId) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&store.0[..8]);
    u64::from_be_bytes(number)
}

/// That a journal ends before what a cloud has seen, and what to do.
pub fn older(reached: Reached, cloud: usize, seen: Reached) -> String {
    format!(
        "the trusted side is older than what the clouds have seen: it ends at {reached}, and the \
         {} cloud has seen messages up to {seen}; going on would show both clouds numbers and \
         covers a second time. Put back the newest copy of the trusted side. If there is none, \
         this volume cannot be opened any more: make a new one of a backup (fogbank restore, \
         docs/backup.md), or of what you keep of its files elsewhere. If you know that this copy \
         is the newest, that cloud does not tell the truth",
        NAMES[cloud]
    )
}

/// What the clouds are called.
pub const NAMES: [&str; 2] = ["first", "second"];
/// The same, where a sentence begins.
pub const CLOUDS: [&str; 2] = ["the first cloud", "the second cloud"];

fn unsaid(cloud: usize, error: &SessionError) -> crate::Error {
    let why = format!("the {} cloud: {error}", NAMES[cloud]);
    match error {
        SessionError::Absent(_) => crate::Error::Absent(why),
        SessionError::Misbehaved(_) => lied(why),
        SessionError::Refused(_) | SessionError::Fenced => crate::Error::Refused(why),
    }
}

fn blame(cloud: usize, error: &SessionError) -> Error {
    let why = format!("the {} cloud: {error}", NAMES[cloud]);
    match error {
        SessionError::Absent(_) => Error::Absent(StoreError::Absent(why)),
        SessionError::Misbehaved(_) => StoreError::Misbehaved(why).into(),
        SessionError::Refused(_) | SessionError::Fenced => Error::Refused(why),
    }
}
