//! The position map as one flat array in memory: 8 bytes an address.
//!
//! Beside the leaf it keeps where the block is now, so that finding a block is an index and never a
//! search. Only the leaf is state; the place follows from stash and buckets.

use fogbank_durable::SectionReader;

use crate::Result;
use crate::checkpoint::inconsistent;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// In the stash, at this index of the bin of its leaf.
    Stash {
        /// The index within the bin.
        index: u32,
    },
    /// In the bucket at this level of its path.
    Bucket {
        /// The level.
        level: u8,
        /// The index among the blocks of the bucket.
        index: u16,
    },
}

/// Leaf and place of every address.
#[derive(Debug, Clone)]
pub struct FlatPositions {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    leaf: u32,
    location: u32, // bit 31: stash, index below; else level << 16 | index
}

const IN_STASH: u32 = 1 << 31;
const ABSENT: u32 = u32::MAX;

impl FlatPositions {
    /// A map of `capacity` addresses that all hold nothing.
    pub fn new(capacity: u32) -> Self {
        Self { entries: vec![Entry { leaf: ABSENT, location: ABSENT }; capacity as usize] }
    }

    /// The leaf of `block`, or `None` if the address holds nothing.
    pub fn leaf(&self, block: u32) -> Option<u32> {
        let leaf = self.entries[block as usize].leaf;
        (leaf != ABSENT).then_some(leaf)
    }

    /// Where `block` is, or `None` if the address holds nothing.
    pub fn location(&self, block: u32) -> Option<Location> {
        let entry = self.entries[block as usize];
        (entry.leaf != ABSENT).then(|| Location::unpack(entry.location))
    }

    /// Maps `block` to `leaf`.
    pub fn set_leaf(&mut self, block: u32, leaf: u32) {
        self.entries[block as usize].leaf = leaf;
    }

    /// Notes where `block` is now.
    pub fn set_location(&mut self, block: u32, location: Location) {
        self.entries[block as usize].location = location.pack();
    }

    /// The leaf of every address as bytes, 4 each, all ones where it holds nothing.
    pub fn save_leaves(&self) -> Vec<u8> {
        self.entries.iter().flat_map(|entry| entry.leaf.to_le_bytes()).collect()
    }

    /// Takes over what [`FlatPositions::save_leaves`] made; leaves are below `leaves`.
    ///
    /// # Errors
    /// [`crate::Error::Bug`] if one is not, or one is missing.
    pub fn load_leaves(&mut self, bytes: &[u8], leaves: u32) -> Result<()> {
        let mut bytes = SectionReader(bytes);
        for entry in &mut self.entries {
            entry.leaf = match bytes.u32()? {
                leaf if leaf < leaves || leaf == ABSENT => leaf,
                _ => return Err(inconsistent()),
            };
        }
        if bytes.is_empty() { Ok(()) } else { Err(inconsistent()) }
    }

    /// Forgets `block`: its address holds nothing now.
    pub fn clear(&mut self, block: u32) {
        self.entries[block as usize] = Entry { leaf: ABSENT, location: ABSENT };
    }
}

impl Location {
    fn pack(self) -> u32 {
        match self {
            Self::Stash { index } => IN_STASH | index,
            Self::Bucket { level, index } => u32::from(level) << 16 | u32::from(index),
        }
    }

    fn unpack(packed: u32) -> Self {
        if packed & IN_STASH != 0 {
            Self::Stash { index: packed & !IN_STASH }
        } else {
            Self::Bucket { level: (packed >> 16) as u8, index: packed as u16 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found() {
        let mut positions = FlatPositions::new(3);
        assert_eq!((positions.leaf(2), positions.location(2)), (None, None));
        for place in [
            Location::Stash { index: 0 },
            Location::Stash { index: 1 << 30 },
            Location::Bucket { level: 0, index: 0 },
            Location::Bucket { level: 28, index: 1023 },
        ] {
            positions.set_leaf(2, 7);
            positions.set_location(2, place);
            assert_eq!((positions.leaf(2), positions.location(2)), (Some(7), Some(place)));
        }
        positions.clear(2);
        assert_eq!((positions.leaf(2), positions.location(2)), (None, None));
    }
}
