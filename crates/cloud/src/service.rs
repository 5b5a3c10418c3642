//! One call: who asks, what, and the answer in pieces.
//!
//! 1. *who*: the tenant and its token are in the request's header, on every call;
//! 2. *room*: a call waits for its turn by the tenant's rate, and for a permit a call and a KiB;
//! 3. *what*: the request is received whole, by a deadline that follows from its length, and decoded;
//! 4. *answer*: reads are done a portion at a time, each when the last has left, so that memory does not
//!    follow what is asked; all others are done whole, and acknowledged when they are.
//!
//! Invariants
//! - Nothing is done for who has not shown a token, and nothing before a request is there whole.
//! - A client that takes nothing of its answer for a while loses its connection.

use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fogbank_env::{Clock, Nanos, by};
use fogbank_store::{Call, Cell, CellReads, ChunkName, Operation, Reply, Store, StoreError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::StreamingService;
use tonic::{Request as Asked, Response, Status, Streaming};

use crate::figures::Figures;
use crate::reply::groups;
use crate::tenant::Tenant;
use crate::wire::{HEAD_BYTES, Request, SERVED_CHUNK_BYTES_MAX, head, messages};

/// What every call of a connection shares.
#[derive(Clone)]
pub struct Desk {
    pub clock: Arc<dyn Clock>,
    pub figures: Arc<Figures>,
    pub tenant: Arc<Tenant>,
    /// Told when the connection has to end.
    pub stalled: Arc<tokio::sync::Notify>,
}

type Answer = Result<Vec<Bytes>, Status>;

impl StreamingService<Bytes> for Desk {
    type Response = Vec<Bytes>;
    type ResponseStream = ReceiverStream<Answer>;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, asked: Asked<Streaming<Bytes>>) -> Self::Future {
        let desk = self.clone();
        Box::pin(async move {
            let (answers, stream) = mpsc::channel(ANSWERS_AHEAD);
            tokio::spawn(async move {
                let mut out = Out { answers, desk: desk.clone() };
                if let Err(status) = desk.serve(asked.into_inner(), &mut out).await {
                    desk.figures.refused.add(1);
                    let _gone = out.send(Err(status)).await;
                }
            });
            Ok(Response::new(ReceiverStream::new(stream)))
        })
    }
}

/// The way back to the client.
struct Out {
    answers: mpsc::Sender<Answer>,
    desk: Desk,
}

impl Out {
    /// Fails if nobody takes it.
    async fn send(&self, answer: Answer) -> Result<(), Status> {
        if let Ok(pieces) = &answer {
            self.desk.figures.bytes_out.add(pieces.iter().map(|p| p.len() as u64).sum());
        }
        let clock = &*self.desk.clock;
        match by(clock, clock.now() + TAKING_NANOS_MAX, self.answers.send(answer)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(Status::cancelled("nobody waits for it")),
            None => {
                self.desk.stalled.notify_one();
                Err(Status::deadline_exceeded("the answer is not taken"))
            }
        }
    }

    async fn reply(&self, reply: Reply) -> Result<(), Status> {
        for message in messages(groups(reply).map_err(status)?) {
            self.send(Ok(message)).await?;
        }
        Ok(())
    }
}

impl Desk {
    async fn serve(&self, mut asked: Streaming<Bytes>, out: &mut Out) -> Result<(), Status> {
        let (clock, tenant) = (&*self.clock, &self.tenant);
        tenant.turn(clock).await;
        let closed = |_| Status::unavailable("the server is closing");
        let _call = tenant.calls.clone().acquire_owned().await.map_err(closed)?;
        self.figures.calls.add(1);
        let first = by(clock, clock.now() + HEAD_NANOS_MAX, asked.message()).await;
        let first = first.ok_or_else(too_slow)??.ok_or_else(no_request)?;
        let (operation, length) = head(&first[..]).ok_or_else(no_request)?;
        if length > tenant.request_bytes_max() {
            return Err(Status::invalid_argument(format!(
                "a request of {length} bytes; the server takes {}",
                tenant.request_bytes_max()
            )));
        }
        let kib = u32::try_from(length >> 10).unwrap_or(u32::MAX);
        let _room = tenant.request_kib.clone().acquire_many_owned(kib).await.map_err(closed)?;
        let patience = HEAD_NANOS_MAX + length * SLOWEST_NANOS_PER_BYTE;
        let body = receive(&mut asked, first.slice(HEAD_BYTES..), length as usize);
        let body = by(clock, clock.now() + patience, body).await.ok_or_else(too_slow)??;
        self.figures.bytes_in.add(length);
        let request = Request::decode(operation, body).ok_or_else(no_request)?;
        self.answer(operation, request, out).await
    }

    async fn answer(&self, asked: Operation, request: Request, out: &Out) -> Result<(), Status> {
        let store = &self.tenant.store;
        match &request {
            Request::ReadCells(reads, None) => return self.cells(reads, out).await,
            Request::ReadCells(reads, Some(groups)) => return self.xor(reads, groups, out).await,
            Request::ReadChunks(chunks) => return self.chunks(chunks, out).await,
            _ => {}
        }
        let names: Vec<&str>;
        let call = match request {
            Request::CreateArray(array, shape) => Call::CreateArray(array, shape),
            Request::DropArray(array) => Call::DropArray(array),
            Request::WriteChunks(writes) => Call::WriteChunks(writes),
            Request::DeleteChunks(ref chunks) => Call::DeleteChunks(chunks),
            Request::ListChunks(array) => Call::ListChunks(array),
            Request::BlobGet(ref name) => Call::BlobGet(name),
            Request::BlobPut(ref name, data, condition) => Call::BlobPut(name, data, condition),
            Request::BlobDelete(ref all) => {
                names = all.iter().map(String::as_str).collect();
                Call::BlobDelete(&names)
            }
            Request::BlobList(ref prefix) => Call::BlobList(prefix),
            Request::Barrier => Call::Barrier,
            Request::ReadCells(..) | Request::ReadChunks(_) => return Err(no_request()),
        };
        debug_assert_eq!(call.operation(), asked);
        out.reply(call.perform(store).await.map_err(status)?).await
    }

