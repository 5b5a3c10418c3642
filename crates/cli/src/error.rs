//! What ends a command, and with which exit code.

use std::process::ExitCode;

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
    /// Our fault.
    #[error("internal fault: {0}; please report it")]
    Bug(String),
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The exit code: 1 a check failed, 3 too little data, 64 wrong usage, others as sysexits.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::CheckFailed(_) => 1,
            Self::TooFewData(_) => 3,
            Self::Usage(_) => 64,
            Self::Absent(_) => 69,
            Self::Bug(_) => 70,
            Self::CannotUse(_) => 74,
        })
    }
}

impl From<fogbank_durable::Error> for Error {
    fn from(error: fogbank_durable::Error) -> Self {
        use fogbank_durable::Error as E;
        match &error {
            E::Absent(_) => Self::Absent(error.to_string()),
            E::CloudLied(_) | E::Fenced | E::Stopped => Self::CheckFailed(error.to_string()),
            E::OtherSettings(_) | E::Format { .. } | E::Exists | E::NoStore => {
                Self::Usage(error.to_string())
            }
            E::CloudEmpty | E::RegisterLost(_) | E::Register { .. } | E::NotClosed => {
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
            E::CloudLied | E::Fenced => Self::CheckFailed(error.to_string()),
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
            E::Stopped(_) => Self::CheckFailed(error.to_string()),
            E::BadCheckpoint(_) => Self::Bug(error.to_string()),
            _ => Self::Usage(error.to_string()),
        }
    }
}
