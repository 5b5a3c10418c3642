//! A server in the middle that lies: it passes every call on to an honest one, over real gRPC and
//! TLS, and falsifies the answers to one operation as it is told to.

#![allow(dead_code)] // each program of tests uses its part

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fogbank_cloud::Credentials;
use fogbank_env::Mutex;
use fogbank_tls::Pin;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_stream::wrappers::ReceiverStream;

pub const CELLS: u8 = 2;
pub const CHUNKS: u8 = 3;
pub const WRITE: u8 = 4;
pub const LIST: u8 = 6;
pub const GET: u8 = 7;
pub const PUT: u8 = 8;
pub const NAMES: u8 = 10;
pub const BARRIER: u8 = 11;
pub const XOR: u8 = 12;

/// How an answer is falsified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// No bytes, and a good end.
    Nothing,
    /// The first half, and a good end.
    Half,
    /// All but the last byte.
    ByteLess,
    ByteMore,
    /// The whole answer a second time.
    Twice,
    /// Of cells: one fewer, one more than asked for, each shorter or longer by a byte.
    CellLess,
    CellMore,
    CellsShorter,
    CellsLonger,
    /// Two cells change places, or the first stands for the second too: only keys tell.
    Swapped,
    Repeated,
    /// Another kind of answer.
    OtherKind,
    /// Bytes that mean nothing.
    Noise,
    /// Counts and lengths of all ones.
    Ones,
    /// A message that says it is larger than any may be.
    HugeMessage,
    /// A message that says it is compressed.
    Compressed,
    /// Zeros without end, empty messages without end.
    Endless,
    EndlessNothing,
    /// Half, then the connection ends.
    Cut,
    /// Half, then nothing.
    Silent,
    /// The status of an error.
    Status(u8),
    /// A page of the web.
    Page,
}

type Body = StreamBody<ReceiverStream<Result<Frame<Bytes>, std::io::Error>>>;

pub struct Relay {
    pub address: SocketAddr,
    /// What its clients show and expect.
    pub credentials: Credentials,
    state: Arc<State>,
    _folder: tempfile::TempDir,
}

struct State {
    upstream: tokio::sync::Mutex<SendRequest<Full<Bytes>>>,
    lie: Mutex<Option<(u8, Lie)>>,
    told: AtomicU64,
    after: AtomicU64,
    changes: AtomicU64,
    sent: Arc<AtomicU64>,
}

impl Relay {
    /// In front of the server at `upstream`.
    pub async fn start(upstream: SocketAddr, credentials: &Credentials) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (files, pin) = fogbank_tls::made(&folder.path().join("identity")).unwrap();
        let state = Arc::new(State {
            upstream: tokio::sync::Mutex::new(connect(upstream, credentials.pin).await),
            lie: Mutex::default(),
            told: AtomicU64::new(0),
            after: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            sent: Arc::default(),
        });
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (tls, shared) = (fogbank_tls::acceptor(&files, &["h2"]).unwrap(), state.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let (tls, state) = (tls.clone(), shared.clone());
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = hyper::service::service_fn(move |request| {
                        let state = state.clone();
                        async move { Ok::<_, Infallible>(state.answer(request).await) }
                    });
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ended = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let credentials = Credentials { pin, ..credentials.clone() };
        Self { address, credentials, state, _folder: folder }
    }

    /// From now on, about every call of this operation.
    pub fn lie(&self, operation: u8, lie: Lie) {
        *self.state.lie.lock() = Some((operation, lie));
        self.state.told.store(0, Ordering::SeqCst);
        self.state.after.store(0, Ordering::SeqCst);
        self.state.changes.store(0, Ordering::SeqCst);
        self.state.sent.store(0, Ordering::SeqCst);
    }

    /// How many answers were falsified.
    pub fn told(&self) -> u64 {
        self.state.told.load(Ordering::SeqCst)
    }

    /// Calls that arrived after the first falsified answer.
    pub fn after(&self) -> u64 {
        self.state.after.load(Ordering::SeqCst)
    }

    /// Those of them that write or put.
    pub fn changes(&self) -> u64 {
        self.state.changes.load(Ordering::SeqCst)
    }

    /// Bytes of falsified answers that were taken.
    pub fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::SeqCst)
    }
}

