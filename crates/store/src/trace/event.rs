//! What a trace holds, as the reader hands it out.

use fogbank_env::Nanos;

use crate::{ArrayId, ArrayShape, ChunkName, Operation};

/// One entry of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A request went to a store.
    Sent(Sent),
    /// A request came to its end.
    Done(Done),
    /// Something public happened at the proxy: it opened, claimed the store, crashed.
    Mark(Mark),
    /// A client asked the proxy for something (engines whose arrivals are public).
    ClientRequest(Client),
    /// The proxy answered a client.
    ClientReply(Client),
    /// The query log told a client of a site something that it follows.
    Heard(Heard),
}

/// A request on its way to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Names the request within the trace: 0, 1, 2 in the order of sending.
    pub id: u64,
    /// When, by the proxy's clock.
    pub at: Nanos,
    /// Which of the engine's stores.
    pub cloud: u8,
    /// Which connection to it.
    pub connection: u32,
    /// What was asked.
    pub request: Request,
}

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Which request.
    pub id: u64,
    /// When, by the proxy's clock.
    pub at: Nanos,
    /// What came back.
    pub outcome: Outcome,
}

/// A public moment with a free label and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When, by the proxy's clock.
    pub at: Nanos,
    /// What happened.
    pub label: String,
    /// Which one.
    pub number: u64,
}

/// A message between a client and the proxy, as one sees it who sees sizes and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// When, by the proxy's clock.
    pub at: Nanos,
    /// The client's connection.
    pub connection: u32,
    /// Which request of it: a reply bears the number of its request.
    pub number: u64,
    /// The length of the message.
    pub bytes: u64,
}

/// An entry of the query log, or what was published of one, as it came to who follows the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The request to follow that brought it.
    pub id: u64,
    /// When, by the client's clock.
    pub at: Nanos,
    /// The server's index of the entry.
    pub place: u64,
    /// Whether it is what was published of the place, not its entry.
    pub is_result: bool,
    /// Its length.
    pub bytes: u64,
    /// Its fingerprint.
    pub fingerprint: u64,
}

/// What a query log was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the method of the log of the same name, and its arguments
pub enum LogCall {
    Append { session: u32, turn: u64, bytes: u64, fingerprint: u64 },
    Publish { place: u64, bytes: u64, fingerprint: u64 },
    Follow { from: u64 },
    Forget { before: u64 },
}

/// What a store was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the method of the store of the same name, and its arguments
pub enum Request {
    CreateArray { array: ArrayId, shape: ArrayShape },
    DropArray { array: ArrayId },
    ReadCells { reads: Vec<ChunkCells> },
    ReadChunks { chunks: Vec<ChunkName> },
    WriteChunks { writes: Vec<(ChunkName, ChunkSeen)> },
    DeleteChunks { chunks: Vec<ChunkName> },
    ListChunks { array: ArrayId },
    BlobGet { name: String },
    BlobPut { name: String, bytes: u64, condition: Condition, fingerprint: u64 },
    BlobDelete { names: Vec<String> },
    BlobList { prefix: String },
    Barrier,
    ReadXor { reads: Vec<ChunkCells>, groups: Vec<u32> },
    Log(LogCall),
}

/// Cells asked of a chunk version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkCells {
    /// The chunk version.
    pub chunk: ChunkName,
    /// The cells, strictly increasing.
    pub cells: Vec<u16>,
}

/// Bytes that travelled, by their length and fingerprints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkSeen {
    /// Their length.
    pub bytes: u64,
    /// One fingerprint a cell; a single one over everything if the trace neither saw the array
    /// made nor was told of it, or the length is none of its chunk's; none if the trace leaves
    /// those of replies out.
    pub fingerprints: Vec<u64>,
}

/// When a blob was to be put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// In any case.
    Always,
    /// If there was none.
    IfAbsent,
    /// If it still had this tag.
    IfUnchanged(String),
}

/// What came back from a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done, nothing to return.
    Done,
    /// Cells; `None` where not written.
    Cells(Vec<Option<ChunkSeen>>),
    /// Chunks; `None` where not written.
    Chunks(Vec<Option<ChunkSeen>>),
    /// So many chunk versions.
    Listed(u64),
    /// A blob or none.
    Blob(Option<ChunkSeen>),
    /// Whether the blob was put.
    Put(bool),
    /// So many names of blobs.
    BlobsListed(u64),
    /// The place of an entry in the log; `None` if that was forgotten.
    Placed(Option<u64>),
    /// It failed.
    Failed(Blame),
    /// The caller went away before the reply came; the store may have done it all the same.
    Abandoned,
}

/// Whose fault a failure was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The store did not answer.
    Absent,
    /// The store broke the contract.
    Misbehaved,
    /// The caller asked for what cannot be.
    Caller,
}

impl Request {
    /// Which call of the store it was; `None` for one of the query log.
    pub fn operation(&self) -> Option<Operation> {
        Some(match self {
            Request::CreateArray { .. } => Operation::CreateArray,
            Request::DropArray { .. } => Operation::DropArray,
            Request::ReadCells { .. } => Operation::ReadCells,
            Request::ReadChunks { .. } => Operation::ReadChunks,
            Request::WriteChunks { .. } => Operation::WriteChunks,
            Request::DeleteChunks { .. } => Operation::DeleteChunks,
            Request::ListChunks { .. } => Operation::ListChunks,
            Request::BlobGet { .. } => Operation::BlobGet,
            Request::BlobPut { .. } => Operation::BlobPut,
            Request::BlobDelete { .. } => Operation::BlobDelete,
            Request::BlobList { .. } => Operation::BlobList,
            Request::Barrier => Operation::Barrier,
            Request::ReadXor { .. } => Operation::ReadXor,
            Request::Log(_) => return None,
        })
    }

    /// Which call it was, in words.
    pub fn word(&self) -> String {
        match (self, self.operation()) {
            (Request::Log(call), _) => format!("{call:?}"),
            (_, operation) => operation.map_or_else(String::new, |of| format!("{of:?}")),
        }
    }
}

impl Event {
    /// When it happened, by the proxy's clock. Never decreases within a trace.
    pub fn at(&self) -> Nanos {
        match self {
            Event::Sent(sent) => sent.at,
            Event::Done(done) => done.at,
            Event::Mark(mark) => mark.at,
            Event::ClientRequest(client) | Event::ClientReply(client) => client.at,
            Event::Heard(heard) => heard.at,
        }
    }
}
