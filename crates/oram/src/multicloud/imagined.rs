//! A volume that is full although nobody has filled it, to be measured: a past that never was.
//!
//! 1. The first refresh of partition p has uploaded all of its blocks, which hold zeros: block b
//!    lies in partition b mod P, and was its upload b / P. Dummies took the other places.
//! 2. Every job since has uploaded dummies alone. How many there were is spread over a cycle, so
//!    that of any span of time its share of tops falls due; evictions that no job has carried out
//!    yet are spread, too.
//!
//! All of this follows from the shape. So what lies in a cell follows from the keys ([`Imagined`]),
//! and the client's state as well ([`MulticloudPlane::imagined`]): it takes memory, and no cell is
//! made before it is asked for. Beside a holder and a shuffler that have the levels of it, no check
//! of the protocol tells such a volume from one that was filled.
//!
//! Leaks: where every block lies. It is for measuring, and opens a new volume alone.

use std::sync::Arc;

use fogbank_env::Randomness;
use fogbank_mix::message::{Record, Sources};
use fogbank_mix::{Cells, Elsewhere, Generation, Marks, Order, Point, Seed, Shape};
use fogbank_seal::{SeedFor, SplitKeys, UploadPlace};
use hashbrown::HashMap;
use rayon::prelude::*;

use super::chain::{Came, Cell};
use super::checks::Checks;
use super::job::NOBODY;
use super::level::Level;
use super::lineage::{Lineage, Rebuild};
use super::plane::{MulticloudPlane, points};
use super::pyramid::Pyramid;
use super::settings::MulticloudSettings;
use crate::position::Home;
use crate::{Error, Result};

/// What both clouds have of such a volume. Whoever has it has the client's keys.
pub struct Imagined {
    shape: Shape,
    blocks: u32,
    keys: Arc<SplitKeys>,
    points: [Point; 2],
    lineage: Lineage,
}

impl Imagined {
    /// Of a volume of these settings.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings that cannot be.
    pub fn new(settings: &MulticloudSettings, keys: Arc<SplitKeys>) -> Result<Self> {
        let (shape, blocks) = (settings.public()?, settings.layout.blocks);
        if blocks.div_ceil(shape.partitions) > shape.top_blocks.into() {
            return Err(Error::Caller("a partition would have too many blocks".into()));
        }
        let points = points(&keys, &shape);
        let (sources, list) = (Sources::default(), Marks::none(0));
        let refresh = Rebuild { generation: refresh(&shape), sources, list };
        let lineage = Lineage { rebuilds: vec![Arc::new(refresh)], ..Lineage::default() };
        Ok(Self { shape, blocks, keys, points, lineage })
    }

    /// What both clouds know of the volume.
    pub fn public(&self) -> Shape {
        self.shape
    }

    /// The levels of a partition, from the lowest.
    pub fn levels(&self, partition: u16) -> impl Iterator<Item = (u8, Generation)> + use<> {
        let filled = self.shape.filled(partition, self.done(partition));
        filled.map(|(level, count)| (level, Generation::new(count, 0)))
    }

    /// Whether this job wrote one of them.
    pub fn has(&self, partition: u16, generation: Generation) -> bool {
        self.shape.has(partition) && self.levels(partition).any(|(_, of)| of == generation)
    }

    /// A cell as its holder has it, and its record.
    ///
    /// # Errors
    /// [`Error::Bug`] if it is none of them.
    pub fn cell(
        &self,
        partition: u16,
        generation: Generation,
        place: u32,
    ) -> Result<(Vec<u8>, Record)> {
        let at = self.at(partition, generation, place)?;
        let upload =
            self.upload(partition, at, |cell| self.order(partition, cell).at(cell.place))?;
        let mut cell = vec![0; self.shape.cell_bytes()];
        self.put(upload, &mut cell);
        let checks = self.checks(partition);
        let record = checks.record(at, checks.sums(&cell));
        let (cover, place) = checks.cover(at);
        cover.xor(place, &mut cell);
        Ok((cell, record))
    }

    /// All cells of a level as its holder has them.
    ///
    /// # Errors
    /// As [`Imagined::cell`].
    pub fn cells(&self, partition: u16, generation: Generation) -> Result<Cells> {
        let (mut cells, at) =
            (self.bare(partition, generation)?, self.at(partition, generation, 0)?);
        let (cover, _) = self.checks(partition).cover(at);
        for place in 0..cells.len() as u32 {
            cells.get_mut(place as usize).into_iter().for_each(|cell| cover.xor(place, cell));
        }
        Ok(cells)
    }

    /// All records of a level, and their seal.
    ///
    /// # Errors
    /// As [`Imagined::cell`].
    pub fn records(&self, partition: u16, generation: Generation) -> Result<Vec<Record>> {
        let (cells, checks) = (self.bare(partition, generation)?, self.checks(partition));
        let level = self.at(partition, generation, 0)?.level;
        let record =
            |(place, cell)| checks.record(Cell { level, generation, place }, checks.sums(cell));
        let mut records: Vec<Record> = (0..).zip(cells.iter()).map(record).collect();
        records.push(checks.seal(level, generation, &records));
        Ok(records)
    }

