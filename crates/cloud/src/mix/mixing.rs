//! The volume of a tenant, and the way to the other server.
//!
//! Where that is, a client says when it opens a session; the last word counts. A message is a call
//! of its own, on one of a few connections in turn, and is done when the other server says that it
//! is worked off.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::{Clock, Mutex, Nanos, by};
use fogbank_mix::message::{Across, Back};
use fogbank_mix::server::{MixServer, PeerLink};
use fogbank_mix::session::SessionError;
use fogbank_mix::signed::{Signed, Signer};
use fogbank_mix::{Elsewhere, KeptRoom};
use fogbank_store::Store;
use http::uri::PathAndQuery;
use tonic::Status;
use tonic::client::Grpc;

use super::client::{blame, of_store};
use super::recording::Recording;
use super::{ACROSS_PATH, Peer};
use crate::codec::Pieces;
use crate::credentials::{Address, Credentials};
use crate::dial::{Dial, Lane};
use crate::frames::pieces;
use crate::wire::MESSAGE_BYTES_MAX;

/// A message between servers, as it goes over a link: the role of who gets it, then the message.
#[derive(Debug)]
pub struct Between(pub fogbank_mix::server::Between);

impl Between {
    fn encode(&self) -> Vec<u8> {
        use fogbank_mix::server::Between as Inner;
        let (role, batch) = match &self.0 {
            Inner::Across(message) => (TO_SHUFFLER, message.batch()),
            Inner::Back(message) => (TO_HOLDER, message.batch()),
        };
        let mut out = Vec::with_capacity(batch.cells.bytes().len() + AROUND_BYTES);
        out.push(role);
        match &self.0 {
            Inner::Across(message) => message.encode_into(&mut out),
            Inner::Back(message) => message.encode_into(&mut out),
        }
        out
    }

    /// What [`Between::encode`] made; its cells have so many bytes.
    pub fn decode(bytes: &[u8], cell_bytes: usize) -> Option<Self> {
        let (role, message) = bytes.split_first()?;
        Some(Self(match *role {
            TO_SHUFFLER => {
                fogbank_mix::server::Between::Across(Across::decode(message, cell_bytes).ok()?)
            }
            TO_HOLDER => {
                fogbank_mix::server::Between::Back(Back::decode(message, cell_bytes).ok()?)
            }
            _ => return None,
        }))
    }
}

/// What stands around the cells of a message, about.
const AROUND_BYTES: usize = 256;
const TO_HOLDER: u8 = 1;
const TO_SHUFFLER: u8 = 2;

/// See the module.
pub struct Mixing {
    /// Holder and shuffler.
    pub server: MixServer,
    /// Whoever is told of all that comes, if anybody is.
    pub(super) recording: Option<Recording>,
    way: Arc<Way>,
}

impl Mixing {
    /// Of the volume in `store`, with room in memory for what its shuffler keeps, and with levels
    /// elsewhere, if there are any; what comes is written down at `record`, if that is wanted.
    pub fn new(
        store: Arc<dyn Store>,
        signer: Arc<Signer>,
        clock: &Arc<dyn Clock>,
        record: Option<PathBuf>,
        (kept, elsewhere): (Arc<KeptRoom>, Option<Arc<dyn Elsewhere>>),
    ) -> Self {
        let way =
            Arc::new(Way { clock: clock.clone(), next: AtomicUsize::new(0), to: Mutex::default() });
        let recording = record.map(|path| Recording::new(path, clock.clone()));
        let server = MixServer::new(store, way.clone(), signer).within(kept).beside(elsewhere);
        Self { server, recording, way }
    }

    /// The other server is there, from now on.
    ///
    /// # Errors
    /// If nobody can be there.
    pub(super) fn is_beside(&self, peer: &Peer) -> Result<(), Status> {
        let mut to = self.way.to.lock();
        if to.as_ref().is_some_and(|to| to.peer == *peer) {
            return Ok(());
        }
        let address =
            Address { place: peer.place.clone(), tenant: peer.tenant.clone(), credentials: None };
        let credentials = Credentials { token: peer.token.clone(), pin: peer.pin, file: None };
        let dial = Dial::new(&address, &credentials)
            .map_err(|_| Status::invalid_argument("no server can be there"))?;
        let lanes = (0..LANES).map(|_| Lane::default()).collect();
        *to = Some(Arc::new(To { peer: peer.clone(), dial, lanes }));
        Ok(())
    }
}

/// The way to the other server.
struct Way {
    clock: Arc<dyn Clock>,
    next: AtomicUsize,
    to: Mutex<Option<Arc<To>>>,
}

struct To {
    peer: Peer,
    dial: Dial,
    lanes: Vec<Lane>,
}

#[async_trait]
impl PeerLink for Way {
    async fn pass(&self, message: fogbank_mix::server::Between) -> Result<(), SessionError> {
        let to = self.to.lock().clone();
        let to = to.ok_or_else(|| SessionError::Absent("nobody said where it is".into()))?;
        let lane = self.next.fetch_add(1, Ordering::Relaxed) % LANES;
        let message = Between(message).encode();
        let patience = PATIENCE_NANOS + message.len() as Nanos * SLOWEST_NANOS_PER_BYTE;
        let passed = by(&*self.clock, self.clock.now() + patience, to.pass(lane, message)).await;
        let late = || Err(SessionError::Absent(format!("{}: no answer in time", to.dial.place)));
        passed.unwrap_or_else(late)
    }
}

impl To {
    async fn pass(&self, lane: usize, message: Vec<u8>) -> Result<(), SessionError> {
        let channel = self.lanes[lane].channel(self.dial.connect()).await.map_err(of_store)?;
        let pieces: Vec<Vec<Bytes>> = pieces(message).map(|piece| vec![piece]).collect();
        let mut asked = tonic::Request::new(tokio_stream::iter(pieces));
        self.dial.sign(&mut asked);
        let mut grpc = Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|e| of_store(self.dial.absent(e)))?;
        let path = PathAndQuery::from_static(ACROSS_PATH);
        let blamed = |status| blame(&self.dial.place, &status);
        let mut answer =
            grpc.streaming(asked, path, Pieces::single()).await.map_err(blamed)?.into_inner();
        match answer.message().await.map_err(blamed)? {
            None => Ok(()),
            Some(_) => Err(SessionError::Misbehaved(format!("{}: it answers", self.dial.place))),
        }
    }
}

/// Connections to the other server.
const LANES: usize = 4;
/// How long it may take to work a message off, beside a time for its bytes.
const PATIENCE_NANOS: Nanos = 60_000_000_000;
const SLOWEST_NANOS_PER_BYTE: Nanos = 1_000;
