//! The way from a proxy to its tenant's store.
//!
//! 1. *opening*: a fixed number of connections by TLS, each to the one certificate that is pinned;
//!    on each a barrier is asked for, which shows the token and finds out whether it is the right
//!    one;
//! 2. *calls*: each goes out on the next connection in turn, whatever is under way on it: which one
//!    follows from how many calls there were, and the server sees nothing that it did not see
//!    already;
//! 3. *loss*: a connection that broke, or that no longer answers when it is asked whether it lives,
//!    is made again by the next call in its turn. The call that was on it fails as absent; nothing
//!    is asked twice here.
//!
//! Invariants
//! - A call is done only when the server said so whole: what is cut short is an error.
//! - Every count and length of an answer is held against the question before it is believed, and no
//!   more room is kept than the answer can need.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Nanos, RwLock, by};
use fogbank_store::shape::no_array;
use fogbank_store::{
    ArrayId, ArrayShape, BlobTag, Call, Cell, CellReads, ChunkName, ChunkWrite, PutCondition,
    PutOutcome, Result, Store, StoreError, XorCells,
};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::{Code, Status, Streaming};

use crate::codec::Pieces;
use crate::credentials::{Address, Credentials};
use crate::dial::{Channel, Dial, Lane};
use crate::reply::{Incoming, Messages, cell_lengths};
use crate::server::UNKNOWN_TENANT;
use crate::wire::{BLOB_BYTES_MAX, MESSAGE_BYTES_MAX, PATH, messages, request};

/// A tenant's store at a server.
pub struct CloudStore {
    dial: Dial,
    clock: Arc<dyn Clock>,
    connections: Vec<Lane>,
    next: AtomicUsize,
    /// Of arrays that this process made or was told of, the only ones that are read here: the
    /// server does not decide how long a reply may be.
    shapes: RwLock<BTreeMap<ArrayId, ArrayShape>>,
}

impl CloudStore {
    /// Opens what `url` names, with the credentials that it or the environment names.
    ///
    /// # Errors
    /// By blame, see [`StoreError`].
    pub async fn open(url: &str, clock: &Arc<dyn Clock>) -> Result<Self> {
        let address = Address::parse(url)?;
        let credentials = address.load()?;
        Self::connect(address, &credentials, CONNECTIONS, clock).await
    }

    /// Opens the store at `address` with so many connections, one or more.
    ///
    /// # Errors
    /// By blame, see [`StoreError`].
    pub async fn connect(
        address: Address,
        credentials: &Credentials,
        connections: usize,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let dial = Dial::new(&address, credentials)?;
        let connections = (0..connections.max(1)).map(|_| Lane::default()).collect();
        let (next, shapes) = (AtomicUsize::new(0), RwLock::default());
        let clock = clock.clone();
        let store = Self { dial, clock, connections, next, shapes };
        for index in 0..store.connections.len() {
            store.channel(index).await.map_err(at_opening)?;
        }
        Ok(store)
    }

    async fn channel(&self, index: usize) -> Result<Channel> {
        let greeted = self.dial.in_time(&*self.clock, self.greet());
        self.connections[index].channel(greeted).await
    }

    async fn greet(&self) -> Result<Channel> {
        let channel = self.dial.connect().await?;
        self.send(channel.clone(), Call::Barrier, 0).await?.done().await?;
        Ok(channel)
    }

    async fn call(&self, call: Call<'_>) -> Result<Incoming<Arriving>> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        let expected = self.answer_bytes_max(&call)?;
        let channel = self.channel(index).await?;
        self.send(channel, call, expected).await
    }

    async fn send(&self, channel: Channel, call: Call<'_>, max: u64) -> Result<Incoming<Arriving>> {
        let arriving =
            Arriving::ask(&self.dial, &self.clock, channel, PATH, request(call)?).await?;
        Ok(Incoming::new(arriving, max.saturating_add(ANSWER_SPARE_BYTES)))
    }

