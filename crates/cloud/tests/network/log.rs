//! The query log of a tenant, over real sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_cloud::{Keeping, LogClient};
use fogbank_env::{Clock, Purpose, Randomness, SystemClock};
use fogbank_store::log_conformance::{self, entry};
use fogbank_store::{Log, LogEntry, LogEvent, LogEvents, PutCondition, Store, StoreError};
use rand_core::Rng;

use crate::fixture::Server;
use crate::hand_clock::HandClock;
use crate::raw::{Raw, SECOND, head, message, status, still_serves};

const LOG_PATH: &str = "/fogbank.cloud.v1.Log/Call";

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

async fn client(server: &Server, tenant: &str) -> LogClient {
    LogClient::open(&server.url(tenant), &clock()).await.unwrap()
}

/// Each time it is opened the server has been killed and started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms() {
    let mut server = Server::start(Keeping::Disk).await;
    let reopen = async || {
        server.kill_and_restart(Keeping::Disk, clock()).await;
        client(&server, "a").await
    };
    log_conformance::run(reopen).await;
    assert!(server.figure("server_log_appends_total") > 100);
    assert!(server.figure("server_log_follows_total") > 5);
}

/// Clients append while the server is killed and started again. What was acknowledged is there,
/// once and in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing_acknowledged() {
    const TURNS: u64 = 60;
    let mut server = Server::start(Keeping::Disk).await;
    let mut clients = tokio::task::JoinSet::new();
    for session in 1..=3 {
        let log = client(&server, "a").await;
        clients.spawn(async move {
            let mut places = Vec::new();
            for turn in 1..=TURNS {
                let place = until_there(|| log.append(entry(session, turn))).await;
                let place = place.unwrap();
                let result = Bytes::from(format!("result {place}"));
                until_there(|| log.publish(place, result.clone())).await;
                places.push(((session, turn), place));
            }
            places
        });
    }
    let log = client(&server, "a").await;
    let listener = tokio::spawn(async move {
        let (mut entries, mut results) = (Vec::new(), BTreeMap::new());
        let mut events = None;
        while entries.len() < 3 * TURNS as usize || results.len() < entries.len() {
            let listening: &mut LogEvents = match &mut events {
                Some(listening) => listening,
                // From the first place that has no result yet.
                none => {
                    let from = (0..).find(|at| !results.contains_key(at)).unwrap();
                    entries.truncate(from as usize);
                    none.insert(until_there(|| log.follow(from)).await)
                }
            };
            match listening.recv().await {
                Some(Ok(LogEvent::Entry(place, bytes))) => {
                    assert_eq!(place, entries.len() as u64);
                    entries.push(bytes);
                }
                Some(Ok(LogEvent::Result(place, bytes))) => drop(results.insert(place, bytes)),
                Some(Err(StoreError::Absent(_))) | None => events = None,
                Some(Err(error)) => panic!("{error}"),
            }
        }
        (entries, results)
    });
    for _ in 0..4 {
        let appended = server.figure("server_log_appends_total");
        while server.figure("server_log_appends_total") < appended + 20 {
            tokio::task::yield_now().await;
        }
        server.kill_and_restart(Keeping::Disk, clock()).await;
    }
    let places: BTreeMap<u64, (u32, u64)> =
        clients.join_all().await.concat().into_iter().map(|(turn, place)| (place, turn)).collect();
    assert_eq!(places.len(), 3 * TURNS as usize, "each turn has a place of its own");
    let (entries, results) = listener.await.unwrap();
    for (place, bytes) in entries.iter().enumerate() {
        let (session, turn) = places[&(place as u64)];
        assert_eq!(*bytes, entry(session, turn).bytes);
        assert_eq!(results[&(place as u64)], format!("result {place}"));
    }
}

async fn until_there<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = fogbank_store::Result<T>>,
{
    loop {
        match call().await {
            Ok(done) => return done,
            Err(StoreError::Absent(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A tenant's log is its own, is bounded by its quota, and its memory comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_counts_for_its_tenant() {
    let server = Server::with(Keeping::Memory, 100 << 10, clock(), |_| {}).await;
    let (log, other) = (client(&server, "a").await, client(&server, "b").await);
    let large = |turn| LogEntry { session: 1, turn, bytes: vec![7; 20 << 10].into() };
    let before = server.memory.held();
    for turn in 1..=4 {
        assert_eq!(log.append(large(turn)).await.unwrap(), Some(turn - 1));
    }
    assert!(server.memory.held() >= before + (80 << 10), "it is counted");
    let full = log.append(large(5)).await;
    assert!(matches!(&full, Err(StoreError::Refused(why)) if why.contains("quota")), "{full:?}");
    assert_eq!(other.append(large(1)).await.unwrap(), Some(0), "another has a log of its own");
    log.forget(3).await.unwrap();
    assert!(server.memory.held() < before + (80 << 10), "it is given back");
    assert_eq!(log.append(large(5)).await.unwrap(), Some(4));
    let refused = log.follow(1).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let stranger = server.url("a").replace("tenants/a/", "tenants/b/");
    let refused = LogClient::open(&stranger, &clock()).await.map(drop);
    assert!(matches!(&refused, Err(StoreError::Caller(why)) if why.contains("token")));
}

/// Who has the token can break the log by calls of the store. It is refused then, and the server
/// goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_its_tenant_breaks_is_refused() {
    let mut server = Server::start(Keeping::Disk).await;
    let (log, store) = (client(&server, "a").await, server.client("a").await);
    for turn in 1..=3 {
        log.append(entry(1, turn)).await.unwrap();
    }
    store.blob_delete(&["log/0000000000000001"]).await.unwrap();
    let foreign = store.blob_put("log/0000000000000003", "?".into(), PutCondition::Always);
    foreign.await.unwrap();
    let error = log.append(entry(1, 4)).await.unwrap_err();
    assert!(matches!(error, StoreError::Misbehaved(_)), "{error}");
    drop((log, store));
    server.kill_and_restart(Keeping::Disk, clock()).await;
    let refused = LogClient::open(&server.url("a"), &clock()).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Misbehaved(_))), "{refused:?}");
    still_serves(&server).await;
}

