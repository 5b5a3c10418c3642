//! Keys of a volume that lies in two clouds which do not collude.
//!
//! ```text
//! master (32 B, trusted side)
//!   └─ HKDF-SHA256(salt = store id, ikm = master)
//!        ├─ "split blocks"   AES-256-GCM: blocks, on their way to the shuffler
//!        ├─ "split records"  AES-256, twice: sums of cells, at the holder
//!        ├─ "split seals"    HMAC-SHA256: the records of a level, at the holder
//!        ├─ "split points"   HMAC-SHA256: the point of each cloud, which is told to it
//!        └─ "split seeds"    HMAC-SHA256: seeds, each of which is told to one cloud or to none
//! ```
//! Unlike other keys they do not change with an opening: what numbers them (reads, jobs and their
//! attempts) never repeats as long as one journal is followed. A copy of an old journal must never
//! be opened without another master key.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::{hkdf, hmac};
use zeroize::Zeroizing;

use crate::cell::aes_256_gcm;
use crate::{Forged, MasterKey, StoreId, TAG_BYTES};

/// Where a block is uploaded to: partition, job and place among its uploads. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UploadPlace {
    /// The partition.
    pub partition: u16,
    /// The job and its attempt.
    pub generation: u64,
    /// Which of its uploads.
    pub index: u16,
}

/// A cell of a level at the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// The partition.
    pub partition: u16,
    /// The level.
    pub level: u8,
    /// The job that wrote it.
    pub generation: u64,
    /// Which of its cells.
    pub place: u32,
}

/// What a seed is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeedFor {
    /// Covers of the cells of a read; told to the holder.
    Read(u64),
    /// Covers of the cells that a job carries; told to the holder.
    Carry(u16, u64),
    /// The order of a job's level; told to the shuffler.
    Order(u16, u64),
    /// Covers of the cells of a level, as they are stored; told to the shuffler.
    Level(u16, u8, u64),
    /// Which dummies fill the list of a level, for the job that ends at a count; told to nobody.
    List(u16, u8, u64),
}

/// See the module.
pub struct SplitKeys {
    blocks: LessSafeKey,
    records: [EncryptingKey; 2],
    opens_records: DecryptingKey,
    seals: hmac::Key,
    points: hmac::Key,
    seeds: hmac::Key,
    store: StoreId,
}

