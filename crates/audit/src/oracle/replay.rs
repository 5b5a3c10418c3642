//! Whole traces through an oracle: read and decoded by one thread, replayed by the caller's.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use fogbank_store::trace::{Event, PublicConfig, TraceError, TraceReader};

use super::{Halt, Oracle, Refused, Summary};
use crate::engine;
use crate::{Observation, Observer};

/// Why a replay came to no end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its head is no public configuration, or not that of the trace before.
    #[error("the head of the trace: {0}")]
    Head(String),
    /// The oracle does not follow its configuration.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It is not what was predicted, or cannot be predicted.
    #[error(transparent)]
    Halt(#[from] Halt),
}

/// Replays the traces of one store, one run after the other, for all `observers`.
///
/// # Errors
/// [`ReplayError`], at the first thing that is wrong.
pub fn replay<P: AsRef<Path>>(
    traces: &[P],
    observers: &mut [&mut dyn Observer],
) -> Result<Summary, ReplayError> {
    let mut all = |observation: &Observation<'_>| {
        observers.iter_mut().for_each(|observer| observer.observe(observation));
    };
    let mut oracle: Option<(PublicConfig, Oracle)> = None;
    for trace in traces {
        let reader = TraceReader::open(trace)?;
        let (config, _) = engine::decode(reader.config()).map_err(ReplayError::Head)?;
        match &mut oracle {
            None => oracle = Some((config.clone(), Oracle::new(&config)?)),
            Some((first, _)) if *first != config => {
                return Err(ReplayError::Head("another configuration than before".into()));
            }
            Some((_, oracle)) => oracle.next_trace(),
        }
        if let Some((_, oracle)) = &mut oracle {
            replay_one(reader, oracle, &mut all)?;
        }
    }
    Ok(oracle.map(|(_, oracle)| oracle.summary()).unwrap_or_default())
}

fn replay_one(
    reader: TraceReader,
    oracle: &mut Oracle,
    out: &mut dyn Observer,
) -> Result<(), ReplayError> {
    std::thread::scope(|scope| {
        let (read, events) = sync_channel(RUNS_AHEAD);
        let (used, back) = sync_channel(RUNS_AHEAD + 2);
        scope.spawn(move || read_ahead(reader, &read, &back));
        for run in events {
            let run = run?;
            run.iter().try_for_each(|event| oracle.event(event, out))?;
            let _ = used.try_send(run); // what cannot go back is freed here
        }
        Ok(oracle.end_trace(out)?)
    })
}

/// Reads runs of events until the end, or until nobody takes them.
fn read_ahead(
    mut reader: TraceReader,
    read: &SyncSender<Result<Vec<Event>, TraceError>>,
    back: &Receiver<Vec<Event>>,
) {
    loop {
        let mut run = back.try_recv().unwrap_or_default();
        run.drain(..).for_each(|event| reader.take_back(event));
        let read_run = reader.by_ref().take(RUN).try_for_each(|event| {
            run.push(event?);
            Ok(())
        });
        let last = run.len() < RUN;
        if !run.is_empty() && read.send(Ok(run)).is_err() {
            return;
        }
        if let Err(error) = read_run {
            let _ = read.send(Err(error)); // nobody is there to be told
            return;
        }
        if last {
            return;
        }
    }
}

/// Events that are handed over at once, and how many such runs may wait.
const RUN: usize = 32;
const RUNS_AHEAD: usize = 4;
