//! Both clouds beside each other, with what a client would send written out by hand.

use std::sync::Arc;

use fogbank_store::{MemoryStore, Store};

use crate::message::*;
use crate::signed::UNSIGNED;
use crate::*;

const CELL: usize = 32;

/// One partition, of three levels.
pub(crate) fn shape() -> Shape {
    Shape {
        partitions: 1,
        levels: 3,
        kept_levels: 1,
        top_blocks: 5,
        spare: 1,
        extra: 1,
        refresh_every: 9,
        block_bytes: 16,
    }
}

fn seed(of: u8) -> Seed {
    Seed::new([of; 32])
}

/// What a store in memory never makes wait.
fn now<T>(work: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(work).poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("a store in memory makes nobody wait"),
    }
}

/// Cells that are told apart, under pads if there are any.
fn cells(numbers: impl IntoIterator<Item = u8>, pads: Option<&Seed>) -> Cells {
    let mut cells = Cells::new(CELL);
    for (index, number) in (0..).zip(numbers) {
        cells.push(&[number; CELL]);
        let cell = cells.get_mut(index as usize).unwrap();
        pads.into_iter().for_each(|pads| Pads::new(pads, CELL).xor(index, cell));
    }
    cells
}

/// Two clouds, and what they told the client.
struct Clouds {
    shape: Shape,
    store: Arc<dyn Store>,
    holder: Holder,
    shuffler: Shuffler,
    told: Vec<FromHolder>,
    answered: Vec<FromShuffler>,
}

impl Clouds {
    fn new(shape: Shape) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let holder = now(Holder::open(shape, &seed(1), store.clone())).unwrap();
        let shuffler = Shuffler::new(shape, &seed(2));
        Self { shape, store, holder, shuffler, told: Vec::new(), answered: Vec::new() }
    }

    /// The holder stops and starts again.
    fn holder_restarts(&mut self) {
        self.holder = now(Holder::open(self.shape, &seed(1), self.store.clone())).unwrap();
    }

    fn hold(&mut self, message: impl Into<ToHolder>) -> Result<()> {
        for sent in now(self.holder.ask(message.into()))? {
            self.holder_sent(sent)?;
        }
        Ok(())
    }

    fn holder_sent(&mut self, sent: HolderSends) -> Result<()> {
        match sent {
            HolderSends::Client(message) => self.told.push(message),
            HolderSends::Shuffler(message) => {
                let sent = self.shuffler.across(message)?;
                self.shuffler_sent(sent)?;
            }
        }
        Ok(())
    }

    fn shuffle(&mut self, message: impl Into<ToShuffler>) -> Result<()> {
        let sent = self.shuffler.ask(message.into())?;
        self.shuffler_sent(sent)
    }

    fn shuffler_sent(&mut self, sent: Vec<ShufflerSends>) -> Result<()> {
        for sent in sent {
            match sent {
                ShufflerSends::Client(message) => self.answered.push(message),
                ShufflerSends::Holder(message) => {
                    for sent in now(self.holder.level(message))? {
                        self.holder_sent(sent)?;
                    }
                }
                ShufflerSends::Store(_) => panic!("there is room"),
            }
        }
        Ok(())
    }

    /// A job of the two uploads numbered so; seeds of order and pads follow from its generation.
    /// Ends before the commit.
    fn job(&mut self, generation: Generation, sources: &Sources, uploads: [u8; 2]) -> Result<()> {
        let (partition, count) = (0, generation.count());
        let (level, sources) = (self.shape.written(count), sources.clone());
        let of = |what: u8| seed(what + count as u8 + 64 * generation.attempt() as u8);
        let (order, pads) = (of(100), of(101));
        self.shuffle(Mix { partition, level, generation, sources: sources.clone(), order, pads })?;
        self.shuffle(Upload { partition, generation, cells: cells(uploads, None) })?;
        match level < self.shape.top() || sources.0.is_empty() {
            true => self.hold(Recall { partition, generation, sources }),
            false => Ok(()),
        }
    }

    fn end(&mut self, generation: Generation) -> Result<()> {
        let count = generation.count();
        let size = self.shape.size(self.shape.written(count), count);
        let records = (0..=size).map(|x| [x as u8; 16]).collect();
        self.hold(NewRecords { partition: 0, generation, records })?;
        self.hold(Commit { partition: 0, generation })?;
        self.shuffle(Commit { partition: 0, generation })
    }

    /// The digest of the newest level.
    fn level_digest(&self) -> Digest {
        let digest = |told: &FromHolder| match told {
            FromHolder::LevelDigest(level) => Some(level.digest),
            _ => None,
        };
        self.told.iter().rev().find_map(digest).unwrap()
    }

    /// What lies in the cells of a level, by places: read one after the other, without covers.
    fn content(&mut self, level: u8, generation: Generation) -> Vec<u8> {
        let size = self.shape.size(level, generation.count());
        let of = 101 + generation.count() as u8 + 64 * generation.attempt() as u8;
        (0..size)
            .map(|place| {
                let (read, pads) = (1_000 * generation.0 + u64::from(place), seed(250));
                let places = vec![Place { level, generation, place }];
                self.shuffle(Want { read, partition: 0, cells: 1, index: 0 }).unwrap();
                self.hold(Look { read, partition: 0, pads: pads.clone(), places }).unwrap();
                let Some(FromShuffler::Answer(answer)) = self.answered.pop() else { panic!() };
                let mut cell = answer.cells.get(0).unwrap().to_vec();
                Pads::new(&pads, CELL).xor(0, &mut cell);
                Pads::new(&seed(of), CELL).xor(place, &mut cell);
                assert!(cell.iter().all(|byte| *byte == cell[0]));
                cell[0]
            })
            .collect()
    }
}

