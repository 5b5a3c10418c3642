//! Keys of a site: many clients that share one key and no proxy.
//!
//! ```text
//! master (32 B, the one shared secret)
//!   └─ HKDF-SHA256(salt = site id, ikm = master)
//!        ├─ "session" s, salt of s        AES-256-GCM-SIV: everything that session s writes
//!        ├─ "code" number, digest         a code of a history, which people compare
//!        └─ "order" level, index, mark    HKDF again: the order of a table, and its fakes
//! ```
//!
//! Invariants
//! 1. No (key, nonce) pair ever seals two plaintexts. A session's key depends on a salt that its
//!    process drew, so two processes to whom a liar gave one number have two keys; its nonce is a
//!    *tick*, which the session takes once. What is sealed twice (a takeover, a refused put) is
//!    sealed by two ticks or by two sessions.
//! 2. A copy of a running process uses ticks twice. The seal then shows which plaintexts are equal
//!    and nothing else; the log tells the copies (protocol of `hierarchy`, section 2).
//! 3. The order of a table depends on the history at the start of its build: two worlds that parted
//!    before it have independent orders.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use zeroize::Zeroizing;

use crate::permute::{Draws, below};
use crate::{Digest, Forged, MasterKey, StoreId, TAG_BYTES, TICK_BITS};

/// The first half of a log digest: names a history, and is what is kept of old ones.
pub type Mark = [u8; 16];

/// Bytes of the clear header of a seal: session and tick.
pub const HEADER_BYTES: usize = 12;

/// Who sealed something, and by which of its ticks: the clear header of a seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sealer {
    /// The session's number at the site.
    pub session: u32,
    /// Below 2^40; taken once.
    pub tick: u64,
}

impl Sealer {
    /// The header as bytes.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.session.to_le_bytes());
        bytes[4..].copy_from_slice(&self.tick.to_le_bytes());
        bytes
    }

    /// The header at the front of `sealed`.
    ///
    /// # Errors
    /// [`Forged`] if there is none, or its tick is too large for one.
    pub fn of(sealed: &[u8]) -> Result<Self, Forged> {
        let header = sealed.get(..HEADER_BYTES).ok_or(Forged)?;
        let (mut session, mut tick) = ([0; 4], [0; 8]);
        session.copy_from_slice(&header[..4]);
        tick.copy_from_slice(&header[4..]);
        let found = Self { session: u32::from_le_bytes(session), tick: u64::from_le_bytes(tick) };
        if found.tick < 1 << TICK_BITS { Ok(found) } else { Err(Forged) }
    }

    /// The version of a chunk whose first cell was sealed so.
    pub fn version(self) -> u64 {
        u64::from(self.session) << TICK_BITS | self.tick
    }

    fn nonce(self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.tick.to_le_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

/// The keys that everybody at a site derives from the one secret.
pub struct SiteKeys(hkdf::Prk);

impl SiteKeys {
    /// Derives the keys of `site`, whose id is configured beside the secret.
    pub fn derive(master: &MasterKey, site: StoreId) -> Self {
        Self(hkdf::Salt::new(hkdf::HKDF_SHA256, &site.0).extract(master.bytes()))
    }

    /// The key by which session `number`, which drew `salt`, seals.
    pub fn session(&self, number: u32, salt: &[u8; 32]) -> SessionKey {
        let key = expand(&self.0, b"session", &[&number.to_le_bytes(), salt]);
        let key = UnboundKey::new(&AES_256_GCM_SIV, &*key).expect("an AES-256 key has 32 bytes");
        SessionKey(LessSafeKey::new(key))
    }

    /// What stands for the object of this number and digest where people compare what they have
    /// seen. Whoever lacks the secret cannot look for two digests with one code.
    pub fn code(&self, number: u64, digest: &Digest) -> [u8; 8] {
        let code = expand(&self.0, b"code", &[&number.to_le_bytes(), digest]);
        let mut first = [0; 8];
        first.copy_from_slice(&code[..8]);
        first
    }

    /// The key of the order of table (`level`, `index`), whose build starts when the history has
    /// the mark `start`.
    pub fn order(&self, level: u8, index: i64, start: &Mark) -> OrderKey {
        let name = [&u64::from(level).to_le_bytes()[..], &index.to_le_bytes(), start];
        let key = expand(&self.0, b"order", &name);
        OrderKey(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &*key))
    }
}

