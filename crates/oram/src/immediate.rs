//! The immediate shape of an engine: every access is served as it comes, many at once.
//!
//! # The contract
//!
//! 1. [`ImmediateEngine::submit`] takes an access and returns at once; the order of these calls is
//!    the order of arrival.
//! 2. The [`Ticket`] gives the block as it was after the access. Answers come in the order of
//!    arrival, so one that would be ready sooner waits for those before it.
//! 3. An access that was answered is durable. Accesses to one address take effect in their order.
//! 4. [`ImmediateEngine::close`] answers what was submitted and closes the store; an engine that
//!    stops by itself says why ([`ImmediateEngine::stopped`]).
//!
//! How many accesses arrive and when is public, and so is when they are answered, unless the engine
//! hides that too; which addresses they name, and whether they read or write, is not.

pub(crate) mod arrival;
#[cfg(not(feature = "canaries"))]
pub(crate) mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
pub(crate) mod core;
mod departure;
pub(crate) mod engine;
mod leaving;
#[cfg(feature = "testing")]
pub mod plain;
pub(crate) mod plane;
pub(crate) mod requests;
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
        let Access::Write { offset, bytes } = access else { return Ok(()) };
        let (start, end) = (*offset as usize, (*offset as usize).saturating_add(bytes.len()));
        if bytes.is_empty() || end > self.value_bytes {
            return Err(Error::Caller(format!("{start}..{end} is no part of a block")));
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
}

impl Access {
    /// The block after the access that was `before` it, of which this is a part. What was written
    /// is copied: a block does not keep alive the buffer in which its bytes came.
    pub fn applied_to(&self, before: &Bytes) -> Bytes {
        let Self::Write { offset, bytes } = self else { return before.clone() };
        let mut after = BytesMut::from(&before[..]);
        let start = *offset as usize;
        if let Some(part) = after.get_mut(start..start + bytes.len()) {
            part.copy_from_slice(bytes);
        }
        after.freeze()
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

/// The answer to come: the block as it was after the access, `value_bytes` long. Dropping it
/// changes nothing of what the access does.
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
