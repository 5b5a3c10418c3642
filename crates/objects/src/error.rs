//! Errors by blame, in words of our own: an error of the library may quote a server's reply, which
//! may quote our request.

use std::error::Error;

use fogbank_store::StoreError;

/// Why a request brought nothing, carried through the library as the cause of its own error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Failure {
    pub blame: Blame,
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// No answer, or one that says not now.
    Absent,
    /// An answer that cannot be one to what was asked.
    Misbehaved,
    /// An answer that says not you, or not this.
    Denied,
    /// There is nothing to ask with: at opening the settings are wrong.
    Unset,
    /// An answer that says somewhere else: at opening the settings are wrong.
    Elsewhere,
    /// An answer that says that all of it is gone: at opening the settings are wrong, unless
    /// somebody knows that it was there ([`is_gone`]).
    Gone,
}

impl Failure {
    pub(crate) fn absent(words: impl Into<String>) -> Self {
        Self { blame: Blame::Absent, words: words.into() }
    }

    pub(crate) fn misbehaved(words: impl Into<String>) -> Self {
        Self { blame: Blame::Misbehaved, words: words.into() }
    }

    pub(crate) fn denied(words: impl Into<String>) -> Self {
        Self { blame: Blame::Denied, words: words.into() }
    }

    pub(crate) fn unset(words: impl Into<String>) -> Self {
        Self { blame: Blame::Unset, words: words.into() }
    }

    pub(crate) fn elsewhere(words: impl Into<String>) -> Self {
        Self { blame: Blame::Elsewhere, words: words.into() }
    }

    pub(crate) fn gone(words: impl Into<String>) -> Self {
        Self { blame: Blame::Gone, words: words.into() }
    }
}

impl From<Failure> for StoreError {
    /// What it means while a store is open; at opening see [`at_opening`].
    fn from(failure: Failure) -> Self {
        match failure.blame {
            Blame::Absent | Blame::Elsewhere => Self::Absent(failure.words),
            Blame::Denied | Blame::Unset => Self::Refused(failure.words),
            Blame::Misbehaved | Blame::Gone => Self::Misbehaved(failure.words),
        }
    }
}

/// What failed, out of what the library made of it.
pub(crate) fn failure(error: &object_store::Error) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(failure) = found.downcast_ref::<Failure>() {
            return failure.clone();
        }
        cause = found.source();
    }
    match error {
        // Ours are paths; an object of another name is not what we put there.
        object_store::Error::InvalidPath { .. } => {
            Failure::misbehaved("a list with a name that is no path")
        }
        other => Failure::absent(shortened(&other.to_string())),
    }
}

pub(crate) fn store_error(error: &object_store::Error) -> StoreError {
    failure(error).into()
}

/// The same while a store is being opened, where what is elsewhere, or not there, is the caller's
/// to put right. To deny is the provider's, then as ever.
pub(crate) fn at_opening(failure: Failure) -> StoreError {
    match failure.blame {
        Blame::Elsewhere | Blame::Gone | Blame::Unset => StoreError::Caller(failure.words),
        _ => failure.into(),
    }
}

/// Whether these words of a store that is opened say that there is nothing where it should be.
/// Whoever has had a store there knows better than to blame the settings.
pub fn is_gone(words: &str) -> bool {
    [NO_BUCKET, NO_TABLE].iter().any(|gone| words.starts_with(gone))
}

pub(crate) const NO_BUCKET: &str = "there is no such bucket (container)";
pub(crate) const NO_TABLE: &str = "there is no such table in this region";

/// What the library itself has to say (a credentials file it cannot read, a reply it cannot parse).
fn shortened(words: &str) -> String {
    words.chars().take(WORDS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

const WORDS_MAX: usize = 300;
