//! Commit records: what each says, as far as it is public.

use crate::oracle::blob::Kept;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Claim,
    Epoch,
    /// Of an engine that cuts: a checkpoint up to this place of the journal, which goes on.
    Adopt(u32),
    Close,
}

/// What a commit record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub opening: u32,
    pub sequence: u64,
    pub epoch: u64,
    /// Opening and number of the newest full checkpoint, and the epoch it ended.
    pub full: Option<(u32, u64)>,
    pub full_epoch: u64,
    /// Opening and epoch of the deltas since, oldest first.
    pub deltas: Vec<(u32, u64)>,
    /// The place at which the journal of the open epoch starts.
    pub start: u32,
    /// The place from which the last commit superseded records: up to `start`; if that is 0, of the
    /// journal of `epoch` to its end.
    pub superseded_from: u32,
    pub put: Put,
    pub kept: Kept,
}

impl Record {
    /// What `put` puts behind `before`; `full` if with a full checkpoint.
    pub fn following(before: Option<&Self>, put: Put, full: bool, kept: Kept) -> Self {
        let first = || Self {
            opening: 0,
            sequence: 0,
            epoch: 0,
            full: None,
            full_epoch: 0,
            deltas: Vec::new(),
            start: 0,
            superseded_from: 0,
            put,
            kept,
        };
        let mut record = before.cloned().unwrap_or_else(first);
        record.sequence += 1;
        (record.put, record.kept) = (put, kept);
        match put {
            Put::Claim => {
                record.opening += 1;
                return record;
            }
            Put::Adopt(start) => {
                (record.superseded_from, record.start) = (record.start, start);
            }
            Put::Epoch | Put::Close => {
                (record.superseded_from, record.start) = (record.start, 0);
                record.epoch += 1;
            }
        }
        if full {
            record.full = Some((record.opening, record.sequence));
            record.full_epoch = record.epoch;
            record.deltas.clear();
        } else {
            record.deltas.push((record.opening, record.epoch));
        }
        record
    }
}
