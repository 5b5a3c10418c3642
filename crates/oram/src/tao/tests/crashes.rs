//! An engine whose process dies before or after any of its calls, and again while it recovers.

use fogbank_store::Fault;

use tokio::sync::mpsc;

use super::*;
use crate::Error;
use crate::immediate::engine::{Shared, guarded_over};
use crate::tao::Processor;

/// The model after each prefix of the accesses submitted, and how many of them were answered.
struct History {
    models: Vec<Model>,
    answered: usize,
}

impl History {
    /// Runs accesses until the engine dies.
    async fn run(&mut self, engine: &TaoEngine, work: &mut Workload, count: usize) -> Result<()> {
        let mut tickets = Vec::new();
        for round in 0..count {
            let (address, access) = work.next();
            let mut model = self.models.last().unwrap().clone();
            model.apply(address, &access);
            self.models.push(model);
            tickets.push(engine.submit(address, access));
            if round % 4 == 3 || round + 1 == count {
                for ticket in tickets.drain(..) {
                    ticket.await?;
                    self.answered += 1;
                }
            }
        }
        Ok(())
    }

    /// What is there has to be what some prefix led to that holds all that was answered.
    fn check(&mut self, found: Model) {
        let prefix = self.models.iter().skip(self.answered).position(|model| *model == found);
        assert!(prefix.is_some(), "{} answered of {}", self.answered, self.models.len() - 1);
        *self = Self { models: vec![found], answered: 0 };
    }
}

/// A life that ends at its call number `dies`; whether it ended by itself.
async fn life(world: &World, history: &mut History, seed: u64, dies: u64, fault: Fault) -> bool {
    let mut work = Workload::new(seed, 20);
    let lived = async {
        let engine = world.open(world.dying(dies, fault), settings(20)).await?;
        history.check(read_all(&engine).await?);
        history.run(&engine, &mut work, 60).await?;
        engine.close().await
    };
    let lived = lived.await;
    assert!(matches!(lived, Ok(()) | Err(Error::Absent(_))), "{lived:?}");
    lived.is_ok()
}

async fn found(world: &World) -> Model {
    let engine = world.open(world.cloud.clone(), settings(20)).await.unwrap();
    let found = read_all(&engine).await.unwrap();
    engine.close().await.unwrap();
    let chunks = world.cloud.list_chunks(fogbank_store::ArrayId(1)).await.unwrap();
    let buckets: std::collections::BTreeSet<u32> = chunks.iter().map(|name| name.chunk).collect();
    assert_eq!(buckets.len(), chunks.len(), "something is left over");
    found
}

fn history() -> History {
    History { models: vec![Model::new(20)], answered: 0 }
}

#[tokio::test(start_paused = true)]
async fn every_death_keeps_what_was_answered() {
    for fault in [Fault::Before, Fault::After, Fault::Partly(2)] {
        for dies in 1.. {
            let (world, mut history) = (World::default(), history());
            let lived = life(&world, &mut history, dies, dies, fault).await;
            history.check(found(&world).await);
            if lived {
                assert!(dies > 100, "{dies} calls are no life");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deaths_within_a_recovery_keep_it_too() {
    let mut nested = 0;
    for dies in (20..).step_by(17) {
        for again in (1..).step_by(2) {
            let (world, mut history) = (World::default(), history());
            if life(&world, &mut history, dies, dies, Fault::After).await {
                assert!(nested > 100, "{nested}");
                return;
            }
            // Three times: what the first recovery did is itself recovered.
            let mut recovered = false;
            for _ in 0..2 {
                let store = world.dying(again, Fault::After);
                recovered |= world.open(store, settings(20)).await.is_ok();
            }
            history.check(found(&world).await);
            nested += 1;
            if recovered {
                break;
            }
        }
    }
}

/// Lives one after the other, each cut somewhere: blocks read in several of them, so that what a
/// recovery makes of the journal is journalled on.
#[tokio::test(start_paused = true)]
async fn many_lives_in_a_row() {
    for seed in 0..40 {
        let (world, mut history) = (World::default(), history());
        let mut random = Workload::new(1000 + seed, 20);
        for life_number in 0..8 {
            let dies = 10 + u64::from(random.below(150));
            let fault = [Fault::Before, Fault::After, Fault::Partly(1)][random.below(3) as usize];
            life(&world, &mut history, 100 * seed + life_number, dies, fault).await;
            // Nobody looks in between: the next life begins with what this one left.
        }
        history.check(found(&world).await);
    }
}

/// What a task had still to do when it failed: gone when it listens no more.
struct Undone(Arc<Shared<Processor>>);

impl Drop for Undone {
    fn drop(&mut self) {
        assert!(matches!(self.0.fault.reason(), Error::CloudLied(_)), "{}", self.0.fault.reason());
    }
}

/// Whoever found it closed first said that the engine is, and that was taken for the reason.
#[tokio::test(start_paused = true)]
async fn a_task_that_fails_says_why_before_it_listens_no_more() {
    let world = World::default();
    let engine = world.open(world.cloud.clone(), settings(20)).await.unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    tell.send(Undone(engine.shared.clone())).unwrap();
    let fails = async |_, _: &mut _| Err(crate::lied("a lie"));
    let failed = guarded_over(engine.shared.clone(), told, fails).await;
    assert!(matches!(failed, Err(Error::CloudLied(_))));
    assert!(tell.is_closed());
    assert!(matches!(engine.submit(Address(0), Access::Read).await, Err(Error::CloudLied(_))));
}
