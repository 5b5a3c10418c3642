//! A server that lies in lengths, counts and kinds: each lie is a typed error, soon, and takes no
//! more memory than an honest answer may.

use std::sync::Arc;

use fogbank_cloud::{Address, CloudStore, Keeping};
use fogbank_env::Clock;
use fogbank_store::{ArrayId, Cell, CellReads, PutCondition, Result, Store, StoreError};

use crate::fixture::{SHAPE, Server, name, write};
use crate::hand_clock::HandClock;
use crate::raw::SECOND;
use crate::relay::{BARRIER, CELLS, CHUNKS, GET, LIST, Lie, NAMES, PUT, Relay, WRITE, XOR};

/// Whom the client blames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    Nobody,
    Lied,
    Absent,
    Either,
}

fn blame(error: &StoreError) -> Blame {
    match error {
        StoreError::Misbehaved(_) => Blame::Lied,
        StoreError::Absent(_) | StoreError::Refused(_) => Blame::Absent,
        StoreError::Caller(why) | StoreError::NoArray(why) | StoreError::Near(why) => {
            panic!("the caller did nothing wrong: {why}")
        }
    }
}

/// Asks by `operation`; how many things came back.
async fn ask(store: &CloudStore, operation: u8) -> Result<usize> {
    let mut reads = CellReads::default();
    (0..8).for_each(|chunk| reads.push(name(chunk, 0), [1, 3]));
    let groups: Vec<u32> = (1..=8).collect();
    let names: Vec<_> = (0..8).map(|chunk| name(chunk, 0)).collect();
    Ok(match operation {
        CELLS => {
            let cells = store.read_cells(&reads).await?;
            let fits = |cell: &Cell| matches!(cell, Cell::Bytes(bytes) if bytes.len() == 1024);
            assert!(cells.iter().all(fits));
            cells.len()
        }
        XOR => store.xor().unwrap().read_xor(&reads, &groups).await?.len(),
        CHUNKS => store.read_chunks(&names).await?.len(),
        WRITE => store.write_chunks(vec![write(1, 0)]).await.map(|()| 0)?,
        LIST => store.list_chunks(ArrayId(1)).await?.len(),
        GET => store.blob_get("a").await?.map_or(0, |(data, _)| data.len()),
        PUT => {
            store.blob_put("b", "b".into(), PutCondition::Always).await?;
            0
        }
        NAMES => store.blob_list("").await?.len(),
        _ => store.barrier().await.map(|()| 0)?,
    })
}

/// Asks while `relay` lies. Only who says nothing for long is waited for, until his time is over.
async fn told(
    store: &CloudStore,
    operation: u8,
    lie: Lie,
    relay: &Relay,
    clock: &HandClock,
) -> Result<usize> {
    let mut asked = std::pin::pin!(ask(store, operation));
    if lie != Lie::Silent {
        return asked.await;
    }
    loop {
        tokio::select! {
            biased;
            answer = &mut asked => break answer,
            () = tokio::task::yield_now() => {
                clock.advance(relay.told().min(1) * SECOND / 10);
            }
        }
    }
}

const OPERATIONS: [u8; 9] = [CELLS, CHUNKS, WRITE, LIST, GET, PUT, NAMES, BARRIER, XOR];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lie_in_lengths_is_a_typed_error() {
    let server = Server::start(Keeping::Memory).await;
    let relay = Relay::start(server.address, &server.credentials("a")).await;
    let clock = HandClock::default();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let address =
        Address { place: relay.address.to_string(), tenant: "a".into(), credentials: None };
    let connect = async || {
        CloudStore::connect(address.clone(), &relay.credentials, 2, &shared).await.unwrap()
    };
    connect().await.create_array(ArrayId(1), SHAPE).await.unwrap();
    // As after a stop: the array was made by an earlier process, and the server says nothing of its
    // shape.
    let store = connect().await;
    let calls = server.figure("server_calls_total");
    let unknown = store.list_chunks(ArrayId(1)).await;
    assert!(matches!(unknown, Err(StoreError::NoArray(_))), "{unknown:?}");
    assert_eq!(server.figure("server_calls_total"), calls, "of what has no bound nothing is asked");
    store.expect_array(ArrayId(1), SHAPE).unwrap();
    store.write_chunks((0..64).map(|chunk| write(chunk, 0)).collect()).await.unwrap();
    store.blob_put("a", vec![7; 3000].into(), PutCondition::Always).await.unwrap();
    store.blob_put("b", "b".into(), PutCondition::Always).await.unwrap();
    for operation in OPERATIONS {
        let honest = ask(&store, operation).await.unwrap();
        for (lie, blamed) in [
            (Lie::Nothing, Blame::Lied),
            (Lie::Half, Blame::Lied),
            (Lie::ByteLess, Blame::Lied),
            (Lie::ByteMore, Blame::Lied),
            (Lie::Twice, Blame::Lied),
            (Lie::OtherKind, Blame::Lied),
            (Lie::Noise, Blame::Lied),
            (Lie::Ones, Blame::Lied),
            (Lie::HugeMessage, Blame::Lied),
            (Lie::Compressed, Blame::Either),
            (Lie::Endless, Blame::Lied),
            (Lie::EndlessNothing, Blame::Lied),
            (Lie::Cut, Blame::Absent),
            (Lie::Silent, Blame::Absent),
            (Lie::Page, Blame::Either),
            (Lie::Status(15), Blame::Lied),
            (Lie::Status(8), Blame::Absent),
            (Lie::Status(14), Blame::Absent),
            (Lie::Status(200), Blame::Absent),
            (Lie::CellLess, Blame::Lied),
            (Lie::CellMore, Blame::Lied),
            (Lie::CellsShorter, Blame::Lied),
            (Lie::CellsLonger, Blame::Lied),
            // These have the right form; that they are lies shows under the proxy's keys alone.
            (Lie::Swapped, Blame::Nobody),
            (Lie::Repeated, Blame::Nobody),
        ] {
            let of_cells = matches!(
                lie,
                Lie::CellLess
                    | Lie::CellMore
                    | Lie::CellsShorter
                    | Lie::CellsLonger
                    | Lie::Swapped
                    | Lie::Repeated
            );
            let one_byte = matches!(operation, WRITE | BARRIER);
            let nothing_to_say = one_byte && matches!(lie, Lie::Half | Lie::Ones);
            if of_cells && !matches!(operation, CELLS | XOR) || nothing_to_say {
                continue;
            }
            relay.lie(operation, lie);
            let mut answer = told(&store, operation, lie, &relay, &clock).await;
            // An endless answer can end its connection some time after it was refused. Whoever asks
            // on it then hears no lie.
            let spoiled = |answer: &Result<usize>| {
                answer.as_ref().is_err_and(|error| blame(error) == Blame::Absent)
            };
            if relay.told() == 0 && spoiled(&answer) {
                answer = told(&store, operation, lie, &relay, &clock).await;
            }
            let found = answer.as_ref().map_or_else(blame, |_| Blame::Nobody);
            let right = match blamed {
                Blame::Either => found != Blame::Nobody,
                one => found == one,
            };
            assert!(right, "{lie:?} about {operation}: {answer:?}");
            assert_eq!(relay.told(), 1, "{lie:?} about {operation}");
            assert!(relay.sent() < 100 << 20, "{lie:?} about {operation}: {}", relay.sent());
            relay.lie(255, lie);
            assert_eq!(
                ask(&store, operation).await.unwrap(),
                honest,
                "who is honest again is heard"
            );
        }
    }
}
