//! PostgreSQL as a database: serialisable transactions on one table.
//!
//! 1. A record is a row: group, member and value, found by the first two.
//! 2. A transaction has a connection to itself. It begins in the round trip of its first statement.
//! 3. Records asked for together are one statement, whose parameters are arrays; so are all that
//!    are written, and all that are deleted. All statements are prepared.
//! 4. Writes are kept back and sent at the commit, in one round trip with it. If they fail, what
//!    follows them commits nothing, for PostgreSQL has given the transaction up.
//! 5. One that PostgreSQL has given up because of others is run again. What is left of it is rolled
//!    back in the round trip in which the next begins.
//!
//! Whoever reads a table from end to end has read every row of it, and conflicts with all that
//! write. So plans are made to go by the index, which they would not if the table is small.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_txn::Key;
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use crate::attempt::{ATTEMPTS_MAX, Attempt, Writes, once};
use crate::database::{Database, Error, Performed, Procedure, Result, Statements};
use crate::pool::Pool;
use crate::workload::Records;

/// Records that one snapshot is of, and that are loaded at a time.
const MANY: usize = 1_000;

const OPTIONS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off";
/// Pages have room for new versions of their rows, which then need no new entries in the index.
const CREATE: &str = "CREATE TABLE records (grp bytea, member bytea, value bytea NOT NULL, \
    PRIMARY KEY (grp, member)) WITH (fillfactor = 70)";
const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const BEGIN_ANEW: &str = "ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE";
const READ: &str = "SELECT k.n, r.value \
    FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (grp, member, n) \
    JOIN records r ON r.grp = k.grp AND r.member = k.member";
const SCAN: &str = "SELECT member, value FROM records WHERE grp = $1 AND member >= $2 \
    ORDER BY member LIMIT $3";
const WRITE: &str = "INSERT INTO records \
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) \
    ON CONFLICT (grp, member) DO UPDATE SET value = excluded.value";
const DELETE: &str = "DELETE FROM records r \
    USING unnest($1::bytea[], $2::bytea[]) AS k (grp, member) \
    WHERE r.grp = k.grp AND r.member = k.member";

/// A PostgreSQL that runs somewhere, and connections to it.
pub struct Postgresql {
    pool: Pool<Link>,
}

impl Postgresql {
    /// So many connections, as `config` says (`host=... user=...`); transactions beyond that wait
    /// for one. The table is made, and must not be there.
    ///
    /// # Errors
    /// [`Error::Failed`] if there is no such server, or it has the table.
    pub async fn connect(config: &str, connections: usize) -> Result<Self> {
        let mut config: Config = config.parse().map_err(failed)?;
        config.options(OPTIONS);
        client(&config).await?.batch_execute(CREATE).await.map_err(failed)?;
        let mut links = Vec::with_capacity(connections);
        for _ in 0..connections {
            links.push(Link::to(&config).await?);
        }
        Ok(Self { pool: Pool::of(links) })
    }

    /// Puts records into the table.
    ///
    /// # Errors
    /// [`Error::Failed`] if it cannot take them.
    pub async fn load(&self, mut records: Records<'_>) -> Result<()> {
        let mut link = self.pool.lease().await?;
        link.settle().await?;
        link.open = true;
        link.order(Some("BEGIN")).await?;
        loop {
            let part: Vec<(Key, Bytes)> = records.by_ref().take(MANY).collect();
            if part.is_empty() {
                break;
            }
            link.write(part.iter().map(|(key, value)| (key, value))).await?;
        }
        link.order(Some("COMMIT")).await?;
        link.open = false;
        link.order(Some("VACUUM ANALYZE records")).await
    }
}

#[async_trait]
impl Database for Postgresql {
    async fn perform(&self, procedure: &dyn Procedure) -> Result<Performed> {
        let mut link = self.pool.lease().await?;
        for attempts in 1..=ATTEMPTS_MAX {
            let open = Open(Mutex::new(State::on(&mut link)));
            match once(&open, procedure).await {
                Err(Error::Lost) => (),
                ended => return ended.map(|effect| Performed { effect, attempts }),
            }
        }
        Err(Error::Lost)
    }

    async fn snapshot(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let mut link = self.pool.lease().await?;
        link.settle().await?;
        link.read(None, keys).await
    }

    fn snapshot_max(&self) -> usize {
        MANY
    }
}

async fn client(config: &Config) -> Result<Client> {
    let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
    // It ends with its client, who is told what has happened to it.
    tokio::spawn(connection);
    Ok(client)
}

/// A connection.
struct Link {
    client: Client,
    read: Statement,
    scan: Statement,
    write: Statement,
    delete: Statement,
    /// Whether it may have a transaction that was not ended.
    open: bool,
}

impl Link {
    async fn to(config: &Config) -> Result<Self> {
        let client = client(config).await?;
        let prepare = async |what| client.prepare(what).await.map_err(failed);
        let (read, scan) = (prepare(READ).await?, prepare(SCAN).await?);
        let (write, delete) = (prepare(WRITE).await?, prepare(DELETE).await?);
        Ok(Self { client, read, scan, write, delete, open: false })
    }

    /// Ends a transaction that was not.
    async fn settle(&mut self) -> Result<()> {
        if self.open {
            self.order(Some("ROLLBACK")).await?;
            self.open = false;
        }
        Ok(())
    }

    /// Sends a statement without parameters or results, if there is one.
    async fn order(&self, what: Option<&str>) -> Result<()> {
        let Some(what) = what else { return Ok(()) };
        self.client.batch_execute(what).await.map_err(failed)
    }

