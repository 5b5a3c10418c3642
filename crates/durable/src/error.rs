//! Errors by blame, each saying what to do next.

use fogbank_store::StoreError;

use crate::container::{Kind, piece_name};
use crate::journal::record_name;

/// Why a store cannot be created, opened or closed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud is absent.
    #[error("{0}; nothing was changed, try again when it answers")]
    Absent(StoreError),
    /// The cloud allows no more: its operator has to.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// What the cloud returned is forged, stale or missing. One error whatever the cause, and one
    /// behaviour: nothing of it is used and nothing more is sent. What was noticed is for the
    /// operator.
    #[error("the store returned something that does not verify ({0}); stopped without using it")]
    CloudLied(Suspicion),
    /// A call after one that failed or was abandoned: what the cloud has is not known any more.
    #[error("this proxy stopped at an earlier failure; open the store again")]
    Stopped,
    /// There is no store yet.
    #[error("there is no store at this place")]
    NoStore,
    /// There is a store already.
    #[error("there is a store at this place already")]
    Exists,
    /// The trusted side knows of a store, the cloud has none.
    #[error(
        "the register on the trusted side knows this store, and the cloud shows none: it was \
         taken away, or \
         is elsewhere; put the cloud side back, say where it is, or start with a new --data \
         directory"
    )]
    CloudEmpty,
    /// The store exists but the register does not.
    #[error(
        "the freshness register {0} is missing or knows nothing of this store: without it an old \
         copy of the store cannot be told from the newest; put its newest copy back, or accept \
         that risk once with `fogbank recover --accept-rollback-risk`"
    )]
    RegisterLost(String),
    /// The register cannot be read or written.
    #[error("the freshness register {place} cannot be used: {reason}")]
    Register {
        /// Where it is.
        place: String,
        /// What went wrong.
        reason: String,
    },
    /// What the trusted side keeps of the store itself cannot be used.
    #[error("{0}")]
    Near(String),
    /// Another proxy opened the store after us.
    #[error("another proxy has opened this store; this one stops and has changed nothing since")]
    Fenced,
    /// What is asked for is of an epoch of a site that its client has not come to.
    #[error("this client has come to epoch {newest} so far: compare at that")]
    Ahead {
        /// The newest one that it has seen.
        newest: u64,
    },
    /// Opened with settings other than those it was created with.
    #[error("this store was created with other settings: {0}")]
    OtherSettings(String),
    /// A store of another format version.
    #[error("this store has format {found}; this program knows format {known}")]
    Format {
        /// What stands in the commit record.
        found: u16,
        /// What this program writes.
        known: u16,
    },
    /// The caller's checkpoint does not fit its own public lengths, or the like: a fault of ours.
    #[error("internal fault: {0}")]
    Bug(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Absent(_) => Self::Absent(error),
            StoreError::Refused(reason) => Self::Refused(reason),
            StoreError::Near(reason) => Self::Near(reason),
            StoreError::Misbehaved(_) | StoreError::NoArray(_) => Self::CloudLied(Suspicion::Reply),
            StoreError::Caller(reason) => Self::Bug(reason),
        }
    }
}

/// A blob, by what it is for. Its [`std::fmt::Display`] is its name on the cloud, which is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blob {
    /// A journal record.
    Journal {
        /// The epoch that was open.
        epoch: u64,
        /// Its place, from 0.
        place: u64,
    },
    /// A piece of a full checkpoint.
    Checkpoint {
        /// The opening that wrote it.
        opening: u32,
        /// The number of the commit record that named it first.
        sequence: u64,
        /// Which piece, from 0.
        piece: u32,
    },
    /// A piece of the delta of an epoch.
    Delta {
        /// The opening that wrote it.
        opening: u32,
        /// The epoch.
        epoch: u64,
        /// Which piece, from 0.
        piece: u32,
    },
}

impl std::fmt::Display for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&match *self {
            Self::Journal { epoch, place } => record_name(epoch, place),
            Self::Checkpoint { opening, sequence, piece } => {
                piece_name(Kind::Full, opening, sequence, piece)
            }
            Self::Delta { opening, epoch, piece } => piece_name(Kind::Delta, opening, epoch, piece),
        })
    }
}

