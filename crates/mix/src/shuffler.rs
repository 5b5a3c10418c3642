//! The shuffler, S2: it puts the cells of a level into a secret order, and passes on one cell of a
//! read.
//!
//! 1. *A read*: the client says which of the cells it wants (`want`), the holder sends all, covered
//!    (`blinded`). When both have come that one goes to the client, with a digest of all.
//! 2. *A job* (`mix`, `upload`): the inputs are what the job carries, then the uploads, then zeros.
//!    What a job below the top carries is kept here, as it was last put in order; what a rebuild of
//!    the top carries comes from the holder, covered (`moved`); a refresh carries nothing. What is
//!    kept may be lost: then the holder hands it over (`handed`, `strip`).
//! 3. In the order of the job's seed, each under a pad of its own, they go to the holder (`level`).
//! 4. *Commit*: what the job read is kept no more.
//! 5. What came from the holder can be shown as it came, of a read while there is room, of a job until
//!    its commit: the client may ask for what was digested (`prove`).
//!
//! What came from the holder and does not fit is digested all the same, and nothing is made of it:
//! the client sees that it is not right, asks for it, and whoever has signed it is named.
//!
//! It sees which upload lies in which cell, and of a read neither the level nor the cell.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::message::{
    Across, Answer, Back, Blinded, Commit, FromShuffler, Handed, Level, Lost, Mix, Moved,
    MovedDigest, Proof, Prove, ProveRead, Sources, Strip, ToShuffler, Upload, Want,
};
use crate::signed::{Signature, Signed, UNSIGNED};
use crate::{About, Cells, Error, Generation, Order, Pads, Point, Result, Seed, Shape, digest};

/// What a shuffler sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShufflerSends {
    /// To the client.
    Client(FromShuffler),
    /// To the holder.
    Holder(Back),
}

/// See the module.
#[derive(Debug)]
pub struct Shuffler {
    shape: Shape,
    point: Point,
    reads: BTreeMap<u64, Read>,
    /// What came for a job that the client has not told of yet, of a partition once.
    early: VecDeque<Moved>,
    partitions: HashMap<u16, Shuffled>,
}

/// What has come of a read.
#[derive(Debug, Default)]
struct Read {
    want: Option<(u8, u8)>,
    /// The first that came: all answers are of one batch.
    cells: Option<(Signature, Cells)>,
}

#[derive(Debug, Default)]
struct Shuffled {
    kept: BTreeMap<u8, Kept>,
    job: Option<Job>,
}

/// A level without pads, and without its zeros.
#[derive(Debug)]
struct Kept {
    generation: Generation,
    cells: Cells,
    /// By place, which of them lies there.
    at: Vec<Option<u32>>,
}

#[derive(Debug)]
struct Job {
    level: u8,
    generation: Generation,
    sources: Sources,
    order: Seed,
    pads: Seed,
    carried: Carried,
    uploads: Option<Cells>,
    shown: Option<Shown>,
    made: Option<Kept>,
}

/// What was digested of what came from the holder: the first inputs of the job.
#[derive(Debug)]
struct Shown {
    signature: Signature,
    cells: usize,
    /// What was taken off them, by level.
    pads: Vec<Seed>,
}

/// What a job carries.
#[derive(Debug)]
enum Carried {
    /// All of it is here.
    Here(Cells),
    /// It comes from the holder, covered.
    Moved,
    /// It comes from the holder as it is stored, and seeds from the client.
    Handed(Option<(Signature, Cells)>, Option<Vec<Seed>>),
}

impl Shuffler {
    /// Of a volume of this shape, of which nothing is here yet. The point is the cloud's own.
    pub fn new(shape: Shape, point: &Seed) -> Self {
        let point = Point::new(point, shape.cell_bytes());
        Self {
            shape,
            point,
            reads: BTreeMap::new(),
            early: VecDeque::new(),
            partitions: HashMap::new(),
        }
    }

    /// Does what the client asks.
    ///
    /// # Errors
    /// [`Error::Client`] for what no client that keeps to the protocol asks; [`Error::Other`] if
    /// what the holder sent does not fit to it.
    pub fn ask(&mut self, message: ToShuffler) -> Result<Vec<ShufflerSends>> {
        if message.partition() >= self.shape.partitions {
            return Err(Error::Client("there is no such partition"));
        }
        match message {
            ToShuffler::Want(Want { read, cells, index, .. }) => {
                if self.reads.get(&read).is_none_or(|known| known.want.is_none()) {
                    self.make_room(true);
                }
                self.reads.entry(read).or_default().want = Some((cells, index));
                self.answer(read)
            }
            ToShuffler::Mix(mix) => self.mix(mix),
            ToShuffler::Upload(upload) => self.upload(upload),
            ToShuffler::Strip(strip) => self.strip(strip),
            ToShuffler::Prove(prove) => Ok(self.prove(&prove)),
            ToShuffler::ProveRead(prove) => Ok(self.prove_read(&prove)),
            ToShuffler::Commit(commit) => self.commit(&commit),
        }
    }

