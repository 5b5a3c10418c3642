//! Somebody who looks on is told every key, and whether it may change.

use std::sync::Arc;
use std::time::Duration;

use fogbank_env::{Clock, Metrics, Mutex, Nanos, SystemClock};
use fogbank_front::resp::{Listener, Settings, Watcher};
use tokio::sync::oneshot;

use crate::support::{Client, SHAPE, proxy};

#[derive(Default)]
struct Notes {
    asked: Mutex<Vec<String>>,
    answered: Mutex<Vec<Nanos>>,
}

impl Watcher for Notes {
    fn asked(&self, changes: bool, key: &[u8]) {
        let mark = if changes { "w " } else { "r " };
        self.asked.lock().push(mark.to_owned() + &String::from_utf8_lossy(key));
    }

    fn answered(&self, nanos: Nanos) {
        self.answered.lock().push(nanos);
    }
}

#[tokio::test]
async fn a_watcher_is_told_what_is_asked_and_answered() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let proxy = proxy(SHAPE, Duration::from_millis(1), clock.clone()).await;
    let settings = Settings { address: ([127, 0, 0, 1], 0).into(), ..Settings::default() };
    let notes = Arc::new(Notes::default());
    let listener = Listener::bind(settings).await.unwrap().watched_by(Some(notes.clone()));
    let address = listener.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(listener.serve(proxy, clock, Metrics::default(), async {
        let _ = stopped.await;
    }));
    let mut client = Client::connect(address).await;
    for command in [
        "SET a 1",
        "GET a",
        "MSET b 1 c 2",
        "MGET a b",
        "DBSIZE",
        "PING",
        "NOSUCH x",
        "GET",
        "OBJECT ENCODING a",
        "MULTI",
        "HSET h f v",
        "EXEC",
        "MULTI",
        "SET never 1",
        "DISCARD",
    ] {
        client.ask(command).await;
    }
    drop(stop);
    serving.await.unwrap();
    let asked = notes.asked.lock().join(", ");
    assert_eq!(asked, "w a, r a, w b, w c, r a, r b, r a, w h");
    assert_eq!(notes.answered.lock().len(), 7, "EXEC is one answer");
}
