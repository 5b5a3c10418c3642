//! `ring`: Obladi's batch-parallel Ring ORAM.
//!
//! # The protocol, one epoch
//!
//! 1. A read batch of distinct addresses is padded with dummies to its fixed size and shuffled.
//!    A request's path is that of its block's leaf, or a uniform one.
//! 2. The requests are journalled (if there is a journal) and meanwhile planned in turn, without
//!    any I/O of their own; nothing that was planned leaves before the journal has them:
//!    - ReadPath: one unread slot of every stored bucket on the path; the block's own slot where it
//!      is, the next unread dummy elsewhere. The block goes to the stash under a fresh uniform
//!      leaf.
//!    - after every A-th access EvictPath: of every bucket on the next path in reverse
//!      lexicographic order exactly Z unread slots are read, by rising slot, their blocks go to the
//!      stash, and the buckets are filled again from the stash, deepest first;
//!    - EarlyReshuffle: a bucket that has now served S reads is read and filled the same way.
//! 3. All these reads go out as one message, a long one in windows. Every cell of the reply is
//!    verified before any is used. Further batches may be sent before that: what a plan needs of
//!    one under way is where its blocks will be, not what is in them (`flight`).
//! 4. A write batch reads no paths: each slot, real or padding, counts as an access; a real one
//!    puts its block into the stash under a fresh leaf and makes an old copy stale. The evictions
//!    that fall due read as above, or were read with the last read batch if the settings say so.
//! 5. At the commit every bucket rewritten in the epoch is written once, under a new version and a
//!    fresh order of its slots: one bucket first, the others once that has left. When all are
//!    durable the versions they replace are deleted. If epochs are logged, the commit returns what
//!    the epoch changed, in sections of public lengths.
//!
//! # Invariants
//!
//! - A slot of a bucket version is read at most once, and a version at most S times before the read
//!   of Z that retires it. A scan (`fogbank verify`) reads every slot of all of them besides.
//! - A bucket rewritten in the open epoch (an image) is never read or written before the commit.
//!   Whether a bucket is an image follows from the eviction count and the paths read: both public.
//! - A block is in exactly one of stash, image, stored bucket; any older copy is stale.
//! - No version number is used twice: (opening, tick), and every write-back has its own tick.
//! - No message depends on what is in the stash: also a block found there has its path read.
//!
//! # What the cloud sees
//!
//! For every batch: the slots of `read_batch` uniform paths, evictions at fixed counts on fixed
//! paths, early reshuffles that follow from those paths; at the commit the images of the buckets
//! that were rewritten. Buckets never written are neither stored nor read. Nothing of it depends on
//! the addresses, on whether they hold anything, or on how many of the slots were padding.
//!
//! One departure from the paper: reads served by an image do not count against its S, because they
//! are seen by nobody; the image starts its life in the cloud with a count of zero.
//!
//! Paper: Obladi, sections 4 (Ring ORAM), 6.3 (dummiless writes), 7 (parallel execution).

mod bucket;
#[cfg(not(feature = "canaries"))]
mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
mod delta;
mod evict;
mod execute;
mod flight;
mod journal;
mod plan;
mod public;
mod replay;
mod reshuffle;
mod scan;
mod settings;
mod state;
mod stats;
mod writeback;

#[cfg(test)]
mod tests;

pub use delta::delta_lengths;
pub use flight::WINDOWS;
pub use journal::record_bytes;
pub use plan::WINDOW_BYTES;
pub use public::EpochTiming;
pub use settings::RingSettings;
pub use state::checkpoint_lengths;
pub use stats::{ReadBy, SecretStats, Stats};

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Randomness, compute};
use fogbank_seal::KeyRing;
use fogbank_store::{ChunkName, Store};
use tokio::sync::oneshot;

use self::bucket::mark;
use self::delta::EpochLog;
use self::flight::{Flight, Sought};
use self::plan::{Planner, Request};
use self::stats::Moved;
use crate::batch::Replayed;
use crate::checkpoint::inconsistent;
use crate::geometry::Geometry;
use crate::slab::Slab;
use crate::{
    Address, BatchEngine, BatchShape, Error, ReadJournal, RecoverableEngine, Result, Scanned,
    Section, Sections, blame, sweep,
};

