//! A certificate of one's own, made at the first start and kept in one file of mode 0600: the
//! certificate and its key in PEM. It appears whole or not at all.

use std::fs::File;
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
        fogbank_env::write_secret(path, pem.as_bytes()).map_err(|e| unusable(e.to_string()))?;
    }
    check_private(path)?;
    let certificate =
        CertificateDer::from_pem_file(path).map_err(|error| unusable(error.to_string()))?;
    let files = TlsFiles { certificate: path.to_owned(), key: path.to_owned() };
    Ok((files, Pin::of(&certificate)))
}

/// Refuses a key that others can read, whoever made it.
pub(crate) fn check_private(key: &Path) -> Result<(), Error> {
    let unusable = |reason: String| Error { path: key.to_owned(), reason };
    let open = File::open(key).and_then(|file| fogbank_env::open_to_others(&file));
    match open.map_err(|e| unusable(e.to_string()))? {
        None => Ok(()),
        Some(mode) => Err(unusable(format!(
            "others can read it (mode {mode:04o}); run: chmod 600 {}",
            fogbank_env::quoted(key)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let (files, pin) = made(&path).unwrap();
        assert_eq!(made(&path).unwrap(), (files.clone(), pin));
        assert_ne!(made(&folder.path().join("other")).unwrap().1, pin);
        crate::acceptor(&files, &[]).unwrap();
        let mut mode = std::fs::metadata(&path).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        mode.set_mode(0o644);
        std::fs::set_permissions(&path, mode).unwrap();
        assert!(made(&path).unwrap_err().to_string().contains("others can read it"));
        let refused = |files| crate::acceptor(&files, &[]).err().unwrap().to_string();
        assert!(refused(files.clone()).contains("others can read it"), "and one that is brought");
        let certificate = files.certificate;
        let no_file = refused(TlsFiles { certificate, key: folder.path().to_owned() });
        assert!(no_file.contains("it is a folder") && !no_file.contains("chmod"), "{no_file}");
        std::fs::write(folder.path().join("other"), "no certificate").unwrap();
        assert!(made(&folder.path().join("other")).is_err());
    }
}
