//! By what a server knows its clients: 32 random bytes, shown inside TLS and compared in constant
//! time.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use data_encoding::HEXLOWER_PERMISSIVE;
use fogbank_env::{open_to_others, write_secret};
use zeroize::Zeroizing;

/// By which a server knows its clients.
#[derive(Clone)]
pub struct Token(Zeroizing<[u8; 32]>);

impl Token {
    /// Bytes of a token.
    pub const BYTES: usize = 32;

    /// The token of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// A new one.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn fresh() -> io::Result<Self> {
        Ok(Self::from_bytes(fresh_seed()?))
    }

    /// That in the file at `path`, of mode 0600, which is made if there is none.
    ///
    /// # Errors
    /// As the system says; if others can read the file, or it holds anything else.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let token = Self::fresh()?;
                write_secret(path, token.digits().as_bytes())?;
                Ok(token)
            }
            opened => Self::read(opened?),
        }
    }

    fn read(file: File) -> io::Result<Self> {
        if open_to_others(&file)?.is_some() {
            let why = "others can read it; chmod 600";
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
        let mut digits = Zeroizing::new(String::new());
        file.take(FILE_BYTES_MAX).read_to_string(&mut digits)?;
        Self::parse(digits.trim_end())
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "it holds no token"))
    }

    /// From 64 hexadecimal digits; `None` if it is anything else.
    pub fn parse(digits: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self::from_bytes)
    }

    /// Its digits.
    pub fn digits(&self) -> Zeroizing<String> {
        Zeroizing::new(HEXLOWER_PERMISSIVE.encode(&self.0[..]))
    }

    /// Its bytes, to show them.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// One that follows from it and does not lead back: for whoever may ask a server to mix with
    /// him, and nothing else.
    pub fn for_mixing(&self) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0[..]);
        let tag = hmac::sign(&key, b"fogbank token for mixing");
        let mut bytes = [0; 32];
        bytes.copy_from_slice(tag.as_ref());
        Self::from_bytes(bytes)
    }

    /// Whether `shown` is this token, in constant time.
    pub fn is(&self, shown: &[u8]) -> bool {
        verify_slices_are_equal(&self.0[..], shown).is_ok()
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.bytes())
    }
}

impl Eq for Token {}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Bytes of a token's file that are looked at.
const FILE_BYTES_MAX: u64 = 100;

/// 32 bytes from the system's randomness.
///
/// # Errors
/// If it has none to give.
pub fn fresh_seed() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| io::Error::other("the system has no randomness to give"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::load_or_create(&path).unwrap();
        assert!(token.is(Token::load_or_create(&path).unwrap().bytes()));
        assert!(!token.is(Token::fresh().unwrap().bytes()) && !token.is(&[]));
        assert!(!format!("{token:?}").contains(&**token.digits()));
        let opened = std::process::Command::new("chmod").arg("644").arg(&path).status().unwrap();
        assert!(opened.success());
        let error = Token::load_or_create(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let other = folder.path().join("other");
        write_secret(&other, b"no token").unwrap();
        assert!(Token::load_or_create(&other).is_err());
    }
}
