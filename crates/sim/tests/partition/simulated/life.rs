//! A life of the simulator in a cloud: what it says is done, with random bytes, and it is told what
//! happens. When all has come that comes in a moment, it decides what leaves in it, as the engine
//! does.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use fogbank_audit::oracle::simulator::{Act, Simulator};
use fogbank_env::Stream;
use fogbank_sim::scene::volume::Cloud;
use fogbank_store::trace::{
    Blame, ChunkSeen, Client, Condition, Done, Event, Mark, Outcome, Request, Sent, fingerprint,
};
use fogbank_store::{
    BlobTag, Call, Cell, CellReads, ChunkWrite, PutCondition, PutOutcome, Reply, Store, StoreError,
};
use rand_core::Rng;
use tokio::task::JoinSet;

/// A request under way, and its end.
type Ended = (u64, Result<Reply, StoreError>);

/// Runs a simulator against a cloud.
pub struct Life<'a> {
    simulator: &'a mut Simulator,
    cloud: Cloud,
    cell_bytes: usize,
    random: Stream,
    under_way: JoinSet<Ended>,
    next_id: u64,
    unanswered: usize,
    is_closing: bool,
    /// The tag of the commit record, and the last request that tells it.
    tag: Option<BlobTag>,
    tells_tag: u64,
}

impl<'a> Life<'a> {
    /// One in this cloud, whose cells have so many bytes; bytes follow from `random`.
    pub fn new(
        simulator: &'a mut Simulator,
        cloud: Cloud,
        (cell_bytes, random): (usize, Stream),
    ) -> Self {
        Self {
            simulator,
            cloud,
            cell_bytes,
            random,
            under_way: JoinSet::new(),
            next_id: 0,
            unanswered: 0,
            is_closing: false,
            tag: None,
            tells_tag: u64::MAX,
        }
    }

    /// A whole life: `arrivals` come, and when all are answered the store is closed.
    pub async fn live(mut self, mut arrivals: VecDeque<Client>) {
        self.unanswered = arrivals.len();
        loop {
            self.acts(false).await;
            if self.unanswered == 0 && !self.is_closing {
                self.is_closing = true;
                self.simulator.closes();
                continue;
            }
            let next = arrivals.front().map(|client| client.at);
            let clock = self.cloud.clock.clone();
            let arrives = async { clock.sleep_until(next.unwrap_or_default()).await };
            tokio::select! { biased;
                Some(ended) = self.under_way.join_next() => self.ended(ended.unwrap()).await,
                () = arrives, if next.is_some() => {}
                else => return,
            }
            self.all_of_this_moment(&mut arrivals).await;
        }
    }

