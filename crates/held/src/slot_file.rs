//! A small value in a file, replaced often: two slots written in turn, so that a replacement is one
//! small write in place and one sync of its data, and the value before is there until it is done.
//!
//! ```text
//! file     slot 0 | slot 1
//! slot     8 magic | 8 serial | value | zeros | 8 first bytes of the SHA-256 of these; 512 B
//! ```
//! The newest value is in the slot with the higher serial. A slot is a sector, which a disk writes
//! whole or not at all: one that is neither empty nor right is damage, not an interrupted write,
//! and damage must not pass for an older value.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

/// Such a file, kept open, and what it holds. One process at a time: whoever uses it holds a lock
/// beside it.
#[derive(Debug)]
pub struct SlotFile {
    file: File,
    magic: [u8; 8],
    newest: Option<(u64, Vec<u8>)>,
}

const SLOT_BYTES: usize = 512;
const CHECKED_BYTES: usize = SLOT_BYTES - 8;
const HEAD_BYTES: usize = 8 + 8;

impl SlotFile {
    /// Bytes of a value, at most.
    pub const VALUE_BYTES_MAX: usize = CHECKED_BYTES - HEAD_BYTES;

    /// Opens the file at `path`; `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if it is damaged, others as the system says.
    pub fn open(path: &Path, magic: [u8; 8]) -> io::Result<Option<Self>> {
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        (&mut file).take(2 * SLOT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        let newest = newest(&bytes, magic).ok_or_else(|| match bytes.first_chunk() {
            Some(other) if is_older(other, &magic) => damage("an older version wrote it"),
            _ => damage("it is damaged"),
        })?;
        Ok(Some(Self { file, magic, newest }))
    }

    /// Makes the file with two empty slots; what is written afterwards changes its data only. It
    /// appears at `path` whole or not at all.
    ///
    /// # Errors
    /// As the system says.
    pub fn create(path: &Path, magic: [u8; 8]) -> io::Result<Self> {
        let unready = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&unready)?;
        file.write_all_at(&[0; 2 * SLOT_BYTES], 0)?;
        file.sync_all()?;
        std::fs::rename(&unready, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self { file, magic, newest: None })
    }

    /// The value; `None` if there never was one.
    pub fn value(&self) -> Option<&[u8]> {
        self.newest.as_ref().map(|(_, value)| &value[..])
    }

    /// Replaces the value; returns when a power cut can no longer undo it. After an error the file
    /// has to be opened again to know what it holds.
    ///
    /// # Errors
    /// As the system says; [`ErrorKind::InvalidInput`] if the value is too long.
    pub fn replace(&mut self, value: &[u8]) -> io::Result<()> {
        if value.len() > Self::VALUE_BYTES_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        let serial = self.newest.as_ref().map_or(1, |(serial, _)| serial + 1);
        let at = (serial % 2) * SLOT_BYTES as u64;
        self.file.write_all_at(&encode(self.magic, serial, value), at)?;
        self.file.sync_data()?;
        self.newest = Some((serial, value.to_vec()));
        Ok(())
    }
}

fn damage(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Whether two magics differ in their last digit, the version, alone.
fn is_older(found: &[u8; 8], known: &[u8; 8]) -> bool {
    found[..7] == known[..7] && found[7] < known[7]
}

fn encode(magic: [u8; 8], serial: u64, value: &[u8]) -> Vec<u8> {
    let mut slot = magic.to_vec();
    slot.extend_from_slice(&serial.to_le_bytes());
    slot.extend_from_slice(value);
    slot.resize(CHECKED_BYTES, 0);
    let check = check(&slot);
    slot.extend_from_slice(&check);
    slot
}

/// What the newest slot holds, with the zeros behind it: `None` if the file is damaged.
fn newest(bytes: &[u8], magic: [u8; 8]) -> Option<Option<(u64, Vec<u8>)>> {
    if bytes.len() != 2 * SLOT_BYTES {
        return None;
    }
    let (first, second) = bytes.split_at(SLOT_BYTES);
    let (first, second) = (decode(first, magic)?, decode(second, magic)?);
    Some(first.into_iter().chain(second).max_by_key(|(serial, _)| *serial))
}

/// What a slot holds: `None` if it is damaged, nothing inside if it was never written.
fn decode(slot: &[u8], magic: [u8; 8]) -> Option<Option<(u64, Vec<u8>)>> {
    if slot.iter().all(|byte| *byte == 0) {
        return Some(None);
    }
    let (checked, check) = slot.split_at(CHECKED_BYTES);
    if !checked.starts_with(&magic) || self::check(checked) != check {
        return None;
    }
    let serial = u64::from_le_bytes(checked[8..HEAD_BYTES].try_into().ok()?);
    Some(Some((serial, checked[HEAD_BYTES..].to_vec())))
}

/// The first bytes of the SHA-256.
fn check(slot: &[u8]) -> [u8; 8] {
    let mut check = [0; 8];
    check.copy_from_slice(&digest(&SHA256, slot).as_ref()[..8]);
    check
}
