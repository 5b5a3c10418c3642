//! The listener's side, from a certificate and a key in PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;

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
/// [`Error`] if a file cannot be read or is not what it should be.
pub fn acceptor(files: &TlsFiles, protocols: &[&str]) -> Result<TlsAcceptor, Error> {
    let unusable = |path: &Path, reason: String| Error { path: path.to_owned(), reason };
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable(&files.key, error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| unusable(&files.certificate, error.to_string()))?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