fn sources(list: &[(u8, Generation)]) -> Sources {
    let source =
        |(level, generation): &(u8, Generation)| Source { level: *level, generation: *generation };
    Sources(list.iter().map(source).collect())
}

fn of(count: u64) -> Generation {
    Generation::new(count, 0)
}

/// Level 1, then the top, which takes four of its cells by a list.
#[test]
fn what_is_uploaded_and_carried_lies_in_the_level_that_follows() {
    let mut clouds = Clouds::new(shape());
    let (partition, first, top) = (0, of(2), of(4));
    clouds.job(first, &Sources::default(), [1, 2]).unwrap();
    clouds.end(first).unwrap();
    let content = clouds.content(1, first);
    let mut sorted = content.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 0, 0, 0, 1, 2]);

    let levels = sources(&[(1, first)]);
    clouds.job(top, &levels, [3, 4]).unwrap();
    let mut list = Marks::none(6);
    let listed = [0, 1, 2, 4];
    listed.into_iter().for_each(|place| list.set(place));
    let carry = Carry { partition, generation: top, sources: levels, pads: seed(77), list };
    clouds.hold(carry).unwrap();
    assert!(matches!(clouds.answered[..], [FromShuffler::MovedDigest(_)]));
    clouds.end(top).unwrap();
    clouds.hold(Commit { partition, generation: first }).unwrap(); // told again, late
    let places = vec![Place { level: 1, generation: first, place: 0 }];
    let gone = Look { read: 9, partition, pads: seed(9), places };
    assert!(matches!(clouds.hold(gone), Err(Error::Lacks(_))));

    // In the cells of the top lie carried cells under both of their pads, then uploads, then zeros.
    let size = shape().size(2, 4);
    let mut inputs = Cells::new(CELL);
    for (index, place) in (0..).zip(listed) {
        inputs.push(&[content[place as usize]; CELL]);
        let cell = inputs.get_mut(index as usize).unwrap();
        Pads::new(&seed(103), CELL).xor(place, cell);
        Pads::new(&seed(77), CELL).xor(index, cell);
    }
    inputs.append(&cells([3, 4], None));
    let point = Point::new(&seed(1), CELL);
    let laid = Order::new(&seed(104), size).list().into_iter().zip(0..).map(|(item, place)| {
        let mut cell = inputs.get(item as usize).unwrap_or(&[0; CELL]).to_vec();
        Pads::new(&seed(105), CELL).xor(place, &mut cell);
        point.sum(&cell)
    });
    assert_eq!(clouds.level_digest(), digest(About::Level(0, top.0), laid));
}

