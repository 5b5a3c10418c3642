//! A volume from one end to the other: what `verify`, `backup` and `restore` do, of every engine.
//!
//! Every block is one access, in the order of addresses, also those of which nothing is known; so
//! many are under way at once as the length of a block allows. What an engine checks of an access
//! it checks of every block.
//!
//! What the cloud sees is what it sees of a client that asks for as many blocks as there are:
//! nothing of what is in them. Two things show how full the disk is. `ring` knows without a read
//! that a block was never written, so how many epochs `verify` and `backup` take tells how many
//! were. Of the other engines accesses leave as they come, and none does while a MiB of the backup
//! is read or written.

use std::collections::VecDeque;

use bytes::Bytes;
use fogbank_oram::{Access, Address, Scanned, Ticket};

use super::Volume;
use crate::error::{Error, Result};

/// Bytes of blocks under way, and blocks.
const AHEAD_BYTES: usize = 8 << 20;
const AHEAD_MAX: usize = 256;
/// From one word about how far it is to the next, in blocks.
const TOLD_EVERY: u32 = 1024;

impl Volume {
    /// Reads every block and hands it over.
    ///
    /// # Errors
    /// [`Error::CloudLied`] if one is missing or does not verify; otherwise by blame.
    pub(crate) async fn scan(&self, into: &mut dyn Scanned) -> Result<()> {
        self.pass(|_| Ok(Access::Read), into).await
    }

    /// Writes the blocks that `next` gives, in the order of their addresses; zeros to all others.
    ///
    /// # Errors
    /// Those of `next`, and of the engine.
    pub(crate) async fn fill(
        &self,
        mut next: impl FnMut() -> Result<Option<(Address, Bytes)>>,
        progress: &mut (dyn FnMut(u32, u32) + Send),
    ) -> Result<()> {
        let mut waiting = next()?;
        // Of an engine with epochs a read of what was never written would be over at once.
        let zeros = Bytes::from(vec![0; self.config.block_bytes()]);
        let access = |block: u32| {
            let Some((_, bytes)) = waiting.take_if(|(address, _)| address.0 == block) else {
                return Ok(Access::Write { offset: 0, bytes: zeros.clone() });
            };
            waiting = next()?;
            Ok(Access::Write { offset: 0, bytes })
        };
        self.pass(access, &mut Told(progress)).await?;
        match waiting {
            None => Ok(()),
            Some((address, _)) => Err(Error::CheckFailed(format!(
                "block {} is out of its order, or none of this volume",
                address.0
            ))),
        }
    }

    async fn pass(
        &self,
        mut access: impl FnMut(u32) -> Result<Access>,
        into: &mut dyn Scanned,
    ) -> Result<()> {
        let ahead = (AHEAD_BYTES / self.config.block_bytes().max(1)).clamp(1, AHEAD_MAX);
        let (blocks, mut under_way) = (self.config.blocks(), VecDeque::<(u32, Ticket)>::new());
        let mut asked = 0;
        loop {
            while asked < blocks && under_way.len() < ahead {
                let ticket = self.engine.submit(Address(asked), access(asked)?);
                under_way.push_back((asked, ticket));
                asked += 1;
            }
            let Some((block, ticket)) = under_way.pop_front() else { return Ok(()) };
            into.block(Address(block), &ticket.await?)?;
            let done = block + 1;
            if done.is_multiple_of(TOLD_EVERY) || done == blocks {
                into.progress(done, blocks);
            }
        }
    }
}

/// Who only wants to know how far it is.
struct Told<'a>(&'a mut (dyn FnMut(u32, u32) + Send));

impl Scanned for Told<'_> {
    fn block(&mut self, _: Address, _: &[u8]) -> fogbank_oram::Result<()> {
        Ok(())
    }

    fn progress(&mut self, done: u32, of: u32) {
        (self.0)(done, of);
    }
}
