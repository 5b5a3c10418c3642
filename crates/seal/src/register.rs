//! The key under which register values are kept with servers of others.

use aws_lc_rs::{hkdf, hmac};
use zeroize::Zeroizing;

use crate::{Forged, MasterKey};

/// Authenticates what is kept outside: HMAC-SHA256 under a key derived from the master key, of use
/// for any store and any opening.
pub struct RegisterKey(hmac::Key);

impl RegisterKey {
    /// Bytes of an authenticator.
    pub const BYTES: usize = 32;

    /// Derives the key.
    pub fn derive(master: &MasterKey) -> Self {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"fogbank register").extract(master.bytes());
        let mut bytes = Zeroizing::new([0; 32]);
        root.expand(&[b"fogbank 1 register"], hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(&mut *bytes))
            .expect("HKDF-SHA256 yields 32 bytes");
        Self(hmac::Key::new(hmac::HMAC_SHA256, &*bytes))
    }

    /// The authenticator of `message`.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        hmac::sign(&self.0, message).as_ref().to_vec()
    }

    /// Whether `authenticator` is that of `message`, in constant time.
    ///
    /// # Errors
    /// [`Forged`] if it is not.
    pub fn verify(&self, message: &[u8], authenticator: &[u8]) -> Result<(), Forged> {
        hmac::verify(&self.0, message, authenticator).map_err(|_| Forged)
    }
}

impl std::fmt::Debug for RegisterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RegisterKey(..)")
    }
}
