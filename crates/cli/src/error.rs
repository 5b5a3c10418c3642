//! What ends a command, and with which exit code.

use std::process::ExitCode;

use fogbank_durable::Suspicion;
use fogbank_oram::Unverified;

/// Why a command ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was typed cannot be done; the text says what to type instead.
    #[error("{0}")]
    Usage(String),
    /// A check failed: what was measured is not what was stored, or the cloud lied.
    #[error("{0}")]
    CheckFailed(String),
    /// There was too little data for a check to say anything.
    #[error("{0}")]
    TooFewData(String),
    /// A file or folder of the trusted side cannot be used.
    #[error("{0}")]
    CannotUse(String),
    /// The store is absent.
    #[error("{0}")]
    Absent(String),
    /// The store allows no more: its operator has to.
    #[error("{0}")]
    Refused(String),
    /// A signal ended the command before it was done.
    #[error("stopped by a signal")]
    Interrupted,
    /// Our fault.
    #[error("internal fault: {0}; please report it")]
    Bug(String),
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The exit code: 1 a check failed, 3 too little data, 64 wrong usage, 130 a signal, others as sysexits.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::CheckFailed(_) => 1,
            Self::TooFewData(_) => 3,
            Self::Usage(_) => 64,
            Self::Absent(_) => 69,
            Self::Bug(_) => 70,
            Self::CannotUse(_) => 74,
            Self::Refused(_) => 77,
            Self::Interrupted => 130,
        })
    }
}

impl From<fogbank_durable::Error> for Error {
    fn from(error: fogbank_durable::Error) -> Self {
        use fogbank_durable::Error as E;
        match &error {
            E::Absent(_) => Self::Absent(error.to_string()),
            E::Refused(_) => Self::Refused(error.to_string()),
            E::CloudLied(suspicion) => Self::CheckFailed(format!("{error}{}", way_on(*suspicion))),
            E::Fenced | E::Stopped => Self::CheckFailed(error.to_string()),
            E::OtherSettings(_) | E::Format { .. } | E::Exists | E::NoStore => {
                Self::Usage(error.to_string())
            }
            E::CloudEmpty | E::RegisterLost(_) | E::Register { .. } => {
                Self::CannotUse(error.to_string())
            }
            E::Bug(reason) => Self::Bug(reason.clone()),
        }
    }
}

impl From<fogbank_oram::Error> for Error {
    fn from(error: fogbank_oram::Error) -> Self {
        use fogbank_oram::Error as E;
        match error {
            E::Absent(_) => Self::Absent(error.to_string()),
            E::Refused(_) => Self::Refused(error.to_string()),
            E::CloudLied(ref place) => {
                let next = match place {
                    Unverified::Vault(suspicion) => way_on(*suspicion),
                    _ => PAST_LOST_CELLS.into(),
                };
                Self::CheckFailed(format!("{error}{next}"))
            }
            E::Fenced => Self::CheckFailed(error.to_string()),
            E::Register(reason) => Self::CannotUse(reason),
            E::Caller(reason) => Self::Usage(reason),
            E::Bug(reason) => Self::Bug(reason),
        }
    }
}

impl From<fogbank_txn::Error> for Error {
    fn from(error: fogbank_txn::Error) -> Self {
        use fogbank_txn::Error as E;
        match error {
            E::Stopped(engine) => engine.into(),
            E::BadCheckpoint(_) => Self::Bug(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}

impl Error {
    /// Whether it would help to go on with what the cloud shows: then the error itself says so. Anything else,
    /// a store that is in use among it, is no reason to give freshness up.
    pub fn is_mended_by_acceptance(&self) -> bool {
        let of_freshness = matches!(self, Self::CheckFailed(_) | Self::CannotUse(_));
        of_freshness && self.to_string().contains("--accept-rollback-risk")
    }
}

/// What whoever reads this can do about what the cloud showed.
fn way_on(suspicion: Suspicion) -> String {
    match suspicion {
        Suspicion::WrongKey => "; put back the key of this store".into(),
        Suspicion::OtherStore | Suspicion::RolledBack | Suspicion::Unknown => ELSEWHERE.into(),
        Suspicion::JournalCut(_) | Suspicion::Journal(_) | Suspicion::JournalLong(_) => {
            format!(
                "{ELSEWHERE}. What a store of keys has committed needs no journal: `fogbank backup \
                 --salvage` keeps it"
            )
        }
        Suspicion::Piece(_) => {
            "; without it no block can be found, so nothing can be salvaged: put back what the \
             cloud held before, or restore a backup (fogbank restore)"
                .into()
        }
        _ => "; put back what the cloud held before, or restore a backup".into(),
    }
}

/// Where the register and what the cloud shows are of two histories.
const ELSEWHERE: &str = "; is another proxy running on this store, or was one since, from a copy \
    of the trusted side (DIR/proxy) elsewhere? Then go on there, and with nothing here. If not, \
    put the newest copy of that side back which is old, or, if there is none, go on with what the \
    cloud shows by `fogbank recover --accept-rollback-risk`";

/// What can be done when cells do not verify.
const PAST_LOST_CELLS: &str = "; put back what the cloud held there, or restore a backup (fogbank \
    restore). Of a store of keys `fogbank backup --salvage` keeps every record that verifies and \
    names those that are lost, and `fogbank verify --repair --to NEWDIR` makes a new store of them";
