//! Messages leave: in their order, at points, each in its turn where the link's rate is known.
//!
//! 1. Requests whose record is durable queue here.
//! 2. At a point at which nothing is being taken, those leave whose turn it is. What a message
//!    names is decided then (`Plane::ask`).
//! 3. Each message leaves by a task of its own. It waits for the reply and passes it on to be taken
//!    (`returns`).

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_store::LinkPacer;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::engine::{Shared, guarded};
use super::plane::{Codec, Message, Plane, Request};
use super::returns::Returned;
use crate::{Result, of_task};

/// Lets requests leave as long as the engine runs.
///
/// # Errors
/// As for an access.
pub async fn leave_all<P: Plane>(
    shared: Arc<Shared<P>>,
    departing: &mut mpsc::UnboundedReceiver<P::Request>,
) -> Result<()> {
    let mut pacer = LinkPacer::new(shared.grid.quantum(), shared.shell.pace.down_bytes_per_s);
    let mut waiting = VecDeque::new();
    let mut reads = JoinSet::new();
    let mut order = 0;
    loop {
        while let Some(ended) = reads.try_join_next() {
            of_task(ended)?;
        }
        if waiting.is_empty() {
            let request = departing.recv().await.ok_or_else(|| shared.fault.reason())?;
            waiting.push_back(request);
        }
        shared.grid.wait_until_before(pacer.soonest()).await;
        let (point, nothing_is_taken) = shared.at_point().await;
        while let Ok(request) = departing.try_recv() {
            waiting.push_back(request);
        }
        let is_hasty = |request: &P::Request| {
            shared.look(|core| core.canary.skips_turns(request.decoy().is_some()))
        };
        while waiting.front().is_some_and(|request| pacer.is_free(point) || is_hasty(request))
            && let Some(request) = waiting.pop_front()
        {
            shared.fault.sound()?;
            if let Some(number) = request.decoy()
                && shared.look(|core| core.canary.skips(true))
            {
                shared.step(|core| core.ended(number));
                shared.let_leave();
                continue;
            }
            // Where nothing waits for points that is decided when the message leaves.
            let message =
                nothing_is_taken.as_ref().map(|_| shared.look(|core| core.plane.ask(&request)));
            let bytes = message.as_ref().map_or(0, |message| shared.codec.reply_bytes(message));
            pacer.take(point, bytes);
            order += 1;
            let serving = serve(shared.clone(), (order, request), message);
            reads.spawn(guarded(shared.clone(), serving));
        }
        drop(nothing_is_taken);
    }
}

/// One request from its departure until its reply is passed on, to be taken with others that come
/// between two points; without a grid until it is taken.
async fn serve<P: Plane>(
    shared: Arc<Shared<P>>,
    (order, request): (u64, P::Request),
    message: Option<Message>,
) -> Result<()> {
    // The message leaves; what comes is not verified yet.
    shared.fault.sound()?;
    let message = message.unwrap_or_else(|| shared.look(|core| core.plane.ask(&request)));
    shared.look(|core| core.plane.leaves(&request));
    let reply = message.send(&*shared.bare).await;
    let at = shared.grid.now();
    if reply.is_err() {
        shared.grid.wait_for_delivery(at).await;
    }
    let returned = Returned { at, order, request, message, reply: reply? };
    if shared.grid.quantum() == 0 {
        return returned.take(&shared);
    }
    shared.returned.send(returned).map_err(|_| shared.fault.reason())
}