async fn connect(address: SocketAddr, pin: Pin) -> SendRequest<Full<Bytes>> {
    let connector = fogbank_tls::connector(pin, &["h2"]).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(fogbank_tls::SERVER_NAME).unwrap();
    let stream = TokioIo::new(connector.connect(name, stream).await.unwrap());
    let made = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
    let (sender, connection) = made.unwrap();
    tokio::spawn(connection);
    sender
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let late = self.told.load(Ordering::SeqCst) > 0;
        self.after.fetch_add(u64::from(late), Ordering::SeqCst);
        let (head, body) = request.into_parts();
        let asked = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        let operation = asked.get(5).copied().unwrap_or(255);
        if late && matches!(operation, WRITE | PUT) {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
        let mut upstream = self.upstream.lock().await.clone();
        upstream.ready().await.unwrap();
        let mut forwarded = Request::new(Full::new(asked));
        (*forwarded.uri_mut(), *forwarded.method_mut()) = (head.uri, head.method);
        *forwarded.headers_mut() = head.headers;
        let answer = upstream.send_request(forwarded).await.unwrap();
        let early = answer.headers().get("grpc-status").cloned();
        let collected = answer.into_body().collect().await.unwrap();
        let status = collected.trailers().and_then(|t| t.get("grpc-status").cloned()).or(early);
        let good = status.as_ref().is_some_and(|status| status == "0");
        let payload = payloads(&collected.to_bytes());
        let lie = *self.lie.lock();
        let told = lie.filter(|(about, _)| good && *about == operation).map(|(_, lie)| lie);
        let (say, said) = mpsc::channel(2);
        let mut response = Response::new(StreamBody::new(ReceiverStream::new(said)));
        response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        if told.is_some() {
            self.told.fetch_add(1, Ordering::SeqCst);
        }
        let mut end = HeaderMap::new();
        end.insert("grpc-status", status.unwrap_or_else(|| "2".parse().unwrap()));
        if let Some(Lie::Status(code)) = told {
            end.insert("grpc-status", code.to_string().parse().unwrap());
            end.insert("grpc-message", "x".repeat(5000).parse().unwrap());
        }
        if told == Some(Lie::Page) {
            response.headers_mut().insert("content-type", "text/html".parse().unwrap());
            *response.status_mut() = hyper::StatusCode::NOT_FOUND;
        }
        tokio::spawn(speak(told, payload, end, say, self.sent.clone()));
        response
    }
}

async fn speak(
    told: Option<Lie>,
    payload: Vec<u8>,
    end: HeaderMap,
    say: mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>,
    sent: Arc<AtomicU64>,
) {
    let data = |bytes: Vec<u8>| {
        sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        say.send(Ok(Frame::data(bytes.into())))
    };
    match told {
        Some(Lie::Endless) => while data(framed(&[0; 200_000])).await.is_ok() {},
        Some(Lie::EndlessNothing) => while data(framed(&[])).await.is_ok() {},
        Some(Lie::Cut) => {
            if payload.len() > 1 {
                let _taken = data(framed(&payload[..payload.len() / 2])).await;
            }
            let _taken = say.send(Err(std::io::Error::other("cut"))).await;
        }
        Some(Lie::Silent) => {
            if payload.len() > 1 {
                let _taken = data(framed(&payload[..payload.len() / 2])).await;
            }
            say.closed().await;
        }
        Some(Lie::Page) => drop(data(b"<html>not here</html>".to_vec()).await),
        Some(Lie::HugeMessage) => {
            let _taken = data([&[0, 0x7f, 255, 255, 255][..], &payload].concat()).await;
            let _taken = say.send(Ok(Frame::trailers(end))).await;
        }
        Some(Lie::Compressed) => {
            let mut message = framed(&payload);
            message[0] = 1;
            let _taken = data(message).await;
            let _taken = say.send(Ok(Frame::trailers(end))).await;
        }
        told => {
            let payload = told.map_or(payload.clone(), |lie| falsified(lie, payload));
            for part in payload.chunks(256 << 10) {
                let _taken = data(framed(part)).await;
            }
            let _taken = say.send(Ok(Frame::trailers(end))).await;
        }
    }
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&[0][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

fn payloads(mut framed: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some((head, rest)) = framed.split_at_checked(5) {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        all.extend_from_slice(&rest[..length]);
        framed = &rest[length..];
    }
    all
}

/// Changes the bytes of an answer. What is about cells is told of the first part of them.
fn falsified(lie: Lie, honest: Vec<u8>) -> Vec<u8> {
    let mut said = honest;
    let number = |said: &[u8], at: usize| {
        said.get(at..at + 4).map_or(0, |n| u32::from_le_bytes(n.try_into().unwrap()) as usize)
    };
    let (length, many) = (number(&said, 1), number(&said, 5));
    let data = 9 + many.div_ceil(8);
    let put = |said: &mut Vec<u8>, at: usize, value: usize| {
        said[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    };
    match lie {
        Lie::Nothing => said.clear(),
        Lie::Half => said.truncate(said.len() / 2),
        Lie::ByteLess => drop(said.pop()),
        Lie::ByteMore => said.push(7),
        Lie::Twice => said.extend_from_within(..),
        Lie::CellLess => {
            put(&mut said, 5, many - 1);
            said.truncate(said.len() - length);
        }
        Lie::CellMore => {
            put(&mut said, 5, many + 1);
            said.extend(vec![7; length]);
        }
        Lie::CellsShorter => {
            put(&mut said, 1, length - 1);
            said.truncate(said.len() - many);
        }
        Lie::CellsLonger => {
            put(&mut said, 1, length + 1);
            said.extend(vec![7; many]);
        }
        Lie::Swapped => {
            let (one, two) = said[data..].split_at_mut(length);
            one.swap_with_slice(&mut two[..length]);
        }
        Lie::Repeated => said.copy_within(data..data + length, data + length),
        Lie::OtherKind => said = if said == [1] { vec![4, 0, 0, 0, 0] } else { vec![1] },
        Lie::Noise => {
            said.iter_mut().zip(1..).for_each(|(b, n): (&mut u8, u32)| *b = (n * 37) as u8)
        }
        Lie::Ones => said[1..].fill(255),
        _ => {}
    }
    said
}
