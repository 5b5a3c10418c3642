//! Errors by blame, each saying what to do next.

use fogbank_store::StoreError;

/// Why a store cannot be created, opened or closed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud is absent.
    #[error("{0}; nothing was changed, try again when it answers")]
    Absent(StoreError),
    /// What the cloud returned is forged, stale or missing. One error whatever the cause.
    #[error("the store returned something that does not verify; stopped without using it")]
    CloudLied,
    /// There is no store yet.
    #[error("there is no store at this place")]
    NoStore,
    /// There is a store already.
    #[error("there is a store at this place already")]
    Exists,
    /// The trusted side knows of a store, the cloud has none.
    #[error(
        "the register on the trusted side knows this store but the cloud side is empty; put the \
         cloud side back, or start with a new --data directory"
    )]
    CloudEmpty,
    /// The store exists but the register does not.
    #[error(
        "the freshness register {0} is missing: without it an old copy of the store cannot be told \
         from the newest; restore the trusted side from your backup"
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
    /// Another proxy opened the store after us.
    #[error("another proxy has opened this store; this one stops and has changed nothing since")]
    Fenced,
    /// The last proxy stopped without closing the store.
    #[error(
        "the last proxy did not close this store (it was killed or lost power), and opening it \
         again would read places a second time that the cloud has already seen read; this version \
         cannot recover from that. Start with a new --data directory, or restore a backup of both \
         sides taken while it was closed"
    )]
    NotClosed,
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
            StoreError::Misbehaved(_) => Self::CloudLied,
            StoreError::Caller(reason) => Self::Bug(reason),
        }
    }
}
