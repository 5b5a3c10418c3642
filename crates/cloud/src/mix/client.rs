//! The way from a client to a server that mixes for it.
//!
//! 1. *Opening*: a connection of its own, then the call. The server answers it when the session is
//!    open and all older ones are over.
//! 2. *Messages*: one task carries those of the client, another those of the server. Each waits
//!    when the other end is behind.
//! 3. *Loss*: the receiver ends with who is to blame. Nothing is sent twice here.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Nanos, by};
use fogbank_mix::message::Reached;
use fogbank_mix::session::{
    FromCloud, MixCloud, Opening, QUEUED_MAX, Session, SessionError, ToCloud,
};
use fogbank_mix::signed::PublicKey;
use fogbank_store::StoreError;
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Status, Streaming};

use super::{
    HEAD_BYTES, KEY_HEADER, OPENING_HEADER, Peer, REACHED_HEADER, SESSION_PATH, message_bytes_max,
};
use crate::client::words;
use crate::codec::Pieces;
use crate::credentials::{Address, Credentials};
use crate::dial::Dial;
use crate::frames::{Frames, pieces};
use crate::wire::MESSAGE_BYTES_MAX;

/// What a server says at once: what it has seen of the client's journal, if it knows of any, and by
/// which it signs.
type Said = (Option<Reached>, PublicKey);

/// A server that mixes, beside another.
pub struct MixClient {
    dial: Dial,
    /// What the server is told of the other.
    peer: MetadataValue<Ascii>,
    clock: Arc<dyn Clock>,
}

impl MixClient {
    /// The server at `url`, which mixes with the one at `other`. Both credentials are read; nothing
    /// is sent yet.
    ///
    /// # Errors
    /// [`StoreError::Caller`] for URLs and credentials that cannot be.
    pub fn open(url: &str, other: &str, clock: &Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::check(url, other)?;
        let (address, other) = (Address::parse(url)?, Address::parse(other)?);
        let (own, credentials) = (address.load()?, other.load()?);
        if own.pin == credentials.pin {
            return Err(one_pin((&address.place, &own), (&other.place, &credentials)));
        }
        let dial = Dial::new(&address, &own)?;
        let peer = Peer {
            place: other.place,
            tenant: other.tenant,
            token: credentials.token.for_mixing(),
            pin: credentials.pin,
        };
        let mut peer: MetadataValue<_> = peer
            .text()
            .parse()
            .map_err(|_| StoreError::Caller("the other cloud cannot stand in a header".into()))?;
        peer.set_sensitive(true);
        Ok(Self { dial, peer, clock: clock.clone() })
    }

    /// Refuses URLs that are none of two servers. Nothing is read.
    ///
    /// # Errors
    /// [`StoreError::Caller`].
    pub fn check(url: &str, other: &str) -> Result<(), StoreError> {
        // Also two tenants of a server are one cloud: it would see everything.
        let (place, other) = (Address::parse(url)?.place, Address::parse(other)?.place);
        match place == other {
            true => Err(one_server(&format!("both URLs say {place}"))),
            false => Ok(()),
        }
    }

    async fn call(
        &self,
        opening: &Opening,
        messages: mpsc::Receiver<Vec<Bytes>>,
    ) -> Result<(Streaming<Bytes>, Said), SessionError> {
        let channel = self.dial.connect().await.map_err(of_store)?;
        let mut asked = tonic::Request::new(ReceiverStream::new(messages));
        self.dial.sign(&mut asked);
        let headers = asked.metadata_mut();
        let mut opening = MetadataValue::from_bytes(&opening.encode());
        opening.set_sensitive(true);
        headers.insert_bin(OPENING_HEADER, opening);
        headers.insert(super::PEER_HEADER, self.peer.clone());
        let mut grpc = Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|e| of_store(self.dial.absent(e)))?;
        let path = PathAndQuery::from_static(SESSION_PATH);
        let answer = grpc.streaming(asked, path, Pieces::many()).await;
        let answer = answer.map_err(|status| blame(&self.dial.place_of(&status), &status))?;
        let said = |of| answer.metadata().get_bin(of).and_then(|it| it.to_bytes().ok());
        let strange = || format!("{}: it does not say what it has seen", self.dial.place);
        let reached = said(REACHED_HEADER).map(|bytes| Reached::decode(&bytes));
        let reached = reached.transpose().map_err(|_| SessionError::Misbehaved(strange()))?;
        let key = said(KEY_HEADER).and_then(|bytes| PublicKey::try_from(&bytes[..]).ok());
        let key = key.ok_or_else(|| SessionError::Misbehaved(strange()))?;
        Ok((answer.into_inner(), (reached, key)))
    }

    /// What a server says to whoever opens nothing.
    async fn asked(&self, opening: &Opening) -> Result<Said, SessionError> {
        let (_, nothing) = mpsc::channel(1);
        let asked = Opening { session: 0, ..opening.clone() };
        Ok(self.called(&asked, nothing).await?.1)
    }

    /// The call, in time.
    async fn called(
        &self,
        opening: &Opening,
        messages: mpsc::Receiver<Vec<Bytes>>,
    ) -> Result<(Streaming<Bytes>, Said), SessionError> {
        let (clock, place) = (&*self.clock, &self.dial.place);
        let called = self.call(opening, messages);
        let called = by(clock, clock.now() + OPENING_NANOS_MAX, called).await;
        let late = || Err(SessionError::Absent(format!("{place}: it does not answer")));
        called.unwrap_or_else(late)
    }
}

