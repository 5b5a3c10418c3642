//! Redis as a database: optimistic transactions of its own kind.
//!
//! 1. A transaction has a connection to itself. What it reads for the first time it watches and
//!    reads in one round trip (`WATCH`, `MGET`); a second read is answered from the first.
//! 2. Writes are kept back and sent at the commit, in one round trip (`MULTI`, the writes, `EXEC`).
//!    Redis carries them out only if no record that is watched has been written; otherwise all
//!    begins anew.
//! 3. A transaction that has written nothing and read in one round is serialisable as it is, for
//!    `MGET` shows one moment. One that has read in several rounds commits with an `EXEC` of
//!    nothing, which fails alike.
//! 4. Watches that nobody needs any more are taken back in the first round trip of the next
//!    transaction.
//! 5. A group that is scanned has an index, a sorted set of its members whose scores are all 0. A
//!    scan watches and reads that (`ZRANGE` by order of the bytes), then the records: whatever is
//!    inserted into the group or deleted from it meanwhile makes the scan begin anew.

mod commands;

use std::collections::BTreeMap;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, Pipeline, Value};
use async_trait::async_trait;
use bytes::Bytes;
use fogbank_txn::Key;
use tokio::sync::Mutex;

pub use self::commands::name;

use self::commands::{delete, index, is_scanned, put};
use crate::attempt::{ATTEMPTS_MAX, Attempt, Writes, once};
use crate::database::{Database, Error, Performed, Procedure, Result, Statements};
use crate::pool::Pool;
use crate::workload::Records;

/// Records that one snapshot is of, and that are loaded at a time.
const MANY: usize = 1_000;

/// A Redis that runs somewhere, and connections to it.
pub struct Redis {
    pool: Pool<Link>,
    scanned: Vec<Vec<u8>>,
    snapshot_max: usize,
}

impl Redis {
    /// So many connections to the server at an address; transactions beyond that wait for one.
    /// `scanned` are the groups that have an index.
    ///
    /// # Errors
    /// [`Error::Failed`] if there is no such server.
    pub async fn connect(
        address: impl IntoConnectionInfo,
        connections: usize,
        scanned: &[&[u8]],
    ) -> Result<Self> {
        let client = Client::open(address).map_err(failed)?;
        // The limit that there is otherwise is below what a loaded machine takes for a pipeline.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut links = Vec::with_capacity(connections);
        for _ in 0..connections {
            let connection = client.get_multiplexed_async_connection_with_config(&config).await;
            links.push(Link { connection: connection.map_err(failed)?, watching: false });
        }
        let scanned = scanned.iter().map(|group| group.to_vec()).collect();
        Ok(Self { pool: Pool::of(links), scanned, snapshot_max: MANY })
    }

    /// The same to a server that shows no more records than that at once.
    #[must_use]
    pub fn showing_at_most(self, records: usize) -> Self {
        Self { snapshot_max: records.clamp(1, MANY), ..self }
    }

    /// Puts records into a server that has none.
    ///
    /// # Errors
    /// [`Error::Failed`] if it has some, or cannot take them.
    pub async fn load(&self, mut records: Records<'_>) -> Result<()> {
        let mut link = self.pool.lease().await?;
        let mut size = Pipeline::new();
        size.cmd("DBSIZE");
        if link.send(size).await? != Value::Int(0) {
            return Err(Error::Failed("this Redis is not empty".into()));
        }
        loop {
            let part: Vec<(Key, Bytes)> = records.by_ref().take(MANY).collect();
            if part.is_empty() {
                return Ok(());
            }
            let mut pipe = Pipeline::new();
            put(&mut pipe, part.iter().map(|(key, value)| (key, value)), &self.scanned)?;
            link.send(pipe).await?;
        }
    }
}

#[async_trait]
impl Database for Redis {
    async fn perform(&self, procedure: &dyn Procedure) -> Result<Performed> {
        let mut link = self.pool.lease().await?;
        for attempts in 1..=ATTEMPTS_MAX {
            let open = Open { scanned: &self.scanned, state: Mutex::new(State::on(&mut link)) };
            match once(&open, procedure).await {
                Err(Error::Lost) => (),
                ended => return ended.map(|effect| Performed { effect, attempts }),
            }
        }
        Err(Error::Lost)
    }

    async fn snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let names = keys.iter().map(name).collect::<Result<Vec<_>>>()?;
        let mut pipe = Pipeline::new();
        pipe.cmd("MGET").arg(&names);
        let found = self.pool.lease().await?.send(pipe).await?;
        array(found)?.into_iter().map(record).collect()
    }

    fn snapshot_max(&self) -> usize {
        self.snapshot_max
    }
}

/// A connection.
struct Link {
    connection: MultiplexedConnection,
    /// Whether something may be watched on it.
    watching: bool,
}

impl Link {
    /// Sends commands in one go; what the last one was answered with.
    async fn send(&mut self, pipe: Pipeline) -> Result<Value> {
        let answers = self.connection.send_packed_commands(&pipe, 0, pipe.len()).await;
        let mut last = Value::Nil;
        for answer in answers.map_err(failed)? {
            last = whole(answer)?;
        }
        Ok(last)
    }
}

/// An open transaction.
struct Open<'a> {
    scanned: &'a [Vec<u8>],
    state: Mutex<State<'a>>,
}

struct State<'a> {
    link: &'a mut Link,
    /// Whether a transaction before has left watches behind.
    stale: bool,
    /// Round trips in which something was read.
    rounds: u32,
    seen: BTreeMap<Key, Option<Bytes>>,
    writes: Writes,
}

