//! What comes to one cloud of two, as records of a trace (`docs/trace-format.md`): the auditor
//! follows a cloud by them, and knows no message of this crate.
//!
//! ```text
//! a message without cells    put of a blob whose name says all that is public in it
//! one with cells             write of a chunk version: array KIND, chunk the partition, version the job,
//!                            or the read; a fingerprint a cell
//! ```
//! A fingerprint of a cell is its first 8 bytes: the XOR of two is that of the XOR of the cells.
//! That of a seed is xxh3, so a seed that comes again is seen, and nobody learns it.

use fogbank_store::ChunkName;
use fogbank_store::trace::{CellsOf, ChunkSeen, PublicConfig, Shown, TraceClock};
use serde::Serialize;

use crate::message::{
    Across, Back, Carry, Commit, Fetch, Hand, Handed, Level, Look, Mix, Moved, NewRecords, Recall,
    Sources, Strip, ToHolder, ToSession, ToShuffler, Upload, Want,
};
use crate::server::Between;
use crate::session::ToCloud;
use crate::{Cells, Marks, Seed, Shape};

/// As the engine stands in the head of a trace.
const ENGINE: &str = "multicloud";

/// What the head says beside what all engines have.
#[derive(Serialize)]
struct Head {
    cloud: u8,
    partitions: u32,
    levels: u8,
    top_blocks: u16,
    kept_levels: u8,
    spare: u16,
    extra: u16,
    refresh_every: u16,
    cell_bytes: u32,
}

/// The head of a trace of the first (0) or the second (1) cloud. A cloud is not told how many
/// blocks there are: the head says how many there can be.
pub fn public(clock: TraceClock, cloud: u8, shape: &Shape) -> PublicConfig {
    let tail = Head {
        cloud,
        partitions: shape.partitions,
        levels: shape.levels,
        top_blocks: shape.top_blocks,
        kept_levels: shape.kept_levels,
        spare: shape.spare,
        extra: shape.extra,
        refresh_every: shape.refresh_every,
        cell_bytes: shape.cell_bytes() as u32,
    };
    let blocks = shape.partitions * u32::from(shape.top_blocks);
    PublicConfig::new(clock, ENGINE, (blocks, shape.block_bytes.into()), tail)
}

/// Which of both clouds a message of the client has come to, if it tells: of every other partition
/// the first is the holder.
pub fn cloud_asked(message: &ToCloud) -> Option<u8> {
    match message {
        ToCloud::Session(_) => None,
        ToCloud::Holder(message) => Some((message.partition() % 2) as u8),
        ToCloud::Shuffler(message) => Some((1 - message.partition() % 2) as u8),
    }
}

/// What a client asks a cloud; nothing if it asks for a proof, after which nothing comes.
pub fn asked(message: &ToCloud) -> Option<Shown> {
    let bytes = message.encode().len() as u64;
    let (name, fingerprint) = match message {
        ToCloud::Session(ToSession::Reached(at)) => {
            (format!("reached/{}/{}", at.epoch, at.place), 0)
        }
        ToCloud::Holder(message) => match message {
            ToHolder::Look(Look { read, partition, pads, places }) => {
                let place = |of: &crate::message::Place| {
                    format!("{}.{}.{}", of.level, of.generation.0, of.place)
                };
                let places: Vec<String> = places.iter().map(place).collect();
                (format!("look/{read}/{partition}/{}", places.join(",")), print(&[pads]))
            }
            ToHolder::Recall(Recall { partition, generation, sources }) => {
                (format!("recall/{partition}/{}/{}", generation.0, of(sources)), 0)
            }
            ToHolder::Hand(Hand { partition, generation, sources }) => {
                (format!("hand/{partition}/{}/{}", generation.0, of(sources)), 0)
            }
            ToHolder::Carry(Carry { partition, generation, sources, pads, list }) => {
                let (sources, list) = (of(sources), marked(list));
                let name = format!("carry/{partition}/{}/{sources}/{list}", generation.0);
                (name, print(&[pads]))
            }
            ToHolder::Fetch(Fetch { partition, generation, sources, list }) => {
                let (sources, list) = (of(sources), marked(list));
                (format!("fetch/{partition}/{}/{sources}/{list}", generation.0), 0)
            }
            ToHolder::NewRecords(NewRecords { partition, generation, records }) => {
                let print = xxhash_rust::xxh3::xxh3_64(&records.concat());
                (format!("records/{partition}/{}/{}", generation.0, records.len()), print)
            }
            ToHolder::Commit(commit) => (committed(commit), 0),
            ToHolder::Prove(_) => return None,
        },
        ToCloud::Shuffler(message) => match message {
            ToShuffler::Want(Want { read, partition, cells, index }) => {
                (format!("want/{read}/{partition}/{cells}/{index}"), 0)
            }
            ToShuffler::Mix(Mix { partition, level, generation, sources, order, pads }) => {
                let name = format!("mix/{partition}/{}/{level}/{}", generation.0, of(sources));
                (name, print(&[order, pads]))
            }
            ToShuffler::Upload(Upload { partition, generation, cells }) => {
                return Some(written(CellsOf::Upload, *partition, generation.0, cells));
            }
            ToShuffler::Strip(Strip { partition, generation, pads }) => {
                (format!("strip/{partition}/{}/{}", generation.0, pads.len()), 0)
            }
            ToShuffler::Commit(commit) => (committed(commit), 0),
            ToShuffler::Prove(_) | ToShuffler::ProveRead(_) => return None,
        },
    };
    Some(Shown::Said { name, bytes, fingerprint })
}

/// What the other cloud sends.
pub fn passed(message: &Between) -> Shown {
    match message {
        Between::Across(Across::Blinded(of)) => written(CellsOf::Blinded, 0, of.read, &of.cells),
        Between::Across(Across::Moved(Moved { partition, generation, cells, .. })) => {
            written(CellsOf::Moved, *partition, generation.0, cells)
        }
        Between::Across(Across::Handed(Handed { partition, generation, cells, .. })) => {
            written(CellsOf::Handed, *partition, generation.0, cells)
        }
        Between::Back(Back::Level(Level { partition, generation, cells, .. })) => {
            written(CellsOf::Level, *partition, generation.0, cells)
        }
    }
}

fn written(kind: CellsOf, partition: u16, version: u64, cells: &Cells) -> Shown {
    let chunk = ChunkName { array: kind.array(), chunk: partition.into(), version };
    let first = |cell: &[u8]| cell.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let fingerprints = cells.iter().map(first).collect();
    let bytes = cells.bytes().len() as u64;
    Shown::Cells { chunk, seen: ChunkSeen { bytes, fingerprints } }
}

fn committed(Commit { partition, generation }: &Commit) -> String {
    format!("commit/{partition}/{}", generation.0)
}

fn of(sources: &Sources) -> String {
    let source = |of: &crate::message::Source| format!("{}.{}", of.level, of.generation.0);
    sources.0.iter().map(source).collect::<Vec<_>>().join(",")
}

fn marked(list: &Marks) -> String {
    list.words().iter().map(|word| format!("{word:x}")).collect::<Vec<_>>().join(",")
}

fn print(seeds: &[&Seed]) -> u64 {
    let bytes: Vec<u8> = seeds.iter().flat_map(|seed| seed.bytes()).copied().collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
