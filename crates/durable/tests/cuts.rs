//! Checkpoints that are written while the journal goes on, and a proxy that dies at any call.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod world;

use std::sync::Arc;

use fogbank_durable::{Error, Recovered, Result, Section, Sections, Vault, journal_bytes};
use fogbank_store::{Fault, Store};
use world::{SETTINGS, World, kinds};

const FAULTS: [Fault; 4] = [Fault::Before, Fault::After, Fault::Partly(1), Fault::Partly(2)];
const TAKEOVER: u8 = 2;

/// What was journalled so far, in order: the state of this store.
#[derive(Debug, Default, Clone)]
struct Promised {
    numbers: Vec<u8>,
    under_way: Option<u8>,
}

/// A record of one, two or three parts that says a number.
fn record(number: u8) -> Vec<u8> {
    vec![number; 1 + usize::from(number % 3) * SETTINGS.record_bytes]
}

fn full(numbers: &[u8]) -> Sections<'static> {
    Section::each(vec![Section { tag: 2, padded_len: 200, data: numbers.to_vec() }])
}

impl Promised {
    /// Holds what was recovered against what was promised.
    fn check(&mut self, recovered: &Recovered) {
        let full = recovered.full.iter().flat_map(|section| section.data.clone());
        let journal = recovered.journal.iter().map(|record| record[0]);
        let numbers: Vec<u8> = full.chain(journal).collect();
        let mut longer = self.numbers.clone();
        longer.extend(self.under_way);
        assert!(numbers == self.numbers || numbers == longer, "{numbers:?} of {self:?}");
        *self = Self { numbers, under_way: None };
    }

    async fn append(&mut self, vault: &mut Vault) -> Result<()> {
        let number = self.numbers.len() as u8;
        self.under_way = Some(number);
        vault.append(&record(number)).await?;
        self.numbers.extend(self.under_way.take());
        Ok(())
    }

    /// Opens; then three times: records, a cut, `beside` records while its checkpoint is written,
    /// and as many while its commit record is put; closes in the end.
    async fn live(&mut self, world: &World, store: Arc<dyn Store>, beside: usize) -> Result<()> {
        let (mut vault, recovered) = world.open(store).await?;
        self.check(&recovered);
        for _ in 0..3 {
            self.append(&mut vault).await?;
            self.append(&mut vault).await?;
            let (cut, state) = (vault.cut(), self.numbers.clone());
            let writer = vault.checkpoint_writer()?;
            let writing = writer.write(full(&state));
            let appending = async {
                for _ in 0..beside {
                    self.append(&mut vault).await?;
                }
                Ok::<_, Error>(())
            };
            let (written, appended) = tokio::join!(writing, appending);
            appended?;
            let adopting = vault.begin_adoption(cut, written?)?.put();
            let appending = async {
                for _ in 0..beside {
                    self.append(&mut vault).await?;
                }
                Ok::<_, Error>(())
            };
            let (adopted, appended) = tokio::join!(adopting, appending);
            let adopted = adopted?; // where that fails records are refused, too
            appended?;
            vault.end_adoption(adopted).await?;
            let deleting = vault.take_superseded().delete();
            let (deleted, appended) = tokio::join!(deleting, self.append(&mut vault));
            deleted.and(appended)?;
        }
        vault.close(full(&self.numbers)).await
    }
}

async fn after_death(dies: u64, fault: Fault, beside: usize) -> (World, Promised, bool) {
    // An opening keeps the journal, or reads it twice.
    let near = dies.is_multiple_of(2);
    let (world, mut promised) =
        (World { cuts: true, near, ..World::default() }, Promised::default());
    let lived = promised.live(&world, world.dying(dies, fault), beside).await;
    if let Err(error) = &lived {
        assert!(matches!(error, Error::Absent(_)), "{error:?}");
    }
    (world, promised, lived.is_ok())
}

