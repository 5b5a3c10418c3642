//! What the plane has given out, on its way: entries into the journal, and out what stands behind
//! them.
//!
//! 1. *Waiting*: what has no record yet, in its order. When fewer than W records are under way one
//!    takes all entries that wait, up to a length.
//! 2. *Recorded*: records land in any order and count in theirs. What stands behind the entries of
//!    one may leave when it counts.
//! 3. *Leaving*: at the next point of the grid, in the order in which it was given out.
//!
//! # Invariants
//! - Nothing leaves before an entry that was given out before it is durable.
//! - When the sessions are open that what is under way is repeated in, no message of before is
//!   sent: it would speak of what a cloud has forgotten.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_durable::{PutRecord, Vault};
use fogbank_mix::Shape;
use fogbank_mix::session::ToCloud;
use tokio::task::JoinSet;

use super::journal;
use super::plane::Effect;
use crate::immediate::entrance::Fault;
use crate::immediate::records::Records;
use crate::{Error, Result, of_task};

/// What leaves.
pub enum Leaving {
    /// To the first (0) or the second (1) cloud.
    Message(usize, ToCloud),
    /// To whoever has asked.
    Answer(u64, Bytes),
}

impl Leaving {
    /// What an effect lets leave; nothing if it does so to nobody.
    fn of(effect: Effect) -> Option<Self> {
        Some(match effect {
            Effect::Holder(partition, message) => {
                Self::Message(usize::from(partition % 2), ToCloud::Holder(message))
            }
            Effect::Shuffler(partition, message) => {
                Self::Message(usize::from(1 - partition % 2), ToCloud::Shuffler(message))
            }
            Effect::Answer(number, value) => Self::Answer(number, value),
            Effect::Journal(_) | Effect::Uncover(_) => return None,
        })
    }
}

/// See the module.
pub struct Departing {
    shape: Shape,
    /// Of a record.
    bytes_max: usize,
    /// W.
    records_max: usize,
    /// Wait for a record, and what stands behind them.
    entries: Vec<Vec<u8>>,
    behind: Vec<Leaving>,
    records: Records<Vec<Leaving>>,
    leaves: Vec<Leaving>,
}

impl Departing {
    /// Nothing, of a volume of this shape: so many records at once, of so many bytes each.
    pub fn new(shape: Shape, records_max: usize, bytes_max: usize) -> Self {
        let (entries, behind, leaves) = Default::default();
        Self { shape, bytes_max, records_max, entries, behind, records: Records::new(), leaves }
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.is_recorded() && self.records.is_empty() && self.leaves.is_empty()
    }

    /// Whether every entry has its record.
    pub fn is_recorded(&self) -> bool {
        self.entries.is_empty()
    }

    /// An effect takes place when its turn comes. Returns how many entries it is.
    pub fn push(&mut self, effect: Effect) -> u64 {
        if let Effect::Journal(entry) = effect {
            self.entries.push(entry.encode(&self.shape));
            return 1;
        }
        let leaving = Leaving::of(effect);
        match self.records.last_mut() {
            _ if !self.entries.is_empty() => self.behind.extend(leaving),
            Some(record) => record.extend(leaving),
            None => self.leaves.extend(leaving),
        }
        0
    }

    /// What waits goes into records, as far as there is room for any.
    ///
    /// # Errors
    /// Those of the vault.
    pub async fn begin(&mut self, vault: &mut Vault, fault: &Arc<Fault>) -> Result<()> {
        while !self.entries.is_empty() && self.records.len() < self.records_max {
            let record = journal::record(&mut self.entries, self.bytes_max);
            let behind = match self.entries.is_empty() {
                true => std::mem::take(&mut self.behind),
                false => Vec::new(),
            };
            let begun = vault.begin_record(&record)?;
            // By a task of its own: a file makes its thread wait.
            let put = async move {
                let mut puts = JoinSet::new();
                puts.spawn(async move { Ok(begun.put().await?) });
                let put = puts.join_next().await;
                of_task(put.ok_or_else(|| Error::Bug("a put has gone".into()))?)
            };
            self.records.begin(fault, put, behind).await;
        }
        Ok(())
    }

    /// Waits until the oldest record has landed, if there is any: those that have, which are to
    /// count before anything else is done. Nothing is lost if this is abandoned.
    ///
    /// # Errors
    /// Those of a put.
    pub async fn land(&mut self) -> Result<Vec<PutRecord>> {
        if self.records.is_empty() {
            std::future::pending::<()>().await;
        }
        let (put, behind) = self.records.land().await?;
        self.leaves.extend(behind.into_iter().flatten());
        Ok(put)
    }

    /// How a record failed, of which nobody has heard.
    pub async fn failure(&mut self) -> Option<Error> {
        self.records.failure().await
    }

    /// Takes what may leave now.
    pub fn leave(&mut self) -> Vec<Leaving> {
        std::mem::take(&mut self.leaves)
    }

    /// Whether anything may leave.
    pub fn may_leave(&self) -> bool {
        !self.leaves.is_empty()
    }

    /// What is under way is repeated: no message of before leaves. Answers do.
    pub fn forget_messages(&mut self) {
        let is_answer = |leaving: &Leaving| matches!(leaving, Leaving::Answer(..));
        self.behind.retain(is_answer);
        self.leaves.retain(is_answer);
        self.records.iter_mut().for_each(|record| record.retain(is_answer));
    }

    /// Nothing that was given out so far takes place.
    pub fn falls_silent(&mut self) {
        *self = Self::new(self.shape, self.records_max, self.bytes_max);
    }
}