    /// Takes cells from the holder.
    ///
    /// # Errors
    /// [`Error::Other`] if they do not fit to what the client says.
    pub fn across(&mut self, message: Across) -> Result<Vec<ShufflerSends>> {
        if message.batch().cells.len() > self.shape.batch_cells_max() {
            return Err(Error::Other("a batch of more cells than any has"));
        }
        match message {
            Across::Blinded(Blinded { read, signature, cells }) => {
                if self.is_long(&cells) {
                    self.make_room_for_long()?;
                }
                if !self.reads.contains_key(&read) {
                    self.make_room(false);
                }
                let known = self.reads.entry(read).or_default();
                if known.cells.is_some() {
                    return Ok(Vec::new());
                }
                known.cells = Some((signature, cells));
                self.answer(read)
            }
            Across::Moved(moved) => self.moved(moved),
            Across::Handed(Handed { partition, generation, signature, cells }) => {
                let Some(job) = self.job(partition, generation) else { return Ok(Vec::new()) };
                if let Carried::Handed(handed @ None, _) = &mut job.carried {
                    *handed = Some((signature, cells));
                }
                self.handed(partition, generation)
            }
        }
    }

    /// Of too many reads that the client wants, or that only the holder knows of, the lowest goes: it
    /// was answered, or is left over. Whatever the holder sends, what was answered stays for a proof.
    fn make_room(&mut self, is_wanted: bool) {
        let of = |known: &Read| known.want.is_some() == is_wanted;
        if self.reads.values().filter(|known| of(known)).count() >= self.shape.reads_ahead() {
            let lowest = self.reads.iter().find(|(_, known)| of(known)).map(|(read, _)| *read);
            lowest.into_iter().for_each(|read| _ = self.reads.remove(&read));
        }
    }

    fn is_long(&self, cells: &Cells) -> bool {
        cells.len() > usize::from(self.shape.levels)
    }

