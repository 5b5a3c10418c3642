//! What a server does for another in `multicloud` (`fogbank_mix`), and the way there.
//!
//! A session is one call of gRPC whose messages go both ways, beside the calls of a store:
//!
//! ```text
//! client -> server    opening, where the other server is, then messages of the session
//! server -> client    messages of the session
//! server -> server    a message between clouds; the answer is empty, once it is worked off
//! ```
//! What goes over it is bytes: each message says how long it is (`crate::frames`).
//!
//! A client shows the token of its tenant. To the other server this one shows a token that is made
//! of that server's by a hash. The client hands it over: it is good for mixing, and for nothing
//! else. So a server never gets what it could read or delete at the other.

mod client;
mod mixing;
mod recording;
mod service;

pub use client::MixClient;
pub(crate) use mixing::Mixing;
pub(crate) use service::MixDesk;

use fogbank_mix::Shape;
use fogbank_tls::{Pin, Token};

/// Where sessions are opened, and where another server's messages come.
pub(crate) const SESSION_PATH: &str = "/fogbank.cloud.v1.Mix/Session";
pub(crate) const ACROSS_PATH: &str = "/fogbank.cloud.v1.Mix/Across";
/// Bytes of a message that its length does not count: a role, the length, and a kind.
const HEAD_BYTES: usize = 1 + 4 + 1;
/// The headers that say what is opened, and where the other server is.
const OPENING_HEADER: &str = "fogbank-opening-bin";
const PEER_HEADER: &str = "fogbank-peer";
/// The header of the answer: how far the client's journal had gone before, as this server has seen.
/// A session of the number 0 is none: this is all that was asked for.
const REACHED_HEADER: &str = "fogbank-reached-bin";
/// The header of the answer: by which this server signs.
const KEY_HEADER: &str = "fogbank-key-bin";

/// Bytes of a message of a volume of this shape, at most: a level, with as much again of what is
/// small.
fn message_bytes_max(shape: &Shape) -> usize {
    shape.batch_cells_max() * (shape.cell_bytes() + 64) + (64 << 10)
}

/// The other server, as a client names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Peer {
    /// `HOST:PORT`.
    place: String,
    tenant: String,
    /// Good for mixing, and nothing else.
    token: Token,
    pin: Pin,
}

impl Peer {
    /// As it stands in a header: a secret.
    fn text(&self) -> String {
        format!("{} {} {} {}", self.place, self.tenant, *self.token.digits(), self.pin)
    }

    /// What [`Peer::text`] made.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (place, tenant) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (token, pin) = (Token::parse(words.next()?)?, Pin::parse(words.next()?)?);
        words.next().is_none().then_some(Self { place, tenant, token, pin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_read_as_it_was_written_or_not_at_all() {
        let token = Token::from_bytes([7; 32]);
        let peer = Peer {
            place: "[::1]:7".into(),
            tenant: "clinic".into(),
            token: token.for_mixing(),
            pin: Pin([9; 32]),
        };
        assert!(peer.token != token && !peer.text().contains(&*token.digits()));
        assert_eq!(Peer::parse(&peer.text()), Some(peer.clone()));
        for wrong in ["", "a b", &format!("{} more", peer.text()), &peer.text()[..90]] {
            assert_eq!(Peer::parse(wrong), None, "{wrong}");
        }
    }
}
