//! What the client knows, and what happens to it: accesses arrive, messages come.
//!
//! Several reads, and jobs of different partitions, are under way at once; messages may come in any
//! order. After every step whatever can go on does: accesses end, jobs are committed, jobs begin,
//! accesses depart.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_mix::message::{
    Answer, Fetched, FromHolder, FromShuffler, JobRecords, LevelDigest, Lost, MovedDigest, Place,
    Records, Stored, ToHolder, ToShuffler,
};
use fogbank_mix::{Point, Seed, Shape};
use fogbank_seal::{SplitKeys, UploadPlace};
use hashbrown::HashMap;
use rand_core::Rng;

use super::blame::{Accusation, lied_between, lied_by};
use super::canary::Canary;
use super::chain::{Cell, Found, Uncovered, Uncovering, Whose};
use super::checks::Checks;
use super::journal::Entry;
use super::pyramid::Pyramid;
use super::reader::{Head, UnderWay};
use super::settings::MulticloudSettings;
use crate::position::Positions;
use crate::turn::Turn;
use crate::{Access, Address, Error, Result, lied};

/// What has to take place, in the order in which it was given out.
#[derive(Debug, Clone)]
pub enum Effect {
    /// This has to be durable before anything behind it takes place.
    Journal(Entry),
    /// To the holder of a partition.
    Holder(u16, ToHolder),
    /// To the shuffler of a partition.
    Shuffler(u16, ToShuffler),
    /// The answer to the access of this number, from 0 in the order of arrival.
    Answer(u64, Bytes),
    /// Chains to be walked, beside the steps: [`MulticloudPlane::uncovered`].
    Uncover(Uncovering),
}

/// See the module.
#[derive(Debug)]
pub struct MulticloudPlane {
    pub(super) settings: MulticloudSettings,
    pub(super) shape: Shape,
    pub(super) keys: Arc<SplitKeys>,
    /// By cloud: each its own.
    points: [Point; 2],
    pub(super) positions: Positions,
    /// Of blocks that are in no cell. One that nobody has written is not here, and holds zeros.
    pub(super) values: HashMap<u32, Bytes>,
    pub(super) zeros: Bytes,
    pub(super) pyramids: Box<[Pyramid]>,
    /// How many accesses under way ask for a block.
    pub(super) asked: HashMap<u32, u32>,
    pub(super) arrivals: VecDeque<(Option<u32>, Access)>,
    pub(super) head: Option<Head>,
    /// The number of the first access that has not ended.
    pub(super) first: u64,
    pub(super) accesses: VecDeque<UnderWay>,
    pub(super) turn: Turn,
    /// Partitions with evictions for a job.
    pub(super) due: VecDeque<u16>,
    /// Partitions whose job has only to be committed.
    pub(super) stored: Vec<u16>,
    /// Partitions of whose last commit the clouds have to be told.
    pub(super) untold: Vec<u16>,
    pub(super) draws: Draws,
    /// A check has failed, and a proof is awaited that says of whom.
    pub(super) accusation: Option<Accusation>,
    /// A check has failed, or an invariant: nothing leaves any more.
    is_silent: bool,
    pub(super) canary: Canary,
    /// By access, the level at which its block lay, if at any: what no cloud may learn.
    #[cfg(test)]
    pub(super) truths: Truths,
}

#[cfg(test)]
pub(super) type Truths = Arc<fogbank_env::Mutex<std::collections::BTreeMap<u64, Option<u8>>>>;

impl MulticloudPlane {
    /// The client of a new volume: every block holds zeros.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings that cannot be.
    pub fn new(
        settings: MulticloudSettings,
        keys: Arc<SplitKeys>,
        random: &Randomness,
    ) -> Result<Self> {
        let shape = settings.public()?;
        let points = points(&keys, &shape);
        let mut draws = Draws::new(shape.partitions, random);
        let mut positions = Positions::new(settings.layout.blocks);
        for block in 0..settings.layout.blocks {
            positions.set(block, draws.partition(), crate::position::Home::Stash);
        }
        let zeros = Bytes::from(vec![0; settings.shape.value_bytes]);
        Ok(Self {
            settings,
            shape,
            keys,
            points,
            positions,
            values: HashMap::new(),
            zeros,
            pyramids: shape.all().map(|p| Pyramid::new(&shape, p)).collect(),
            asked: HashMap::new(),
            arrivals: VecDeque::new(),
            head: None,
            first: 0,
            accesses: VecDeque::new(),
            turn: Turn::default(),
            due: VecDeque::new(),
            stored: Vec::new(),
            untold: Vec::new(),
            draws,
            accusation: None,
            is_silent: false,
            canary: Canary::default(),
            #[cfg(test)]
            truths: Truths::default(),
        })
    }

    /// The number of the next access to arrive.
    pub fn next_number(&self) -> u64 {
        let waiting = self.arrivals.len() + usize::from(self.head.is_some());
        self.first + (self.accesses.len() + waiting) as u64
    }

