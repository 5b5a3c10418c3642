//! The same accesses, asked for by a client of the disk: whether they read or write is in no time
//! and in no record, also where the client waits for an answer, of the request or of a flush, and
//! then goes on.

use std::sync::Arc;

use fogbank_env::{Clock, Nanos};
use fogbank_front::nbd::{Limits, Settings, serve_stream};
use fogbank_oram::ImmediateEngine;
use fogbank_oram::tao::TaoEngine;
use fogbank_sim::scene::tao::{Load, TaoScene};
use fogbank_store::trace::{Event, Request, TraceReader};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const ZERO: u16 = 6;
const FUA: u16 = 1;

/// What a client asks for, and with which flags.
const DIRECTIONS: [(u16, u16); 6] =
    [(READ, 0), (READ, FUA), (WRITE, 0), (WRITE, FUA), (TRIM, 0), (ZERO, 0)];

/// Bytes of the disk and of a block.
const DISK: u64 = 1600;
const BLOCK: u32 = 16;

/// How a client goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// When the request is answered.
    Answer,
    /// When a flush is that was sent together with the request.
    Flush,
    /// When two flushes are that were sent after a request, and that too.
    FlushesAfter,
    /// When twenty requests are, few of which find room at once.
    Room,
}

/// A client of the disk, by the oldest handshake there is.
struct Client {
    stream: DuplexStream,
    clock: Arc<dyn Clock>,
    answers: Vec<Nanos>,
}

impl Client {
    async fn taken(mut stream: DuplexStream, clock: Arc<dyn Clock>) -> Self {
        stream.read_exact(&mut [0; 18]).await.unwrap();
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").await.unwrap();
        stream.read_exact(&mut [0; 10]).await.unwrap();
        Self { stream, clock, answers: Vec::new() }
    }

    async fn ask(&mut self, (kind, flags): (u16, u16), offset: u64, length: u32) {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        // The reply repeats it: how many bytes follow.
        let follow = if kind == READ { length } else { 0 };
        bytes.extend(u64::from(follow).to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        if kind == WRITE {
            bytes.resize(bytes.len() + length as usize, 7);
        }
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// Takes so many replies.
    async fn replies(&mut self, count: usize) {
        for _ in 0..count {
            let mut head = [0; 16];
            self.stream.read_exact(&mut head).await.unwrap();
            assert_eq!(head[..8], *b"\x67\x44\x66\x98\0\0\0\0");
            let follow = usize::from(head[15]);
            self.stream.read_exact(&mut vec![0; follow]).await.unwrap();
            self.answers.push(self.clock.now());
        }
    }

    /// The accesses that are compared.
    async fn run(mut self, direction: (u16, u16), waits: Until) -> Vec<Nanos> {
        for block in 0..100 {
            self.ask((WRITE, 0), block * u64::from(BLOCK), BLOCK).await;
            self.replies(1).await;
        }
        self.answers.clear();
        for number in 0..40_u64 {
            // Whole blocks, and parts of some.
            let offset = number * 77 % (DISK - 100);
            let length = [BLOCK, 1, 40][number as usize % 3];
            match waits {
                Until::Answer => {
                    self.ask(direction, offset, length).await;
                    self.replies(1).await;
                }
                Until::Flush => {
                    self.ask(direction, offset, length).await;
                    self.ask((FLUSH, 0), 0, 0).await;
                    self.replies(2).await;
                }
                Until::FlushesAfter => {
                    self.ask(direction, offset, length).await;
                    // Sent when the request is under way.
                    self.clock.sleep_until(self.clock.now() + 3_000_000).await;
                    self.ask((FLUSH, 0), 0, 0).await;
                    self.ask((FLUSH, 0), 0, 0).await;
                    self.replies(3).await;
                }
                Until::Room => {
                    for nth in 0..20 {
                        self.ask(direction, (offset + nth * 13) % (DISK - 100), 100).await;
                    }
                    self.replies(20).await;
                }
            }
        }
        self.ask((2, 0), 0, 0).await;
        self.answers
    }
}

/// What the cloud saw and when, but for the bytes of what is sealed; and when the client was
/// answered.
fn seen(direction: (u16, u16), waits: Until) -> (Vec<String>, Vec<Nanos>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let scene = TaoScene::new(Load::Uniform, 1);
    let mut answers = Vec::new();
    let clients = async |engine: Arc<TaoEngine>, clock: Arc<dyn Clock>| {
        let (near, far) = tokio::io::duplex(1 << 16);
        let engine: Arc<dyn ImmediateEngine> = engine;
        let limits = Limits { waiting_bytes_max: 300, ..Limits::default() };
        let settings = Settings { trim: true, limits, ..Settings::default() };
        let served = tokio::spawn(serve_stream(settings, engine, clock.clone(), far));
        answers = Client::taken(near, clock).await.run(direction, waits).await;
        served.await.unwrap().unwrap();
    };
    scene.record_clients(&path, clients).unwrap();
    let events = TraceReader::open(&path).unwrap().map(|event| without_bytes(event.unwrap()));
    (events.collect(), answers)
}

/// An event without fingerprints: what is sealed differs with what it says.
fn without_bytes(event: Event) -> String {
    match event {
        Event::Done(done) => format!("{} ended at {}", done.id, done.at),
        Event::Sent(mut sent) => {
            match &mut sent.request {
                Request::WriteChunks { writes } => {
                    writes.iter_mut().for_each(|(_, seen)| seen.fingerprints.clear());
                }
                Request::BlobPut { fingerprint, .. } => *fingerprint = 0,
                _ => {}
            }
            format!("{sent:?}")
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn are_in_no_time_and_in_no_record() {
    for waits in [Until::Answer, Until::Flush, Until::FlushesAfter, Until::Room] {
        let expected = seen(DIRECTIONS[0], waits);
        assert!(expected.0.len() > 200 && expected.1.len() >= 40);
        for direction in DIRECTIONS {
            let (events, answers) = seen(direction, waits);
            assert_eq!(answers, expected.1, "{direction:?} {waits:?}: times of answers");
            for (event, expected) in events.iter().zip(&expected.0) {
                assert_eq!(event, expected, "{direction:?} {waits:?}");
            }
            assert_eq!(events.len(), expected.0.len(), "{direction:?} {waits:?}");
        }
    }
}