/// Level 1 is written, level 2 of four takes it; the shuffler may have lost what it kept.
#[test]
fn what_is_kept_may_be_lost_and_is_handed_over() {
    let shape = Shape { levels: 4, top_blocks: 9, ..shape() };
    for loses in [false, true] {
        let mut clouds = Clouds::new(shape);
        let (first, second) = (of(2), of(4));
        clouds.job(first, &Sources::default(), [1, 2]).unwrap();
        clouds.end(first).unwrap();
        if loses {
            clouds.shuffler = Shuffler::new(shape, &seed(2));
        }
        let (partition, generation, from) = (0, second, sources(&[(1, first)]));
        let mix = Mix {
            partition,
            level: 2,
            generation,
            sources: from.clone(),
            order: seed(5),
            pads: seed(6),
        };
        clouds.shuffle(mix).unwrap();
        clouds.shuffle(Upload { partition, generation, cells: cells([3, 4], None) }).unwrap();
        clouds.hold(Recall { partition, generation, sources: from.clone() }).unwrap();
        assert_eq!(clouds.answered.pop(), loses.then_some(Lost { partition, generation }.into()));
        if loses {
            clouds.hold(Hand { partition, generation, sources: from }).unwrap();
            clouds.shuffle(Strip { partition, generation, pads: vec![seed(103)] }).unwrap();
            assert!(matches!(clouds.answered.pop(), Some(FromShuffler::MovedDigest(_))));
        }
        let mut level_cells = Cells::new(CELL);
        let inputs: Vec<u8> = {
            let order = Order::new(&seed(102), shape.size(1, 2)).list();
            let held = order.iter().map(|item| if *item < 2 { *item as u8 + 1 } else { 0 });
            held.chain([3, 4]).collect()
        };
        for (place, item) in (0..).zip(Order::new(&seed(5), shape.size(2, 4)).list()) {
            level_cells.push(&[inputs.get(item as usize).copied().unwrap_or(0); CELL]);
            Pads::new(&seed(6), CELL).xor(place, level_cells.get_mut(place as usize).unwrap());
        }
        let point = Point::new(&seed(1), CELL);
        let sums = level_cells.iter().map(|cell| point.sum(cell));
        assert_eq!(clouds.level_digest(), digest(About::Level(0, second.0), sums));
    }
}

/// A second attempt takes the place of the first, which is dropped wherever it is.
#[test]
fn a_later_attempt_takes_the_place_of_an_earlier_one() {
    let mut clouds = Clouds::new(shape());
    let (first, again) = (of(2), Generation::new(2, 1));
    clouds.job(first, &Sources::default(), [1, 2]).unwrap();
    clouds.job(again, &Sources::default(), [7, 0]).unwrap();
    let late = NewRecords { partition: 0, generation: first, records: vec![[0; 16]; 7] };
    clouds.hold(late).unwrap(); // means nothing any more
    clouds.end(again).unwrap();
    clouds.hold(Commit { partition: 0, generation: again }).unwrap(); // told again
    let mut content = clouds.content(1, again);
    content.sort_unstable();
    assert_eq!(content, [0, 0, 0, 0, 0, 7]);
}