    async fn cells(&self, reads: &CellReads, out: &Out) -> Result<(), Status> {
        let mut at = 0;
        while at < reads.len() {
            let (portion, next) = self.portion(reads, at, reads.len());
            let cells = self.tenant.store.read_cells(&portion).await.map_err(status)?;
            out.reply(Reply::Cells(cells)).await?;
            at = next;
        }
        Ok(())
    }

    /// The reads from `at` on that fill a portion, at least one, and where the next begins.
    fn portion(&self, reads: &CellReads, at: usize, end: usize) -> (CellReads, usize) {
        let (mut portion, mut bytes, mut next) = (CellReads::default(), 0, at);
        while next < end && (bytes < PORTION_BYTES || next == at) {
            let read = reads.get(next);
            bytes += read.cells.len() * self.cell_bytes(read.chunk);
            portion.push(read.chunk, read.cells.iter().copied());
            next += 1;
        }
        (portion, next)
    }

    fn cell_bytes(&self, chunk: ChunkName) -> usize {
        self.tenant.store.shape(chunk.array).map_or(0, |shape| shape.cell_bytes as usize)
    }

    async fn chunks(&self, chunks: &[ChunkName], out: &Out) -> Result<(), Status> {
        let mut left = chunks;
        while !left.is_empty() {
            let bytes = |name: &ChunkName| {
                self.tenant.store.shape(name.array).map_or(0, |shape| shape.chunk_bytes())
            };
            let mut taken = 0;
            let fits = |name: &&ChunkName| {
                let fits = taken < PORTION_BYTES;
                taken += bytes(name);
                fits
            };
            let many = left.iter().take_while(fits).count().max(1);
            let (portion, rest) = left.split_at(many);
            let read = self.tenant.store.read_chunks(portion).await.map_err(status)?;
            out.reply(Reply::Chunks(read)).await?;
            left = rest;
        }
        Ok(())
    }

    /// A portion of groups at a time. Groups that do not cut the reads in order are left to the store
    /// to refuse, which it does before it reads.
    async fn xor(&self, reads: &CellReads, groups: &[u32], out: &Out) -> Result<(), Status> {
        let Some(xor) = self.tenant.store.xor() else {
            return Err(Status::invalid_argument("this store offers no XOR"));
        };
        let ordered =
            groups.is_sorted() && groups.last().map_or(0, |end| *end as usize) == reads.len();
        if !ordered {
            let refused = xor.read_xor(reads, groups).await.map_err(status)?;
            return out.reply(Reply::Cells(refused)).await;
        }
        let (mut group, mut at) = (0, 0);
        while group < groups.len() {
            let (mut portion, mut ends, mut bytes) = (CellReads::default(), Vec::new(), 0);
            while group < groups.len() && (bytes < XOR_PORTION_BYTES || ends.is_empty()) {
                for read in (at..groups[group] as usize).map(|at| reads.get(at)) {
                    bytes += read.cells.len() * self.cell_bytes(read.chunk);
                    portion.push(read.chunk, read.cells.iter().copied());
                }
                if bytes > SERVED_CHUNK_BYTES_MAX {
                    return Err(Status::invalid_argument("the XOR of too many bytes"));
                }
                at = groups[group] as usize;
                ends.push(portion.len() as u32);
                group += 1;
            }
            let cells: Vec<Cell> = xor.read_xor(&portion, &ends).await.map_err(status)?;
            out.reply(Reply::Cells(cells)).await?;
        }
        Ok(())
    }
}

/// The body: `length` bytes, of which `first` are there, and then nothing more.
async fn receive(
    asked: &mut Streaming<Bytes>,
    first: Bytes,
    length: usize,
) -> Result<Bytes, Status> {
    let mut whole = first;
    if whole.len() < length {
        let mut growing = BytesMut::with_capacity(length);
        growing.extend_from_slice(&whole);
        while growing.len() < length {
            let message = asked.message().await?.ok_or_else(no_request)?;
            if message.is_empty() || message.len() > length - growing.len() {
                return Err(no_request());
            }
            growing.extend_from_slice(&message);
        }
        whole = growing.freeze();
    }
    let more = asked.message().await?;
    if whole.len() > length || more.is_some() { Err(no_request()) } else { Ok(whole) }
}

/// An error of a store as one of the wire, by blame.
fn status(error: StoreError) -> Status {
    match error {
        StoreError::Absent(why) => Status::unavailable(why),
        StoreError::Misbehaved(why) => Status::data_loss(why),
        StoreError::Caller(why) => Status::invalid_argument(why),
    }
}

fn no_request() -> Status {
    Status::invalid_argument("that is no request of this version")
}

fn too_slow() -> Status {
    Status::deadline_exceeded("the request came too slowly")
}

/// Bytes that are read before any of them leaves.
const PORTION_BYTES: usize = 1 << 20;
/// Bytes that are combined at a time.
const XOR_PORTION_BYTES: usize = 8 << 20;
/// Messages that are ready before the client takes them.
const ANSWERS_AHEAD: usize = 4;
/// How long a request may take to begin, and an answer to be taken.
const HEAD_NANOS_MAX: Nanos = 10_000_000_000;
const TAKING_NANOS_MAX: Nanos = 30_000_000_000;
/// A request arrives at 64 KiB a second at least.
const SLOWEST_NANOS_PER_BYTE: Nanos = 15_000;
