//! The position map of engines with partitions: of every block its partition, and where in it the
//! block is. 5 bytes a block, as in a checkpoint.

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// In this level of its partition, at this rank.
    Level {
        /// The level.
        level: u8,
        /// The rank among the cells of the level.
        rank: u16,
    },
    /// In a job of its partition, to become that of this rank in this level.
    Job {
        /// The level to be written.
        level: u8,
        /// The rank among the cells of the level.
        rank: u16,
    },
    /// In the stash of its partition.
    Stash,
    /// Asked for, and not ended: in no partition.
    UnderWay,
}

/// Stand for the level of a block in a stash, and of one under way.
const IN_STASH: u8 = u8::MAX;
const UNDER_WAY: u8 = u8::MAX - 1;
/// Set in the level of a block in a job.
const IN_JOB: u8 = 0x40;

/// Partition and home of every block: 2 partition | 1 level or what stands for one | 2 rank.
#[derive(Debug, Clone)]
pub struct Positions(Vec<Entry>);

type Entry = [u8; POSITION_BYTES];

/// Bytes of a block.
pub const POSITION_BYTES: usize = 5;

impl Positions {
    /// Of so many blocks, all under way.
    pub fn new(blocks: u32) -> Self {
        Self(vec![entry(0, Home::UnderWay); blocks as usize])
    }

    /// The partition of `block`, which is not under way, and where in it the block is.
    pub fn get(&self, block: u32) -> (u16, Home) {
        let [a, b, level, c, d] = self.0[block as usize];
        (u16::from_le_bytes([a, b]), Home::of_bytes(level, u16::from_le_bytes([c, d])))
    }

    /// Notes that `block` is in `partition` now.
    pub fn set(&mut self, block: u32, partition: u16, home: Home) {
        self.0[block as usize] = entry(partition, home);
    }

    /// Notes where in its partition `block` is now.
    pub fn set_home(&mut self, block: u32, home: Home) {
        let (partition, _) = self.get(block);
        self.set(block, partition, home);
    }
}

fn entry(partition: u16, home: Home) -> Entry {
    let ([a, b], (level, rank)) = (partition.to_le_bytes(), home.bytes());
    let [c, d] = rank.to_le_bytes();
    [a, b, level, c, d]
}

impl Home {
    /// As it is kept: a level, or what stands for one, and a rank.
    pub fn bytes(self) -> (u8, u16) {
        match self {
            Self::Level { level, rank } => (level, rank),
            Self::Job { level, rank } => (level | IN_JOB, rank),
            Self::Stash => (IN_STASH, 0),
            Self::UnderWay => (UNDER_WAY, 0),
        }
    }

    /// What [`Home::bytes`] made.
    pub fn of_bytes(level: u8, rank: u16) -> Self {
        match level {
            IN_STASH => Self::Stash,
            UNDER_WAY => Self::UnderWay,
            level if level & IN_JOB != 0 => Self::Job { level: level & !IN_JOB, rank },
            level => Self::Level { level, rank },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found() {
        let mut positions = Positions::new(3);
        assert_eq!(positions.get(1), (0, Home::UnderWay));
        for (level, rank) in [(0, 0), (14, u16::MAX), (3, 258)] {
            for home in [
                Home::Level { level, rank },
                Home::Job { level, rank },
                Home::Stash,
                Home::UnderWay,
            ] {
                positions.set(1, u16::MAX - 1, home);
                assert_eq!(positions.get(1), (u16::MAX - 1, home));
                positions.set(2, 7, Home::Stash);
                positions.set_home(2, home);
                assert_eq!(positions.get(2), (7, home));
            }
        }
        assert_eq!(positions.get(0), (0, Home::UnderWay), "neighbours are left alone");
    }
}
