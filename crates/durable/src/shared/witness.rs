//! A witness of what the server of a site shows: a register that all clients share, and that the
//! server cannot touch.
//!
//! 1. The register holds the number and the digest, as stored, of the newest superblock that any
//!    client had. Whoever comes looks there first: the server has to show that superblock.
//! 2. A client touches nothing in an epoch before it has the superblock of it, and holds that
//!    against the register:
//!    - one of the same number has to be the same;
//!    - a register that is behind is told of it. Of two clients that do so at once one is refused,
//!      and looks again;
//!    - if it is ahead, the server has to show the superblocks up to there, each over the last.
//!
//! # Invariant
//! - Clients that have touched something in an epoch have had one superblock of it. It covers the
//!   log up to the epoch before: so in one of two histories that the server shows, clients go on
//!   for less than two epochs.
//!
//! # What the cloud sees
//! Reads of superblocks by those that are behind; that touches of an epoch begin later by as long
//! as the register takes. Both follow from who had a superblock when, and from the register.
//!
//! Sections 6 and 10 of the protocol of `hierarchy`.

use std::sync::Arc;

use async_trait::async_trait;
use fogbank_env::Mutex;
use fogbank_seal::{Digest, StoreId};

use super::{Seen, SeenRegister, Site, Superblock, lied};
use crate::{Error, Register, RegisterValue, Result};

/// What one client has seen, and the witness of all: what the first keeps the second has to know.
pub struct Witnessed {
    seen: Arc<dyn SeenRegister>,
    register: Arc<dyn Register>,
    site: Arc<Site>,
    id: StoreId,
    /// The newest superblock that the register is known to have had.
    newest: Mutex<u64>,
}

/// Superblocks that others put there before that of this client, while it looks.
const OVERTAKEN_MAX: u32 = 100;

fn forked() -> Error {
    lied("its witness has seen another history, or a newer state: forked, or rolled back")
}

impl Witnessed {
    /// The witness of the site `id`, for the client that keeps what it has seen in `seen`.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if the server does not show what the witness has seen;
    /// [`Error::Register`] if there is no asking it.
    pub async fn of(
        seen: Arc<dyn SeenRegister>,
        register: Arc<dyn Register>,
        (site, id): (Arc<Site>, StoreId),
    ) -> Result<Self> {
        let witnessed = Self { seen, register, site, id, newest: Mutex::default() };
        if let Some(held) = witnessed.register.read().await? {
            let (superblock, stored) = witnessed.named(&held)?;
            let (length, digest, epoch_start) = Default::default();
            let there = Seen { superblock, stored, length, digest, epoch_start };
            match Superblock::newest(&witnessed.site, 1, Some(&there)).await {
                Err(Error::CloudLied(_)) => return Err(forked()),
                shown => drop(shown?),
            }
        }
        Ok(witnessed)
    }

    /// The superblock that the register names.
    fn named(&self, held: &RegisterValue) -> Result<(u64, Digest)> {
        if held.store == self.id {
            return Ok((held.sequence, held.commit));
        }
        let reason = "it is another site's".into();
        Err(Error::Register { place: self.register.place(), reason })
    }

    /// Holds a superblock against the register, and has that know it.
    async fn witness(&self, number: u64, stored: Digest) -> Result<()> {
        for _ in 0..OVERTAKEN_MAX {
            let held = self.register.read().await?;
            let named = held.as_ref().map(|held| self.named(held)).transpose()?;
            if let Some((newest, digest)) = named.filter(|(newest, _)| *newest >= number) {
                return self.leads_to((number, stored), (newest, digest)).await;
            }
            let zeros = Digest::default();
            let (store, opening, epoch, place) = (self.id, 0, 0, 0);
            let (sequence, commit, journal) = (number, stored, zeros);
            let to = RegisterValue { store, opening, sequence, commit, epoch, place, journal };
            if self.register.take().await? != held {
                continue;
            }
            match self.register.write(held, to).await {
                Err(Error::Fenced) => {}
                written => return written,
            }
        }
        let reason = "other clients write it all the time".into();
        Err(Error::Register { place: self.register.place(), reason })
    }

    /// Follows superblocks from one that this client has to one that the register names.
    async fn leads_to(&self, from: (u64, Digest), (to, digest): (u64, Digest)) -> Result<()> {
        let (mut number, mut stored) = from;
        while number < to {
            number += 1;
            let next = Superblock::get(&self.site, number).await?;
            let (superblock, next) = next.ok_or_else(forked)?;
            if superblock.previous != stored {
                return Err(forked());
            }
            stored = next;
        }
        if stored == digest { Ok(()) } else { Err(forked()) }
    }
}

#[async_trait]
impl SeenRegister for Witnessed {
    async fn read(&self) -> Result<Option<Seen>> {
        self.seen.read().await
    }

    async fn save(&self, seen: &Seen) -> Result<()> {
        let newest = *self.newest.lock();
        if seen.superblock > newest {
            self.witness(seen.superblock, seen.stored).await?;
            *self.newest.lock() = seen.superblock;
        }
        self.seen.save(seen).await
    }
}