/// The key of what one session writes.
pub struct SessionKey(LessSafeKey);

impl SessionKey {
    /// Seals `plaintext` under `sealer`, whose tick was taken for it alone, and binds `bound` (its
    /// name and place): the header, the ciphertext, the tag.
    pub fn seal(&self, sealer: Sealer, bound: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let mut sealed = sealer.encode().to_vec();
        sealed.extend_from_slice(plaintext);
        let tag = self.seal_cell(sealer, bound, &mut sealed[HEADER_BYTES..]);
        sealed.extend_from_slice(&tag);
        sealed
    }

    /// The same in place, without a header: a cell of a chunk, whose version names the sealer.
    pub fn seal_cell(&self, sealer: Sealer, bound: &[u8], cell: &mut [u8]) -> [u8; TAG_BYTES] {
        let tag = self
            .0
            .seal_in_place_separate_tag(sealer.nonce(), Aad::from(bound), cell)
            .expect("AES-GCM-SIV seals any cell below 64 GiB");
        let mut bytes = [0; TAG_BYTES];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    /// Opens what [`SessionKey::seal`] made of this session's, bound to the same.
    ///
    /// # Errors
    /// [`Forged`] for anything else.
    pub fn open(&self, bound: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Forged> {
        self.open_cell(Sealer::of(sealed)?, bound, &sealed[HEADER_BYTES..])
    }

    /// Opens a cell and its tag, sealed under `sealer`.
    ///
    /// # Errors
    /// [`Forged`] for anything else.
    pub fn open_cell(&self, sealer: Sealer, bound: &[u8], cell: &[u8]) -> Result<Vec<u8>, Forged> {
        let mut opened = cell.to_vec();
        let length = self
            .0
            .open_in_place(sealer.nonce(), Aad::from(bound), &mut opened)
            .map_err(|_| Forged)?
            .len();
        opened.truncate(length);
        Ok(opened)
    }
}

/// The ticks of one session: each is taken once.
#[derive(Debug)]
pub struct Ticks {
    session: u32,
    next: AtomicU64,
}

impl Ticks {
    /// Those of a session that has sealed nothing yet.
    pub fn new(session: u32) -> Self {
        Self { session, next: AtomicU64::new(0) }
    }

    /// Takes `count` ticks in a row; the first of them. `None` once the session has no more.
    pub fn take(&self, count: u64) -> Option<Sealer> {
        let below = |tick: u64| tick.checked_add(count).filter(|end| *end <= 1 << TICK_BITS);
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below);
        taken.ok().map(|tick| Sealer { session: self.session, tick })
    }
}

/// The key of the order of one table, and of which of its fakes belong to which place.
pub struct OrderKey(hkdf::Prk);

impl OrderKey {
    /// The order of all slots: `order[rank]` is the slot. The same for whoever has the key.
    pub fn order(&self, slots: u32) -> Box<[u32]> {
        let mut stream = self.stream(b"slots", &[]);
        let mut order: Box<[u32]> = (0..slots).collect();
        for last in (1..slots).rev() {
            order.swap(last as usize, below(&mut stream, last + 1) as usize);
        }
        order
    }

    /// What draws the fakes of a block of places that begins after the history of this mark.
    pub fn draw(&self, before: &Mark) -> Draws {
        Draws(self.stream(b"draw", &[before]))
    }

    /// What picks the fake of a place, after whose entry the log has this digest.
    pub fn pick(&self, with: &Digest) -> Draws {
        Draws(self.stream(b"pick", &[with]))
    }

