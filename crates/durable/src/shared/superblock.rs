//! Superblocks: a chain, one an epoch, by which everybody knows which tables count.
//!
//! 1. Number k is put when the results of all epochs up to k - 2, and the tables that queries of
//!    epoch k touch first, are there.
//! 2. It has the digest of the history before epoch k - 1, that of the superblock before it as
//!    stored, and those of the manifests of the tables.
//! 3. Touches of epoch k wait for it.
//!
//! Section 3 of the protocol of `hierarchy`.

use std::sync::Arc;

use fogbank_seal::{Digest, Mark};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::names::Object;
use super::session::{Site, first_absent};
use super::{Seen, lied};
use crate::section::{SectionReader, SectionWriter};
use crate::{Error, Result};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// k, from 1.
    pub number: u64,
    /// Of the history before the first place of epoch k - 1.
    pub history: Digest,
    /// Whether a client had said in that history that it moves the site, and none after it that
    /// it stays.
    pub has_moved: bool,
    /// Of superblock k - 1 as stored; of the header for the first.
    pub previous: Digest,
    /// Of the manifests, as stored, of the tables that epoch k touches first, newest first; and of
    /// the image that the site started from, as long as it is touched.
    pub manifests: Vec<Digest>,
}

/// In the count of manifests: the site has moved. So superblocks are as long as they were, and read
/// as they were.
const HAS_MOVED: u32 = 1 << 31;
/// Superblocks of a chain that are asked for at once.
const ASKED_AT_ONCE: usize = 64;

impl Superblock {
    /// The first one of a site.
    pub(super) fn first(site: &Site, manifests: Vec<Digest>) -> Self {
        let header = site.header();
        Self { number: 1, history: header, has_moved: false, previous: header, manifests }
    }

    /// As it is sealed.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = SectionWriter::default();
        let has_moved = if self.has_moved { HAS_MOVED } else { 0 };
        let count = self.manifests.len() as u32 | has_moved;
        w.u64(self.number).raw(&self.history).raw(&self.previous).u32(count);
        self.manifests.iter().for_each(|digest| _ = w.raw(digest));
        w.0
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = SectionReader(bytes);
        let (number, history, previous) = (r.u64()?, r.digest()?, r.digest()?);
        let count = r.u32()?;
        let (has_moved, count) = (count & HAS_MOVED != 0, count & !HAS_MOVED);
        let manifests = (0..count).map(|_| r.digest()).collect::<Result<_>>()?;
        let of_other = || Error::Bug("a superblock is too long".into());
        let superblock = Self { number, history, has_moved, previous, manifests };
        if r.is_empty() { Ok(superblock) } else { Err(of_other()) }
    }

    /// Superblock `number` and its digest as stored, if it is there.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if it is another.
    pub async fn get(site: &Site, number: u64) -> Result<Option<(Self, Digest)>> {
        let found = site.get(Object::Superblock(number), &Mark::default()).await?;
        let Some((plain, stored)) = found else { return Ok(None) };
        let superblock = Self::decode(&plain)?;
        if superblock.number != number {
            return Err(lied("a superblock stands under another's name"));
        }
        Ok(Some((superblock, stored)))
    }

    /// Puts it, unless another has put the same. Returns its digest as stored, and whether it did.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if there is another one.
    pub async fn put(&self, site: &Site) -> Result<(Digest, bool)> {
        let mark = Mark::default();
        let object = Object::Superblock(self.number);
        if let Some(stored) = site.stored(object, &mark, &self.encode()).await? {
            return Ok((stored, true));
        }
        let found = Self::get(site, self.number).await?;
        let (found, stored) = found.ok_or_else(|| lied("a superblock has gone"))?;
        if found != *self {
            return Err(lied("a superblock is of another history"));
        }
        Ok((stored, false))
    }

    /// The newest superblock with those before it, newest first and `at_least` of them if there
    /// are, with their digests as stored; further back as far as `seen` needs, if it is given.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if they are no chain, or not the one of which `seen` has the end.
    pub async fn newest(
        site: &Arc<Site>,
        at_least: u64,
        seen: Option<&Seen>,
    ) -> Result<Vec<(Self, Digest)>> {
        let of = |number| Object::Superblock(number + 1);
        let newest = first_absent(site.store(), of).await?;
        if newest == 0 && seen.is_none() {
            return Err(Error::NoStore);
        }
        if seen.is_some_and(|seen| seen.superblock > newest) {
            return Err(lied("the site is older than what this client has seen: rolled back"));
        }
        let known = seen.map_or(newest, |seen| seen.superblock);
        let oldest = known.min(newest.saturating_sub(at_least - 1)).max(1);
        let chain = stream::iter((oldest..=newest).rev())
            .map(|number| async move {
                let found = Self::get(site, number).await?;
                found.ok_or_else(|| lied("a superblock is hidden"))
            })
            .buffered(ASKED_AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        for pair in chain.windows(2) {
            let [(later, _), (_, stored)] = pair else { continue };
            if later.previous != *stored {
                return Err(lied("superblocks are of two histories"));
            }
        }
        if let Some(seen) = seen {
            let of_mine = chain.iter().find(|(found, _)| found.number == seen.superblock);
            let is_mine = of_mine.is_some_and(|(_, stored)| *stored == seen.stored);
            if !is_mine {
                return Err(lied("the site has another history than this client has seen"));
            }
        }
        Ok(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_is_as_long_whether_the_site_has_moved() {
        let of = |has_moved| Superblock {
            number: 3,
            history: [1; 32],
            has_moved,
            previous: [2; 32],
            manifests: vec![[3; 32], [4; 32]],
        };
        for has_moved in [false, true] {
            assert_eq!(Superblock::decode(&of(has_moved).encode()).unwrap(), of(has_moved));
        }
        assert_eq!(of(true).encode().len(), of(false).encode().len());
    }
}
