//! Requests under way, and what their replies have to be.
//!
//! Whatever was written is remembered by its fingerprints, so a reply that differs is known for a
//! lie the moment it arrives. Where fingerprints cannot tell, because cells came combined, a store
//! that lies may say so itself by a mark.

use fogbank_store::trace::{ChunkSeen, Outcome};

use super::blob::Kept;
use super::epochs::Lane;
use super::fault::{Step, fault};

/// What kind of reply a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Nothing.
    Done,
    /// So many cells, as their fingerprints say.
    Cells,
    /// So many combined cells.
    Combined(usize),
    /// The commit record.
    Commit,
    /// A piece of a checkpoint.
    Piece(Option<Kept>),
    /// Whether a blob was put.
    Put,
    /// A count of blobs.
    List,
    /// A count of chunk versions.
    Chunks,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Waiting {
    pub id: u64,
    pub expected: Expected,
    /// Fingerprints of the cells of the reply, 0 where they are not known.
    pub prints: Vec<u64>,
    /// What it is a part of that may be under way in several messages.
    pub lane: Option<Lane>,
    /// The blob that it puts, where a failure may be looked into.
    pub put: Option<String>,
}

/// What a reply came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Sound,
    /// The reply of a get of the commit record.
    Looked(Option<Kept>),
    Put(bool),
    Listed(u64),
    Lie,
    Failed,
    /// Nobody waits for it any more.
    Abandoned,
}

impl Waiting {
    /// Holds the end of the request against what it has to be.
    pub fn judge(&self, outcome: &Outcome, cell_bytes: u32) -> Step<Reply> {
        let is_sound = |sound| if sound { Reply::Sound } else { Reply::Lie };
        Ok(match (self.expected, outcome) {
            (_, Outcome::Failed(_)) => Reply::Failed,
            (_, Outcome::Abandoned) => Reply::Abandoned,
            (Expected::Done, Outcome::Done) => Reply::Sound,
            (Expected::Cells, Outcome::Cells(cells)) => {
                is_sound(are_cells(&self.prints, cells, cell_bytes))
            }
            (Expected::Combined(paths), Outcome::Cells(cells)) => {
                let whole = |cell: &Option<ChunkSeen>| {
                    cell.as_ref().is_some_and(|seen| seen.bytes == u64::from(cell_bytes))
                };
                is_sound(cells.len() == paths && cells.iter().all(whole))
            }
            (Expected::Commit, Outcome::Blob(blob)) => Reply::Looked(kept(blob.as_ref())),
            (Expected::Piece(piece), Outcome::Blob(blob)) => {
                is_sound(piece.is_none() || piece == kept(blob.as_ref()))
            }
            (Expected::Put, Outcome::Put(done)) => Reply::Put(*done),
            (Expected::List, Outcome::BlobsListed(names)) => Reply::Listed(*names),
            (Expected::Chunks, Outcome::Listed(versions)) => Reply::Listed(*versions),
            (expected, outcome) => {
                return fault("reply-fits", format!("{expected:?}"), format!("{outcome:?}"));
            }
        })
    }
}

fn are_cells(prints: &[u64], cells: &[Option<ChunkSeen>], cell_bytes: u32) -> bool {
    let is = |(print, cell): (&u64, &Option<ChunkSeen>)| {
        cell.as_ref().is_some_and(|seen| {
            let known = seen.fingerprints.first().filter(|_| *print != 0);
            seen.bytes == u64::from(cell_bytes) && known.is_none_or(|seen| seen == print)
        })
    };
    cells.len() == prints.len() && prints.iter().zip(cells).all(is)
}

fn kept(blob: Option<&ChunkSeen>) -> Option<Kept> {
    let fingerprint = |seen: &ChunkSeen| seen.fingerprints.first().copied().unwrap_or_default();
    blob.map(|seen| Kept { bytes: seen.bytes, fingerprint: fingerprint(seen) })
}
