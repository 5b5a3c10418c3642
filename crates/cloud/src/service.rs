//! One call: who asks, what, and the answer in pieces.
//!
//! 1. *who*: the tenant and its token are in the request's header, on every call;
//! 2. *room*: a call waits for its turn by the tenant's rate, and for a permit a call and a KiB;
//!    then for memory, of what all tenants share: for its request before it is received, for what
//!    that decodes to and for its answer before these are made. It is refused if there is none in
//!    time;
//! 3. *what*: the request is received whole, never slower than a public rate, and decoded: a call
//!    of the store, or of the query log (`log`);
//! 4. *answer*: reads are done a portion at a time, each when the last has left, so that memory
//!    does not follow what is asked; all others are done whole, and acknowledged when they are.
//!
//! Invariants
//! - Nothing is done for who has not shown a token, and nothing before a request is there whole.
//! - A client that takes nothing of its answer for a while loses its connection.
//! - What a call takes of memory is counted before it is taken; what takes it back is the end of
//!   the call.

use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fogbank_env::{Clock, Nanos, by};
use fogbank_store::{
    Call, Cell, CellReads, ChunkName, Operation, Reply, Store, StoreError, read_xor_or_fold,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::StreamingService;
use tonic::{Response, Status, Streaming};

use crate::figures::Figures;
use crate::log;
use crate::pool::Room;
use crate::quota::{VERSION_BYTES_MIN, blob_bytes};
use crate::reply::groups;
use crate::tenant::Tenant;
use crate::wire::{
    HEAD_BYTES, MESSAGE_BYTES_MAX, Request, SERVED_CHUNK_BYTES_MAX, head, messages, operation,
};

/// What every call of a connection shares.
#[derive(Clone)]
pub struct Desk {
    pub clock: Arc<dyn Clock>,
    pub figures: Arc<Figures>,
    pub tenant: Arc<Tenant>,
    /// What is spoken.
    pub spoken: Spoken,
    /// Whether the server stops.
    pub stopping: watch::Receiver<bool>,
    /// Told when the connection has to end.
    pub stalled: Arc<tokio::sync::Notify>,
    /// The call's place among those of its connection.
    pub _call: Arc<OwnedSemaphorePermit>,
}

/// What a call is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// The tenant's store.
    Store,
    /// Its query log.
    Log,
}

/// A request, received and decoded.
enum Asked {
    Store(Operation, Request),
    Log(log::Request),
}

type Answer = Result<Vec<Bytes>, Status>;

impl StreamingService<Bytes> for Desk {
    type Response = Vec<Bytes>;
    type ResponseStream = ReceiverStream<Answer>;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, asked: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        let desk = self.clone();
        Box::pin(async move {
            let (answers, stream) = mpsc::channel(ANSWERS_AHEAD);
            tokio::spawn(async move {
                let mut out = Out { answers, desk: desk.clone(), rooms: None, follows: None };
                if let Err(status) = desk.serve(asked.into_inner(), &mut out).await {
                    desk.figures.refused.add(1);
                    let _gone = out.send(Err(status)).await;
                }
                out.left().await;
            });
            Ok(Response::new(ReceiverStream::new(stream)))
        })
    }
}

/// The way back to the client.
pub struct Out {
    answers: mpsc::Sender<Answer>,
    desk: Desk,
    /// Until the answer has left.
    rooms: Option<Rooms>,
    /// Instead of those, of one who listens. One who takes nothing ends himself alone.
    follows: Option<Room>,
}

impl Out {
    /// Fails if nobody takes it.
    pub async fn send(&self, answer: Answer) -> Result<(), Status> {
        if let Ok(pieces) = &answer {
            self.desk.figures.bytes_out.add(pieces.iter().map(|p| p.len() as u64).sum());
        }
        let clock = &*self.desk.clock;
        match by(clock, clock.now() + TAKING_NANOS_MAX, self.answers.send(answer)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(Status::cancelled("nobody waits for it")),
            None => {
                self.stalls();
                Err(Status::deadline_exceeded("the answer is not taken"))
            }
        }
    }

