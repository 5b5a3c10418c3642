//! How every front end listens: a TCP address or a socket in a folder, connections up to a limit,
//! an orderly end.
//!
//! 1. The place is bound before anything is promised, and TLS files are read.
//! 2. Every connection is a task. One more than the limit is turned away.
//! 3. When the shutdown comes, no more are accepted; each connection is told, and waited for.

use fogbank_env::{Clock, by};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// How long to wait when the system has no file descriptor left for a connection.
const EXHAUSTED_PAUSE_NANOS: u64 = 50_000_000;

/// Where a front end listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A TCP address; port 0 takes any.
    Tcp(SocketAddr),
    /// A socket at this path, for its owner only.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why a front end could not listen, by blame.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else listens there.
    #[error("{0} is taken by another program")]
    AddressInUse(Place),
    /// The system does not let us listen there.
    #[error("cannot listen on {place}: {source}")]
    Bind {
        /// Where.
        place: Place,
        /// What the system says.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] fogbank_tls::Error),
}

/// Whether this machine has that address: a socket is bound to any port of it and let go.
///
/// # Errors
/// What the system says if it has not.
pub fn is_of_this_machine(address: SocketAddr) -> io::Result<()> {
    std::net::TcpListener::bind((address.ip(), 0)).map(drop)
}

/// A stream of bytes, whatever carries it.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A place that is bound.
pub(crate) enum Socket {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Socket {
    /// Whether a socket could be bound there, if nobody else is.
    pub(crate) fn check(place: &Place) -> Result<(), Error> {
        match place {
            Place::Tcp(address) => is_of_this_machine(*address)
                .map_err(|source| Error::Bind { place: place.clone(), source }),
            Place::Unix(_) => Ok(()),
        }
    }

    /// Binds `place`.
    pub(crate) async fn bind(place: &Place) -> Result<Self, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => Error::AddressInUse(place.clone()),
            _ => Error::Bind { place: place.clone(), source },
        };
        match place {
            Place::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                Ok(Self::Tcp(listener, address))
            }
            Place::Unix(path) => {
                forget_stale(path).await.map_err(failed)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                let owner_only = std::fs::Permissions::from_mode(0o600);
                std::fs::set_permissions(path, owner_only).map_err(failed)?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Where it is.
    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Tcp(_, address) => Place::Tcp(*address),
            Self::Unix(_, path) => Place::Unix(path.clone()),
        }
    }

    async fn accept(&self) -> io::Result<(Box<dyn Wire>, String)> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, peer) = listener.accept().await?;
                // Without it small replies wait for acknowledgements; a failure costs only time.
                let _slower = stream.set_nodelay(true);
                Ok((Box::new(stream), peer.to_string()))
            }
            Self::Unix(listener, path) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), format!("unix:{}", path.display())))
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _gone_already = std::fs::remove_file(path);
        }
    }
}

/// A process that was killed leaves its socket behind, and nobody could bind there again.
async fn forget_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|at| at.file_type().is_socket());
    let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).await.is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// A connection that has been accepted.
pub(crate) struct Accepted {
    /// Its bytes.
    pub(crate) stream: Box<dyn Wire>,
    /// Where it comes from.
    pub(crate) peer: String,
    /// Turns true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// Accepts until `shutdown` completes; then `stop` turns true, and this waits for every connection.
pub(crate) async fn receive<S, T>(
    socket: Socket,
    clock: &dyn Clock,
    connections_max: usize,
    stop: watch::Sender<bool>,
    shutdown: impl Future<Output = ()>,
    serve: impl Fn(Accepted) -> S,
    turn_away: impl Fn(Accepted) -> T,
) where
    S: Future<Output = io::Result<()>> + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut has_told = false; // of those that came since there was room
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = socket.accept() => match accepted {
                Ok((stream, peer)) => {
                    let accepted = Accepted { stream, peer, stopping: stop.subscribe() };
                    if tasks.len() < connections_max {
                        tasks.spawn(ended(serve(accepted)));
                        has_told = false;
                    } else {
                        if !has_told {
                            tracing::warn!("all {connections_max} connections are taken");
                            has_told = true;
                        }
                        // Not counted among the connections, and gone at once.
                        tokio::spawn(turn_away(accepted));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    clock.sleep_until(clock.now() + EXHAUSTED_PAUSE_NANOS).await;
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    drop(socket);
    stop.send_replace(true);
    while tasks.join_next().await.is_some() {}
}

async fn ended(connection: impl Future<Output = io::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Greets in TLS. A client that has not finished by `deadline` is let go.
pub(crate) async fn greet(
    tls: &TlsAcceptor,
    stream: Box<dyn Wire>,
    clock: &dyn Clock,
    deadline: u64,
) -> io::Result<Box<dyn Wire>> {
    let greeted = by(clock, deadline, tls.accept(stream)).await;
    Ok(Box::new(greeted.ok_or(io::ErrorKind::TimedOut)??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_and_a_stale_one_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let place = Place::Unix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert!(path.exists(), "what a killed process leaves");
        let socket = Socket::bind(&place).await.expect("nobody listens there");
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = Socket::bind(&place).await;
        assert!(matches!(taken.err(), Some(Error::AddressInUse(at)) if at == place));
        drop(socket);
        assert!(!path.exists(), "it is taken away at the end");
        std::fs::write(&path, "a file of somebody's").expect("written");
        assert!(Socket::bind(&place).await.is_err());
        assert_eq!(std::fs::read(&path).expect("still there"), b"a file of somebody's");
    }
}
