//! Fogbank asked as a Redis: its front end on a port of this machine, for the time of a run.

use std::sync::Arc;

use bytes::Bytes;
use fogbank::{Error, Opened, Result};
use fogbank_env::{Clock, Metrics};
use fogbank_front::resp::{Content, Filled, Listener, Settings, records_of};
use fogbank_txn::Key;
use fogbank_workload::{Redis, redis};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The most connections: each has two of the thousand files that a process may open on most
/// machines.
pub const CONNECTIONS_MAX: usize = 400;

/// A front end that serves until it is closed.
pub struct Endpoint {
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Endpoint {
    /// Serves a store, and connects as many clients as there are, up to [`CONNECTIONS_MAX`].
    ///
    /// # Errors
    /// [`Error::CannotUse`] if there is no port, or no connection to it.
    pub async fn serve(
        opened: &Opened,
        clients: usize,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Self, Redis)> {
        let address = ([127, 0, 0, 1], 0).into();
        let listener = Listener::bind(Settings { address, ..Settings::default() }).await;
        let listener = listener.map_err(|e| Error::CannotUse(e.to_string()))?;
        let port = listener.address().port();
        let (stop, stopped) = oneshot::channel();
        let (proxy, clock) = (opened.proxy().clone(), clock.clone());
        let served = tokio::spawn(async move {
            let told = async { drop(stopped.await) };
            listener.serve(proxy, clock, Metrics::default(), told).await;
        });
        let connections = clients.clamp(1, CONNECTIONS_MAX);
        let clients = Redis::connect(("127.0.0.1", port), connections, &[]).await;
        let clients = clients.map_err(|e| Error::CannotUse(e.to_string()))?;
        let shown = opened.proxy().limits().records_read_max;
        Ok((Self { stop, served }, clients.showing_at_most(shown)))
    }

    /// Ends it; its clients have gone.
    pub async fn close(self) {
        let _ = self.stop.send(()); // it may have ended
        let _ended = self.served.await;
    }
}

/// A record as the front end keeps it.
///
/// # Errors
/// [`Error::Usage`] for one that has no name in Redis.
pub fn kept((key, value): (Key, Bytes)) -> Result<Vec<Filled>> {
    let name = redis::name(&key).map_err(|e| Error::Usage(e.to_string()))?;
    Ok(records_of(&name, Content::String(value.to_vec()), None))
}