/// Another life: everything journalled is there, and nothing else is left in the end.
async fn goes_on(world: &World, promised: &mut Promised) {
    promised.live(world, world.healthy(), 1).await.unwrap();
    let mut left = Vec::new();
    for name in world.names().await {
        let (data, _) = world.cloud.blob_get(&name).await.unwrap().unwrap();
        if !(name.starts_with("journal/") && data[0] == TAKEOVER) {
            left.push(name);
        }
    }
    assert_eq!(kinds(&left), ["checkpoint", "commit"]);
}

#[tokio::test]
async fn every_death_leaves_everything_that_was_journalled() {
    for beside in [0, 1, 3] {
        for fault in FAULTS {
            for dies in 1.. {
                let (world, mut promised, lived) = after_death(dies, fault, beside).await;
                goes_on(&world, &mut promised).await;
                if lived {
                    assert!(dies > 20, "{dies} calls are no life");
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn deaths_of_the_recovering_proxy_change_nothing() {
    let mut nested = 0;
    for dies in (1..).step_by(3) {
        for again in 1.. {
            let (world, mut promised, lived) = after_death(dies, Fault::After, 2).await;
            let opened = world.open(world.dying(again, Fault::After)).await;
            if let Ok((_, recovered)) = &opened {
                promised.check(recovered);
            }
            goes_on(&world, &mut promised).await;
            nested += 1;
            if lived {
                assert!(nested > 100, "{nested}");
                return;
            }
            if opened.is_ok() {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_records_length_says_how_many_parts_it_has() {
    let (world, _, _) = after_death(u64::MAX, Fault::After, 2).await;
    let lengths = world.lengths.lock()["journal"].clone();
    let parts = |parts| journal_bytes(parts * SETTINGS.record_bytes) as usize;
    assert_eq!(Vec::from_iter(lengths), [1, 2, 3].map(parts));
    let (mut vault, _) = world.open(world.healthy()).await.unwrap();
    let long = vec![0; 3 * SETTINGS.record_bytes + 1];
    assert!(matches!(vault.append(&long).await, Err(Error::Bug(_))));
}

/// The journal that a checkpoint leaves is part of the chain: without its first record nothing is
/// opened, and what stands before it is asked for no more.
#[tokio::test]
async fn a_journal_is_read_from_the_cut_and_not_without_its_first_record() {
    for first in [false, true] {
        let world = World { cuts: true, ..World::default() };
        let (mut vault, _) = world.open(world.healthy()).await.unwrap();
        vault.append(&record(1)).await.unwrap();
        let (cut, writer) = (vault.cut(), vault.checkpoint_writer().unwrap());
        let checkpoint = writer.write(full(&[1])).await.unwrap();
        vault.append(&record(2)).await.unwrap();
        vault.adopt(cut, checkpoint).await.unwrap();
        let mut records = world.names().await;
        records.retain(|name| name.starts_with("journal/"));
        assert_eq!(records.len(), 2, "the first is superseded and not deleted yet");
        world.cloud.blob_delete(&[&records[usize::from(first)]]).await.unwrap();
        match world.open(world.healthy()).await {
            Ok((_, recovered)) => assert!(!first && recovered.journal == [record(2)]),
            Err(error) => assert!(first && matches!(error, Error::CloudLied(_)), "{error}"),
        }
    }
}

#[tokio::test]
async fn no_two_checkpoints_get_one_number() {
    let world = World { cuts: true, ..World::default() };
    let (mut vault, _) = world.open(world.healthy()).await.unwrap();
    let (cut, writer) = (vault.cut(), vault.checkpoint_writer().unwrap());
    assert!(matches!(vault.checkpoint_writer(), Err(Error::Bug(_))));
    let written = writer.write(full(&[])).await.unwrap();
    vault.adopt(cut, written).await.unwrap();
    let (again, writer) = (cut, vault.checkpoint_writer().unwrap());
    let written = writer.write(full(&[])).await.unwrap();
    assert!(matches!(vault.adopt(again, written).await, Err(Error::Bug(_))), "an old cut");
    let (mut vault, _) = world.open(world.healthy()).await.unwrap();
    vault.checkpoint_writer().unwrap();
    assert!(matches!(vault.close(full(&[])).await, Err(Error::Bug(_))));
}
