//! The listener: binds, admits connections up to the limit, stops in an orderly way.

use super::client::Server;
use super::connection::Connection;
use super::janitor;
use super::keyspace::Bounds;
use super::limits::Limits;
use super::refusal::Advisor;
use super::watcher::Watcher;
use crate::listening::{Accepted, Error, Place, Socket, greet, receive};
use fogbank_env::{Clock, Metrics};
use fogbank_tls::{TlsFiles, acceptor};
use fogbank_txn::{Proxy, Session};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// A client that does not finish its TLS greeting by then is let go.
const GREETING_NANOS_MAX: u64 = 10_000_000_000;

/// How the front end is to listen and what it allows. Plain values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen; port 0 takes any.
    pub address: SocketAddr,
    /// What clients must give with `AUTH` or `HELLO`, if anything.
    pub password: Option<String>,
    /// TLS, if it is spoken.
    pub tls: Option<TlsFiles>,
    /// Bounds on clients.
    pub limits: Limits,
    /// Whether `INFO` prints figures that are a function of the data (hits, stash, aborts).
    pub secret_metrics: bool,
    /// Records of dead keys reclaimed an epoch; by default an eighth of the write batch.
    pub reclaim_quota: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 6379)),
            password: None,
            tls: None,
            limits: Limits::default(),
            secret_metrics: false,
            reclaim_quota: None,
        }
    }
}

impl Settings {
    /// Whether there can be a listener of them, if nobody else has its port. Changes nothing.
    pub fn check(&self) -> Result<(), Error> {
        self.acceptor()?;
        Socket::check(&Place::Tcp(self.address))
    }

    fn acceptor(&self) -> Result<Option<TlsAcceptor>, Error> {
        Ok(self.tls.as_ref().map(|files| acceptor(files, &[])).transpose()?)
    }
}

/// A bound front end that has not begun to serve.
pub struct Listener {
    settings: Settings,
    socket: Socket,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    watcher: Option<Arc<dyn Watcher>>,
    advisor: Option<Arc<dyn Advisor>>,
}

impl Listener {
    /// Binds, and reads the TLS files if there are any.
    pub async fn bind(settings: Settings) -> Result<Self, Error> {
        let tls = settings.acceptor()?;
        let socket = Socket::bind(&Place::Tcp(settings.address)).await?;
        let address = match socket.place() {
            Place::Tcp(address) => address,
            Place::Unix(_) => settings.address, // not what was bound
        };
        Ok(Self { settings, socket, address, tls, watcher: None, advisor: None })
    }

    /// The same, and `watcher` is told what clients ask.
    pub fn watched_by(self, watcher: Option<Arc<dyn Watcher>>) -> Self {
        Self { watcher, ..self }
    }

    /// The same, and what the store's shape refuses is told with what `advisor` says.
    pub fn advised_by(self, advisor: Arc<dyn Advisor>) -> Self {
        Self { advisor: Some(advisor), ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` completes, then answers what was accepted and returns.
    pub async fn serve(
        self,
        proxy: Proxy,
        clock: Arc<dyn Clock>,
        metrics: Metrics,
        shutdown: impl Future<Output = ()>,
    ) {
        let limits = proxy.limits();
        let bounds = Arc::new(Bounds {
            value_bytes_max: limits.value_bytes_max,
            cursors: Default::default(),
            advisor: self.advisor.clone(),
        });
        let address = self.address;
        let mut server =
            Server::new(&self.settings, address, bounds.clone(), clock.clone(), metrics);
        server.watcher = self.watcher.clone();
        // One epoch is being committed, one is open and one arrives.
        let epochs = 3 * limits.records_written_max.saturating_mul(limits.block_bytes);
        server.limits.waiting_bytes_max = server.limits.waiting_bytes_max.max(epochs);
        let server = Arc::new(server);
        let (stop, stopping) = watch::channel(false);
        let default = (limits.records_written_max / 8).max(1);
        let quota = self.settings.reclaim_quota.unwrap_or(default);
        let janitor =
            tokio::spawn(janitor::clean(proxy.clone(), bounds, quota, clock.clone(), stopping));
        let tls = self.tls;
        let clear = tls.is_none();
        let admit = |accepted| converse(accepted, server.clone(), tls.clone(), proxy.session());
        let connections_max = self.settings.limits.connections_max;
        let refuse = |accepted| turn_away(accepted, clear);
        receive(self.socket, &*clock, connections_max, stop, shutdown, admit, refuse).await;
        let _ended = janitor.await;
    }
}

async fn converse(
    accepted: Accepted,
    server: Arc<Server>,
    tls: Option<TlsAcceptor>,
    session: Session,
) -> io::Result<()> {
    let clock = server.clock.clone();
    let connection = Connection::new(server, session, accepted.peer);
    let stream = match tls {
        None => accepted.stream,
        Some(tls) => {
            let late = clock.now() + GREETING_NANOS_MAX;
            greet(&tls, accepted.stream, &*clock, late).await?
        }
    };
    connection.run(stream, accepted.stopping).await
}

async fn turn_away(mut accepted: Accepted, clear: bool) {
    if clear {
        let text = b"-ERR max number of clients reached\r\n";
        let _gone = accepted.stream.write_all(text).await;
    }
}

/// Binds and serves until `shutdown` completes.
pub async fn serve(
    settings: Settings,
    proxy: Proxy,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    Listener::bind(settings).await?.serve(proxy, clock, metrics, shutdown).await;
    Ok(())
}