    /// All cells of a level without covers, as a shuffler keeps them.
    fn bare(&self, partition: u16, generation: Generation) -> Result<Cells> {
        let at = self.at(partition, generation, 0)?;
        let size = self.size(at);
        let mut cells = Cells::with_room(self.shape.cell_bytes(), size as usize);
        let mut lists: HashMap<Generation, Vec<u32>> = HashMap::new();
        for place in 0..size {
            let upload = self.upload(partition, Cell { place, ..at }, |cell| {
                let list = || self.order(partition, cell).list();
                lists.entry(cell.generation).or_insert_with(list)[cell.place as usize]
            });
            self.put(upload?, cells.push_zeros());
        }
        Ok(cells)
    }

    /// What is uploaded there, if anything is.
    fn put(&self, upload: Option<UploadPlace>, cell: &mut [u8]) {
        if let Some(at) = upload {
            self.keys.seal(at, self.block(at).unwrap_or(NOBODY), cell);
        }
    }

    /// The block that was uploaded there.
    fn block(&self, at: UploadPlace) -> Option<u32> {
        let block = u32::from(at.index) * self.shape.partitions + u32::from(at.partition);
        (at.generation == refresh(&self.shape).0 && block < self.blocks).then_some(block)
    }

    /// Where what lies in a cell was uploaded, told which input of its job each cell is.
    fn upload(
        &self,
        partition: u16,
        mut cell: Cell,
        mut input: impl FnMut(Cell) -> u32,
    ) -> Result<Option<UploadPlace>> {
        loop {
            match self.lineage.came(&self.shape, partition, cell, input(cell))? {
                Came::Moved(from) => cell = from,
                Came::Uploaded(at) => return Ok(Some(at)),
                Came::Zeros => return Ok(None),
            }
        }
    }

    fn order(&self, partition: u16, Cell { level, generation, .. }: Cell) -> Order {
        let seed = Seed::new(self.keys.seed(SeedFor::Order(partition, generation.0)));
        Order::new(&seed, self.shape.size(level, generation.count()))
    }

    fn at(&self, partition: u16, generation: Generation, place: u32) -> Result<Cell> {
        let cell = Cell { level: self.shape.written(generation.count()), generation, place };
        let is_there = self.has(partition, generation) && place < self.size(cell);
        is_there.then_some(cell).ok_or_else(|| Error::Bug("no cell is imagined there".into()))
    }

    fn size(&self, of: Cell) -> u32 {
        self.shape.size(of.level, of.generation.count())
    }

    fn checks(&self, partition: u16) -> Checks<'_> {
        let holder = usize::from(partition % 2);
        let (keys, cell_bytes) = (&*self.keys, self.shape.cell_bytes());
        let (holder, shuffler) = (&self.points[holder], &self.points[1 - holder]);
        Checks { keys, holder, shuffler, partition, cell_bytes }
    }

    /// Evictions of a partition that were given.
    fn given(&self, partition: u16) -> u64 {
        let since = self.shape.spread(partition, self.shape.cycle());
        refresh(&self.shape).count() + since
    }

    /// Those of them that jobs have carried out.
    fn done(&self, partition: u16) -> u64 {
        self.given(partition) & !(self.shape.batch() - 1)
    }

    /// A partition as the client knows it.
    fn pyramid(&self, partition: u16) -> Result<Pyramid> {
        let mut pyramid = Pyramid::new(&self.shape, partition);
        (pyramid.given, pyramid.done) = (self.given(partition), self.done(partition));
        pyramid.lineage = self.lineage.clone();
        for (level, generation) in self.levels(partition) {
            let at = self.at(partition, generation, 0)?;
            let held = if level == self.shape.top() {
                let list = self.order(partition, at).list();
                let block = |item: u32| {
                    let (generation, index) = (generation.0, u16::try_from(item).ok()?);
                    self.block(UploadPlace { partition, generation, index })
                };
                Level::new(generation, list.into_iter().map(block))
            } else {
                let dummies = std::iter::repeat_n(None, self.size(at) as usize);
                Level::new(generation, dummies)
            };
            pyramid.levels[usize::from(level)] = Some(held);
            pyramid.last = pyramid.last.max(Some(generation));
        }
        Ok(pyramid)
    }
}

impl Elsewhere for Imagined {
    fn level(&self, partition: u16, _: u8, generation: Generation) -> Option<Cells> {
        self.bare(partition, generation).ok()
    }
}

impl MulticloudPlane {
    /// The client of an imagined volume.
    ///
    /// # Errors
    /// [`Error::Caller`] for settings that cannot be.
    pub fn imagined(
        settings: MulticloudSettings,
        keys: Arc<SplitKeys>,
        random: &Randomness,
    ) -> Result<Self> {
        let imagined = Imagined::new(&settings, keys.clone())?;
        let mut plane = Self::new(settings, keys, random)?;
        let partitions: Vec<u16> = plane.shape.all().collect();
        let pyramids = partitions.into_par_iter().map(|partition| imagined.pyramid(partition));
        plane.pyramids = pyramids.collect::<Result<Vec<_>>>()?.into();
        for (partition, pyramid) in plane.shape.all().zip(&plane.pyramids) {
            for (level, held) in (0..).zip(&pyramid.levels) {
                for (cell, block) in held.iter().flat_map(Level::reals) {
                    let home = Home::Level { level, rank: cell as u16 };
                    plane.positions.set(block, partition, home);
                }
            }
        }
        Ok(plane)
    }
}

/// The job from which all of it is.
fn refresh(shape: &Shape) -> Generation {
    Generation::new(shape.refresh_cycle(), 0)
}
