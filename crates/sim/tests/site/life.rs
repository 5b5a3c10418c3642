//! The calls of one client to store and log, counted. At one of them it stops: for ever, until it
//! is woken, or only so that others hear of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_store::{
    Call, LOG_EVENTS_AHEAD, Log, LogEntry, LogEvents, Reply, Result, Store, store_by_calls,
};
use tokio::sync::{mpsc, watch};

/// See the module.
pub struct Life {
    calls: AtomicU64,
    stops_at: AtomicU64,
    has_stopped: watch::Sender<bool>,
    wakes: watch::Receiver<bool>,
}

impl Life {
    /// One that stops for ever.
    pub fn dying(stops_at: u64) -> Arc<Self> {
        Self::sleeping(stops_at, watch::channel(false).1)
    }

    /// One that goes on at once, where others hear that it has come there ([`Life::stops_in`]).
    pub fn waking() -> Arc<Self> {
        Self::sleeping(u64::MAX, watch::channel(true).1)
    }

    /// One that goes on when `wakes` says so.
    pub fn sleeping(stops_at: u64, wakes: watch::Receiver<bool>) -> Arc<Self> {
        let (calls, stops_at) = (AtomicU64::new(0), AtomicU64::new(stops_at));
        Arc::new(Self { calls, stops_at, has_stopped: watch::Sender::new(false), wakes })
    }

    /// It stops at this call from now on.
    pub fn stops_in(&self, calls: u64) {
        let at = self.calls.load(Ordering::Relaxed) + calls;
        self.stops_at.store(at, Ordering::Relaxed);
    }

    /// Says whether it has stopped.
    pub fn has_stopped(&self) -> watch::Receiver<bool> {
        self.has_stopped.subscribe()
    }

    /// Waits until it has.
    pub async fn stop(&self) {
        let mut has_stopped = self.has_stopped();
        let _it_has = has_stopped.wait_for(|has_stopped| *has_stopped).await;
    }

    /// Tells others that it has.
    pub fn tell(&self) {
        self.has_stopped.send_replace(true);
    }

    /// Waits while it is stopped.
    async fn awake(&self) {
        if *self.has_stopped.borrow() && self.wakes.clone().wait_for(|wakes| *wakes).await.is_err()
        {
            std::future::pending::<()>().await;
        }
    }

    /// A call. At every second number the one at which it stops is done, and nobody hears of it.
    async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let stops_at = self.stops_at.load(Ordering::Relaxed);
        let (stops, is_done) = (number == stops_at, number.is_multiple_of(2));
        if stops && !is_done {
            self.tell();
        }
        self.awake().await;
        let reply = call.await;
        if stops && is_done {
            self.tell();
        }
        self.awake().await;
        reply
    }
}

/// Its way to the store.
pub struct Lived<S> {
    pub inner: S,
    pub life: Arc<Life>,
}

impl<S: Store> Lived<S> {
    async fn call(&self, call: Call<'_>) -> Result<Reply> {
        self.life.call(call.perform(&self.inner)).await
    }
}

store_by_calls!(Lived);

/// Its way to the log.
pub struct LivedLog {
    pub log: Arc<dyn Log>,
    pub life: Arc<Life>,
}

#[async_trait]
impl Log for LivedLog {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        self.life.call(self.log.append(entry)).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        self.life.call(self.log.publish(place, result)).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        let mut events = self.life.call(self.log.follow(from)).await?;
        let (sender, receiver) = mpsc::channel(LOG_EVENTS_AHEAD);
        let life = self.life.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                life.awake().await;
                if sender.send(event).await.is_err() {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    async fn forget(&self, before: u64) -> Result<()> {
        self.life.call(self.log.forget(before)).await
    }
}