/// The links of a holder are two: a level may come before the commit of the one before it.
#[test]
fn a_level_may_overtake_the_commit_of_the_last() {
    let shape = Shape { levels: 4, top_blocks: 9, ..shape() };
    let mut clouds = Clouds::new(shape);
    let (first, second, from) = (of(2), of(4), sources(&[(1, of(2))]));
    clouds.job(first, &Sources::default(), [1, 2]).unwrap();
    let records = vec![[0; 16]; shape.size(1, 2) as usize + 1];
    clouds.hold(NewRecords { partition: 0, generation: first, records }).unwrap();
    clouds.shuffle(Commit { partition: 0, generation: first }).unwrap();
    let mix = Mix {
        partition: 0,
        level: 2,
        generation: second,
        sources: from.clone(),
        order: seed(5),
        pads: seed(6),
    };
    clouds.shuffle(mix).unwrap();
    let upload = Upload { partition: 0, generation: second, cells: cells([3, 4], None) };
    clouds.shuffle(upload).unwrap();
    clouds.hold(Commit { partition: 0, generation: first }).unwrap();
    clouds.hold(Recall { partition: 0, generation: second, sources: from }).unwrap();
    clouds.end(second).unwrap();
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut clouds = Clouds::new(shape());
    let generation = of(2);
    let upload = Upload { partition: 0, generation, cells: cells([1], None) };
    assert!(matches!(clouds.shuffle(upload.clone()), Err(Error::Client(_))));
    clouds.job(generation, &Sources::default(), [1, 2]).unwrap();
    assert!(matches!(clouds.shuffle(upload), Err(Error::Client(_))));
    let signature = UNSIGNED;
    let other = Level { partition: 0, level: 2, generation, signature, cells: cells([1], None) };
    assert!(matches!(now(clouds.holder.level(other.into())), Err(Error::Other(_))));
    let wanted = Want { read: 1, partition: 0, cells: 2, index: 2 };
    clouds.shuffle(wanted).unwrap();
    let two = Blinded { read: 1, signature, cells: cells([1, 2], None) };
    assert!(matches!(clouds.shuffler.across(two.into()), Err(Error::Client(_))));
    let most = shape().batch_cells_max() as u8;
    let many = Blinded { read: 2, signature, cells: cells(0..=most, None) };
    assert!(matches!(clouds.shuffler.across(many.into()), Err(Error::Other(_))));
}

