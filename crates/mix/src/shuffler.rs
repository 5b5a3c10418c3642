//! The shuffler, S2: it puts the cells of a level into a secret order, and passes on one cell of a
//! read.
//!
//! 1. *A read*: the client says which of the cells it wants (`want`), the holder sends all, covered
//!    (`blinded`). When both have come that one goes to the client, with a digest of all.
//! 2. *A job* (`mix`, `upload`): the inputs are what the job carries, then the uploads, then zeros.
//!    What a job below the top carries is kept here, as it was last put in order; what a rebuild of
//!    the top carries comes from the holder, covered (`moved`); a refresh carries nothing. What is
//!    kept may be lost: then the holder hands it over (`handed`, `strip`). What finds no room in
//!    memory lies in this cloud's store (`kept`).
//! 3. In the order of the job's seed, each under a pad of its own, they go to the holder (`level`).
//! 4. *Commit*: what the job read is kept no more. The new level is, but for its zeros, if a job
//!    below the top will read it.
//! 5. What came from the holder can be shown as it came, of a read while there is room, of a job
//!    until its commit: the client may ask for what was digested (`prove`).
//!
//! What came from the holder and does not fit is digested all the same, and nothing is made of it:
//! the client sees that it is not right, asks for it, and whoever has signed it is named.
//!
//! It sees which upload lies in which cell, and of a read neither the level nor the cell.
//!
//! # Locks
//! One a partition, one for all reads, one for what came too early. A level is made, which takes
//! long, under that of its partition alone: reads go on. Whoever has that of a partition may take
//! that of what came too early, and no other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fogbank_env::{Mutex, compute_over};

use crate::kept::{KeptLevel, KeptRoom, Taken, ToStore};
use crate::message::{
    Across, Answer, Back, Blinded, Commit, FromShuffler, Handed, Level, Lost, Mix, Moved,
    MovedDigest, Proof, Prove, Source, Sources, Strip, ToShuffler, Upload, Want,
};
use crate::reads::{Reads, Wanted};
use crate::signed::{Signature, Signed, UNSIGNED};
use crate::{About, Cells, Error, Generation, Order, Pads, Point, Result, Seed, Shape, digest};

/// What a shuffler sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShufflerSends {
    /// To the client.
    Client(FromShuffler),
    /// To the holder.
    Holder(Back),
    /// To this cloud's own store.
    Store(ToStore),
}

/// Where levels are that nobody has put in order here: they can be made when they are asked for.
pub trait Elsewhere: Send + Sync {
    /// The cells of a level in storage order, without pads.
    fn level(&self, partition: u16, level: u8, generation: Generation) -> Option<Cells>;
}

/// See the module.
pub struct Shuffler {
    shape: Shape,
    point: Point,
    elsewhere: Option<Arc<dyn Elsewhere>>,
    room: Arc<KeptRoom>,
    reads: Mutex<Reads>,
    /// What came for a job that the client has not told of yet, of a partition once.
    early: Mutex<VecDeque<Moved>>,
    partitions: Box<[Mutex<Shuffled>]>,
}

#[derive(Debug, Default)]
struct Shuffled {
    kept: BTreeMap<u8, Kept>,
    /// What may lie in the store, until it is deleted there.
    stored: BTreeSet<KeptLevel>,
    job: Option<Job>,
}

/// Where a level is that is kept.
#[derive(Debug)]
enum Kept {
    Here(Ordered, #[expect(dead_code, reason = "it is given back when this goes")] Taken),
    Stored(Generation),
}

/// A level without pads, and without its zeros.
#[derive(Debug)]
struct Ordered {
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
    made: Option<Ordered>,
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
        let partitions = shape.all().map(|_| Mutex::default()).collect();
        let (reads, early) = (Mutex::new(Reads::new(shape)), Mutex::default());
        Self {
            shape,
            point,
            elsewhere: None,
            room: KeptRoom::unbounded(),
            reads,
            early,
            partitions,
        }
    }

    /// The same, with room for what it keeps in memory: of all that share it. Whoever has bounded
    /// it asks by way of a [`crate::KeptShelf`].
    pub fn within(self, room: Arc<KeptRoom>) -> Self {
        Self { room, ..self }
    }

