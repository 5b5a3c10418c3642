//! The server: a folder, a port, connections up to a bound.
//!
//! ```text
//! DATA/identity     certificate and key, PEM      made at the first start unless files are given, 0600
//! DATA/lock         held while it serves
//! DATA/tenants/     who may use it (`tenant`)
//! ```
//! 1. *stranger*: a connection has a few seconds for TLS and some more to make a call with a token;
//!    strangers are counted apart, so that they cannot take the places of tenants;
//! 2. *tenant*: the first call binds the connection to its tenant, whose connections are counted; a
//!    call for another tenant is refused. Silent connections are asked whether they live;
//! 3. *stop*: no more connections and no more calls; what was begun is answered, within a bound,
//!    and then the connections close.

use std::convert::Infallible;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER_PERMISSIVE;
use fogbank_env::{Clock, FolderLock, Metrics, Mutex, Nanos, Purpose, Randomness, by};
use fogbank_mix::KeptRoom;
use fogbank_objects::{Environment, ObjectsUrl};
use fogbank_peer::{Desks, PeerAddress, write_address};
use fogbank_store::{PlaceHashing, StoreError};
use fogbank_tls::{Pin, TlsFiles};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;

use crate::bucket;
use crate::codec::Pieces;
use crate::figures::Figures;
use crate::log;
use crate::mix::{ACROSS_PATH, MixDesk, SESSION_PATH};
use crate::pool::{Pool, Room};
use crate::service::{Desk, Spoken};
use crate::tenant::{Announced, Common, Keeping, Overlay, Share, Tenant, Tenants};
use crate::wire::{MESSAGE_BYTES_MAX, PATH};

/// Why a server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process has the folder.
    #[error("another fogbank-cloud is using {0}; stop it first, or choose another --data")]
    InUse(PathBuf),
    /// What was recorded before is there.
    #[error("{0} is there already, and may hold traces; choose a new folder for --record")]
    Recorded(PathBuf),
    /// A tenant has its store in a bucket, and all are to be in memory.
    #[error(
        "tenant {tenant} has its store at {store}, which no server with --memory serves: leave \
         --memory out, or choose another --data"
    )]
    InBucket {
        /// Which.
        tenant: String,
        /// Where.
        store: ObjectsUrl,
    },
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
}

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Its folder.
    pub data: PathBuf,
    /// Where tenants keep what they keep.
    pub keeping: Keeping,
    /// A certificate to use instead of one of its own.
    pub tls: Option<TlsFiles>,
    /// What each tenant may use at once.
    pub share: Share,
    /// Connections of tenants, and of strangers.
    pub connections_max: usize,
    /// Of strangers.
    pub strangers_max: usize,
    /// Bytes of memory for connections, requests and answers of all tenants and strangers together.
    pub work_bytes_max: u64,
    /// Bytes of memory for levels of volumes in two clouds that it keeps for its shufflers, of all
    /// tenants together.
    pub kept_bytes_max: u64,
    /// Servers, `HOST:PORT`, with which it mixes if a client asks for it. A client can make it
    /// connect to no others.
    pub mixes_with: Vec<String>,
    /// A new folder, into which it writes what comes to volumes of two clouds: a trace of each
    /// tenant.
    pub record: Option<PathBuf>,
    /// What lies over the stores of tenants: nothing, unless somebody measures.
    pub overlay: Option<Arc<dyn Overlay>>,
    /// The credentials for the buckets of tenants that have one.
    pub environment: Environment,
}

impl ServerSettings {
    /// The usual bounds.
    pub fn new(data: &Path, keeping: Keeping) -> Self {
        let (share, data) = (Share::default(), data.to_owned());
        Self {
            data,
            keeping,
            tls: None,
            share,
            connections_max: 512,
            strangers_max: 64,
            work_bytes_max: WORK_BYTES,
            kept_bytes_max: KEPT_BYTES,
            mixes_with: Vec::new(),
            record: None,
            overlay: None,
            environment: Environment::of_process(),
        }
    }
}

