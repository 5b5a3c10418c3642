//! A front end over a store in memory, and a client that shows replies as they are.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use fogbank_env::{Clock, Metrics, Randomness, SystemClock};
use fogbank_front::resp::{Listener, Settings};
use fogbank_oram::{Address, BatchEngine, BatchShape, Result, Section, Sections};
use fogbank_txn::{Components, Proxy};
use redis_protocol::resp2::{decode::decode_bytes_mut, types::BytesFrame};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// An engine that hides nothing.
pub struct MemoryEngine {
    shape: BatchShape,
    blocks: BTreeMap<Address, Bytes>,
}

impl MemoryEngine {
    pub fn new(shape: BatchShape) -> Self {
        Self { shape, blocks: BTreeMap::new() }
    }
}

#[async_trait]
impl BatchEngine for MemoryEngine {
    fn shape(&self) -> BatchShape {
        self.shape
    }

    async fn read_batch(&mut self, addresses: &[Address]) -> Result<Vec<Option<Bytes>>> {
        assert!(addresses.len() <= self.shape.read_batch);
        Ok(addresses.iter().map(|address| self.blocks.get(address).cloned()).collect())
    }

    async fn write_batch(&mut self, writes: Vec<(Address, Option<Bytes>)>) -> Result<()> {
        assert!(writes.len() <= self.shape.write_batch);
        for (address, value) in writes {
            match value {
                Some(value) => self.blocks.insert(address, value),
                None => self.blocks.remove(&address),
            };
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<Vec<Section>> {
        Ok(Vec::new())
    }

    fn save(&mut self) -> Result<Sections<'_>> {
        Ok(Box::new(std::iter::empty()))
    }
}

pub const SHAPE: BatchShape =
    BatchShape { capacity: 1 << 16, value_bytes: 1024, read_batch: 1000, write_batch: 1000 };

pub async fn proxy(shape: BatchShape, interval: Duration, clock: Arc<dyn Clock>) -> Proxy {
    let settings = fogbank_txn::Settings { interval, ..Default::default() };
    let random = Randomness::repeatable(1);
    let components = Components { clock, random, metrics: Metrics::default(), clients: None };
    Proxy::start(settings, Box::new(MemoryEngine::new(shape)), components, None)
        .await
        .expect("a proxy over memory starts")
}

/// A running front end.
pub struct Server {
    pub address: SocketAddr,
    pub metrics: Metrics,
    pub proxy: Proxy,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(Settings::default(), SHAPE).await
    }

    pub async fn with(settings: Settings, shape: BatchShape) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let proxy = proxy(shape, Duration::from_millis(1), clock.clone()).await;
        Self::over(settings, proxy, clock).await
    }

    pub async fn over(settings: Settings, proxy: Proxy, clock: Arc<dyn Clock>) -> Self {
        let metrics = Metrics::default();
        let settings = Settings { address: ([127, 0, 0, 1], 0).into(), ..settings };
        let listener = Listener::bind(settings).await.expect("a port is free");
        let address = listener.address();
        let (stop, stopped) = oneshot::channel();
        let serving = listener.serve(proxy.clone(), clock, metrics.clone(), async {
            let _ = stopped.await;
        });
        Self { address, metrics, proxy, stop, served: tokio::spawn(serving) }
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.served.await.expect("the front end does not panic");
    }
}

/// A client of any server that speaks RESP2.
pub struct Client {
    stream: TcpStream,
    input: BytesMut,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server accepts");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, input: BytesMut::new() }
    }

    pub async fn send_raw(&mut self, data: &[u8]) {
        self.stream.write_all(data).await.expect("the server reads");
    }

    pub async fn send(&mut self, words: &[&[u8]]) {
        self.send_raw(&encode(words)).await;
    }

    /// The next reply, or `None` if the server has closed.
    pub async fn reply(&mut self) -> Option<BytesFrame> {
        loop {
            match decode_bytes_mut(&mut self.input) {
                Ok(Some((frame, _, _))) => return Some(frame),
                Ok(None) => {}
                Err(error) => panic!(
                    "{error:?} from {:?} in {}",
                    self.stream.peer_addr(),
                    self.input.escape_ascii()
                ),
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Sends one command, its words separated by blanks, and shows the reply as text.
    pub async fn ask(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.ask_words(&words).await
    }

    pub async fn ask_words(&mut self, words: &[&[u8]]) -> String {
        self.send(words).await;
        self.shown().await
    }

    /// The next reply as text.
    pub async fn shown(&mut self) -> String {
        self.reply().await.map_or_else(|| "closed".into(), |frame| show(&frame))
    }

    /// Closes the sending half.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.expect("a socket");
    }
}

pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// A reply as text, in the manner of `redis-cli`.
pub fn show(frame: &BytesFrame) -> String {
    match frame {
        BytesFrame::SimpleString(text) => format!("+{}", text.escape_ascii()),
        BytesFrame::Error(text) => format!("-{text}"),
        BytesFrame::Integer(value) => value.to_string(),
        BytesFrame::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        BytesFrame::Null => "nil".into(),
        BytesFrame::Array(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" "))
        }
    }
}
