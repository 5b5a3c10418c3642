//! The master key's file on the trusted side.
//!
//! One line, `fogbank-key-1 <64 hexadecimal digits>`, mode 0600. A file that others can read is
//! refused: the key is then no longer only the user's. A key that is carried elsewhere may be
//! sealed under a passphrase instead (`wrapped`); in its own folder it never is.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rand_core::Rng;
use zeroize::Zeroizing;

use fogbank_env::{create_secret, open_to_others, quoted};

use crate::MasterKey;
use crate::hex::{push_hex, unhex};
use crate::wrapped::{self, WrappedKey};

const PREFIX: &str = "fogbank-key-1 ";
const FILE_BYTES: usize = PREFIX.len() + 64;
/// What is read of a file: a key, sealed under a passphrase or not.
const READ_BYTES: u64 = 512;

/// Why a key file cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Others may read it.
    #[error(
        "the key file {path} can be read by others (mode {mode:04o}); if nobody else has read it, \
         run: chmod 600 {}",
        quoted(.path)
    )]
    ReadableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// There is a store and no key.
    #[error(
        "the key file {path} is missing; put back your copy of it: without the key nobody can read \
         the store (nothing was changed)"
    )]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It is not a key file of this version.
    #[error("{path} is not a fogbank key file; restore it from your copy (nothing was changed)")]
    NotAKey {
        /// The file.
        path: PathBuf,
    },
    /// It is sealed under a passphrase where none is taken.
    #[error(
        "{path} is sealed under a passphrase; put the key itself there: fogbank site join does"
    )]
    Sealed {
        /// The file.
        path: PathBuf,
    },
    /// It is sealed under a passphrase, and not as it was written.
    #[error(
        "{path} is a key under a passphrase that is damaged or cut short; take another copy of it \
         (nothing was changed)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// It asks for more work than any file of ours.
    #[error("{path} asks for {kib} KiB of memory, {passes} times, which is more than it may")]
    TooCostly {
        /// The file.
        path: PathBuf,
        /// Memory.
        kib: u32,
        /// How often it is gone through.
        passes: u32,
    },
    /// The system has not as much memory.
    #[error("there is no memory for the {kib} KiB that the passphrase of {path} takes")]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// Memory.
        kib: u32,
    },
    /// The passphrase does not open it.
    #[error("the passphrase of {path} is another one, or somebody has changed the file")]
    WrongPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot use the key file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
}

/// Reads the master key at `path`, or makes one there from `stream` if there is no file and
/// `may_create`: a missing key of an existing store must not be replaced by another.
///
/// # Errors
/// See [`KeyFileError`]; an existing file is never changed.
pub fn load_or_create(
    path: &Path,
    stream: &mut impl Rng,
    may_create: bool,
) -> Result<MasterKey, KeyFileError> {
    let io = |source| KeyFileError::Io { path: path.to_owned(), source };
    match File::open(path) {
        Ok(file) => match read(path, file)? {
            KeyFile::Plain(master) => Ok(master),
            KeyFile::Wrapped(_) => Err(KeyFileError::Sealed { path: path.to_owned() }),
        },
        Err(e) if e.kind() == ErrorKind::NotFound && may_create => {
            let mut bytes = Zeroizing::new([0; 32]);
            stream.fill_bytes(&mut *bytes);
            let master = MasterKey::from_bytes(&mut bytes);
            write_key(path, &master)?;
            Ok(master)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Err(KeyFileError::Missing { path: path.to_owned() })
        }
        Err(e) => Err(io(e)),
    }
}

/// A key as a file has it.
#[derive(Debug)]
pub enum KeyFile {
    /// The key itself.
    Plain(MasterKey),
    /// Under a passphrase.
    Wrapped(WrappedKey),
}

/// Reads the key at `path`, which may be under a passphrase.
///
/// # Errors
/// See [`KeyFileError`].
pub fn read_key_file(path: &Path) -> Result<KeyFile, KeyFileError> {
    let file =
        File::open(path).map_err(|source| KeyFileError::Io { path: path.to_owned(), source })?;
    read(path, file)
}

/// Writes the key itself to `path`, where nothing is yet.
///
/// # Errors
/// [`KeyFileError::Io`]; what is there stays as it is.
pub fn write_key(path: &Path, master: &MasterKey) -> Result<(), KeyFileError> {
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES + 1));
    text.push_str(PREFIX);
    push_hex(&mut text, master.bytes());
    text.push('\n');
    create_secret(path, text.as_bytes())
        .map_err(|source| KeyFileError::Io { path: path.to_owned(), source })
}

fn read(path: &Path, file: File) -> Result<KeyFile, KeyFileError> {
    let io = |source| KeyFileError::Io { path: path.to_owned(), source };
    if let Some(mode) = open_to_others(&file).map_err(io)? {
        return Err(KeyFileError::ReadableByOthers { path: path.to_owned(), mode });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(READ_BYTES as usize));
    file.take(READ_BYTES).read_to_end(&mut bytes).map_err(io)?;
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    if text.starts_with(wrapped::PREFIX) {
        return WrappedKey::parse(path, text).map(KeyFile::Wrapped);
    }
    parse(text).map(KeyFile::Plain).ok_or(KeyFileError::NotAKey { path: path.to_owned() })
}

fn parse(text: &str) -> Option<MasterKey> {
    let mut bytes = unhex(text.strip_prefix(PREFIX)?.trim_end_matches('\n'))?;
    Some(MasterKey::from_bytes(&mut bytes))
}
