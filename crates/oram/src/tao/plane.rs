//! The Processor as the plane of an immediate engine: each step of the shell in terms of the
//! paper's.

use std::sync::Arc;

use fogbank_store::ChunkName;

use super::journal::{Entry, Kind};
use super::path::{Opened, TaoCodec};
use super::processor::{PathRequest, Processor};
use super::writeback::{WriteBack, Written};
use super::{replay, state};
use crate::Result;
use crate::immediate::core::Core;
use crate::immediate::engine::{Progress, Shared};
use crate::immediate::plane::{Cut, Departing, Message, Plane, Record, Request};
use crate::immediate::sequencer::Number;

impl Plane for Processor {
    type Part = Entry;
    type Request = PathRequest;
    type Opened = Vec<Opened>;
    type Due = WriteBack;
    type Written = Written;
    type Codec = TaoCodec;

    /// A newer version is read as soon as it was acknowledged; checkpoints wait for a barrier.
    const HAS_JOBS: bool = false;
    const CUTS_QUIETLY: bool = true;

    fn depart(&mut self, accesses: Vec<Departing>) -> Result<Record<Self>> {
        let paths = accesses.into_iter();
        let read = paths.map(|(number, address, access)| self.read_path(number, address.0, access));
        let (requests, parts) = read.unzip();
        Ok(Record { parts, requests })
    }

    fn ask(&mut self, path: &PathRequest) -> Message {
        Message::Chunks(self.path_buckets(path))
    }

    fn returned(
        core: &mut Core<Self>,
        path: PathRequest,
        buckets: Vec<Opened>,
    ) -> Result<Vec<WriteBack>> {
        core.ended(path.number);
        let due = core.plane.path_returned(&path, buckets, &mut core.sequencer)?;
        Ok(due.into_iter().collect())
    }

    fn acknowledged(core: &mut Core<Self>, written: &Written) {
        core.plane.acknowledge(written, core.sequencer.next());
    }

    /// None while too much of what came back before has not been acknowledged by the cloud.
    fn room(&self) -> usize {
        let is_roomy = self.unacknowledged.len() < self.write_backs_max;
        if is_roomy { self.under_way_max } else { 0 }
    }

    /// A public number of write-backs after the last.
    fn cut_is_due(&self) -> bool {
        self.tick >= self.cut_after + self.write_backs_a_checkpoint
    }

    /// What has been flushed is written back first.
    fn cut(&mut self) -> Result<Cut<Self>> {
        let due = (!self.write_queue.is_empty()).then(|| self.begin_write_back());
        self.cut_after = self.tick;
        Ok(Cut { due, mark: self.tick, sections: state::save(self)? })
    }

    fn is_acknowledged(&self, tick: u64) -> bool {
        self.unacknowledged.first().is_none_or(|first| *first > tick)
    }

    fn has_checkpoint(&mut self) {
        self.stats.checkpoints += 1;
    }

    fn superseded(&mut self, tick: u64, oldest: Number) -> Vec<ChunkName> {
        self.take_superseded(tick, oldest)
    }

    fn is_current(&self, name: &ChunkName) -> bool {
        self.versions.get(name.chunk as usize) == Some(&name.version)
    }

    async fn replay(
        shared: &Arc<Shared<Self>>,
        journal: Vec<Vec<u8>>,
        progress: &Progress,
    ) -> Result<bool> {
        replay::replay(shared, journal, progress).await
    }
}

impl Request for PathRequest {
    fn decoy(&self) -> Option<Number> {
        (self.kind == Kind::Decoy).then_some(self.number)
    }

    fn content(&self) -> u32 {
        self.block
    }
}
