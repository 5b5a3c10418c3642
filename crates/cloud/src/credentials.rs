//! How a client finds a server and is known to it.
//!
//! ```text
//! grpc://HOST:PORT/TENANT[?credentials=FILE]
//!
//! FILE, mode 0600, or the one that FOGBANK_CLOUD_CREDENTIALS names:
//! token=64 hexadecimal digits
//! pin=64 hexadecimal digits           the SHA-256 of the server's certificate
//! ```
//! The secret is in the file, so the URL may stand in commands and logs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use fogbank_env::{open_to_others, quoted};
use fogbank_store::{Result, StoreError};
use fogbank_tls::{Pin, Token};

use crate::tenant::is_name;

/// The environment variable that names the file.
pub const VARIABLE: &str = "FOGBANK_CLOUD_CREDENTIALS";
/// How URLs of such a server begin.
pub const SCHEME: &str = "grpc://";

/// What client and server know each other by.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// What the client shows.
    pub token: Token,
    /// The certificate it accepts.
    pub pin: Pin,
    /// The file that says so, if one does.
    pub file: Option<PathBuf>,
}

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT`.
    pub place: String,
    /// Whose store.
    pub tenant: String,
    /// Where the secret is.
    pub credentials: Option<PathBuf>,
}

impl Address {
    /// From a URL.
    ///
    /// # Errors
    /// [`StoreError::Caller`] if it is none of such a server.
    pub fn parse(url: &str) -> Result<Self> {
        let parts = || {
            let (place, rest) = url.strip_prefix(SCHEME)?.split_once('/')?;
            let (tenant, file) = match rest.split_once("?credentials=") {
                Some((tenant, file)) => (tenant, Some(PathBuf::from(file))),
                None => (rest, None),
            };
            let (host, port) = place.rsplit_once(':')?;
            let whole = !host.is_empty() && port.parse::<u16>().is_ok() && !place.contains('@');
            let named = file.as_ref().is_none_or(|file| !file.as_os_str().is_empty());
            let address = Self { place: place.into(), tenant: tenant.into(), credentials: file };
            (whole && named && is_name(tenant)).then_some(address)
        };
        parts().ok_or_else(|| {
            StoreError::Caller(format!(
                "it is not {SCHEME}HOST:PORT/TENANT?credentials=FILE; the file may be named by \
                 {VARIABLE} instead"
            ))
        })
    }

    /// The secret for it, from the file that it or the environment names.
    ///
    /// # Errors
    /// [`StoreError::Caller`] if there is none, others can read it, or it says something else.
    pub fn load(&self) -> Result<Credentials> {
        let named =
            || std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
        let path = self.credentials.clone().or_else(named).ok_or_else(|| {
            StoreError::Caller(format!(
                "no credentials: put ?credentials=FILE behind the URL or set {VARIABLE}; \
                 `fogbank-cloud tenant add` makes the file"
            ))
        })?;
        Credentials::load(&path)
    }
}

impl Credentials {
    /// From a file of mode 0600.
    ///
    /// # Errors
    /// As [`Address::load`].
    pub fn load(path: &Path) -> Result<Self> {
        let wrong =
            |why: String| StoreError::Caller(format!("credentials {}: {why}", path.display()));
        let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
        if open_to_others(&file).map_err(|e| wrong(e.to_string()))?.is_some() {
            return Err(wrong(format!("others can read it; run: chmod 600 {}", quoted(path))));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|e| wrong(e.to_string()))?;
        let said = Self::parse(&text);
        let said = said.ok_or_else(|| wrong("it does not say token= and pin=".into()))?;
        Ok(Self { file: Some(path.to_owned()), ..said })
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))
        };
        let (token, pin) = (Token::parse(value("token")?)?, Pin::parse(value("pin")?)?);
        Some(Self { token, pin, file: None })
    }

    /// The file's text: a secret.
    pub fn text(&self) -> String {
        format!("token={}\npin={}\n", *self.token.digits(), self.pin)
    }
}

const FILE_BYTES_MAX: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_or_explained() {
        let read = Address::parse("grpc://[::1]:7/clinic-1?credentials=/a/b").unwrap();
        assert_eq!((read.place.as_str(), read.tenant.as_str()), ("[::1]:7", "clinic-1"));
        assert_eq!(read.credentials, Some("/a/b".into()));
        assert_eq!(Address::parse("grpc://h:7/t").unwrap().credentials, None);
        for bad in ["", "h", ":7", "h:x", "h:7", "u@h:7"] {
            let tenant = if bad == "h:7" { "" } else { "/t" };
            let error = Address::parse(&format!("grpc://{bad}{tenant}")).unwrap_err();
            assert!(error.to_string().contains("HOST:PORT"), "{bad}");
        }
        for bad in ["grpc://h:7/", "grpc://h:7/A", "grpc://h:7/../x", "grpc://h:7/t?credentials="] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_says_both_and_is_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let (token, pin) = (Token::from_bytes([7; 32]), Pin([9; 32]));
        let credentials = Credentials { token, pin, file: None };
        fogbank_env::write_secret(&path, credentials.text().as_bytes()).unwrap();
        let read = Credentials::load(&path).unwrap();
        assert!(read.token.is(&[7; 32]) && read.pin == Pin([9; 32]));
        assert_eq!(read.file.as_ref(), Some(&path));
        assert!(!format!("{read:?}").contains("0707"));
        let opened = std::process::Command::new("chmod").arg("640").arg(&path).status().unwrap();
        assert!(opened.success());
        assert!(Credentials::load(&path).unwrap_err().to_string().contains("chmod 600"));
        let other = folder.path().join("other");
        fogbank_env::write_secret(&other, b"token=1").unwrap();
        assert!(Credentials::load(&other).is_err());
    }
}
