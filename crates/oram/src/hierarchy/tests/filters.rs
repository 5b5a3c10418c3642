//! A model of what the paper does in place of indices: of every table a Bloom filter lies at the
//! server, and a query asks it whether the table holds the address. Counted beside indices: round
//! trips, bytes and what a client keeps (decision 0096).
//!
//! 1. A filter has 2,400 bits for each block that its table can hold, and 8 keyed places a block.
//!    It is sealed in groups, each with a tag of its own, so that the server can change none.
//! 2. A query asks the filter of the newest table. Only then it knows whether it touches the block
//!    there and a fake in all other tables, or goes on looking: so tables come one after the other,
//!    the touch of one in one message with the filter of the next.
//! 3. Where a block lies in its table is taken to follow from the key: a client keeps fakes alone.

use super::*;
use crate::hierarchy::numbers::bytes_of;
use crate::hierarchy::table::{Holds, Index};

/// As in section 6 of the paper.
const HASHES: u32 = 8;
const BITS: u64 = 2_400;
/// Bytes of filter that are sealed together, with their tag, and what names them in a request.
const GROUP_BYTES: f64 = 64.0 + 16.0;
const NAME_BYTES: f64 = 20.0;
/// A block of 4 KiB with its address and its tag.
const CELL_BYTES: f64 = 4_096.0 + 4.0 + 16.0;

struct Filter {
    table: Table,
    bits: Vec<u64>,
}

impl Filter {
    /// Of a table that can hold so many, and holds these.
    fn of(table: Table, reals: u32, held: impl Iterator<Item = u32>) -> Self {
        let words = (BITS * u64::from(reals)).div_ceil(64);
        let mut filter = Self { table, bits: vec![0; words as usize] };
        for address in held {
            for place in filter.places(address) {
                filter.bits[place / 64] |= 1 << (place % 64);
            }
        }
        filter
    }

    fn places(&self, address: u32) -> Vec<usize> {
        let bits = 64 * self.bits.len() as u64;
        let place = |hash: u32| {
            let Table { level, index } = self.table;
            let of = [u64::from(level), index as u64, address.into(), hash.into()];
            let hashed = digest(&[&of.map(u64::to_le_bytes).concat()]);
            let number = u64::from_le_bytes(hashed[..8].try_into().unwrap());
            (number % bits) as usize
        };
        (0..HASHES).map(place).collect()
    }

    fn has(&self, address: u32) -> bool {
        self.places(address).iter().all(|place| self.bits[place / 64] >> (place % 64) & 1 == 1)
    }

    /// The chance that it says so of an address that its table does not hold, as a power of two.
    fn log_errs(&self) -> f64 {
        let set: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        f64::from(HASHES) * (f64::from(set) / (64 * self.bits.len()) as f64).log2()
    }
}

/// What a query finds by filters is what it finds by indices, and no filter is likelier to be wrong
/// than a seal is to be forged.
#[test]
fn filters_find_what_indices_find() {
    let schedule = Schedule::new(512, 8, 2, 4, false).unwrap();
    // An epoch that touches tables of many levels.
    let tables = (100..200).map(|epoch| schedule.tables(epoch)).max_by_key(Vec::len).unwrap();
    let (mut filters, mut indices) = (Vec::new(), Vec::new());
    for (at, table) in (0..).zip(&tables) {
        let reals = schedule.reals(table.level);
        let held: Vec<u32> = (0..reals).map(|n| (n * 7 + at * 31) % 512).collect();
        filters.push(Filter::of(*table, reals, held.iter().copied()));
        let holds = Holds::These(held);
        indices.push(Index::new(&schedule, &keys(), *table, &[0; 16], holds));
    }
    let mut found = BTreeMap::new();
    for address in 0..512 {
        let by_index = indices.iter().position(|index| index.slot_of(address).is_some());
        assert_eq!(filters.iter().position(|filter| filter.has(address)), by_index, "{address}");
        *found.entry(by_index).or_insert(0) += 1;
    }
    assert!(found.len() > 4, "{found:?}");
    for filter in &filters {
        assert!(filter.log_errs() < -64.0, "{:?}: 2^{}", filter.table, filter.log_errs());
    }
}

/// Round trips of a query, bytes that it moves, and bytes that a client keeps for each block.
#[derive(Debug)]
struct Counted {
    rounds: f64,
    moved: f64,
    kept: f64,
}

/// By indices, and by filters, of a site of so many blocks all of whose levels are full.
fn counted(blocks: u32) -> [Counted; 2] {
    let schedule = Schedule::new(blocks, 256, 2, 8, true).unwrap();
    let (cost, period) = (Cost::of(&schedule), 1u64 << schedule.bottom());
    let epochs = 2 * period..3 * period;
    let tables: usize = epochs.map(|epoch| schedule.tables(epoch).len()).sum();
    let tables = tables as f64 / period as f64;
    let touched = tables * (CELL_BYTES + NAME_BYTES);
    let asked = tables * f64::from(HASHES) * (GROUP_BYTES + NAME_BYTES);
    // By filters the slots of fakes alone are kept: of each level most when a build starts.
    let of_level = |level: u8| {
        let growth = i64::from(schedule.growth);
        let tables =
            |indices: std::ops::Range<i64>| indices.map(move |index| Table { level, index });
        let fakes = |epoch: u64| {
            let lives = |table: &Table| {
                (schedule.build_starts(*table)..=schedule.superseded(*table)).contains(&epoch)
            };
            let live = tables(1..5 * growth).filter(lives);
            let of = |table: Table| bytes_of(schedule.fakes(table), schedule.slots(table));
            live.map(of).sum::<u64>()
        };
        let starts = tables(2 * growth..4 * growth).map(|table| schedule.build_starts(table));
        starts.map(fakes).max().unwrap_or_default()
    };
    let fakes = (0..=schedule.bottom()).map(of_level).sum::<u64>() as f64;
    let kept = cost.known_bytes as f64;
    [
        // An entry, and all touches at once.
        Counted { rounds: 2.0, moved: touched, kept: kept / f64::from(blocks) },
        // An entry, the first filter, and a touch with each next filter.
        Counted { rounds: tables + 2.0, moved: touched + asked, kept: fakes / f64::from(blocks) },
    ]
}

#[test]
fn filters_take_round_trips_and_bytes_for_memory() {
    for blocks in [1 << 14, 1 << 18, 1 << 22] {
        let [index, filter] = counted(blocks);
        println!("{blocks} blocks: {index:.1?}, {filter:.1?}");
        assert!(filter.rounds > 5.0 * index.rounds, "{filter:?}");
        assert!(filter.moved > 1.15 * index.moved, "{filter:?} {index:?}");
        assert!(filter.kept < index.kept, "{filter:?} {index:?}");
    }
    let [index, filter] = counted(1 << 22);
    assert!((22.0..25.0).contains(&filter.rounds) && index.kept < 52.0, "{filter:?} {index:?}");
}