    /// How many accesses have arrived and not ended.
    pub fn under_way(&self) -> usize {
        (self.next_number() - self.first) as usize
    }

    /// What both clouds know of the volume.
    pub fn public(&self) -> Shape {
        self.shape
    }

    /// The point of the first (0) or the second (1) cloud, which is told to that cloud alone.
    pub fn point(&self, cloud: u8) -> Seed {
        Seed::new(self.keys.point(if self.canary.has_one_point() { 0 } else { cloud }))
    }

    /// An access arrives; for nobody, if there is no block.
    ///
    /// # Errors
    /// [`Error::Caller`] for a block or a range outside of the volume; whatever has stopped it.
    pub fn arrive(&mut self, block: Option<u32>, access: Access) -> Result<Vec<Effect>> {
        self.settings.shape.check(Address(block.unwrap_or(0)), &access)?;
        self.arrivals.push_back((block, access));
        self.step(|_, _| Ok(()))
    }

    /// A message of a cloud comes, as a holder. One that nobody waits for changes nothing.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if a check fails, from then on for ever.
    pub fn holder_says(&mut self, cloud: usize, message: FromHolder) -> Result<Vec<Effect>> {
        if let FromHolder::Proof(proof) = &message {
            return self.proof_comes(cloud, proof);
        }
        let partition = match &message {
            FromHolder::Records(Records { read, .. }) => self.partition_of(*read),
            FromHolder::JobRecords(JobRecords { partition, .. })
            | FromHolder::Fetched(Fetched { partition, .. })
            | FromHolder::LevelDigest(LevelDigest { partition, .. })
            | FromHolder::Stored(Stored { partition, .. }) => Some(*partition),
            FromHolder::Proof(_) => None,
        };
        let is_other = partition.is_some_and(|partition| usize::from(partition % 2) != cloud);
        self.step(|plane, out| match message {
            _ if is_other => Err(lied_by(cloud, SPEAKS_FOR_OTHER)),
            FromHolder::Records(come) => plane.records_come(come, out),
            FromHolder::JobRecords(come) => plane.job_records_come(come, out),
            FromHolder::Fetched(come) => plane.fetched_come(come, out),
            FromHolder::LevelDigest(come) => plane.level_digest_comes(come, out),
            FromHolder::Stored(come) => plane.records_are_stored(come),
            FromHolder::Proof(_) => Ok(()),
        })
    }

    /// A message of a cloud comes, as a shuffler. One that nobody waits for changes nothing.
    ///
    /// # Errors
    /// As [`MulticloudPlane::holder_says`].
    pub fn shuffler_says(&mut self, cloud: usize, message: FromShuffler) -> Result<Vec<Effect>> {
        if let FromShuffler::Proof(proof) = &message {
            return self.proof_comes(cloud, proof);
        }
        let partition = match &message {
            FromShuffler::Answer(Answer { read, .. }) => self.partition_of(*read),
            FromShuffler::MovedDigest(MovedDigest { partition, .. })
            | FromShuffler::Lost(Lost { partition, .. }) => Some(*partition),
            FromShuffler::Proof(_) => None,
        };
        let is_other = partition.is_some_and(|partition| usize::from(partition % 2) == cloud);
        self.step(|plane, out| match message {
            _ if is_other => Err(lied_by(cloud, SPEAKS_FOR_OTHER)),
            FromShuffler::Answer(come) => plane.answer_comes(come, out),
            FromShuffler::MovedDigest(come) => plane.moved_digest_comes(come, out),
            FromShuffler::Lost(come) => plane.kept_is_lost(come, out),
            FromShuffler::Proof(_) => Ok(()),
        })
    }

    /// Chains have been walked.
    ///
    /// # Errors
    /// As [`MulticloudPlane::holder_says`].
    pub fn uncovered(&mut self, come: Uncovered) -> Result<Vec<Effect>> {
        self.step(|plane, out| match come.whose {
            Whose::Read(read) => plane.read_is_uncovered(read, come, out),
            Whose::Refresh(partition, generation) => {
                plane.refresh_is_uncovered((partition, generation), come, out)
            }
        })
    }

    /// The chains of `cells` of `partition`, to be walked.
    pub(super) fn uncovering(&self, whose: Whose, partition: u16, cells: Vec<Cell>) -> Uncovering {
        let lineage = self.pyramids[usize::from(partition)].lineage.clone();
        let (shape, keys) = (self.shape, self.keys.clone());
        let walks_short = self.canary.walks_short();
        let repeats_carry_pads = self.canary.repeats_carry_pads();
        Uncovering {
            whose,
            shape,
            keys,
            partition,
            lineage,
            cells,
            walks_short,
            repeats_carry_pads,
        }
    }

    /// The partition of a read that is under way.
    fn partition_of(&self, read: u64) -> Option<u16> {
        let at = read.checked_sub(self.first)?;
        self.accesses.get(at as usize).map(|access| access.entry.partition)
    }

