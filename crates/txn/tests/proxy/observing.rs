//! What an observer is told of programs: what they would fetch with nothing in memory.

use std::sync::Arc;

use fogbank_env::Mutex;
use fogbank_txn::{Footprint, Observer, View};

use crate::support::{Setup, bytes, increment, key, keys};

#[derive(Default)]
struct Seen(Mutex<Vec<Footprint>>);

impl Observer for Seen {
    fn ended(&self, footprint: &Footprint) {
        self.0.lock().push(footprint.clone());
    }
}

/// Follows pointers: each record holds the number of the next.
fn follow(steps: usize) -> impl fogbank_txn::Program<Reply = ()> {
    move |view: &mut View<'_>| {
        let mut at = 0;
        for _ in 0..steps {
            let Some(record) = view.get(&key(at))? else { break };
            at = std::str::from_utf8(&record.value).unwrap().parse().unwrap();
        }
        view.put(&key(99), bytes("seen"), 0)
    }
}

#[tokio::test(start_paused = true)]
async fn rounds_are_counted_as_if_nothing_were_in_memory() {
    let world = Setup::default().start().await;
    world.fill(&keys(8), b"1").await;
    let (seen, session) = (Arc::new(Seen::default()), world.proxy.session());
    world.proxy.observe_programs(seen.clone());
    for next in [1, 2, 3] {
        let value = bytes(&next.to_string());
        let put = session.submit(move |v: &mut View<'_>| v.put(&key(next - 1), value.clone(), 0));
        put.await.unwrap();
    }
    seen.0.lock().clear();
    // Twice at once: the second finds in memory what the first has brought.
    let two = [world.proxy.session(), world.proxy.session()].map(|s| (s.submit(follow(3)), s));
    for (answer, _session) in two {
        answer.await.unwrap();
    }
    let chain = Footprint { rounds: vec![1, 1, 1], written: 1, value_bytes: vec![1, 1, 1, 4] };
    assert_eq!(*seen.0.lock(), [chain.clone(), chain]);
    seen.0.lock().clear();
    session.submit(|v: &mut View<'_>| v.get_many(&keys(9))).await.unwrap();
    session.submit(increment(key(1))).await.unwrap();
    session.submit(|v: &mut View<'_>| v.get(&key(50))).await.unwrap();
    let told = seen.0.lock().clone();
    assert_eq!((&told[0].rounds[..], told[0].written), (&[8][..], 0), "the ninth is not there");
    assert_eq!((&told[1].rounds[..], told[1].written), (&[1][..], 1));
    assert!(told[2].is_empty() && told.len() == 3, "{told:?}");
}

/// A program that is answered from what it has written needs no round, and one that is parked for
/// want of write slots is told of once.
#[tokio::test(start_paused = true)]
async fn a_program_is_told_of_once_when_it_has_ended() {
    let world = Setup { write_batch: 4, ..Setup::default() }.start().await;
    let seen = Arc::new(Seen::default());
    world.proxy.observe_programs(seen.clone());
    let sessions: Vec<_> = (0..6).map(|_| world.proxy.session()).collect();
    let write = |n: u32| {
        move |v: &mut View<'_>| {
            v.put(&key(2 * n), bytes("1"), 0)?;
            v.put(&key(2 * n + 1), bytes("1"), 0)?;
            v.get(&key(2 * n)).map(drop)
        }
    };
    let answers: Vec<_> = (0..).zip(&sessions).map(|(n, s)| s.submit(write(n))).collect();
    for answer in answers {
        answer.await.unwrap();
    }
    let told = seen.0.lock().clone();
    assert_eq!(told.len(), 6);
    assert!(told.iter().all(|f| f.rounds.is_empty() && f.written == 2), "{told:?}");
}
