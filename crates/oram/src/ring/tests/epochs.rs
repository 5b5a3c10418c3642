//! Deltas: what a commit returns leads a restored engine to the very state of the one that wrote
//! it, and from there through a crash in the midst of an epoch.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Randomness, Stream};

use super::cloud::{Cloud, Seen};
use super::{Journal, below, keys, saved, settings};
use crate::ring::{RingEngine, RingSettings, delta_lengths, record_bytes};
use crate::{Address, BatchEngine, Error, RecoverableEngine, Section, Sections};

const READ_BATCHES: usize = 3;

fn logged(capacity: u32, bucket: (u16, u16, u16)) -> RingSettings {
    RingSettings {
        keep_superseded: true,
        log_epochs: true,
        read_batches: READ_BATCHES,
        ..settings(capacity, bucket)
    }
}

fn all_settings() -> Vec<RingSettings> {
    let plain = logged(150, (4, 5, 3));
    let cached = RingSettings { cache_bytes: 3 * 4 * 32, ..plain.clone() };
    assert_eq!(cached.geometry().unwrap().cached_levels, 2);
    let all =
        RingSettings { prefetch: true, xor: true, cache_bytes: 500, ..logged(200, (8, 12, 8)) };
    vec![
        RingSettings { xor: true, ..plain.clone() },
        RingSettings { prefetch: true, ..plain.clone() },
        RingSettings { prefetch: true, ..cached.clone() },
        plain,
        cached,
        logged(200, (8, 12, 8)),
        all,
        logged(13, (1, 1, 1)),
        logged(40, (4, 1, 2)),
        logged(90, (4, 12, 10)), // far more than its buckets hold: the stash is never empty
    ]
}

/// One store, what it should hold, and what its proxies keep on the cloud besides.
struct World {
    cloud: Arc<Cloud>,
    settings: RingSettings,
    random: Stream,
    map: BTreeMap<u32, Bytes>,
    written: u32,
    opening: u8,
}

impl World {
    fn new(settings: &RingSettings, seed: u64) -> Self {
        let random = super::workload(seed);
        let (settings, cloud) = (settings.clone(), Arc::new(Cloud::that_xors()));
        Self { cloud, settings, random, map: BTreeMap::new(), written: 0, opening: 1 }
    }

    async fn create(&self) -> RingEngine {
        super::engine(&self.cloud, self.settings.clone(), 3).await
    }

    /// The engine of the next opening: a full checkpoint and the deltas since.
    fn recover(&mut self, full: &[Section], deltas: &[Vec<Section>]) -> RingEngine {
        self.opening += 1;
        let mut engine = self.restore(full).unwrap();
        deltas.iter().for_each(|delta| engine.replay_epoch(delta).unwrap());
        engine
    }

    fn restore(&self, full: &[Section]) -> crate::Result<RingEngine> {
        let randomness = Randomness::repeatable(100 + u64::from(self.opening));
        let (cloud, settings) = (self.cloud.clone(), self.settings.clone());
        RingEngine::restore(cloud, keys(self.opening), settings, &randomness, full)
    }

    /// One epoch of reads, misses, writes and deletes; every value is checked.
    async fn epoch(&mut self, engine: &mut RingEngine) -> Vec<Section> {
        for _ in 0..below(&mut self.random, READ_BATCHES as u32 + 1) {
            self.read(engine).await;
        }
        if below(&mut self.random, 5) > 0 {
            let writes = self.writes();
            engine.write_batch(writes.clone()).await.unwrap();
            self.note(writes);
        }
        let delta = engine.commit().await.unwrap();
        engine.collect().await.unwrap();
        delta
    }

    async fn read(&mut self, engine: &mut RingEngine) {
        let addresses = self.distinct(self.settings.shape.read_batch);
        let expected: Vec<_> = addresses.iter().map(|a| self.map.get(&a.0).cloned()).collect();
        assert_eq!(engine.read_batch(&addresses).await.unwrap(), expected);
    }

