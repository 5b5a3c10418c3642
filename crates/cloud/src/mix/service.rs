//! One call of another's: a client's session, or a message of the other server.
//!
//! 1. *A session*: the client's headers say what is opened, and where the other server is. When it
//!    is open the call is answered; then messages go both ways until either end has no more.
//!    A server that stops tells it.
//! 2. *A message of the other server* is received whole, worked off, and answered with nothing.
//!
//! Invariants
//! - Memory for what comes and goes is counted before it is taken.
//! - Whoever sends what is no message ends his own call, and nothing else.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::{Clock, Nanos, by};
use fogbank_mix::Shape;
use fogbank_mix::message::Reached;
use fogbank_mix::session::{FromCloud, MixCloud, Opening, Session, SessionError, ToCloud};
use fogbank_mix::signed::PublicKey;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::server::StreamingService;
use tonic::{Request as Asked, Response, Status, Streaming};

use super::mixing::{Between, Mixing};
use super::{
    HEAD_BYTES, KEY_HEADER, OPENING_HEADER, PEER_HEADER, Peer, REACHED_HEADER, message_bytes_max,
};
use crate::figures::Figures;
use crate::frames::{Frames, pieces};
use crate::tenant::Tenant;
use crate::wire::MESSAGE_BYTES_MAX;

/// What every call of a connection shares.
#[derive(Clone)]
pub struct MixDesk {
    pub clock: Arc<dyn Clock>,
    pub figures: Arc<Figures>,
    pub tenant: Arc<Tenant>,
    /// Whether it is the other server that calls.
    pub is_across: bool,
    /// With which servers it may be made to mix.
    pub mixes_with: Arc<[String]>,
    /// Where what comes is written down, if it is.
    pub record: Option<Arc<Path>>,
    /// Whether the server stops.
    pub stopping: watch::Receiver<bool>,
    /// The call's place among those of its connection.
    pub call: Arc<OwnedSemaphorePermit>,
}

type Answer = Result<Vec<Bytes>, Status>;

impl StreamingService<Bytes> for MixDesk {
    type Response = Vec<Bytes>;
    type ResponseStream = ReceiverStream<Answer>;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, asked: Asked<Streaming<Bytes>>) -> Self::Future {
        let desk = self.clone();
        Box::pin(async move {
            desk.figures.calls.add(1);
            let figures = desk.figures.clone();
            let answered = match desk.is_across {
                true => desk.take(asked).await,
                false => desk.session(asked).await,
            };
            answered.inspect_err(|_| figures.refused.add(1))
        })
    }
}

impl MixDesk {
    fn mixing(&self) -> Arc<Mixing> {
        self.tenant.mixing(&self.clock, self.record.as_deref())
    }

