//! A log of which other processes make use, too: what they have put is looked for.
//!
//! 1. *Look*: at a fixed interval, whoever listens. Entries from the next place on, then whether
//!    others have forgotten, then results that are missing here: a list of each 256 places that
//!    miss some.
//! 2. *Count*: an entry counts if its place was not forgotten when it had been read. So one that
//!    was put at a place that was free because all of it was gone counts for nobody.
//! 3. *Put*: who puts an entry looks likewise whether it counts. If not, nothing more is put.
//!
//! What the cloud sees: how often each process looks, which is fixed, and that it reads what is
//! new.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use fogbank_env::Nanos;

use super::form::{self, ENTRIES, RESULTS};
use super::{Inner, READ_AT_ONCE, forgotten, read_all, result, too_much};
use crate::{Result, StoreError};

/// Looks until the log is closed.
pub(super) fn watch(log: &Arc<Inner>, interval: Nanos) {
    let (clock, log) = (log.clock.clone(), Arc::downgrade(log));
    let mut next = clock.now();
    tokio::spawn(async move {
        loop {
            next = (next + interval).max(clock.now());
            clock.sleep_until(next).await;
            let Some(log) = log.upgrade() else { return };
            match log.look().await {
                Ok(()) | Err(StoreError::Absent(_)) => {}
                Err(why) => {
                    log.kept.lock().fail(why);
                    log.grown.send_replace(());
                    return;
                }
            }
        }
    });
}

impl Inner {
    async fn look(&self) -> Result<()> {
        self.catch_up().await?;
        // The names of results of 256 places begin alike.
        let missing: BTreeSet<u64> = self.kept.lock().without_result().map(|at| at >> 8).collect();
        for some in missing {
            let names = self.store.blob_list(&format!("{RESULTS}{some:014x}")).await?;
            let places = names.iter().filter_map(|name| form::place(RESULTS, name));
            let places: Vec<u64> = {
                let kept = self.kept.lock();
                places.filter(|at| kept.has_result(*at) == Some(false)).collect()
            };
            let read = read_all(&self.store, RESULTS, &places, self.left()?).await?;
            for (at, blob) in read {
                self.kept.lock().publish(at, result(at, blob)?);
                self.grown.send_replace(());
            }
        }
        Ok(())
    }

    /// Takes in entries that others have put, until there are no more.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let mut width = 1;
        loop {
            let next = self.kept.lock().end();
            let (found, first) = self.take_in(next..next.saturating_add(width)).await?;
            // None was there, and it is no place that others have left behind.
            if found == 0 && first <= next {
                return Ok(());
            }
            width = (2 * width).min(READ_AT_ONCE as u64);
        }
    }

    /// Takes in the entries of these places, the next ones. How many are there, and the first place
    /// that is kept.
    pub(super) async fn take_in(&self, places: Range<u64>) -> Result<(usize, u64)> {
        let next = places.start;
        let places: Vec<u64> = places.collect();
        let read = read_all(&self.store, ENTRIES, &places, self.left()?).await?;
        let found = read.len();
        let first = self.hear_of_forgotten().await?;
        let read = read.into_iter().filter(|(at, _)| *at >= first);
        for ((at, blob), _) in read.zip(next.max(first)..).take_while(|((at, _), next)| at == next)
        {
            let entry = form::decode(at, blob)?;
            self.kept.lock().append(at, entry)?;
            self.grown.send_replace(());
        }
        Ok((found, first))
    }

    /// Whether others have forgotten, and the first place that is kept.
    pub(super) async fn hear_of_forgotten(&self) -> Result<u64> {
        let (_, first, turns) = forgotten(&self.store).await?;
        let mut kept = self.kept.lock();
        if first > kept.first() {
            kept.forget(first, turns);
            self.grown.send_replace(());
        }
        Ok(kept.first())
    }

    /// Bytes of others that may still be taken in.
    fn left(&self) -> Result<u64> {
        let most = self.bytes_max.saturating_mul(2);
        most.checked_sub(self.kept.lock().bytes()).ok_or_else(|| too_much(most))
    }
}