/// The certificate of the server in `data`, and its pin; made if there is none and none is given.
///
/// # Errors
/// See [`ServerError`].
pub fn identity(data: &Path, given: Option<&TlsFiles>) -> Result<(TlsFiles, Pin), ServerError> {
    let fault = |source| ServerError::File { path: data.to_owned(), source };
    if let Some(files) = given {
        return Ok((files.clone(), Pin::of_file(&files.certificate)?));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(fault)?;
    Ok(fogbank_tls::made(&data.join("identity"))?)
}

/// A server that listens and does not serve yet.
pub struct CloudServer {
    serving: Arc<Serving>,
    tls: TlsAcceptor,
    socket: TcpListener,
    address: SocketAddr,
    pin: Pin,
    tenants: Announced,
    memory: Arc<Pool>,
    data: PathBuf,
    files: TlsFiles,
    _lock: FolderLock,
}

impl CloudServer {
    /// Takes the port and the folder.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub async fn bind(
        settings: ServerSettings,
        listen: SocketAddr,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Bind { address: listen, source };
        let socket = TcpListener::bind(listen).await.map_err(failed)?;
        Self::on(settings, socket, clock, metrics)
    }

    /// The same at a port that is bound.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn on(
        settings: ServerSettings,
        socket: TcpListener,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Result<Self, ServerError> {
        let fault = |source| ServerError::File { path: settings.data.clone(), source };
        let (files, pin) = identity(&settings.data, settings.tls.as_ref())?;
        let lock = lock(&settings.data)?;
        if settings.keeping == Keeping::Memory {
            let in_buckets = bucket::all(&settings.data).map_err(fault)?;
            if let Some((tenant, store)) = in_buckets.into_iter().next() {
                return Err(ServerError::InBucket { tenant, store });
            }
        }
        let tls = fogbank_tls::acceptor(&files, &["h2"])?;
        let random = Randomness::from_seed(fogbank_tls::fresh_seed().map_err(fault)?);
        let hashing = PlaceHashing::keyed(&mut random.stream(Purpose::Incarnation));
        // A stranger has no account: room for all of them is set aside.
        let strangers = settings.strangers_max as u64 * STRANGER_BYTES;
        let memory = Pool::new(settings.work_bytes_max.saturating_sub(strangers));
        let connections = Pool::new(settings.connections_max as u64);
        let (memory_of, overlay) = (memory.clone(), settings.overlay.clone());
        let kept = KeptRoom::new(settings.kept_bytes_max);
        let (environment, clock_of) = (settings.environment, clock.clone());
        let common = Common {
            hashing,
            memory: memory_of,
            connections,
            kept,
            overlay,
            environment,
            clock: clock_of,
        };
        let tenants = Tenants::new(&settings.data, settings.keeping, settings.share, common);
        let found = tenants.announce(pin).map_err(fault)?;
        let address = socket.local_addr().map_err(fault)?;
        if let Some(folder) = &settings.record {
            let made = DirBuilder::new().mode(0o700).create(folder);
            made.map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => ServerError::Recorded(folder.clone()),
                _ => ServerError::File { path: folder.clone(), source },
            })?;
        }
        let serving = Arc::new(Serving {
            tenants,
            clock,
            figures: Arc::new(Figures::new(metrics)),
            strangers: Arc::new(Semaphore::new(settings.strangers_max)),
            mixes_with: settings.mixes_with.into(),
            record: settings.record.map(Into::into),
        });
        Ok(Self {
            serving,
            tls,
            socket,
            address,
            pin,
            tenants: found,
            memory,
            data: settings.data,
            files,
            _lock: lock,
        })
    }

    /// Freshness registers, for the tenants that are there now, at a port of their own that is
    /// bound. Their proxies find where in the file `register` of each.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn registers(&self, socket: TcpListener) -> Result<Desks, fogbank_peer::ServerError> {
        let folder = &self.data;
        let fault = |source| fogbank_peer::ServerError::File { path: folder.clone(), source };
        let tls = fogbank_tls::acceptor(&self.files, &[])?;
        let (mut desks, mut lines) = (Vec::new(), Vec::new());
        for (token, path, desk) in self.serving.tenants.registers().map_err(fault)? {
            desks.push(desk);
            lines.push((token, path));
        }
        let desks = Desks::on(socket, tls, desks)?;
        let place = desks.address().to_string();
        for (token, path) in lines {
            write_address(&path, &PeerAddress { place: place.clone(), token, pin: self.pin })?;
        }
        Ok(desks)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its certificate's.
    pub fn pin(&self) -> Pin {
        self.pin
    }

    /// The memory that connections and calls take their part of.
    pub fn memory(&self) -> Arc<Pool> {
        self.memory.clone()
    }

    /// Tenants that there were at the start.
    pub fn tenants(&self) -> Announced {
        self.tenants
    }

    /// Serves until `stop` completes and what was begun is answered.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let (stopping, told) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        let clock = self.serving.clock.clone();
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => {
                        let Ok(permit) = self.serving.strangers.clone().try_acquire_owned() else {
                            self.serving.figures.turned_away.add(1);
                            continue;
                        };
                        let (serving, tls) = (self.serving.clone(), self.tls.clone());
                        connections.spawn(serving.connection(stream, tls, permit, told.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no connection could be accepted");
                        clock.sleep_until(clock.now() + EXHAUSTED_PAUSE_NANOS).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.socket);
        stopping.send_replace(true);
        let rest = async { while connections.join_next().await.is_some() {} };
        let _unanswered = by(&*clock, clock.now() + STOP_NANOS_MAX, rest).await;
        connections.shutdown().await;
    }
}

