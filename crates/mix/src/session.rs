//! A session: what a client and a cloud that computes have with each other.
//!
//! 1. *Opening*: the client names the volume, its shape, the cloud's own point and a number. A
//!    session ends all of that volume with lower numbers: what they sent and is not worked off is
//!    dropped before the new one is told that it is open.
//! 2. *Messages* go both ways in order. Both queues are bounded: who sends waits. Before the first
//!    that stands on a new place of its journal the client says which one that is ([`Reached`]).
//! 3. *A break* ends the receiver with an error that says whose fault it is. The client opens the
//!    next session, at this cloud alone, and does again all that is under way: every message is
//!    the same when it is repeated (a read) or has a new name (a job's attempt). So neither end
//!    keeps what it sent, and nobody acknowledges messages.
//!
//! At every opening, and whenever it is asked, a cloud says the last place that it was told. A
//! client whose own journal ends before that is an old copy: it would repeat numbers that this
//! cloud has seen, with other contents.
//!
//! A cloud that cannot reach the other ends the session, too: what was lost between them is
//! repeated from its beginning, by the client.

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::message::{FromHolder, FromShuffler, Reached, ToHolder, ToSession, ToShuffler};
use crate::signed::PublicKey;
use crate::wire::{Field, Reader};
use crate::{Result, Seed, Shape};

/// What a client says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The volume, by a number that the client drew when it made it.
    pub volume: u64,
    /// Its sizes.
    pub shape: Shape,
    /// The point that belongs to this cloud alone.
    pub point: Seed,
    /// By which the other cloud signs.
    pub other: PublicKey,
    /// The number of the session: larger than that of any before it. Its upper half is the same in
    /// all sessions from one opening of the volume to the next.
    pub session: u64,
}

impl Opening {
    /// Which opening of the volume the session is of.
    pub(crate) fn of_volume(&self) -> u64 {
        self.session >> 32
    }

    /// As it goes over a link.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let partitions = self.shape.partitions_as_written();
        let Shape { levels, kept_levels, top_blocks, .. } = self.shape;
        let Shape { spare, extra, refresh_every, block_bytes, .. } = self.shape;
        self.volume.put(&mut out);
        [partitions, levels.into(), kept_levels.into(), top_blocks, spare, extra, refresh_every]
            .iter()
            .for_each(|number: &u16| number.put(&mut out));
        block_bytes.put(&mut out);
        self.point.put(&mut out);
        self.other.put(&mut out);
        self.session.put(&mut out);
        out
    }

    /// What [`Opening::encode`] made.
    ///
    /// # Errors
    /// [`crate::Error::Other`] for anything else; [`crate::Error::Client`] if there is no such
    /// volume.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, 1);
        let from = &mut reader;
        let volume = u64::take(from)?;
        let shape = Shape {
            partitions: Shape::partitions_as_read(u16::take(from)?),
            levels: small(from)?,
            kept_levels: small(from)?,
            top_blocks: u16::take(from)?,
            spare: u16::take(from)?,
            extra: u16::take(from)?,
            refresh_every: u16::take(from)?,
            block_bytes: u32::take(from)?,
        };
        let (point, other, session) = (Seed::take(from)?, PublicKey::take(from)?, u64::take(from)?);
        reader.end()?;
        shape.check()?;
        Ok(Self { volume, shape, point, other, session })
    }
}

fn small(from: &mut Reader<'_>) -> Result<u8> {
    let number = u16::take(from)?;
    number.try_into().map_err(|_| crate::Error::Other("so many levels that there is no such shape"))
}

