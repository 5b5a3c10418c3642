//! Many clients over one proxy, in virtual time, from one seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fogbank_env::{Clock, Metrics, Randomness};
use fogbank_oram::BatchEngine;
use fogbank_txn::{Closed, Components, Error, Proxy, Session, Settings};
use tokio::task::JoinSet;

use crate::history::{History, Key, Op, Outcome};
use crate::workload::{Attempt, Knobs, Planned, Planner, Recorder, Scripted};

/// Keys of one transaction of the reading at the end.
const FINAL_READ_KEYS: usize = 20;

/// A way in which clients cheat, to prove that broken isolation would be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cheat {
    /// None.
    Honest,
    /// Runs every operation as a transaction by itself and claims that they were one.
    Split,
}

/// What a run left behind.
pub struct Run {
    /// What the clients observed.
    pub history: History,
    /// The engine and the sections of the checkpoint.
    pub closed: Closed,
}

/// Runs the clients of `knobs` over `engine` and reads everything at the end.
pub async fn run(
    engine: Box<dyn BatchEngine>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    knobs: Knobs,
    cheat: Cheat,
    seed: u64,
) -> Result<Run, Error> {
    let random = Randomness::repeatable(seed);
    let components = Components {
        clock: clock.clone(),
        random: random.split(u64::MAX >> 1),
        metrics: Metrics::default(),
    };
    let proxy = Proxy::start(settings, engine, components, None).await?;
    let recorder = Recorder::new(clock.clone());
    let begun = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for number in 0..knobs.clients {
        let planner = Planner::new(knobs, &random, number, begun.clone());
        let (proxy, clock, recorder) = (proxy.clone(), clock.clone(), recorder.clone());
        let client = Client { number, proxy, clock, recorder, planner, knobs, cheat };
        clients.spawn(client.run());
    }
    while clients.join_next().await.is_some() {}
    read_everything(&proxy, &recorder).await;
    let closed = proxy.close().await?;
    Ok(Run { history: recorder.history(), closed })
}

/// Reads every key that was ever touched, so that nothing lost goes unnoticed.
async fn read_everything(proxy: &Proxy, recorder: &Recorder) {
    let history = recorder.history();
    let ops = history.transactions.iter().flat_map(|transaction| &transaction.ops);
    let keys = ops.filter_map(|op| match op {
        Op::Append { key, .. } | Op::Delete { key } | Op::Read { key, .. } => Some(*key),
        Op::Scan { .. } => None,
    });
    let keys: Vec<Key> = keys.collect::<BTreeSet<_>>().into_iter().collect();
    let session = proxy.session();
    for keys in keys.chunks(FINAL_READ_KEYS) {
        let attempt = recorder.attempt(u32::MAX);
        let plan = vec![Planned::ReadMany(keys.to_vec())];
        let result = session.submit(Scripted::new(plan, attempt.clone())).await;
        attempt.end(recorder.now(), outcome(&result));
    }
}

/// How a transaction ended, from what its client was told.
fn outcome<T>(result: &Result<T, Error>) -> Outcome {
    match result {
        Ok(_) => Outcome::Committed,
        Err(Error::Stopped(_) | Error::Closed) => Outcome::Unknown,
        Err(_) => Outcome::Aborted,
    }
}

/// One client.
struct Client {
    number: u32,
    proxy: Proxy,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    planner: Planner,
    knobs: Knobs,
    cheat: Cheat,
}

impl Client {
    async fn run(mut self) {
        let mut session = self.proxy.session();
        let mut left = self.knobs.transactions;
        while left > 0 {
            let some = (1 + self.planner.below(self.knobs.pipeline) as u32).min(left);
            left -= some;
            if self.cheat == Cheat::Split {
                self.split(&session).await;
            } else if self.planner.permille(self.knobs.vanish) {
                self.vanish(session, some).await;
                session = self.proxy.session();
            } else {
                self.programs(&session, some).await;
            }
            self.think().await;
        }
    }

    /// Submits some programs at once, then awaits them in order.
    async fn programs(&mut self, session: &Session, some: u32) {
        let mut pending = Vec::new();
        for _ in 0..some {
            let (program, attempt) = self.program();
            pending.push((session.submit(program), attempt));
        }
        for (answer, attempt) in pending {
            let result = answer.await;
            attempt.end(self.recorder.now(), outcome(&result));
        }
    }

    fn program(&mut self) -> (Scripted, Attempt) {
        let attempt = self.recorder.attempt(self.number);
        (Scripted::new(self.planner.transaction(), attempt.clone()), attempt)
    }

    /// Submits some programs and goes away at some point of the epoch; nobody hears the answers.
    async fn vanish(&mut self, session: Session, some: u32) {
        let mut pending = Vec::new();
        for _ in 0..some {
            pending.push(session.submit(self.program().0));
        }
        self.think().await;
        drop(pending);
        drop(session);
    }

    /// The cheat: one record over many transactions.
    async fn split(&mut self, session: &Session) {
        let whole = self.recorder.attempt(self.number);
        for planned in self.planner.transaction() {
            let part = whole.part();
            let result = session.submit(Scripted::new(vec![planned], part.clone())).await;
            if result.is_ok() {
                whole.absorb(&part);
            }
        }
        whole.end(self.recorder.now(), Outcome::Committed);
    }

    /// Waits for nothing, a moment, or long enough to be in another epoch.
    async fn think(&mut self) {
        let most_ns = [0, 200_000, 5_000_000, 40_000_000][self.planner.below(4) as usize];
        let deadline = self.clock.now() + self.planner.below(most_ns);
        self.clock.sleep_until(deadline).await;
    }
}
