//! Commit records: what each says, as far as it is public.

use super::Place;
use crate::oracle::blob::Kept;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Claim,
    Epoch,
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
    /// Of an engine that cuts: records of the journal of `epoch` that the checkpoint does not hold.
    pub tail: Vec<(u32, Place)>,
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
            tail: Vec::new(),
            put,
            kept,
        };
        let mut record = before.cloned().unwrap_or_else(first);
        record.sequence += 1;
        (record.put, record.kept) = (put, kept);
        match put {
            Put::Claim => record.opening += 1,
            Put::Epoch | Put::Close => {
                record.epoch += 1;
                record.tail.clear();
                if full {
                    record.full = Some((record.opening, record.sequence));
                    record.full_epoch = record.epoch;
                    record.deltas.clear();
                } else {
                    record.deltas.push((record.opening, record.epoch));
                }
            }
        }
        record
    }
}
