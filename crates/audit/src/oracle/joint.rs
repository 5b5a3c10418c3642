//! Whether a trace goes on where the one before it ended.
//!
//! An opening gets the commit record and the journal, which have to be those that were put last in
//! the traces before. If the cloud shows something older, it has lied, and nothing may follow. If
//! it shows what nobody has put whose trace was given, either that is a forgery, or a trace is
//! missing. What follows tells, as far as anything does: a proxy verifies, so one that goes on has
//! seen a true record, unless it goes on exactly as if it had seen the one that we know.

use std::collections::{HashSet, VecDeque};

use fogbank_store::trace::{Condition, Request, VaultConfig};

use super::blob::{COMMIT, Kept, epoch_prefix, opening_by_bytes};

/// The commit records that were put in the traces so far, the last 2^20 of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Past {
    order: VecDeque<u64>,
    all: HashSet<u64>,
}

impl Past {
    pub fn put(&mut self, kept: Kept) {
        self.order.push_back(kept.fingerprint);
        self.all.insert(kept.fingerprint);
        if self.order.len() > PAST_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    /// What it means that an opening was shown `seen` instead of the record that is there.
    pub fn meet(&self, seen: Option<Kept>) -> Looked {
        match seen {
            Some(kept) if self.all.contains(&kept.fingerprint) => Looked::Lie,
            Some(kept) => Looked::Strange(Stranger::Commit(kept.bytes)),
            None => Looked::Strange(Stranger::NoCommit),
        }
    }
}

/// What a look at the commit record or the journal came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    /// It is what is there. Whether the epoch that was being committed is committed.
    True {
        landed: bool,
    },
    Lie,
    Strange(Stranger),
}

/// What nobody has put whose trace was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stranger {
    /// A commit record of so many bytes.
    Commit(u64),
    /// No commit record where there was one.
    NoCommit,
    /// A journal record where there was none.
    Record,
}

/// Where the traces so far have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub opening: u32,
    /// Epochs committed.
    pub epoch: u64,
    /// Whether the store was closed.
    pub closed: bool,
}

impl Stranger {
    /// Why a trace does not follow the one before, if it goes on with `request` after this. `None`
    /// if it goes on as if it had been shown what is there: then it believed a forgery.
    pub fn gap(self, request: &Request, config: &VaultConfig, ended: Ended) -> Option<String> {
        match self {
            Self::Record => Some(
                "it goes on from a journal record that none before has put; one is missing, or the \
                 end of the one before"
                    .into(),
            ),
            Self::NoCommit => {
                let new = matches!(
                    request,
                    Request::BlobPut { name, condition: Condition::IfAbsent, .. } if name == COMMIT
                );
                new.then(|| "it makes a new store".into())
            }
            Self::Commit(bytes) => {
                let opening = opening_by_bytes(config, bytes)?;
                if opening != ended.opening {
                    let before = ended.opening;
                    return Some(format!(
                        "it begins after opening {opening}, the traces before end in opening \
                         {before}"
                    ));
                }
                let same = match request {
                    Request::BlobGet { name } => name.starts_with(&epoch_prefix(ended.epoch + 1)),
                    _ => ended.closed,
                };
                let words = "it begins later in the same opening than the trace before ends, so \
                             the end of that one is missing";
                (!same).then(|| words.into())
            }
        }
    }
}

/// So many commit records are remembered.
const PAST_MAX: usize = 1 << 20;
