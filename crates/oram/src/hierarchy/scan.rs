//! All that a site holds, read from one end to the other and checked.
//!
//! 1. A *cut*: the values of the window, once the results of all places that were known when it was
//!    asked for are there, and the tables that queries of its epoch touch, which hold all else.
//! 2. Those tables are read whole, the oldest first: each cell has to open, and to hold what the
//!    index says. Of an address the newest table counts, and the window before all.
//! 3. A table may go while it is read, where others work: then a new cut is made, and what it has
//!    that was not read before is read. Whoever takes the blocks gets some a second time then, and
//!    the last one counts.
//!
//! # Invariants
//! - What comes is the state at the last cut: tables cover rising epochs, and a table that took the
//!   place of others holds all their addresses.
//! - Requests leave in their turn among those of builds (`lane`), not when somebody has done with
//!   what came before.
//!
//! # What the cloud sees
//! That tables of an epoch are read whole. It follows from the epoch alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::cells::{Cells, Way};
use super::client::Client;
use super::engine::HierarchyEngine;
use super::lane::AT_ONCE;
use super::serving::Event;
use super::table::{Body, Index};
use crate::{Address, Error, ImmediateEngine, Result, Scanned, lied};

/// The state of a site at one moment, as far as it need not be read.
pub struct Cut {
    cells: Arc<Cells>,
    /// What queries of its epoch touch, newest first.
    tables: Vec<Arc<Index>>,
    /// The values of the window.
    window: BTreeMap<u32, Bytes>,
}

/// What was read from a slot on; nothing if the table has gone.
type Read = Option<(u32, Vec<Body>)>;

/// Somebody waits for a cut with the results of all places below the first.
pub type CutAsked = (u64, oneshot::Sender<Cut>);

/// New cuts because a table has gone, at most: between two of them an epoch goes by.
const CUTS_MAX: u32 = 1_000;
/// Requests that have come and wait for whoever takes the blocks: 16 MiB.
const AHEAD: usize = 64;

impl Cut {
    /// That of what a client knows, if results of all places below `length` are there, and what its
    /// epoch touches.
    pub fn of(client: &Client, cells: &Arc<Cells>, length: u64) -> Option<Self> {
        let follower = client.follower();
        let (schedule, replayed) = (follower.schedule, follower.replayed());
        let epoch = schedule.epoch_of(replayed.checked_sub(1)?);
        if replayed < length || client.newest_superblock() < epoch {
            return None;
        }
        let tables = schedule.tables(epoch).into_iter();
        let tables: Option<_> = tables.map(|table| follower.known(table).cloned()).collect();
        let window = follower.replay.window().map(|(address, value)| (*address, value.clone()));
        Some(Self { cells: cells.clone(), tables: tables?, window: window.collect() })
    }

    /// Reads a table, which has not been read before, and hands over what counts of it. Whether
    /// it was still there.
    async fn read(
        &self,
        at: usize,
        into: &mut dyn Scanned,
        (done, of): (&mut u32, u32),
    ) -> Result<bool> {
        let (index, newer) = (&self.tables[at], &self.tables[..at]);
        let (mut read, _reader) = self.begin(index.clone());
        let mut found = 0;
        while let Some(some) = read.recv().await {
            let Some((first, bodies)) = some? else { return Ok(false) };
            *done += bodies.len() as u32;
            for (slot, body) in (first..).zip(bodies) {
                let Some((address, value)) = body else { continue };
                if index.slot_of(address) != Some(slot) {
                    return Err(lied("a table holds another block"));
                }
                found += 1;
                let is_stale = |newer: &Arc<Index>| newer.slot_of(address).is_some();
                if !self.window.contains_key(&address) && !newer.iter().any(is_stale) {
                    into.block(Address(address), &value)?;
                }
            }
            into.progress(*done, of);
        }
        match found == index.addresses().len() {
            true => Ok(true),
            false => Err(lied("a table misses a block")),
        }
    }

    /// Begins to read all slots of a table, in their order.
    fn begin(&self, index: Arc<Index>) -> (mpsc::Receiver<Result<Read>>, JoinSet<()>) {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let cells = self.cells.clone();
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            let (table, slots) = (index.table, index.slots());
            let request = cells.request(table.level);
            let read = |first: u32| {
                let cells = cells.clone();
                async move {
                    let some = first..first.saturating_add(request).min(slots);
                    let turn = cells.turn(Way::Reads, (table.level, some.len())).await?;
                    let bodies = cells.read_slots(table, some).await?;
                    turn.has_come();
                    Ok(bodies.map(|bodies| (first, bodies)))
                }
            };
            let firsts = (0..slots).step_by(request as usize);
            let mut reads = stream::iter(firsts).map(read).buffered(AT_ONCE);
            while let Some(some) = reads.next().await {
                if sender.send(some).await.is_err() {
                    return;
                }
            }
        });
        (receiver, reader)
    }
}

impl HierarchyEngine {
    /// Reads and checks all that the site holds some time after the call. Every block that holds
    /// something comes; where others work meanwhile some come again, and the last one counts.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if anything is not what was written; [`Error::Refused`] if tables go
    /// faster than they are read; whatever has stopped the engine.
    pub async fn scan(&self, into: &mut dyn Scanned) -> Result<()> {
        let (mut read, mut done) = (BTreeSet::new(), 0);
        'cuts: for _ in 0..CUTS_MAX {
            let cut = self.cut().await?;
            let unread = |index: &&Arc<Index>| !read.contains(&index.table);
            let left: u32 = cut.tables.iter().filter(unread).map(|index| index.slots()).sum();
            let of = done + left;
            for at in (0..cut.tables.len()).rev() {
                let table = cut.tables[at].table;
                if read.contains(&table) {
                    continue;
                }
                if !cut.read(at, into, (&mut done, of)).await? {
                    continue 'cuts;
                }
                read.insert(table);
            }
            for (address, value) in &cut.window {
                into.block(Address(*address), value)?;
            }
            return Ok(());
        }
        Err(Error::Refused("others work on the site faster than it can be read: try later".into()))
    }

    async fn cut(&self) -> Result<Cut> {
        let (sender, cut) = oneshot::channel();
        self.tell(Event::Cuts(sender));
        match cut.await {
            Ok(cut) => Ok(cut),
            Err(_) => Err(self.stopped().await),
        }
    }
}
