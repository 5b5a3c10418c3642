//! The server: a folder, a port, connections up to a bound.
//!
//! ```text
//! DATA/identity    certificate and key, PEM          made at the first start, 0600
//! DATA/token       64 hexadecimal digits             made at the first start, 0600
//! DATA/address     the line for the proxy            written at every start, 0600
//! DATA/stores/     what is held (`held`)
//! ```
//! Who has not shown the token yet is counted apart, has a few seconds and may send one frame: so
//! strangers cannot take the places of those who have. Anything unexpected ends the connection.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fogbank_env::{Clock, FolderLock, Nanos, by, compute};
use fogbank_tls::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::held::HeldFiles;
use crate::wire::{Reply, Request, read_body, read_length, send};
use crate::{PeerAddress, Token};

/// Stores whose register a server keeps.
const STORES_MAX: usize = 256;
/// Connections of those who have shown the token, and of those who have not yet.
const CONNECTIONS_MAX: usize = 128;
const GREETINGS_MAX: usize = 32;
/// How long a stranger has to show the token.
const GREETING_NANOS_MAX: Nanos = 5_000_000_000;
/// How long a connection may be silent, and how long a frame and its answer may take.
const IDLE_NANOS_MAX: Nanos = 600_000_000_000;
const FRAME_NANOS_MAX: Nanos = 5_000_000_000;
/// How long to wait when the system has no file descriptor left for a connection.
const EXHAUSTED_PAUSE_NANOS: Nanos = 50_000_000;

/// Why a server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process has the folder.
    #[error("another fogbank process is using {0}; stop it first, or choose another --data")]
    InUse(PathBuf),
    /// A file or the folder cannot be used.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] fogbank_tls::Error),
    /// The port cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The port was had, and nobody knows which it is.
    #[error("the address of a port is not known: {0}")]
    Listening(io::Error),
}

/// What those reach who show one token.
#[derive(Debug)]
pub struct Desk {
    token: Token,
    held: HeldFiles,
    places: Arc<Semaphore>,
}

impl Desk {
    /// For whoever shows `token`: what is held in `folder`, which is made if there is none, for up
    /// to `stores_max` stores and over up to `connections_max` connections.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(
        folder: &Path,
        token: Token,
        stores_max: usize,
        connections_max: usize,
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let held = HeldFiles::open(folder, stores_max)?;
        Ok(Self { token, held, places: Arc::new(Semaphore::new(connections_max)) })
    }
}

/// A server that does not listen yet.
pub struct RegisterServer {
    folder: PathBuf,
    desk: Desk,
    pin: Pin,
    tls: TlsAcceptor,
    lock: FolderLock,
}

impl RegisterServer {
    /// The server whose state is in `folder`, which is made if there is none.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn open(folder: &Path) -> Result<Self, ServerError> {
        let fault = |source| ServerError::File { path: folder.to_owned(), source };
        let lock = FolderLock::take(folder).map_err(fault)?;
        let lock = lock.ok_or_else(|| ServerError::InUse(folder.to_owned()))?;
        let (files, pin) = fogbank_tls::made(&folder.join("identity"))?;
        let path = folder.join("token");
        let token =
            Token::load_or_create(&path).map_err(|source| ServerError::File { path, source })?;
        let desk = Desk::open(&folder.join("stores"), token, STORES_MAX, CONNECTIONS_MAX);
        let desk = desk.map_err(fault)?;
        let tls = fogbank_tls::acceptor(&files, &[])?;
        Ok(Self { folder: folder.to_owned(), desk, pin, tls, lock })
    }

    /// Listens, and writes down where and how to be reached.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub async fn bind(self, listen: SocketAddr) -> Result<Bound, ServerError> {
        let socket = TcpListener::bind(listen).await;
        self.on(socket.map_err(|source| ServerError::Bind { address: listen, source })?)
    }

    /// The same at a port that is bound.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn on(self, socket: TcpListener) -> Result<Bound, ServerError> {
        let (token, path) = (self.desk.token.clone(), self.folder.join("address"));
        let desks = Desks::on(socket, self.tls, vec![self.desk])?;
        let address = PeerAddress { place: desks.address().to_string(), token, pin: self.pin };
        write_address(&path, &address)?;
        Ok(Bound { desks, address, path, _lock: self.lock })
    }
}

/// Writes down, for the proxy, how to be reached: a secret.
///
/// # Errors
/// [`ServerError::File`].
pub fn write_address(path: &Path, address: &PeerAddress) -> Result<(), ServerError> {
    let line = address.line().to_string() + "\n";
    let failed = |source| ServerError::File { path: path.to_owned(), source };
    fogbank_env::write_secret(path, line.as_bytes()).map_err(failed)
}

/// A server that listens and does not serve yet.
pub struct Bound {
    desks: Desks,
    address: PeerAddress,
    path: PathBuf,
    _lock: FolderLock,
}

