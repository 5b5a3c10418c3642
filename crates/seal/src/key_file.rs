//! The master key's file on the trusted side.
//!
//! One line, `fogbank-key-1 <64 hexadecimal digits>`, mode 0600. A file that others can read is
//! refused: the key is then no longer only the user's.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rand_core::Rng;
use zeroize::Zeroizing;

use fogbank_env::{create_secret, open_to_others};

use crate::MasterKey;

const PREFIX: &str = "fogbank-key-1 ";
const FILE_BYTES: usize = PREFIX.len() + 64;

/// Why a key file cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Others may read it.
    #[error(
        "the key file {path} can be read by others (mode {mode:04o}); if nobody else has read it, \
         run: chmod 600 {path}"
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
        Ok(file) => load(path, file),
        Err(e) if e.kind() == ErrorKind::NotFound && may_create => create(path, stream).map_err(io),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Err(KeyFileError::Missing { path: path.to_owned() })
        }
        Err(e) => Err(io(e)),
    }
}

fn load(path: &Path, file: File) -> Result<MasterKey, KeyFileError> {
    let io = |source| KeyFileError::Io { path: path.to_owned(), source };
    if let Some(mode) = open_to_others(&file).map_err(io)? {
        return Err(KeyFileError::ReadableByOthers { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES + 2));
    file.take(FILE_BYTES as u64 + 2).read_to_string(&mut text).map_err(io)?;
    parse(&text).ok_or(KeyFileError::NotAKey { path: path.to_owned() })
}

fn parse(text: &str) -> Option<MasterKey> {
    let digits = text.strip_prefix(PREFIX)?.trim_end_matches('\n').as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = Zeroizing::new([0; 32]);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (hex_value(pair[0])? << 4) | hex_value(pair[1])?;
    }
    Some(MasterKey::from_bytes(&mut bytes))
}

fn hex_value(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|v| v as u8)
}

fn create(path: &Path, stream: &mut impl Rng) -> std::io::Result<MasterKey> {
    let mut bytes = Zeroizing::new([0; 32]);
    stream.fill_bytes(&mut *bytes);
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES + 1));
    text.push_str(PREFIX);
    for byte in bytes.iter() {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text.push('\n');
    create_secret(path, text.as_bytes())?;
    Ok(MasterKey::from_bytes(&mut bytes))
}