/// What one cloud sends the other may have another number of cells than it is to have: it is
/// digested, and shown as it came. Nothing that comes later takes its place.
#[test]
fn what_does_not_fit_is_digested_and_shown() {
    let (partition, signature, point) = (0, [7; 64], |of| Point::new(&seed(of), CELL));
    let sums =
        |of, cells: &Cells| -> Vec<Sum> { cells.iter().map(|cell| point(of).sum(cell)).collect() };
    // 1. A read of two.
    for number in [0, 1, 3, 9] {
        let (mut clouds, read, come) = (Clouds::new(shape()), 1, cells(0..number, None));
        clouds.shuffle(Want { read, partition, cells: 2, index: 0 }).unwrap();
        for (signature, cells) in [(signature, come.clone()), ([8; 64], cells([1, 2], None))] {
            let sent = clouds.shuffler.across(Blinded { read, signature, cells }.into()).unwrap();
            clouds.shuffler_sent(sent).unwrap();
        }
        let told = digest(About::Read(read), sums(2, &come));
        let answer = Answer { read, digest: told, cells: Cells::new(CELL) };
        assert_eq!(clouds.answered, [answer.into()]);
        clouds.shuffle(ProveRead { partition, read }).unwrap();
        assert_eq!(clouds.answered[1], Proof { signature, cells: come }.into());
    }
    // 2. What a rebuild carries.
    for (number, is_early) in [0, 1, 12].into_iter().flat_map(|of| [(of, false), (of, true)]) {
        let (mut clouds, generation, come) = (Clouds::new(shape()), of(4), cells(0..number, None));
        clouds.job(of(2), &Sources::default(), [1, 2]).unwrap();
        clouds.end(of(2)).unwrap();
        let moved = Moved { partition, generation, signature, cells: come.clone() };
        if is_early {
            assert_eq!(clouds.shuffler.across(moved.clone().into()), Ok(Vec::new()));
        }
        clouds.job(generation, &sources(&[(1, of(2))]), [3, 4]).unwrap();
        if !is_early {
            let sent = clouds.shuffler.across(moved.into()).unwrap();
            clouds.shuffler_sent(sent).unwrap();
        }
        let told = digest(About::Moved(partition, generation.0), sums(2, &come));
        let told = MovedDigest { partition, generation, digest: told };
        assert_eq!(clouds.answered, [told.into()]);
        clouds.shuffle(Prove { partition, generation }).unwrap();
        assert_eq!(clouds.answered[1], Proof { signature, cells: come }.into());
    }
    // 3. What is handed over: five cells, of which the covers come off.
    for number in [0, 3, 5, 7] {
        let shape = Shape { levels: 4, top_blocks: 9, ..shape() };
        let (mut clouds, generation, come) = (Clouds::new(shape), of(4), cells(0..number, None));
        let from = sources(&[(1, of(2))]);
        clouds.job(generation, &from, [3, 4]).unwrap_err(); // the holder has no such level
        clouds.shuffle(Strip { partition, generation, pads: vec![seed(9)] }).unwrap();
        let handed = Handed { partition, generation, signature, cells: come.clone() };
        let sent = clouds.shuffler.across(handed.into()).unwrap();
        clouds.shuffler_sent(sent).unwrap();
        assert!(matches!(clouds.answered[1], FromShuffler::MovedDigest(_)), "{number}");
        clouds.shuffle(Prove { partition, generation }).unwrap();
        assert_eq!(clouds.answered[2], Proof { signature, cells: come }.into());
    }
    // 4. A level of six.
    for (number, is_early) in [0, 5, 7].into_iter().flat_map(|of| [(of, false), (of, true)]) {
        let (mut clouds, generation, come) = (Clouds::new(shape()), of(2), cells(0..number, None));
        let level =
            |cells| -> Back { Level { partition, level: 1, generation, signature, cells }.into() };
        let named = Recall { partition, generation, sources: Sources::default() };
        let mut sent = Vec::new();
        if is_early {
            sent.extend(now(clouds.holder.level(level(come.clone()))).unwrap());
            assert_eq!(sent, []);
        }
        clouds.hold(named).unwrap();
        if !is_early {
            sent.extend(now(clouds.holder.level(level(come.clone()))).unwrap());
        }
        sent.extend(now(clouds.holder.level(level(cells(0..6, None)))).unwrap());
        sent.into_iter().for_each(|sent| clouds.holder_sent(sent).unwrap());
        let told = digest(About::Level(partition, generation.0), sums(1, &come));
        let records = JobRecords { partition, generation, records: Vec::new() };
        clouds.told.retain(|told| *told != records.clone().into());
        let told = LevelDigest { partition, generation, digest: told };
        assert_eq!(clouds.told, [told.into()]);
        clouds.hold(Prove { partition, generation }).unwrap();
        assert_eq!(clouds.told[1], Proof { signature, cells: come }.into());
    }
}