fn lock(data: &Path) -> Result<FolderLock, ServerError> {
    let fault = |source| ServerError::File { path: data.to_owned(), source };
    FolderLock::take(data).map_err(fault)?.ok_or_else(|| ServerError::InUse(data.to_owned()))
}

/// What all connections share.
struct Serving {
    tenants: Tenants,
    clock: Arc<dyn Clock>,
    figures: Arc<Figures>,
    strangers: Arc<Semaphore>,
    mixes_with: Arc<[String]>,
    record: Option<Arc<Path>>,
}

/// One connection's standing.
struct Visit {
    /// Until it has shown a token.
    stranger: Mutex<Option<OwnedSemaphorePermit>>,
    standing: tokio::sync::Mutex<Option<Standing>>,
    stalled: Arc<Notify>,
    stopping: watch::Receiver<bool>,
    /// Calls that are not over. A client that takes its calls back opens others at once, and those
    /// it took back may still be at work.
    calls: Arc<Semaphore>,
    refusals: AtomicU32,
}

/// Whose connection it is, and its places among the server's and the tenant's.
struct Standing {
    name: String,
    /// Whether it has shown no more than may mix.
    to_mix: bool,
    tenant: Arc<Tenant>,
    _place: OwnedSemaphorePermit,
    _rooms: [Room; 2],
}

