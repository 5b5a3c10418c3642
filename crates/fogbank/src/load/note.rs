//! What the trusted side keeps while a store is filled from a file, so that the filling can go on
//! after a stop: which file it was, and where the addresses of its records come from.
//!
//! It is in the marker that says that the store is not whole yet, with the key beside it, and goes
//! with the marker. None of it is ever in the cloud.

use std::path::Path;

use fogbank_env::{Purpose, Randomness};
use rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::source::Fingerprint;
use crate::error::{Error, Result};
use crate::fill::MARKER;

/// The file that says from what the store beside it was loaded: what the note says but for the
/// seed.
const LOADED: &str = "loaded";

/// What was loaded to its end.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Finished {
    file: Fingerprint,
    skip_unsupported: bool,
}

/// The note of one filling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    /// The file.
    pub file: Fingerprint,
    /// Whether keys that cannot be stored were left out.
    pub skip_unsupported: bool,
    /// The seed of the records' addresses: a filling that goes on gives each the one that it had.
    pub seed: [u8; 32],
}

impl Note {
    /// That of a new filling.
    pub fn new(file: Fingerprint, skip_unsupported: bool, randomness: &Randomness) -> Self {
        let mut seed = [0; 32];
        randomness.stream(Purpose::Allocation).fill_bytes(&mut seed);
        Self { file, skip_unsupported, seed }
    }

    /// The one in the folder `trusted`, if a filling from a file was begun there.
    pub fn read(trusted: &Path) -> Result<Option<Self>> {
        let marker = trusted.join(MARKER);
        match std::fs::read(&marker) {
            Ok(text) if text.is_empty() => Ok(None), // a restore's
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|_| {
                let words = "it is damaged; remove both sides of the store, and load again";
                Error::CannotUse(format!("{}: {words}", marker.display()))
            }),
            Err(_) => Ok(None),
        }
    }

    /// Remembers in the folder `trusted` that this was loaded. Until the marker goes, it says
    /// nothing.
    pub fn keep_as_finished(&self, trusted: &Path) -> Result<()> {
        let Self { file, skip_unsupported, .. } = self.clone();
        let finished = serde_json::to_vec(&Finished { file, skip_unsupported });
        let path = trusted.join(LOADED);
        fogbank_env::write_secret(&path, &finished.map_err(|e| Error::Bug(e.to_string()))?)
            .map_err(|e| Error::CannotUse(format!("{}: {e}", path.display())))
    }

    /// Whether the store in `trusted` was loaded from the same, to its end.
    pub fn is_finished(&self, trusted: &Path) -> bool {
        let Ok(text) = std::fs::read(trusted.join(LOADED)) else { return false };
        let there = trusted.join("key").exists() && !trusted.join(MARKER).exists();
        let is_same = |done: Finished| {
            (done.file, done.skip_unsupported) == (self.file.clone(), self.skip_unsupported)
        };
        there && serde_json::from_slice(&text).is_ok_and(is_same)
    }

    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::Bug(e.to_string()))
    }

    pub fn randomness(&self) -> Randomness {
        Randomness::from_seed(self.seed)
    }
}
