//! The immediate shape of an engine: every access is served as it comes, many at once.
//!
//! # The contract
//!
//! 1. [`ImmediateEngine::submit`] takes an access and returns at once; the order of these calls is
//!    the order of arrival.
//! 2. The [`Ticket`] gives the block as it was after the access (of a swap, before it). Answers
//!    come in the order of arrival, so one that would be ready sooner waits for those before it.
//! 3. An access that was answered is durable. Accesses to one address take effect in their order.
//! 4. [`ImmediateEngine::close`] answers what was submitted and closes the store; an engine that
//!    stops by itself says why ([`ImmediateEngine::stopped`]).
//!
//! How many accesses arrive and when is public, and so is when they are answered, unless the engine
//! hides that too; which addresses they name, and whether they read or write, is not.

pub(crate) mod arrival;
pub(crate) mod beside;
#[cfg(not(feature = "canaries"))]
pub(crate) mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
pub(crate) mod core;
mod departure;
pub(crate) mod engine;
pub(crate) mod entrance;
pub(crate) mod events;
mod leaving;
#[cfg(feature = "testing")]
pub mod plain;
pub(crate) mod plane;
pub(crate) mod records;
pub(crate) mod requests;
mod reread;
mod returns;
pub(crate) mod sequencer;
mod settings;
mod writing;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

pub use self::engine::{Immediate, Parts, Progress};
pub(crate) use self::settings::parts_max;
pub use self::settings::{LinkRate, Rate, ShellSettings, Traffic};
use crate::{Address, Error, Result};

/// The public shape of an immediate engine, fixed when the store is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImmediateShape {
    /// Logical blocks; addresses are below it.
    pub capacity: u32,
    /// Bytes of every block.
    pub value_bytes: usize,
}

impl ImmediateShape {
    /// Whether `access` to `address` lies within the shape.
    ///
    /// # Errors
    /// [`Error::Caller`] if it does not.
    pub fn check(&self, address: Address, access: &Access) -> Result<()> {
        if address.0 >= self.capacity {
            return Err(Error::Caller(format!("address {} is beyond the capacity", address.0)));
        }
        let (offset, bytes) = match access {
            Access::Read => return Ok(()),
            Access::Write { offset, bytes } => (*offset as usize, bytes),
            Access::Swap { offset, expected, bytes } => {
                if expected.len() != bytes.len() || bytes.len() > self.value_bytes / 2 {
                    return Err(Error::Caller(format!(
                        "{} bytes for {}: what is swapped has one length, at most half a block",
                        bytes.len(),
                        expected.len()
                    )));
                }
                (*offset as usize, bytes)
            }
        };
        let end = offset.saturating_add(bytes.len());
        if bytes.is_empty() || end > self.value_bytes {
            return Err(Error::Caller(format!("{offset}..{end} is no part of a block")));
        }
        Ok(())
    }
}

/// What to do with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Nothing but read it.
    Read,
    /// Put `bytes` at `offset` into it; what lies around them stays. Both ends lie within the
    /// block.
    Write {
        /// Where in the block, in bytes.
        offset: u32,
        /// What to put there: at least one byte.
        bytes: Bytes,
    },
    /// Compare and swap: put `bytes` at `offset` if `expected` stands there, and leave the block
    /// alone if not. It took if `expected` stands in the answer, which is the block *before* the
    /// access.
    Swap {
        /// Where in the block, in bytes.
        offset: u32,
        /// What has to stand there: as long as `bytes`.
        expected: Bytes,
        /// What to put there: at least one byte, and at most half a block.
        bytes: Bytes,
    },
}

impl Access {
    /// Whether the block may be another afterwards.
    pub fn changes(&self) -> bool {
        *self != Self::Read
    }

    /// The block after the access that was `before` it. What was written is copied: a block does
    /// not keep alive the buffer in which its bytes came.
    pub fn applied_to(&self, before: &Bytes) -> Bytes {
        if !self.changes() {
            return before.clone();
        }
        let mut after = BytesMut::from(&before[..]);
        self.patch(&mut after);
        after.freeze()
    }

    /// Makes of `block` what it is after the access.
    pub(crate) fn patch(&self, block: &mut [u8]) {
        let (offset, expected, bytes) = match self {
            Self::Read => return,
            Self::Write { offset, bytes } => (*offset as usize, None, bytes),
            Self::Swap { offset, expected, bytes } => (*offset as usize, Some(expected), bytes),
        };
        if let Some(part) = block.get_mut(offset..offset + bytes.len())
            && expected.is_none_or(|expected| *part == expected[..])
        {
            part.copy_from_slice(bytes);
        }
    }

    /// What is answered, of the block before and after the access.
    pub fn answer<T>(&self, before: T, after: T) -> T {
        if matches!(self, Self::Swap { .. }) { before } else { after }
    }

    /// As it stands in a journal: a code, where in the block, and what to put there; of a swap what
    /// is expected before that.
    pub(crate) fn journalled(&self) -> (u8, u32, [&[u8]; 2]) {
        match self {
            Self::Read => (0, 0, [&[], &[]]),
            Self::Write { offset, bytes } => (1, *offset, [bytes, &[]]),
            Self::Swap { offset, expected, bytes } => (2, *offset, [expected, bytes]),
        }
    }

    /// What [`Access::journalled`] says, of a block of so many bytes; `None` if it says nothing.
    pub(crate) fn from_journal(
        (code, offset, mut bytes): (u8, u32, Bytes),
        value_bytes: usize,
    ) -> Option<Self> {
        let access = match code {
            0 => return Some(Self::Read),
            1 => Self::Write { offset, bytes },
            2 => {
                let expected = bytes.split_to(bytes.len() / 2);
                Self::Swap { offset, expected, bytes }
            }
            _ => return None,
        };
        let shape = ImmediateShape { capacity: 1, value_bytes };
        shape.check(Address(0), &access).is_ok().then_some(access)
    }
}

/// See the module.
#[async_trait]
pub trait ImmediateEngine: Send + Sync {
    /// The public shape.
    fn shape(&self) -> ImmediateShape;

    /// Begins an access. A block that was never written holds zeros.
    ///
    /// The ticket gives [`Error::Caller`] for an address or a range outside of the shape, which
    /// changes nothing; any other error has stopped the engine, and every later ticket gives it
    /// too.
    fn submit(&self, address: Address, access: Access) -> Ticket;

    /// A client is here, for as long as what this gives is kept. Only an engine that rests without
    /// one wants to know.
    fn attend(&self) -> Box<dyn Send + Sync> {
        Box::new(())
    }

    /// Answers everything that was submitted, writes the last checkpoint and closes the store. What
    /// is submitted from now on, by whoever still holds the engine, is refused.
    ///
    /// # Errors
    /// Whatever has stopped the engine; [`Error::Caller`] if it was closed before.
    async fn close(&self) -> Result<()>;

    /// Completes when the engine has stopped by itself, with the reason.
    async fn stopped(&self) -> Error;
}

/// The answer to come: the block as it was after the access (of a swap, before it), `value_bytes`
/// long. Dropping it changes nothing of what the access does.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Result<Bytes>>);

impl Ticket {
    /// A ticket and what answers it.
    pub fn new() -> (oneshot::Sender<Result<Bytes>>, Self) {
        let (answer, ticket) = oneshot::channel();
        (answer, Self(ticket))
    }
}

impl Future for Ticket {
    type Output = Result<Bytes>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = |_| Err(Error::Bug("the engine was dropped before it answered".into()));
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or_else(gone))
    }
}
