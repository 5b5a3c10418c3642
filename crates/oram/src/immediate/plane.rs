//! What an engine is behind the shell: what it knows, and its steps.
//!
//! The shell takes arrivals, cuts records, lets messages leave at points, takes replies, lets
//! answers leave in order, sends what is to be written and has checkpoints written. The plane says
//! what is in them. Its steps wait for nothing: no I/O, no clock, no cipher. Ciphers are its
//! codec's, outside the lock.
//!
//! # An access
//!
//! 1. [`Plane::depart`]: what arrived becomes parts of a record, and requests.
//! 2. When the record and all before it are durable, [`Plane::is_recorded`]; then its requests
//!    leave, each with the message that [`Plane::ask`] gives.
//! 3. The reply is verified ([`Codec::open`]) and taken ([`Plane::returned`]): accesses end, and
//!    something may be due to be written.
//! 4. That is sealed ([`Codec::seal`]) and sent; [`Plane::acknowledged`] when all of it has been.
//! 5. When [`Plane::cut_is_due`], departures wait until [`Plane::may_cut`] if the plane
//!    [cuts quietly](Plane::CUTS_QUIETLY); [`Plane::cut`] copies the state for a checkpoint.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use fogbank_durable::Sections;
use fogbank_store::{ArrayId, ArrayShape, Cell, CellReads, ChunkName, ChunkWrite, Store};

use super::core::Core;
use super::engine::{Progress, Shared};
use super::sequencer::Number;
use crate::{Access, Address, Result, Section, blame};

/// An access that departs: its number, its address ([`super::arrival::PADDING`] if nobody asked)
/// and what to do.
pub type Departing = (Number, Address, Access);

/// See the module.
pub trait Plane: Sized + Send + 'static {
    /// A part of a record.
    type Part: Send + Sync;
    /// What is asked for in one message.
    type Request: Request;
    /// A reply that has verified.
    type Opened: Send;
    /// What is to be written.
    type Due: Send;
    /// What is known of it once it is sealed.
    type Written: Send;
    /// Ciphers, and what they need to know.
    type Codec: Codec<Self>;

    /// Whether it has jobs beside accesses: then there are parts of records that no access brings
    /// ([`Plane::has_parts`]), something waits for records ([`Plane::is_recorded`]), and what was
    /// written counts only once a barrier has passed.
    const HAS_JOBS: bool;

    /// Whether a cut waits until no access is under way and [`Plane::may_cut`]; otherwise it is
    /// made between any two records. The last, before a store is closed, always waits.
    const CUTS_QUIETLY: bool;

    /// A record: these accesses, and what else is to go into one.
    ///
    /// # Errors
    /// [`crate::Error::Bug`] if an invariant does not hold, as for all steps.
    fn depart(&mut self, accesses: Vec<Departing>) -> Result<Record<Self>>;

    /// Whether there is to be a record even if nothing has arrived. Public.
    fn has_parts(&self) -> bool {
        false
    }

    /// The oldest record that does not count yet does: it and all before it are durable. Only if
    /// [`Plane::HAS_JOBS`].
    ///
    /// # Errors
    /// As for [`Plane::depart`].
    fn is_recorded(&mut self) -> Result<()> {
        Ok(())
    }

    /// The message of `request`, which leaves now.
    fn ask(&mut self, request: &Self::Request) -> Message;

    /// It leaves. Whoever keeps a trace is told what the message does not show.
    fn leaves(&self, _request: &Self::Request) {}

    /// The reply is taken; what is due to be written by it.
    ///
    /// # Errors
    /// As for [`Plane::depart`].
    fn returned(
        core: &mut Core<Self>,
        request: Self::Request,
        opened: Self::Opened,
    ) -> Result<Vec<Self::Due>>;

    /// All of `written` has been acknowledged.
    fn acknowledged(core: &mut Core<Self>, written: &Self::Written);

    /// Whether what was written counts only once a barrier has passed, if it has jobs.
    fn awaits_barrier(&self) -> bool {
        true
    }

    /// How many accesses may be under way. Public.
    fn room(&self) -> usize;

    /// Whether it is time for a cut. Public.
    fn cut_is_due(&self) -> bool;

    /// Whether the state can be copied, when no access is under way.
    fn may_cut(&self) -> bool {
        true
    }

    /// The state at this moment, but for what accesses under way will make of it.
    ///
    /// # Errors
    /// As for [`Plane::depart`].
    fn cut(&mut self) -> Result<Cut<Self>>;

    /// Whether everything written up to `mark` has been acknowledged.
    fn is_acknowledged(&self, mark: u64) -> bool;

    /// All sections of the checkpoint of the last `cut`, once it is acknowledged. They are made one
    /// by one, while the plane goes on.
    fn sections(_: &Arc<Shared<Self>>, cut: Vec<Section>) -> Sections<'static> {
        Section::each(cut)
    }

    /// A checkpoint counts from now on.
    fn has_checkpoint(&mut self);

    /// What no checkpoint refers to once the one of `mark` counts, and no access from number
    /// `oldest` on.
    fn superseded(&mut self, mark: u64, oldest: Number) -> Vec<ChunkName>;

    /// Whether the cloud is to keep this version, of whichever opening it is.
    fn is_current(&self, name: &ChunkName) -> bool;

    /// Reads again what `journal` names and does what it says; whether a checkpoint is needed
    /// before anything is served.
    fn replay(
        shared: &Arc<Shared<Self>>,
        journal: Vec<Vec<u8>>,
        progress: &Progress,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// What was begun before a stop is written anew, once the store is swept.
    ///
    /// # Errors
    /// As for [`Plane::depart`].
    fn begins_again(&mut self) -> Result<Vec<Self::Due>> {
        Ok(Vec::new())
    }
}

