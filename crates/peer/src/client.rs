//! The way from a proxy to one server.
//!
//! One connection, kept; calls take turns on it. A call has until its deadline: if the connection
//! is lost it is made again and the same is asked again, which changes nothing that was done
//! already. What was not answered whole leaves no connection behind, so that no late reply is taken
//! for the next call's.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Nanos, by};
use fogbank_held::{Ballot, Held, PeerDown, RegisterPeer, Stamp};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, rustls};

use crate::PeerAddress;
use crate::wire::{Name, Reply, Request, read_body, read_length, send};

/// How long a call may take, connecting included.
const PATIENCE_NANOS: Nanos = 1_000_000_000;
/// How long to wait before connecting again.
const PAUSE_NANOS: Nanos = 50_000_000;

/// A server reached over TLS.
pub struct TlsPeer {
    address: PeerAddress,
    name: Name,
    connector: TlsConnector,
    clock: Arc<dyn Clock>,
    connection: Mutex<Option<TlsStream<TcpStream>>>,
}

/// Why a call did not come to its end.
enum Failure {
    /// It may if it is tried again.
    Lost(String),
    /// The server does not want it.
    Refused(String),
}

impl TlsPeer {
    /// The server at `address`, which keeps the register under `name`. Nothing is sent yet.
    ///
    /// # Errors
    /// If TLS cannot be spoken at all, which is a fault of ours.
    pub fn new(
        address: PeerAddress,
        name: Name,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, rustls::Error> {
        let connector = fogbank_tls::connector(address.pin, &[])?;
        Ok(Self { address, name, connector, clock, connection: Mutex::default() })
    }

    async fn call(&self, request: Request) -> Result<Held, PeerDown> {
        let deadline = self.clock.now() + PATIENCE_NANOS;
        let down = |why: String| Err(PeerDown(format!("{}: {why}", self.address.place)));
        let mut why = "no answer in time".to_owned();
        loop {
            match by(&*self.clock, deadline, self.once(&request)).await {
                Some(Ok(held)) => return Ok(held),
                Some(Err(Failure::Refused(reason))) => return down(reason),
                Some(Err(Failure::Lost(reason))) => why = reason,
                None => return down(why),
            }
            let again = self.clock.now() + PAUSE_NANOS;
            if again >= deadline {
                return down(why);
            }
            self.clock.sleep_until(again).await;
        }
    }

    async fn once(&self, request: &Request) -> Result<Held, Failure> {
        let mut kept = self.connection.lock().await;
        // Taken out: whatever ends this call before its reply also ends the connection.
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        match ask(&mut connection, request).await? {
            Reply::Held(held) => {
                *kept = Some(connection);
                Ok(held)
            }
            Reply::Refused(why) => Err(Failure::Refused(format!("the server says: {why}"))),
            Reply::Welcome => Err(Failure::Refused("it is no register server".into())),
        }
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>, Failure> {
        let lost = |e: std::io::Error| Failure::Lost(e.to_string());
        let stream = TcpStream::connect(&self.address.place).await.map_err(lost)?;
        // Without it small requests wait for acknowledgements; a failure costs only time.
        let _slower = stream.set_nodelay(true);
        let name = ServerName::try_from(fogbank_tls::SERVER_NAME)
            .map_err(|e| Failure::Refused(e.to_string()))?;
        let mut stream = self.connector.connect(name, stream).await.map_err(|e| {
            // Told apart from a network that fails: a certificate does not change by itself.
            match e.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    Failure::Refused("its certificate is not the one pinned".into())
                }
                Some(other) => Failure::Refused(format!("it does not speak TLS with us: {other}")),
                None => Failure::Lost(e.to_string()),
            }
        })?;
        match ask(&mut stream, &Request::Hello(self.address.token.clone())).await? {
            Reply::Welcome => Ok(stream),
            Reply::Refused(why) => Err(Failure::Refused(format!("the server says: {why}"))),
            Reply::Held(_) => Err(Failure::Refused("it is no register server".into())),
        }
    }
}

async fn ask(stream: &mut TlsStream<TcpStream>, request: &Request) -> Result<Reply, Failure> {
    let lost = |e: std::io::Error| Failure::Lost(e.to_string());
    send(stream, &request.frame()).await.map_err(lost)?;
    let length = read_length(stream).await.map_err(lost)?;
    let frame = read_body(stream, length).await.map_err(lost)?;
    Reply::decode(&frame).ok_or_else(|| Failure::Refused("it is no register server".into()))
}

#[async_trait]
impl RegisterPeer for TlsPeer {
    async fn read(&self, promise: Ballot) -> Result<Held, PeerDown> {
        self.call(Request::Read(self.name, promise)).await
    }

    async fn write(&self, stamp: Stamp, value: Bytes) -> Result<Held, PeerDown> {
        self.call(Request::Write(self.name, stamp, value)).await
    }
}