/// The engine. See the module for the protocol.
pub struct RingEngine {
    settings: RingSettings,
    store: Arc<dyn Store>,
    keys: Arc<KeyRing>,
    planner: Planner,
    slab: Slab,
    journal: Option<Box<dyn ReadJournal>>,
    log: Option<EpochLog>,
    tick: u64,
    batches: usize, // read batches since the last commit
    moved: Moved,
    fault: Option<Error>,
    /// Read batches under way, the oldest first.
    flights: VecDeque<Flight>,
    /// Told when the last message of the newest has been begun; none once that is known.
    begun: Option<oneshot::Receiver<()>>,
}

#[async_trait]
impl BatchEngine for RingEngine {
    fn shape(&self) -> BatchShape {
        self.settings.shape
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        self.check_addresses(addresses, self.settings.shape.read_batch)?;
        self.check_room(true)?;
        self.begin()?;
        let result = self.read_padded(addresses).await;
        self.finish(result)
    }

    async fn start_read(&mut self, addresses: &[Address]) -> Result<()> {
        self.check_addresses(addresses, self.settings.shape.read_batch)?;
        self.check_room(true)?;
        if !self.settings.epoch_buffer {
            let reason = "without the epoch's buffer one batch is read at a time";
            return Err(Error::Caller(reason.into()));
        }
        self.enter()?;
        let result = self.send_padded(addresses).await;
        self.finish(result)
    }

    async fn ready_to_start(&mut self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)?;
        let begun = self.all_begun().await; // may be given up
        if begun.is_err() { self.finish(begun) } else { begun }
    }

    async fn finish_read(&mut self) -> Result<Vec<Option<Bytes>>> {
        self.fault.clone().map_or(Ok(()), Err)?;
        if self.flights.is_empty() {
            return Err(Error::Caller("no read batch is under way".into()));
        }
        let arrived = self.arrival().await; // may be given up: nothing has changed so far
        let values = arrived.and_then(|()| self.land_oldest()); // 4. of the oldest batch
        self.finish(values)
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        self.check_writes(&writes)?;
        self.check_room(false)?;
        self.begin()?;
        let result = self.write_padded(writes).await;
        self.finish(result)
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        self.begin()?;
        let result = self.end_epoch().await;
        self.finish(result)
    }

    async fn collect(&mut self) -> Result<()> {
        self.begin()?;
        let result = self.delete_superseded().await;
        self.finish(result)
    }

    async fn scan(&mut self, into: &mut dyn Scanned) -> Result<()> {
        self.scan_between_epochs(into).await
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        self.fault.clone().map_or(Ok(()), Err)?;
        self.sections()
    }
}

/// Recovery. A journal is meant for buffered epochs: without [`RingSettings::epoch_buffer`] a batch
/// commits midway and cannot be repeated.
#[async_trait]
impl RecoverableEngine for RingEngine {
    fn set_journal(&mut self, journal: Box<dyn ReadJournal>) {
        self.journal = Some(journal);
    }

    fn replay_epoch(&mut self, delta: &[Section]) -> Result<()> {
        self.repeat_epoch(delta)
    }

    async fn replay(&mut self, record: &[u8]) -> Result<Replayed> {
        self.repeat_batch(record).await
    }

    async fn sweep(&mut self) -> Result<()> {
        self.begin()?;
        let result = self.delete_unreferenced().await;
        self.finish(result)
    }

    fn written(&self) -> Vec<ChunkName> {
        self.stored_chunks().collect()
    }
}

/// The batches.
impl RingEngine {
    async fn read_padded(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        // 1. Pad to the fixed size; a random order.
        let requests = self.padded(addresses);
        // 2. What is about to be read is journalled before it is read, and while it is planned.
        let record = self.journal.is_some().then(|| journal::read_record(&requests));
        self.read_paths_of(&requests, addresses.len(), record).await
    }

    async fn read_paths_of(
        &mut self,
        requests: &[Request],
        replies: usize,
        mut record: Option<Vec<u8>>,
    ) -> Result<Vec<Option<Bytes>>> {
        let mut values = vec![None; replies];
        // 3. Plan every path read, and the evictions and reshuffles that fall due in between. With
        //    the epoch's buffer this goes on to the end of the batch; without, to the next rewrite.
        let mut rest = requests;
        self.begin_reads(requests.len());
        while !rest.is_empty() {
            let mut found = Vec::with_capacity(replies);
            let plan = |engine: &mut Self| engine.plan_until_rewrite(rest, &mut found);
            let planned = self.journalled(record.take(), plan).await?;
            rest = &rest[planned..];
            // 4. One message; every cell of the reply verifies before anything is used.
            let arrived = self.fetch(found, replies).await?;
            values.iter_mut().zip(arrived).for_each(|(value, new)| *value = value.take().or(new));
            self.write_through().await?;
        }
        Ok(values)
    }

