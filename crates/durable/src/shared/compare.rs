//! A short code of what a client has seen, which two people read to each other.
//!
//! 1. Superblocks are a chain, so the digest of number k as stored stands for the history up to the
//!    start of epoch k - 1, and for all that tables were made of.
//! 2. The code is keyed by the secret of the site: the server, which can make up as many histories
//!    as it likes of what it was sent, cannot look for two with one code.
//! 3. The code of k is told by a client that has itself seen superblock k. What it tells is of the
//!    chain that it has seen, not of what the server shows by now.
//!
//! Two clients with one code at k have one history up to the start of epoch k - 1; with two codes
//! the server has lied to one of them.

use std::sync::Arc;

use super::{Seen, Site, Superblock};
use crate::{Error, Result};

/// What two clients compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// k - 1: the epoch up to the start of which the code tells the history.
    pub epoch: u64,
    /// Letters and digits of which none looks like another.
    pub code: String,
}

/// None looks like another.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Letters of a code, in two groups: 50 bits.
const CODE_LETTERS: usize = 10;

impl Compared {
    /// That of this epoch, or of the newest one that the client has seen.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if the server shows another chain than the client has seen;
    /// [`Error::Ahead`] if the client has not come so far.
    pub async fn of(site: &Arc<Site>, seen: &Seen, at: Option<u64>) -> Result<Self> {
        let number = at.map_or(seen.superblock, |epoch| epoch.saturating_add(1));
        if !(1..=seen.superblock).contains(&number) {
            return Err(Error::Ahead { newest: seen.superblock.saturating_sub(1) });
        }
        let chain = Superblock::newest(site, 1, Some(seen)).await?;
        let newest = chain.first().map_or(number, |(newest, _)| newest.number);
        // Some may come meanwhile.
        let back = newest.saturating_sub(number) + 64;
        let chain = Superblock::newest(site, back, Some(seen)).await?;
        let found = chain.iter().find(|(superblock, _)| superblock.number == number);
        let (_, stored) = found.ok_or_else(|| super::lied("a superblock is hidden"))?;
        let bytes = site.keys().code(number, stored);
        let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        let letter = |at: usize| char::from(LETTERS[(bits >> (5 * at)) as usize % 32]);
        let mut code: String = (0..CODE_LETTERS).map(letter).collect();
        code.insert(CODE_LETTERS / 2, '-');
        Ok(Self { epoch: number - 1, code })
    }
}
