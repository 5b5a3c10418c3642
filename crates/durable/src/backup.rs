//! A backup: everything a store holds, as one sealed file that no cloud has to keep.
//!
//! ```text
//! head    8 magic "fogbackp" | 2 format | 16 id | 16 salt | 4 n, n configuration   (little-endian)
//! pieces  4 length | up to 1 MiB of the stream, sealed
//! stream  per section: 2 tag | 4 length | data; the end: tag 0xffff, length 0
//! ```
//! Sealed by keys of its own, from (master key, id, salt); nonce (kind 5, piece, 1 for the last
//! piece and 0 for the others), bound to the head. So a backup opens by the master key alone, and
//! one that was cut, put together from two or changed does not open.
//!
//! Nothing of a store's keys, versions or cells is in it: what is restored from it is a new store.
//! Who sees the file sees the configuration, and by its length how much the store holds.

use std::io::{ErrorKind, Read, Write};

use fogbank_env::{Purpose, Randomness};
use fogbank_seal::{BlobPlace, IncarnationKeys, MasterKey, Salt, StoreId, TAG_BYTES};

const MAGIC: &[u8; 8] = b"fogbackp";
const FORMAT: u16 = 1;
const KIND_BACKUP: u8 = 5;
const PIECE_BYTES: usize = 1 << 20;
const SECTION_HEAD_BYTES: usize = 2 + 4;
const END: u16 = u16::MAX;
/// The longest configuration and the longest section that are read.
const LENGTH_MAX: usize = 1 << 26;

/// Why a backup cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is no backup.
    #[error("this is not a backup that fogbank made")]
    NotABackup,
    /// It is one of another version.
    #[error("this backup has format {0}; this program knows format {FORMAT}")]
    Format(u16),
    /// It does not open.
    #[error(
        "the backup is cut short or damaged, or the key is not the one it was made with; give the \
         key file of the store that was backed up (its DIR/proxy/key), or another copy of the \
         backup"
    )]
    Damaged,
}

type Result<T> = std::result::Result<T, BackupError>;

/// Writes a backup, section by section.
pub struct BackupWriter<W> {
    file: W,
    head: Vec<u8>,
    keys: IncarnationKeys,
    piece: u32,
    buffer: Vec<u8>,
}

impl<W: Write> BackupWriter<W> {
    /// Begins a backup of a store with the public configuration `config`.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn begin(
        mut file: W,
        master: &MasterKey,
        config: &[u8],
        random: &Randomness,
    ) -> Result<Self> {
        let mut stream = random.stream(Purpose::Incarnation);
        let (id, salt) = (StoreId::draw(&mut stream), Salt::draw(&mut stream));
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&FORMAT.to_le_bytes());
        head.extend_from_slice(&id.0);
        head.extend_from_slice(&salt.0);
        head.extend_from_slice(&(config.len() as u32).to_le_bytes());
        head.extend_from_slice(config);
        file.write_all(&head)?;
        let keys = IncarnationKeys::derive(master, id, salt);
        Ok(Self { file, head, keys, piece: 0, buffer: Vec::with_capacity(PIECE_BYTES) })
    }

    /// Appends a section. Tags are the caller's, but for 0xffff.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn section(&mut self, tag: u16, data: &[u8]) -> Result<()> {
        self.append(&tag.to_le_bytes())?;
        self.append(&(data.len() as u32).to_le_bytes())?;
        self.append(data)
    }

    /// Writes what is left; returns the file, in which the backup is whole now.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn finish(mut self) -> Result<W> {
        self.section(END, &[])?;
        self.put(true)?;
        self.file.flush()?;
        Ok(self.file)
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            // Only when more is to come: the last piece is marked as such.
            if self.buffer.len() == PIECE_BYTES {
                self.put(false)?;
            }
            let (head, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            bytes = rest;
        }
        Ok(())
    }

    fn put(&mut self, last: bool) -> Result<()> {
        let plaintext = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE_BYTES));
        let sealed = self.keys.blobs().seal(place(self.piece, last), &self.head, plaintext);
        self.file.write_all(&(sealed.len() as u32).to_le_bytes())?;
        self.file.write_all(&sealed)?;
        self.piece += 1;
        Ok(())
    }
}

fn place(piece: u32, last: bool) -> BlobPlace {
    BlobPlace { kind: KIND_BACKUP, piece, sequence: last.into() }
}

/// Reads a backup, section by section. Each is authentic; that none is missing is known at the end.
pub struct BackupReader<R> {
    file: R,
    head: Vec<u8>,
    config_at: usize,
    keys: IncarnationKeys,
    piece: u32,
    last: bool,
    buffer: Vec<u8>,
    at: usize,
}

impl<R: Read> BackupReader<R> {
    /// Opens a backup that was made with `master`.
    ///
    /// # Errors
    /// [`BackupError::NotABackup`] and the others.
    pub fn open(mut file: R, master: &MasterKey) -> Result<Self> {
        let mut head = vec![0; 8 + 2 + 16 + 16 + 4];
        file.read_exact(&mut head).map_err(|e| short(e, BackupError::NotABackup))?;
        if !head.starts_with(MAGIC) {
            return Err(BackupError::NotABackup);
        }
        let field = |at: usize| -> [u8; 16] { std::array::from_fn(|i| head[at + i]) };
        let format = u16::from_le_bytes([head[8], head[9]]);
        if format != FORMAT {
            return Err(BackupError::Format(format));
        }
        let (id, salt) = (StoreId(field(10)), Salt(field(26)));
        let config_at = head.len();
        let length = u32::from_le_bytes(std::array::from_fn(|i| head[42 + i])) as usize;
        if length > LENGTH_MAX {
            return Err(BackupError::Damaged);
        }
        head.resize(config_at + length, 0);
        let config = &mut head[config_at..];
        file.read_exact(config).map_err(|e| short(e, BackupError::Damaged))?;
        let keys = IncarnationKeys::derive(master, id, salt);
        let (buffer, at, piece, last) = (Vec::new(), 0, 0, false);
        let mut reader = Self { file, head, config_at, keys, piece, last, buffer, at };
        // Before anything in the head is believed.
        reader.read_piece()?;
        Ok(reader)
    }

