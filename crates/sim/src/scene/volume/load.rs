//! What clients ask for, and when: times come from the seed alone, so they are the same whatever is
//! asked.

use bytes::Bytes;
use fogbank_env::{Nanos, Stream};
use fogbank_oram::{Access, Address, ImmediateShape};
use rand_core::Rng;

use super::file_system::{self, Asked};
use crate::scene::workload::below;

/// What clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// One block, read and written.
    OneHotBlock,
    /// All blocks alike, read and written.
    Uniform,
    /// All blocks in their order, read.
    Scan,
    /// All blocks alike, read.
    AllReads,
    /// All blocks alike, written.
    AllWrites,
    /// A few blocks by half of the accesses, all by the others; read and written.
    Mixed,
    /// A few blocks, read or written as a whole with what was never written before: who reads tells
    /// which write he saw.
    Registers,
    /// A file system to which one large file is copied; one client asks.
    OneLargeFile,
    /// A file system on which many small files are made; one client asks.
    ManySmallFiles,
}

impl Load {
    /// All that know no more than the shape of the store; registers are for a check from outside.
    pub const ALL: [Self; 6] = [
        Self::OneHotBlock,
        Self::Uniform,
        Self::Scan,
        Self::AllReads,
        Self::AllWrites,
        Self::Mixed,
    ];

    /// A stable name, in kebab case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneHotBlock => "one-hot-block",
            Self::Uniform => "uniform",
            Self::Scan => "scan",
            Self::AllReads => "all-reads",
            Self::AllWrites => "all-writes",
            Self::Mixed => "mixed",
            Self::Registers => "registers",
            Self::OneLargeFile => "one-large-file",
            Self::ManySmallFiles => "many-small-files",
        }
    }

    /// What a file system asked for, if this is one.
    fn asked(self) -> &'static [Asked] {
        match self {
            Self::OneLargeFile => file_system::one_large_file(),
            Self::ManySmallFiles => file_system::many_small_files(),
            _ => &[],
        }
    }

    /// How many accesses a file system made, if this is one.
    pub fn accesses(self) -> u64 {
        self.asked().len() as u64
    }

    /// When the access is made, after the one before: by the seed alone, or as the file system did.
    pub(super) fn gap(self, number: u64, stream: &mut Stream, mean: Nanos) -> Nanos {
        let asked = self.asked();
        match (asked.get(number as usize), number.checked_sub(1)) {
            (None, _) => gap(stream, mean),
            (Some(_), None) => mean,
            (Some(one), Some(before)) => one.at - asked[before as usize].at,
        }
    }

    /// The next access.
    pub(super) fn next(
        self,
        number: u64,
        shape: ImmediateShape,
        stream: &mut Stream,
    ) -> (Address, Access) {
        let any = below(stream, shape.capacity);
        let few = below(stream, 3).min(shape.capacity - 1);
        let bit = below(stream, 2) == 0;
        let asked = self.asked().get(number as usize);
        let block = match self {
            Self::OneLargeFile | Self::ManySmallFiles => asked.map_or(0, |one| one.block),
            Self::OneHotBlock => 0,
            Self::Scan => (number % u64::from(shape.capacity)) as u32,
            Self::Mixed if below(stream, 2) == 0 => few,
            Self::Registers => any % 20,
            _ => any,
        };
        let writes = match self {
            Self::Scan | Self::AllReads => false,
            Self::AllWrites => true,
            Self::OneLargeFile | Self::ManySmallFiles => asked.is_some_and(|one| one.writes),
            _ => bit,
        };
        if !writes {
            return (Address(block), Access::Read);
        }
        let (offset, length) = match self {
            Self::Registers => (0, shape.value_bytes as u32),
            _ => {
                let offset = below(stream, shape.value_bytes as u32);
                (offset, 1 + below(stream, shape.value_bytes as u32 - offset))
            }
        };
        let bytes: Vec<u8> = (0..length).map(|_| stream.next_u32() as u8).collect();
        (Address(block), Access::Write { offset, bytes: Bytes::from(bytes) })
    }
}

/// When accesses arrive: now and then several at one instant, now and then none for a while.
fn gap(stream: &mut Stream, mean: Nanos) -> Nanos {
    match below(stream, 4) {
        0 | 1 => 0,
        2 => mean,
        _ => Nanos::from(below(stream, 5)) * mean,
    }
}
