//! A certificate of one's own, made at the first start and kept in one file of mode 0600: the
//! certificate and its key in PEM. It appears whole or not at all.

use std::path::Path;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::pin::SERVER_NAME;
use crate::{Error, Pin, TlsFiles};

/// The certificate in the file at `path`, which is made if there is none, and its pin.
///
/// # Errors
/// [`Error`] if the file cannot be made, or does not hold a certificate.
pub fn made(path: &Path) -> Result<(TlsFiles, Pin), Error> {
    let unusable = |reason: String| Error { path: path.to_owned(), reason };
    if !path.exists() {
        let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])
            .map_err(|e| unusable(e.to_string()))?;
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        fogbank_seal::write_secret(path, pem.as_bytes()).map_err(|e| unusable(e.to_string()))?;
    }
    let certificate =
        CertificateDer::from_pem_file(path).map_err(|error| unusable(error.to_string()))?;
    let files = TlsFiles { certificate: path.to_owned(), key: path.to_owned() };
    Ok((files, Pin::of(&certificate)))
}