    /// Bytes of an honest answer to `call`, at most.
    fn answer_bytes_max(&self, call: &Call<'_>) -> Result<u64> {
        let mut bytes: u64 = 0;
        match call {
            Call::ReadCells(reads) | Call::ReadXor(reads, _) => {
                for read in reads.iter() {
                    let cell =
                        u64::from(self.shape(read.chunk.array)?.cell_bytes) + PART_HEAD_BYTES;
                    bytes = bytes.saturating_add(cell * read.cells.len() as u64);
                }
            }
            Call::ReadChunks(chunks) => {
                for name in *chunks {
                    let chunk = self.shape(name.array)?.chunk_bytes() as u64;
                    bytes = bytes.saturating_add(chunk + PART_HEAD_BYTES);
                }
            }
            Call::ListChunks(array) => {
                bytes = self.shape(*array)?.listed_max() * LISTED_BYTES;
            }
            Call::BlobGet(_) | Call::BlobList(_) => bytes = BLOB_BYTES_MAX as u64,
            _ => {}
        }
        Ok(bytes)
    }

    fn shape(&self, array: ArrayId) -> Result<ArrayShape> {
        let shapes = self.shapes.read();
        shapes.get(&array).copied().ok_or_else(|| no_array(array))
    }

    fn cell_bytes(&self, array: ArrayId) -> Option<u32> {
        self.shape(array).ok().map(|shape| shape.cell_bytes)
    }
}

/// What a server says, for terminals, with which it is not to be trusted.
pub(crate) fn words(place: &str, status: &Status) -> String {
    let words = status.message().chars().filter(|c| !c.is_control()).take(WORDS_MAX);
    format!("{place}: {}", words.collect::<String>())
}

/// What a status means, by blame.
pub(crate) fn blame(place: &str, status: &Status) -> StoreError {
    let why = words(place, status);
    match status.code() {
        Code::InvalidArgument => StoreError::Caller(why),
        Code::Unauthenticated | Code::PermissionDenied => StoreError::Refused(why),
        Code::Unimplemented => StoreError::Caller(format!("{why} (another version?)")),
        Code::FailedPrecondition => StoreError::Refused(why),
        Code::NotFound => StoreError::NoArray(why),
        Code::DataLoss | Code::OutOfRange => StoreError::Misbehaved(why),
        _ => StoreError::Absent(why),
    }
}

/// The same while a store is being opened, where another token is the caller's to put right: a
/// store that was open was opened by the right one. All else that is refused is the operator's.
pub(crate) fn at_opening(error: StoreError) -> StoreError {
    match error {
        StoreError::Refused(why) if why.contains(UNKNOWN_TENANT) => StoreError::Caller(why),
        other => other,
    }
}

/// The messages of an answer, each in time.
pub struct Arriving {
    pub(crate) stream: Streaming<Bytes>,
    place: String,
    clock: Arc<dyn Clock>,
    deadline: Nanos,
}

impl Arriving {
    /// Makes the call at `path` whose request is these pieces.
    ///
    /// # Errors
    /// By blame.
    pub(crate) async fn ask(
        dial: &Dial,
        clock: &Arc<dyn Clock>,
        channel: Channel,
        path: &'static str,
        pieces: Vec<Bytes>,
    ) -> Result<Self> {
        let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let messages: Vec<_> = messages(vec![pieces]).collect();
        let mut asked = tonic::Request::new(tokio_stream::iter(messages));
        dial.sign(&mut asked);
        let mut grpc = Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let patience = PATIENCE_NANOS + length.saturating_mul(SLOWEST_NANOS_PER_BYTE);
        let deadline = clock.now().saturating_add(patience);
        let answer = async {
            grpc.ready().await.map_err(|e| dial.absent(e))?;
            let path = PathAndQuery::from_static(path);
            let answered = grpc.streaming(asked, path, Pieces::many()).await;
            answered.map_err(|status| blame(&dial.place_of(&status), &status))
        };
        let answer = by(&**clock, deadline, answer).await;
        let answer = answer.unwrap_or_else(|| Err(dial.absent("no answer in time")))?;
        let (stream, place) = (answer.into_inner(), dial.place.clone());
        Ok(Self { stream, place, clock: clock.clone(), deadline })
    }
}

#[async_trait]
impl Messages for Arriving {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let next = by(&*self.clock, self.deadline, self.stream.message()).await;
        let late = || StoreError::Absent(format!("{}: no answer in time", self.place));
        let next = next.ok_or_else(late)?.map_err(|status| blame(&self.place, &status))?;
        let Some(message) = &next else { return Ok(None) };
        if message.is_empty() {
            // Counted by its bytes, it could come for ever.
            return Err(StoreError::Misbehaved(format!("{}: a message of nothing", self.place)));
        }
        // Nor may a byte at a time: what came earns time, and never more than from here on.
        let earned = self.deadline + message.len() as Nanos * SLOWEST_NANOS_PER_BYTE;
        self.deadline = earned.min(self.clock.now() + PATIENCE_NANOS).max(self.deadline);
        Ok(next)
    }
}