impl SplitKeys {
    /// Derives the keys of `store`.
    pub fn derive(master: &MasterKey, store: StoreId) -> Self {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, &store.0).extract(master.bytes());
        let key = |purpose: &[u8]| {
            let mut bytes = Zeroizing::new([0; 32]);
            root.expand(&[b"fogbank 1 split ", purpose], hkdf::HKDF_SHA256)
                .and_then(|okm| okm.fill(&mut *bytes))
                .expect("HKDF-SHA256 yields 32 bytes");
            bytes
        };
        let aes = |purpose: &[u8]| {
            UnboundCipherKey::new(&AES_256, &*key(purpose)).expect("an AES-256 key has 32 bytes")
        };
        let block = |purpose: &[u8]| EncryptingKey::ecb(aes(purpose)).expect("one block at a time");
        Self {
            blocks: aes_256_gcm(&key(b"blocks")),
            records: [block(b"records"), block(b"records tweak")],
            opens_records: DecryptingKey::ecb(aes(b"records")).expect("one block at a time"),
            seals: hmac::Key::new(hmac::HMAC_SHA256, &*key(b"seals")),
            points: hmac::Key::new(hmac::HMAC_SHA256, &*key(b"points")),
            seeds: hmac::Key::new(hmac::HMAC_SHA256, &*key(b"seeds")),
            store,
        }
    }

    /// The store whose keys they are.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// What stands under all records of a level that a job of a partition wrote: whoever has them
    /// all sees whether one was altered.
    pub fn seal_records(
        &self,
        (partition, level, generation): (u16, u8, u64),
        records: &[[u8; 16]],
    ) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.seals);
        context.update(&partition.to_be_bytes());
        context.update(&[level]);
        context.update(&generation.to_be_bytes());
        context.update(records.as_flattened());
        let mut seal = [0; 16];
        seal.copy_from_slice(&context.sign().as_ref()[..16]);
        seal
    }

    /// The seed for a purpose.
    pub fn seed(&self, purpose: SeedFor) -> [u8; 32] {
        let (kind, partition, level, number) = match purpose {
            SeedFor::Read(read) => (0, 0, 0, read),
            SeedFor::Carry(partition, job) => (1, partition, 0, job),
            SeedFor::Order(partition, job) => (2, partition, 0, job),
            SeedFor::Level(partition, level, job) => (3, partition, level, job),
            SeedFor::List(partition, level, count) => (4, partition, level, count),
        };
        let mut name = [kind; 12];
        name[1..3].copy_from_slice(&partition.to_be_bytes());
        name[3] = level;
        name[4..].copy_from_slice(&number.to_be_bytes());
        bytes_of(&hmac::sign(&self.seeds, &name))
    }

    /// The point of a cloud, the first (0) or the second (1).
    pub fn point(&self, cloud: u8) -> [u8; 32] {
        bytes_of(&hmac::sign(&self.points, &[cloud]))
    }

    /// Seals in place: `cell` is the block followed by [`TAG_BYTES`] bytes that receive the tag.
    ///
    /// # Panics
    /// If `cell` is shorter than a tag: a fault of the caller's layout, never of input.
    pub fn seal(&self, place: UploadPlace, id: u32, cell: &mut [u8]) {
        let (block, tag_out) = cell.split_at_mut(cell.len() - TAG_BYTES);
        let (nonce, bound) = (place.nonce(), Aad::from(id.to_be_bytes()));
        let tag = self.blocks.seal_in_place_separate_tag(nonce, bound, block);
        tag_out.copy_from_slice(tag.expect("AES-GCM seals any cell below 64 GiB").as_ref());
    }

    /// Opens `cell` into `block`, which is [`TAG_BYTES`] shorter.
    ///
    /// # Errors
    /// [`Forged`] if it is not what was sealed for this place and id.
    pub fn open(
        &self,
        place: UploadPlace,
        id: u32,
        cell: &[u8],
        block: &mut [u8],
    ) -> Result<(), Forged> {
        if cell.len() != block.len() + TAG_BYTES {
            return Err(Forged);
        }
        let (sealed, tag) = cell.split_at(block.len());
        self.blocks
            .open_separate_gather(place.nonce(), Aad::from(id.to_be_bytes()), sealed, tag, block)
            .map_err(|_| Forged)
    }

    /// Seals the two sums of a cell. One block, XEX with a key of its own for the tweak: whoever
    /// changes a bit changes both sums to noise, so no tag is needed where one of them is compared
    /// for every cell.
    pub fn seal_record(&self, place: RecordPlace, sums: [u8; 16]) -> [u8; 16] {
        let mask = self.mask(place);
        let mut block = xor(sums, mask);
        encrypt(&self.records[0], &mut block);
        xor(block, mask)
    }

    /// The two sums of which this is the record; noise if it is none of this place.
    pub fn open_record(&self, place: RecordPlace, record: [u8; 16]) -> [u8; 16] {
        let mask = self.mask(place);
        let mut block = xor(record, mask);
        let opened = self.opens_records.decrypt(&mut block, DecryptionContext::None);
        let _ = opened.expect("ECB opens whole blocks");
        xor(block, mask)
    }

    fn mask(&self, place: RecordPlace) -> [u8; 16] {
        let mut mask = [0; 16];
        mask[..2].copy_from_slice(&place.partition.to_be_bytes());
        mask[2] = place.level;
        mask[3..11].copy_from_slice(&place.generation.to_be_bytes());
        mask[11..15].copy_from_slice(&place.place.to_be_bytes());
        encrypt(&self.records[1], &mut mask);
        mask
    }
}

