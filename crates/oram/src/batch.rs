//! The batched shape of an engine: epochs of R read batches and one write batch of fixed sizes.
//!
//! # The contract
//!
//! 1. [`BatchEngine`]: reads, writes and commits; every call of one kind looks the same.
//! 2. [`RecoverableEngine`]: what it needs besides to outlive its process. What a batch is about to
//!    read goes to a [`ReadJournal`] first; a commit returns what leads from one trusted state to
//!    the next.
//! 3. [`recover`]: after a stop, the epochs committed since the checkpoint again, without I/O; then
//!    exactly the reads of the epoch that was open. What is left of that epoch is for the caller to
//!    complete, with dummies: he knows how many batches it has.
//!
//! What the cloud sees of a recovery: the cells of before, an epoch of its usual shape, and that
//! there was a stop.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_durable::Recovered;
use fogbank_store::ChunkName;

use crate::{Address, Error, Result, Section, Sections, Unverified};

/// The public shape of a batched engine's traffic, fixed when the store is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShape {
    /// Logical blocks; addresses are below it.
    pub capacity: u32,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Path reads of every read batch.
    pub read_batch: usize,
    /// Write slots of every write batch.
    pub write_batch: usize,
}

/// See the module.
///
/// The caller decides when a call is made (the clock is his); the engine makes every call of one
/// kind look the same. After any error other than [`Error::Caller`] the engine refuses all calls.
#[async_trait]
pub trait BatchEngine: Send {
    /// The public shape.
    fn shape(&self) -> BatchShape;

    /// One read batch: at most `read_batch` distinct addresses, padded inside to exactly that many
    /// path reads in a random order. The reply is in the order asked; `None` for an address that
    /// holds nothing. Every cell of the batch has arrived and verified before this returns.
    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>>;

    /// As [`BatchEngine::read_batch`], but returns when the batch is on its way: further ones may
    /// be sent before it has arrived. Then nothing but [`BatchEngine::start_read`] and
    /// [`BatchEngine::finish_read`] may be called until all have.
    async fn start_read(&mut self, addresses: &[Address]) -> Result<()> {
        let _ = addresses;
        Err(Error::Caller("this engine reads one batch at a time".into()))
    }

    /// Waits until the next batch may be started: every message of those before has been sent, or
    /// is about to be. Calling it first keeps the time of [`BatchEngine::start_read`] the caller's.
    async fn ready_to_start(&mut self) -> Result<()> {
        Ok(())
    }

    /// The reply of the oldest batch that was started, when every cell of it has arrived and
    /// verified. May be given up and called again. An error of any batch under way ends it.
    async fn finish_read(&mut self) -> Result<Vec<Option<Bytes>>> {
        Err(Error::Caller("this engine reads one batch at a time".into()))
    }

    /// The write batch of the epoch: at most `write_batch` distinct addresses, padded inside.
    /// `None` empties the address. Values are exactly `value_bytes` long.
    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()>;

    /// Ends the epoch: writes every bucket rewritten in it once, makes that durable, and deletes
    /// what it supersedes. Returns what leads from the trusted state before the epoch to that after
    /// it, in sections of public lengths; none from an engine that was not told to keep track.
    async fn commit(&mut self) -> Result<Vec<Section>>;

    /// Deletes the chunk versions that commits so far have superseded, for an engine that was told
    /// to keep them until the checkpoint that needs them no more is durable. Otherwise nothing.
    async fn collect(&mut self) -> Result<()> {
        Ok(())
    }

    /// Reads and verifies everything that is stored, between epochs, and hands over every block.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if anything is missing or does not verify, unless `into` goes on;
    /// whatever `into` returns.
    async fn scan(&mut self, into: &mut dyn Scanned) -> Result<()> {
        let _ = into;
        Err(Error::Caller("this engine cannot be scanned".into()))
    }

    /// The engine's trusted state between epochs, for a checkpoint: every section is made when it
    /// is asked for.
    fn save(&mut self) -> Result<Sections<'_>>;
}

/// Takes what a scan finds.
pub trait Scanned: Send {
    /// A block and its value. Every block that holds one comes once, in no order.
    ///
    /// # Errors
    /// Whatever ends the scan.
    fn block(&mut self, address: Address, value: &[u8]) -> Result<()>;