#[async_trait]
impl MixCloud for MixClient {
    async fn open(&self, opening: &Opening) -> Result<Session, SessionError> {
        let (messages, carried) = mpsc::channel(MESSAGES_AHEAD);
        let (coming, (reached, key)) = self.called(opening, carried).await?;
        let place = self.dial.place.clone();
        let unsaid = || SessionError::Misbehaved(format!("{place}: it knows of no session"));
        let reached = reached.ok_or_else(unsaid)?;
        let (sender, sends) = mpsc::channel(QUEUED_MAX);
        let (come, receiver) = mpsc::channel(QUEUED_MAX);
        tokio::spawn(carry(sends, messages));
        let (cell_bytes, max) = (opening.shape.cell_bytes(), message_bytes_max(&opening.shape));
        tokio::spawn(async move {
            if let Err(error) = receive(coming, &come, (cell_bytes, max), &place).await {
                let _nobody_waits = come.send(Err(error)).await;
            }
        });
        Ok(Session { sender, receiver, reached, key })
    }

    async fn reached(&self, opening: &Opening) -> Result<Option<Reached>, SessionError> {
        Ok(self.asked(opening).await?.0)
    }

    async fn key(&self, opening: &Opening) -> Result<PublicKey, SessionError> {
        Ok(self.asked(opening).await?.1)
    }
}

/// Carries messages, small ones together, until there are no more or nobody takes them.
async fn carry(mut sends: mpsc::Receiver<ToCloud>, messages: mpsc::Sender<Vec<Bytes>>) {
    while let Some(first) = sends.recv().await {
        let mut bytes = first.encode();
        while bytes.len() < MESSAGE_BYTES_MAX / 2
            && let Ok(next) = sends.try_recv()
        {
            next.encode_into(&mut bytes);
        }
        for piece in pieces(bytes) {
            if messages.send(vec![piece]).await.is_err() {
                return;
            }
        }
    }
}

async fn receive(
    mut coming: Streaming<Bytes>,
    come: &mpsc::Sender<Result<FromCloud, SessionError>>,
    (cell_bytes, max): (usize, usize),
    place: &str,
) -> Result<(), SessionError> {
    let mut frames = Frames::new(HEAD_BYTES, max);
    let strange = || SessionError::Misbehaved(format!("{place}: what comes is no message"));
    while let Some(piece) = coming.message().await.map_err(|status| blame(place, &status))? {
        frames.push(piece);
        while let Some(message) = frames.next().map_err(|_| strange())? {
            let message = FromCloud::decode(&message, cell_bytes).map_err(|_| strange())?;
            if come.send(Ok(message)).await.is_err() {
                return Ok(());
            }
        }
    }
    Err(SessionError::Absent(format!("{place}: it has ended the session")))
}

fn one_server(how: &str) -> StoreError {
    StoreError::Caller(format!(
        "{how}: both clouds are one server, which would see everything; give two, at providers \
         that do not work together"
    ))
}

/// Why two servers have one certificate: one file is read for both, or they are one.
fn one_pin(
    (place, own): (&str, &Credentials),
    (other_place, other): (&str, &Credentials),
) -> StoreError {
    if own.token.digits() != other.token.digits() {
        return one_server(&format!("{place} and {other_place} have the same certificate"));
    }
    let file = other.file.as_deref().unwrap_or(Path::new("that file"));
    StoreError::Caller(format!(
        "the credentials in {}, for {other_place}, are those for {place}, too, and each server has \
         its own: copy tenants/NAME/credentials of the other server, and name the copy behind its \
         URL, by ?credentials=FILE",
        file.display()
    ))
}

pub(super) fn of_store(error: StoreError) -> SessionError {
    match error {
        StoreError::Absent(why) | StoreError::Near(why) => SessionError::Absent(why),
        StoreError::Misbehaved(why) | StoreError::NoArray(why) => SessionError::Misbehaved(why),
        StoreError::Refused(why) | StoreError::Caller(why) => SessionError::Refused(why),
    }
}

/// What a status means, by blame.
pub(super) fn blame(place: &str, status: &Status) -> SessionError {
    let why = words(place, status);
    match status.code() {
        Code::Aborted => SessionError::Fenced,
        Code::InvalidArgument
        | Code::Unauthenticated
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Unimplemented => SessionError::Refused(why),
        Code::DataLoss | Code::OutOfRange => SessionError::Misbehaved(why),
        _ => SessionError::Absent(why),
    }
}

/// Messages of gRPC that are ready before the connection takes them.
const MESSAGES_AHEAD: usize = 4;
/// How long a server may take until a session is open: it may have to read what it keeps.
const OPENING_NANOS_MAX: Nanos = 60_000_000_000;
