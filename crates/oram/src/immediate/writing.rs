//! What is due to be written is sealed and sent.
//!
//! It leaves one after the other, in messages of a public size in the order of its chunks, of which
//! so many are under way at once, whosever they are: a journal record waits behind these few and no
//! more. A job may write little, so what several have that wait goes into one message, or the
//! number of messages would bound the rate; and it may write much, so their bytes are bounded as
//! well. Where the link's rate is known each leaves when it is its turn, so nothing else waits in
//! the link behind many.
//!
//! Some engines' writes count only once a barrier has passed: one barrier serves all that were
//! acknowledged before it left.

use std::collections::VecDeque;
use std::sync::Arc;

use fogbank_env::{Mutex, Nanos};
use fogbank_store::{ChunkWrite, LinkPacer, Store};
use futures_util::future::OptionFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;

use super::engine::Shared;
use super::plane::{Codec, Plane};
use crate::{Result, blame, blame_new};

/// Something that is being written.
struct Writing<P: Plane> {
    /// In the order of sealing.
    number: u64,
    written: P::Written,
    /// Windows whose messages have not ended.
    left: usize,
}

/// What is sealed: what is known of it, and its windows.
type Sealed<P> = (<P as Plane>::Written, Vec<Vec<ChunkWrite>>);

/// Seals what falls due, until nobody can bring any more. A task of its own: messages under way are
/// not to wait for a cipher.
pub async fn seal_all<P: Plane>(
    shared: Arc<Shared<P>>,
    due: &mut mpsc::UnboundedReceiver<P::Due>,
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

/// What waits to leave, and what is under way.
struct Queue {
    /// Windows, and of what each is.
    waiting: VecDeque<(u64, Vec<ChunkWrite>)>,
    messages: usize,
    bytes: usize,
}

/// What a message is part of, by number, one for every window; and its bytes.
type Sent = (Vec<u64>, usize);

impl Queue {
    /// Whether another message may be under way.
    fn may_leave<P: Plane>(&self, shared: &Shared<P>) -> bool {
        let shell = &shared.shell;
        let is_bounded = P::HAS_JOBS && self.messages > 0 && self.bytes >= shell.bytes_at_once;
        !self.waiting.is_empty() && self.messages < shell.windows.max(1) && !is_bounded
    }

    /// The next message, which is under way from now on: of jobs as many windows as fill one.
    fn next_message<P: Plane>(&mut self, shared: &Shared<P>) -> Option<(Sent, Vec<ChunkWrite>)> {
        let (number, mut writes) = self.waiting.pop_front()?;
        let mut of = vec![number];
        let mut bytes = bytes_of(&writes);
        while P::HAS_JOBS
            && bytes < shared.shell.window_bytes
            && let Some((number, window)) = self.waiting.pop_front()
        {
            of.push(number);
            bytes += bytes_of(&window);
            writes.extend(window);
        }
        self.messages += 1;
        self.bytes += bytes;
        Some(((of, bytes), writes))
    }

    fn has_ended(&mut self, bytes: usize) {
        self.messages -= 1;
        self.bytes -= bytes;
    }
}

fn bytes_of(writes: &[ChunkWrite]) -> usize {
    writes.iter().map(|write| write.data.len()).sum()
}

/// Sends what is sealed, one after the other, until nobody can bring any more.
///
/// # Errors
/// As for an access.
pub async fn send_all<P: Plane>(
    shared: Arc<Shared<P>>,
    sealed: &mut mpsc::UnboundedReceiver<Sealed<P>>,
) -> Result<()> {
    let mut queue = Queue { waiting: VecDeque::new(), messages: 0, bytes: 0 };
    let mut under_way = FuturesUnordered::new();
    let (mut writing, mut next): (Vec<Writing<P>>, u64) = (Vec::new(), 0);
    // Acknowledged, and not behind a barrier.
    let acknowledged = Mutex::new(Vec::new());
    let mut barrier = FuturesUnordered::new();
    let mut pacer = LinkPacer::new(shared.grid.quantum(), shared.shell.pace.up_bytes_per_s);
    // Waited for over all that ends or is sealed meanwhile, or its point would be missed.
    let mut departure = None;
    loop {
        if barrier.is_empty() && !acknowledged.lock().is_empty() {
            barrier.push(pass_barrier(&shared, &acknowledged));
        }
        departure = match queue.may_leave(&shared) {
            true => departure.or_else(|| Some(Box::pin(turn(&shared, pacer.soonest())))),
            false => None,
        };
        let windows = tokio::select! { biased;
            Some(ended) = under_way.next() => {
                let (of, bytes): Sent = ended?;
                queue.has_ended(bytes);
                of
            }
            Some(served) = barrier.next() => {
                let served: Vec<Ended<P>> = served?;
                shared.step(|core| served.iter().for_each(|(_, one)| P::acknowledged(core, one)));
                continue;
            }
            Some((written, windows)) = sealed.recv() => {
                let (number, left) = (next, windows.len());
                next += 1;
                queue.waiting.extend(windows.into_iter().map(|window| (number, window)));
                writing.push(Writing { number, written, left });
                if left > 0 {
                    continue;
                }
                vec![number] // there was nothing to send
            }
            Some(point) = OptionFuture::from(departure.as_mut()) => {
                departure = None;
                shared.fault.sound()?;
                let hurries = shared.look(|core| core.canary.hurries());
                while queue.may_leave(&shared)
                    && (hurries || pacer.is_free(point))
                    && let Some(((of, bytes), writes)) = queue.next_message(&shared)
                {
                    pacer.take(point, bytes as u64);
                    under_way.push(send(&shared, (of, bytes), writes));
                }
                continue;
            }
            else => return Ok(()),
        };
        for ended in windows {
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
async fn turn<P: Plane>(shared: &Shared<P>, soonest: Option<Nanos>) -> Nanos {
    if !shared.look(|core| core.canary.hurries()) {
        shared.grid.wait_until_before(soonest).await;
    }
    if shared.look(|core| core.canary.is_late()) {
        shared.grid.departure().await;
    }
    shared.grid.next_usable_point(|| ()).await.0
}

/// Sends a message now; returns of what it is, and its bytes, when it has ended.
async fn send<P: Plane>(shared: &Shared<P>, sent: Sent, writes: Vec<ChunkWrite>) -> Result<Sent> {
    let ended = shared.bare.write_chunks(writes).await.map_err(blame_new);
    shared.grid.wait_for_delivery(shared.grid.now()).await;
    ended.map(|()| sent)
}
