//! The frame around events: the head of a file, the heads of its blocks.
//!
//! A block stands alone: times start from its base, ids from its first. Its check covers head and
//! body, so that a reader never interprets a damaged byte. The last block says that it is the last:
//! without it a trace was cut short, however neatly.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::fingerprint::{Fingerprinting, Fingerprints};
use super::wire::Bytes;

/// The head of each file of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileHead {
    /// 0 for the first file, counting up as the trace is rotated.
    pub(super) part: u32,
    /// The number of the first block in this file.
    pub(super) first_block: u64,
    /// What of cells is in the trace.
    pub(super) fingerprinting: Fingerprinting,
    /// The public configuration.
    pub(super) config: Vec<u8>,
}

/// Why a head was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// The bytes end within it.
    Short,
    /// These are not the first bytes of a trace.
    NotATrace,
    /// Another build wrote it.
    OtherFormat(u32),
    /// It is damaged.
    Corrupt,
}

impl FileHead {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.part.to_le_bytes());
        bytes.extend(self.first_block.to_le_bytes());
        bytes.extend((self.config.len() as u32).to_le_bytes());
        bytes.push(match self.fingerprinting.cells {
            Fingerprints::Whole => 0,
            Fingerprints::Tail => 1,
        });
        bytes.push(u8::from(self.fingerprinting.replies));
        bytes.extend(&self.config);
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the fixed part: how many bytes follow it.
    pub(super) fn decode_length(fixed: &[u8]) -> Result<usize, HeadError> {
        if fixed.len() < 8 && MAGIC.starts_with(fixed) {
            return Err(HeadError::Short);
        }
        if !fixed.starts_with(MAGIC) {
            return Err(HeadError::NotATrace);
        }
        let format = u32_at(fixed, 8).ok_or(HeadError::Short)?;
        if !(OLDEST_FORMAT..=FORMAT).contains(&format) {
            return Err(HeadError::OtherFormat(format));
        }
        let length = u32_at(fixed, 24).ok_or(HeadError::Short)? as usize;
        if length > CONFIG_BYTES_MAX { Err(HeadError::Corrupt) } else { Ok(length + 8) }
    }

    /// Reads the whole head.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        let length = FILE_HEAD_BYTES + Self::decode_length(bytes)?;
        if bytes.len() < length {
            return Err(HeadError::Short);
        }
        let (covered, check) = bytes[..length].split_at(length - 8);
        if Bytes(check).u64() != Some(xxh3_64(covered)) {
            return Err(HeadError::Corrupt);
        }
        let fingerprinting = Fingerprinting {
            cells: match bytes[28] {
                0 => Fingerprints::Whole,
                1 => Fingerprints::Tail,
                _ => return Err(HeadError::Corrupt),
            },
            replies: match bytes[29] {
                flag @ (0 | 1) => flag == 1,
                _ => return Err(HeadError::Corrupt),
            },
        };
        Ok(Self {
            part: u32_at(bytes, 12).ok_or(HeadError::Short)?,
            first_block: Bytes(&bytes[16..]).u64().ok_or(HeadError::Short)?,
            fingerprinting,
            config: covered[FILE_HEAD_BYTES..].to_vec(),
        })
    }
}

/// The head of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHead {
    /// Whether it is the end of the trace: nothing follows, and it holds no event.
    pub(super) is_end: bool,
    pub(super) body_bytes: u32,
    pub(super) events: u32,
    /// Blocks are numbered without gaps through all files of a trace.
    pub(super) number: u64,
    /// The id of the first request sent in this block, or after it.
    pub(super) first_id: u64,
    /// What the first event's time counts from.
    pub(super) base: u64,
}

impl BlockHead {
    /// Writes the head into the room left before the body.
    pub(super) fn seal(&self, block: &mut [u8]) {
        let (head, body) = block.split_at_mut(BLOCK_HEAD_BYTES);
        head[..4].copy_from_slice(if self.is_end { END_MAGIC } else { BLOCK_MAGIC });
        head[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        head[8..12].copy_from_slice(&self.events.to_le_bytes());
        head[12..20].copy_from_slice(&self.number.to_le_bytes());
        head[20..28].copy_from_slice(&self.first_id.to_le_bytes());
        head[28..36].copy_from_slice(&self.base.to_le_bytes());
        let check = check(&head[..36], body);
        head[36..].copy_from_slice(&check.to_le_bytes());
    }

    /// Reads a head, which is not yet checked; `None` if it cannot be one.
    pub(super) fn decode(head: &[u8; BLOCK_HEAD_BYTES]) -> Option<Self> {
        let is_end = head.starts_with(END_MAGIC);
        let read = Self {
            is_end,
            body_bytes: u32_at(head, 4)?,
            events: u32_at(head, 8)?,
            number: Bytes(&head[12..]).u64()?,
            first_id: Bytes(&head[20..]).u64()?,
            base: Bytes(&head[28..]).u64()?,
        };
        let empty = read.body_bytes == 0 && read.events == 0;
        let fits = if is_end { empty } else { head.starts_with(BLOCK_MAGIC) };
        (fits && read.body_bytes <= BODY_BYTES_MAX).then_some(read)
    }

    /// Whether head and body are as they were written.
    pub(super) fn sound(head: &[u8; BLOCK_HEAD_BYTES], body: &[u8]) -> bool {
        Bytes(&head[36..]).u64() == Some(check(&head[..36], body))
    }
}

fn check(head: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64(head))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The format that this build writes.
pub(super) const FORMAT: u32 = 3;
/// The oldest that it reads: one of 2 has no `image_points`, which a reader of 2 would not miss.
pub(super) const OLDEST_FORMAT: u32 = 2;
/// The head of a file before the configuration.
pub(super) const FILE_HEAD_BYTES: usize = 30;
pub(super) const BLOCK_HEAD_BYTES: usize = 44;
/// A longer configuration is a mistake.
pub(super) const CONFIG_BYTES_MAX: usize = 1 << 24;
/// A longer body is damage: one event of a batch of a gigabyte is far shorter.
const BODY_BYTES_MAX: u32 = 1 << 30;
const MAGIC: &[u8; 8] = b"fogtrace";
const BLOCK_MAGIC: &[u8; 4] = b"FBlk";
const END_MAGIC: &[u8; 4] = b"FEnd";
