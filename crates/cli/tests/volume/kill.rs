//! `kill -9` in mid-write, again and again, checked block by block.
//!
//! 1. Writers have blocks of their own each. Every write fills one to four blocks with its number
//!    and wants to be kept (FUA); several of a writer are under way at once, on blocks that differ.
//! 2. The process is killed at a random moment and started on the same data. Of a volume in two
//!    clouds it is either cloud's turn as well: that one starts again, writers go on, then the
//!    process is killed.
//! 3. Every block is whole, and has the number of its last acknowledged write or of one that was
//!    asked for later.
//!
//! `FOGBANK_KILLS` says how many (3; a quarter of it of each of three processes),
//! `FOGBANK_KILL_SEED` draws the moments.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use fogbank_env::{Mutex, Purpose, Randomness, Stream};
use rand_core::Rng;

use crate::client::{BLOCK, Client};
use crate::mounted::wait_for;
use crate::{MULTICLOUD, PARTITION, RING, Volume, number};

/// Blocks of the volume.
const BLOCKS: u64 = 2048;
const WRITERS: u64 = 3;
/// Writes of a writer under way at once, each in a slot of its own blocks.
const UNDER_WAY: u64 = 8;
/// Blocks of a slot.
const SLOT: u64 = 16;

/// What writers asked for and were told of one block.
#[derive(Debug, Default, Clone)]
struct Told {
    /// The last write that was acknowledged; 0: none.
    kept: u64,
    /// A write asked for since that may or may not have happened.
    asked: Vec<u64>,
}

/// What writers were told, over all lives of the server.
#[derive(Default)]
pub struct Ledger {
    blocks: Mutex<BTreeMap<u64, Told>>,
    acknowledged: Mutex<u64>,
}

impl Ledger {
    /// Writes until the server is gone.
    pub fn write_on(&self, mut client: Client, writer: u64, life: u64, random: &mut Stream) {
        for round in 1.. {
            let mut spans = Vec::new();
            for slot in 0..UNDER_WAY {
                let blocks = random.next_u64() % 4 + 1;
                let within = random.next_u64() % (SLOT - blocks);
                let start = ((random.next_u64() % 4 * UNDER_WAY + slot) * WRITERS + writer) * SLOT;
                let first = start + within;
                let write = life << 32 | round << 8 | slot;
                spans.push((first, blocks, write));
                self.note(first, blocks, |told| told.asked.push(write));
                let content = write.to_be_bytes().repeat(blocks as usize * BLOCK / 8);
                if client.write(slot, first, &content).is_err() {
                    return;
                }
            }
            for _ in 0..UNDER_WAY {
                let Ok(slot) = client.reply() else { return };
                let (first, blocks, write) = spans[slot as usize];
                self.note(first, blocks, |told| *told = Told { kept: write, asked: Vec::new() });
                *self.acknowledged.lock() += 1;
            }
        }
    }

    fn note(&self, first: u64, blocks: u64, change: impl Fn(&mut Told)) {
        let mut known = self.blocks.lock();
        (first..first + blocks).for_each(|block| change(known.entry(block).or_default()));
    }

    /// How many writes were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        *self.acknowledged.lock()
    }

    /// Holds the volume against what writers were told.
    pub fn check(&self, client: &mut Client) -> Result<(), String> {
        let mut known = self.blocks.lock();
        for first in (0..BLOCKS).step_by(64) {
            let content = client.read(first, 64).map_err(|e| e.to_string())?;
            for (block, content) in (first..).zip(content.chunks(BLOCK)) {
                let found = u64::from_be_bytes(content[..8].try_into().unwrap());
                if content != found.to_be_bytes().repeat(BLOCK / 8) {
                    return Err(format!("block {block} is torn"));
                }
                let told = known.get(&block).cloned().unwrap_or_default();
                if found != told.kept && !told.asked.contains(&found) {
                    return Err(format!("block {block} has {found:x}, told was {told:x?}"));
                }
                // What is read once stays.
                known.insert(block, Told { kept: found, asked: Vec::new() });
            }
        }
        Ok(())
    }
}

#[test]
fn every_acknowledged_write_outlives_a_kill() {
    kill_again_and_again(&Volume::new("8MiB"), number("FOGBANK_KILLS").unwrap_or(3));
}

#[test]
fn every_write_acknowledged_by_partitions_outlives_a_kill() {
    kill_again_and_again(&Volume::of("8MiB", &PARTITION), number("FOGBANK_KILLS").unwrap_or(3));
}

#[test]
fn every_write_acknowledged_at_the_end_of_an_epoch_outlives_a_kill() {
    kill_again_and_again(&Volume::of("8MiB", &RING), number("FOGBANK_KILLS").unwrap_or(2));
}

#[test]
fn every_write_acknowledged_in_two_clouds_outlives_a_kill_of_each_process() {
    let each = (number("FOGBANK_KILLS").unwrap_or(0) / 4).max(1);
    kill_again_and_again(&Volume::of("8MiB", &MULTICLOUD), 3 * each);
}

fn kill_again_and_again(volume: &Volume, kills: u64) {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = number("FOGBANK_KILL_SEED").unwrap_or(now);
    println!("FOGBANK_KILL_SEED={seed}");
    let mut random = Randomness::repeatable(seed).stream(Purpose::Workload);
    let ledger = Ledger::default();
    for life in 1..=kills {
        let server = volume.serve();
        let connect = || Client::connect(&volume.socket()).unwrap();
        ledger
            .check(&mut connect())
            .unwrap_or_else(|what| panic!("life {life} of seed {seed}: {what}"));
        let after = Duration::from_millis(random.next_u64() % 1_000);
        let drawn = Randomness::repeatable(random.next_u64());
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (ledger, client) = (&ledger, connect());
                let mut random = drawn.split(writer).stream(Purpose::Workload);
                scope.spawn(move || ledger.write_on(client, writer, life, &mut random));
            }
            std::thread::sleep(after);
            if let (Some(clouds), at @ 0..2) = (&volume.clouds, life as usize % 3) {
                clouds.kill(at);
                let told = *ledger.acknowledged.lock();
                clouds.start(at);
                // More than were under way: some were asked for since.
                let goes_on = || *ledger.acknowledged.lock() > told + 2 * WRITERS * UNDER_WAY;
                wait_for("writes that go on", goes_on);
            }
            server.kill();
        });
    }
    let mut server = volume.serve();
    ledger.check(&mut Client::connect(&volume.socket()).unwrap()).unwrap();
    assert!(server.terminate().success());
    let acknowledged = ledger.acknowledged();
    println!("{kills} kills, {acknowledged} writes acknowledged");
    assert!(acknowledged > 0);
}

/// The canaries: a write that never was is missed, and a block that is half another is seen.
#[test]
fn what_was_never_written_is_missed() {
    let (volume, ledger) = (Volume::new("8MiB"), Ledger::default());
    let _server = volume.serve();
    let mut client = Client::connect(&volume.socket()).unwrap();
    ledger.check(&mut client).unwrap();
    ledger.note(7, 1, |told| told.kept = 0xabc);
    let missed = ledger.check(&mut client).unwrap_err();
    assert!(missed.starts_with("block 7 has 0, told was"), "{missed}");
    ledger.note(7, 1, |told| told.kept = 0);
    let torn =
        [1u64.to_be_bytes().repeat(BLOCK / 16), 2u64.to_be_bytes().repeat(BLOCK / 16)].concat();
    client.write(0, 9, &torn).unwrap();
    client.reply().unwrap();
    assert_eq!(ledger.check(&mut client).unwrap_err(), "block 9 is torn");
}