    /// The same, beside levels that are kept elsewhere, if there are any.
    pub fn beside(self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Self {
        Self { elsewhere, ..self }
    }

    /// Does what the client asks.
    ///
    /// # Errors
    /// [`Error::Client`] for what no client that keeps to the protocol asks; [`Error::Other`] if
    /// what the holder sent does not fit to it.
    pub fn ask(&self, message: ToShuffler) -> Result<Vec<ShufflerSends>> {
        self.ask_with(message, Vec::new())
    }

    /// The same, with levels that were kept in the store.
    pub(crate) fn ask_with(
        &self,
        message: ToShuffler,
        brought: Vec<(Source, Cells)>,
    ) -> Result<Vec<ShufflerSends>> {
        let known = self.partitions.get(usize::from(message.partition()));
        let known = known.ok_or(Error::Client("there is no such partition"))?;
        let of_partition = || known.lock();
        match message {
            ToShuffler::Want(Want { read, cells: count, index, .. }) => {
                let both = {
                    let mut reads = self.reads.lock();
                    reads.is_wanted(read, Wanted { count, index });
                    reads.both(read)
                };
                self.answer(read, both)
            }
            ToShuffler::ProveRead(prove) => Ok(self.proof(self.reads.lock().shown(prove.read))),
            ToShuffler::Mix(mix) => self.mix(&mut of_partition(), mix, &brought),
            ToShuffler::Upload(upload) => self.upload(&mut of_partition(), upload),
            ToShuffler::Strip(strip) => self.strip(&mut of_partition(), strip),
            ToShuffler::Prove(prove) => Ok(self.prove(&of_partition(), &prove)),
            ToShuffler::Commit(commit) => Ok(self.commit(&mut of_partition(), &commit)),
        }
    }

    /// The volume is opened anew: nobody asks for a proof of what was answered before, and reads of
    /// the same numbers follow. What came for them may have been a lie, and put right since.
    pub(crate) fn begins_anew(&self) {
        *self.reads.lock() = Reads::new(self.shape);
    }

    /// Bytes of cells that it moves to do what the client asks, at most, whatever the holder has
    /// sent. An answer to a read reckons with what came.
    pub(crate) fn bytes_of(&self, message: &ToShuffler) -> usize {
        let level = |generation: Generation| {
            let count = generation.count();
            self.shape.size(self.shape.written(count), count) as usize
        };
        let cells = match message {
            ToShuffler::Want(_) => 0,
            ToShuffler::Upload(upload) => level(upload.generation),
            ToShuffler::Commit(commit) => level(commit.generation),
            ToShuffler::ProveRead(_)
            | ToShuffler::Mix(_)
            | ToShuffler::Strip(_)
            | ToShuffler::Prove(_) => self.shape.batch_cells_max(),
        };
        cells * self.shape.cell_bytes()
    }

    /// Takes cells from the holder.
    ///
    /// # Errors
    /// [`Error::Other`] if they do not fit to what the client says.
    pub fn across(&self, message: Across) -> Result<Vec<ShufflerSends>> {
        if message.batch().cells.len() > self.shape.batch_cells_max() {
            return Err(Error::Other("a batch of more cells than any has"));
        }
        let known = |partition: u16| {
            let known = self.partitions.get(usize::from(partition));
            known.ok_or(Error::Other("no partition has the cells"))
        };
        match message {
            Across::Blinded(Blinded { read, signature, cells }) => {
                let both = {
                    let mut reads = self.reads.lock();
                    reads.come(read, signature, cells)?.then(|| reads.both(read)).flatten()
                };
                self.answer(read, both)
            }
            Across::Moved(moved) => self.moved(&mut known(moved.partition)?.lock(), moved),
            Across::Handed(Handed { partition, generation, signature, cells }) => {
                let mut shuffled = known(partition)?.lock();
                let Some(job) = shuffled.job(generation) else { return Ok(Vec::new()) };
                if let Carried::Handed(handed @ None, _) = &mut job.carried {
                    *handed = Some((signature, cells));
                }
                self.handed(&mut shuffled, (partition, generation))
            }
        }
    }

    /// Answers a read of which both have come, as often as it is wanted. No lock is held: others
    /// are answered at the same time.
    fn answer(&self, read: u64, both: Option<(Wanted, Arc<Cells>)>) -> Result<Vec<ShufflerSends>> {
        let Some((Wanted { count, index }, cells)) = both else { return Ok(Vec::new()) };
        if index >= count {
            return Err(Error::Client("it wants none of the cells"));
        }
        let digest = compute_over(cells.bytes().len(), || {
            digest(About::Read(read), cells.iter().map(|cell| self.point.sum(cell)))
        });
        let wanted = cells.get(index.into()).filter(|_| cells.len() == usize::from(count));
        let mut answer = Cells::with_room(self.shape.cell_bytes(), 1);
        wanted.into_iter().for_each(|wanted| answer.push(wanted));
        Ok(vec![ShufflerSends::Client(Answer { read, digest, cells: answer }.into())])
    }

    /// What a digest was made of.
    fn prove(&self, shuffled: &Shuffled, prove: &Prove) -> Vec<ShufflerSends> {
        let job = shuffled.job.as_ref().filter(|job| job.generation == prove.generation);
        self.proof(job.and_then(|job| job.shown(&self.shape)))
    }

    fn proof(&self, shown: Option<(Signature, Cells)>) -> Vec<ShufflerSends> {
        let none = || (UNSIGNED, Cells::new(self.shape.cell_bytes()));
        let (signature, cells) = shown.unwrap_or_else(none);
        vec![ShufflerSends::Client(Proof { signature, cells }.into())]
    }

    fn mix(
        &self,
        shuffled: &mut Shuffled,
        mix: Mix,
        brought: &[(Source, Cells)],
    ) -> Result<Vec<ShufflerSends>> {
        let Mix { partition, level, generation, sources, order, pads } = mix;
        let (shape, count) = (self.shape, generation.count());
        if level != shape.written(count) {
            return Err(Error::Client("a job that writes another level"));
        }
        if !sources.rise_below(shape.levels) {
            return Err(Error::Client("a job that reads no such levels"));
        }
        let mut sends = Vec::new();
        let carried = if sources.0.is_empty() || shape.refreshes(count) {
            Carried::Here(Cells::new(shape.cell_bytes()))
        } else if level == shape.top() {
            Carried::Moved
        } else if let Some(cells) = self.gather(shuffled, partition, &sources, brought) {
            Carried::Here(cells)
        } else {
            sends.push(ShufflerSends::Client(Lost { partition, generation }.into()));
            Carried::Handed(None, None)
        };
        let (uploads, shown, made) = (None, None, None);
        shuffled.job =
            Some(Job { level, generation, sources, order, pads, carried, uploads, shown, made });
        let is_it = |moved: &Moved| (moved.partition, moved.generation) == (partition, generation);
        let early = {
            let mut early = self.early.lock();
            early.iter().position(is_it).and_then(|at| early.remove(at))
        };
        if let Some(moved) = early {
            sends.extend(self.moved(shuffled, moved)?);
        }
        Ok(sends)
    }

    fn upload(&self, shuffled: &mut Shuffled, upload: Upload) -> Result<Vec<ShufflerSends>> {
        let Upload { partition, generation, cells } = upload;
        let uploads = self.shape.uploads(generation.count());
        let job = shuffled.job(generation).ok_or(Error::Client("an upload for no job"))?;
        if cells.len() as u32 != uploads {
            return Err(Error::Client("a job takes another number of blocks"));
        }
        job.uploads = Some(cells);
        self.make(job, partition)
    }

    fn moved(&self, shuffled: &mut Shuffled, moved: Moved) -> Result<Vec<ShufflerSends>> {
        let Moved { partition, generation, .. } = moved;
        let Some(job) = shuffled.job(generation) else {
            self.keep_early(moved);
            return Ok(Vec::new());
        };
        let Moved { signature, cells, .. } = moved;
        if !matches!(job.carried, Carried::Moved) {
            return Err(Error::Other("cells that no job waits for"));
        }
        let mut sends = vec![self.moved_digest(partition, generation, &cells)];
        job.shown = Some(Shown { signature, cells: cells.len(), pads: Vec::new() });
        job.carried = Carried::Here(cells);
        sends.extend(self.make(job, partition)?);
        Ok(sends)
    }

    /// What came for a job that nobody has told of yet: of too much the oldest goes.
    fn keep_early(&self, moved: Moved) {
        let mut early = self.early.lock();
        early.retain(|early| early.partition != moved.partition);
        early.push_back(moved);
        let most = self.shape.rebuilds_ahead();
        let cells_max = most * self.shape.size(self.shape.top(), self.shape.cycle()) as usize;
        let cells = |early: &VecDeque<Moved>| early.iter().map(|of| of.cells.len()).sum::<usize>();
        while early.len() > 1 && (early.len() > most || cells(&early) > cells_max) {
            early.pop_front();
        }
    }

    fn strip(&self, shuffled: &mut Shuffled, strip: Strip) -> Result<Vec<ShufflerSends>> {
        let Strip { partition, generation, pads } = strip;
        let job = shuffled.job(generation).ok_or(Error::Client("seeds for no job"))?;
        if pads.len() != job.sources.0.len() {
            return Err(Error::Client("another number of seeds than of levels"));
        }
        if let Carried::Handed(_, seeds) = &mut job.carried {
            *seeds = Some(pads);
        }
        self.handed(shuffled, (partition, generation))
    }

    /// Takes the covers off what the holder handed over, once the seeds are here too.
    fn handed(
        &self,
        shuffled: &mut Shuffled,
        (partition, generation): (u16, Generation),
    ) -> Result<Vec<ShufflerSends>> {
        let Some(job) = shuffled.job(generation) else { return Ok(Vec::new()) };
        let (signature, mut cells, pads) = match &mut job.carried {
            Carried::Handed(Some((signature, cells)), Some(pads)) => {
                let nothing = Cells::new(self.shape.cell_bytes());
                (*signature, std::mem::replace(cells, nothing), std::mem::take(pads))
            }
            _ => return Ok(Vec::new()),
        };
        uncover(&self.shape, &job.sources, &pads, &mut cells);
        let mut sends = vec![self.moved_digest(partition, generation, &cells)];
        job.shown = Some(Shown { signature, cells: cells.len(), pads });
        job.carried = Carried::Here(cells);
        sends.extend(self.make(job, partition)?);
        Ok(sends)
    }

    /// The cells of these levels in storage order, if all are kept.
    fn gather(
        &self,
        shuffled: &Shuffled,
        partition: u16,
        sources: &Sources,
        brought: &[(Source, Cells)],
    ) -> Option<Cells> {
        let mut cells = Cells::new(self.shape.cell_bytes());
        for source in &sources.0 {
            let Source { level, generation } = source;
            let brought = brought.iter().find(|(of, _)| of == source).map(|(_, cells)| cells);
            match (shuffled.kept.get(level), brought, &self.elsewhere) {
                (Some(Kept::Here(kept, _)), _, _) if kept.generation == *generation => {
                    kept.append_to(&mut cells)?;
                }
                (_, Some(brought), _) => cells.append(brought),
                (_, None, Some(at)) => cells.append(&at.level(partition, *level, *generation)?),
                (_, None, None) => return None,
            }
        }
        Some(cells)
    }

    /// Which of these levels are kept in the store.
    pub(crate) fn away(&self, partition: u16, sources: &Sources) -> Vec<KeptLevel> {
        let Some(shuffled) = self.partitions.get(usize::from(partition)) else { return Vec::new() };
        let shuffled = shuffled.lock();
        let is_there = |source: &&Source| {
            let kept = shuffled.kept.get(&source.level);
            matches!(kept, Some(Kept::Stored(generation)) if *generation == source.generation)
        };
        let of = |source: &Source| {
            let Source { level, generation } = *source;
            KeptLevel { partition, level, generation }
        };
        sources.0.iter().filter(is_there).map(of).collect()
    }

    /// It is in the store now, unless nobody needs it any more.
    pub(crate) fn is_stored(&self, of: KeptLevel) {
        let Some(shuffled) = self.partitions.get(usize::from(of.partition)) else { return };
        let mut shuffled = shuffled.lock();
        if shuffled.stored.contains(&of) {
            shuffled.kept.entry(of.level).or_insert(Kept::Stored(of.generation));
        }
    }

    /// They are not in the store any more.
    pub(crate) fn is_forgotten(&self, all: &[KeptLevel]) {
        for of in all {
            let shuffled = self.partitions.get(usize::from(of.partition));
            shuffled.into_iter().for_each(|shuffled| _ = shuffled.lock().stored.remove(of));
        }
    }

    fn moved_digest(&self, partition: u16, generation: Generation, cells: &Cells) -> ShufflerSends {
        let sums = cells.iter().map(|cell| self.point.sum(cell));
        let digest = digest(About::Moved(partition, generation.0), sums);
        ShufflerSends::Client(MovedDigest { partition, generation, digest }.into())
    }

    /// Makes the level, once all is here that goes into it.
    fn make(&self, job: &mut Job, partition: u16) -> Result<Vec<ShufflerSends>> {
        let shape = self.shape;
        if job.made.is_some() {
            return Ok(Vec::new());
        }
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
        job.made = Some(Ordered { generation, cells: inputs, at });
        let signature = UNSIGNED;
        let level = Level { partition, level, generation, signature, cells };
        Ok(vec![ShufflerSends::Holder(level.into())])
    }

    fn commit(&self, shuffled: &mut Shuffled, commit: &Commit) -> Vec<ShufflerSends> {
        let Commit { partition, generation } = *commit;
        let is_it = |job: &mut Job| job.generation == generation;
        let Some(job) = shuffled.job.take_if(is_it) else { return Vec::new() };
        let is_read = |level: u8| level <= job.level || job.level == self.shape.top();
        shuffled.kept.retain(|level, _| !is_read(*level));
        let gone = shuffled.stored.iter().filter(|of| is_read(of.level));
        let gone: Vec<KeptLevel> = gone.copied().collect();
        let mut sends = Vec::new();
        if !gone.is_empty() {
            sends.push(ShufflerSends::Store(ToStore::Forget(gone)));
        }
        // What only a rebuild of the top reads comes from the holder.
        let (level, count) = (job.level, generation.count());
        let is_kept = level < self.shape.top() && !self.shape.has_spare(level, count);
        let Some(made) = job.made.filter(|_| is_kept).map(Ordered::without_zeros) else {
            return sends;
        };
        if let Some(taken) = self.room.take(made.bytes()) {
            shuffled.kept.insert(level, Kept::Here(made, taken));
            return sends;
        }
        let mut cells = Cells::with_room(self.shape.cell_bytes(), made.at.len());
        if made.append_to(&mut cells).is_some() {
            let of = KeptLevel { partition, level, generation };
            shuffled.stored.insert(of);
            sends.push(ShufflerSends::Store(ToStore::Put(of, cells)));
        }
        sends
    }
}

impl Ordered {
    /// The same without cells of zeros: what nobody uploaded.
    fn without_zeros(self) -> Self {
        let is_zeros = |cell: &[u8]| cell.iter().all(|byte| *byte == 0);
        let has = self.cells.iter().filter(|cell| !is_zeros(cell)).count();
        let mut cells = Cells::with_room(self.cells.cell_bytes(), has);
        let mut numbers = Vec::with_capacity(self.cells.len());
        for cell in self.cells.iter() {
            if is_zeros(cell) {
                numbers.push(None);
                continue;
            }
            numbers.push(Some(cells.len() as u32));
            cells.push(cell);
        }
        let number = |at: Option<u32>| numbers.get(at? as usize).copied().flatten();
        let at = self.at.into_iter().map(number).collect();
        Self { generation: self.generation, cells, at }
    }