impl Bound {
    /// How to be reached; its line is a secret.
    pub fn address(&self) -> &PeerAddress {
        &self.address
    }

    /// The file in which that line stands.
    pub fn address_file(&self) -> &Path {
        &self.path
    }

    /// As [`Desks::serve`].
    pub async fn serve(self, clock: Arc<dyn Clock>, stop: impl Future<Output = ()>) {
        self.desks.serve(clock, stop).await;
    }
}

/// A port at which those with any of some tokens are served, each at a desk of their own.
pub struct Desks {
    server: Arc<Serving>,
    tls: TlsAcceptor,
    socket: TcpListener,
    address: SocketAddr,
}

impl Desks {
    /// At a port that is bound.
    ///
    /// # Errors
    /// [`ServerError::Listening`].
    pub fn on(
        socket: TcpListener,
        tls: TlsAcceptor,
        desks: Vec<Desk>,
    ) -> Result<Self, ServerError> {
        let address = socket.local_addr().map_err(ServerError::Listening)?;
        Ok(Self { server: Arc::new(Serving { desks }), tls, socket, address })
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes. A call that was under way then is not answered; whether it is
    /// held is for its caller to find out.
    pub async fn serve(self, clock: Arc<dyn Clock>, stop: impl Future<Output = ()>) {
        let greetings = Arc::new(Semaphore::new(GREETINGS_MAX));
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => {
                        let Ok(permit) = greetings.clone().try_acquire_owned() else { continue };
                        let (server, tls) = (self.server.clone(), self.tls.clone());
                        let clock = clock.clone();
                        connections.spawn(async move {
                            if let Err(error) = server.serve(stream, tls, permit, &*clock).await {
                                tracing::debug!(%error, "a connection ended");
                            }
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no connection could be accepted");
                        clock.sleep_until(clock.now() + EXHAUSTED_PAUSE_NANOS).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        connections.shutdown().await;
    }
}

/// What all connections share.
struct Serving {
    desks: Vec<Desk>,
}

impl Serving {
    async fn serve(
        &self,
        stream: TcpStream,
        tls: TlsAcceptor,
        stranger: OwnedSemaphorePermit,
        clock: &dyn Clock,
    ) -> io::Result<()> {
        // Without it small replies wait for acknowledgements; a failure costs only time.
        let _slower = stream.set_nodelay(true);
        let greeted = by(clock, clock.now() + GREETING_NANOS_MAX, self.greet(stream, tls)).await;
        let (mut stream, desk, _known) = greeted.ok_or(ErrorKind::TimedOut)??;
        drop(stranger);
        loop {
            let next = by(clock, clock.now() + IDLE_NANOS_MAX, read_length(&mut stream)).await;
            let length = match next.ok_or(ErrorKind::TimedOut)? {
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(()), // it hung up
                length => length?,
            };
            let exchange = exchange(&desk.held, &mut stream, length);
            let done = by(clock, clock.now() + FRAME_NANOS_MAX, exchange).await;
            done.ok_or(ErrorKind::TimedOut)??;
        }
    }

    async fn greet(
        &self,
        stream: TcpStream,
        tls: TlsAcceptor,
    ) -> io::Result<(impl AsyncRead + AsyncWrite + Unpin + use<>, &Desk, OwnedSemaphorePermit)>
    {
        let mut stream = tls.accept(stream).await?;
        let length = read_length(&mut stream).await?;
        let frame = read_body(&mut stream, length).await?;
        let desk = match Request::decode(&frame) {
            Some(Request::Hello(shown)) => {
                self.desks.iter().find(|desk| desk.token.is(shown.bytes()))
            }
            _ => None,
        };
        let Some(desk) = desk else {
            let refused = Reply::Refused("the token is not this server's".into());
            send(&mut stream, &refused.frame()).await?;
            return Err(ErrorKind::PermissionDenied.into());
        };
        let Ok(permit) = desk.places.clone().try_acquire_owned() else {
            send(&mut stream, &Reply::Refused("it has too many clients".into()).frame()).await?;
            return Err(ErrorKind::ConnectionRefused.into());
        };
        send(&mut stream, &Reply::Welcome.frame()).await?;
        Ok((stream, desk, permit))
    }
}

async fn exchange(
    registers: &HeldFiles,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    length: usize,
) -> io::Result<()> {
    let frame = read_body(stream, length).await?;
    let done = compute(|| match Request::decode(&frame) {
        Some(Request::Read(name, promise)) => Some(registers.read(&name, promise)),
        Some(Request::Write(name, stamp, value)) => Some(registers.write(&name, stamp, value)),
        Some(Request::Hello(_)) | None => None,
    });
    let reply = match done.ok_or(ErrorKind::InvalidData)? {
        Ok(held) => Reply::Held(held),
        Err(error) => {
            tracing::error!(%error, "a register cannot be kept");
            Reply::Refused(format!("it cannot keep the register: {error}"))
        }
    };
    send(stream, &reply.frame()).await
}
