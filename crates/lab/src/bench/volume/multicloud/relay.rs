//! A link that is played between real processes: a port whose connections go on to another, with a
//! bandwidth and a delay that all of them share. Counts every byte, those of TLS too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fogbank::{Error, Result};
use fogbank_env::{Clock, Mutex, Nanos};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// One direction of a link.
pub struct Pipe {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    bytes_per_s: Option<u64>,
    delay: Nanos,
    free_at: Nanos,
}

impl Pipe {
    /// One that takes everything at once.
    pub fn new(clock: &Arc<dyn Clock>) -> Arc<Self> {
        let (state, bytes) = Default::default();
        Arc::new(Self { clock: clock.clone(), state, bytes })
    }

    /// From now on it carries so much, and this long after.
    pub fn set(&self, bytes_per_s: Option<u64>, delay: Nanos) {
        let mut state = self.state.lock();
        (state.bytes_per_s, state.delay) = (bytes_per_s, delay);
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits, as a sender whose window is full, until no more is ahead of `left` than a buffer.
    pub async fn follow(&self, left: Nanos) {
        if left > self.clock.now() + AHEAD_NANOS {
            self.clock.come_near(left - AHEAD_NANOS).await;
        }
    }

    /// When so many bytes have left, and when they come.
    pub fn takes(&self, bytes: usize) -> (Nanos, Nanos) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let (now, mut state) = (self.clock.now(), self.state.lock());
        let takes = state.bytes_per_s.map_or(0, |rate| bytes as u64 * 1_000_000_000 / rate.max(1));
        state.free_at = state.free_at.max(now) + takes;
        (state.free_at, state.free_at + state.delay)
    }
}

/// See the module. It ends when it is dropped.
pub struct Relay {
    /// Where it listens.
    pub place: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// To `to`; what goes there goes through the first pipe, what comes back through the second.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if there is no port.
    pub async fn new(to: SocketAddr, pipes: [Arc<Pipe>; 2]) -> Result<Self> {
        let cannot = |e: std::io::Error| Error::CannotUse(format!("no port for a link: {e}"));
        let socket = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
        let place = socket.local_addr().map_err(cannot)?;
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = socket.accept().await {
                let [there, back] = pipes.clone();
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(to).await else { return };
                    let _slower = (near.set_nodelay(true), far.set_nodelay(true));
                    let ((from, near), (back_from, far)) = (near.into_split(), far.into_split());
                    tokio::join!(carry(from, far, there), carry(back_from, near, back));
                });
            }
        });
        Ok(Self { place, task })
    }
}

/// Reads no further than the pipe has taken, as a sender whose window is full.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, pipe: Arc<Pipe>) {
    let (sender, mut carried) = mpsc::unbounded_channel::<(Nanos, Vec<u8>)>();
    let clock = pipe.clock.clone();
    let reads = async {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(bytes @ 1..) = from.read(&mut piece).await {
            let (left, comes) = pipe.takes(bytes);
            if sender.send((comes, piece[..bytes].to_vec())).is_err() {
                break;
            }
            pipe.follow(left).await;
        }
        drop(sender);
    };
    let writes = async {
        while let Some((comes, piece)) = carried.recv().await {
            if comes > clock.now() {
                clock.come_near(comes).await;
            }
            if to.write_all(&piece).await.is_err() {
                break;
            }
        }
        let _gone = to.shutdown().await;
    };
    tokio::join!(reads, writes);
}

const PIECE_BYTES: usize = 16 << 10;
/// How far a connection may be ahead of its pipe: fills a buffer of the system.
const AHEAD_NANOS: Nanos = 2_000_000;
