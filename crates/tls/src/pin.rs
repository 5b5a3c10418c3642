//! The side that connects: it knows the SHA-256 of the one certificate it accepts.
//!
//! Whoever holds the key of that certificate is the server; nothing else in it is looked at. TLS
//! 1.3 only, since both ends are ours.

use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER_PERMISSIVE;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
};

use crate::listening::{CERTIFICATE, unread};

/// The name in certificates of our own; no client asks for another, so it tells the network
/// nothing.
pub const SERVER_NAME: &str = "fogbank.invalid";

/// The SHA-256 of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin(pub [u8; 32]);

impl Pin {
    /// That of `certificate`.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut pin = [0; 32];
        pin.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Self(pin)
    }

    /// That of the first certificate in the PEM file at `path`.
    ///
    /// # Errors
    /// [`crate::Error`] if there is none.
    pub fn of_file(path: &Path) -> Result<Self, crate::Error> {
        let reason = |e| unread(e, CERTIFICATE);
        let unusable = |e: pem::Error| crate::Error { path: path.into(), reason: reason(e) };
        CertificateDer::from_pem_file(path).map(|one| Self::of(&one)).map_err(unusable)
    }

    /// From 64 hexadecimal digits; `None` if it is anything else.
    pub fn parse(digits: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&HEXLOWER_PERMISSIVE.encode(&self.0))
    }
}

/// What turns a TCP stream into a TLS one whose other end holds the key of the certificate pinned.
///
/// `protocols` are what it offers to speak inside (ALPN); none if that goes without saying.
///
/// # Errors
/// If the provider of the cryptography does not speak TLS 1.3, which is a fault of ours.
pub fn connector(pin: Pin, protocols: &[&str]) -> Result<TlsConnector, Error> {
    let provider = Arc::new(default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .dangerous() // the usual checks ask authorities, and there are none here
        .with_custom_certificate_verifier(Arc::new(Pinned { pin, provider }))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[derive(Debug)]
struct Pinned {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Pin::of(end_entity) == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
