//! The plane beside a cloud in memory, which checks what it is shown and may delay every reply.

mod data;
mod exhaustive;
mod figures;
mod rules;
mod shape;
mod uniform;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::Randomness;
use fogbank_seal::{KeyRing, MasterKey, Salt, StoreId};
use fogbank_store::ChunkName;

use super::job::{Image, JobPart};
use super::journal::Part;
use super::layout::Layout;
use super::plane::{Cell, Images, PartitionPlane};
use super::reader::AccessPart;
use super::settings::PartitionSettings;
use crate::immediate::sequencer::Number;
use crate::{Access, ImmediateShape};

pub const BLOCK_BYTES: usize = 8;

/// What is under way to the cloud.
#[derive(Debug, Clone)]
enum Call {
    Record(u64, Vec<Part>),
    Read(AccessPart),
    ReadForJob(JobPart),
    Write(u32),
}

/// What the cloud sees of a call: its kind, and of every chunk how many cells.
pub type Seen = (&'static str, u64, Vec<(ChunkName, usize)>);

/// An engine without I/O: it cuts, and replies come as a test says.
pub struct Harness {
    pub plane: PartitionPlane,
    pub settings: PartitionSettings,
    pub layout: Layout,
    cells: HashMap<ChunkName, Vec<Option<(u32, Bytes)>>>,
    shown: HashMap<ChunkName, HashSet<u16>>,
    calls: Vec<Call>,
    waiting: Vec<(u32, Access)>,
    records: u64,
    durable: BTreeMap<u64, Vec<Part>>,
    next_durable: u64,
    pub answers: Vec<(Number, Bytes)>,
    pub trace: Vec<Seen>,
    pub cells_read: u64,
    pub cells_written: u64,
    orders_max: u64,
    cells_max: u64,
}

impl Harness {
    pub fn new(layout: Layout, seed: u64) -> Self {
        let master = MasterKey::from_bytes(&mut [7; 32]);
        let keys = KeyRing::derive(&master, StoreId([1; 16]), &[Salt([2; 16])]).unwrap();
        let random = Randomness::repeatable(seed);
        let shape = ImmediateShape { capacity: layout.blocks, value_bytes: BLOCK_BYTES };
        let settings = PartitionSettings { layout, ..PartitionSettings::new(shape, 0).unwrap() };
        Self {
            settings: settings.clone(),
            plane: PartitionPlane::new(&settings, Arc::new(keys), &random).fill().unwrap(),
            layout,
            cells: HashMap::new(),
            shown: HashMap::new(),
            calls: Vec::new(),
            waiting: Vec::new(),
            records: 0,
            durable: BTreeMap::new(),
            next_durable: 0,
            answers: Vec::new(),
            trace: Vec::new(),
            cells_read: 0,
            cells_written: 0,
            orders_max: u64::MAX,
            cells_max: u64::MAX,
        }
    }

    /// The same with budgets of orders and cells.
    pub fn with_budgets(self, orders_max: u64, cells_max: u64) -> Self {
        Self { orders_max, cells_max, ..self }
    }

    /// An access arrives.
    pub fn arrive(&mut self, block: u32, access: Access) {
        self.waiting.push((block, access));
    }

    /// Everything that can be done is done at once.
    pub fn settle(&mut self) {
        while self.cut() || !self.calls.is_empty() {
            while !self.calls.is_empty() {
                self.reply(0);
            }
        }
    }

    pub fn under_way(&self) -> usize {
        self.calls.len()
    }

    /// A record is cut, if there is anything for it: commits, jobs, accesses.
    pub fn cut(&mut self) -> bool {
        let commits = std::iter::from_fn(|| self.plane.next_commit());
        let mut parts: Vec<Part> = commits.map(Part::Commit).collect();
        while let Some(job) = self.plane.begin_job(self.cells_max).unwrap() {
            parts.push(Part::Job(job));
        }
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while self.plane.open_orders < self.orders_max
            && let Some((block, access)) = waiting.next()
        {
            parts.push(Part::Access(self.plane.cut_access(Some(block), access).unwrap()));
        }
        self.waiting = waiting.collect();
        if parts.is_empty() {
            return false;
        }
        self.trace.push(("record", self.records, vec![]));
        self.trace.push(("parts", parts.len() as u64, vec![]));
        self.calls.push(Call::Record(self.records, parts));
        self.records += 1;
        true
    }

    /// The reply to one of the calls under way comes.
    pub fn reply(&mut self, at: usize) {
        let call = self.calls.remove(at);
        // What may be whole now: the partition whose cells have come.
        let touched = match &call {
            Call::Read(part) => Some(part.partition),
            Call::ReadForJob(part) => Some(part.partition),
            _ => None,
        };
        match call {
            Call::Record(number, parts) => {
                self.durable.insert(number, parts);
                while let Some(parts) = self.durable.remove(&self.next_durable) {
                    self.next_durable += 1;
                    parts.into_iter().for_each(|part| self.is_durable(part));
                }
            }
            Call::Read(part) => {
                let live = self.live(part.partition, &part.cells);
                self.plane.cells_came(part.number, live);
            }
            Call::ReadForJob(part) => {
                let live = self.live(part.partition, &part.cells);
                self.plane.job_came(part.partition, live);
            }
            Call::Write(partition) => self.plane.written.push_back(partition),
        }
        while let Some(ended) = self.plane.end_next().unwrap() {
            self.answers.push(ended);
        }
        if let Some(partition) = touched
            && let Some(images) = self.plane.images(partition).unwrap()
        {
            self.write(images);
        }
    }

    fn is_durable(&mut self, part: Part) {
        match part {
            Part::Commit(commit) => {
                self.plane.commit(commit).unwrap();
                for gone in self.plane.dead.drain(..) {
                    let (partition, level) = self.layout.level_of(&gone).unwrap();
                    let gone = generation(partition, level, gone.version);
                    self.cells.remove(&gone);
                    self.shown.remove(&gone);
                }
            }
            Part::Job(job) => {
                self.show("job", job.until, job.partition, &job.cells);
                self.calls.push(Call::ReadForJob(job));
            }
            Part::Access(access) => {
                let given = [Some(access.partition), access.also];
                let given: Vec<u32> = given.into_iter().flatten().collect();
                self.plane.orders_are_durable(&given);
                self.show("read", access.number, access.partition, &access.cells);
                self.calls.push(Call::Read(access));
            }
        }
    }

    /// Cells in the cloud, those of levels that nobody has written not counted.
    pub fn stored_cells(&self) -> usize {
        self.cells.values().map(Vec::len).sum()
    }

    /// The cloud sees a message; no cell was ever in another.
    fn show(&mut self, kind: &'static str, number: u64, partition: u32, cells: &[Cell]) {
        let mut chunks: BTreeMap<ChunkName, usize> = BTreeMap::new();
        for cell in cells {
            let chunk = generation(partition, cell.level, cell.version);
            let is_new = self.shown.entry(chunk).or_default().insert(cell.place);
            assert!(is_new, "a cell is shown twice: {cell:?}");
            *chunks.entry(chunk).or_default() += 1;
        }
        self.cells_read += cells.len() as u64;
        self.trace.push((kind, number, chunks.into_iter().collect()));
    }

    /// What the live cells hold; a level that was never written holds zeros.
    fn live(&self, partition: u32, cells: &[Cell]) -> Vec<(u32, Bytes)> {
        let zeros = || Bytes::from_static(&[0; BLOCK_BYTES]);
        let live = cells.iter().filter_map(|cell| Some((cell.block?, cell)));
        let name = |cell: &Cell| generation(partition, cell.level, cell.version);
        live.map(|(block, cell)| match self.cells.get(&name(cell)) {
            None => {
                let tick = crate::geometry::tick_of(&name(cell));
                assert_eq!(tick, 0, "a generation is read that was dropped");
                (block, zeros())
            }
            Some(cells) => {
                let (held, value) = cells[usize::from(cell.place)].clone().unwrap();
                assert_eq!(held, block, "the cell of another block");
                (block, value)
            }
        })
        .collect()
    }

    fn write(&mut self, Images { partition, images }: Images) {
        let mut names = Vec::new();
        for Image { level, version, cells } in images {
            assert_eq!(cells.len(), usize::from(self.layout.cells(level)));
            self.cells_written += cells.len() as u64;
            let name = generation(partition, level, version);
            names.push(name);
            assert!(self.cells.insert(name, cells).is_none(), "a generation is written twice");
        }
        self.trace.push(("write", partition.into(), names.iter().map(|name| (*name, 0)).collect()));
        self.calls.push(Call::Write(partition));
    }
}

/// A level in one generation, in however many segments.
fn generation(partition: u32, level: u8, version: u64) -> ChunkName {
    ChunkName { array: super::segment::array(level), chunk: partition, version }
}

/// A write of a whole block.
pub fn write(value: u64) -> Access {
    Access::Write { offset: 0, bytes: Bytes::copy_from_slice(&value.to_le_bytes()) }
}
