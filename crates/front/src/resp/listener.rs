//! The listener: binds, admits connections up to the limit, stops in an orderly way.

use super::client::Server;
use super::connection::Connection;
use super::janitor;
use super::keyspace::Bounds;
use super::limits::Limits;
use super::watcher::Watcher;
use fogbank_env::{Clock, Metrics};
use fogbank_tls::{TlsFiles, acceptor};
use fogbank_txn::Proxy;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A client that does not finish its TLS greeting by then is let go.
const GREETING_NANOS_MAX: u64 = 10_000_000_000;
/// How long to wait when the system has no file descriptor left for a connection.
const EXHAUSTED_PAUSE_NANOS: u64 = 50_000_000;

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

/// Why the front end could not listen, by blame.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else listens there.
    #[error("{0} is taken by another program")]
    AddressInUse(SocketAddr),
    /// The system does not let us listen there.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] fogbank_tls::Error),
}

/// A bound front end that has not begun to serve.
pub struct Listener {
    settings: Settings,
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    watcher: Option<Arc<dyn Watcher>>,
}

impl Listener {
    /// Binds, and reads the TLS files if there are any.
    pub async fn bind(settings: Settings) -> Result<Self, Error> {
        let tls = settings.tls.as_ref().map(|files| acceptor(files, &[])).transpose()?;
        let address = settings.address;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => Error::AddressInUse(address),
            _ => Error::Bind { address, source },
        };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { settings, socket, address, tls, watcher: None })
    }

    /// The same, and `watcher` is told what clients ask.
    pub fn watched_by(self, watcher: Option<Arc<dyn Watcher>>) -> Self {
        Self { watcher, ..self }
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
        });
        let port = self.address.port();
        let mut server = Server::new(&self.settings, port, bounds.clone(), clock.clone(), metrics);
        server.watcher = self.watcher.clone();
        // One epoch is being committed, one is open and one arrives.
        let epochs = 3 * limits.records_written_max.saturating_mul(limits.block_bytes);
        server.limits.waiting_bytes_max = server.limits.waiting_bytes_max.max(epochs);
        let server = Arc::new(server);
        let (stop, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let default = (limits.records_written_max / 8).max(1);
        let quota = self.settings.reclaim_quota.unwrap_or(default);
        let janitor =
            tokio::spawn(janitor::clean(proxy.clone(), bounds, quota, clock, stopping.clone()));
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, peer)) => self.admit(&mut tasks, &server, &proxy, &stopping, stream, peer),
                    Err(error) => {
                        tracing::warn!(%error, "no connection could be accepted");
                        let clock = &server.clock;
                        clock.sleep_until(clock.now() + EXHAUSTED_PAUSE_NANOS).await;
                    }
                },
                Some(_) = tasks.join_next() => {}
            }
        }
        drop(self.socket);
        // Receivers that are gone need not be told.
        let _all_gone = stop.send(true);
        while tasks.join_next().await.is_some() {}
        let _ended = janitor.await;
    }

    fn admit(
        &self,
        tasks: &mut JoinSet<()>,
        server: &Arc<Server>,
        proxy: &Proxy,
        stopping: &watch::Receiver<bool>,
        stream: TcpStream,
        peer: SocketAddr,
    ) {
        let full = tasks.len() >= self.settings.limits.connections_max;
        let admitted = Admitted {
            server: server.clone(),
            tls: self.tls.clone(),
            stopping: stopping.clone(),
            stream,
            peer,
        };
        if full {
            // Not counted among the connections, and gone at once.
            tokio::spawn(admitted.turn_away());
        } else {
            tasks.spawn(admitted.serve(proxy.clone()));
        }
    }
}

/// A connection that has been accepted.
struct Admitted {
    server: Arc<Server>,
    tls: Option<TlsAcceptor>,
    stopping: watch::Receiver<bool>,
    stream: TcpStream,
    peer: SocketAddr,
}

impl Admitted {
    async fn serve(self, proxy: Proxy) {
        // Without it small replies wait for acknowledgements; a failure costs only time.
        let _slower = self.stream.set_nodelay(true);
        let clock = self.server.clock.clone();
        let connection = Connection::new(self.server, proxy.session(), self.peer.to_string());
        let ended = match self.tls {
            None => connection.run(self.stream, self.stopping).await,
            Some(tls) => {
                let greeting = tls.accept(self.stream);
                let late = clock.sleep_until(clock.now() + GREETING_NANOS_MAX);
                let stream = tokio::select! {
                    stream = greeting => stream,
                    () = late => Err(io::ErrorKind::TimedOut.into()),
                };
                match stream {
                    Ok(stream) => connection.run(stream, self.stopping).await,
                    Err(error) => Err(error),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }

    async fn turn_away(mut self) {
        if self.tls.is_none() {
            let text = b"-ERR max number of clients reached\r\n";
            let _gone = self.stream.write_all(text).await;
        }
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
