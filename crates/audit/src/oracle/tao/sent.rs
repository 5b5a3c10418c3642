//! Requests: each is held against what is due.

use fogbank_store::ArrayShape;
use fogbank_store::trace::{Condition, Request, Sent};

use super::recovery::Journalled;
use super::writebacks::WriteBacks;
use super::{MIDST, Part, SLOW, Stage, Tao, Waiting};
use crate::oracle::blob::{JOURNAL, Kept, check_put};
use crate::oracle::fault::{Step, Stop, fault};
use crate::oracle::replies::Expected;
use crate::{Observation, Observer};

impl Tao {
    pub(super) fn sent(&mut self, sent: &Sent, out: &mut dyn Observer) -> Result<(), Stop> {
        self.summary.requests += 1;
        let request = &sent.request;
        self.orient(request)?;
        if (sent.cloud, sent.connection) != (0, 0) {
            let seen = format!("cloud {} connection {}", sent.cloud, sent.connection);
            fault("unknown-operation", "one cloud and one connection", seen)?;
        }
        let part = match self.look(request) {
            Some(part) => part,
            None => self.part(sent, out)?,
        };
        let (mut prints, mut put) = (Vec::new(), None);
        let expected = match request {
            Request::ReadChunks { chunks } => {
                prints = self.tree.prints(chunks);
                let bytes = u64::from(self.config.reals) * u64::from(self.config.cell_bytes);
                Expected::Buckets(bytes)
            }
            Request::BlobPut { name, bytes, fingerprint, .. } => {
                put = Some(name.clone());
                let (bytes, fingerprint) = (*bytes, *fingerprint);
                let kind = name.split('/').next().unwrap_or_default();
                out.observe(&Observation::Blob { kind, bytes, fingerprint });
                Expected::Put
            }
            Request::BlobGet { .. } => match part {
                Part::Fetch(piece) => Expected::Piece(Some(piece)),
                _ => Expected::Commit,
            },
            Request::BlobList { .. } => Expected::List,
            Request::ListChunks { .. } => Expected::Chunks,
            _ => Expected::Done,
        };
        self.waiting.push(Waiting { id: sent.id, expected, prints, lane: part, put });
        Ok(())
    }

    /// A trace that begins in the middle of a store's life cannot be followed.
    fn orient(&mut self, request: &Request) -> Result<(), Stop> {
        if self.oriented {
            return Ok(());
        }
        match request {
            Request::BlobGet { .. } => return Ok(()),
            Request::BlobPut { condition: Condition::IfAbsent, .. } => {}
            Request::ReadChunks { .. } | Request::ListChunks { .. } => {}
            _ => return Err(Stop::Unpredictable(MIDST)),
        }
        self.oriented = true;
        Ok(())
    }

    /// What a request looks for: what became of a put, or that it be durable.
    fn look(&mut self, request: &Request) -> Option<Part> {
        let doubts = self.doubts.iter_mut().filter(|doubt| !doubt.under_way);
        let (doubt, part) = match request {
            Request::BlobGet { name } => {
                (doubts.filter(|d| !d.ours && d.name == *name).last()?, Part::Look)
            }
            Request::Barrier => (doubts.filter(|d| d.ours).last()?, Part::Settled),
            _ => return None,
        };
        doubt.under_way = true;
        Some(part)
    }