impl Serving {
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        tls: TlsAcceptor,
        permit: OwnedSemaphorePermit,
        told: watch::Receiver<bool>,
    ) {
        // Without it small replies wait for acknowledgements; a failure costs only time.
        let _slower = stream.set_nodelay(true);
        let clock = self.clock.clone();
        let stream = BufReader::with_capacity(READ_BYTES, stream);
        let accepted = by(&*clock, clock.now() + TLS_NANOS_MAX, tls.accept(stream)).await;
        let Some(Ok(stream)) = accepted else {
            self.figures.turned_away.add(1);
            return;
        };
        let visit = Arc::new(Visit {
            stranger: Mutex::new(Some(permit)),
            standing: tokio::sync::Mutex::default(),
            stalled: Arc::default(),
            stopping: told.clone(),
            calls: Arc::new(Semaphore::new(CALLS_MAX as usize)),
            refusals: AtomicU32::new(0),
        });
        if let Err(error) = self.clone().converse(stream, visit, told).await {
            tracing::debug!(%error, "a connection ended");
        }
    }

    async fn converse(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        visit: Arc<Visit>,
        mut told: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let (serving, visitor) = (self.clone(), visit.clone());
        let service = service_fn(move |request| {
            let (serving, visitor) = (serving.clone(), visitor.clone());
            async move { Ok::<_, Infallible>(serving.answer(request, &visitor).await) }
        });
        let mut connection = pin!(
            http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_frame_size(FRAME_BYTES)
                .max_send_buf_size(SEND_BYTES)
                .max_concurrent_streams(CALLS_MAX)
                .max_header_list_size(HEADER_BYTES_MAX)
                .keep_alive_interval(ALIVE_INTERVAL)
                .keep_alive_timeout(ALIVE_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
        );
        let clock = self.clock.clone();
        let mut token_by = pin!(clock.sleep_until(clock.now() + TOKEN_NANOS_MAX));
        let (mut known, mut closing) = (false, false);
        loop {
            tokio::select! {
                over = &mut connection => return over.map_err(io::Error::other),
                () = visit.stalled.notified() => return Err(ErrorKind::TimedOut.into()),
                () = &mut token_by, if !known => {
                    known = visit.stranger.lock().is_none();
                    if !known {
                        self.figures.turned_away.add(1);
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                _ = told.wait_for(|stop| *stop), if !closing => {
                    closing = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>, visit: &Visit) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let admitted = match &path[..] {
            PATH | log::PATH | SESSION_PATH | ACROSS_PATH => {
                self.admit(&request, visit, path == ACROSS_PATH).await
            }
            _ => Err(Status::unimplemented("that is not spoken here")),
        };
        let tenant = match admitted {
            Ok(tenant) => tenant,
            Err(status) => {
                self.figures.turned_away.add(1);
                if visit.refusals.fetch_add(1, Ordering::Relaxed) >= REFUSALS_MAX {
                    visit.stalled.notify_one();
                }
                return status.into_http();
            }
        };
        let Ok(call) = visit.calls.clone().try_acquire_owned() else {
            return Status::resource_exhausted("too many calls on a connection").into_http();
        };
        let (clock, figures, call) = (self.clock.clone(), self.figures.clone(), Arc::new(call));
        let pieces = if path == ACROSS_PATH { Pieces::single() } else { Pieces::many() };
        let mut grpc = Grpc::new(pieces)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        if [SESSION_PATH, ACROSS_PATH].contains(&&path[..]) {
            let (is_across, mixes_with) = (path == ACROSS_PATH, self.mixes_with.clone());
            let (record, stopping) = (self.record.clone(), visit.stopping.clone());
            let desk =
                MixDesk { clock, figures, tenant, is_across, mixes_with, record, stopping, call };
            return grpc.streaming(desk, request.map(Body::new)).await;
        }
        let (stalled, stopping) = (visit.stalled.clone(), visit.stopping.clone());
        let spoken = if path == PATH { Spoken::Store } else { Spoken::Log };
        let desk = Desk { clock, figures, tenant, spoken, stopping, stalled, _call: call };
        grpc.streaming(desk, request.map(Body::new)).await
    }

    /// The tenant whose token the request shows; to mix, the token that follows from it.
    async fn admit(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
        to_mix: bool,
    ) -> Result<Arc<Tenant>, Status> {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let unknown = || Status::unauthenticated(UNKNOWN_TENANT);
        let name = header(TENANT_HEADER).ok_or_else(unknown)?;
        let shown = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let shown = shown.and_then(|digits| HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok());
        let entered = self.tenants.enter(name, &shown.ok_or_else(unknown)?, to_mix).await;
        let tenant = entered.map_err(|e| {
            tracing::error!(tenant = name, error = %e, "a tenant cannot be opened");
            match e {
                StoreError::Refused(why) => Status::failed_precondition(why),
                StoreError::Misbehaved(_) => Status::data_loss("the tenant's store is spoiled"),
                _ => Status::unavailable("the tenant's store cannot be opened"),
            }
        })?;
        let tenant = tenant.ok_or_else(unknown)?;
        let mut standing = visit.standing.lock().await;
        match &*standing {
            Some(standing) if standing.name == name && standing.to_mix == to_mix => {
                return Ok(standing.tenant.clone());
            }
            Some(_) => return Err(Status::unauthenticated("the connection is another tenant's")),
            None => {}
        }
        let full = || Status::resource_exhausted("too many connections");
        let place = tenant.connections.clone().try_acquire_owned().map_err(|_| full())?;
        let rooms = [
            tenant.places.try_take(1).ok_or_else(full)?,
            tenant.memory.try_take(CONNECTION_BYTES).ok_or_else(full)?,
        ];
        self.figures.connections.add(1);
        *standing = Some(Standing {
            name: name.into(),
            to_mix,
            tenant: tenant.clone(),
            _place: place,
            _rooms: rooms,
        });
        drop(visit.stranger.lock().take());
        Ok(tenant)
    }
}

/// The header that says whose store is meant.
pub const TENANT_HEADER: &str = "fogbank-tenant";
/// What whoever shows another token is told.
pub const UNKNOWN_TENANT: &str = "no such tenant, or another token";

/// How long a stranger has for TLS, and then to show a token.
const TLS_NANOS_MAX: Nanos = 5_000_000_000;
const TOKEN_NANOS_MAX: Nanos = 10_000_000_000;
/// How long answers may take once the server is told to stop.
const STOP_NANOS_MAX: Nanos = 10_000_000_000;
/// How long to wait when the system has no file descriptor left for a connection.
const EXHAUSTED_PAUSE_NANOS: Nanos = 50_000_000;
/// A silent connection is asked whether it lives, and has so long to say so.
const ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Calls of a connection that are refused before it ends.
const REFUSALS_MAX: u32 = 8;
/// Calls of a connection at once.
const CALLS_MAX: u32 = 16;
const HEADER_BYTES_MAX: u32 = 8 << 10;
/// What may be on its way to the server: of a call, of a connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// What a stranger's connection can take: what is sent without being asked for, headers, buffers of
/// TLS.
const STRANGER_BYTES: u64 = CONNECTION_WINDOW_BYTES as u64 + (1 << 20);
/// A tenant's takes beside what its calls do: that, and the end of each answer on its way to the
/// network.
const CONNECTION_BYTES: u64 =
    STRANGER_BYTES + CALLS_MAX as u64 * (SEND_BYTES + MESSAGE_BYTES_MAX) as u64;
/// Unless something else is said.
const WORK_BYTES: u64 = 4 << 30;
const KEPT_BYTES: u64 = 1 << 30;
const FRAME_BYTES: u32 = MESSAGE_BYTES_MAX as u32;
/// What a call has ready for the network.
const SEND_BYTES: usize = 256 << 10;
/// TLS alone would read the network in small pieces.
const READ_BYTES: usize = 64 << 10;
