//! The messages, byte for byte: a length of 4 bytes, a kind of 1, and fields in the order in which
//! they stand here.
//!
//! Numbers: partition 2 bytes, level 1, place 4, read 8, generation 8 (big-endian). A seed and a
//! digest have 32, a record 16, a signature 64.

use crate::shape::Generation;
use crate::signed::Signature;
use crate::wire::{Field, Reader};
use crate::{Cells, Error, Marks, Result, Seed};

/// A digest of sums.
pub type Digest = [u8; 32];
/// What the client keeps of a cell at the holder: its two sums, sealed. The holder cannot read it.
pub type Record = [u8; 16];

/// Bytes of length and kind.
pub const HEADER_BYTES: usize = 5;

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn take(from: &mut Reader<'_>) -> Result<Self> {
                Ok(Self { $($field: Field::take(from)?,)* })
            }
        }
    )*};
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident { $($kind:literal $variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = concat!("See [`", stringify!($variant), "`].")] $variant($variant),)*
        }

        $(impl From<$variant> for $name {
            fn from(message: $variant) -> Self {
                Self::$variant(message)
            }
        })*

        impl $name {
            /// The message as it goes over a link.
            pub fn encode(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.encode_into(&mut out);
                out
            }

            /// Puts the message behind `out`, as it goes over a link.
            pub fn encode_into(&self, out: &mut Vec<u8>) {
                let from = out.len();
                match self {
                    $(Self::$variant(message) => {
                        out.extend([0, 0, 0, 0, $kind]);
                        message.put(out);
                    })*
                }
                let length = (out.len() - from - HEADER_BYTES) as u32;
                out[from..from + 4].copy_from_slice(&length.to_be_bytes());
            }

            /// What [`Self::encode`] made; its cells have so many bytes.
            ///
            /// # Errors
            /// [`Error::Other`] for anything else.
            pub fn decode(bytes: &[u8], cell_bytes: usize) -> Result<Self> {
                let mut reader = Reader::new(bytes, cell_bytes);
                let length = u32::take(&mut reader)?;
                if length as usize + HEADER_BYTES != bytes.len() {
                    return Err(Error::Other("a message of another length than it says"));
                }
                let message = match u8::take(&mut reader)? {
                    $($kind => Self::$variant(Field::take(&mut reader)?),)*
                    _ => return Err(Error::Other("a message of no kind")),
                };
                reader.end()?;
                Ok(message)
            }
        }
    )*};
}

fields! {
    /// A cell of a level.
    Place {
        /// Which level.
        level: u8,
        /// The job that wrote it.
        generation: Generation,
        /// Which of its cells.
        place: u32,
    }
    /// A level that a job reads.
    Source {
        /// Which level.
        level: u8,
        /// The job that wrote it.
        generation: Generation,
    }
    /// Read these cells and send them to the shuffler, covered.
    Look {
        /// Which read it is.
        read: u64,
        /// Of which partition.
        partition: u16,
        /// What covers the cells.
        pads: Seed,
        /// The cells, in a secret order.
        places: Vec<Place>,
    }
    /// Send the client the records of all cells of these levels.
    Recall {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// The levels.
        sources: Sources,
    }
    /// Send the shuffler all cells of these levels: it has lost them.
    Hand {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// The levels.
        sources: Sources,
    }
    /// Send the shuffler the marked cells, covered, and the client their records.
    Carry {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// The levels.
        sources: Sources,
        /// What covers the cells.
        pads: Seed,
        /// A mark a cell of the levels, in storage order.
        list: Marks,
    }
    /// Send the client the marked cells and their records.
    Fetch {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// The levels.
        sources: Sources,
        /// A mark a cell of the levels, in storage order.
        list: Marks,
    }
    /// The records of a new level.
    NewRecords {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// A record a cell, in storage order, and a last one, the seal of all.
        records: Vec<Record>,
    }
    /// The level counts, and what its job read is needed no more.
    Commit {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
    }
    /// Send the client one of the cells of a read, and a digest of all.
    Want {
        /// Which read it is.
        read: u64,
        /// Of which partition.
        partition: u16,
        /// How many cells there will be.
        cells: u8,
        /// Which of them.
        index: u8,
    }
    /// Make a level.
    Mix {
        /// Of which partition.
        partition: u16,
        /// Which level.
        level: u8,
        /// The job.
        generation: Generation,
        /// What it reads.
        sources: Sources,
        /// Its order.
        order: Seed,
        /// What covers its cells.
        pads: Seed,
    }
    /// Sealed blocks for a job.
    Upload {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// The blocks.
        cells: Cells,
    }
    /// Send the client what came from the other cloud for a job, as it was signed.
    Prove {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
    }
    /// Send the client what came from the holder for a read, as it was signed.
    ProveRead {
        /// Of which partition.
        partition: u16,
        /// Which read it is.
        read: u64,
    }
    /// What covers the cells that the holder hands over.
    Strip {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// A seed a level of its sources.
        pads: Vec<Seed>,
    }
    /// The cells of a read, covered.
    Blinded {
        /// Which read it is.
        read: u64,
        /// Of the holder.
        signature: Signature,
        /// The cells, in the order in which they were named.
        cells: Cells,
    }
    /// The cells that a rebuild of the top carries, covered.
    Moved {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// Of the holder.
        signature: Signature,
        /// The cells, in storage order.
        cells: Cells,
    }
    /// All cells of the levels that a job reads, as they are stored.
    Handed {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// Of the holder.
        signature: Signature,
        /// The cells, in storage order.
        cells: Cells,
    }
    /// A new level, for its holder.
    Level {
        /// Of which partition.
        partition: u16,
        /// Which level.
        level: u8,
        /// The job.
        generation: Generation,
        /// Of the shuffler.
        signature: Signature,
        /// The cells, in storage order.
        cells: Cells,
    }
    /// Records of the cells of a read.
    Records {
        /// Which read it is.
        read: u64,
        /// In the order in which the cells were named.
        records: Vec<Record>,
    }
    /// Records of the cells that a job reads.
    JobRecords {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// In storage order; of whole levels the seal of each behind its records.
        records: Vec<Record>,
    }
    /// Cells that a refresh fetches.
    Fetched {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// The cells, in storage order.
        cells: Cells,
    }
    /// The new level is durable.
    LevelDigest {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// Of the sums of its cells.
        digest: Digest,
    }
    /// The records of the new level are durable.
    Stored {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
    }
    /// What came from the other cloud, as it was signed; no cells if it is not here.
    Proof {
        /// Of the other cloud.
        signature: Signature,
        /// All of it.
        cells: Cells,
    }
    /// The cell that was wanted.
    Answer {
        /// Which read it is.
        read: u64,
        /// Of the sums of all cells of the read.
        digest: Digest,
        /// The one, covered.
        cells: Cells,
    }
    /// What the holder sent for a job has come.
    MovedDigest {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
        /// Of the sums of those cells.
        digest: Digest,
    }
    /// The levels that a job reads are not here any more: they have to be handed over.
    Lost {
        /// Of which partition.
        partition: u16,
        /// The job.
        generation: Generation,
    }
}

