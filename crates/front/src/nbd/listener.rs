//! The listener: binds, lets clients shake hands and take the disk, stops in an orderly way.

use super::connection::Connection;
use super::disk::Disk;
use super::export::Export;
use super::handshake::Terms;
use super::limits::Limits;
use crate::listening::{Accepted, Error, Place, Socket, receive};
use fogbank_env::Clock;
use fogbank_oram::ImmediateEngine;
use fogbank_tls::{TlsFiles, acceptor};
use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// How the front end is to listen and what it allows. Plain values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen.
    pub place: Place,
    /// The name of the disk; clients may also leave it out.
    pub name: String,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether clients may trim; what is trimmed reads as zeros, and costs what writing zeros
    /// costs.
    pub trim: bool,
    /// TLS, which clients must then speak.
    pub tls: Option<TlsFiles>,
    /// Bounds on clients.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            place: Place::Tcp(([127, 0, 0, 1], 10809).into()),
            name: String::new(),
            read_only: false,
            trim: false,
            tls: None,
            limits: Limits::default(),
        }
    }
}

/// A bound front end that has not begun to serve.
pub struct Listener {
    settings: Settings,
    socket: Socket,
    tls: Option<TlsAcceptor>,
}

/// What all connections share.
struct Server {
    disk: Arc<Disk>,
    export: Export,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    clock: Arc<dyn Clock>,
}

impl Listener {
    /// Binds, and reads the TLS files if there are any.
    pub async fn bind(settings: Settings) -> Result<Self, Error> {
        let tls = settings.tls.as_ref().map(|files| acceptor(files, &[])).transpose()?;
        let socket = Socket::bind(&settings.place).await?;
        Ok(Self { settings, socket, tls })
    }

    /// Where it listens.
    pub fn place(&self) -> Place {
        self.socket.place()
    }

    /// Whether clients have to speak TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves `engine` until `shutdown` completes, then answers what was taken and returns.
    pub async fn serve(
        self,
        engine: Arc<dyn ImmediateEngine>,
        clock: Arc<dyn Clock>,
        shutdown: impl Future<Output = ()>,
    ) {
        let connections_max = self.settings.limits.connections_max;
        let server = Arc::new(Server::new(self.settings, self.tls, engine, clock.clone()));
        let (stop, _) = watch::channel(false);
        let serve = |accepted| converse(server.clone(), accepted);
        let turn_away = |_| async {};
        receive(self.socket, &*clock, connections_max, stop, shutdown, serve, turn_away).await;
    }
}

/// One connection. Once the server stops it has a while to end.
async fn converse(server: Arc<Server>, accepted: Accepted) -> io::Result<()> {
    let mut stopping = accepted.stopping.clone();
    let drained = async {
        // A sender that is gone stops us as well.
        let _stopped = stopping.wait_for(|stopping| *stopping).await.map(drop);
        let clock = &server.clock;
        clock.sleep_until(clock.now().saturating_add(server.limits.drain_nanos_max)).await;
    };
    tokio::select! {
        ended = server.serve(accepted) => ended,
        () = drained => Err(io::Error::other("the client did not take its replies in time")),
    }
}

impl Server {
    fn new(
        settings: Settings,
        tls: Option<TlsAcceptor>,
        engine: Arc<dyn ImmediateEngine>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let Settings { name, read_only, trim, limits, .. } = settings;
        let disk = Arc::new(Disk::new(engine, &limits));
        let export = disk.export(name, &limits, read_only, trim);
        Self { disk, export, limits, tls, clock }
    }

    async fn serve(&self, accepted: Accepted) -> io::Result<()> {
        let Accepted { stream, mut stopping, peer } = accepted;
        let terms = Terms {
            export: &self.export,
            tls: self.tls.as_ref(),
            limits: &self.limits,
            clock: &*self.clock,
        };
        let taken = tokio::select! {
            taken = terms.shake(stream) => taken?,
            // Nothing was promised yet.
            _ = async { stopping.wait_for(|stopping| *stopping).await.map(drop) } => None,
        };
        let Some(taken) = taken else { return Ok(()) };
        tracing::debug!(peer, "a client has taken the disk");
        let _here = self.disk.attend();
        let rules = self.export.rules(taken.structured);
        let (disk, clock) = (self.disk.clone(), self.clock.clone());
        Connection::new(taken, disk, rules, &self.limits, clock, stopping).run().await
    }
}

/// Binds and serves until `shutdown` completes.
pub async fn serve(
    settings: Settings,
    engine: Arc<dyn ImmediateEngine>,
    clock: Arc<dyn Clock>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    Listener::bind(settings).await?.serve(engine, clock, shutdown).await;
    Ok(())
}

/// Serves one client over a stream of its own, in clear, until it goes: where there is no network,
/// as in virtual time.
///
/// # Errors
/// Those of the stream, and of a client that does not keep to the protocol.
pub async fn serve_stream(
    settings: Settings,
    engine: Arc<dyn ImmediateEngine>,
    clock: Arc<dyn Clock>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let server = Arc::new(Server::new(settings, None, engine, clock));
    let (_never, stopping) = watch::channel(false);
    converse(server, Accepted { stream: Box::new(stream), peer: "a stream".into(), stopping }).await
}
