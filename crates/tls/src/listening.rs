//! The listener's side, from a certificate and a key in PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;
use crate::own::check_private;

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to the root, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM; may be the same file.
    pub key: PathBuf,
}

/// What turns a TCP stream into a TLS one.
///
/// `protocols` are what it can speak inside (ALPN); none if that goes without saying.
///
/// # Errors
/// [`Error`] if a file cannot be read or is not what it should be, or if others can read the key.
pub fn acceptor(files: &TlsFiles, protocols: &[&str]) -> Result<TlsAcceptor, Error> {
    let unusable = |path: &Path, reason: String| Error { path: path.to_owned(), reason };
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unusable(&files.certificate, unread(error, CERTIFICATE)))?;
    if certificates.is_empty() {
        return Err(unusable(&files.certificate, CERTIFICATE.into()));
    }
    check_private(&files.key)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable(&files.key, unread(error, KEY)))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Why a file is of no use; `none` if there is nothing in it.
pub(crate) fn unread(error: pem::Error, none: &str) -> String {
    match error {
        pem::Error::NoItemsFound => none.to_owned(),
        error => error.to_string(),
    }
}

pub(crate) const CERTIFICATE: &str =
    "there is no certificate in it (PEM); --tls-cert names the file of the certificate";
const KEY: &str = "there is no private key in it (PEM); --tls-key names the file of the key";

#[cfg(test)]
mod tests {
    use super::*;

    /// The library says "no items found" of either.
    #[test]
    fn a_file_of_something_else_is_told_with_what_it_should_be() {
        let folder = tempfile::tempdir().unwrap();
        let (files, _) = crate::made(&folder.path().join("identity")).unwrap();
        let other = folder.path().join("other");
        fogbank_env::write_secret(&other, b"a password\n").unwrap();
        let refused = |files| acceptor(&files, &[]).err().unwrap().to_string();
        let no_certificate = refused(TlsFiles { certificate: other.clone(), ..files.clone() });
        assert!(no_certificate.contains("--tls-cert"), "{no_certificate}");
        assert_eq!(crate::Pin::of_file(&other).unwrap_err().to_string(), no_certificate);
        let no_key = refused(TlsFiles { key: other, ..files });
        assert!(no_key.contains("--tls-key"), "{no_key}");
    }
}