    fn writes(&mut self) -> Vec<(Address, Option<Bytes>)> {
        let addresses = self.distinct(self.settings.shape.write_batch);
        let write = |address| {
            self.written += 1;
            let value = Bytes::from(self.written.to_le_bytes().repeat(6));
            (address, (below(&mut self.random, 5) > 0).then_some(value))
        };
        addresses.into_iter().map(write).collect()
    }

    fn note(&mut self, writes: Vec<(Address, Option<Bytes>)>) {
        for (Address(block), value) in writes {
            match value {
                Some(value) => self.map.insert(block, value),
                None => self.map.remove(&block),
            };
        }
    }

    fn distinct(&mut self, most: usize) -> Vec<Address> {
        let mut addresses: Vec<Address> = Vec::new();
        for _ in 0..below(&mut self.random, most as u32 + 1) {
            let address = Address(below(&mut self.random, self.settings.shape.capacity));
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    async fn check_everything(&self, engine: &mut RingEngine) {
        let all: Vec<Address> = (0..self.settings.shape.capacity).map(Address).collect();
        for (batch, addresses) in all.chunks(self.settings.shape.read_batch).enumerate() {
            if batch > 0 && batch.is_multiple_of(READ_BATCHES) {
                engine.commit().await.unwrap();
            }
            let expected: Vec<_> = addresses.iter().map(|a| self.map.get(&a.0).cloned()).collect();
            assert_eq!(engine.read_batch(addresses).await.unwrap(), expected);
        }
        engine.commit().await.unwrap();
        engine.collect().await.unwrap();
    }
}

/// The whole trusted state, but for the number of the opening that saves it.
fn state(engine: &mut RingEngine) -> Vec<Section> {
    let mut sections = saved(engine);
    let at = sections[0].data.len() - 24;
    sections[0].data[at..at + 4].fill(0);
    sections
}

#[tokio::test]
async fn deltas_lead_to_the_state_they_came_from() {
    for (seed, settings) in all_settings().iter().enumerate() {
        let mut world = World::new(settings, seed as u64);
        let mut live = world.create().await;
        for _ in 0..12 {
            world.epoch(&mut live).await;
        }
        let (full, mut deltas) = (saved(&mut live), Vec::new());
        for _ in 0..3 {
            let mut again = world.recover(&full, &deltas);
            for epoch in 0..30 {
                deltas.push(world.epoch(&mut live).await);
                again.replay_epoch(&deltas[deltas.len() - 1]).unwrap();
                assert!(state(&mut again) == state(&mut live), "{settings:?}, epoch {epoch}");
            }
            assert_eq!(again.stats().accesses, 0, "nothing was moved");
            // The next opening goes on where this one stops.
            live = again;
        }
        let mut last = world.recover(&full, &deltas);
        last.sweep().await.unwrap();
        assert!(world.cloud.chunks().len() as u32 <= last.geometry().stored_buckets());
        world.check_everything(&mut last).await;
        world.epoch(&mut last).await;
        world.check_everything(&mut last).await;
    }
}

/// Cells asked for, one list a batch that asked for any.
fn cells_read(cloud: &Cloud) -> Vec<Seen> {
    let mut seen = cloud.take_seen();
    seen.retain(|seen| matches!(seen, Seen::Read(_) | Seen::Xor(..)));
    seen
}

/// What a store holds after some epochs, the last of which its proxy did not survive.
struct Crashed {
    world: World,
    full: Vec<Section>,
    deltas: Vec<Vec<Section>>,
    records: Vec<Vec<u8>>,
    seen: Vec<Vec<Seen>>, // by record
}

impl Crashed {
    async fn new(settings: &RingSettings, seed: u64) -> Self {
        let mut world = World::new(settings, seed);
        let mut engine = world.create().await;
        for _ in 0..25 {
            world.epoch(&mut engine).await;
        }
        let full = saved(&mut engine);
        let mut deltas = Vec::new();
        for _ in 0..5 {
            deltas.push(world.epoch(&mut engine).await);
        }
        let journal = Journal::default();
        engine.set_journal(Box::new(journal.clone()));
        let mut crashed = Self { world, full, deltas, records: Vec::new(), seen: Vec::new() };
        crashed.world.cloud.take_seen();
        for _ in 0..READ_BATCHES {
            crashed.world.read(&mut engine).await;
            crashed.note(&journal);
        }
        let writes = crashed.world.writes();
        engine.write_batch(writes).await.unwrap();
        crashed.note(&journal);
        crashed
    }

    fn note(&mut self, journal: &Journal) {
        self.records.extend(journal.take());
        self.seen.push(cells_read(&self.world.cloud));
        assert_eq!(self.records.len(), self.seen.len());
    }

    /// A proxy that died with the first `records` in the journal.
    fn cut(&mut self, records: usize) {
        self.records.truncate(records);
        self.seen.truncate(records);
    }

    /// A new proxy repeats what was read: the same cells in the same order.
    async fn repeat(&mut self) -> RingEngine {
        let mut engine = self.world.recover(&self.full, &self.deltas);
        self.world.cloud.take_seen();
        for (record, seen) in self.records.iter().zip(&self.seen) {
            engine.replay(record).await.unwrap();
            assert_eq!(&cells_read(&self.world.cloud), seen, "the same cells are read again");
        }
        engine
    }

    /// And fills the epoch up with dummies, at most `batches` of them before it dies.
    async fn fill_up(&mut self, engine: &mut RingEngine, batches: usize) {
        let journal = Journal::default();
        engine.set_journal(Box::new(journal.clone()));
        let last = (self.records.len() + batches).min(READ_BATCHES + 1);
        for batch in self.records.len()..last {
            match batch < READ_BATCHES {
                true => drop(engine.read_batch(&[]).await.unwrap()),
                false => engine.write_batch(Vec::new()).await.unwrap(),
            }
            self.note(&journal);
        }
    }
}

#[tokio::test]
async fn a_crash_in_an_epoch_is_repeated_and_filled_up_however_often() {
    for (seed, settings) in all_settings().iter().enumerate() {
        for lost in 0..=READ_BATCHES + 1 {
            let mut crashed = Crashed::new(settings, seed as u64).await;
            crashed.cut(lost);
            // The recovery dies, and so does the recovery of that.
            for more in [1, 1] {
                let mut dying = crashed.repeat().await;
                crashed.fill_up(&mut dying, more).await;
            }
            let mut engine = crashed.repeat().await;
            crashed.fill_up(&mut engine, usize::MAX / 2).await;
            let delta = engine.commit().await.unwrap();
            engine.collect().await.unwrap();
            // The epoch that was recovered has a delta like any other.
            crashed.deltas.push(delta);
            let mut next = crashed.world.recover(&crashed.full, &crashed.deltas);
            assert!(state(&mut next) == state(&mut engine), "{settings:?}, {lost} records");
            next.sweep().await.unwrap();
            crashed.world.check_everything(&mut next).await;
            crashed.world.epoch(&mut next).await;
            crashed.world.check_everything(&mut next).await;
        }
    }
}

#[tokio::test]
async fn a_delta_has_one_length_whatever_happened() {
    for settings in all_settings() {
        let expected = delta_lengths(&settings).unwrap();
        let mut world = World::new(&settings, 9);
        let mut engine = world.create().await;
        let mut deltas = vec![engine.commit().await.unwrap()];
        for _ in 0..20 {
            deltas.push(world.epoch(&mut engine).await);
        }
        for _ in 0..READ_BATCHES {
            engine.read_batch(&[]).await.unwrap();
        }
        engine.write_batch(Vec::new()).await.unwrap();
        deltas.push(engine.commit().await.unwrap());
        for delta in deltas {
            assert!(delta.iter().all(|section| section.data.len() <= section.padded_len));
            let lengths: Vec<_> = delta.iter().map(|s| (s.tag, s.padded_len)).collect();
            assert_eq!(lengths, [(6, expected[0]), (7, expected[1]), (8, expected[2])]);
        }
    }
}

#[tokio::test]
async fn journal_records_have_one_length() {
    let crashed = Crashed::new(&all_settings()[0], 1).await;
    assert_eq!(crashed.records.len(), READ_BATCHES + 1);
    let bytes = record_bytes(crashed.world.settings.shape.read_batch);
    assert!(crashed.records.iter().all(|record| record.len() == bytes));
}

#[tokio::test]
async fn an_epoch_has_as_many_batches_as_its_log() {
    let settings = &all_settings()[0];
    let refused = RingSettings { epoch_buffer: false, ..settings.clone() };
    let (cloud, randomness) = (Arc::new(Cloud::default()), Randomness::repeatable(1));
    let made = RingEngine::create(cloud, keys(1), refused, &randomness).await;
    assert!(matches!(made, Err(Error::Caller(_))), "there is no log without the buffer");
    let world = World::new(settings, 1);
    let mut engine = world.create().await;
    for _ in 0..2 {
        for _ in 0..READ_BATCHES {
            engine.read_batch(&[]).await.unwrap();
        }
        assert!(matches!(engine.read_batch(&[]).await, Err(Error::Caller(_))));
        engine.write_batch(Vec::new()).await.unwrap();
        assert!(matches!(engine.write_batch(Vec::new()).await, Err(Error::Caller(_))));
        engine.commit().await.unwrap();
    }
    let unlogged = RingSettings { log_epochs: false, ..settings.clone() };
    let mut engine = World::new(&unlogged, 1).create().await;
    engine.read_batch(&[Address(1)]).await.unwrap();
    assert_eq!(engine.commit().await.unwrap(), []);
}

#[tokio::test]
async fn a_delta_is_refused_where_it_does_not_belong() {
    let settings = &all_settings()[3];
    let mut world = World::new(settings, 4);
    let mut live = world.create().await;
    for _ in 0..12 {
        world.epoch(&mut live).await;
    }
    let full = saved(&mut live);
    world.opening = 2;
    let mut again = world.restore(&full).unwrap();
    again.read_batch(&[]).await.unwrap();
    let mut deltas = Vec::new();
    for _ in 0..4 {
        deltas.push(world.epoch(&mut live).await);
    }
    assert!(matches!(live.replay_epoch(&deltas[0]), Err(Error::Caller(_))), "of this opening");
    assert!(matches!(again.replay_epoch(&deltas[0]), Err(Error::Caller(_))), "an epoch is open");
    let mut again = world.restore(&full).unwrap();
    again.replay_epoch(&deltas[0]).unwrap();
    assert!(again.replay_epoch(&deltas[2]).is_err(), "one was skipped");
    assert!(again.save().is_err(), "and the engine has stopped");
    let mut again = world.restore(&full).unwrap();
    again.replay_epoch(&deltas[0]).unwrap();
    assert!(again.replay_epoch(&deltas[0]).is_err(), "one comes twice");
    for section in 0..deltas[0].len() {
        for length in 0..deltas[0][section].data.len() {
            let mut torn = deltas[0].clone();
            torn[section].data.truncate(length);
            assert!(world.restore(&full).unwrap().replay_epoch(&torn).is_err());
        }
    }
}

#[tokio::test]
async fn no_byte_of_a_delta_makes_a_replay_panic() {
    let settings = logged(20, (2, 2, 2));
    let mut world = World::new(&settings, 4);
    let mut live = world.create().await;
    for _ in 0..12 {
        world.epoch(&mut live).await;
    }
    let full = saved(&mut live);
    let delta = world.epoch(&mut live).await;
    world.opening = 2;
    let ids: Vec<u8> = vec![0, 1, 0x7f, 0xff];
    let mut refused = 0;
    for section in 0..delta.len() {
        for byte in 0..delta[section].data.len() {
            for change in &ids {
                let mut torn = delta.clone();
                torn[section].data[byte] ^= change;
                let result = world.restore(&full).unwrap().replay_epoch(&torn);
                assert!(*change != 0 || result.is_ok());
                refused += u32::from(result.is_err());
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Blocks that entered the stash in an epoch in which nobody accessed them, and the most that
/// entered in one.
fn strangers(settings: &RingSettings, all_alike: bool, epochs: u32) -> (usize, usize) {
    let geometry = settings.geometry().unwrap();
    let mut plane = super::figures::Plane::new(settings, geometry, 8);
    plane.planner.all_alike = all_alike;
    plane.load();
    plane.commit();
    let (mut random, mut found, mut most) = (super::workload(2), 0, 0);
    for epoch in 0..epochs {
        let before: std::collections::BTreeSet<u32> =
            plane.planner.stash.iter().map(|held| held.block).collect();
        // Some epochs are idle.
        let busy = epoch % 3 > 0;
        let mut accessed = Vec::new();
        for access in 0..29 {
            let block = if busy { below(&mut random, geometry.capacity) } else { u32::MAX };
            match access < 24 || !busy {
                true => plane.access(block),
                false => plane.put(block),
            }
            accessed.push(block);
        }
        plane.commit();
        let entered = plane.planner.stash.iter().filter(|held| !before.contains(&held.block));
        let entered: Vec<u32> = entered.map(|held| held.block).collect();
        found += entered.iter().filter(|block| !accessed.contains(block)).count();
        most = most.max(entered.len());
    }
    assert_eq!(plane.planner.displaced, 0);
    (found, most)
}

fn stressed() -> Vec<RingSettings> {
    let shapes = [(4, 5, 3), (8, 12, 8), (1, 1, 1), (4, 8, 6), (8, 20, 16), (2, 2, 3)];
    let of = |bucket: (u16, u16, u16)| {
        let plain = logged(300, bucket);
        let cached = RingSettings { cache_bytes: 4 * u64::from(bucket.0) * 32, ..plain.clone() };
        [plain, cached]
    };
    shapes.into_iter().flat_map(of).collect()
}

#[test]
fn only_an_access_brings_a_block_into_the_stash() {
    for settings in stressed() {
        let (found, most) = strangers(&settings, false, 1500);
        assert_eq!(found, 0, "{:?}", settings.bucket);
        assert!(most <= 29);
        println!("{:?}: at most {most} of 29 accesses left a block in the stash", settings.bucket);
    }
}

/// The canary: an eviction that does not prefer what it pulled breaks that.
#[test]
fn an_eviction_that_displaces_is_caught() {
    let found: Vec<usize> =
        stressed().iter().map(|settings| strangers(settings, true, 1500).0).collect();
    println!("displaced: {found:?}");
    assert!(found.iter().filter(|found| **found > 0).count() >= 4, "{found:?}");
}

/// The same canary with payloads: the state that a delta leads to is not the one it came from.
#[tokio::test]
async fn a_delta_that_misses_a_displaced_block_is_caught() {
    let settings = logged(40, (2, 2, 3));
    let caught = async |all_alike: bool| {
        let mut world = World::new(&settings, 3);
        let mut live = world.create().await;
        live.planner.all_alike = all_alike;
        for _ in 0..60 {
            world.epoch(&mut live).await;
        }
        let full = saved(&mut live);
        world.opening = 2;
        let mut again = world.restore(&full).unwrap();
        again.planner.all_alike = all_alike;
        for _ in 0..150 {
            let delta = world.epoch(&mut live).await;
            let whole = |mut sections: Sections<'_>| sections.all(|section| section.is_ok());
            let led = again.replay_epoch(&delta).is_ok() && again.save().is_ok_and(whole);
            if !led || state(&mut again) != state(&mut live) {
                return true;
            }
        }
        false
    };
    assert!(!caught(false).await);
    assert!(caught(true).await);
}
