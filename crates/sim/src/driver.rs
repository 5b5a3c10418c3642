//! Many clients over one proxy, in virtual time, from one seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fogbank_env::{Clock, Metrics, Randomness};
use fogbank_oram::BatchEngine;
use fogbank_txn::{Closed, Components, Error, Proxy, Settings};
use tokio::task::JoinSet;

use crate::client::{Client, outcome};
use crate::history::{History, Key, Op};
use crate::workload::{Knobs, Planned, Planner, Recorder, Scripted};

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
        clients: None,
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
