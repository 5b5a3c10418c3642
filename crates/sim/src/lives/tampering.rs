//! A cloud that gives back something else than it was given, and what a proxy makes of it.
//!
//! 1. One object of a [`Volume`] is changed: a bit of it, all of it for what once stood under this
//!    or another name, or it is taken away; or one that was deleted is back.
//! 2. A proxy opens the store, reads every record twice, writes one, and closes it; another opens
//!    it and reads every record again.
//!
//! What has to be true: all answers are right, or there is an error that says that the cloud lied.
//! If the object was given to the proxy there is the error, and after it the proxy sends nothing
//! more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fogbank_durable::Error as VaultError;
use fogbank_store::{Call, ChunkName, MemoryStore, Reply, Result, Store, store_by_calls};
use fogbank_txn::{Key, Proxy};

use super::volume::{Object, Objects, Volume};
use super::world::{Running, World};
use crate::scene::SceneError;

/// What the cloud does to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lie {
    /// Nothing.
    None,
    /// A bit of this byte of it is the other one.
    Flip(Object, usize),
    /// It is not there.
    Missing(Object),
    /// Under its name stands what once stood under the second name, the how-manieth time from 0.
    Other(Object, Object, usize),
    /// It was deleted and is back, as it was the how-manieth time.
    Back(Object, usize),
    /// Everything that was ever deleted is back.
    AllBack,
}

/// What came of a lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The proxy refused to go on, after so many calls since it was given the object.
    Caught(u64),
    /// Nobody asked for the object, and all answers were right.
    Unread,
    /// It was read, is none that counts, and all answers were right.
    Harmless,
}

/// How many lies came to what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The proxy refused to go on.
    pub caught: u64,
    /// Calls between the object and the error at most: those that were under way.
    pub calls_after: u64,
    /// Nobody asked for it.
    pub unread: u64,
    /// It was read and does not count.
    pub harmless: u64,
}

/// What is wrong with the check, for tests that it can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Nothing.
    Nothing,
    /// It expects another value of a record.
    Records,
    /// Somebody makes a call after the error.
    Silence,
}

impl Volume {
    /// One bit of every byte of every object.
    pub fn flips(&self) -> Vec<Lie> {
        let of = |(object, data): (&Object, &Bytes)| {
            let object = object.clone();
            (0..data.len()).map(move |at| Lie::Flip(object.clone(), at)).collect::<Vec<_>>()
        };
        self.objects.iter().flat_map(of).collect()
    }

    /// Every object taken away, replaced by everything else of its kind and length that there ever
    /// was, and every one that was deleted put back.
    pub fn exchanges(&self) -> Vec<Lie> {
        let mut lies = vec![Lie::AllBack];
        for (object, data) in &self.objects {
            lies.push(Lie::Missing(object.clone()));
            for (other, versions) in &self.ever {
                let like = |bytes: &Bytes| bytes.len() == data.len() || other == object;
                let fit = versions.iter().enumerate();
                let fit = fit.filter(|(_, bytes)| like(bytes) && *bytes != data);
                if other.kind() == object.kind() {
                    lies.extend(fit.map(|(n, _)| Lie::Other(object.clone(), other.clone(), n)));
                }
            }
        }
        for (object, versions) in &self.ever {
            if !self.objects.contains_key(object) {
                lies.extend((0..versions.len()).map(|n| Lie::Back(object.clone(), n)));
            }
        }
        lies
    }