    /// The rows of a query, which is sent after `before` without waiting for its answer.
    async fn query(
        &self,
        before: Option<&str>,
        query: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        // Each sends all that it has to say when it is polled for the first time.
        let (begun, rows) =
            tokio::join!(biased; self.order(before), self.client.query(query, parameters));
        begun?;
        rows.map_err(failed)
    }

    /// Records in the order of their keys.
    async fn read(&self, before: Option<&str>, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let (groups, members) = columns(keys.iter());
        let rows = self.query(before, &self.read, &[&groups, &members]).await?;
        let mut records = vec![None; keys.len()];
        for row in rows {
            let number: i64 = row.try_get(0).map_err(failed)?;
            let place = usize::try_from(number - 1).ok().and_then(|at| records.get_mut(at));
            let place = place.ok_or_else(|| Error::Failed("a row has no place".into()))?;
            *place = Some(value(&row, 1)?);
        }
        Ok(records)
    }

    /// Writes records, if there are any.
    async fn write<'a>(&self, records: impl Iterator<Item = (&'a Key, &'a Bytes)>) -> Result<()> {
        let (keys, values): (Vec<&Key>, Vec<&[u8]>) =
            records.map(|(key, value)| (key, &value[..])).unzip();
        if keys.is_empty() {
            return Ok(());
        }
        let (groups, members) = columns(keys.into_iter());
        let all: [&(dyn ToSql + Sync); 3] = [&groups, &members, &values];
        self.client.execute(&self.write, &all).await.map(drop).map_err(failed)
    }

    /// Deletes records, if there are any.
    async fn delete<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Result<()> {
        let (groups, members) = columns(keys);
        if groups.is_empty() {
            return Ok(());
        }
        self.client.execute(&self.delete, &[&groups, &members]).await.map(drop).map_err(failed)
    }
}

/// An open transaction.
struct Open<'a>(Mutex<State<'a>>);

struct State<'a> {
    link: &'a mut Link,
    begun: bool,
    writes: Writes,
}

impl<'a> State<'a> {
    fn on(link: &'a mut Link) -> Self {
        Self { link, begun: false, writes: Writes::default() }
    }

    /// What has to be sent before the next statement, if it is the first.
    fn begin(&mut self) -> Option<&'static str> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        Some(if std::mem::replace(&mut self.link.open, true) { BEGIN_ANEW } else { BEGIN })
    }
}

#[async_trait]
impl Statements for Open<'_> {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        let mut state = self.0.lock().await;
        let unwritten = |key: &&Key| state.writes.get(key).is_none();
        let asked: Vec<Key> = keys.iter().filter(unwritten).cloned().collect();
        let mut found = Vec::new();
        if !asked.is_empty() {
            let begin = state.begin();
            found = state.link.read(begin, &asked).await?;
        }
        let mut found = found.into_iter();
        let record = |key| match state.writes.get(key) {
            Some(written) => written.clone(),
            None => found.next().flatten(),
        };
        Ok(keys.iter().map(record).collect())
    }

    async fn put(&self, key: &Key, value: Bytes) -> Result<()> {
        self.0.lock().await.writes.insert(key, Some(value));
        Ok(())
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.0.lock().await.writes.insert(key, None);
        Ok(())
    }

    async fn scan(&self, from: &Key, limit: usize) -> Result<Vec<(Key, Bytes)>> {
        let mut state = self.0.lock().await;
        let asked = state.writes.to_ask_for(from, limit);
        let asked = i64::try_from(asked).unwrap_or(i64::MAX);
        let (begin, group) = (state.begin(), from.group());
        let parameters: [&(dyn ToSql + Sync); 3] = [&group, &from.member(), &asked];
        let rows = state.link.query(begin, &state.link.scan, &parameters).await?;
        let record =
            |row: &Row| Ok((Key::new(&group, row.try_get(0).map_err(failed)?), value(row, 1)?));
        let found = rows.iter().map(record).collect::<Result<_>>()?;
        Ok(state.writes.merged(found, from, limit))
    }

    fn gains_by_reading_ahead(&self) -> bool {
        false
    }
}

#[async_trait]
impl Attempt for Open<'_> {
    async fn commit(&self, with_writes: bool) -> Result<()> {
        let mut state = self.0.lock().await;
        let none = Writes::default();
        if !state.begun && (!with_writes || state.writes.is_empty()) {
            return Ok(());
        }
        let begin = state.begin();
        let State { link, writes, .. } = &mut *state;
        let writes = if with_writes { &*writes } else { &none };
        let (begun, written, deleted, committed) = tokio::join!(
            biased;
            link.order(begin),
            link.write(writes.puts()),
            link.delete(writes.deletes()),
            link.order(Some("COMMIT")),
        );
        link.open = false;
        begun.and(written).and(deleted).and(committed)
    }
}

/// Groups and members of keys.
fn columns<'a>(keys: impl Iterator<Item = &'a Key>) -> (Vec<Vec<u8>>, Vec<&'a [u8]>) {
    keys.map(|key| (key.group().into_owned(), key.member())).unzip()
}

fn value(row: &Row, at: usize) -> Result<Bytes> {
    let value: &[u8] = row.try_get(at).map_err(failed)?;
    Ok(Bytes::copy_from_slice(value))
}

fn failed(error: tokio_postgres::Error) -> Error {
    let lost = [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED];
    if error.code().is_some_and(|code| lost.contains(&code)) {
        return Error::Lost;
    }
    match error.as_db_error() {
        Some(said) => {
            Error::Failed(format!("PostgreSQL says {}: {}", said.code().code(), said.message()))
        }
        None => Error::Failed(format!("PostgreSQL: {error}")),
    }
}
