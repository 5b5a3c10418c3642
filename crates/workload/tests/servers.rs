//! Workloads on a real Redis and a real PostgreSQL. Each runs where its programs are installed;
//! says so and passes where they are not.

#![allow(clippy::unwrap_used)] // helpers of tests, too

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Randomness, SystemClock};
use fogbank_txn::Key;
use fogbank_workload::drive::{self, Load, Measured, Span};
use fogbank_workload::freehealth::FreeHealth;
use fogbank_workload::servers::{Keeps, PostgresServer, RedisServer};
use fogbank_workload::smallbank::SmallBank;
use fogbank_workload::tpcc::{Scale, Tpcc};
use fogbank_workload::ycsb::Ycsb;
use fogbank_workload::{
    Database, Effect, Error, Postgresql, Procedure, Redis, Result, Statements, Workload,
};
use tempfile::TempDir;

/// Connections of each database; tests have more clients than that, too.
const CONNECTIONS: usize = 12;

/// A server with the records of a workload.
struct Served<S, D> {
    server: S,
    database: Arc<D>,
    _folder: TempDir,
}

async fn redis(workload: &dyn Workload, keeps: Keeps) -> Option<Served<RedisServer, Redis>> {
    if !RedisServer::installed() {
        eprintln!("skipped: redis-server is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), keeps).unwrap();
    let scanned = workload.scanned_groups();
    let database = Redis::connect(server.address(), CONNECTIONS, &scanned).await.unwrap();
    database.load(workload.records()).await.unwrap();
    assert!(matches!(database.load(workload.records()).await, Err(Error::Failed(_))));
    Some(Served { server, database: Arc::new(database), _folder: folder })
}

async fn postgresql(workload: &dyn Workload) -> Option<Served<PostgresServer, Postgresql>> {
    if !PostgresServer::installed() {
        eprintln!("skipped: PostgreSQL is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = PostgresServer::start(folder.path(), CONNECTIONS).unwrap();
    let database = Postgresql::connect(&server.config(), CONNECTIONS).await.unwrap();
    database.load(workload.records()).await.unwrap();
    assert!(Postgresql::connect(&server.config(), 1).await.is_err(), "the table is there");
    Some(Served { server, database: Arc::new(database), _folder: folder })
}

/// Runs a workload and holds the database against its rules.
async fn driven(
    database: Arc<dyn Database>,
    workload: Arc<dyn Workload>,
    clients: usize,
) -> Measured {
    let ramp = Duration::from_millis(100);
    let (load, span) = (Load::Closed { clients }, Span { ramp, measured: Duration::from_secs(1) });
    let (clock, random) = (Arc::new(SystemClock::new()), Randomness::repeatable(1));
    let run = drive::run(database.clone(), workload.clone(), (load, span), clock, &random);
    let measured = run.await.unwrap();
    workload.check(&*database, &measured.ledger).await.unwrap();
    assert!(measured.ledger.done.iter().sum::<u64>() > 0);
    eprintln!(
        "{}: {:.0} a second with {clients} clients, {:.2} attempts each, {} given up",
        workload.name(),
        measured.per_s(),
        measured.all().attempts as f64 / measured.all().latency_us.len().max(1) as f64,
        measured.given_up,
    );
    measured
}

/// A bank in which clients meet often.
fn bank() -> Arc<SmallBank> {
    Arc::new(SmallBank::hot(150))
}

#[tokio::test(flavor = "multi_thread")]
async fn smallbank_on_redis() {
    let bank = bank();
    for keeps in [Keeps::Nothing, Keeps::EveryWrite] {
        let Some(served) = redis(&*bank, keeps).await else { return };
        let measured = driven(served.database.clone(), bank.clone(), 16).await;
        // The canary: a cent that somebody else has written is seen.
        let client = ::redis::Client::open(served.server.address()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let account = b"\x01c\x00\x00\x00\x07";
        let cents: Vec<u8> =
            ::redis::cmd("GET").arg(account).query_async(&mut connection).await.unwrap();
        let cents = i64::from_le_bytes(cents.try_into().unwrap()) + 1;
        let mut set = ::redis::cmd("SET");
        set.arg(account).arg(&cents.to_le_bytes());
        set.exec_async(&mut connection).await.unwrap();
        let checked = bank.check(&*served.database, &measured.ledger).await;
        assert!(matches!(checked, Err(Error::Broken(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn smallbank_on_postgresql() {
    let bank = bank();
    let Some(served) = postgresql(&*bank).await else { return };
    let measured = driven(served.database.clone(), bank.clone(), 16).await;
    let (client, connection) =
        tokio_postgres::connect(&served.server.config(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // The canary: the amount is little-endian.
    let one_more = "UPDATE records SET value = set_byte(value, 0, (get_byte(value, 0) + 1) % 256) \
        WHERE grp = 'c' AND member = '\\x00000007'";
    assert_eq!(client.execute(one_more, &[]).await.unwrap(), 1);
    let checked = bank.check(&*served.database, &measured.ledger).await;
    assert!(matches!(checked, Err(Error::Broken(_))));
}

/// Runs a workload on both servers, each on one of its own.
async fn on_both<W: Workload + 'static>(workload: impl Fn() -> W) {
    let fresh = Arc::new(workload());
    if let Some(served) = redis(&*fresh, Keeps::Nothing).await {
        driven(served.database, fresh, 8).await;
    }
    let fresh = Arc::new(workload());
    if let Some(served) = postgresql(&*fresh).await {
        driven(served.database, fresh, 8).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tpcc_on_both() {
    on_both(|| Tpcc::new(2, Scale::small())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn freehealth_on_both() {
    on_both(|| FreeHealth { patients: 100, ..FreeHealth::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ycsb_with_scans_on_both() {
    on_both(|| Ycsb::new('E', 1_500).unwrap()).await;
}

/// Records 0 to 9, each of which holds its own number; the group is scanned.
struct Ten;

#[async_trait]
impl Workload for Ten {
    fn name(&self) -> &'static str {
        "ten"
    }

    fn kinds(&self) -> Vec<(&str, u32)> {
        vec![("probe", 100)]
    }

    fn scanned_groups(&self) -> Vec<&[u8]> {
        vec![b"ten"]
    }

    fn records(&self) -> fogbank_workload::Records<'_> {
        Box::new((0..10).map(|number| (ten(number), of(number))))
    }

    fn draw(&self, _: &mut fogbank_env::Stream) -> Box<dyn Procedure> {
        Box::new(Probe::Put(0, 0))
    }

    fn fresh(&self) -> Arc<dyn Workload> {
        Arc::new(Ten)
    }

    async fn check(&self, _: &dyn Database, _: &fogbank_workload::Ledger) -> Result<()> {
        Ok(())
    }
}

fn ten(number: u8) -> Key {
    Key::new(b"ten", &[number])
}

fn of(number: u8) -> Bytes {
    Bytes::copy_from_slice(&[number])
}

/// Transactions that others come between.
enum Probe {
    /// Reads 1, then 2, between which somebody moves one from 2 to 1, the first time; both make
    /// three.
    ReadTwice(Arc<dyn Database>, AtomicBool),
    /// The same, and calls what it sees broken if the sum is another.
    Complain(Arc<dyn Database>, AtomicBool),
    /// Adds one to 5, while somebody else does so, the first time.
    Add(Arc<dyn Database>, AtomicBool),
    /// Adds one to 5.
    AddAlone,
    /// Scans from 4, while somebody puts another record into the group, the first time; writes how
    /// many.
    Count(Arc<dyn Database>, AtomicBool),
    Move,
    Put(u8, u8),
    /// Reads, scans, writes and deletes, and sees all of it.
    Own,
}

impl Probe {
    /// Performs another in the midst of this one, but only once.
    async fn once(on: &Arc<dyn Database>, done: &AtomicBool, other: Probe) {
        if !done.swap(true, Ordering::Relaxed) {
            on.perform(&other).await.unwrap();
        }
    }

    async fn number(on: &dyn Statements, number: u8) -> Result<u8> {
        Ok(on.get(&ten(number)).await?.unwrap()[0])
    }
}

#[async_trait]
impl Procedure for Probe {
    fn kind(&self) -> usize {
        0
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let mut sum = 0;
        match self {
            Self::ReadTwice(other, done) | Self::Complain(other, done) => {
                let first = Self::number(on, 1).await?;
                Self::once(other, done, Self::Move).await;
                sum = i64::from(first + Self::number(on, 2).await?);
                if sum != 3 && matches!(self, Self::Complain(..)) {
                    return Err(Error::broken("one is too many"));
                }
            }
            Self::Add(other, done) => {
                let five = Self::number(on, 5).await?;
                Self::once(other, done, Self::AddAlone).await;
                on.put(&ten(5), of(five + 1)).await?;
            }
            Self::AddAlone => {
                let five = Self::number(on, 5).await?;
                on.put(&ten(5), of(five + 1)).await?;
            }
            Self::Count(other, done) => {
                let found = on.scan(&ten(4), 100).await?;
                Self::once(other, done, Self::Put(200, 0)).await;
                on.put(&ten(201), of(found.len() as u8)).await?;
                sum = found.len() as i64;
            }
            Self::Move => {
                let found = on.get_many(&[ten(1), ten(2)]).await?;
                let [one, two] = [0, 1].map(|at: usize| found[at].clone().unwrap()[0]);
                on.put(&ten(1), of(one + 1)).await?;
                on.put(&ten(2), of(two - 1)).await?;
            }
            Self::Put(number, value) => on.put(&ten(*number), of(*value)).await?,
            Self::Own => own(on).await?,
        }
        Ok(Effect { done: true, sum })
    }
}

async fn own(on: &dyn Statements) -> Result<()> {
    on.delete(&ten(7)).await?;
    on.put(&ten(8), of(88)).await?;
    on.put(&ten(100), of(100)).await?;
    let found = on.get_many(&[ten(8), ten(7), ten(6), ten(99), ten(6)]).await?;
    assert_eq!(found, [Some(of(88)), None, Some(of(6)), None, Some(of(6))]);
    let scanned = async |from, limit| -> Result<Vec<(u8, u8)>> {
        let found = on.scan(&ten(from), limit).await?;
        Ok(found.into_iter().map(|(key, value)| (key.member()[0], value[0])).collect())
    };
    assert_eq!(scanned(6, 3).await?, [(6, 6), (8, 88), (9, 9)]);
    assert_eq!(scanned(9, 2).await?, [(9, 9), (100, 100)]);
    assert_eq!(scanned(202, 30).await?, []);
    Ok(())
}

/// What both have to do; `snapshots` says whether a transaction reads all as of one moment.
async fn probe(on: Arc<dyn Database>, snapshots: bool) {
    let anew = || AtomicBool::new(false);
    let alone = if snapshots { 1 } else { 2 };
    let done = on.perform(&Probe::ReadTwice(on.clone(), anew())).await.unwrap();
    assert_eq!((done.effect.sum, done.attempts), (3, alone), "reads of two moments");
    let done = on.perform(&Probe::Complain(on.clone(), anew())).await.unwrap();
    assert_eq!((done.effect.sum, done.attempts), (3, alone), "a complaint that does not hold");
    let done = on.perform(&Probe::Add(on.clone(), anew())).await.unwrap();
    assert_eq!(done.attempts, 2, "a lost update");
    let done = on.perform(&Probe::Count(on.clone(), anew())).await.unwrap();
    let counts = (done.effect.sum, done.attempts);
    assert!(counts == (7, 2) || snapshots && counts == (6, 1), "a phantom: {counts:?}");
    on.perform(&Probe::Own).await.unwrap();
    let keys = [5, 7, 8, 100, 201].map(ten);
    let left = on.snapshot(&keys).await.unwrap();
    let counted = of(counts.0 as u8);
    assert_eq!(left, [Some(of(7)), None, Some(of(88)), Some(of(100)), Some(counted)]);
    on.perform(&Probe::Put(2, 9)).await.unwrap();
    let broken = on.perform(&Probe::Complain(on.clone(), AtomicBool::new(true))).await;
    assert_eq!(broken.unwrap_err(), Error::broken("one is too many"));
    assert!(on.perform(&Probe::AddAlone).await.is_ok(), "it goes on after a complaint");
}

#[tokio::test]
async fn nothing_gets_in_between_on_redis() {
    let Some(served) = redis(&Ten, Keeps::Nothing).await else { return };
    probe(served.database, false).await;
}

#[tokio::test]
async fn nothing_gets_in_between_on_postgresql() {
    let Some(served) = postgresql(&Ten).await else { return };
    probe(served.database, true).await;
}
