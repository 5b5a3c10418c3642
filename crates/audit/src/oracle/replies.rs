//! Requests under way, and what their replies have to be.
//!
//! Whatever was written is remembered by its fingerprints, so a reply that differs is known for a
//! lie the moment it arrives. Where fingerprints cannot tell, because cells came combined, a store
//! that lies may say so itself by a mark.

use fogbank_store::trace::{ChunkSeen, Outcome};

use super::blob::Kept;
use super::fault::{Step, fault};

/// The fingerprint of a cell that nobody has written.
pub(super) const NOT_WRITTEN: u64 = u64::MAX;

/// What kind of reply a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Nothing.
    Done,
    /// So many cells, as their fingerprints say.
    Cells,
    /// So many combined cells.
    Combined(usize),
    /// Whole chunks, each of so many bytes, with cells as their fingerprints say.
    Buckets(u64),
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
#[derive(Debug, Clone)]
pub(super) struct Waiting<L> {
    pub id: u64,
    pub expected: Expected,
    /// Fingerprints of the cells of the reply, 0 where they are not known.
    pub prints: Vec<u64>,
    /// What it is a part of.
    pub lane: L,
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

impl<L> Waiting<L> {
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
            (Expected::Buckets(bytes), Outcome::Chunks(chunks)) => {
                is_sound(are_buckets(&self.prints, chunks, bytes))
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
    let is = |(print, cell): (&u64, &Option<ChunkSeen>)| match *print {
        NOT_WRITTEN => cell.is_none(),
        _ => cell.as_ref().is_some_and(|seen| {
            let known = seen.fingerprints.first().filter(|_| *print != 0);
            seen.bytes == u64::from(cell_bytes) && known.is_none_or(|seen| seen == print)
        }),
    };
    cells.len() == prints.len() && prints.iter().zip(cells).all(is)
}

/// Fingerprints may be left out of a trace's replies.
fn are_buckets(prints: &[u64], chunks: &[Option<ChunkSeen>], bytes: u64) -> bool {
    let cells = prints.len() / chunks.len().max(1);
    let is = |(due, seen): (&u64, &u64)| *due == 0 || due == seen;
    let sound = |(due, chunk): (&[u64], &Option<ChunkSeen>)| {
        chunk.as_ref().is_some_and(|seen| {
            let told = seen.fingerprints.len() == cells;
            seen.bytes == bytes && (!told || due.iter().zip(&seen.fingerprints).all(is))
        })
    };
    prints.chunks(cells.max(1)).zip(chunks).all(sound)
}

fn kept(blob: Option<&ChunkSeen>) -> Option<Kept> {
    let fingerprint = |seen: &ChunkSeen| seen.fingerprints.first().copied().unwrap_or_default();
    blob.map(|seen| Kept { bytes: seen.bytes, fingerprint: fingerprint(seen) })
}
