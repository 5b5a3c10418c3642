//! Replies: verified, and taken in one step each.
//!
//! 1. What has come by a moment in the middle between two points is taken then, in the order in
//!    which it was asked for, whatever the order of the replies.
//! 2. Every cell is verified before anything of its message is used.
//! 3. At the next point answers leave. Ciphers and steps have half a quantum until then; what takes
//!    longer (a write-back that is copied, hundreds of replies at once) moves that by whole quanta.
//!    Meanwhile nothing is decided that depends on it.
//!
//! Without a grid every reply is taken when it comes.

use std::sync::Arc;

use fogbank_env::{Nanos, compute};
use rayon::prelude::*;
use tokio::sync::mpsc;

use super::engine::Shared;
use super::plane::{Codec, Message, Plane, Reply, Request};
use crate::Result;

/// A reply that has come, unverified.
pub struct Returned<P: Plane> {
    /// When it came.
    pub at: Nanos,
    /// The place of its message among all that have left.
    pub order: u64,
    pub request: P::Request,
    pub message: Message,
    pub reply: Reply,
}

impl<P: Plane> Returned<P> {
    fn open(self, shared: &Shared<P>) -> Result<(P::Request, P::Opened)> {
        let opened = shared.codec.open(&self.request, &self.message, self.reply)?;
        Ok((self.request, opened))
    }

    /// Takes one that nobody else is waited for with.
    pub fn take(self, shared: &Shared<P>) -> Result<()> {
        process(shared, self.open(shared)?)?;
        shared.let_leave();
        Ok(())
    }
}

/// The reply is taken in one step; what falls due is sent.
fn process<P: Plane>(shared: &Shared<P>, (request, opened): (P::Request, P::Opened)) -> Result<()> {
    let due = shared.step(|core| P::returned(core, request, opened))?;
    shared.send(due)
}

/// Takes all that comes.
///
/// # Errors
/// [`crate::Error::CloudLied`] for a cell that does not verify; then nothing of what came with it
/// counts.
pub async fn take_all<P: Plane>(
    shared: Arc<Shared<P>>,
    returns: &mut mpsc::UnboundedReceiver<Returned<P>>,
) -> Result<()> {
    let mut waiting: Vec<Returned<P>> = Vec::new();
    loop {
        let first = match waiting.iter().map(|returned| returned.at).min() {
            Some(at) => at,
            None => match returns.recv().await {
                Some(returned) => {
                    waiting.push(returned);
                    continue;
                }
                None => return Ok(()),
            },
        };
        // Also after work that has outlasted its room: never at a point, where others decide.
        let point = shared.grid.wait_for_delivery(first.max(shared.grid.now())).await;
        let taking = shared.taking.write().await;
        while let Ok(returned) = returns.try_recv() {
            waiting.push(returned);
        }
        let is_due = |returned: &mut Returned<P>| shared.grid.delivery_time(returned.at) <= point;
        let mut due: Vec<Returned<P>> = waiting.extract_if(.., is_due).collect();
        due.sort_unstable_by_key(|returned| returned.order);
        if shared.look(|core| core.canary.takes_by_content()) {
            due.sort_by_key(|returned| returned.request.content());
        }
        let opened = compute(|| {
            let opened = due.into_par_iter().map(|returned| returned.open(&shared));
            opened.collect::<Vec<_>>()
        });
        // The first that failed, in the order in which they were asked for, not of the cores.
        for opened in opened.into_iter().collect::<Result<Vec<_>>>()? {
            process(&shared, opened)?;
        }
        drop(taking);
        if shared.look(|core| core.canary.answers_off_grid()) {
            shared.let_leave();
        }
        shared.grid.next_usable_point(|| ()).await;
        shared.let_leave();
    }
}