    /// Waits until what was sent is on its way, or never will be.
    async fn left(&self) {
        let clock = &*self.desk.clock;
        let empty = self.answers.reserve_many(ANSWERS_AHEAD);
        if by(clock, clock.now() + TAKING_NANOS_MAX, empty).await.is_none() {
            self.stalls();
        }
    }

    fn stalls(&self) {
        if self.follows.is_none() {
            self.desk.stalled.notify_one();
        }
    }

    /// The call goes on for as long as somebody listens, and is no longer one of the tenant's at
    /// once.
    pub fn follows(&mut self, room: Room) {
        (self.rooms, self.follows) = (None, Some(room));
    }

    /// Completes when nobody waits for it any more.
    pub async fn gone(&self) {
        self.answers.closed().await;
    }

    /// It is done.
    pub async fn done(&self) -> Result<(), Status> {
        self.reply(Reply::Done).await
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
        let tenant = &self.tenant;
        let gone = out.answers.clone();
        let begin = async {
            tenant.turn(&*self.clock).await;
            let closed = |_| Status::unavailable("the server is closing");
            let call = tenant.calls.clone().acquire_owned().await.map_err(closed)?;
            self.receive(&mut asked, call).await
        };
        let (request, rooms) = tokio::select! {
            biased;
            begun = begin => begun?,
            // Nobody is left to answer, and nothing is done yet.
            () = gone.closed() => return Err(Status::cancelled("nobody waits for it")),
        };
        out.rooms = Some(rooms);
        match request {
            Asked::Store(operation, request) => self.answer(operation, request, out).await,
            Asked::Log(request) => log::answer(self, request, out).await,
        }
    }

    /// The request, and the room that it and its answer take.
    async fn receive(
        &self,
        asked: &mut Streaming<Bytes>,
        call: OwnedSemaphorePermit,
    ) -> Result<(Asked, Rooms), Status> {
        let (clock, tenant) = (&*self.clock, &self.tenant);
        let first = by(clock, clock.now() + PATIENCE_NANOS, asked.message()).await;
        let first = first.ok_or_else(too_slow)??.ok_or_else(no_request)?;
        let (code, length) = head(&first[..]).ok_or_else(no_request)?;
        let (known, most) = match self.spoken {
            Spoken::Store => (operation(code).is_some(), tenant.request_bytes_max()),
            Spoken::Log => (true, log::BODY_BYTES_MAX),
        };
        if !known {
            return Err(no_request());
        }
        if length > most {
            let why = format!("a request of {length} bytes; the server takes {most}");
            return Err(Status::invalid_argument(why));
        }
        self.figures.calls.add(1);
        let closed = |_| Status::unavailable("the server is closing");
        let kib = u32::try_from(length >> 10).unwrap_or(u32::MAX);
        let own = tenant.request_kib.clone().acquire_many_owned(kib).await.map_err(closed)?;
        let body = self.room(CALL_BYTES + length).await?;
        let whole = receive_body(asked, first.slice(HEAD_BYTES..), length as usize, clock).await?;
        self.figures.bytes_in.add(length);
        let mut rooms = Rooms { _own: [call, own], shared: body };
        if self.spoken == Spoken::Log {
            let request = log::Request::decode(code, whole).ok_or_else(no_request)?;
            return Ok((Asked::Log(request), rooms));
        }
        let operation = operation(code).ok_or_else(no_request)?;
        rooms.shared.merge(self.room(decoded_bytes(operation, &whole)).await?);
        let request = Request::decode(operation, whole).ok_or_else(no_request)?;
        rooms.shared.merge(self.room(self.answer_bytes(&request)).await?);
        Ok((Asked::Store(operation, request), rooms))
    }

    /// Memory, of what all tenants share.
    pub async fn room(&self, bytes: u64) -> Result<Room, Status> {
        let (clock, memory) = (&*self.clock, &self.tenant.memory);
        let room = memory.take(bytes, clock, clock.now() + ROOM_NANOS_MAX).await;
        room.ok_or_else(|| Status::resource_exhausted("the server has no memory left for it"))
    }

