//! Clients of a whole proxy.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fogbank_env::{Clock, Nanos, Purpose, Randomness, Stream};
use fogbank_txn::{Error, Key, KeyRange, Proxy, Session, Transaction, View};
use tokio::task::JoinSet;

use super::workload::{Keys, below};
use super::{Intensity, Scene, Workload};

/// Records of the store; less than half its capacity, so that none is ever short of room.
const KEYS: u32 = 96;
/// Records that a storm is about.
const STORM_KEYS: u32 = 8;
/// Records that one scan reads.
const SCAN_KEYS: usize = 4;
/// The value of every record has as many bytes as fit a block.
const VALUE: &[u8] = b"0123456789abcdef";

/// The clients of a scene, running until dropped.
pub(crate) struct Clients(#[allow(dead_code)] JoinSet<()>); // held for its Drop

impl Clients {
    /// Starts them: first one that puts what the others will ask for, then as many as it takes.
    pub fn start(scene: &Scene, proxy: &Proxy, clock: &Arc<dyn Clock>) -> Self {
        let mut running = JoinSet::new();
        if scene.workload != Workload::Idle {
            running.spawn(fill_and_run(scene.clone(), proxy.clone(), clock.clone()));
        }
        Self(running)
    }
}

async fn fill_and_run(scene: Scene, proxy: Proxy, clock: Arc<dyn Clock>) {
    let session = proxy.session();
    let puts: Vec<_> = (0..KEYS).map(|n| session.submit(put(n))).collect();
    for put in puts {
        if put.await.is_err() {
            return;
        }
    }
    let batch = scene.shape.batch.read_batch * scene.shape.read_batches;
    let clients = match scene.intensity {
        Intensity::Light => 1,
        Intensity::Saturated => 3 * batch as u32,
    };
    let mut running = JoinSet::new();
    for number in 0..clients {
        let random = Randomness::repeatable(scene.seed).split(u64::from(number));
        let epoch = scene.shape.interval * (scene.shape.read_batches as u32 + 1);
        let keys = if scene.workload == Workload::AbortStorm { STORM_KEYS } else { KEYS };
        let client = Client {
            session: proxy.session(),
            proxy: proxy.clone(),
            clock: clock.clone(),
            workload: scene.workload,
            keys: Keys::new(scene.workload, keys, number * SCAN_KEYS as u32),
            stream: random.stream(Purpose::Workload),
            epoch,
            pause: if scene.intensity == Intensity::Light { epoch } else { Duration::ZERO },
        };
        running.spawn(client.run());
    }
    while running.join_next().await.is_some() {}
}

struct Client {
    session: Session,
    proxy: Proxy,
    clock: Arc<dyn Clock>,
    workload: Workload,
    keys: Keys,
    stream: Stream,
    epoch: Duration,
    pause: Duration,
}

impl Client {
    async fn run(mut self) {
        loop {
            let outcome = match self.workload {
                Workload::AbortStorm => self.storm().await,
                _ => self.program().await,
            };
            if matches!(outcome, Err(Error::Stopped(_) | Error::Closed)) {
                return;
            }
            self.sleep(self.pause).await;
        }
    }

    async fn program(&mut self) -> Result<(), Error> {
        let first = self.keys.next(&mut self.stream);
        let updates = self.workload.updates() && self.stream_bit();
        match self.workload {
            Workload::LongPrograms => self.session.submit(look_and_put(first)).await,
            Workload::LargePrograms => self.session.submit(turn_over(first)).await,
            Workload::AllWrites => self.session.submit(put(first)).await,
            Workload::Scan => {
                let rest = (1..SCAN_KEYS).map(|_| self.keys.next(&mut self.stream));
                let keys: Vec<Key> = std::iter::once(first).chain(rest).map(key).collect();
                let scan = move |view: &mut View<'_>| view.get_many(&keys).map(drop);
                self.session.submit(scan).await
            }
            _ => {
                let key = key(first);
                let access = move |view: &mut View<'_>| {
                    let found = view.get(&key)?;
                    match found {
                        Some(record) if updates => view.put(&key, record.value, record.attr + 1),
                        _ => Ok(()),
                    }
                };
                self.session.submit(access).await
            }
        }
    }

    /// One interactive transaction that reads and overwrites what others hold, for up to an epoch;
    /// half of them change their mind at the end and take along whoever has read from them.
    async fn storm(&mut self) -> Result<(), Error> {
        let transaction = self.proxy.begin();
        let outcome = self.statements(&transaction).await;
        self.sleep(self.epoch / 4).await;
        if self.stream_bit() {
            transaction.abort();
            return outcome;
        }
        outcome.and(transaction.commit().await)
    }

    async fn statements(&mut self, transaction: &Transaction) -> Result<(), Error> {
        for _ in 0..2 {
            let (read, written) =
                (self.keys.next(&mut self.stream), self.keys.next(&mut self.stream));
            transaction.get(&key(read)).await?;
            let pause = self.epoch * below(&mut self.stream, 16) / 32;
            self.sleep(pause).await;
            transaction.put(&key(written), Bytes::from_static(VALUE), 0).await?;
        }
        Ok(())
    }

    async fn sleep(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time.as_nanos() as Nanos).await;
    }

    fn stream_bit(&mut self) -> bool {
        below(&mut self.stream, 2) == 0
    }
}

/// Goes through all names so often, then puts a record.
const LOOKS: usize = 10;

fn look_and_put(number: u32) -> impl fogbank_txn::Program<Reply = ()> {
    let (key, all) = (key(number), KeyRange::group(b"scene"));
    move |view: &mut View<'_>| {
        for _ in 0..LOOKS {
            view.scan(&all, usize::MAX, false)?;
        }
        view.put(&key, Bytes::from_static(VALUE), 0)
    }
}

/// Deletes half of all records, from one on, or puts them if that one is not there.
fn turn_over(first: u32) -> impl fogbank_txn::Program<Reply = ()> {
    move |view: &mut View<'_>| {
        let is_there = view.stat(&key(first))?.is_some();
        let mut keys = (0..KEYS / 2).map(|n| key((first + n) % KEYS));
        keys.try_for_each(|key| match is_there {
            true => view.delete(&key).map(drop),
            false => view.put(&key, Bytes::from_static(VALUE), 0),
        })
    }
}

fn put(number: u32) -> impl fogbank_txn::Program<Reply = ()> {
    let key = key(number);
    move |view: &mut View<'_>| view.put(&key, Bytes::from_static(VALUE), 0)
}

fn key(number: u32) -> Key {
    Key::new(b"scene", &number.to_be_bytes())
}
