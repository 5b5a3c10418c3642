//! What one cloud of two is sent under a load, beside what a simulator writes that knows nothing of
//! it: a classifier does not tell them apart.
//!
//! Accesses come one after the other, as the simulator has them, and times are left out: the order
//! of messages stands for them. What belongs to one access is put into one order. Cells that are
//! named in a message stand as the cells of a read, so that a classifier looks at their levels,
//! places and repetitions.

use fogbank_audit::Verdict;
use fogbank_audit::distinguish::{Advantage, Options, Pair, Run, distinguish};
use fogbank_audit::oracle::multicloud::MulticloudConfig;
use fogbank_audit::oracle::multicloud::simulator::Simulator;
use fogbank_env::{Clock, SystemClock};
use fogbank_mix::{Shape, traced};
#[cfg(feature = "canaries")]
use fogbank_oram::multicloud::canary::Leak;
use fogbank_oram::{Access, Address};
use fogbank_store::trace::{ChunkCells, Event, Request, Sent, TraceClock};
use fogbank_store::{ArrayId, ArrayShape, ChunkName};

use super::engines::{Kind, SHAPE, World};

/// The array that stands for what a shuffler is told of a read.
const WANTED: ArrayId = ArrayId(1 << 10);
/// Accesses of a run, and runs of each kind.
const ACCESSES: u64 = 1_200;
const RUNS: u64 = 4;

/// What clients ask for.
#[derive(Debug, Clone, Copy)]
enum Load {
    OneHotBlock,
    Scan,
}

impl Load {
    fn asks(self, access: u64) -> (Address, Access) {
        match self {
            Self::OneHotBlock => (Address(7), Access::Read),
            Self::Scan => (Address((access % u64::from(SHAPE.capacity)) as u32), Access::Read),
        }
    }
}

/// A life in which one access is over, with all that it makes due, before the next begins.
async fn lived(world: &World, load: Load) {
    world.clouds.is_watched();
    let engine = world.open(world.cloud.clone()).await.unwrap();
    let clock = SystemClock::new();
    for block in 0..SHAPE.capacity {
        let bytes = vec![1; SHAPE.value_bytes].into();
        engine.submit(Address(block), Access::Write { offset: 0, bytes }).await.unwrap();
        clock.sleep_until(clock.now() + 50_000_000).await;
    }
    for access in 0..ACCESSES {
        let (address, access) = load.asks(access);
        engine.submit(address, access).await.unwrap();
        clock.sleep_until(clock.now() + 50_000_000).await;
    }
    engine.close().await.unwrap();
}

/// A message as a classifier is to look at it; nothing of one that a simulator does not write.
fn looked_at(request: Request) -> Option<Request> {
    let Request::BlobPut { name, condition, .. } = request else { return Some(request) };
    let words: Vec<&str> = name.split('/').collect();
    let chunk = |array, chunk: &str, version: &str| ChunkName {
        array,
        chunk: chunk.parse().unwrap(),
        version: version.parse().unwrap(),
    };
    Some(match words[..] {
        ["reached", ..] => return None,
        ["look", _, partition, places] => {
            let place = |place: &str| {
                let of: Vec<&str> = place.split('.').collect();
                let array = ArrayId(of[0].parse().unwrap());
                ChunkCells {
                    chunk: chunk(array, partition, of[1]),
                    cells: vec![of[2].parse().unwrap()],
                }
            };
            Request::ReadCells { reads: places.split(',').map(place).collect() }
        }
        ["want", _, partition, cells, index] => {
            let chunk = chunk(WANTED, partition, cells);
            Request::ReadCells {
                reads: vec![ChunkCells { chunk, cells: vec![index.parse().unwrap()] }],
            }
        }
        // How long a message is follows from its kind and its numbers; its own are told by rules.
        _ => Request::BlobPut { name: words[0].into(), bytes: 0, condition, fingerprint: 0 },
    })
}