    async fn session(
        self,
        asked: Asked<Streaming<Bytes>>,
    ) -> Result<Response<ReceiverStream<Answer>>, Status> {
        let headers = asked.metadata();
        let opening = headers.get_bin(OPENING_HEADER).and_then(|value| value.to_bytes().ok());
        let opening = opening.and_then(|bytes| Opening::decode(&bytes).ok());
        let peer = headers.get(PEER_HEADER).and_then(|value| value.to_str().ok());
        let (opening, peer) = opening.zip(peer.and_then(Peer::parse)).ok_or_else(no_message)?;
        if !self.mixes_with.contains(&peer.place) {
            return Err(Status::failed_precondition(format!(
                "this server does not mix with {}: its operator has to start it with --mixes-with \
                 {}",
                peer.place, peer.place
            )));
        }
        if opening.session == 0 {
            // A question. Whether there is an answer, whoever asked says to its user.
            let reached = self.mixing().server.reached(&opening).await.map_err(status)?;
            let key = self.mixing().server.key(&opening).await.map_err(status)?;
            return Ok(answer(ReceiverStream::new(mpsc::channel(1).1), (reached, key)));
        }
        let told = |error| told(&self.tenant, error);
        let max = message_bytes_max(&opening.shape);
        let room = self.tenant.memory.try_take(2 * max as u64);
        let room = room.ok_or_else(|| Status::resource_exhausted("no memory is left for it"))?;
        let mixing = self.mixing();
        let Session { sender, mut receiver, reached, key } =
            mixing.server.open(&opening).await.map_err(told)?;
        // Only now: whom a later session has fenced says nothing of where the other server is.
        mixing.is_beside(&peer)?;
        let shape = opening.shape;
        let figures = self.figures.clone();
        let (answers, stream) = mpsc::channel(ANSWERS_AHEAD);
        let (ended, mut stopping) = (answers.clone(), self.stopping.clone());
        let tenant = self.tenant.clone();
        let call = self.call.clone();
        tokio::spawn(async move {
            let into = (&*mixing, &*tenant, &sender);
            let coming = come(asked.into_inner(), (&shape, max), into, &figures);
            tokio::select! {
                came = coming => if let Err(status) = came {
                    let _gone = ended.send(Err(status)).await;
                },
                () = ended.closed() => {}
                () = async { _ = stopping.wait_for(|stops| *stops).await.is_ok() } => {
                    let _gone = ended.send(Err(Status::unavailable("the server stops"))).await;
                }
            }
            drop((sender, call, room)); // the session is over
        });
        let (figures, tenant) = (self.figures.clone(), self.tenant.clone());
        tokio::spawn(async move {
            while let Some(first) = receiver.recv().await {
                for answer in together(&tenant, first, &mut receiver) {
                    if let Ok(bytes) = &answer {
                        figures.bytes_out.add(bytes.iter().map(|b| b.len() as u64).sum());
                    }
                    if answers.send(answer).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(answer(ReceiverStream::new(stream), (Some(reached), key)))
    }

    /// A message of the other server.
    async fn take(
        self,
        asked: Asked<Streaming<Bytes>>,
    ) -> Result<Response<ReceiverStream<Answer>>, Status> {
        let (clock, mixing) = (&*self.clock, self.mixing());
        let waits = by(clock, clock.now() + OPEN_NANOS_MAX, mixing.server.shape()).await;
        let closed = || Status::unavailable("its client has not opened this volume here");
        let shape = waits.flatten().ok_or_else(closed)?;
        let mut coming = asked.into_inner();
        let mut frames = Frames::new(HEAD_BYTES, message_bytes_max(&shape));
        let (mut rooms, mut come) = (Vec::new(), 0);
        let message = loop {
            let next = by(clock, clock.now() + PATIENCE_NANOS, coming.message()).await;
            let slow = || Status::deadline_exceeded("the message comes too slowly");
            let piece = next.ok_or_else(slow)??.ok_or_else(no_message)?;
            self.figures.bytes_in.add(piece.len() as u64);
            if piece.is_empty() {
                return Err(no_message()); // it would count for nothing, and be waited for again
            }
            // Before it is kept: as it came, and as it will be decoded. However it is cut, what
            // counts it takes little itself.
            come += 2 * piece.len() as u64;
            while (rooms.len() as u64) * ROOM_BYTES < come {
                let none = || Status::resource_exhausted("no memory is left for it");
                rooms.push(self.tenant.memory.try_take(ROOM_BYTES).ok_or_else(none)?);
            }
            frames.push(piece);
            if let Some(message) = frames.next().map_err(|_| no_message())? {
                break message;
            }
        };
        let message = Between::decode(&message, shape.cell_bytes()).ok_or_else(no_message)?;
        let hears = |message: &_| match &mixing.recording {
            Some(recording) => recording.passed(message),
            None => Ok(()),
        };
        let received = mixing.server.receive_heard(message.0, hears).await;
        received.map_err(|error| told(&self.tenant, error))?;
        let (_, stream) = mpsc::channel(1);
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

fn answer(
    stream: ReceiverStream<Answer>,
    (reached, key): (Option<Reached>, PublicKey),
) -> Response<ReceiverStream<Answer>> {
    let mut answer = Response::new(stream);
    if let Some(reached) = reached {
        let reached = MetadataValue::from_bytes(&reached.encode());
        answer.metadata_mut().insert_bin(REACHED_HEADER, reached);
    }
    answer.metadata_mut().insert_bin(KEY_HEADER, MetadataValue::from_bytes(&key));
    answer
}

async fn come(
    mut coming: Streaming<Bytes>,
    (shape, max): (&Shape, usize),
    (mixing, tenant, sender): (&Mixing, &Tenant, &mpsc::Sender<ToCloud>),
    figures: &Figures,
) -> Result<(), Status> {
    let mut frames = Frames::new(HEAD_BYTES, max);
    while let Some(piece) = coming.message().await? {
        figures.bytes_in.add(piece.len() as u64);
        frames.push(piece);
        while let Some(message) = frames.next().map_err(|_| no_message())? {
            let message =
                ToCloud::decode(&message, shape.cell_bytes()).map_err(|_| no_message())?;
            // Room first: what a session that is over cannot take any more is not written either.
            let Ok(room) = sender.reserve().await else {
                return Ok(()); // why it is over is said where messages go
            };
            if let Some(recording) = &mixing.recording {
                recording.asked(shape, &message).map_err(|error| told(tenant, error))?;
            }
            room.send(message);
        }
    }
    Ok(())
}

/// A message and those that wait behind it.
fn together(
    tenant: &Tenant,
    first: Result<FromCloud, SessionError>,
    receiver: &mut mpsc::Receiver<Result<FromCloud, SessionError>>,
) -> Vec<Answer> {
    let (mut bytes, mut next) = (Vec::new(), Some(first));
    let mut error = None;
    while let Some(message) = next.take() {
        match message {
            Ok(message) => message.encode_into(&mut bytes),
            Err(why) => error = Some(Err(told(tenant, why))),
        }
        if bytes.len() < MESSAGE_BYTES_MAX / 2 && error.is_none() {
            next = receiver.try_recv().ok();
        }
    }
    pieces(bytes).map(|piece| Ok(vec![piece])).chain(error).collect()
}

/// Why there is no session, for whoever asked, and for this server's operator.
fn told(tenant: &Tenant, error: SessionError) -> Status {
    let tenant = &tenant.name;
    match &error {
        SessionError::Fenced => {
            tracing::info!(tenant, "another session has taken the place of one")
        }
        error => tracing::warn!(tenant, %error, "could not do what a volume in two clouds needs"),
    }
    status(error)
}

/// Why there is no session, as a status of the wire.
fn status(error: SessionError) -> Status {
    match error {
        SessionError::Absent(why) => Status::unavailable(why),
        SessionError::Fenced => Status::aborted("another session has taken its place"),
        SessionError::Refused(why) => Status::failed_precondition(why),
        SessionError::Misbehaved(why) => Status::data_loss(why),
    }
}

pub(super) fn no_message() -> Status {
    Status::invalid_argument("that is no message of this version")
}

/// Messages that are ready before the client takes them.
const ANSWERS_AHEAD: usize = 4;
/// Memory for what comes is taken in steps of this.
const ROOM_BYTES: u64 = 4096;
/// How long the other server may be silent within a message, and how long its message waits for the
/// client to open the volume here.
const PATIENCE_NANOS: Nanos = 10_000_000_000;
const OPEN_NANOS_MAX: Nanos = 10_000_000_000;