/// What a liar may send a holder: a level again, of a job of later, of one that is done; and after
/// a start the same.
#[test]
fn a_level_is_taken_once_and_no_attempt_that_was_not_named() {
    let mut clouds = Clouds::new(shape());
    let (first, later, next) = (of(2), Generation::new(2, 9), of(4));
    let bad = |generation: Generation| -> Back {
        let (count, partition) = (generation.count(), 0);
        let level = shape().written(count);
        let cells = cells(vec![66; shape().size(level, count) as usize], None);
        Level { partition, level, generation, signature: UNSIGNED, cells }.into()
    };
    let tell = |clouds: &Clouds, generation| now(clouds.holder.level(bad(generation))).unwrap();
    clouds.job(first, &Sources::default(), [1, 2]).unwrap();
    assert_eq!(tell(&clouds, first), [], "again");
    assert_eq!(tell(&clouds, later), [], "not named");
    let none = Commit { partition: 0, generation: first };
    assert!(matches!(clouds.hold(none), Err(Error::Lacks(_))), "without records");
    let records = vec![[0; 16]; 7];
    clouds.hold(NewRecords { partition: 0, generation: first, records }).unwrap();
    let ahead = Recall { partition: 0, generation: next, sources: Sources::default() };
    assert!(matches!(clouds.hold(ahead), Err(Error::Lacks(_))), "before the last is committed");
    for generation in [first, Generation::new(2, 10), next] {
        assert_eq!(tell(&clouds, generation), []);
    }
    clouds.holder_restarts();
    for generation in [first, Generation::new(2, 11)] {
        assert_eq!(tell(&clouds, generation), []);
    }
    clouds.hold(Commit { partition: 0, generation: first }).unwrap();
    assert_eq!(tell(&clouds, Generation::new(2, 12)), [], "its job is done");
    let mut content = clouds.content(1, first);
    content.sort_unstable();
    assert_eq!(content, [0, 0, 0, 0, 1, 2]);
}

/// A level with records survives a stop, and waits for the client to say that it counts. One
/// without records is gone.
#[test]
fn what_a_holder_has_acknowledged_is_there_after_a_stop() {
    for stop in 0..5 {
        let mut clouds = Clouds::new(Shape { levels: 4, top_blocks: 9, ..shape() });
        let (partition, first, second) = (0, of(2), of(4));
        clouds.job(first, &Sources::default(), [1, 2]).unwrap();
        clouds.end(first).unwrap();
        if stop == 0 {
            clouds.holder_restarts();
            clouds.hold(Commit { partition, generation: first }).unwrap();
            assert_eq!(clouds.content(1, first).len(), 5);
            continue;
        }
        let from = sources(&[(1, first)]);
        clouds.job(second, &from, [3, 4]).unwrap();
        if stop == 1 {
            clouds.holder_restarts();
            clouds.hold(Commit { partition, generation: first }).unwrap();
            assert_eq!(clouds.content(1, first).len(), 5);
            let early = Commit { partition, generation: second };
            assert!(clouds.hold(early).is_err(), "it has no records");
            let again = Generation::new(4, 1);
            clouds.job(again, &from, [3, 4]).unwrap();
            clouds.end(again).unwrap();
            continue;
        }
        let size = clouds.shape.size(2, 4);
        let records = vec![[0; 16]; size as usize + 1];
        clouds.hold(NewRecords { partition, generation: second, records }).unwrap();
        if stop == 2 {
            clouds.holder_restarts();
            assert_eq!(clouds.content(1, first).len(), 5, "reads go on until the commit");
        }
        clouds.hold(Commit { partition, generation: second }).unwrap();
        if stop == 3 {
            clouds.holder_restarts();
            clouds.hold(Commit { partition, generation: second }).unwrap();
        }
        clouds.shuffle(Commit { partition, generation: second }).unwrap();
        assert_eq!(clouds.content(2, second).len() as u32, size);
        let gone = Place { level: 1, generation: first, place: 0 };
        let look = Look { read: 1, partition, pads: seed(1), places: vec![gone] };
        assert!(clouds.hold(look).is_err());
        if stop == 4 {
            let third = of(6);
            clouds.holder_restarts();
            let recall = Recall { partition, generation: third, sources: Sources::default() };
            assert!(clouds.hold(recall).is_err(), "the last commit is told first");
        }
    }
}