/// The ciphers of a plane.
pub trait Codec<P: Plane>: Debug + Send + Sync {
    /// Arrays in the cloud.
    fn arrays(&self) -> Vec<(ArrayId, ArrayShape)>;

    /// The record of these parts, cut while so many before it did not count.
    fn encode(&self, parts: &[P::Part], behind: usize) -> Vec<u8>;

    /// Verifies every cell of a reply.
    ///
    /// # Errors
    /// [`crate::Error::CloudLied`] unless all do.
    fn open(&self, request: &P::Request, message: &Message, reply: Reply) -> Result<P::Opened>;

    /// Seals what is due.
    fn seal(&self, due: P::Due) -> (P::Written, Vec<ChunkWrite>);

    /// Bytes of the reply to `message`.
    fn reply_bytes(&self, message: &Message) -> u64;
}

/// What is asked for in one message.
pub trait Request: Debug + Send + Sync {
    /// The number of its access, if it is one for a block that another is about to bring.
    fn decoy(&self) -> Option<Number>;

    /// What it is for: by this nothing may be ordered.
    fn content(&self) -> u32;
}

/// A record and what leaves when it is durable.
pub struct Record<P: Plane> {
    /// What it says.
    pub parts: Vec<P::Part>,
    /// In the order in which they leave.
    pub requests: Vec<P::Request>,
}

/// The state at a moment.
pub struct Cut<P: Plane> {
    /// What fell due by it.
    pub due: Option<P::Due>,
    /// The last of what is written that it comprises.
    pub mark: u64,
    /// The state.
    pub sections: Vec<Section>,
}

/// What is asked of the cloud.
#[derive(Debug)]
pub enum Message {
    /// These chunks, whole.
    Chunks(Vec<ChunkName>),
    /// These cells.
    Cells(CellReads),
}

/// What the cloud answers.
#[derive(Debug)]
pub enum Reply {
    /// As they were asked for.
    Chunks(Vec<Option<bytes::Bytes>>),
    /// As they were asked for.
    Cells(Vec<Cell>),
}

impl Message {
    /// Sends it; nothing that comes is verified yet.
    ///
    /// # Errors
    /// As for an access.
    pub async fn send(&self, store: &dyn Store) -> Result<Reply> {
        match self {
            Self::Chunks(names) => store.read_chunks(names).await.map(Reply::Chunks),
            // Nobody asks for nothing.
            Self::Cells(reads) if reads.is_empty() => Ok(Reply::Cells(Vec::new())),
            Self::Cells(reads) => store.read_cells(reads).await.map(Reply::Cells),
        }
        .map_err(blame)
    }
}