    /// So much of so much that is stored has been read and verified.
    fn progress(&mut self, done: u32, of: u32);

    /// Something does not verify, and `block` is lost with it, if it held one that counts. Ends the
    /// scan unless it returns well.
    ///
    /// # Errors
    /// Whatever ends the scan.
    fn lost(&mut self, place: Unverified, block: Option<Address>) -> Result<()> {
        let _ = block;
        Err(Error::CloudLied(place))
    }

    /// Whether it goes on past what is lost. Then chunks of a reply that is of no use as a whole
    /// are asked for one by one.
    fn goes_on(&self) -> bool {
        false
    }
}

/// Takes records of what is about to be read.
#[async_trait]
pub trait ReadJournal: Send + Sync {
    /// Returns once `record` is durable. Records name blocks and where they are: they are secret
    /// and have to be sealed. All records of a store have one length.
    ///
    /// # Errors
    /// Any error stops the engine before it reads.
    async fn append(&mut self, record: &[u8]) -> Result<()>;
}

/// Which kind of batch a journal record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// A read batch.
    Reads,
    /// The write batch: the last of its epoch.
    Writes,
}

/// A batched engine whose state outlives its process.
#[async_trait]
pub trait RecoverableEngine: BatchEngine {
    /// From now on every batch is recorded in `journal` before it reads.
    fn set_journal(&mut self, journal: Box<dyn ReadJournal>);

    /// Brings the state from one commit to the next, without I/O: `delta` is what
    /// [`BatchEngine::commit`] returned for the epoch that follows the one this engine stands at.
    /// What the epoch superseded may or may not have been deleted: [`RecoverableEngine::sweep`]
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Caller`] if an epoch is open or the delta is of this opening; [`Error::Bug`] if it
    /// does not follow what this engine stands at. The engine has stopped then.
    fn replay_epoch(&mut self, delta: &[Section]) -> Result<()>;

    /// Reads exactly what the batch recorded as `record` read, on the state it was planned on: the
    /// restored checkpoint, the epochs committed since, then record by record. A write batch is
    /// replayed without its writes, so it has to be the last batch of its epoch. Nothing is
    /// journalled, for it is in the journal.
    ///
    /// # Errors
    /// [`Error::Caller`] if `record` is none of this store; otherwise as for a batch.
    async fn replay(&mut self, record: &[u8]) -> Result<Replayed>;

    /// Deletes every chunk version of earlier openings that is not current: what a proxy that died
    /// left behind. What a list leaves out the next opening deletes. To be called between epochs,
    /// after recovery. Versions of later openings are those of a proxy that has overtaken this one,
    /// which does not know it yet.
    ///
    /// # Errors
    /// As for a batch.
    async fn sweep(&mut self) -> Result<()>;

    /// The chunk versions that count, between epochs: they have to be at the store. Public.
    fn written(&self) -> Vec<ChunkName>;
}

/// An epoch that was open when its proxy stopped: which of its batches were read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenEpoch {
    /// Read batches.
    pub reads: usize,
    /// Whether the write batch, too.
    pub written: bool,
}

/// Brings an engine that is as the checkpoint of `recovered` left it to where its proxy stopped.
/// The epoch that was open then, if there was one: it is to be completed with dummies and committed
/// without its writes, so whatever its transactions did never was. `progress` is told how many of
/// how many steps are done.
///
/// # Errors
/// Those of [`RecoverableEngine::replay_epoch`] and [`RecoverableEngine::replay`].
pub async fn recover(
    engine: &mut dyn RecoverableEngine,
    recovered: &Recovered,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Option<OpenEpoch>> {
    let steps = recovered.deltas.len() + recovered.journal.len() + 1;
    for (done, delta) in recovered.deltas.iter().enumerate() {
        progress(done, steps);
        engine.replay_epoch(delta)?;
    }
    let mut open = OpenEpoch { reads: 0, written: false };
    for (done, record) in recovered.journal.iter().enumerate() {
        progress(recovered.deltas.len() + done, steps);
        match engine.replay(record).await? {
            Replayed::Reads => open.reads += 1,
            Replayed::Writes => open.written = true,
        }
    }
    Ok((!recovered.journal.is_empty()).then_some(open))
}