    /// The same up to the message, behind the batches that are under way.
    async fn send_padded(&mut self, addresses: &[Address]) -> Result<()> {
        // 0. Messages leave in turn: first all of the batch before.
        self.all_begun().await?;
        // 1. to 3.
        let requests = self.padded(addresses);
        let record = self.journal.is_some().then(|| journal::read_record(&requests));
        let mut found = Vec::with_capacity(addresses.len());
        self.begin_reads(requests.len());
        let plan = |engine: &mut Self| engine.plan_until_rewrite(&requests, &mut found);
        self.journalled(record, plan).await?;
        let flight = self.launch(found, addresses.len());
        self.flights.push_back(flight);
        Ok(())
    }

    fn padded(&mut self, addresses: &[Address]) -> Vec<Request> {
        let blocks: Vec<u32> = addresses.iter().map(|address| address.0).collect();
        self.planner.pad_and_shuffle(&blocks, self.settings.shape.read_batch)
    }

    fn begin_reads(&mut self, requests: usize) {
        self.batches += 1;
        if let Some(log) = &mut self.log {
            log.begin_reads(requests);
        }
    }

    async fn write_padded(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        let record = || journal::write_record(self.settings.shape.read_batch);
        let record = self.journal.is_some().then(record);
        self.write_slots(writes, record).await
    }