    /// What the answer takes while it is made and leaves, at most.
    fn answer_bytes(&self, request: &Request) -> u64 {
        let cells = |reads: &CellReads| {
            reads
                .iter()
                .map(|read| self.cells_cost(read.chunk, read.cells.len()))
                .max()
                .unwrap_or(0)
        };
        let made = match request {
            Request::ReadCells(reads, None) => PORTION_BYTES + cells(reads),
            // A group is combined whole.
            Request::ReadCells(reads, Some(_)) => {
                let all = reads.iter().map(|read| self.cells_cost(read.chunk, read.cells.len()));
                let most = XOR_PORTION_BYTES + SERVED_CHUNK_BYTES_MAX;
                all.fold(0, usize::saturating_add).min(most)
            }
            Request::ReadChunks(chunks) => {
                let largest = chunks.iter().map(|name| self.chunk_cost(*name)).max();
                PORTION_BYTES + largest.unwrap_or(0)
            }
            Request::ListChunks(array) => self.tenant.store.listing_bytes(*array),
            Request::BlobGet(name) => self.tenant.store.blob_bytes(name),
            Request::BlobList(_) => self.tenant.store.blob_listing_bytes(),
            Request::WriteChunks(writes) => {
                let bytes = writes.iter().map(|write| self.chunk_cost(write.chunk) as u64);
                let bytes = bytes.map(|bytes| bytes.max(VERSION_BYTES_MIN));
                return self.tenant.store.counting_bytes(bytes.fold(0, u64::saturating_add)) as u64;
            }
            Request::BlobPut(name, data, _) => {
                let bytes = blob_bytes(name, data.len());
                return self.tenant.store.counting_bytes(bytes) as u64;
            }
            _ => return 0,
        };
        (made + ANSWERS_AHEAD * MESSAGE_BYTES_MAX) as u64
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
            bytes += self.cells_cost(read.chunk, read.cells.len());
            portion.push(read.chunk, read.cells.iter().copied());
            next += 1;
        }
        (portion, next)
    }

    /// What so many cells of a chunk take: one that is small or not there takes something, too.
    fn cells_cost(&self, chunk: ChunkName, cells: usize) -> usize {
        let shape = self.tenant.store.shape(chunk.array);
        cells * shape.map_or(0, |shape| shape.cell_bytes as usize).max(ITEM_BYTES)
    }

    fn chunk_cost(&self, chunk: ChunkName) -> usize {
        let shape = self.tenant.store.shape(chunk.array);
        shape.map_or(0, |shape| shape.chunk_bytes()).max(ITEM_BYTES)
    }

    async fn chunks(&self, chunks: &[ChunkName], out: &Out) -> Result<(), Status> {
        let mut left = chunks;
        while !left.is_empty() {
            let mut taken = 0;
            let fits = |name: &&ChunkName| {
                let fits = taken < PORTION_BYTES;
                taken += self.chunk_cost(**name);
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

    /// A portion of groups at a time, combined here where the store does not do it, as in a bucket.
    /// Groups that do not cut the reads in order are left to the store to refuse, which it does
    /// before it reads.
    async fn xor(&self, reads: &CellReads, groups: &[u32], out: &Out) -> Result<(), Status> {
        let store = &*self.tenant.store;
        let ordered =
            groups.is_sorted() && groups.last().map_or(0, |end| *end as usize) == reads.len();
        if !ordered {
            let refused = read_xor_or_fold(store, reads, groups).await.map_err(status)?;
            return out.reply(Reply::Cells(refused)).await;
        }
        let (mut group, mut at) = (0, 0);
        while group < groups.len() {
            let (mut portion, mut ends, mut bytes) = (CellReads::default(), Vec::new(), 0);
            while group < groups.len() && (bytes < XOR_PORTION_BYTES || ends.is_empty()) {
                for read in (at..groups[group] as usize).map(|at| reads.get(at)) {
                    bytes += self.cells_cost(read.chunk, read.cells.len());
                    portion.push(read.chunk, read.cells.iter().copied());
                }
                if bytes > SERVED_CHUNK_BYTES_MAX {
                    return Err(Status::invalid_argument("the XOR of too many bytes"));
                }
                at = groups[group] as usize;
                ends.push(portion.len() as u32);
                group += 1;
            }
            let cells: Vec<Cell> =
                read_xor_or_fold(store, &portion, &ends).await.map_err(status)?;
            out.reply(Reply::Cells(cells)).await?;
        }
        Ok(())
    }
}

/// What a call holds until it is over.
struct Rooms {
    _own: [OwnedSemaphorePermit; 2],
    shared: Room,
}

/// What a body takes beside its bytes when it is decoded, at most.
fn decoded_bytes(operation: Operation, body: &[u8]) -> u64 {
    let count = body.first_chunk().map_or(0, |count| u32::from_le_bytes(*count) as usize);
    let bytes = match operation {
        // Data stay where they arrived.
        Operation::WriteChunks => count.min(body.len()).saturating_mul(DECODED_ITEM_BYTES),
        Operation::BlobPut => 0,
        // A name of nothing takes two bytes of a body, a number one of two.
        Operation::BlobDelete => body.len().saturating_mul(DECODED_ITEM_BYTES / 2),
        _ => body.len().saturating_mul(DECODED_FACTOR),
    };
    bytes as u64
}

/// The body: `length` bytes, of which `first` are there, and then nothing more. What comes too
/// slowly ends: a client may be silent for [`PATIENCE_NANOS`], and what it was ahead of its rate
/// helps it no further.
async fn receive_body(
    asked: &mut Streaming<Bytes>,
    first: Bytes,
    length: usize,
    clock: &dyn Clock,
) -> Result<Bytes, Status> {
    let mut deadline = clock.now() + PATIENCE_NANOS;
    let mut next = async |came: usize| {
        let earned = deadline + came as Nanos * SLOWEST_NANOS_PER_BYTE;
        deadline = earned.min(clock.now() + PATIENCE_NANOS);
        by(clock, deadline, asked.message()).await.ok_or_else(too_slow)?
    };
    let mut came = first.len();
    let mut whole = first;
    if whole.len() < length {
        let mut growing = BytesMut::with_capacity(length);
        growing.extend_from_slice(&whole);
        while growing.len() < length {
            let message = next(came).await?.ok_or_else(no_request)?;
            if message.is_empty() || message.len() > length - growing.len() {
                return Err(no_request());
            }
            came = message.len();
            growing.extend_from_slice(&message);
        }
        whole = growing.freeze();
    }
    let more = next(came).await?;
    if whole.len() > length || more.is_some() { Err(no_request()) } else { Ok(whole) }
}

/// An error of a store as one of the wire, by blame.
pub fn status(error: StoreError) -> Status {
    match error {
        StoreError::Absent(why) | StoreError::Near(why) => Status::unavailable(why),
        StoreError::Misbehaved(why) => Status::data_loss(why),
        StoreError::Refused(why) => Status::failed_precondition(why),
        StoreError::NoArray(why) => Status::not_found(why),
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
/// How long a client may be silent within a request, how long a call waits for memory, and how long
/// an answer may take to be taken, a message at a time.
const PATIENCE_NANOS: Nanos = 10_000_000_000;
const ROOM_NANOS_MAX: Nanos = 5_000_000_000;
const TAKING_NANOS_MAX: Nanos = 30_000_000_000;
/// A request arrives at 64 KiB a second at least.
const SLOWEST_NANOS_PER_BYTE: Nanos = 15_000;
/// A call takes so much beside what it says and is told.
const CALL_BYTES: u64 = 64 << 10;
/// A cell or chunk takes so much at least while it is on its way.
const ITEM_BYTES: usize = 64;
/// Of what is decoded: a name or write, and a byte of anything else.
const DECODED_ITEM_BYTES: usize = 96;
const DECODED_FACTOR: usize = 8;
