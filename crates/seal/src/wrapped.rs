//! A master key under a passphrase, in a file that carries it to another machine.
//!
//! One line, mode 0600, of words:
//! ```text
//! fogbank-wrapped-key-1
//! KIB PASSES   decimal: what Argon2id takes
//! SALT         32 hexadecimal digits, drawn for this file
//! SEALED       96: AES-256-GCM(Argon2id(passphrase, SALT, KIB, PASSES, 1 lane); nonce 0; key),
//!              bound to all before it
//! CHECK        16: the first 8 bytes of the SHA-256 of all before it
//! ```
//! 1. *Read*: the check says whether the file is whole; only then KIB and PASSES count, and only
//!    within bounds: a file costs no more than a few seconds and a gigabyte.
//! 2. *Open*: what does not open is another passphrase, or somebody's doing.
//!
//! # Invariant
//! A salt, and so a key, seals one plaintext. What the key was derived in is erased.

use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::aead::{Aad, Nonce};
use fogbank_env::create_secret;
use rand_core::Rng;
use zeroize::Zeroizing;

use crate::cell::aes_256_gcm;
use crate::hex::{push_hex, unhex};
use crate::{KeyFileError, MasterKey, Passphrase, TAG_BYTES, digest};

pub(crate) const PREFIX: &str = "fogbank-wrapped-key-1 ";
const SEALED_BYTES: usize = 32 + TAG_BYTES;
/// KiB that a file may ask for at most: a gigabyte.
const MOST_KIB: u32 = 1 << 20;
/// KiB times passes.
const MOST_WORK: u64 = 4 << 20;

/// What it takes to try a passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Memory.
    pub kib: u32,
    /// How often it is gone through.
    pub passes: u32,
}

impl Effort {
    /// A quarter of a gigabyte three times: about a second.
    pub const USUAL: Self = Self { kib: 256 << 10, passes: 3 };

    fn is_bounded(self) -> bool {
        self.kib <= MOST_KIB && u64::from(self.kib) * u64::from(self.passes) <= MOST_WORK
    }
}

/// A key that waits for its passphrase.
#[derive(Debug)]
pub struct WrappedKey {
    path: PathBuf,
    effort: Effort,
    salt: [u8; 16],
    /// What the sealed key is bound to.
    bound: String,
    sealed: [u8; SEALED_BYTES],
}

impl WrappedKey {
    /// That which `text`, from the file `path`, has.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, KeyFileError> {
        let damaged = || KeyFileError::Damaged { path: path.to_owned() };
        let line = text.strip_suffix('\n').unwrap_or(text);
        let (checked, check) = line.rsplit_once(' ').ok_or_else(damaged)?;
        if unhex(check).is_none_or(|check| *check != check_of(checked)) {
            return Err(damaged());
        }
        let (bound, sealed) = checked.rsplit_once(' ').ok_or_else(damaged)?;
        let words: Vec<&str> = bound.split(' ').collect();
        let &[_, kib, passes, salt] = &words[..] else { return Err(damaged()) };
        let number = |word: &str| word.parse::<u32>().ok().filter(|number| *number > 0);
        let (kib, passes) = number(kib).zip(number(passes)).ok_or_else(damaged)?;
        let effort = Effort { kib, passes };
        if !effort.is_bounded() {
            return Err(KeyFileError::TooCostly { path: path.to_owned(), kib, passes });
        }
        let (salt, sealed) = unhex(salt).zip(unhex(sealed)).ok_or_else(damaged)?;
        let (path, bound) = (path.to_owned(), bound.to_owned());
        Ok(Self { path, effort, salt: *salt, bound, sealed: *sealed })
    }

    /// The key, by its passphrase. Takes about a second.
    ///
    /// # Errors
    /// [`KeyFileError::WrongPassphrase`], [`KeyFileError::NoMemory`].
    pub fn open(&self, passphrase: &Passphrase) -> Result<MasterKey, KeyFileError> {
        let key = derive(&self.path, passphrase, &self.salt, self.effort)?;
        let mut bytes = Zeroizing::new([0; 32]);
        let (ciphertext, tag) = self.sealed.split_at(32);
        let bound = Aad::from(self.bound.as_bytes());
        aes_256_gcm(&key)
            .open_separate_gather(nonce(), bound, ciphertext, tag, &mut *bytes)
            .map_err(|_| KeyFileError::WrongPassphrase { path: self.path.clone() })?;
        Ok(MasterKey::from_bytes(&mut bytes))
    }
}

/// Writes `master` under a passphrase to the new file `path`. Takes about a second.
///
/// # Errors
/// [`KeyFileError::Io`], [`KeyFileError::NoMemory`]; [`KeyFileError::TooCostly`] of an effort that
/// no file may ask for.
pub fn wrap_key(
    path: &Path,
    master: &MasterKey,
    passphrase: &Passphrase,
    effort: Effort,
    stream: &mut impl Rng,
) -> Result<(), KeyFileError> {
    let Effort { kib, passes } = effort;
    if !effort.is_bounded() {
        return Err(KeyFileError::TooCostly { path: path.to_owned(), kib, passes });
    }
    let mut salt = [0; 16];
    stream.fill_bytes(&mut salt);
    let mut text = format!("{PREFIX}{kib} {passes} ");
    push_hex(&mut text, &salt);
    let key = derive(path, passphrase, &salt, effort)?;
    let mut sealed = Zeroizing::new(*master.bytes());
    let tag = aes_256_gcm(&key)
        .seal_in_place_separate_tag(nonce(), Aad::from(text.as_bytes()), &mut *sealed)
        .expect("AES-GCM seals 32 bytes");
    text.push(' ');
    push_hex(&mut text, &*sealed);
    push_hex(&mut text, tag.as_ref());
    let check = check_of(&text);
    text.push(' ');
    push_hex(&mut text, &check);
    text.push('\n');
    create_secret(path, text.as_bytes())
        .map_err(|source| KeyFileError::Io { path: path.to_owned(), source })
}

/// A key that seals one file alone.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn check_of(text: &str) -> [u8; 8] {
    let whole = digest(&[text.as_bytes()]);
    let mut check = [0; 8];
    check.copy_from_slice(&whole[..8]);
    check
}

fn derive(
    path: &Path,
    passphrase: &Passphrase,
    salt: &[u8; 16],
    Effort { kib, passes }: Effort,
) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    let none = || KeyFileError::NoMemory { path: path.to_owned(), kib };
    let too_costly = |_| KeyFileError::TooCostly { path: path.to_owned(), kib, passes };
    let parameters = Params::new(kib, passes, 1, Some(32)).map_err(too_costly)?;
    let mut memory = Zeroizing::new(Vec::new());
    memory.try_reserve_exact(parameters.block_count()).map_err(|_| none())?;
    memory.resize(parameters.block_count(), Block::default());
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters)
        .hash_password_into_with_memory(passphrase.bytes(), salt, &mut *key, &mut **memory)
        .map_err(too_costly)?;
    Ok(key)
}
