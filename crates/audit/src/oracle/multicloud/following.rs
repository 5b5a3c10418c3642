//! Whether a trace follows the one before it: the first new read has the next number, and until
//! then no message is of a job or a read that has to come later. A trace that is missing between
//! is the fault of whoever gives the traces.

use fogbank_store::trace::{CellsOf, Request};

use super::Multicloud;
use super::partition::count;
use super::said::Said;

impl Multicloud {
    /// What tells that something is missing before a message that does not fit; nothing, if it is
    /// not ahead of what is known.
    pub(super) fn gap(&self, request: &Request) -> Option<String> {
        let (kind, partition, number) = match request {
            Request::BlobPut { name, .. } => match Said::of(name)? {
                Said::Look { read, .. } | Said::Want { read, .. } => ("read", None, read),
                Said::Recall { partition, job, .. }
                | Said::Hand { partition, job, .. }
                | Said::List { partition, job, .. }
                | Said::Records { partition, job, .. }
                | Said::Mix { partition, job, .. }
                | Said::Strip { partition, job }
                | Said::Commit { partition, job } => ("job", Some(partition), job),
                Said::Reached { .. } => return None,
            },
            Request::WriteChunks { writes } => {
                let (name, _) = writes.first()?;
                match CellsOf::of(name.array)? {
                    CellsOf::Blinded => ("read", None, name.version),
                    _ => ("job", Some(name.chunk as u16), name.version),
                }
            }
            _ => return None,
        };
        let is_ahead = match partition {
            None => number > self.next,
            Some(partition) => self.is_later(partition, number)?,
        };
        is_ahead.then(|| format!("it goes on with {kind} {number}, and not all before it was seen"))
    }

    /// Whether a job comes after all that were named.
    fn is_later(&self, partition: u16, job: u64) -> Option<bool> {
        let of = self.partitions.get(usize::from(partition))?;
        let known = of.job.as_ref().map_or(of.done, |job| count(job.job));
        Some(count(job) > known)
    }
}