/// Whoever has digested something shows it as it came, until it is committed; a read's, while it is
/// there. All answers to a read are of the batch that came first.
#[test]
fn what_was_digested_is_shown() {
    let mut clouds = Clouds::new(shape());
    let (partition, read, first) = (0, 3, of(2));
    let none = Proof { signature: UNSIGNED, cells: Cells::new(CELL) };
    clouds.shuffle(ProveRead { partition, read }).unwrap();
    assert_eq!(clouds.answered.pop(), Some(none.clone().into()));
    for (number, signature) in [(1, [7; 64]), (2, [8; 64])] {
        let blinded = Blinded { read, signature, cells: cells([number], None) };
        let sent = clouds.shuffler.across(blinded.into()).unwrap();
        assert_eq!(sent, [], "it is not wanted yet");
    }
    clouds.shuffle(ProveRead { partition, read }).unwrap();
    assert_eq!(clouds.answered.pop(), Some(none.clone().into()), "nothing was digested");
    for _again in 0..2 {
        clouds.shuffle(Want { read, partition, cells: 1, index: 0 }).unwrap();
        let Some(FromShuffler::Answer(answer)) = clouds.answered.pop() else { panic!() };
        assert_eq!(answer.cells, cells([1], None));
        clouds.shuffle(ProveRead { partition, read }).unwrap();
        let shown = Proof { signature: [7; 64], cells: cells([1], None) };
        assert_eq!(clouds.answered.pop(), Some(shown.into()));
    }

    clouds.job(first, &Sources::default(), [1, 2]).unwrap();
    let prove = Prove { partition, generation: first };
    clouds.hold(prove.clone()).unwrap();
    let Some(FromHolder::Proof(proof)) = clouds.told.pop() else { panic!() };
    assert_eq!(proof.cells.len(), 6);
    // A start later: the shuffler sends another, and the holder cannot know that it told of one
    // before.
    clouds.holder_restarts();
    let (level, signature, cells) = (1, [9; 64], Cells::zeros(CELL, 6));
    let other = Level { partition, level, generation: first, signature, cells };
    assert_eq!(now(clouds.holder.level(other.into())), Ok(Vec::new()));
    clouds.hold(prove.clone()).unwrap();
    assert_eq!(clouds.told.pop(), Some(none.clone().into()), "nobody was told of this one");
    let again = Generation::new(2, 1);
    clouds.job(again, &Sources::default(), [1, 2]).unwrap();
    clouds.end(again).unwrap();
    let prove = Prove { partition, generation: again };
    clouds.hold(prove).unwrap();
    assert_eq!(clouds.told.pop(), Some(none.into()), "it counts: nobody asks any more");
}

/// What one cloud makes the other keep is bounded: the oldest goes, and the newest is served.
#[test]
fn what_the_holder_sends_before_the_client_is_bounded() {
    let mut clouds = Clouds::new(shape());
    let most = shape().reads_ahead() as u64;
    for read in 0..2 * most {
        let cells = cells([read as u8], None);
        assert_eq!(
            clouds.shuffler.across(Blinded { read, signature: UNSIGNED, cells }.into()).unwrap(),
            []
        );
    }
    for (read, is_there) in [(most - 1, false), (2 * most - 1, true)] {
        clouds.shuffle(Want { read, partition: 0, cells: 1, index: 0 }).unwrap();
        assert_eq!(clouds.answered.pop().is_some(), is_there, "{read}");
    }
    // Of reads that are longer than any is one is kept, and none any more when the client was told.
    let (mut clouds, signature) = (Clouds::new(shape()), UNSIGNED);
    let long = |read| -> Across { Blinded { read, signature, cells: cells([0; 4], None) }.into() };
    for read in 0..9 {
        assert_eq!(clouds.shuffler.across(long(read)).unwrap(), []);
    }
    for (read, is_there) in [(7, false), (8, true)] {
        clouds.shuffle(Want { read, partition: 0, cells: 1, index: 0 }).unwrap();
        assert_eq!(clouds.answered.pop().is_some(), is_there, "{read}");
    }
    assert!(matches!(clouds.shuffler.across(long(9)), Err(Error::Other(_))));
}