#[async_trait]
impl Store for CloudStore {
    async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        self.call(Call::CreateArray(array, shape)).await?.done().await?;
        self.shapes.write().insert(array, shape);
        Ok(())
    }

    fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
        shape.check()?;
        self.shapes.write().insert(array, shape);
        Ok(())
    }

    async fn drop_array(&self, array: ArrayId) -> Result<()> {
        self.shapes.write().remove(&array);
        self.call(Call::DropArray(array)).await?.done().await
    }

    async fn read_cells(&self, reads: &CellReads) -> Result<Vec<Cell>> {
        let lengths = cell_lengths(reads, None, |array| self.cell_bytes(array));
        self.call(Call::ReadCells(reads)).await?.cells(lengths.into_iter()).await
    }

    async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
        let lengths: Vec<_> = chunks
            .iter()
            .map(|name| self.shape(name.array).ok().map(|s| s.chunk_bytes()))
            .collect();
        self.call(Call::ReadChunks(chunks)).await?.chunks(lengths.into_iter()).await
    }

    async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
        self.call(Call::WriteChunks(writes)).await?.done().await
    }

    async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
        self.call(Call::DeleteChunks(chunks)).await?.done().await
    }

    async fn list_chunks(&self, array: ArrayId) -> Result<Vec<ChunkName>> {
        let shape = self.shape(array)?;
        self.call(Call::ListChunks(array)).await?.names(array, shape).await
    }

    async fn blob_get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
        self.call(Call::BlobGet(name)).await?.blob().await
    }

    async fn blob_put(
        &self,
        name: &str,
        data: Bytes,
        condition: PutCondition,
    ) -> Result<PutOutcome> {
        self.call(Call::BlobPut(name, data, condition)).await?.put().await
    }

    async fn blob_delete(&self, names: &[&str]) -> Result<()> {
        self.call(Call::BlobDelete(names)).await?.done().await
    }

    async fn blob_list(&self, prefix: &str) -> Result<Vec<String>> {
        self.call(Call::BlobList(prefix)).await?.blob_names(prefix).await
    }

    async fn barrier(&self) -> Result<()> {
        self.call(Call::Barrier).await?.done().await
    }

    fn xor(&self) -> Option<&dyn XorCells> {
        Some(self)
    }
}

#[async_trait]
impl XorCells for CloudStore {
    async fn read_xor(&self, reads: &CellReads, groups: &[u32]) -> Result<Vec<Cell>> {
        let lengths = cell_lengths(reads, Some(groups), |array| self.cell_bytes(array));
        self.call(Call::ReadXor(reads, groups)).await?.cells(lengths.into_iter()).await
    }
}

/// Connections of a store.
pub const CONNECTIONS: usize = 4;
/// How long the server may be silent in a call, beside what a slow link takes for the request.
const PATIENCE_NANOS: Nanos = 60_000_000_000;
const SLOWEST_NANOS_PER_BYTE: Nanos = 15_000;
/// A chunk version in a list.
const LISTED_BYTES: u64 = 12;
/// Heads; and of a list that is longer than was bargained for, the message that is being taken.
const ANSWER_SPARE_BYTES: u64 = 1 << 20;
/// What may stand around one cell or chunk.
const PART_HEAD_BYTES: u64 = 10;
const WORDS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    /// A token that is refused under a proxy was told as an internal fault, to be reported.
    #[test]
    fn a_token_that_is_refused_is_wrong_at_opening_and_a_refusal_later() {
        let later = blame("here", &Status::unauthenticated(UNKNOWN_TENANT));
        assert!(matches!(&later, StoreError::Refused(why) if why.contains("token")), "{later}");
        assert!(matches!(at_opening(later), StoreError::Caller(_)));
        // What only an operator can put right is no mistake of the caller.
        for status in
            [Status::failed_precondition("a file is missing"), Status::permission_denied("")]
        {
            assert!(matches!(at_opening(blame("here", &status)), StoreError::Refused(_)));
        }
    }
}