    /// Tells the lies to a proxy each.
    ///
    /// # Errors
    /// The first one that does not end as it has to, in words.
    pub fn tell_all<'a>(
        &self,
        lies: impl IntoIterator<Item = &'a Lie>,
    ) -> std::result::Result<Tally, String> {
        let mut tally = Tally::default();
        for lie in lies {
            match self.tell(lie, Broken::Nothing)? {
                Outcome::Unread => tally.unread += 1,
                Outcome::Harmless => tally.harmless += 1,
                Outcome::Caught(after) => {
                    tally.caught += 1;
                    tally.calls_after = tally.calls_after.max(after);
                }
            }
        }
        Ok(tally)
    }

    /// Tells one.
    ///
    /// # Errors
    /// As [`Volume::tell_all`].
    pub fn tell(&self, lie: &Lie, broken: Broken) -> std::result::Result<Outcome, String> {
        let told = super::in_virtual_time(self.play(lie, broken));
        told.map_err(|what| format!("{what} ({lie:?})"))
    }

    async fn play(&self, lie: &Lie, broken: Broken) -> std::result::Result<Outcome, String> {
        let world = self.world(&self.with(lie)).await.map_err(|e| e.to_string())?;
        let cell_bytes = self.array.1.cell_bytes as usize;
        let store = Arc::new(Asked::new(world.cloud.clone(), Forged::of(lie, cell_bytes)));
        let mut records = self.records.clone();
        if broken == Broken::Records {
            records[0].1 = Bytes::from_static(b"another");
        }
        let mut running = None;
        let ended = tokio::select! {
            ended = use_it(&world, &store, records, &mut running) => ended,
            () = world.sleep(PATIENCE) => Err(Trouble::Wrong("it hangs".into())),
        };
        let (calls, given) = (store.calls(), store.given());
        match ended {
            Err(Trouble::Wrong(what)) => Err(what),
            Err(Trouble::Refused) => {
                if broken == Broken::Silence {
                    store.barrier().await.map_err(|e| e.to_string())?;
                }
                world.sleep(3.0).await;
                if store.calls() != calls {
                    return Err(format!("{} calls after the error", store.calls() - calls));
                }
                Ok(Outcome::Caught(given.map_or(0, |given| calls - given)))
            }
            Ok(()) if given.is_none() => Ok(Outcome::Unread),
            Ok(()) if matches!(lie, Lie::Back(..)) => Ok(Outcome::Harmless),
            Ok(()) => Err("it was read and not noticed".into()),
        }
    }

    fn with(&self, lie: &Lie) -> Objects {
        let mut objects = self.objects.clone();
        match lie {
            Lie::None => {}
            Lie::Flip(object, at) => {
                let mut forged = objects.get(object).map(|data| data.to_vec()).unwrap_or_default();
                forged[*at] ^= 1 << (at % 8);
                objects.insert(object.clone(), forged.into());
            }
            Lie::Missing(object) => drop(objects.remove(object)),
            Lie::Other(object, from, nth) => {
                objects.insert(object.clone(), self.ever[from][*nth].clone());
            }
            Lie::Back(object, nth) => {
                objects.insert(object.clone(), self.ever[object][*nth].clone());
            }
            Lie::AllBack => {
                for (object, versions) in &self.ever {
                    let last = &versions[versions.len() - 1];
                    objects.entry(object.clone()).or_insert_with(|| last.clone());
                }
            }
        }
        objects
    }
}

/// Epochs after which a proxy that says nothing hangs.
const PATIENCE: f64 = 300.0;

/// Why the records could not be used to the end.
enum Trouble {
    /// The proxy says that the cloud lied.
    Refused,
    /// It must not be.
    Wrong(String),
}

impl From<SceneError> for Trouble {
    fn from(error: SceneError) -> Self {
        match &error {
            SceneError::Engine(fogbank_oram::Error::CloudLied(_))
            | SceneError::Proxy(fogbank_txn::Error::Stopped(fogbank_oram::Error::CloudLied(_)))
            | SceneError::Vault(VaultError::CloudLied(_) | VaultError::CloudEmpty) => Self::Refused,
            _ => Self::Wrong(format!("it ends with: {error}")),
        }
    }
}

impl From<fogbank_txn::Error> for Trouble {
    fn from(error: fogbank_txn::Error) -> Self {
        SceneError::from(error).into()
    }
}

