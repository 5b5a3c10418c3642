//! The keys under which the register is kept with servers of others.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use crate::{Forged, MasterKey, TAG_BYTES, digest};

/// Seals what is kept outside: AES-256-GCM-SIV under a key derived from the master key, of use for
/// any opening. The same *place* may come twice, after a restored snapshot of the proxy: with this
/// cipher that shows at most whether the two values are one.
pub struct RegisterKey(LessSafeKey);

impl RegisterKey {
    /// Bytes by which a sealed value is longer.
    pub const BYTES: usize = TAG_BYTES;

    /// Derives the key.
    pub fn derive(master: &MasterKey) -> Self {
        let bytes = expand(master, b"fogbank 1 register");
        let key = UnboundKey::new(&AES_256_GCM_SIV, &*bytes).expect("the key has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Under which name servers keep the register of `master`'s store. It tells nothing of key or
    /// store, and nobody without the key knows it.
    pub fn name(master: &MasterKey) -> [u8; 32] {
        *expand(master, b"fogbank 1 register name")
    }

    /// Seals `value` for `place`.
    pub fn seal(&self, place: &[u8], mut value: Vec<u8>) -> Vec<u8> {
        self.0
            .seal_in_place_append_tag(nonce(place), Aad::from(place), &mut value)
            .expect("AES-GCM-SIV seals any small value");
        value
    }

    /// Opens what [`RegisterKey::seal`] made for the same place.
    ///
    /// # Errors
    /// [`Forged`] for anything else.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Forged> {
        let mut value = sealed.to_vec();
        let opened = self.0.open_in_place(nonce(place), Aad::from(place), &mut value);
        let length = opened.map_err(|_| Forged)?.len();
        value.truncate(length);
        Ok(value)
    }
}

fn nonce(place: &[u8]) -> Nonce {
    let mut bytes = [0; 12];
    bytes.copy_from_slice(&digest(&[place])[..12]);
    Nonce::assume_unique_for_key(bytes)
}

fn expand(master: &MasterKey, info: &[u8]) -> Zeroizing<[u8; 32]> {
    let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"fogbank register").extract(master.bytes());
    let mut bytes = Zeroizing::new([0; 32]);
    root.expand(&[info], hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut *bytes))
        .expect("HKDF-SHA256 yields 32 bytes");
    bytes
}

impl std::fmt::Debug for RegisterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RegisterKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_at_its_place_and_nowhere_else() {
        let master = MasterKey::from_bytes(&mut [7; 32]);
        let key = RegisterKey::derive(&master);
        let sealed = key.seal(b"one", b"value".to_vec());
        assert_eq!(sealed.len(), 5 + RegisterKey::BYTES);
        assert_eq!(key.open(b"one", &sealed).unwrap(), b"value");
        assert!(key.open(b"two", &sealed).is_err());
        assert!(key.open(b"one", &sealed[1..]).is_err());
        let other = MasterKey::from_bytes(&mut [8; 32]);
        assert!(RegisterKey::derive(&other).open(b"one", &sealed).is_err());
        assert_ne!(RegisterKey::name(&master), RegisterKey::name(&other));
    }
}