    async fn write_slots(
        &mut self,
        writes: Vec<(Address, Option<Bytes>)>,
        mut record: Option<Vec<u8>>,
    ) -> Result<()> {
        let mut writes = writes.into_iter();
        let mut left = self.settings.shape.write_batch;
        if let Some(log) = &mut self.log {
            log.begin_writes(left);
        }
        left = self.planner.canary.write_slots(left, writes.len());
        loop {
            let plan = |engine: &mut Self| engine.plan_writes_until_rewrite(left, &mut writes);
            left -= self.journalled(record.take(), plan).await?;
            // 3. One message for all evictions of the batch.
            self.fetch(Vec::new(), 0).await?;
            self.write_through().await?;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Plans while the record is on its way to the journal, if there is one. What was planned
    /// leaves only when both are done, and only if no batch that is under way has failed meanwhile.
    async fn journalled<T>(
        &mut self,
        record: Option<Vec<u8>>,
        plan: impl FnOnce(&mut Self) -> T,
    ) -> Result<T> {
        let Some(record) = record else { return Ok(compute(|| plan(self))) };
        let mut journal = self.journal.take();
        let mut flights = std::mem::take(&mut self.flights);
        let append = async {
            let Some(journal) = &mut journal else { return Ok(()) };
            tokio::select! { biased;
                error = flight::failure(&mut flights) => Err(error),
                appended = journal.append(&record) => appended,
            }
        };
        let (appended, planned) = tokio::join!(biased; append, async { compute(|| plan(self)) });
        (self.journal, self.flights) = (journal, flights);
        appended.map(|()| planned)
    }

    /// Plans at most `most` write slots: all of them, or without the epoch's buffer up to the first
    /// rewrite. Returns how many.
    fn plan_writes_until_rewrite(
        &mut self,
        most: usize,
        writes: &mut impl Iterator<Item = (Address, Option<Bytes>)>,
    ) -> usize {
        for slot in 0..most {
            // 1. A block goes to the stash under a fresh leaf; its old copy is stale.
            let write = writes.next();
            let block = write.as_ref().map_or(mark::DUMMY, |(address, _)| address.0);
            self.planner.tally.real_accesses += u64::from(write.is_some());
            match write {
                Some((address, Some(value))) => self.put(address.0, &value),
                Some((address, None)) => self.planner.forget(address.0),
                None => {}
            }
            if let Some(log) = &mut self.log {
                log.note_write(block, self.planner.mapped_to(block));
            }
            // 2. Real or padding, it counts; the eviction may fall due.
            self.planner.count_access();
            if !self.settings.epoch_buffer && !self.planner.images.is_empty() {
                return slot + 1;
            }
        }
        most
    }

    /// Plans requests in turn: all of them, or without the epoch's buffer up to the first rewrite.
    /// Returns how many, and where the payloads of those found will be.
    fn plan_until_rewrite(&mut self, requests: &[Request], found: &mut Vec<Sought>) -> usize {
        for (planned, request) in requests.iter().enumerate() {
            let payload = self.planner.access(request);
            if let Some(log) = &mut self.log {
                let fresh = payload.and_then(|_| self.planner.mapped_to(request.block));
                log.note_read(request, fresh);
            }
            found.extend(payload.map(|payload| (request.reply, payload)));
            if !self.settings.epoch_buffer && !self.planner.images.is_empty() {
                return planned + 1;
            }
        }
        self.prefetch_if_last();
        requests.len()
    }

    /// After the last read batch of an epoch: fetches ahead what its write batch will evict.
    fn prefetch_if_last(&mut self) {
        let last = self.batches == self.settings.read_batches;
        if self.settings.prefetch && self.settings.epoch_buffer && last {
            self.planner.prefetch_evictions(self.settings.shape.write_batch);
        }
    }

    /// The commit of the epoch, and its delta.
    async fn end_epoch(&mut self) -> Result<Vec<Section>> {
        self.write_back().await?;
        self.batches = 0;
        compute(|| self.take_delta())
    }

    fn put(&mut self, block: u32, value: &[u8]) {
        let payload = self.planner.handles.claim();
        self.slab.fill(payload, block, value);
        self.planner.put(block, payload);
    }

    /// Without the epoch's buffer: writes what was rewritten.
    async fn write_through(&mut self) -> Result<()> {
        if self.settings.epoch_buffer || self.planner.images.is_empty() {
            return Ok(());
        }
        self.write_back().await
    }
}

/// Opening and closing.
impl RingEngine {
    /// The engine as the checkpoint left it of which `sections` is, among those of others; a new
    /// store if there is none.
    ///
    /// # Errors
    /// Those of [`RingEngine::create`] and [`RingEngine::restore`].
    pub async fn open(
        store: Arc<dyn Store>,
        keys: Arc<KeyRing>,
        settings: RingSettings,
        randomness: &Randomness,
        sections: &[Section],
    ) -> Result<Self> {
        match sections {
            [] => Self::create(store, keys, settings, randomness).await,
            saved => Self::restore(store, keys, settings, randomness, saved),
        }
    }

    /// A new, empty store: makes the array, writes nothing.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings outside the limits, [`Error::Absent`] if the store is.
    pub async fn create(
        store: Arc<dyn Store>,
        keys: Arc<KeyRing>,
        settings: RingSettings,
        randomness: &Randomness,
    ) -> Result<Self> {
        let engine = Self::new(store, keys, settings, randomness)?;
        let shape = engine.planner.geometry.array_shape();
        engine.store.create_array(engine.planner.array, shape).await.map_err(crate::blame_new)?;
        Ok(engine)
    }

    /// The engine as it was when `sections` were saved, in a later opening with the keys of all
    /// openings before. `randomness` must be fresh. Epochs committed since are repeated, and what
    /// was read after them, before anything else ([`crate::batch::recover`]).
    ///
    /// # Errors
    /// [`Error::Caller`] if the settings are of another shape or the opening is not a later one;
    /// [`Error::Bug`] if the sections contradict each other; [`Error::CloudLied`] if the array is
    /// not what was made.
    pub fn restore(
        store: Arc<dyn Store>,
        keys: Arc<KeyRing>,
        settings: RingSettings,
        randomness: &Randomness,
        sections: &[Section],
    ) -> Result<Self> {
        if sections.is_empty() {
            return Err(inconsistent());
        }
        let (engine, there) = Self::restore_blind(store, keys, settings, randomness, sections)?;
        there.map(|()| engine)
    }

    /// As [`RingEngine::restore`] where the array may be gone, to salvage what there is; also
    /// whether it is what was made. Without `sections` it is as a new one, and no array is made.
    ///
    /// # Errors
    /// As [`RingEngine::restore`], but for the array.
    pub fn restore_blind(
        store: Arc<dyn Store>,
        keys: Arc<KeyRing>,
        settings: RingSettings,
        randomness: &Randomness,
        sections: &[Section],
    ) -> Result<(Self, Result<()>)> {
        let mut engine = Self::new(store, keys, settings, randomness)?;
        let shape = engine.planner.geometry.array_shape();
        let there = engine.store.expect_array(engine.planner.array, shape).map_err(blame);
        let (planner, slab) = (&mut engine.planner, &mut engine.slab);
        let array = engine.settings.array;
        // Without a checkpoint yet it stands at its beginning.
        if !sections.is_empty() {
            let counters = state::restore(planner, slab, &engine.keys, array, sections)?;
            engine.tick = counters.tick;
        }
        Ok((engine, there))
    }

    fn new(
        store: Arc<dyn Store>,
        keys: Arc<KeyRing>,
        settings: RingSettings,
        randomness: &Randomness,
    ) -> Result<Self> {
        let geometry = settings.geometry()?;
        if settings.log_epochs && !settings.epoch_buffer {
            return Err(Error::Caller(
                "without the epoch's buffer there is no log of epochs".into(),
            ));
        }
        let xor = settings.xor && store.xor().is_some();
        Ok(Self {
            planner: Planner::new(geometry, &settings, xor, randomness),
            slab: Slab::new(geometry.plaintext_bytes()),
            log: settings.log_epochs.then(EpochLog::default),
            settings,
            store,
            keys,
            journal: None,
            tick: 0,
            batches: 0,
            moved: Moved::default(),
            fault: None,
            flights: VecDeque::new(),
            begun: None,
        })
    }

    /// From now on leaks what `canary` says.
    #[cfg(feature = "canaries")]
    pub fn set_canary(&mut self, canary: canary::Canary) {
        self.planner.canary = canary;
    }

    /// The shape of the tree.
    pub fn geometry(&self) -> &Geometry {
        &self.planner.geometry
    }

    async fn delete_unreferenced(&mut self) -> Result<()> {
        let buckets = &self.planner.buckets;
        let current = |name: &ChunkName| {
            name.chunk < buckets.len() && buckets.head(name.chunk).version == name.version
        };
        let (opening, _) = self.keys.current();
        let stored = self.store.list_chunks(self.planner.array).await.map_err(blame)?;
        let stored = sweep::left_behind(stored, opening, current);
        self.planner.superseded.clear();
        if stored.is_empty() {
            return Ok(());
        }
        self.store.delete_chunks(&stored).await.map_err(blame)
    }

    /// As [`RingEngine::enter`], for whatever needs that no batch is under way.
    fn begin(&mut self) -> Result<()> {
        if !self.flights.is_empty() && self.fault.is_none() {
            return Err(Error::Caller("read batches are under way".into()));
        }
        self.enter()
    }

    /// Refuses after a fault; otherwise a fault is assumed until [`RingEngine::finish`], so that a
    /// call dropped midway stops the engine too.
    fn enter(&mut self) -> Result<()> {
        let midway = Error::Bug("a call was dropped midway".into());
        self.fault.replace(midway).map_or(Ok(()), |fault| {
            self.fault = Some(fault.clone());
            Err(fault)
        })
    }

    fn finish<T>(&mut self, result: Result<T>) -> Result<T> {
        self.planner.stash.note_size();
        let above =
            self.planner.stash.len_max() > self.planner.geometry.stash_blocks_max() as usize;
        let result = match result {
            Ok(_) if above => Err(Error::Bug("the stash is above its bound".into())),
            result => result,
        };
        self.fault = result.as_ref().err().cloned();
        if self.fault.is_some() {
            self.flights.clear(); // nothing more of them leaves
        }
        result
    }

    fn check_addresses(&self, addresses: &[Address], most: usize) -> Result<()> {
        if addresses.len() > most {
            return Err(Error::Caller(format!("a batch has {most} slots")));
        }
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        if sorted.last().is_some_and(|last| last.0 >= self.settings.shape.capacity) {
            return Err(Error::Caller("an address is above the capacity".into()));
        }
        if sorted.is_sorted_by(|a, b| a < b) || self.planner.canary.takes_duplicates() {
            Ok(())
        } else {
            Err(Error::Caller("an address is in the batch twice".into()))
        }
    }

    fn check_writes(&self, writes: &[(Address, Option<Bytes>)]) -> Result<()> {
        let addresses: Vec<Address> = writes.iter().map(|(address, _)| *address).collect();
        self.check_addresses(&addresses, self.settings.shape.write_batch)?;
        let value_bytes = self.settings.shape.value_bytes;
        let fits = |value: &Option<Bytes>| value.as_ref().is_none_or(|v| v.len() == value_bytes);
        if writes.iter().all(|(_, value)| fits(value)) {
            Ok(())
        } else {
            Err(Error::Caller(format!("a value has {value_bytes} bytes")))
        }
    }
}

impl std::fmt::Debug for RingEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingEngine").field("settings", &self.settings).finish_non_exhaustive()
    }
}
