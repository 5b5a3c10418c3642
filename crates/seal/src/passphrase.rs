//! Passphrases: as a file has one, or as somebody has typed it.
//!
//! In a file it is the first line, without its end. A file that others can read is refused.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use fogbank_env::{open_to_others, quoted};
use zeroize::Zeroizing;

/// Characters that one has at least.
const SHORTEST: usize = 12;
/// Bytes that one has at most.
pub const LONGEST: usize = 1024;

/// A passphrase; erased when dropped and never printed.
pub struct Passphrase(Zeroizing<String>);

/// Why something is no passphrase, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    /// There is nothing.
    #[error("the passphrase is empty; it has at least {SHORTEST} characters")]
    Empty,
    /// It could be guessed.
    #[error("the passphrase has {0} characters; it has at least {SHORTEST}: take some words more")]
    Short(usize),
    /// It is too long, or no text.
    #[error("the passphrase is no text of at most {LONGEST} bytes")]
    NotText,
    /// Others may read its file.
    #[error(
        "the passphrase file {path} can be read by others (mode {mode:04o}); if nobody else has \
         read it, run: chmod 600 {}",
        quoted(.path)
    )]
    ReadableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file system refused.
    #[error("cannot read the passphrase file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
}

impl Passphrase {
    /// The first line of `bytes`, without its end.
    ///
    /// # Errors
    /// If it is none: see [`PassphraseError`].
    pub fn of_line(bytes: &[u8]) -> Result<Self, PassphraseError> {
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).ok().filter(|text| text.len() <= LONGEST);
        let text = text.ok_or(PassphraseError::NotText)?;
        match text.chars().count() {
            0 => Err(PassphraseError::Empty),
            count if count < SHORTEST => Err(PassphraseError::Short(count)),
            _ => Ok(Self(Zeroizing::new(text.to_owned()))),
        }
    }

    /// That of a file, which only its owner can read.
    ///
    /// # Errors
    /// See [`PassphraseError`].
    pub fn read(path: &Path) -> Result<Self, PassphraseError> {
        let io = |source| PassphraseError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if let Some(mode) = open_to_others(&file).map_err(io)? {
            return Err(PassphraseError::ReadableByOthers { path: path.to_owned(), mode });
        }
        let most = LONGEST + 2;
        let mut bytes = Zeroizing::new(Vec::with_capacity(most));
        file.take(most as u64).read_to_end(&mut bytes).map_err(io)?;
        Self::of_line(&bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether both are the same.
    pub fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase(..)")
    }
}