/// Two proxies one after the other. `running` is the one that an error came from: it goes on as far
/// as it would.
async fn use_it(
    world: &World,
    store: &Arc<Asked<Arc<MemoryStore>>>,
    mut records: Vec<(Key, Bytes)>,
    running: &mut Option<Running>,
) -> std::result::Result<(), Trouble> {
    let proxy = &running.insert(world.open(store.clone(), 100).await?).proxy;
    check(proxy, &records).await?;
    check(proxy, &records).await?;
    let (key, value) = (records[1].0.clone(), Bytes::from_static(b"written since"));
    let put = proxy.transact(|txn| {
        let (key, value) = (&key, value.clone());
        async move { txn.put(key, value, 0).await }
    });
    put.await?;
    records[1].1 = value;
    close(running).await?;
    let proxy = &running.insert(world.open(store.clone(), 101).await?).proxy;
    check(proxy, &records).await?;
    close(running).await
}

async fn close(running: &mut Option<Running>) -> std::result::Result<(), Trouble> {
    match running.take() {
        Some(running) => Ok(running.close().await?),
        None => Ok(()),
    }
}

async fn check(proxy: &Proxy, records: &[(Key, Bytes)]) -> std::result::Result<(), Trouble> {
    for some in records.chunks(proxy.limits().records_read_max) {
        let keys: Vec<Key> = some.iter().map(|(key, _)| key.clone()).collect();
        let keys = &keys[..];
        let found = proxy.transact(|txn| async move { txn.get_many(keys).await }).await?;
        for ((key, expected), found) in some.iter().zip(found) {
            let found = found.map(|record| record.value);
            if found.as_ref() != Some(expected) {
                let what = format!("WRONG ANSWER: {key:?} is {found:?} and not {expected:?}");
                return Err(Trouble::Wrong(what));
            }
        }
    }
    Ok(())
}

/// What is forged: an object, or one cell of it.
enum Forged {
    Nothing,
    Blob(String),
    Chunk(ChunkName, Option<u16>),
}

impl Forged {
    fn of(lie: &Lie, cell_bytes: usize) -> Self {
        let (object, at) = match lie {
            Lie::None | Lie::AllBack => return Self::Nothing,
            Lie::Flip(object, at) => (object, Some(at / cell_bytes)),
            Lie::Missing(object) | Lie::Other(object, ..) | Lie::Back(object, _) => (object, None),
        };
        match object {
            Object::Blob(name) => Self::Blob(name.clone()),
            Object::Chunk(chunk) => Self::Chunk(*chunk, at.map(|cell| cell as u16)),
        }
    }

    fn is_asked_for(&self, call: &Call<'_>) -> bool {
        match (self, call) {
            (Self::Blob(forged), Call::BlobGet(name)) => forged == name,
            (Self::Chunk(forged, cell), Call::ReadCells(reads) | Call::ReadXor(reads, _)) => {
                let is_asked = |cells: &[u16]| cell.is_none_or(|cell| cells.contains(&cell));
                reads.iter().any(|read| read.chunk == *forged && is_asked(read.cells))
            }
            (Self::Chunk(forged, _), Call::ReadChunks(chunks)) => chunks.contains(forged),
            _ => false,
        }
    }
}

/// Counts calls, and notes when the forged object was given.
struct Asked<S> {
    inner: S,
    forged: Forged,
    calls: AtomicU64,
    given: AtomicU64,
}

impl<S: Store> Asked<S> {
    fn new(inner: S, forged: Forged) -> Self {
        Self { inner, forged, calls: AtomicU64::new(0), given: AtomicU64::new(u64::MAX) }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The number of the call that was first given the forged object.
    fn given(&self) -> Option<u64> {
        Some(self.given.load(Ordering::Relaxed)).filter(|given| *given != u64::MAX)
    }

    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.forged.is_asked_for(&call) {
            self.given.fetch_min(number, Ordering::Relaxed);
        }
        call.perform(&self.inner).await
    }
}

store_by_calls!(Asked);
