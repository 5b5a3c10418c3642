//! A stand-in with the agreed face: one lock, values in memory, answers at the end of an epoch.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::Nanos;
use fogbank_oram::{BatchEngine, Section};
use tokio::sync::{oneshot, watch};

use crate::{Components, Error, Key, KeyRange, Limits, Pause, Record, Result, Settings, Stat};

#[derive(Default)]
struct State {
    records: BTreeMap<Key, Record>,
    modified: BTreeMap<Key, u64>,
    ts: u64,
    now_ms: u64,
    answers: VecDeque<Box<dyn FnOnce(Option<Error>) + Send>>,
    stopped: Option<Error>,
}

struct Shared {
    state: Mutex<State>,
    clock: Arc<dyn fogbank_env::Clock>,
    epochs: watch::Sender<u64>,
    limits: Limits,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle to the running epochs.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
    task: Arc<Mutex<Option<tokio::task::JoinHandle<Box<dyn BatchEngine>>>>>,
}

/// What an orderly close hands back.
pub struct Closed {
    /// The engine, between epochs.
    pub engine: Box<dyn BatchEngine>,
    /// The trusted state of the transaction layer, for the checkpoint.
    pub sections: Vec<Section>,
}

impl Proxy {
    /// Starts the epochs.
    pub async fn start(
        settings: Settings,
        mut engine: Box<dyn BatchEngine>,
        components: Components,
        _restored: Option<&[Section]>,
    ) -> Result<Proxy> {
        let shape = engine.shape();
        let limits = Limits {
            blocks_read_max: settings.read_batches * shape.read_batch,
            records_read_max: settings.read_batches * shape.read_batch,
            records_written_max: shape.write_batch,
            rounds_max: settings.read_batches,
            block_bytes: shape.value_bytes,
            value_bytes_max: shape.value_bytes * shape.read_batch.min(shape.write_batch),
            key_bytes_max: settings.key_bytes_max,
        };
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            clock: components.clock.clone(),
            epochs: watch::Sender::new(0),
            limits,
        });
        let beat = shared.clone();
        let task = tokio::spawn(async move {
            let clock = components.clock;
            let interval = settings.interval.max(Duration::from_micros(200)).as_nanos() as Nanos;
            loop {
                for _ in 0..settings.read_batches {
                    clock.sleep_until((clock.now() / interval + 1) * interval).await;
                    let _ = engine.read_batch(&[]).await;
                }
                clock.sleep_until((clock.now() / interval + 1) * interval).await;
                let answers = std::mem::take(&mut beat.lock().answers);
                let _ = engine.write_batch(Vec::new()).await;
                let _ = engine.commit().await;
                answers.into_iter().for_each(|answer| answer(None));
                beat.epochs.send_modify(|e| *e += 1);
                if beat.lock().stopped.is_some() {
                    return engine;
                }
            }
        });
        Ok(Proxy { shared, task: Arc::new(Mutex::new(Some(task))) })
    }

    /// An ordered stream of programs: one connection.
    pub fn session(&self) -> Session {
        Session { shared: self.shared.clone() }
    }

    /// What one program may ask for.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Stops admitting, finishes the epoch, runs an all-dummy one, and hands everything back.
    pub async fn close(self) -> Result<Closed> {
        self.shared.lock().stopped = Some(Error::Closed);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let engine = task.ok_or(Error::Closed)?.await.map_err(|_| Error::Closed)?;
        Ok(Closed { engine, sections: Vec::new() })
    }
}

/// A transaction whose body is known beforehand. `run` may be called several times, must depend on
/// the view alone, and must be cheap.
pub trait Program: Send + 'static {
    /// What the client is answered.
    type Reply: Send + 'static;
    /// Runs on the newest state.
    fn run(&mut self, view: &mut View<'_>) -> std::result::Result<Self::Reply, Pause>;
}