macro_rules! both_roles {
    ($($(#[$doc:meta])* $name:ident {
        $holder:ident, $shuffler:ident $(, $(#[$of:meta])* $itself:ident)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            /// To or from the holder that it is.
            Holder($holder),
            /// To or from the shuffler that it is.
            Shuffler($shuffler),
            $($(#[$of])* Session($itself),)?
        }

        impl $name {
            /// The message as it goes over a link: the role in a byte, then the message.
            pub fn encode(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.encode_into(&mut out);
                out
            }

            /// Puts it behind `out`, as it goes over a link.
            pub fn encode_into(&self, out: &mut Vec<u8>) {
                match self {
                    Self::Holder(message) => {
                        out.push(HOLDER);
                        message.encode_into(out);
                    }
                    Self::Shuffler(message) => {
                        out.push(SHUFFLER);
                        message.encode_into(out);
                    }
                    $(Self::Session(message) => {
                        out.push(SESSION);
                        $itself::encode_into(message, out);
                    })?
                }
            }

            /// What [`Self::encode`] made; its cells have so many bytes.
            ///
            /// # Errors
            /// [`crate::Error::Other`] for anything else.
            pub fn decode(bytes: &[u8], cell_bytes: usize) -> Result<Self> {
                match bytes.split_first() {
                    Some((&HOLDER, message)) => {
                        $holder::decode(message, cell_bytes).map(Self::Holder)
                    }
                    Some((&SHUFFLER, message)) => {
                        $shuffler::decode(message, cell_bytes).map(Self::Shuffler)
                    }
                    $(Some((&SESSION, message)) => {
                        $itself::decode(message, cell_bytes).map(Self::Session)
                    })?
                    _ => Err(crate::Error::Other("a message for no role")),
                }
            }
        }
    )*};
}

both_roles! {
    /// From the client to a cloud.
    ToCloud {
        ToHolder, ToShuffler,
        /// About the session itself.
        ToSession
    }
    /// From a cloud to the client.
    FromCloud { FromHolder, FromShuffler }
}

const HOLDER: u8 = 1;
const SHUFFLER: u8 = 2;
const SESSION: u8 = 3;

/// Why there is no session, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The cloud, or the other behind it, does not answer. The next session may.
    #[error("the cloud is absent: {0}")]
    Absent(String),
    /// Another client has opened a session of a number that is not lower.
    #[error("another session has taken the place of this one")]
    Fenced,
    /// The cloud is there and does not want this: its operator, or the client, has to put it right.
    #[error("the cloud refuses: {0}")]
    Refused(String),
    /// What came is no answer.
    #[error("the cloud does not keep to the protocol: {0}")]
    Misbehaved(String),
}

/// An open session. Dropping either end ends it.
#[derive(Debug)]
pub struct Session {
    /// What goes to the cloud, in order. Sending waits while the cloud is behind, and fails when
    /// the session has ended: the receiver says why.
    pub sender: mpsc::Sender<ToCloud>,
    /// What comes. After an error nothing does; if it ends without one, the cloud is absent.
    pub receiver: mpsc::Receiver<std::result::Result<FromCloud, SessionError>>,
    /// The last place of its journal that a client told this cloud, before this session.
    pub reached: Reached,
    /// By which the cloud signs.
    pub key: PublicKey,
}

/// A cloud that does for the other what this crate describes.
#[async_trait]
pub trait MixCloud: Send + Sync {
    /// Opens a session.
    ///
    /// # Errors
    /// [`SessionError`].
    async fn open(&self, opening: &Opening) -> std::result::Result<Session, SessionError>;

    /// The last place of its journal that a client told this cloud; `None` if no session was ever
    /// open here. Changes nothing, whatever the number of the session.
    ///
    /// # Errors
    /// [`SessionError`]; [`SessionError::Refused`] if another volume is here.
    async fn reached(
        &self,
        opening: &Opening,
    ) -> std::result::Result<Option<Reached>, SessionError>;

    /// By which this cloud signs. Changes nothing.
    ///
    /// # Errors
    /// As [`MixCloud::reached`].
    async fn key(&self, opening: &Opening) -> std::result::Result<PublicKey, SessionError>;
}

/// Messages that are on their way in a queue of a session, each way.
pub const QUEUED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Commit, Want};
    use crate::{Error, Generation};

    fn opening() -> Opening {
        let shape = Shape {
            partitions: 300,
            levels: 4,
            kept_levels: 1,
            top_blocks: 9,
            spare: 1,
            extra: 2,
            refresh_every: 3,
            block_bytes: 32,
        };
        Opening { volume: 5, shape, point: Seed::new([7; 32]), other: [8; 32], session: 6 }
    }

    #[test]
    fn what_is_cut_or_changed_is_no_opening_and_no_message() {
        let (opening, commit) =
            (opening(), Commit { partition: 1, generation: Generation::new(2, 0) });
        let bytes = opening.encode();
        assert_eq!(Opening::decode(&bytes), Ok(opening.clone()));
        for cut in 0..bytes.len() {
            assert!(Opening::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        let most = Shape { partitions: crate::PARTITIONS_MAX, ..opening.shape };
        let most = Opening { shape: most, ..opening.clone() };
        assert_eq!(Opening::decode(&most.encode()), Ok(most));
        let none = Opening { shape: Shape { refresh_every: 0, ..opening.shape }, ..opening };
        assert!(matches!(Opening::decode(&none.encode()), Err(Error::Client(_))));

        let want = Want { read: 1, partition: 0, cells: 2, index: 0 };
        for message in [
            ToCloud::Holder(commit.clone().into()),
            ToCloud::Shuffler(commit.into()),
            ToCloud::Shuffler(want.into()),
            ToCloud::Session(Reached { epoch: 7, place: 8 }.into()),
        ] {
            let mut bytes = message.encode();
            assert_eq!(ToCloud::decode(&bytes, 16), Ok(message));
            bytes[0] = 4;
            assert!(ToCloud::decode(&bytes, 16).is_err());
            assert!(ToCloud::decode(&[], 16).is_err());
        }
    }
}
