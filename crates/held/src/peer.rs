//! A small server that keeps a copy of the register in a trust domain of its own, as seen from
//! here, and what such a server does.
//!
//! It holds bytes under a *stamp* and a promise. A stamp is a ballot and a number within it; every
//! opening proxy draws a ballot above all others. The server knows no key: it cannot make a value,
//! it can only be down, late, or keep an old one.

use async_trait::async_trait;
use bytes::Bytes;

/// What a proxy that takes the register draws: higher than all before, and nobody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ballot {
    /// One above the highest seen.
    pub round: u64,
    /// Random.
    pub nonce: u64,
}

/// Orders what is written: by ballot, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// Whose.
    pub ballot: Ballot,
    /// The writer's count.
    pub number: u64,
}

/// What a peer holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// Below this nothing is written any more.
    pub promised: Ballot,
    /// The newest value and its stamp; no bytes if there is none.
    pub stamp: Stamp,
    /// The value, authenticated by whoever wrote it.
    pub value: Bytes,
}

/// A peer that does not answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct PeerDown(pub String);

/// One of the 2f + 1 servers. Calls end within a bounded time; what they change is durable when
/// they return.
#[async_trait]
pub trait RegisterPeer: Send + Sync {
    /// What it holds; before that it raises its promise to `promise` if that is higher.
    async fn read(&self, promise: Ballot) -> Result<Held, PeerDown>;

    /// Writes if `stamp` is above what it holds and not below its promise; what it holds
    /// afterwards.
    async fn write(&self, stamp: Stamp, value: Bytes) -> Result<Held, PeerDown>;
}

impl Held {
    /// What a server does on [`RegisterPeer::read`].
    pub fn read(&mut self, promise: Ballot) -> Self {
        self.promised = self.promised.max(promise);
        self.clone()
    }

    /// What a server does on [`RegisterPeer::write`].
    pub fn write(&mut self, stamp: Stamp, value: Bytes) -> Self {
        if stamp.ballot >= self.promised && stamp > self.stamp {
            *self = Self { promised: stamp.ballot, stamp, value };
        }
        self.clone()
    }
}