    /// Nothing leaves any more.
    pub(super) fn silent(&mut self, error: Error) -> Error {
        self.is_silent = true;
        error
    }

    /// One step, and whatever can go on after it. Nothing does once a check has failed.
    pub(super) fn step(
        &mut self,
        does: impl FnOnce(&mut Self, &mut Vec<Effect>) -> Result<()>,
    ) -> Result<Vec<Effect>> {
        if self.is_silent {
            return Err(lied("a check has failed before"));
        }
        let mut out = Vec::new();
        if self.is_accusing() {
            return Ok(out);
        }
        match does(self, &mut out).and_then(|()| self.go_on(&mut out)) {
            Ok(()) => Ok(out),
            Err(error) => Err(self.silent(error)),
        }
    }

    fn go_on(&mut self, out: &mut Vec<Effect>) -> Result<()> {
        while !self.is_accusing() {
            let before = out.len();
            self.end_accesses(out)?;
            self.commit_jobs(out)?;
            self.begin_jobs(out)?;
            self.depart(out)?;
            if out.len() == before {
                break;
            }
        }
        Ok(())
    }

    /// What sums of a partition are made with. A cloud is the holder of every other partition.
    pub(super) fn checks(&self, partition: u16) -> Checks<'_> {
        let holder = usize::from(partition % 2);
        Checks {
            keys: &self.keys,
            holder: self.point_of(holder),
            shuffler: self.point_of(1 - holder),
            partition,
            cell_bytes: self.shape.cell_bytes(),
        }
    }

    /// The point that a cloud knows.
    pub(super) fn point_of(&self, cloud: usize) -> &Point {
        &self.points[if self.canary.has_one_point() { 0 } else { cloud }]
    }

    /// The block under the covers of `cell`, that of its place not among them. It takes as long if
    /// there is none.
    pub(super) fn open_block(&self, found: &Found, block: u32, mut cell: Vec<u8>) -> Result<Bytes> {
        cell.iter_mut().zip(&found.cover).for_each(|(byte, cover)| *byte ^= cover);
        let mut opened = vec![0; self.shape.block_bytes as usize];
        let nowhere = UploadPlace { partition: 0, generation: 0, index: 0 };
        let is_open = self.keys.open(found.upload.unwrap_or(nowhere), block, &cell, &mut opened);
        found.upload.ok_or_else(|| Error::Bug("a block is zeros".into()))?;
        is_open.map_err(|_| lied_between("the block of a read"))?;
        opened.truncate(self.settings.shape.value_bytes);
        Ok(opened.into())
    }
}

/// The point of each cloud.
pub fn points(keys: &SplitKeys, shape: &Shape) -> [Point; 2] {
    [0, 1].map(|cloud| Point::new(&Seed::new(keys.point(cloud)), shape.cell_bytes()))
}

/// Of a message about a partition in which the other cloud has this role.
const SPEAKS_FOR_OTHER: &str = "it speaks for the other cloud";

/// What is drawn: a stream a purpose, and as much whatever happens.
#[derive(Debug)]
pub struct Draws {
    partitions: u32,
    homes: Stream,
    decoys: Stream,
    orders: Stream,
}

impl Draws {
    fn new(partitions: u32, random: &Randomness) -> Self {
        Self {
            partitions,
            homes: random.stream(Purpose::Leaves),
            decoys: random.stream(Purpose::Padding),
            orders: random.stream(Purpose::Shuffle),
        }
    }

    /// The partition that a block goes to.
    pub fn partition(&mut self) -> u16 {
        below(&mut self.homes, self.partitions) as u16
    }

    /// A partition to be shown by an access that brings no block.
    pub fn decoy(&mut self) -> u16 {
        below(&mut self.decoys, self.partitions) as u16
    }

    /// One of so many dummies.
    pub fn dummy(&mut self, dummies: u32, takes_first: bool) -> u32 {
        let drawn = below(&mut self.decoys, dummies);
        if takes_first { 0 } else { drawn }
    }

    /// One of so many cells.
    pub fn index(&mut self, cells: usize) -> usize {
        below(&mut self.decoys, cells as u32) as usize
    }

    /// Puts cells into a uniform order.
    pub fn shuffle(&mut self, places: &mut [Place]) {
        for last in (1..places.len()).rev() {
            places.swap(last, below(&mut self.orders, last as u32 + 1) as usize);
        }
    }
}

/// A draw below `bound`, uniform but for `bound` 2^-64; 0 if there is nothing to draw from.
fn below(stream: &mut Stream, bound: u32) -> u32 {
    ((u128::from(stream.next_u64()) * u128::from(bound)) >> 64) as u32
}

impl From<fogbank_mix::Error> for Error {
    fn from(error: fogbank_mix::Error) -> Self {
        match error {
            fogbank_mix::Error::Other(what) => lied(what),
            other => Self::Bug(other.to_string()),
        }
    }
}