/// Every byte of some messages, and what is left of them when they are cut or changed.
#[test]
fn messages_are_what_is_written_here() {
    let look: ToHolder = Look {
        read: 7,
        partition: 3,
        pads: seed(9),
        places: vec![
            Place { level: 4, generation: of(2), place: 5 },
            Place { level: 6, generation: Generation(1), place: 258 },
        ],
    }
    .into();
    let mut bytes = vec![0, 0, 0, 68, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 3];
    bytes.extend([9; 32]);
    bytes.extend([4, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 5]);
    bytes.extend([6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2]);
    assert_eq!(look.encode(), bytes);
    assert_eq!(ToHolder::decode(&bytes, CELL), Ok(look));

    let generation = Generation::new(0x0102, 3);
    let sources = sources(&[(1, of(2))]);
    let mix: ToShuffler =
        Mix { partition: 1, level: 2, generation, sources, order: seed(4), pads: seed(5) }.into();
    let mut bytes = vec![0, 0, 0, 85, 2, 0, 1, 2, 0, 0, 0, 0, 1, 2, 0, 3, 1, 1];
    bytes.extend([0, 0, 0, 0, 0, 2, 0, 0]);
    bytes.extend([4; 32]);
    bytes.extend([5; 32]);
    assert_eq!(mix.encode(), bytes);
    assert_eq!(ToShuffler::decode(&bytes, CELL), Ok(mix));

    let signature = UNSIGNED;
    let cells = cells([8, 9], None);
    let moved: Across = Moved { partition: 1, generation, signature, cells }.into();
    let bytes = moved.encode();
    assert_eq!(bytes.len(), HEADER_BYTES + 10 + 64 + 2 * CELL);
    assert_eq!(Across::decode(&bytes, CELL), Ok(moved));
    for cut in 0..bytes.len() {
        assert!(Across::decode(&bytes[..cut], CELL).is_err(), "{cut}");
    }
    let mut other = bytes;
    other[4] = 9;
    assert!(Across::decode(&other, CELL).is_err());
}

/// A holder that sends many reads that nobody wants has none dropped that was answered: it could be
/// the proof of a lie.
#[test]
fn what_was_answered_outlasts_a_flood() {
    let shuffler = Shuffler::new(shape(), &seed(2));
    let cells = || Cells::zeros(shape().cell_bytes(), 1);
    let blinded = |read| Across::from(Blinded { read, signature: UNSIGNED, cells: cells() });
    shuffler.ask(Want { partition: 0, read: 1, cells: 1, index: 0 }.into()).unwrap();
    assert_eq!(shuffler.across(blinded(1)).unwrap().len(), 1);
    for read in 2..2_000 {
        shuffler.across(blinded(read)).unwrap();
    }
    let shown = shuffler.ask(ProveRead { partition: 0, read: 1 }.into()).unwrap();
    let ShufflerSends::Client(FromShuffler::Proof(proof)) = &shown[0] else { panic!("{shown:?}") };
    assert!(!proof.cells.is_empty());
    // Of what is wanted the lowest goes.
    for read in 2..2_000 {
        shuffler.ask(Want { partition: 0, read, cells: 1, index: 0 }.into()).unwrap();
    }
    let shown = shuffler.ask(ProveRead { partition: 0, read: 1 }.into()).unwrap();
    let ShufflerSends::Client(FromShuffler::Proof(proof)) = &shown[0] else { panic!("{shown:?}") };
    assert!(proof.cells.is_empty());
}

/// One tenant's message is not to keep the others waiting.
#[test]
fn levels_that_cannot_be_are_refused() {
    for list in [vec![(255, of(2))], vec![(1, of(2)); 200], vec![(3, of(2))]] {
        let shuffler = Shuffler::new(shape(), &seed(2));
        let (level, sources) = (shape().written(4), sources(&list));
        let (order, pads) = (seed(3), seed(4));
        let mix = Mix { partition: 0, level, generation: of(4), sources, order, pads };
        assert!(matches!(shuffler.ask(mix.into()), Err(Error::Client(_))), "{list:?}");
    }
}