impl<R, F> Program for F
where
    R: Send + 'static,
    F: FnMut(&mut View<'_>) -> std::result::Result<R, Pause> + Send + 'static,
{
    type Reply = R;
    fn run(&mut self, view: &mut View<'_>) -> std::result::Result<R, Pause> {
        self(view)
    }
}

/// An ordered stream of programs.
pub struct Session {
    shared: Arc<Shared>,
}

impl Session {
    /// Queues a program behind those submitted before; resolves when its epoch has committed.
    pub fn submit<P: Program>(
        &self,
        mut program: P,
    ) -> impl Future<Output = Result<P::Reply>> + Send + 'static {
        let (tx, rx) = oneshot::channel();
        let wall = self.shared.clock.wall_ms();
        let mut state = self.shared.lock();
        if let Some(error) = state.stopped.clone() {
            let _ = tx.send(Err(error));
        } else {
            state.now_ms = wall;
            state.ts += 1;
            let before = state.records.clone();
            let limits = self.shared.limits;
            match program.run(&mut View { state: &mut state, limits }) {
                Ok(reply) => state.answers.push_back(Box::new(move |error| {
                    let _ = tx.send(error.map_or(Ok(reply), Err));
                })),
                Err(pause) => {
                    state.records = before;
                    let error = match pause {
                        Pause::Refused(error) => error,
                        Pause::Missing => Error::Conflict,
                    };
                    let _ = tx.send(Err(error));
                }
            }
        }
        async move { rx.await.unwrap_or(Err(Error::Closed)) }
    }
}

/// Watched keys and ranges.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<Vec<(u64, KeyRange)>>>);

/// The newest state, and the program's own writes.
pub struct View<'a> {
    state: &'a mut State,
    limits: Limits,
}

type Step<T> = std::result::Result<T, Pause>;

impl View<'_> {
    /// Wall clock, fixed for one run.
    pub fn now_ms(&self) -> u64 {
        self.state.now_ms
    }
    /// Hint: these records will be needed; lets all misses join one batch.
    pub fn want(&mut self, _keys: &[Key]) {}
    /// The record.
    pub fn get(&mut self, key: &Key) -> Step<Option<Record>> {
        Ok(self.state.records.get(key).cloned())
    }
    /// The records, in one round.
    pub fn get_many(&mut self, keys: &[Key]) -> Step<Vec<Option<Record>>> {
        keys.iter().map(|k| self.get(k)).collect()
    }
    /// Length and attribute: no round.
    pub fn stat(&mut self, key: &Key) -> Step<Option<Stat>> {
        Ok(self.state.records.get(key).map(stat))
    }
    /// The keys of a range, in order: no round.
    pub fn scan(
        &mut self,
        range: &KeyRange,
        limit: usize,
        reverse: bool,
    ) -> Step<Vec<(Key, Stat)>> {
        let found = self.state.records.range::<Key, _>(range.bounds());
        let item = |(k, r): (&Key, &Record)| (k.clone(), stat(r));
        Ok(if reverse {
            found.rev().take(limit).map(item).collect()
        } else {
            found.take(limit).map(item).collect()
        })
    }
    /// How many members a group has.
    pub fn count(&mut self, group: &[u8]) -> Step<u64> {
        let range = KeyRange::group(group);
        Ok(self.state.records.range::<Key, _>(range.bounds()).count() as u64)
    }
    /// Writes a record.
    pub fn put(&mut self, key: &Key, value: Bytes, attr: u64) -> Step<()> {
        if value.len() > self.limits.value_bytes_max {
            return Err(Pause::Refused(Error::ValueTooLong));
        }
        self.state.records.insert(key.clone(), Record { value, attr });
        self.touch(key);
        Ok(())
    }
    /// Changes the attribute; false if the key is absent.
    pub fn set_attr(&mut self, key: &Key, attr: u64) -> Step<bool> {
        self.touch(key);
        Ok(self.state.records.get_mut(key).map(|r| r.attr = attr).is_some())
    }
    /// Deletes; whether it was there.
    pub fn delete(&mut self, key: &Key) -> Step<bool> {
        self.touch(key);
        Ok(self.state.records.remove(key).is_some())
    }
    /// An empty watch set.
    pub fn watch(&mut self) -> Watch {
        Watch::default()
    }
    /// Watches a key from now on.
    pub fn watch_key(&mut self, watch: &Watch, key: &Key) {
        self.watch_range(watch, &KeyRange::key(key));
    }
    /// Watches a range from now on.
    pub fn watch_range(&mut self, watch: &Watch, range: &KeyRange) {
        let mut watched = watch.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push((self.state.ts, range.clone()));
    }
    /// Whether anything watched was written since it was watched.
    pub fn changed(&mut self, watch: &Watch) -> bool {
        let watched = watch.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.iter().any(|(since, range)| {
            self.state.modified.range::<Key, _>(range.bounds()).any(|(_, at)| at > since)
        })
    }
    fn touch(&mut self, key: &Key) {
        self.state.modified.insert(key.clone(), self.state.ts);
    }
}

fn stat(record: &Record) -> Stat {
    Stat { len: record.value.len() as u32, attr: record.attr }
}