    /// Holds a request against what is due.
    fn part(&mut self, sent: &Sent, out: &mut dyn Observer) -> Result<Part, Stop> {
        let request = &sent.request;
        if let Some((rule, from)) = self.silent {
            // What was decided before the proxy knew may leave up to then.
            if sent.at > from {
                fault(rule, "nothing more", format!("{:?}", request.operation()))?;
            }
            return Ok(Part::Unchecked);
        }
        if self.stage == Stage::Opening {
            return Ok(self.opening_call(request)?);
        }
        let tick = match request {
            Request::WriteChunks { writes } => Some(WriteBacks::tick_of(writes)),
            _ => None,
        };
        if self.write_backs.is_open_at(self.at) {
            return Err(Stop::Unpredictable(SLOW));
        }
        let tree = (&mut self.tree, self.accesses.put);
        self.write_backs.close_full(self.at, tick, tree)?;
        self.take_paths();
        self.decide_deletions();
        self.recovered();
        Ok(match request {
            Request::ReadChunks { chunks } if self.is_replaying() => {
                self.read_again(chunks, out)?
            }
            Request::ReadChunks { chunks } => {
                let of = self.accesses.path(self.at, chunks.len())?;
                let shown = self.tree.path(chunks, self.at)?;
                self.tree.ask(shown);
                self.note_path(shown, out);
                if let Some(record) =
                    self.journal.values_mut().rfind(|one| one.number == Some(of.0))
                {
                    record.paths.push(shown);
                }
                Part::Path(of, shown)
            }
            Request::WriteChunks { writes } => {
                let tick = WriteBacks::tick_of(writes);
                if !self.write_backs.has_begun(tick) {
                    self.close_if_idle();
                }
                let tree = (&mut self.tree, self.accesses.put);
                Part::Images(self.write_backs.send(self.at, writes, tree, out)?)
            }
            Request::BlobPut { name, bytes, condition, fingerprint } => {
                let kept = Kept { bytes: *bytes, fingerprint: *fingerprint };
                match name.starts_with(JOURNAL) {
                    true => self.record((name, kept, condition))?,
                    false => self.put_checkpoint((name, kept, condition))?,
                }
            }
            Request::Barrier => self.barrier()?,
            Request::BlobDelete { names } => self.delete_blobs(names)?,
            Request::DeleteChunks { chunks } => match self.stage {
                Stage::SweepDelete(count) => self.sweep(chunks, count)?,
                _ => self.delete_chunks(chunks)?,
            },
            Request::ListChunks { array } if array.0 == self.config.array => {
                if self.stage != Stage::SweepList {
                    let due = format!("{:?}", self.stage);
                    fault("blob-order", due, "list chunks")?;
                }
                Part::SweepList
            }
            _ => {
                let seen = format!("{:?}", request.operation());
                fault("unknown-operation", "an operation of the protocol", seen)?
            }
        })
    }

    fn is_replaying(&self) -> bool {
        matches!(self.stage, Stage::Replaying | Stage::Recovering)
    }

    /// A journal record is put.
    fn record(&mut self, put: (&str, Kept, &Condition)) -> Step<Part> {
        let (name, kept, condition) = put;
        let seen = || format!("put {name}");
        if self.has_departed {
            return fault("on-grid", "no record after a point without one", seen());
        }
        if self.stage != Stage::Serving {
            return fault("record-due", format!("no record while {:?}", self.stage), seen());
        }
        if self.is_recording {
            return fault("one-record", "the end of the record before", seen());
        }
        if self.cut_due {
            return fault("cut-due", "no record before the cut", seen());
        }
        if self.commits() {
            return fault("commit-order", "the commit", seen());
        }
        if let Some(point) = self.grid.next().filter(|point| *point != self.at) {
            let quantum = self.config.quantum_ns;
            let [due, seen] = [point, self.at].map(|at| format!("{} ns", at + quantum));
            return fault("on-grid", due, seen);
        }
        let due = self.chain.next_record();
        check_put((&due, &Condition::IfAbsent), (name, condition), "blob-order")?;
        let parts = self.chain.accesses_of(kept.bytes)? as usize;
        self.accesses.record(parts, self.room())?;
        self.is_last = self.checkpoint_is_due();
        self.chain.put(name, kept, condition, false)?;
        let number = Some(self.accesses.put - 1);
        let journalled = Journalled { number, parts, paths: Vec::new() };
        self.journal.insert(name.into(), journalled);
        self.is_recording = true;
        self.summary.read_batches += 1;
        Ok(Part::Record(name.into()))
    }

    /// Holds the making of the array against the tree.
    pub(super) fn check_array(&self, array: u16, shape: ArrayShape) -> Step {
        let (chunks, cells_per_chunk) = (self.tree.shape.buckets(), self.tree.shape.slots());
        let cell_bytes = self.config.cell_bytes;
        let expected = ArrayShape { chunks, cells_per_chunk, cell_bytes };
        if array != self.config.array || shape != expected {
            return fault("array-shape", format!("{expected:?}"), format!("{array}: {shape:?}"));
        }
        Ok(())
    }
}