impl ToHolder {
    /// Which partition it is about.
    pub fn partition(&self) -> u16 {
        match self {
            Self::Look(Look { partition, .. })
            | Self::Commit(Commit { partition, .. })
            | Self::Prove(Prove { partition, .. }) => *partition,
            Self::Recall(Recall { partition, .. })
            | Self::Hand(Hand { partition, .. })
            | Self::Carry(Carry { partition, .. })
            | Self::Fetch(Fetch { partition, .. })
            | Self::NewRecords(NewRecords { partition, .. }) => *partition,
        }
    }

    /// The job that it names, and its partition. A commit names none: it ends one. Nor does whoever
    /// asks for a proof.
    pub fn job(&self) -> Option<(u16, Generation)> {
        match self {
            Self::Look(_) | Self::Commit(_) | Self::Prove(_) => None,
            Self::Recall(Recall { partition, generation, .. })
            | Self::Hand(Hand { partition, generation, .. })
            | Self::Carry(Carry { partition, generation, .. })
            | Self::Fetch(Fetch { partition, generation, .. })
            | Self::NewRecords(NewRecords { partition, generation, .. }) => {
                Some((*partition, *generation))
            }
        }
    }
}

impl ToShuffler {
    /// Which partition it is about.
    pub fn partition(&self) -> u16 {
        match self {
            Self::Want(Want { partition, .. })
            | Self::Mix(Mix { partition, .. })
            | Self::Upload(Upload { partition, .. })
            | Self::Strip(Strip { partition, .. })
            | Self::Prove(Prove { partition, .. })
            | Self::ProveRead(ProveRead { partition, .. })
            | Self::Commit(Commit { partition, .. }) => *partition,
        }
    }
}

/// A place in a client's journal: how many epochs were committed, and how many records the next one
/// has. What stands in the journal before it may have been seen. It only rises, and is public: a
/// cloud sees when what was journalled leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Reached {
    /// Epochs committed.
    pub epoch: u64,
    /// Records of the one after that.
    pub place: u64,
}

impl Field for Reached {
    fn put(&self, out: &mut Vec<u8>) {
        self.epoch.put(out);
        self.place.put(out);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { epoch: u64::take(from)?, place: u64::take(from)? })
    }
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "record {} of epoch {}", self.place, self.epoch)
    }
}

impl Reached {
    /// Bytes of one.
    pub const BYTES: usize = 8 + 8;

    /// As it goes over a link.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        self.put(&mut out);
        out
    }

    /// What [`Reached::encode`] made.
    ///
    /// # Errors
    /// [`crate::Error::Other`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, 1);
        let reached = Self::take(&mut reader)?;
        reader.end().map(|()| reached)
    }
}

/// The levels that a job reads, from the lowest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources(pub Vec<Source>);

impl Sources {
    /// Whether they are of levels below `levels`, each named once, from the lowest.
    pub fn rise_below(&self, levels: u8) -> bool {
        self.0.is_sorted_by(|below, above| below.level < above.level)
            && self.0.last().is_none_or(|highest| highest.level < levels)
    }
}

impl Field for Sources {
    fn put(&self, out: &mut Vec<u8>) {
        (self.0.len() as u8).put(out);
        self.0.put(out);
    }
    fn take(from: &mut Reader<'_>) -> Result<Self> {
        (0..u8::take(from)?).map(|_| Source::take(from)).collect::<Result<_>>().map(Self)
    }
}

kinds! {
    /// From the client to a holder.
    ToHolder { 1 Look, 2 Recall, 3 Hand, 4 Carry, 5 Fetch, 6 NewRecords, 7 Commit, 8 Prove, }
    /// From the client to a shuffler.
    ToShuffler { 1 Want, 2 Mix, 3 Upload, 4 Strip, 5 Commit, 6 Prove, 7 ProveRead, }
    /// From the client to a cloud, about their session.
    ToSession { 1 Reached, }
    /// From a holder to the shuffler.
    Across { 1 Blinded, 2 Moved, 3 Handed, }
    /// From a shuffler to the holder.
    Back { 1 Level, }
    /// From a holder to the client.
    FromHolder { 1 Records, 2 JobRecords, 3 Fetched, 4 LevelDigest, 5 Stored, 6 Proof, }
    /// From a shuffler to the client.
    FromShuffler { 1 Answer, 2 MovedDigest, 3 Lost, 4 Proof, }
}