    /// The public configuration of the store that was backed up.
    pub fn config(&self) -> &[u8] {
        &self.head[self.config_at..]
    }

    /// The next section; `None` at the end.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if it is not what was written.
    pub fn section(&mut self) -> Result<Option<(u16, Vec<u8>)>> {
        let head = self.take(SECTION_HEAD_BYTES)?;
        let tag = u16::from_le_bytes([head[0], head[1]]);
        let length = u32::from_le_bytes(std::array::from_fn(|i| head[2 + i])) as usize;
        if tag == END {
            let ended = length == 0 && self.last && self.at == self.buffer.len();
            let nothing_follows = self.file.read(&mut [0])? == 0;
            return if ended && nothing_follows { Ok(None) } else { Err(BackupError::Damaged) };
        }
        if length > LENGTH_MAX {
            return Err(BackupError::Damaged);
        }
        Ok(Some((tag, self.take(length)?)))
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            if self.at == self.buffer.len() {
                self.read_piece()?;
            }
            let step = (count - taken.len()).min(self.buffer.len() - self.at);
            taken.extend_from_slice(&self.buffer[self.at..self.at + step]);
            self.at += step;
        }
        Ok(taken)
    }

    fn read_piece(&mut self) -> Result<()> {
        if self.last {
            return Err(BackupError::Damaged);
        }
        let mut length = [0; 4];
        self.file.read_exact(&mut length).map_err(|e| short(e, BackupError::Damaged))?;
        let length = u32::from_le_bytes(length) as usize;
        if !(TAG_BYTES + 1..=PIECE_BYTES + TAG_BYTES).contains(&length) {
            return Err(BackupError::Damaged);
        }
        let mut sealed = vec![0; length];
        self.file.read_exact(&mut sealed).map_err(|e| short(e, BackupError::Damaged))?;
        let opened = [false, true].into_iter().find_map(|last| {
            let opened = self.keys.blobs().open(place(self.piece, last), &self.head, &sealed);
            opened.ok().map(|plaintext| (plaintext, last))
        });
        let (plaintext, last) = opened.ok_or(BackupError::Damaged)?;
        (self.buffer, self.last, self.at) = (plaintext, last, 0);
        self.piece += 1;
        Ok(())
    }
}

/// The end of a file where more was due is what it means there; other errors are the system's.
fn short(error: std::io::Error, means: BackupError) -> BackupError {
    if error.kind() == ErrorKind::UnexpectedEof { means } else { BackupError::Io(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master(byte: u8) -> MasterKey {
        MasterKey::from_bytes(&mut [byte; 32])
    }

    fn written(sections: &[(u16, Vec<u8>)], seed: u64) -> Vec<u8> {
        let random = Randomness::repeatable(seed);
        let mut writer = BackupWriter::begin(Vec::new(), &master(1), b"{}", &random).unwrap();
        for (tag, data) in sections {
            writer.section(*tag, data).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(file: &[u8], by: u8) -> Result<Vec<(u16, Vec<u8>)>> {
        let mut reader = BackupReader::open(file, &master(by))?;
        assert_eq!(reader.config(), b"{}");
        std::iter::from_fn(|| reader.section().transpose()).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let long = vec![7; PIECE_BYTES * 2 + 5];
        let cases: [Vec<(u16, Vec<u8>)>; 4] = [
            vec![],
            vec![(1, b"one".to_vec()), (1, vec![]), (3, b"three".to_vec())],
            vec![(1, long.clone()), (2, long)],
            // The end of the stream falls on the end of a piece.
            vec![(1, vec![9; PIECE_BYTES - 2 * SECTION_HEAD_BYTES])],
        ];
        for sections in cases {
            assert_eq!(read(&written(&sections, 1), 1).unwrap(), sections);
        }
    }

    #[test]
    fn every_changed_byte_every_cut_and_every_other_key_is_noticed() {
        let file = written(&[(1, b"patient".to_vec()), (2, vec![5; 40])], 1);
        assert!(read(&file, 1).is_ok());
        assert!(matches!(read(&file, 2), Err(BackupError::Damaged)));
        for at in 0..file.len() {
            assert!(read(&file[..at], 1).is_err(), "cut at {at}");
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(read(&changed, 1).is_err(), "byte {at}");
        }
        assert!(read(&[&file[..], b"x"].concat(), 1).is_err(), "something follows");
    }

    #[test]
    fn pieces_of_two_backups_do_not_mix() {
        let sections = [(1, vec![5; 3 * PIECE_BYTES])];
        let (one, two) = (written(&sections, 1), written(&sections, 2));
        let first_piece = 46 + 2..46 + 2 + 4 + PIECE_BYTES + TAG_BYTES;
        let mut mixed = one.clone();
        mixed[first_piece.clone()].copy_from_slice(&two[first_piece.clone()]);
        assert!(read(&mixed, 1).is_err());
        // Nor do two pieces of one change places.
        let second = first_piece.end..first_piece.end + first_piece.len();
        let mut swapped = one.clone();
        swapped[first_piece.clone()].copy_from_slice(&one[second.clone()]);
        swapped[second].copy_from_slice(&one[first_piece]);
        assert!(read(&swapped, 1).is_err());
    }
}