impl<'a> State<'a> {
    fn on(link: &'a mut Link) -> Self {
        let stale = link.watching;
        Self { link, stale, rounds: 0, seen: BTreeMap::new(), writes: Writes::default() }
    }

    /// The commands of a round trip, which others have to follow.
    fn pipe(&mut self) -> Pipeline {
        let mut pipe = Pipeline::new();
        if std::mem::take(&mut self.stale) {
            pipe.cmd("UNWATCH");
        }
        pipe
    }

    /// Sends commands that read, and watch what they read.
    async fn read(&mut self, pipe: Pipeline) -> Result<Vec<Value>> {
        self.rounds += 1;
        self.link.watching = true;
        array(self.link.send(pipe).await?)
    }

    /// Reads and watches those that were not seen before.
    async fn fetch(&mut self, keys: impl Iterator<Item = &Key>) -> Result<()> {
        let new = |key: &&Key| self.writes.get(key).is_none() && !self.seen.contains_key(key);
        let keys: Vec<&Key> = keys.filter(new).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let names = keys.iter().map(|key| name(key)).collect::<Result<Vec<_>>>()?;
        let mut pipe = self.pipe();
        pipe.cmd("WATCH").arg(&names).cmd("MGET").arg(&names);
        let found = self.read(pipe).await?;
        if found.len() != keys.len() {
            return Err(other_answer());
        }
        for (key, value) in keys.into_iter().zip(found) {
            self.seen.insert(key.clone(), record(value)?);
        }
        Ok(())
    }

    /// The record as this transaction sees it, once it was fetched.
    fn get(&self, key: &Key) -> Option<Bytes> {
        self.writes.get(key).or_else(|| self.seen.get(key)).cloned().flatten()
    }

    /// Members of the group of `from`, from it on, as the index has them.
    async fn members(&mut self, from: &Key, limit: usize) -> Result<Vec<Key>> {
        let group = from.group();
        let index = index(&group);
        let first = [b"[", from.member()].concat();
        let mut pipe = self.pipe();
        pipe.cmd("WATCH").arg(&index);
        pipe.cmd("ZRANGE").arg(&index).arg(first).arg("+").arg("BYLEX");
        pipe.arg("LIMIT").arg(0).arg(limit);
        let found = self.read(pipe).await?;
        let members = found.into_iter().map(|member| match member {
            Value::BulkString(member) => Ok(Key::new(&group, &member)),
            _ => Err(other_answer()),
        });
        members.collect()
    }
}

#[async_trait]
impl Statements for Open<'_> {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let mut state = self.state.lock().await;
        state.fetch(keys.iter()).await?;
        Ok(keys.iter().map(|key| state.get(key)).collect())
    }

    async fn put(&self, key: &Key, value: Bytes) -> Result<()> {
        self.state.lock().await.writes.insert(key, Some(value));
        Ok(())
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.state.lock().await.writes.insert(key, None);
        Ok(())
    }

    async fn scan(&self, from: &Key, limit: usize) -> Result<Vec<(Key, Bytes)>> {
        if !is_scanned(from, self.scanned) {
            return Err(Error::Failed("a group that has no index is scanned".into()));
        }
        let mut state = self.state.lock().await;
        let asked = state.writes.to_ask_for(from, limit);
        let keys = state.members(from, asked).await?;
        state.fetch(keys.iter()).await?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            match (state.get(&key), state.writes.get(&key)) {
                (Some(value), _) => found.push((key, value)),
                (None, Some(_)) => (),
                (None, None) => {
                    return Err(Error::broken("an index names a record that is not there"));
                }
            }
        }
        Ok(state.writes.merged(found, from, limit))
    }

    fn gains_by_reading_ahead(&self) -> bool {
        false
    }
}

#[async_trait]
impl Attempt for Open<'_> {
    async fn commit(&self, with_writes: bool) -> Result<()> {
        let mut state = self.state.lock().await;
        let with_writes = with_writes && !state.writes.is_empty();
        if !with_writes && state.rounds <= 1 {
            return Ok(());
        }
        let mut pipe = state.pipe();
        pipe.cmd("MULTI");
        if with_writes {
            put(&mut pipe, state.writes.puts(), self.scanned)?;
            delete(&mut pipe, state.writes.deletes(), self.scanned)?;
        }
        pipe.cmd("EXEC");
        let answer = state.link.send(pipe).await?;
        // It takes back all watches, whatever it has come to.
        state.link.watching = false;
        match answer {
            Value::Nil => Err(Error::Lost),
            Value::Array(answers) => answers.into_iter().try_for_each(|one| whole(one).map(drop)),
            _ => Err(other_answer()),
        }
    }
}

fn array(answer: Value) -> Result<Vec<Value>> {
    match answer {
        Value::Array(all) => Ok(all),
        _ => Err(other_answer()),
    }
}

fn record(answer: Value) -> Result<Option<Bytes>> {
    match answer {
        Value::Nil => Ok(None),
        Value::BulkString(value) => Ok(Some(value.into())),
        _ => Err(other_answer()),
    }
}

/// An answer that is no error.
fn whole(answer: Value) -> Result<Value> {
    match answer {
        Value::ServerError(error) => Err(Error::Failed(format!("Redis says {error}"))),
        answer => Ok(answer),
    }
}

fn other_answer() -> Error {
    Error::Failed("Redis gives an answer that was not asked for".into())
}

fn failed(error: ::redis::RedisError) -> Error {
    Error::Failed(format!("Redis: {error}"))
}