/// What a store's error means where `blob` was asked for: of a blob that the store itself calls
/// damaged it is known which one it is.
pub(crate) fn asked(error: StoreError, suspicion: Suspicion) -> Error {
    match error {
        StoreError::Misbehaved(_) => Error::CloudLied(suspicion),
        error => error.into(),
    }
}

/// The same where the commit record was asked for.
pub(crate) fn commit_asked(error: StoreError) -> Error {
    asked(error, Suspicion::Commit)
}

/// What was noticed about a cloud that lied, and where: told apart on the trusted side only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// A reply that no store of ours gives.
    Reply,
    /// The commit record is the one that the register knows, and our key does not open it: it is
    /// the key of another store.
    WrongKey,
    /// The commit record does not open by our key, or is none: forged, damaged, or the key is
    /// wrong.
    Commit,
    /// The commit record is of another store than the register.
    OtherStore,
    /// The commit record is older than the register.
    RolledBack,
    /// The commit record is of a history that the register does not know, or newer than it can be.
    Unknown,
    /// The journal ends before the place that the register knows: this record is missing.
    JournalCut(Blob),
    /// A journal record is forged, of another place, or out of the chain.
    Journal(Blob),
    /// The journal goes on further than the register allows: up to this record.
    JournalLong(Blob),
    /// Where our next record goes stands something that nobody has put who has the key.
    Place,
    /// The commit record of a running proxy was taken away, or something else put in its place, by
    /// nobody who has the key.
    CommitReplaced,
    /// It says again and again that the store is being changed, and shows nothing that was.
    Unchanged,
    /// The commit record has a format that this program does not know, and nothing says that it is
    /// genuine.
    Format(u16),
    /// A piece of a checkpoint or delta is missing or is not the one committed.
    Piece(Blob),
    /// What two reads of the configuration returned differs.
    Config,
    /// The header of a site does not open by the key and the id that are given.
    SiteHeader,
    /// Something of a site that many clients share.
    Site(&'static str),
    /// One of two clouds, of this name, never heard of a volume that has served.
    UnknownTo(&'static str),
}

impl Suspicion {
    /// The blob that it is about, if it is about one of many.
    fn blob(&self) -> Option<Blob> {
        match *self {
            Self::JournalCut(blob)
            | Self::Journal(blob)
            | Self::JournalLong(blob)
            | Self::Piece(blob) => Some(blob),
            _ => None,
        }
    }
}

impl std::fmt::Display for Suspicion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reply => "a reply that no store gives",
            Self::WrongKey => "the key is not this store's",
            Self::Commit => {
                "the commit record is forged or damaged, or the key is not this store's: do \
                 --store and --data belong together?"
            }
            Self::OtherStore => "the register is another store's",
            Self::RolledBack => "the store is older than the register: it was rolled back",
            Self::Unknown => {
                "the register does not know this state: the store was forked, or the register is \
                 an old copy"
            }
            Self::JournalCut(_) => "the journal is shorter than the register says",
            Self::Journal(_) => "a journal record is forged or misplaced",
            Self::JournalLong(_) => "the journal is longer than the register allows",
            Self::Place => "a place of the journal is taken, by nobody who has the key",
            Self::CommitReplaced => {
                "the commit record was taken away or replaced, by nobody who has the key"
            }
            Self::Unchanged => "it says that the store was changed meanwhile and shows no change",
            Self::Format(found) => {
                return write!(
                    f,
                    "the commit record claims format {found}, which this program does not know, \
                     and nothing proves that it is genuine: it is forged, or a newer version of \
                     fogbank was killed while it wrote it"
                );
            }
            Self::Piece(_) => "a piece of a checkpoint is missing or changed",
            Self::Config => "two reads of the configuration differ",
            Self::SiteHeader => "its header does not open: the key or the id is of another site",
            Self::Site(what) => what,
            Self::UnknownTo(cloud) => {
                return write!(f, "the {cloud} cloud knows nothing of this volume");
            }
        })?;
        self.blob().map_or(Ok(()), |blob| write!(f, ": {blob}"))
    }
}
