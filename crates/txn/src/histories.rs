//! Every history of two small transactions, and many of three, against a serial model.
//!
//! All interleavings of all pairs of statements, every choice of who commits, aborts or never ends:
//! what the committed ones saw, replayed in the order of timestamps, must be what a plain map
//! shows, and so must the directory after the epoch.

use std::collections::BTreeMap;

use bytes::Bytes;
use fogbank_env::{Purpose, Randomness};
use fogbank_oram::BatchShape;
use rand_core::Rng;
use tokio::sync::oneshot;

use crate::core::Core;
use crate::directory::Directory;
use crate::error::Result;
use crate::key::{Key, KeyRange};
use crate::record::Stat;
use crate::settings::Settings;
use crate::statement::{Place, Step};
use crate::version::Change;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Get(u8),
    Put(u8),
    Delete(u8),
    SetAttr(u8),
    Scan,
    First,
    Count,
    Add,
}

const OPS: [Op; 10] = [
    Op::Get(0),
    Op::Get(1),
    Op::Put(0),
    Op::Put(1),
    Op::Delete(0),
    Op::SetAttr(0),
    Op::Scan,
    Op::First,
    Op::Count,
    Op::Add,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Commit,
    Abort,
    Never,
}

const ENDS: [End; 3] = [End::Commit, End::Abort, End::Never];

/// What a statement showed: as numbers, so that the model can show the same.
type Shown = Vec<u64>;

/// Attribute and value by member; the value counts only for the counter.
type Model = BTreeMap<u8, (u64, i64)>;

const COUNTER: u8 = 9;

fn name(member: u8) -> Key {
    Key::new(b"g", &[member])
}

fn core() -> Core {
    let shape = BatchShape { capacity: 8, value_bytes: 8, read_batch: 4, write_batch: 4 };
    let mut directory = Directory::default();
    // Empty values hold no block: what is looked at here needs no batch.
    directory.put(&name(0), Stat { len: 0, attr: 1 }, &[]);
    Core::new(Settings::default(), shape, directory, &Randomness::repeatable(1))
}

fn model() -> Model {
    [(0, (1, 0))].into()
}

fn done<T>(step: Result<Step<T>>) -> Result<T> {
    match step? {
        Step::Done(value) => Ok(value),
        Step::Wait => panic!("nothing here waits for a batch"),
    }
}

fn run(core: &mut Core, place: &mut Place, op: Op, stamp: u64) -> Result<Shown> {
    let shown = |found: Vec<(Key, Stat)>| {
        found.iter().flat_map(|(k, stat)| [u64::from(k.member()[0]), stat.attr]).collect()
    };
    let all = KeyRange::group(b"g");
    Ok(match op {
        Op::Get(n) => {
            let read = done(core.read(place, &[name(n)]))?;
            read.into_iter().flatten().map(|record| record.attr).collect()
        }
        Op::Put(n) => {
            core.write(place, &name(n), Change::put(Bytes::new(), stamp))?;
            Shown::new()
        }
        Op::Delete(n) => vec![u64::from(core.delete(place, &name(n))?)],
        Op::SetAttr(n) => vec![u64::from(done(core.set_attr(place, &name(n), stamp))?)],
        Op::Scan => shown(core.scan_keys(place, &all, 10, false)?),
        Op::First => shown(core.scan_keys(place, &all, 1, false)?),
        Op::Count => vec![core.count(place, b"g")?],
        Op::Add => {
            done(core.add(place, &name(COUNTER), 1 << (stamp % 60)))?;
            Shown::new()
        }
    })
}

fn replay(model: &mut Model, op: Op, stamp: u64) -> Shown {
    let pairs = |(n, (attr, _)): (&u8, &(u64, i64))| [u64::from(*n), *attr];
    match op {
        Op::Get(n) => model.get(&n).map(|(attr, _)| *attr).into_iter().collect(),
        Op::Put(n) => {
            model.insert(n, (stamp, 0));
            Shown::new()
        }
        Op::Delete(n) => vec![u64::from(model.remove(&n).is_some())],
        Op::SetAttr(n) => {
            let there = model.get_mut(&n).map(|(attr, _)| *attr = stamp).is_some();
            vec![u64::from(there)]
        }
        Op::Scan => model.iter().flat_map(pairs).collect(),
        Op::First => model.iter().take(1).flat_map(pairs).collect(),
        Op::Count => vec![model.len() as u64],
        Op::Add => {
            model.entry(COUNTER).or_insert((0, 0)).1 += 1 << (stamp % 60);
            Shown::new()
        }
    }
}

struct Player {
    ops: Vec<Op>,
    end: End,
    place: Option<Place>,
    log: Vec<(Op, u64, Shown)>,
    lost: bool,
    /// Before each statement it moves to the present, as one does that has waited.
    moves: bool,
    outcome: Option<oneshot::Receiver<Result<()>>>,
}

