//! Entries and results as they are sealed: each of one length, whatever it says.
//!
//! ```text
//! entry    8 turn | seal of: 8 seen | 32 its digest | 1 kind | 4 address | 4 offset | 4 length
//!          | bytes to be written, padded to a block
//! result   seal of: 32 digest of the log with the entry | a block
//! ```
//! A turn stands in the clear, so that the server can keep a session's entries in order, and is
//! bound. Section 3 of the protocol (module).

use bytes::Bytes;
use fogbank_durable::shared::Site;
use fogbank_seal::{HEADER_BYTES, Sealer, TAG_BYTES};

use super::canary::Canary;
use super::entry::{Entry, Found, Says};
use crate::{Access, Error, Result, lied};

/// Of an entry without a query, by what it says.
const KIND_NONE: u8 = u8::MAX;
const KIND_LAST: u8 = u8::MAX - 1;
const KIND_MOVES: u8 = u8::MAX - 2;
const KIND_STAYS: u8 = u8::MAX - 3;
const TURN_BYTES: usize = 8;
const DIGEST_BYTES: usize = 32;
const HEAD_BYTES: usize = 8 + DIGEST_BYTES + 1 + 4 + 4 + 4;

/// Bytes of an entry and of a result, as they are stored.
pub fn stored_bytes(block_bytes: usize) -> [usize; 2] {
    let sealed = HEADER_BYTES + block_bytes + TAG_BYTES;
    [TURN_BYTES + HEAD_BYTES + sealed, DIGEST_BYTES + sealed]
}

/// An entry as it is appended.
///
/// # Errors
/// Those of a seal.
pub fn seal_entry(site: &Site, entry: &Entry, block_bytes: usize) -> Result<Bytes> {
    let (kind, address, offset, halves) = match &entry.query {
        Some((address, access)) => {
            let (kind, offset, halves) = access.journalled();
            (kind, *address, offset, halves)
        }
        None => (kind_of(entry.says), 0, 0, [&[][..], &[]]),
    };
    let mut plain = Vec::with_capacity(HEAD_BYTES + block_bytes);
    plain.extend_from_slice(&entry.seen.to_le_bytes());
    plain.extend_from_slice(&entry.seen_digest);
    plain.push(kind);
    let length = halves.iter().map(|half| half.len()).sum::<usize>() as u32;
    for number in [address, offset, length] {
        plain.extend_from_slice(&number.to_le_bytes());
    }
    halves.iter().for_each(|half| plain.extend_from_slice(half));
    plain.resize(HEAD_BYTES + block_bytes, 0);
    let turn = entry.turn.to_le_bytes();
    Ok([&turn[..], &site.seal(&entry_bound(&turn), &plain)?].concat().into())
}

/// The entry that is stored so.
///
/// # Errors
/// [`Error::CloudLied`] if nobody sealed it who has the key.
pub async fn open_entry(site: &Site, stored: &[u8], block_bytes: usize) -> Result<Entry> {
    let (turn, sealed) =
        stored.split_first_chunk::<TURN_BYTES>().ok_or_else(|| lied("an entry is too short"))?;
    let session = Sealer::of(sealed).map_err(|_| lied("an entry has no sealer"))?.session;
    let plain = Bytes::from(site.open(&entry_bound(turn), sealed).await?);
    let parsed = parse(&plain, block_bytes);
    let (seen, seen_digest, query, kind) = parsed.ok_or_else(|| strange("an entry"))?;
    let says = said_by(kind).unwrap_or_default();
    let builds = site.is_builder(session).await?;
    let turn = u64::from_le_bytes(*turn);
    Ok(Entry { session, turn, seen, seen_digest, query, says, builds })
}

fn kind_of(says: Says) -> u8 {
    match says {
        Says::Nothing => KIND_NONE,
        Says::Leaves => KIND_LAST,
        Says::Moves => KIND_MOVES,
        Says::Stays => KIND_STAYS,
    }
}

/// What an entry without a query says; `None` of a kind that has one.
fn said_by(kind: u8) -> Option<Says> {
    let all = [Says::Nothing, Says::Leaves, Says::Moves, Says::Stays];
    all.into_iter().find(|says| kind_of(*says) == kind)
}

type Parsed = (u64, [u8; DIGEST_BYTES], Option<(u32, Access)>, u8);

fn parse(plain: &Bytes, block_bytes: usize) -> Option<Parsed> {
    if plain.len() != HEAD_BYTES + block_bytes {
        return None;
    }
    let (seen, rest) = plain.split_first_chunk()?;
    let (digest, rest) = rest.split_first_chunk()?;
    let (kind, rest) = rest.split_first()?;
    let (address, rest) = rest.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let (length, bytes) = rest.split_first_chunk()?;
    let bytes = bytes.get(..u32::from_le_bytes(*length) as usize)?;
    let query = match *kind {
        kind if said_by(kind).is_some() => None,
        kind => {
            let journalled = (kind, u32::from_le_bytes(*offset), plain.slice_ref(bytes));
            let access = Access::from_journal(journalled, block_bytes)?;
            Some((u32::from_le_bytes(*address), access))
        }
    };
    Some((u64::from_le_bytes(*seen), *digest, query, *kind))
}

/// A result as it is published.
///
/// # Errors
/// Those of a seal.
pub fn seal_result(site: &Site, found: &Found, canary: &Canary) -> Result<Bytes> {
    let plain = [&found.digest[..], &found.base].concat();
    let sealer = match canary.seals_by_place() {
        true => Sealer { session: site.session(), tick: found.place },
        false => site.take(1)?,
    };
    Ok(site.own().seal(sealer, &result_bound(found.place), &plain).into())
}

/// What was published of a place.
///
/// # Errors
/// [`Error::CloudLied`] if nobody sealed it for this place who has the key.
pub async fn open_result(
    site: &Site,
    place: u64,
    stored: &[u8],
    block_bytes: usize,
) -> Result<Found> {
    let plain = Bytes::from(site.open(&result_bound(place), stored).await?);
    match plain.first_chunk::<DIGEST_BYTES>() {
        Some(digest) if plain.len() == DIGEST_BYTES + block_bytes => {
            Ok(Found { place, digest: *digest, base: plain.slice(DIGEST_BYTES..) })
        }
        _ => Err(strange("a result")),
    }
}

fn entry_bound(turn: &[u8; TURN_BYTES]) -> Vec<u8> {
    [&b"entry\0"[..], turn].concat()
}

fn result_bound(place: u64) -> Vec<u8> {
    [&b"result\0"[..], &place.to_le_bytes()].concat()
}

/// It was sealed by somebody who has the key.
fn strange(what: &str) -> Error {
    Error::Bug(format!("{what} of another version of this program"))
}
