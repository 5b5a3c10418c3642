//! The position map of engines with partitions: of every block its partition, and where in it the
//! block is. 8 bytes a block.

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

/// Partition and home of every block.
#[derive(Debug, Clone)]
pub struct Positions(Vec<Entry>);

#[derive(Debug, Clone, Copy)]
struct Entry {
    partition: u32,
    home: Home,
}

impl Positions {
    /// Of so many blocks, all under way.
    pub fn new(blocks: u32) -> Self {
        Self(vec![Entry { partition: 0, home: Home::UnderWay }; blocks as usize])
    }

    /// The partition of `block`, which is not under way, and where in it the block is.
    pub fn get(&self, block: u32) -> (u32, Home) {
        let Entry { partition, home } = self.0[block as usize];
        (partition, home)
    }

    /// Notes that `block` is in `partition` now.
    pub fn set(&mut self, block: u32, partition: u32, home: Home) {
        self.0[block as usize] = Entry { partition, home };
    }

    /// Notes where in its partition `block` is now.
    pub fn set_home(&mut self, block: u32, home: Home) {
        self.0[block as usize].home = home;
    }
}

const _: () = assert!(size_of::<Entry>() == 8);