    /// Bytes that it takes in memory.
    fn bytes(&self) -> usize {
        self.cells.bytes().len() + size_of_val(&*self.at)
    }

    /// Puts all of its cells behind these, in storage order.
    fn append_to(&self, cells: &mut Cells) -> Option<()> {
        for at in &self.at {
            let cell = cells.push_zeros();
            if let Some(at) = at {
                cell.copy_from_slice(self.cells.get(*at as usize)?);
            }
        }
        Some(())
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
    /// The job of this attempt, if it is under way.
    fn job(&mut self, generation: Generation) -> Option<&mut Job> {
        self.job.as_mut().filter(|job| job.generation == generation)
    }
}

impl std::fmt::Debug for Shuffler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shuffler(..)")
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Over two cycles of jobs whose uploads are noise: of every level that a job below the top
    /// will read as many cells are kept as were uploaded for it, and nothing of any other. No job
    /// finds that something was lost.
    #[test]
    fn what_a_job_below_the_top_reads_is_kept_and_nothing_else() {
        let shape = Shape { levels: 5, top_blocks: 20, ..crate::tests::shape() };
        let seed = |of| Seed::new([of; 32]);
        let (shuffler, partition) = (Shuffler::new(shape, &seed(1)), 0);
        let first = shape.first(partition);
        let mut most = 0;
        for count in (first..first + 2 * shape.cycle()).step_by(shape.batch() as usize).skip(1) {
            let (generation, level) = (Generation::new(count, 0), shape.written(count));
            let source = |(level, count)| Source { level, generation: Generation::new(count, 0) };
            let sources: Vec<Source> = shape.sources(partition, count).map(source).collect();
            let carries = level == shape.top() && !sources.is_empty() && !shape.refreshes(count);
            let sources = Sources(sources);
            let (order, pads) = (seed(2), seed(3));
            let mix = Mix { partition, level, generation, sources, order, pads };
            let told = shuffler.ask(mix.into()).unwrap();
            assert!(told.is_empty(), "{count}: something was lost");
            let noise = || vec![7; shape.uploads(count) as usize * shape.cell_bytes()];
            let cells = Cells::of(noise(), shape.cell_bytes()).unwrap();
            shuffler.ask(Upload { partition, generation, cells }.into()).unwrap();
            if carries {
                let (signature, cells) = (UNSIGNED, Cells::zeros(shape.cell_bytes(), 1));
                let moved = Moved { partition, generation, signature, cells };
                shuffler.across(moved.into()).unwrap();
            }
            let done = shuffler.ask(ToShuffler::Commit(Commit { partition, generation })).unwrap();
            assert!(done.is_empty(), "{count}: nothing goes into the store");
            let kept = &shuffler.partitions[0].lock().kept;
            let due = shape
                .filled(partition, count)
                .filter(|(level, count)| *level < shape.top() && !shape.has_spare(*level, *count));
            let due: Vec<(u8, usize)> = due.map(|(level, _)| (level, 1 << level)).collect();
            let here = |kept: &Kept| match kept {
                Kept::Here(kept, _) => kept.cells.len(),
                Kept::Stored(_) => panic!("there is room"),
            };
            let cells: Vec<_> = kept.iter().map(|(at, kept)| (*at, here(kept))).collect();
            assert_eq!(cells, due, "after {count}");
            most = most.max(due.iter().map(|(_, cells)| cells).sum());
        }
        assert!(most > 0 && most < shape.cycle() as usize / 2, "{most}");
    }

