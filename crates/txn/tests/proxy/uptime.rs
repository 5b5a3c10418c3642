//! When epochs run: what the engine is called for, and what clients are told.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::Nanos;
use fogbank_txn::{Error, Hours, Key, Uptime, View};

use crate::support::{Setup, World};

/// Closed in the odd seconds of the wall clock.
struct EvenSeconds;

impl Hours for EvenSeconds {
    fn closed_at(&self, wall_ms: u64) -> Option<String> {
        (wall_ms / 1_000 % 2 == 1).then(|| "open in a second".into())
    }
}

fn key() -> Key {
    Key::new(b"", b"key")
}

async fn put(world: &World) -> Result<(), Error> {
    let session = world.proxy.session();
    session.submit(|view: &mut View<'_>| view.put(&key(), b"value".as_slice().into(), 0)).await
}

#[tokio::test(start_paused = true)]
async fn without_a_client_nothing_is_sent() {
    let world = Setup::default().start().await;
    world.proxy.run_when(Uptime::WhilePresent { linger: Duration::from_secs(1) });
    world.sleep_ms(100).await;
    let idle = world.count('c');
    world.sleep_ms(10_000).await;
    assert_eq!(world.count('c'), idle);
    // A session that is no client's does not count: what it asks for waits.
    let session = world.proxy.session();
    let waiting = session.submit(|view: &mut View<'_>| view.get(&key()).map(drop));
    world.sleep_ms(10_000).await;
    assert_eq!(world.count('c'), idle);

    let mut client = world.proxy.session();
    client.attend();
    put(&world).await.unwrap();
    waiting.await.unwrap();
    world.sleep_ms(1_000).await;
    assert!(world.count('c') > idle + 10);
    drop(client);
    world.sleep_ms(500).await; // it lingers
    put(&world).await.unwrap();
    world.sleep_ms(1_000).await;
    let rests = world.count('c');
    world.sleep_ms(10_000).await;
    assert_eq!(world.count('c'), rests);
}

#[tokio::test(start_paused = true)]
async fn hours_are_kept_and_whoever_waits_is_told() {
    let world = Setup::default().start().await;
    world.proxy.run_when(Uptime::Hours(Arc::new(EvenSeconds)));
    for _ in 0..5 {
        // The test's clock begins at a whole second.
        let into = world.clock.wall_ms() % 2_000;
        world.sleep_ms(2_000 - into + 1_100).await;
        let rests = world.count('c');
        let waiting = world.proxy.begin();
        let told = [put(&world).await.err(), waiting.get(&key()).await.err()];
        assert!(told.iter().all(|error| matches!(error, Some(Error::Resting(_)))), "{told:?}");
        world.sleep_ms(700).await;
        assert_eq!(world.count('c'), rests);
        world.sleep_ms(300).await;
        put(&world).await.unwrap();
        assert!(world.count('c') > rests);
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_rests_can_be_closed() {
    let world = Setup::default().start().await;
    put(&world).await.unwrap();
    world.proxy.run_when(Uptime::WhilePresent { linger: Duration::ZERO });
    world.sleep_ms(1_000).await;
    world.proxy.close().await.unwrap();
}

/// When the engine was asked for what, in two visits of a client who asks for so much in the first;
/// who then stays for a second, or, `until_answered`, leaves with his last answer.
async fn shape_of_visits(programs: u32, until_answered: bool) -> Vec<(Nanos, char)> {
    let world = Setup::default().start().await;
    world.proxy.run_when(Uptime::WhilePresent { linger: Duration::from_secs(1) });
    world.sleep_ms(500).await;
    for asks in [programs, 0] {
        let mut client = world.proxy.session();
        client.attend();
        let answers: Vec<_> = (0..asks)
            .map(|n| {
                client.submit(move |view: &mut View<'_>| {
                    let key = Key::new(b"", &n.to_be_bytes());
                    view.put(&key, b"value".as_slice().into(), 0)
                })
            })
            .collect();
        if until_answered {
            for answer in answers {
                answer.await.unwrap();
            }
        } else {
            world.sleep_ms(1_000).await;
        }
        drop(client);
        world.sleep_ms(10_000).await;
    }
    world.shape()
}

/// When epochs rest and when they wake follows from who is connected, not from what is asked for.
/// The canary: a client who is gone when he has his answers.
#[tokio::test(start_paused = true)]
async fn rests_tell_who_is_here_and_nothing_of_what_is_done() {
    let idle = shape_of_visits(0, false).await;
    for programs in [1, 17, 60] {
        assert_eq!(shape_of_visits(programs, false).await, idle, "{programs}");
    }
    assert_ne!(shape_of_visits(0, true).await, shape_of_visits(60, true).await);
}
