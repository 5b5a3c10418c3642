//! The ticker: epochs as an engine that serves every access as it comes.
//!
//! 1. The blocks of a disk are records of one block, under their numbers. An access is a program of
//!    the ticker's one session: it reads the record, unless it is about to write all of it, and
//!    puts it back patched. A record that is not there is a block of zeros.
//! 2. Programs of a session take effect in the order in which they were submitted; what they read
//!    is asked for ahead, each block once an epoch. What does not fit the batches of an epoch is
//!    the first of the next.
//! 3. The epoch commits, and then the answers of its accesses leave, in their order.
//!
//! Invariants: those of [`ImmediateEngine`]. The store was made with room for every block
//! ([`Ticker::capacity_for`]), so no write is ever refused. How many accesses wait is for whoever
//! submits them to bound, as with any engine: nothing is refused here.
//!
//! What the cloud sees: the epochs of any store of this shape. Unlike with engines that read a path
//! an access, not even how many accesses arrive, nor when.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_oram::{Access, Address, Error, ImmediateEngine, ImmediateShape, Result, Ticket};
use tokio::sync::oneshot;

use crate::error::Pause;
use crate::key::Key;
use crate::program::Submission;
use crate::proxy::{Proxy, Session};
use crate::quota;
use crate::shared_vault::SharedVault;
use crate::view::View;

/// Bytes of a block's key: the key budget that a store of nothing but blocks needs.
pub const BLOCK_KEY_BYTES: usize = 5;

/// See the module. Nobody else may write the records of its store.
pub struct Ticker {
    proxy: Proxy,
    session: Session,
    shape: ImmediateShape,
    zeros: Bytes,
    closed: AtomicBool,
    vault: Option<SharedVault>,
}

impl Ticker {
    /// The capacity of a store for so many blocks.
    pub fn capacity_for(blocks: u32) -> u32 {
        quota::capacity_for(blocks)
    }

    /// A disk of `blocks` over the epochs of `proxy`.
    ///
    /// # Errors
    /// [`Error::Caller`] if its store has no room for them.
    pub fn new(proxy: &Proxy, blocks: u32) -> Result<Self> {
        if !proxy.shared.with(|core| core.can_hold(blocks, BLOCK_KEY_BYTES)) {
            return Err(Error::Caller(format!("the store has no room for {blocks} blocks")));
        }
        let shape = ImmediateShape { capacity: blocks, value_bytes: proxy.limits().block_bytes };
        Ok(Self {
            proxy: proxy.clone(),
            session: proxy.session(),
            shape,
            zeros: Bytes::from(vec![0; shape.value_bytes]),
            closed: AtomicBool::new(false),
            vault: None,
        })
    }

    /// From now on closing it closes the store, of which this is the vault. Without one the epochs
    /// go on until the proxy is closed.
    #[must_use]
    pub fn with_vault(self, vault: SharedVault) -> Self {
        Self { vault: Some(vault), ..self }
    }
}

#[async_trait]
impl ImmediateEngine for Ticker {
    fn shape(&self) -> ImmediateShape {
        self.shape
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        let (reply, ticket) = Ticket::new();
        let closed = self.closed.load(Ordering::SeqCst).then(|| blame(crate::Error::Closed));
        let refused = closed.map_or(Ok(()), Err).and_then(|()| self.shape.check(address, &access));
        match refused {
            // Whoever dropped the ticket does not want to know.
            Err(error) => drop(reply.send(Err(error))),
            Ok(()) => self.session.submit_body(Box::new(BlockAccess {
                key: Key::new(b"", &address.0.to_be_bytes()),
                access,
                zeros: self.zeros.clone(),
                answer: None,
                reply,
            })),
        }
        ticket
    }

    fn attend(&self) -> Box<dyn Send + Sync> {
        Box::new(self.proxy.shared.welcome())
    }

    async fn close(&self) -> Result<()> {
        // Epochs that rest would answer nothing.
        let _awake = self.attend();
        self.closed.store(true, Ordering::SeqCst);
        // The last of the session: what was submitted before it has been answered before it.
        self.session.submit(|_: &mut View<'_>| Ok(())).await.map_err(blame)?;
        let Some(vault) = &self.vault else { return Ok(()) };
        let mut closed = self.proxy.clone().close().await.map_err(blame)?;
        Ok(vault.close(closed.save()?).await?)
    }

    async fn stopped(&self) -> Error {
        blame(self.proxy.stopped().await)
    }
}

/// An access as a program.
struct BlockAccess {
    key: Key,
    access: Access,
    /// What a block holds that was never written.
    zeros: Bytes,
    /// What is answered, once it has run, or why it was refused.
    answer: Option<crate::Result<Bytes>>,
    reply: oneshot::Sender<Result<Bytes>>,
}

impl BlockAccess {
    /// The block before the access and after it.
    fn block(&self, view: &mut View<'_>) -> std::result::Result<(Bytes, Bytes), Pause> {
        match &self.access {
            // Nothing of what was there stays, so it is not read.
            Access::Write { bytes, .. } if bytes.len() == self.zeros.len() => {
                Ok((bytes.clone(), bytes.clone()))
            }
            access => {
                let record = view.get(&self.key)?;
                let before = record.map_or_else(|| self.zeros.clone(), |record| record.value);
                let after = access.applied_to(&before);
                Ok((before, after))
            }
        }
    }
}

impl Submission for BlockAccess {
    fn run(&mut self, view: &mut View<'_>) -> std::result::Result<(), Pause> {
        self.answer = None;
        let (before, after) = self.block(view)?;
        if self.access.changes() {
            view.put(&self.key, after.clone(), 0)?;
        }
        self.answer = Some(Ok(self.access.answer(before, after)));
        Ok(())
    }

    fn refuse(&mut self, error: crate::Error) {
        self.answer = Some(Err(error));
    }

    fn answer(self: Box<Self>, outcome: crate::Result<()>) {
        let Self { answer, reply, .. } = *self;
        let never_ran = || Err(crate::Error::fault("an access was answered that had not run"));
        let outcome = outcome.and_then(|()| answer.unwrap_or_else(never_ran));
        // Whoever dropped the ticket does not want to know.
        let _unwanted = reply.send(outcome.map_err(blame));
    }
}

/// What an engine would have said.
fn blame(error: crate::Error) -> Error {
    match error {
        crate::Error::Stopped(error) => error,
        crate::Error::Closed => Error::Caller("the engine is closed".into()),
        // Nothing else comes of programs that touch one block, in a store that has room for it.
        other => Error::Bug(other.to_string()),
    }
}
