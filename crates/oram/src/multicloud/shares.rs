//! What each of the two clouds holds and sends, from public settings alone: the figures of a volume
//! (`figures`), told apart by who sends.
//!
//! The holder of a partition keeps its levels, and sends the shuffler a cell of every filled level
//! a read (`blinded`) and what a rebuild of the top takes (`moved`). The shuffler sends the holder
//! every level that is written (`level`). The first cloud holds every other partition, the second
//! the others, and accesses fall on all partitions alike.

use super::figures::{Cycle, DIGEST_BYTES, RECORD_BYTES};
use super::settings::MulticloudSettings;
use crate::Result;
use crate::turn::EVICTIONS;

/// Of one of the two clouds. An access is one of the volume, whichever partition it falls on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CloudShare {
    /// Bytes of the levels that it holds; twice while jobs write anew.
    pub storage_bytes: f64,
    /// Bytes that an access has it send to the client.
    pub to_client_bytes: f64,
    /// Cells that an access has it send to the other cloud.
    pub to_other_cells: f64,
}

impl MulticloudSettings {
    /// The parts of the first cloud and of the second. Together they are the whole: of what is
    /// stored, of what the client receives, and of the cells between the clouds.
    ///
    /// # Errors
    /// [`crate::Error::Caller`] if there is no such volume.
    pub fn shares(&self) -> Result<[CloudShare; 2]> {
        let shape = self.public()?;
        let (cell, storage) = (shape.cell_bytes() as f64, self.storage_bytes_max()? as f64);
        let Cycle { levels, written, read, moved, .. } = Cycle::of(&shape);
        let records = RECORD_BYTES * (levels + EVICTIONS * read);
        let of_holder = records + self.refresh_traffic()?.down_bytes;
        let of_shuffler = cell + DIGEST_BYTES;
        // Partition 0 is the first cloud's.
        let first = f64::from(shape.partitions.div_ceil(2)) / f64::from(shape.partitions);
        Ok([first, 1.0 - first].map(|held| CloudShare {
            storage_bytes: held * storage,
            to_client_bytes: held * of_holder + (1.0 - held) * of_shuffler,
            to_other_cells: held * (levels + EVICTIONS * moved)
                + (1.0 - held) * EVICTIONS * written,
        }))
    }

    /// Bytes of a cell: those of a block and what covers and checks it.
    ///
    /// # Errors
    /// As [`MulticloudSettings::shares`].
    pub fn cell_bytes(&self) -> Result<usize> {
        Ok(self.public()?.cell_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImmediateShape;

    /// Whatever the size, nothing is counted twice and nothing is left out.
    #[test]
    fn both_shares_are_the_whole() {
        for capacity in [1, 2, 100, 1 << 12, 1 << 18, 1 << 28] {
            let shape = ImmediateShape { capacity, value_bytes: 4096 };
            let settings = MulticloudSettings::new(shape, 3).unwrap();
            let [first, second] = settings.shares().unwrap();
            let is = |sum: f64, whole: f64| {
                assert!((sum - whole).abs() <= 1e-9 * whole, "{capacity}: {sum} of {whole}");
            };
            let of = |part: fn(&CloudShare) -> f64| part(&first) + part(&second);
            is(of(|share| share.storage_bytes), settings.storage_bytes_max().unwrap() as f64);
            is(of(|share| share.to_client_bytes), settings.traffic().unwrap().down_bytes);
            is(of(|share| share.to_other_cells), settings.cells_between().unwrap());
            match settings.layout.partitions {
                // Who holds all is sent what is written, and sends what is read.
                1 => assert!(second.storage_bytes == 0.0 && first != second),
                _ => assert!((first.to_other_cells - second.to_other_cells).abs() < 1e-9),
            }
        }
    }
}