    /// While a level of a partition is made, reads of it and jobs of others go on.
    #[test]
    fn a_level_that_is_made_holds_up_its_partition_alone() {
        let shape = Shape { partitions: 2, ..crate::tests::shape() };
        let seed = |of| Seed::new([of; 32]);
        let shuffler = Shuffler::new(shape, &seed(1));
        let _is_made = shuffler.partitions[0].lock();
        let (read, partition, signature) = (1, 0, UNSIGNED);
        shuffler.ask(Want { read, partition, cells: 1, index: 0 }.into()).unwrap();
        let cells = Cells::zeros(32, 1);
        let sent = shuffler.across(Blinded { read, signature, cells }.into()).unwrap();
        assert!(matches!(sent[..], [ShufflerSends::Client(FromShuffler::Answer(_))]));
        let (partition, generation, sources) = (1, Generation::new(2, 0), Sources::default());
        let (order, pads) = (seed(2), seed(3));
        let mix = Mix { partition, level: 1, generation, sources, order, pads };
        shuffler.ask(mix.into()).unwrap();
        let upload = Upload { partition, generation, cells: Cells::zeros(32, 2) };
        let sent = shuffler.ask(upload.into()).unwrap();
        assert!(matches!(sent[..], [ShufflerSends::Holder(_)]));
    }
}
