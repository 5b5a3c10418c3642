//! The log of a tenant, for who is elsewhere.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Clock;
use fogbank_store::{
    LOG_EVENTS_AHEAD, Log, LogEntry, LogEvent, LogEvents, Result, StoreError, check_log_bytes,
};
use tokio::sync::{Semaphore, mpsc};
use tonic::Streaming;

use super::said::{Coming, LISTENING, NoEvent, PATH, Request};
use crate::client::{Arriving, at_opening, blame};
use crate::credentials::Address;
use crate::dial::{Channel, Dial, Lane};
use crate::reply::{Incoming, Messages};

/// See the module.
pub struct LogClient {
    dial: Dial,
    clock: Arc<dyn Clock>,
    lane: Lane,
    /// Of calls that are under way, beside listeners.
    calls: Semaphore,
}

impl LogClient {
    /// The log of the tenant that `url` names, with the credentials that it or the environment
    /// names.
    ///
    /// # Errors
    /// By blame, see [`StoreError`].
    pub async fn open(url: &str, clock: &Arc<dyn Clock>) -> Result<Self> {
        let address = Address::parse(url)?;
        let dial = Dial::new(&address, &address.load()?)?;
        let calls = Semaphore::new(CALLS_MAX);
        let log = Self { dial, clock: clock.clone(), lane: Lane::default(), calls };
        // Says whether the token is right, and that the log can be opened.
        log.forget(0).await.map_err(at_opening)?;
        Ok(log)
    }

    async fn ask(&self, request: Request) -> Result<Arriving> {
        let connect = self.dial.in_time(&*self.clock, self.dial.connect());
        let channel: Channel = self.lane.channel(connect).await?;
        Arriving::ask(&self.dial, &self.clock, channel, PATH, request.encode()).await
    }

    /// A call that has one answer, in `answer`.
    async fn call<T>(
        &self,
        request: Request,
        answer: impl AsyncFnOnce(Incoming<Arriving>) -> Result<T>,
    ) -> Result<T> {
        let closed = |_| self.dial.absent("it was closed");
        let _call = self.calls.acquire().await.map_err(closed)?;
        answer(Incoming::new(self.ask(request).await?, ANSWER_BYTES_MAX)).await
    }
}

#[async_trait]
impl Log for LogClient {
    async fn append(&self, entry: LogEntry) -> Result<Option<u64>> {
        check_log_bytes(&entry.bytes)?;
        self.call(Request::Append(entry), Incoming::place).await
    }

    async fn publish(&self, place: u64, result: Bytes) -> Result<()> {
        check_log_bytes(&result)?;
        self.call(Request::Publish(place, result), Incoming::done).await
    }

    async fn follow(&self, from: u64) -> Result<LogEvents> {
        let mut arriving = self.ask(Request::Follow(from)).await?;
        match arriving.next().await? {
            Some(said) if said == LISTENING => {}
            Some(_) => return Err(StoreError::Misbehaved("an answer to no listener".into())),
            None => return Err(self.dial.absent("it tells nothing")),
        }
        let (told, events) = mpsc::channel(LOG_EVENTS_AHEAD);
        let place = self.dial.place.clone();
        tokio::spawn(async move {
            let error = tokio::select! {
                error = tell(arriving.stream, from, &told, &place) => error,
                () = told.closed() => return,
            };
            let _nobody_listens = told.send(Err(error)).await;
        });
        Ok(events)
    }

    async fn forget(&self, before: u64) -> Result<()> {
        self.call(Request::Forget(before), Incoming::done).await
    }
}

/// Tells what comes, and why no more does.
async fn tell(
    mut stream: Streaming<Bytes>,
    from: u64,
    told: &mpsc::Sender<Result<LogEvent>>,
    place: &str,
) -> StoreError {
    let strange = || StoreError::Misbehaved(format!("{place}: what comes is not the log"));
    let mut coming = Coming::new(from);
    loop {
        match stream.message().await {
            Ok(Some(piece)) => coming.push(piece),
            Ok(None) => return StoreError::Absent(format!("{place}: it tells no more")),
            Err(status) => return blame(place, &status),
        }
        loop {
            let event = match coming.next() {
                Ok(None) => break,
                Ok(Some(event)) => event,
                Err(NoEvent) => return strange(),
            };
            if told.send(Ok(event)).await.is_err() {
                return StoreError::Absent("nobody listens".into());
            }
        }
    }
}

/// A connection has 16; the others are for those who listen.
const CALLS_MAX: usize = 12;
const ANSWER_BYTES_MAX: u64 = 64;