    /// All comes that comes in this moment.
    async fn all_of_this_moment(&mut self, arrivals: &mut VecDeque<Client>) {
        for _ in 0..TURNS {
            while let Some(ended) = self.under_way.try_join_next() {
                self.ended(ended.unwrap()).await;
            }
            let now = self.cloud.clock.now();
            while arrivals.front().is_some_and(|client| client.at <= now)
                && let Some(client) = arrivals.pop_front()
            {
                let Client { connection, number, bytes, .. } = client;
                self.cloud.trace.client_request(connection, number, bytes).unwrap();
                self.takes(&Event::ClientRequest(client));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Does what is due; if more `comes` in this moment, only messages of cells.
    async fn acts(&mut self, comes: bool) {
        while let Some(act) = self.simulator.next(comes) {
            let at = self.cloud.clock.now();
            let event = match act {
                Act::Sends(request) => self.send(request).await,
                Act::Says(label, number) => {
                    self.cloud.trace.mark(label, number).unwrap();
                    Event::Mark(Mark { at, label: label.into(), number })
                }
                Act::Answers(connection, number) => {
                    let bytes = CLIENT_BYTES;
                    self.cloud.trace.client_reply(connection, number, bytes).unwrap();
                    self.unanswered -= 1;
                    Event::ClientReply(Client { at, connection, number, bytes })
                }
            };
            self.takes(&event);
        }
    }

    fn takes(&mut self, event: &Event) {
        self.simulator.takes(event).unwrap_or_else(|breach| panic!("{breach}: {event:?}"));
    }

    fn draw(&mut self, bytes: u64) -> Bytes {
        let mut drawn = vec![0; bytes as usize];
        self.random.fill_bytes(&mut drawn);
        drawn.into()
    }

    /// A request leaves, with random bytes where it has any; its event.
    async fn send(&mut self, mut request: Request) -> Event {
        let (store, at, id) = (self.cloud.store.clone(), self.cloud.clock.now(), self.next_id);
        self.next_id += 1;
        let mut data = Vec::new();
        if let Request::BlobGet { name } | Request::BlobPut { name, .. } = &request
            && name == "commit"
        {
            self.tells_tag = id;
        }
        match &mut request {
            Request::BlobPut { bytes, fingerprint: print, condition, .. } => {
                let drawn = self.draw(*bytes);
                *print = fingerprint(&drawn);
                if let (Condition::IfUnchanged(tag), Some(known)) = (condition, &self.tag) {
                    *tag = known.0.to_string();
                }
                data.push(drawn);
            }
            Request::WriteChunks { writes } => {
                for (_, seen) in writes {
                    let drawn = self.draw(seen.bytes);
                    seen.fingerprints = drawn.chunks(self.cell_bytes).map(fingerprint).collect();
                    data.push(drawn);
                }
            }
            _ => {}
        }
        let sent = request.clone();
        let mut call: Pin<Box<dyn Future<Output = Ended> + Send>> =
            Box::pin(async move { (id, call(&*store, &sent, data).await) });
        // It leaves now.
        let ended = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        assert!(ended.is_pending(), "a reply takes some time");
        self.under_way.spawn(call);
        Event::Sent(Sent { id, at, cloud: 0, connection: 0, request })
    }

    async fn ended(&mut self, (id, reply): Ended) {
        let print = |bytes: &Bytes| ChunkSeen {
            bytes: bytes.len() as u64,
            fingerprints: vec![fingerprint(bytes)],
        };
        let cell = |cell: &Cell| match cell {
            Cell::Bytes(bytes) => Some(print(bytes)),
            Cell::NotWritten => None,
        };
        let outcome = match &reply {
            Ok(Reply::Cells(cells)) => Outcome::Cells(cells.iter().map(cell).collect()),
            Ok(Reply::Names(names)) => {
                self.simulator.lists(&[], names);
                Outcome::Listed(names.len() as u64)
            }
            Ok(Reply::BlobNames(names)) => {
                self.simulator.lists(names, &[]);
                Outcome::BlobsListed(names.len() as u64)
            }
            Ok(Reply::Blob(blob)) => Outcome::Blob(blob.as_ref().map(|(bytes, _)| print(bytes))),
            Ok(Reply::Put(PutOutcome::Done(_))) => Outcome::Put(true),
            Ok(Reply::Put(PutOutcome::ConditionFailed)) => Outcome::Put(false),
            Ok(_) => Outcome::Done,
            Err(_) => Outcome::Failed(Blame::Absent),
        };
        if let Ok(Reply::Blob(Some((_, tag))) | Reply::Put(PutOutcome::Done(tag))) = reply
            && id == self.tells_tag
        {
            self.tag = Some(tag);
        }
        let at = self.cloud.clock.now();
        self.takes(&Event::Done(Done { id, at, outcome }));
        self.acts(true).await;
    }
}

/// Turns that others get until all has come that comes in a moment.
const TURNS: usize = 4;

/// Makes the call.
async fn call(
    store: &dyn Store,
    request: &Request,
    mut data: Vec<Bytes>,
) -> Result<Reply, StoreError> {
    let call = match request {
        Request::CreateArray { array, shape } => Call::CreateArray(*array, *shape),
        Request::ReadCells { reads } => {
            let mut asked = CellReads::default();
            reads.iter().for_each(|read| asked.push(read.chunk, read.cells.iter().copied()));
            return Call::ReadCells(&asked).perform(store).await;
        }
        Request::WriteChunks { writes } => {
            let writes = writes.iter().zip(data);
            let writes = writes.map(|((chunk, _), data)| ChunkWrite { chunk: *chunk, data });
            Call::WriteChunks(writes.collect())
        }
        Request::DeleteChunks { chunks } => Call::DeleteChunks(chunks),
        Request::ListChunks { array } => Call::ListChunks(*array),
        Request::BlobGet { name } => Call::BlobGet(name),
        Request::BlobPut { name, condition, .. } => {
            let condition = match condition {
                Condition::Always => PutCondition::Always,
                Condition::IfAbsent => PutCondition::IfAbsent,
                Condition::IfUnchanged(tag) => {
                    PutCondition::IfUnchanged(BlobTag(tag.as_str().into()))
                }
            };
            Call::BlobPut(name, data.remove(0), condition)
        }
        Request::BlobDelete { names } => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            return Call::BlobDelete(&names).perform(store).await;
        }
        Request::BlobList { prefix } => Call::BlobList(prefix),
        Request::Barrier => Call::Barrier,
        other => panic!("{other:?}"),
    };
    call.perform(store).await
}

/// Messages of clients have one length.
const CLIENT_BYTES: u64 = 64;
