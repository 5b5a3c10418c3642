//! Records, and sums of covers: what every check compares with.

use fogbank_mix::message::Record;
use fogbank_mix::{Generation, Pads, Point, Seed, Sum};
use fogbank_seal::{RecordPlace, SeedFor, SplitKeys};

use super::chain::Cell;

/// The sums of a cell at the points of its holder and of its shuffler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// At the holder's point: what the shuffler sends is checked with it.
    pub holder: Sum,
    /// At the shuffler's point: what the holder sends is checked with it.
    pub shuffler: Sum,
}

impl std::ops::BitXor for Sums {
    type Output = Self;
    fn bitxor(self, other: Self) -> Self {
        let (holder, shuffler) = (self.holder ^ other.holder, self.shuffler ^ other.shuffler);
        Self { holder, shuffler }
    }
}

/// What sums of a partition are made with.
pub struct Checks<'a> {
    /// The keys of the volume.
    pub keys: &'a SplitKeys,
    /// The point of the partition's holder.
    pub holder: &'a Point,
    /// The point of the partition's shuffler.
    pub shuffler: &'a Point,
    /// The partition.
    pub partition: u16,
    /// Bytes of a cell.
    pub cell_bytes: usize,
}

impl Checks<'_> {
    /// Both sums of a cell.
    pub fn sums(&self, cell: &[u8]) -> Sums {
        Sums { holder: self.holder.sum(cell), shuffler: self.shuffler.sum(cell) }
    }

    /// The pads of a purpose.
    pub fn pads(&self, purpose: SeedFor) -> Pads {
        Pads::new(&Seed::new(self.keys.seed(purpose)), self.cell_bytes)
    }

    /// The cover of `cell` at its place.
    pub fn cover(&self, cell: Cell) -> (Pads, u32) {
        let purpose = SeedFor::Level(self.partition, cell.level, cell.generation.0);
        (self.pads(purpose), cell.place)
    }

    /// Both sums of these covers together.
    pub fn sums_of_covers<'b>(&self, covers: impl IntoIterator<Item = (&'b Pads, u32)>) -> Sums {
        let mut all = vec![0; self.cell_bytes];
        covers.into_iter().for_each(|(pads, index)| pads.xor(index, &mut all));
        self.sums(&all)
    }

    /// The record of a cell.
    pub fn record(&self, cell: Cell, sums: Sums) -> Record {
        let mut both = [0; 16];
        both[..8].copy_from_slice(&sums.holder.0.to_be_bytes());
        both[8..].copy_from_slice(&sums.shuffler.0.to_be_bytes());
        self.keys.seal_record(self.place(cell), both)
    }

    /// What the record of a cell says: the sums of what lies there, without covers.
    pub fn open(&self, cell: Cell, record: Record) -> Sums {
        let both = u128::from_be_bytes(self.keys.open_record(self.place(cell), record));
        Sums { holder: Sum((both >> 64) as u64), shuffler: Sum(both as u64) }
    }

    /// What stands under all records of a level.
    pub fn seal(&self, level: u8, generation: Generation, records: &[Record]) -> Record {
        self.keys.seal_records((self.partition, level, generation.0), records)
    }

    fn place(&self, cell: Cell) -> RecordPlace {
        let Cell { level, generation, place } = cell;
        RecordPlace { partition: self.partition, level, generation: generation.0, place }
    }
}