impl UploadPlace {
    fn nonce(&self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&self.partition.to_be_bytes());
        bytes[2..10].copy_from_slice(&self.generation.to_be_bytes());
        bytes[10..].copy_from_slice(&self.index.to_be_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

fn encrypt(key: &EncryptingKey, block: &mut [u8; 16]) {
    let done = key.less_safe_encrypt(block, EncryptionContext::None);
    done.expect("ECB seals whole blocks");
}

fn xor(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}

fn bytes_of(tag: &hmac::Tag) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

impl std::fmt::Debug for SplitKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SplitKeys(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(byte: u8) -> SplitKeys {
        SplitKeys::derive(&MasterKey::from_bytes(&mut [byte; 32]), StoreId([1; 16]))
    }

    const HERE: RecordPlace = RecordPlace { partition: 1, level: 2, generation: 3, place: 4 };

    #[test]
    fn no_two_purposes_share_a_seed() {
        let keys = keys(1);
        let mut all = vec![keys.point(0), keys.point(1)];
        all.extend(
            [
                SeedFor::Read(1),
                SeedFor::Read(2),
                SeedFor::Carry(0, 1),
                SeedFor::Carry(1, 1),
                SeedFor::Order(0, 1),
                SeedFor::Level(0, 0, 1),
                SeedFor::Level(0, 1, 1),
                SeedFor::List(0, 0, 1),
            ]
            .map(|purpose| keys.seed(purpose)),
        );
        for (at, seed) in all.iter().enumerate() {
            assert!(!all[..at].contains(seed));
        }
    }

    #[test]
    fn a_seal_is_about_the_records_of_one_level() {
        let records = [[1; 16], [2; 16]];
        let seal = keys(1).seal_records((3, 4, 5), &records);
        assert_eq!(seal, keys(1).seal_records((3, 4, 5), &records));
        for other in [
            keys(2).seal_records((3, 4, 5), &records),
            keys(1).seal_records((2, 4, 5), &records),
            keys(1).seal_records((3, 3, 5), &records),
            keys(1).seal_records((3, 4, 6), &records),
            keys(1).seal_records((3, 4, 5), &[[2; 16], [1; 16]]),
            keys(1).seal_records((3, 4, 5), &records[..1]),
        ] {
            assert_ne!(seal, other);
        }
    }

    #[test]
    fn a_block_opens_at_its_place_with_its_id_alone() {
        let place = UploadPlace { partition: 3, generation: 9 << 16, index: 2 };
        let mut cell = vec![5; 32 + TAG_BYTES];
        keys(1).seal(place, 7, &mut cell);
        let open = |keys: SplitKeys, place, id| {
            let mut block = vec![0; 32];
            keys.open(place, id, &cell, &mut block).map(|()| block)
        };
        assert_eq!(open(keys(1), place, 7), Ok(vec![5; 32]));
        assert_eq!(open(keys(1), place, 8), Err(Forged));
        assert_eq!(open(keys(2), place, 7), Err(Forged));
        for other in [
            UploadPlace { partition: 4, ..place },
            UploadPlace { generation: 9 << 16 | 1, ..place },
            UploadPlace { index: 3, ..place },
        ] {
            assert_eq!(open(keys(1), other, 7), Err(Forged));
        }
    }

    /// A record is bound to its place, and a bit of it changes both sums.
    #[test]
    fn a_changed_record_spoils_both_sums() {
        let keys = keys(1);
        let sums = [9; 16];
        let record = keys.seal_record(HERE, sums);
        assert_eq!(keys.open_record(HERE, record), sums);
        for bit in 0..128 {
            let mut changed = record;
            changed[bit / 8] ^= 1 << (bit % 8);
            let opened = keys.open_record(HERE, changed);
            assert!(opened[..8] != sums[..8] && opened[8..] != sums[8..], "{bit}");
        }
        for other in [
            RecordPlace { partition: 2, ..HERE },
            RecordPlace { level: 3, ..HERE },
            RecordPlace { generation: 4, ..HERE },
            RecordPlace { place: 5, ..HERE },
        ] {
            assert_ne!(keys.open_record(other, record), sums);
        }
    }
}