    fn stream(&self, label: &[u8], fields: &[&[u8]]) -> ChaCha12Rng {
        ChaCha12Rng::from_seed(*expand(&self.0, label, fields))
    }
}

fn expand(key: &hkdf::Prk, label: &[u8], fields: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let info = [&[b"fogbank 1 site ", label, &[0][..]][..], fields].concat();
    let mut bytes = Zeroizing::new([0; 32]);
    key.expand(&info, hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut *bytes))
        .expect("HKDF-SHA256 yields 32 bytes");
    bytes
}

macro_rules! says_nothing {
    ($($key:ident)*) => {$(
        impl std::fmt::Debug for $key {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($key), "(..)"))
            }
        }
    )*};
}

says_nothing!(SiteKeys SessionKey OrderKey);

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(site: u8) -> SiteKeys {
        SiteKeys::derive(&MasterKey::from_bytes(&mut [7; 32]), StoreId([site; 16]))
    }

    #[test]
    fn a_seal_opens_for_its_session_salt_tick_and_name_alone() {
        let (site, sealer) = (keys(1), Sealer { session: 3, tick: 5 });
        let sealed = site.session(3, &[1; 32]).seal(sealer, b"result/9", b"what");
        assert_eq!(Sealer::of(&sealed), Ok(sealer));
        assert_eq!(site.session(3, &[1; 32]).open(b"result/9", &sealed).unwrap(), b"what");
        for (key, bound) in [
            (site.session(3, &[1; 32]), b"result/8"),
            (site.session(3, &[2; 32]), b"result/9"),
            (site.session(4, &[1; 32]), b"result/9"),
            (keys(2).session(3, &[1; 32]), b"result/9"),
        ] {
            assert_eq!(key.open(bound, &sealed), Err(Forged));
        }
        for bit in 0..sealed.len() * 8 {
            let mut bent = sealed.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            let opened = site.session(3, &[1; 32]).open(b"result/9", &bent);
            // The session's number says whose key to take; whoever takes this one has it right.
            assert_eq!(opened.is_ok(), bit < 32, "bit {bit}");
        }
        assert_eq!(site.session(3, &[1; 32]).open(b"", &sealed[..HEADER_BYTES - 1]), Err(Forged));
    }

    #[test]
    fn a_tick_is_taken_once_and_there_are_no_more_than_fit() {
        let ticks = Ticks::new(2);
        assert_eq!(ticks.take(64), Some(Sealer { session: 2, tick: 0 }));
        assert_eq!(ticks.take(1), Some(Sealer { session: 2, tick: 64 }));
        assert_eq!(ticks.take(1).unwrap().version(), 2 << 40 | 65);
        assert_eq!(ticks.take((1 << TICK_BITS) - 66), Some(Sealer { session: 2, tick: 66 }));
        assert_eq!((ticks.take(1), ticks.take(u64::MAX)), (None, None));
    }

    #[test]
    fn an_order_is_one_of_its_table_and_history() {
        let order = |level, index, mark| keys(1).order(level, index, &[mark; 16]).order(100);
        let first = order(2, 5, 9);
        let mut slots = first.to_vec();
        slots.sort_unstable();
        assert_eq!(slots, (0..100).collect::<Vec<_>>());
        assert_eq!(first, order(2, 5, 9));
        for other in [order(3, 5, 9), order(2, 4, 9), order(2, 5, 8)] {
            assert_ne!(first, other);
        }
        let key = keys(1).order(2, 5, &[9; 16]);
        let draws: Vec<u32> = (0..3).map(|_| key.draw(&[1; 16]).below(1 << 30)).collect();
        assert!(draws[0] == draws[1] && draws[1] == draws[2], "a stream starts anew");
        assert_ne!(key.draw(&[1; 16]).below(1 << 30), key.pick(&[1; 32]).below(1 << 30));
    }
}
