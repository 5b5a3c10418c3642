//! What is due to be written is sealed and sent.
//!
//! It leaves one after the other, in messages of a public size in the order of its chunks, of which
//! so many are under way at once, whosever they are: a journal record waits behind these few and no
//! more. Those of jobs may be short, so of them there may be some more, while fewer than so many
//! bytes are under way: or it would be their number that bounds the rate. Where the link's rate is known
//! each leaves when it is its turn, so nothing else waits in the link behind many.
//!
//! Some engines' writes count only once a barrier has passed: one barrier serves all that were
//! acknowledged before it left.

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_env::{Mutex, Nanos};
use fogbank_store::{ChunkWrite, LinkPacer, Store};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::engine::Shared;
use super::plane::{Codec, Plane};
use crate::{Result, blame};

/// Short messages under way at once, at most. A store takes 64 calls at once: a quarter is left to
/// records and reads.
const MESSAGES_MAX: usize = 48;

/// Something that is being written.
struct Writing<P: Plane> {
    /// In the order of sealing.
    number: u64,
    written: P::Written,
    /// Messages that have not ended.
    left: usize,
}

/// What is sealed: what is known of it, and its messages.
type Sealed<P> = (<P as Plane>::Written, Vec<Vec<ChunkWrite>>);

/// Seals what falls due, until nobody can bring any more. A task of its own: messages under way are
/// not to wait for a cipher.
pub async fn seal_all<P: Plane>(
    shared: Arc<Shared<P>>,
    mut due: mpsc::UnboundedReceiver<P::Due>,
    sealed: mpsc::UnboundedSender<Sealed<P>>,
) -> Result<()> {
    while let Some(due) = due.recv().await {
        let (written, writes) = shared.codec.seal(due);
        let windows = windows(writes, shared.shell.window_bytes);
        sealed.send((written, windows)).map_err(|_| shared.fault.reason())?;
    }
    Ok(())
}

/// Cut where so many bytes are reached.
fn windows(writes: Vec<ChunkWrite>, window_bytes: usize) -> Vec<Vec<ChunkWrite>> {
    let (mut windows, mut window, mut bytes) = (Vec::new(), Vec::new(), 0);
    for write in writes {
        bytes += write.data.len();
        window.push(write);
        if bytes >= window_bytes {
            windows.push(std::mem::take(&mut window));
            bytes = 0;
        }
    }
    if !window.is_empty() {
        windows.push(window);
    }
    windows
}

/// Sends what is sealed, one after the other, until nobody can bring any more.
///
/// # Errors
/// As for an access.
pub async fn send_all<P: Plane>(
    shared: Arc<Shared<P>>,
    mut sealed: mpsc::UnboundedReceiver<Sealed<P>>,
) -> Result<()> {
    let most = shared.shell.windows.max(1);
    let bytes_most = if P::HAS_JOBS { shared.shell.bytes_at_once } else { 0 };
    let leaves =
        |messages: usize, bytes| messages < most || (messages < MESSAGES_MAX && bytes < bytes_most);
    let mut bytes_under_way = 0;
    let (mut queue, mut under_way) = (VecDeque::new(), FuturesUnordered::new());
    let (mut writing, mut next): (Vec<Writing<P>>, u64) = (Vec::new(), 0);
    // Acknowledged, and not behind a barrier.
    let acknowledged = Mutex::new(Vec::new());
    let mut barrier = FuturesUnordered::new();
    let mut pacer = LinkPacer::new(shared.grid.quantum(), shared.shell.pace.up_bytes_per_s);
    loop {
        if barrier.is_empty() && !acknowledged.lock().is_empty() {
            barrier.push(pass_barrier(&shared, &acknowledged));
        }
        let may_leave = !queue.is_empty() && leaves(under_way.len(), bytes_under_way);
        let ended = tokio::select! { biased;
            Some(ended) = under_way.next() => {
                let (number, bytes) = ended?;
                bytes_under_way -= bytes;
                number
            }
            Some(served) = barrier.next() => {
                let served: Vec<Ended<P>> = served?;
                shared.step(|core| served.iter().for_each(|(_, one)| P::acknowledged(core, one)));
                continue;
            }
            Some((written, windows)) = sealed.recv() => {
                let (number, left) = (next, windows.len());
                next += 1;
                queue.extend(windows.into_iter().map(|window| (number, window)));
                writing.push(Writing { number, written, left });
                if left > 0 {
                    continue;
                }
                number // there was nothing to send
            }
            point = turn(&shared, &pacer), if may_leave => {
                shared.fault.sound()?;
                let hurries = shared.look(|core| core.canary.hurries());
                while leaves(under_way.len(), bytes_under_way)
                    && (hurries || pacer.is_free(point))
                    && let Some((number, window)) = queue.pop_front()
                {
                    let bytes = window.iter().map(|write| write.data.len()).sum();
                    bytes_under_way += bytes;
                    pacer.take(point, bytes as u64);
                    under_way.push(send(&shared, (number, bytes), window));
                }
                continue;
            }
            else => return Ok(()),
        };
        let Some(at) = writing.iter().position(|one| one.number == ended) else { continue };
        writing[at].left = writing[at].left.saturating_sub(1);
        if writing[at].left > 0 {
            continue;
        }
        let Writing { number, written, .. } = writing.swap_remove(at);
        match P::HAS_JOBS && shared.look(|core| core.plane.awaits_barrier()) {
            true => acknowledged.lock().push((number, written)),
            false => shared.step(|core| P::acknowledged(core, &written)),
        }
    }
}

/// What has ended, by its number.
type Ended<P> = (u64, <P as Plane>::Written);

/// A barrier leaves at the next point. It serves what has been acknowledged by then, and that is
/// returned in the order in which it left: neither hangs on which reply was looked at first.
async fn pass_barrier<P: Plane>(
    shared: &Shared<P>,
    acknowledged: &Mutex<Vec<Ended<P>>>,
) -> Result<Vec<Ended<P>>> {
    shared.grid.next_usable_point(|| ()).await;
    let mut served = std::mem::take(&mut *acknowledged.lock());
    served.sort_unstable_by_key(|(number, _)| *number);
    shared.fault.sound()?;
    let passed = shared.bare.barrier().await.map_err(blame);
    shared.grid.wait_for_delivery(shared.grid.now()).await;
    passed.map(|()| served)
}

/// Waits for the point at which the next message leaves.
async fn turn<P: Plane>(shared: &Shared<P>, pacer: &LinkPacer) -> Nanos {
    if !shared.look(|core| core.canary.hurries()) {
        shared.grid.wait_until_before(pacer.soonest()).await;
    }
    if shared.look(|core| core.canary.is_late()) {
        shared.grid.departure().await;
    }
    shared.grid.next_usable_point(|| ()).await.0
}

/// Sends a message now; returns of what it is, and its bytes, when it has ended.
async fn send<P: Plane>(
    shared: &Shared<P>,
    of: (u64, usize),
    window: Vec<ChunkWrite>,
) -> Result<(u64, usize)> {
    let sent = shared.bare.write_chunks(window).await.map_err(blame);
    shared.grid.wait_for_delivery(shared.grid.now()).await;
    sent.map(|()| of)
}