impl Player {
    fn new(ops: Vec<Op>, end: End) -> Self {
        Self { ops, end, place: None, log: Vec::new(), lost: false, moves: false, outcome: None }
    }

    /// The next statement, or the end after the last one.
    fn turn(&mut self, core: &mut Core, stamp: u64) {
        if self.lost {
            return;
        }
        let place = self.place.get_or_insert_with(|| done(core.begin(None)).unwrap());
        if self.moves {
            core.catch_up(place);
        }
        match self.ops.get(self.log.len()) {
            Some(&op) => match run(core, place, op, stamp) {
                Ok(shown) => self.log.push((op, stamp, shown)),
                Err(_) => self.lost = true,
            },
            None if self.end == End::Commit => {
                let (sender, receiver) = oneshot::channel();
                match core.request_commit(place, &mut Some(sender)) {
                    Ok(_) => self.outcome = Some(receiver),
                    Err(_) => self.lost = true,
                }
            }
            None if self.end == End::Abort => core.abort(place),
            None => {}
        }
    }
}

/// Plays an order of turns to the end of the epoch and compares. How many committed.
fn play(mut players: Vec<Player>, order: &[usize]) -> usize {
    let mut core = core();
    for (stamp, &who) in (2..).zip(order) {
        players[who].turn(&mut core, stamp);
    }
    for answer in core.close_epoch(false, drop).committed {
        answer.send(Ok(())).unwrap();
    }
    let mut committed: Vec<&mut Player> = players
        .iter_mut()
        .filter_map(|p| {
            let outcome = p.outcome.as_mut()?.try_recv();
            matches!(outcome, Ok(Ok(()))).then_some(p)
        })
        .collect();
    committed.sort_by_key(|player| player.place.map(|place| place.ts));
    let mut model = model();
    for player in &committed {
        for (op, stamp, shown) in &player.log {
            assert_eq!(&replay(&mut model, *op, *stamp), shown, "{order:?} {op:?}");
        }
    }
    let left: Vec<(u8, u64)> =
        core.directory.iter().map(|(k, entry)| (k.member()[0], entry.stat().attr)).collect();
    let expected: Vec<(u8, u64)> = model.iter().map(|(n, (attr, _))| (*n, *attr)).collect();
    assert_eq!(left, expected, "{order:?}");
    assert_eq!(core.directory.count(&Key::new(b"g", b"")), model.len() as u64);
    committed.len()
}

/// Every order of `left[i]` turns of each player.
fn orders(left: &mut [usize], order: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
    if left.iter().all(|&n| n == 0) {
        return visit(order);
    }
    for who in 0..left.len() {
        if left[who] > 0 {
            left[who] -= 1;
            order.push(who);
            orders(left, order, visit);
            order.pop();
            left[who] += 1;
        }
    }
}

#[test]
fn every_history_of_two_transactions_of_two_statements_is_serial() {
    let (mut histories, mut committed) = (0, 0);
    for index in 0..OPS.len().pow(4) {
        let op = |place: u32| OPS[index / OPS.len().pow(place) % OPS.len()];
        let mut visit = |order: &[usize]| {
            for ends in [(0, 0), (0, 1), (1, 0), (0, 2), (2, 0), (0, 0)] {
                let mut players = vec![
                    Player::new(vec![op(0), op(1)], ENDS[ends.0]),
                    Player::new(vec![op(2), op(3)], ENDS[ends.1]),
                ];
                // The last of the ends once more, with moves.
                let moves = histories % 6 == 5;
                players.iter_mut().for_each(|player| player.moves = moves);
                histories += 1;
                committed += play(players, order);
            }
        };
        orders(&mut [3, 3], &mut Vec::new(), &mut visit);
    }
    assert_eq!(histories, 10_000 * 20 * 6);
    assert!(committed > histories * 3 / 4, "{committed} of {histories}");
}

#[test]
fn many_histories_of_three_transactions_are_serial() {
    let mut random = Randomness::repeatable(3).stream(Purpose::Workload);
    let mut draw = |n: usize| (random.next_u64() % n as u64) as usize;
    let mut committed = 0;
    for _ in 0..200_000 {
        let players: Vec<Player> = (0..3)
            .map(|_| {
                let ops = (0..3).map(|_| OPS[draw(OPS.len())]).collect();
                let ended = Player::new(ops, ENDS[draw(6).saturating_sub(3)]);
                Player { moves: draw(2) == 0, ..ended }
            })
            .collect();
        let mut order: Vec<usize> = (0..12).map(|turn| turn % 3).collect();
        (1..12).for_each(|i| order.swap(i, draw(i + 1)));
        committed += play(players, &order);
    }
    assert!(committed > 150_000, "{committed}");
}