/// The events of a run: what arrays there are, then messages, those of one access in one order.
fn run(shape: &Shape, events: Vec<Event>) -> Vec<Event> {
    let arrays = shape.stored_levels().map(|level| {
        let cells =
            shape.size(level, shape.cycle() - (1 << level)).max(shape.size(level, shape.cycle()));
        (ArrayId(level.into()), cells as u16)
    });
    let arrays = arrays.chain([(WANTED, shape.levels.into())]).map(|(array, cells_per_chunk)| {
        let (chunks, cell_bytes) = (shape.partitions, shape.cell_bytes() as u32);
        (
            0,
            Request::CreateArray {
                array,
                shape: ArrayShape { chunks, cells_per_chunk, cell_bytes },
            },
        )
    });
    let of_event = |event| match event {
        Event::Sent(Sent { cloud, request, .. }) => Some((cloud, looked_at(request)?)),
        _ => None,
    };
    let mut messages: Vec<(u8, Request)> = Vec::new();
    let mut of_access = Vec::new();
    for message in events.into_iter().filter_map(of_event) {
        if matches!(message.1, Request::ReadCells { .. }) {
            of_access.sort_by_key(|(cloud, request)| (*cloud, format!("{request:?}")));
            messages.append(&mut of_access);
            messages.push(message);
        } else {
            of_access.push(message);
        }
    }
    let sent = |(id, (cloud, request))| {
        Event::Sent(Sent { id, at: 1_000_000 * id, cloud, connection: 0, request })
    };
    (0..).zip(arrays.chain(messages)).map(sent).collect()
}

/// What a classifier says of runs of an engine and of a simulator, in turn.
async fn told(cloud: usize, world: impl Fn() -> World, load: Load) -> Pair {
    let (scales, confidence) = (vec![1, 10], 0.999);
    let options =
        Options { scales, train_rows: 4_000, trees: 10, confidence, ..Options::default() };
    let mut runs = Vec::new();
    for number in 0..2 * RUNS {
        let world = world();
        let shape = world.public().unwrap();
        let (label, events) = match number % 2 {
            0 => {
                world.draws_from(100 * number);
                lived(&world, load).await;
                ("engine", world.clouds.view(cloud))
            }
            _ => {
                let config = traced::public(TraceClock::Virtual, cloud as u8, &shape);
                let tail: MulticloudConfig = config.tail().unwrap();
                let accesses = u64::from(SHAPE.capacity) + ACCESSES;
                let simulator = Simulator::new(&tail, number).unwrap();
                ("simulator", simulator.accesses(accesses).unwrap())
            }
        };
        let events = run(&shape, events).into_iter().map(Ok::<_, ()>);
        runs.push(Run::read(label, None, events, &options).unwrap());
    }
    let compared = distinguish(&runs, &options);
    assert!(compared.controls.iter().all(|one| one.verdict == Verdict::Passed), "{compared:?}");
    compared.pairs.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn nobody_tells_a_simulator_from_what_a_cloud_is_sent() {
    for (load, cloud) in [(Load::OneHotBlock, 0), (Load::Scan, 1)] {
        let pair = told(cloud, || World::new(Kind::Multicloud), load).await;
        assert!(pair.scales.len() == 2 && !pair.scales.iter().any(Advantage::tells), "{pair:?}");
    }
}

/// Dummies are the first unread ones; the place of the wanted cell is always one.
#[cfg(feature = "canaries")]
#[tokio::test(start_paused = true)]
async fn leaks_are_told_from_a_simulator() {
    for leak in [Leak::FirstDummy, Leak::ConstantIndex] {
        let world = || {
            let mut world = World::new(Kind::Multicloud);
            world.leak = Some(leak);
            world
        };
        let pair = told(0, world, Load::OneHotBlock).await;
        assert!(pair.scales.iter().any(Advantage::tells), "{leak:?}: {pair:?}");
    }
}
