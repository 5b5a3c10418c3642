//! The disk beside a plain array of bytes: random requests of any length at any offset, several of
//! them under way, over several connections whose parts of the disk meet within blocks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_front::nbd::{Limits, Settings};
use fogbank_oram::ImmediateEngine;
use fogbank_oram::immediate::plain::PlainEngine;
use rand_core::Rng;

use crate::client::{Client, FLUSH, FUA, READ, TRIM, WRITE, WRITE_ZEROES, request};
use crate::engines::{Fault, Faulty};
use crate::support::{SHAPE, SIZE, Server};

const CONNECTIONS: u64 = 4;
const ROUNDS: usize = 60;

/// What a request should come to.
struct Asked {
    length: usize,
    expected: Vec<u8>,
}

/// One connection, and its part of the disk.
struct Part {
    client: Client,
    start: u64,
    bytes: Vec<u8>,
    random: Stream,
}

impl Part {
    async fn new(address: SocketAddr, index: u64) -> Self {
        let share = SIZE / CONNECTIONS; // no multiple of a block
        let (start, end) = (index * share, ((index + 1) * share).min(SIZE));
        let client = Client::taken(address, index.is_multiple_of(2)).await;
        let random = Randomness::repeatable(index).stream(Purpose::Workload);
        Self { client, start, bytes: vec![0; (end - start) as usize], random }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u32() as usize % bound
    }

    /// Requests that do not overlap, all of them sent before any is answered.
    async fn round(&mut self) -> Result<(), String> {
        let mut asked = BTreeMap::new();
        let mut at = 0;
        let mut out = Vec::new();
        while at < self.bytes.len() {
            at += self.below(700);
            let most = [1, 7, 150, 1500, 5000][self.below(5)];
            let length = self.below(most).min(self.bytes.len().saturating_sub(at));
            if at + length > self.bytes.len() {
                break;
            }
            let cookie = asked.len() as u64;
            asked.insert(cookie, self.ask(cookie, at, length, &mut out));
            at += length;
        }
        self.client.send(&out).await;
        while !asked.is_empty() {
            let length_of = |cookie| asked.get(&cookie).map_or(0, |asked: &Asked| asked.length);
            let reply = self.client.reply(length_of).await.ok_or("closed")?;
            let asked = asked.remove(&reply.cookie).ok_or("nobody asked")?;
            if reply.outcome != Ok(asked.expected) {
                return Err(format!("the reply to {} is wrong", reply.cookie));
            }
        }
        Ok(())
    }

    /// Appends a random request to `out`.
    fn ask(&mut self, cookie: u64, at: usize, length: usize, out: &mut Vec<u8>) -> Asked {
        let kind = [READ, READ, WRITE, WRITE, WRITE_ZEROES, TRIM, FLUSH][self.below(7)];
        let offset = self.start + at as u64;
        let flags = if kind != READ && self.below(3) == 0 { FUA } else { 0 };
        if kind == FLUSH {
            out.extend(request(kind, flags, cookie, 0, 0));
            return Asked { length: 0, expected: vec![] };
        }
        out.extend(request(kind, flags, cookie, offset, length as u32));
        let range = at..at + length;
        match kind {
            READ => return Asked { length, expected: self.bytes[range].to_vec() },
            WRITE => {
                self.random.fill_bytes(&mut self.bytes[range.clone()]);
                out.extend_from_slice(&self.bytes[range]);
            }
            _ => self.bytes[range].fill(0),
        }
        Asked { length: 0, expected: vec![] }
    }
}

/// Whether all connections see what they should.
async fn compare(engine: Arc<dyn ImmediateEngine>) -> Result<(), String> {
    let limits =
        Limits { piece_blocks: 3, accesses_max: 10, all_accesses_max: 20, ..Limits::default() };
    let settings = Settings { trim: true, limits, ..Settings::default() };
    let server = Server::over(engine, settings).await;
    let mut parts = Vec::new();
    for index in 0..CONNECTIONS {
        parts.push(Part::new(server.address(), index).await);
    }
    let work = |mut part: Part| async move {
        for _ in 0..ROUNDS {
            part.round().await?;
        }
        Ok::<_, String>(part)
    };
    let tasks: Vec<_> = parts.into_iter().map(|part| tokio::spawn(work(part))).collect();
    let mut whole = Vec::new();
    let mut client = Client::taken(server.address(), true).await;
    for task in tasks {
        whole.extend(task.await.map_err(|e| e.to_string())??.bytes);
    }
    let seen = client.one(READ, 0, 0, SIZE as u32).await;
    drop(client);
    server.stop().await;
    if seen == Ok(whole) { Ok(()) } else { Err("the disk is not what was written".into()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_is_an_array_of_bytes() {
    compare(Arc::new(PlainEngine::new(SHAPE))).await.expect("the same");
    compare(Arc::new(Faulty::new(Fault::None, SHAPE))).await.expect("the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_wrong_is_noticed() {
    for fault in [Fault::DropsPatch, Fault::ClearsAround, Fault::SwapsAnswers] {
        let compared = compare(Arc::new(Faulty::new(fault, SHAPE))).await;
        assert!(compared.is_err(), "{fault:?} was not noticed");
    }
}