/// Requests that are none are refused, whatever they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_none_are_refused() {
    let server = Server::start(Keeping::Memory).await;
    let mut random = Randomness::repeatable(1).stream(Purpose::Faults);
    let place = 0_u64.to_le_bytes();
    let forget = [&head(2, 8)[..], &place].concat();
    let call = async |body: Vec<Bytes>| {
        let raw = Raw::connect(&server, "a").await;
        let answer = raw.call_at(LOG_PATH, tokio_stream::iter(body.into_iter().map(Some))).await;
        status(answer.unwrap()).await
    };
    // The canary: the very same way, a request that is one.
    assert_eq!(call(vec![message(&forget)]).await.as_deref(), Some("0"));
    let mut cases: Vec<Vec<Bytes>> = vec![
        vec![],
        vec![message(&[])],
        vec![message(&forget[..8])],
        vec![message(&forget).slice(..12)],
        vec![message(&[&forget[..], &[0]].concat())],
        vec![message(&forget), message(&[1])],
        vec![message(&[&head(4, 8)[..], &place].concat())],
        vec![message(&[&head(2, 7)[..], &place[..7]].concat())],
        vec![message(&[&head(3, 9)[..], &place, &[0]].concat())],
        vec![message(&[&head(0, 11)[..], &[0; 11]].concat())],
        vec![message(&head(0, u64::MAX))],
        vec![message(&head(0, (1 << 20) + 13))],
        vec![message(&[&head(0, 12)[..], &[0; 12]].concat())], // a turn before the first
        vec![message(&[&head(1, 8)[..], &[255; 8]].concat())], // no such place
    ];
    for round in 0..60 {
        let mut noise = vec![0; 1 + random.next_u32() as usize % 200];
        random.fill_bytes(&mut noise);
        let mut body = head(random.next_u32() as u8, noise.len() as u64);
        body.extend(&noise);
        body[0] |= 4; // else it may be a request
        cases.push(match round % 3 {
            0 => vec![noise.into()],
            1 => vec![message(&noise)],
            _ => vec![message(&body)],
        });
    }
    for body in cases {
        let said = call(body.clone()).await;
        assert!(said.as_deref() != Some("0"), "{body:?}");
    }
    client(&server, "a").await.append(entry(1, 1)).await.unwrap();
    still_serves(&server).await;
}

/// Who listens and takes nothing is told no more after a while. His other calls go on, and so do
/// all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_takes_nothing_ends_himself_alone() {
    let clock = HandClock::default();
    let server = Server::with(Keeping::Memory, 1 << 30, Arc::new(clock.clone()), |_| {}).await;
    let log = client(&server, "a").await;
    let mut quick = log.follow(0).await.unwrap();
    let raw = Raw::connect(&server, "a").await;
    let follow = |from: u64| {
        let body = message(&[&head(3, 8)[..], &from.to_le_bytes()].concat());
        tokio_stream::iter([Some(body)])
    };
    let slow = raw.call_at(LOG_PATH, follow(0)).await.unwrap();
    for turn in 1..=16 {
        let large = LogEntry { session: 1, turn, bytes: vec![7; 1 << 20].into() };
        let place = log.append(large).await.unwrap().unwrap();
        let told = quick.recv().await.unwrap().unwrap();
        assert!(matches!(told, LogEvent::Entry(at, _) if at == place));
    }
    let held = server.memory.held();
    let ended = server.figure("server_calls_refused_total");
    while server.figure("server_calls_refused_total") == ended {
        clock.advance(SECOND);
        tokio::task::yield_now().await;
    }
    clock.advance(60 * SECOND);
    let forget = message(&[&head(2, 8)[..], &16_u64.to_le_bytes()].concat());
    let forgotten = raw.call_at(LOG_PATH, tokio_stream::iter([Some(forget)])).await.unwrap();
    assert_eq!(status(forgotten).await.as_deref(), Some("0"), "the connection is there");
    assert!(server.memory.held() < held - (15 << 20));
    // What was on its way comes, and then the end: with a reason, if that found room behind it.
    let said = status(slow).await;
    assert!(matches!(said.as_deref(), Some("0" | "4")), "{said:?}");
    let late = raw.call_at(LOG_PATH, follow(5)).await.unwrap();
    assert_eq!(status(late).await.as_deref(), Some("9"), "places were forgotten");
    log.append(entry(2, 1)).await.unwrap();
    assert!(matches!(quick.recv().await, Some(Ok(LogEvent::Entry(16, _)))));
}

/// A server that is told to stop does not wait for those who listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_tells_who_listens() {
    let clock = HandClock::default();
    let mut server = Server::with(Keeping::Memory, 1 << 30, Arc::new(clock), |_| {}).await;
    let log = client(&server, "a").await;
    let mut events = log.follow(0).await.unwrap();
    server.tell_to_stop();
    assert!(matches!(events.recv().await, Some(Err(StoreError::Absent(_)))));
    // The clock stands still: nothing ends because its time is over.
    server.ended().await;
    assert!(matches!(log.append(entry(1, 1)).await, Err(StoreError::Absent(_))));
}