    /// A read of more cells than there are levels is kept once at a time: when the client has been
    /// told of one, it stops.
    fn make_room_for_long(&mut self) -> Result<()> {
        let is_long = |known: &Read| known.cells.as_ref().is_some_and(|(_, of)| self.is_long(of));
        let long = self.reads.iter().find(|(_, known)| is_long(known));
        match long.map(|(read, known)| (*read, known.want.is_some())) {
            Some((_, true)) => Err(Error::Other("a read of more cells than there are levels")),
            Some((read, false)) => {
                self.reads.remove(&read);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Answers a read of which both have come, as often as it is wanted.
    fn answer(&mut self, read: u64) -> Result<Vec<ShufflerSends>> {
        let come = self.reads.get(&read).map(|read| (read.want, &read.cells));
        let Some((Some((count, index)), Some((_, cells)))) = come else { return Ok(Vec::new()) };
        if index >= count {
            return Err(Error::Client("it wants none of the cells"));
        }
        let digest = digest(About::Read(read), cells.iter().map(|cell| self.point.sum(cell)));
        let wanted = cells.get(index.into()).filter(|_| cells.len() == usize::from(count));
        let mut answer = Cells::with_room(self.shape.cell_bytes(), 1);
        wanted.into_iter().for_each(|wanted| answer.push(wanted));
        Ok(vec![ShufflerSends::Client(Answer { read, digest, cells: answer }.into())])
    }

    /// What an answer was made of.
    fn prove_read(&self, prove: &ProveRead) -> Vec<ShufflerSends> {
        let read = self.reads.get(&prove.read).filter(|read| read.want.is_some());
        self.proof(read.and_then(|read| read.cells.clone()))
    }

    /// What a digest was made of.
    fn prove(&self, prove: &Prove) -> Vec<ShufflerSends> {
        let job = self.partitions.get(&prove.partition).and_then(|of| of.job.as_ref());
        let job = job.filter(|job| job.generation == prove.generation);
        self.proof(job.and_then(|job| job.shown(&self.shape)))
    }

    fn proof(&self, shown: Option<(Signature, Cells)>) -> Vec<ShufflerSends> {
        let none = || (UNSIGNED, Cells::new(self.shape.cell_bytes()));
        let (signature, cells) = shown.unwrap_or_else(none);
        vec![ShufflerSends::Client(Proof { signature, cells }.into())]
    }

    fn mix(&mut self, mix: Mix) -> Result<Vec<ShufflerSends>> {
        let Mix { partition, level, generation, sources, order, pads } = mix;
        let (shape, count) = (self.shape, generation.count());
        if level != shape.written(count) {
            return Err(Error::Client("a job that writes another level"));
        }
        if !sources.rise_below(shape.levels) {
            return Err(Error::Client("a job that reads no such levels"));
        }
        let shuffled = self.partitions.entry(partition).or_default();
        let mut sends = Vec::new();
        let carried = if sources.0.is_empty() || shape.refreshes(count) {
            Carried::Here(Cells::new(shape.cell_bytes()))
        } else if level == shape.top() {
            Carried::Moved
        } else if let Some(cells) = shuffled.gather(&sources, shape.cell_bytes()) {
            Carried::Here(cells)
        } else {
            sends.push(ShufflerSends::Client(Lost { partition, generation }.into()));
            Carried::Handed(None, None)
        };
        let (uploads, shown, made) = (None, None, None);
        shuffled.job =
            Some(Job { level, generation, sources, order, pads, carried, uploads, shown, made });
        let is_it = |moved: &Moved| (moved.partition, moved.generation) == (partition, generation);
        let early = self.early.iter().position(is_it).and_then(|at| self.early.remove(at));
        if let Some(moved) = early {
            sends.extend(self.moved(moved)?);
        }
        Ok(sends)
    }

    fn upload(&mut self, upload: Upload) -> Result<Vec<ShufflerSends>> {
        let Upload { partition, generation, cells } = upload;
        let uploads = self.shape.uploads(generation.count());
        let job = self.job(partition, generation).ok_or(Error::Client("an upload for no job"))?;
        if cells.len() as u32 != uploads {
            return Err(Error::Client("a job takes another number of blocks"));
        }
        job.uploads = Some(cells);
        self.make(partition)
    }

    fn moved(&mut self, moved: Moved) -> Result<Vec<ShufflerSends>> {
        let Moved { partition, generation, .. } = moved;
        let Some(job) = self.job(partition, generation) else {
            let most = self.shape.rebuilds_ahead();
            let cells_max = most * self.shape.size(self.shape.top(), self.shape.cycle()) as usize;
            self.early.retain(|early| early.partition != partition);
            self.early.push_back(moved);
            let cells =
                |early: &VecDeque<Moved>| early.iter().map(|of| of.cells.len()).sum::<usize>();
            while self.early.len() > 1
                && (self.early.len() > most || cells(&self.early) > cells_max)
            {
                self.early.pop_front();
            }
            return Ok(Vec::new());
        };
        let Moved { signature, cells, .. } = moved;
        if !matches!(job.carried, Carried::Moved) {
            return Err(Error::Other("cells that no job waits for"));
        }
        let digest = self.moved_digest(partition, generation, &cells);
        let job = self.job(partition, generation).ok_or(Error::Bug("a job is lost"))?;
        job.shown = Some(Shown { signature, cells: cells.len(), pads: Vec::new() });
        job.carried = Carried::Here(cells);
        let mut sends = vec![digest];
        sends.extend(self.make(partition)?);
        Ok(sends)
    }

    fn strip(&mut self, strip: Strip) -> Result<Vec<ShufflerSends>> {
        let Strip { partition, generation, pads } = strip;
        let job = self.job(partition, generation).ok_or(Error::Client("seeds for no job"))?;
        if let Carried::Handed(_, seeds) = &mut job.carried {
            *seeds = Some(pads);
        }
        self.handed(partition, generation)
    }

    /// Takes the covers off what the holder handed over, once the seeds are here too.
    fn handed(&mut self, partition: u16, generation: Generation) -> Result<Vec<ShufflerSends>> {
        let shape = self.shape;
        let Some(job) = self.job(partition, generation) else { return Ok(Vec::new()) };
        let Carried::Handed(Some((signature, cells)), Some(pads)) = &mut job.carried else {
            return Ok(Vec::new());
        };
        if pads.len() != job.sources.0.len() {
            return Err(Error::Client("another number of seeds than of levels"));
        }
        let (signature, pads) = (*signature, std::mem::take(pads));
        let mut cells = std::mem::replace(cells, Cells::new(shape.cell_bytes()));
        uncover(&shape, &job.sources, &pads, &mut cells);
        job.shown = Some(Shown { signature, cells: cells.len(), pads });
        let digest = self.moved_digest(partition, generation, &cells);
        let job = self.job(partition, generation).ok_or(Error::Bug("a job is lost"))?;
        job.carried = Carried::Here(cells);
        let mut sends = vec![digest];
        sends.extend(self.make(partition)?);
        Ok(sends)
    }

    fn moved_digest(&self, partition: u16, generation: Generation, cells: &Cells) -> ShufflerSends {
        let sums = cells.iter().map(|cell| self.point.sum(cell));
        let digest = digest(About::Moved(partition, generation.0), sums);
        ShufflerSends::Client(MovedDigest { partition, generation, digest }.into())
    }

    /// Makes the level, once all is here that goes into it.
    fn make(&mut self, partition: u16) -> Result<Vec<ShufflerSends>> {
        let shape = self.shape;
        let job = self.partitions.get_mut(&partition).and_then(|shuffled| shuffled.job.as_mut());
        let Some(job) = job.filter(|job| job.made.is_none()) else { return Ok(Vec::new()) };
        let (Carried::Here(carried), Some(uploads)) = (&mut job.carried, &job.uploads) else {
            return Ok(Vec::new());
        };
        let (level, generation) = (job.level, job.generation);
        let size = shape.size(level, generation.count());
        if (carried.len() + uploads.len()) as u32 > size {
            return match job.shown {
                Some(_) => Ok(Vec::new()), // it was digested: the client knows what it is
                None => Err(Error::Client("more cells than the level has")),
            };
        }
        let mut inputs = std::mem::replace(carried, Cells::new(shape.cell_bytes()));
        inputs.append(uploads);
        let (cells, order) = arranged(&inputs, &job.order, &job.pads, size);
        let has = inputs.len() as u32;
        let at = order.into_iter().map(|item| (item < has).then_some(item)).collect();
        job.made = Some(Kept { generation, cells: inputs, at });
        let signature = UNSIGNED;
        let level = Level { partition, level, generation, signature, cells };
        Ok(vec![ShufflerSends::Holder(level.into())])
    }

    fn commit(&mut self, commit: &Commit) -> Result<Vec<ShufflerSends>> {
        let top = self.shape.top();
        let Some(shuffled) = self.partitions.get_mut(&commit.partition) else {
            return Ok(Vec::new());
        };
        let is_it = |job: &mut Job| job.generation == commit.generation;
        let Some(job) = shuffled.job.take_if(is_it) else { return Ok(Vec::new()) };
        match job.level == top {
            true => shuffled.kept.clear(),
            false => shuffled.kept.retain(|level, _| *level > job.level),
        }
        if let Some(made) = job.made.filter(|_| job.level != top) {
            shuffled.kept.insert(job.level, made);
        }
        Ok(Vec::new())
    }

    fn job(&mut self, partition: u16, generation: Generation) -> Option<&mut Job> {
        let job = self.partitions.get_mut(&partition)?.job.as_mut()?;
        (job.generation == generation).then_some(job)
    }
}

impl Job {
    /// What was digested, as it came.
    fn shown(&self, shape: &Shape) -> Option<(Signature, Cells)> {
        let Shown { signature, cells: count, ref pads } = *self.shown.as_ref()?;
        let inputs = match (&self.made, &self.carried) {
            (Some(made), _) => &made.cells,
            (None, Carried::Here(carried)) => carried,
            (None, _) => return None,
        };
        let mut cells = Cells::with_room(shape.cell_bytes(), count);
        inputs.iter().take(count).for_each(|cell| cells.push(cell));
        uncover(shape, &self.sources, pads, &mut cells);
        Some((signature, cells))
    }
}

/// Takes the covers of these levels off all of their cells, or puts them on again.
fn uncover(shape: &Shape, sources: &Sources, seeds: &[Seed], cells: &mut Cells) {
    let mut at = 0;
    for (seed, from) in seeds.iter().zip(&sources.0) {
        let pads = Pads::new(seed, shape.cell_bytes());
        for place in 0..shape.size(from.level, from.generation.count()) {
            cells.get_mut(at).into_iter().for_each(|cell| pads.xor(place, cell));
            at += 1;
        }
    }
}

impl Shuffled {
    /// The cells of these levels in storage order, if all are kept.
    fn gather(&self, sources: &Sources, cell_bytes: usize) -> Option<Cells> {
        let mut cells = Cells::new(cell_bytes);
        for source in &sources.0 {
            let kept = self.kept.get(&source.level);
            let kept = kept.filter(|kept| kept.generation == source.generation)?;
            for at in &kept.at {
                let cell = cells.push_zeros();
                if let Some(at) = at {
                    cell.copy_from_slice(kept.cells.get(*at as usize)?);
                }
            }
        }
        Some(cells)
    }
}

/// A level of `size` cells: place x holds the input that the order names, or zeros if there is none
/// of that number, under pad x. And the order.
fn arranged(inputs: &Cells, order: &Seed, pads: &Seed, size: u32) -> (Cells, Vec<u32>) {
    let cell_bytes = inputs.cell_bytes();
    let (order, pads) = (Order::new(order, size).list(), Pads::new(pads, cell_bytes));
    let mut cells = Cells::with_room(cell_bytes, size as usize);
    for (place, item) in (0..).zip(&order) {
        let cell = cells.push_zeros();
        if let Some(input) = inputs.get(*item as usize) {
            cell.copy_from_slice(input);
        }
        pads.xor(place, cell);
    }
    (cells, order)
}
