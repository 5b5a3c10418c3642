//! A connection to a server: by TLS to the one certificate that is pinned, and who calls.

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fogbank_env::{Clock, Nanos, by};
use fogbank_store::{Result, StoreError};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, rustls};
use tonic::body::Body;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status};

use crate::credentials::{Address, Credentials};
use crate::server::TENANT_HEADER;
use crate::wire::MESSAGE_BYTES_MAX;

/// Where a server is, and what is shown to it.
#[derive(Clone)]
pub struct Dial {
    /// `HOST:PORT`.
    pub place: String,
    /// Which file says what is shown, and which certificate is the right one.
    credentials: Option<PathBuf>,
    bearer: MetadataValue<Ascii>,
    tenant: MetadataValue<Ascii>,
    connector: TlsConnector,
}

impl Dial {
    /// The server at `address`, with these credentials.
    ///
    /// # Errors
    /// [`StoreError::Caller`] if they cannot stand in a header.
    pub fn new(address: &Address, credentials: &Credentials) -> Result<Self> {
        let wrong = |what: &str| StoreError::Caller(format!("{what} cannot stand in a header"));
        let bearer = format!("Bearer {}", *credentials.token.digits());
        let mut bearer: MetadataValue<_> = bearer.parse().map_err(|_| wrong("the token"))?;
        bearer.set_sensitive(true);
        let tenant = address.tenant.parse().map_err(|_| wrong("the tenant"))?;
        let connector = fogbank_tls::connector(credentials.pin, &["h2"])
            .map_err(|e| StoreError::Caller(format!("TLS cannot be spoken: {e}")))?;
        let (place, credentials) = (address.place.clone(), credentials.file.clone());
        Ok(Self { place, credentials, bearer, tenant, connector })
    }

    /// Says in the header of a call who calls.
    pub fn sign<T>(&self, asked: &mut tonic::Request<T>) {
        asked.metadata_mut().insert("authorization", self.bearer.clone());
        asked.metadata_mut().insert(TENANT_HEADER, self.tenant.clone());
    }

    /// Makes a connection.
    ///
    /// # Errors
    /// [`StoreError::Absent`]; [`StoreError::Misbehaved`] if the certificate is another one.
    pub async fn connect(&self) -> Result<Channel> {
        let lost = |e: std::io::Error| self.absent(e);
        let stream = TcpStream::connect(&self.place).await.map_err(lost)?;
        // Without it small requests wait for acknowledgements; a failure costs only time.
        let _slower = stream.set_nodelay(true);
        let name = ServerName::try_from(fogbank_tls::SERVER_NAME)
            .map_err(|e| StoreError::Caller(e.to_string()))?;
        let stream = BufReader::with_capacity(READ_BYTES, stream);
        let stream = self.connector.connect(name, stream).await.map_err(|e| {
            match e.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    StoreError::Misbehaved(self.is_another())
                }
                _ => lost(e),
            }
        })?;
        let made = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(MESSAGE_BYTES_MAX as u32)
            .max_send_buf_size(SEND_BYTES)
            .max_header_list_size(HEADER_BYTES_MAX)
            .keep_alive_interval(ALIVE_INTERVAL)
            .keep_alive_timeout(ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = made.map_err(|e| self.absent(e))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a server ended");
            }
        });
        Ok(Channel(sender))
    }

    /// A connection that `greeted` makes, its first answer included, unless that takes too long.
    ///
    /// # Errors
    /// Those of `greeted`; [`StoreError::Absent`].
    pub async fn in_time(
        &self,
        clock: &dyn Clock,
        greeted: impl Future<Output = Result<Channel>>,
    ) -> Result<Channel> {
        let made = by(clock, clock.now() + CONNECT_NANOS_MAX, greeted).await;
        made.unwrap_or_else(|| Err(self.absent("it does not answer")))
    }

    /// The server shows another certificate than the credentials say.
    fn is_another(&self) -> String {
        let file = self.credentials.as_ref().map_or(String::new(), |file| {
            format!(
                " by {}: that file is of another server, or somebody else answers there",
                file.display()
            )
        });
        format!("{}: {NOT_PINNED}{file}", self.place)
    }

    /// The server, and the file by which it knows the caller if it says that it does not.
    pub fn place_of(&self, status: &Status) -> String {
        match &self.credentials {
            Some(file) if status.code() == Code::Unauthenticated => {
                format!("{} by {}", self.place, file.display())
            }
            _ => self.place.clone(),
        }
    }

    /// It does not answer, and why.
    pub fn absent(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::Absent(format!("{}: {why}", self.place))
    }
}

/// A connection that is kept.
#[derive(Default)]
pub struct Lane(tokio::sync::Mutex<Option<Channel>>);

impl Lane {
    /// The connection, made again by `connect` if it is lost. Who comes meanwhile waits.
    ///
    /// # Errors
    /// Those of `connect`.
    pub async fn channel(&self, connect: impl Future<Output = Result<Channel>>) -> Result<Channel> {
        let mut kept = self.0.lock().await;
        if let Some(channel) = kept.as_ref().filter(|channel| !channel.is_closed()) {
            return Ok(channel.clone());
        }
        *kept = None;
        let channel = connect.await?;
        Ok(kept.insert(channel).clone())
    }
}

/// One connection, as tonic wants it.
#[derive(Clone)]
pub struct Channel(SendRequest<Body>);

impl Channel {
    /// Whether it has ended.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl tower_service::Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future =
        Pin<Box<dyn Future<Output = std::result::Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<std::result::Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(http::uri::Scheme::HTTPS);
        parts.authority = Some(http::uri::Authority::from_static(fogbank_tls::SERVER_NAME));
        // All three parts are there, which is all that can be wrong.
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        Box::pin(self.0.send_request(request))
    }
}

/// What is said of a server that shows another certificate.
pub const NOT_PINNED: &str = "its certificate is not the one pinned";
/// How long connecting may take, the first answer included.
const CONNECT_NANOS_MAX: Nanos = 10_000_000_000;
const READ_BYTES: usize = 64 << 10;
const STREAM_WINDOW_BYTES: u32 = 32 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
const SEND_BYTES: usize = 1 << 20;
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// A connection is asked so often whether it lives, and has so long to say so.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
