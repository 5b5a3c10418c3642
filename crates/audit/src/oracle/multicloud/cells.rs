//! Cells: how many there are of a message, and that none of them was seen before.

use fogbank_store::ChunkName;
use fogbank_store::trace::{CellsOf, ChunkSeen};

use super::Multicloud;
use super::partition::count;
use crate::oracle::fault::{Step, fault};
use crate::{Observation, Observer};

impl Multicloud {
    /// Cells come: how many there are follows from counters, and none was seen before.
    pub(super) fn comes(
        &mut self,
        name: &ChunkName,
        seen: &ChunkSeen,
        out: &mut dyn Observer,
    ) -> Step {
        let (partition, job, cells) = (name.chunk as u16, name.version, &seen.fingerprints);
        let size = self.layout.size(self.layout.written(count(job)), count(job)) as usize;
        let Some(kind) = CellsOf::of(name.array) else {
            return fault("kind", "what a cloud is sent", name.array.0.to_string());
        };
        let (is_holder, due) = match kind {
            CellsOf::Upload => {
                self.has_role(partition, false)?;
                self.of(partition)?.job("upload-of-job", job)?.is_ready = true;
                (false, self.layout.uploads(count(job)) as usize)
            }
            CellsOf::Blinded => {
                let each = u64::from(self.layout.0.cell_bytes);
                if each * cells.len() as u64 != seen.bytes {
                    return fault("cell-bytes", each.to_string(), seen.bytes.to_string());
                }
                return self.blinded(job, cells, out);
            }
            CellsOf::Moved => {
                let sources = self.layout.sources(partition, count(job));
                let quotas = sources.iter().map(|(level, _)| self.layout.quota(*level));
                (false, quotas.sum::<u32>() as usize)
            }
            CellsOf::Handed => {
                let sources = self.layout.sources(partition, count(job));
                let sizes =
                    sources.iter().map(|(level, written)| self.layout.size(*level, *written));
                (false, sizes.sum::<u32>() as usize)
            }
            CellsOf::Level => (true, size),
        };
        self.is_known(partition)?;
        self.has_role(partition, is_holder)?;
        if cells.len() != due {
            return fault("cells-by-counters", due.to_string(), cells.len().to_string());
        }
        // What was handed over is as it was stored: the shuffler made it, and knows every byte.
        if kind != CellsOf::Handed {
            self.unlinkable.comes(cells)?;
            out.observe(&Observation::Image {
                chunk: partition.into(),
                version: job,
                fingerprints: cells,
            });
        }
        self.summary.images += 1;
        Ok(())
    }
}
