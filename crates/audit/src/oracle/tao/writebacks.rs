//! Write-backs: after every k paths that came back, the union of their buckets under the next time
//! stamp.
//!
//! 1. A path that came back goes into the queue, in the order of the replies. The k-th brings about
//!    a write-back, at once; so does a cut if anything is queued.
//! 2. Write-backs leave one after the other, their buckets by rising number, in messages of a
//!    public size. A few are under way, of whichever write-back: the next leaves when one of them
//!    has ended, and at the link's pace in its turn (`turns`).
//! 3. When all have ended, what they wrote is what the proxy names, unless that is newer already.
//!    The older of the two is superseded by the newer.
//!
//! Where a path has shown a part of its leaf only, the union shows more: each leaf in it that no
//! whole path accounts for has to be that of a path that fits.

use std::collections::BTreeSet;

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::ChunkSeen;

use super::TaoConfig;
use super::tree::{Shown, Tree};
use crate::oracle::fault::{Step, fault};
use crate::oracle::immediate::stored::TICK_BITS;
use crate::oracle::immediate::turns::{Turns, check_turn};
use crate::{Observation, Observer};

/// One that has begun and has not been acknowledged.
#[derive(Debug, Clone)]
struct WriteBack {
    tick: u64,
    /// Paths that had come back when the one before began, and when it did.
    flushed: (u64, u64),
    /// What is known of its paths.
    paths: Vec<Shown>,
    /// The buckets that are in it for certain, rising.
    certain: Vec<u32>,
    /// Whether those are all.
    exact: bool,
    sent: Vec<u32>,
    /// By message: whether it has ended.
    ended: Vec<bool>,
    /// Which reply to any write-back was its last.
    last_reply: u64,
    /// Whether the last message was not full.
    closed: bool,
}

/// A version that a newer one has taken the place of.
#[derive(Debug, Clone, Copy)]
struct Superseded {
    name: ChunkName,
    /// The write-back of the newer one.
    tick: u64,
    /// Records that had left when that was known.
    before: u64,
}

/// All write-backs of a life.
#[derive(Clone)]
pub(super) struct WriteBacks {
    every: usize,
    window: usize,
    windows: usize,
    array: u16,
    slots: u64,
    cell_bytes: u64,
    pub opening: u32,
    /// The last time stamp.
    pub tick: u64,
    queue: Vec<Shown>,
    under_way: Vec<WriteBack>,
    turns: Turns,
    /// Replies so far.
    replies: u64,
    superseded: Vec<Superseded>,
    /// The last write-back of the checkpoint that is being written, and the versions it refers to.
    saving: Option<(u64, Vec<u64>)>,
    /// Buckets written so far.
    pub images: u64,
}

impl WriteBacks {
    pub fn new(config: &TaoConfig) -> Self {
        Self {
            every: config.write_back_every as usize,
            window: config.window_chunks as usize,
            windows: config.windows as usize,
            array: config.array,
            slots: config.reals.into(),
            cell_bytes: config.cell_bytes.into(),
            opening: 0,
            tick: 0,
            queue: Vec::new(),
            under_way: Vec::new(),
            turns: Turns::new(config.quantum_ns, config.pace.up_bytes_per_s),
            replies: 0,
            superseded: Vec::new(),
            saving: None,
            images: 0,
        }
    }

    /// A new process.
    pub fn restart(&mut self) {
        self.tick = 0;
        self.queue.clear();
        self.under_way.clear();
        self.turns.restart();
        self.superseded.clear();
        self.saving = None;
    }

    /// A path came back.
    pub fn flush(&mut self, shown: Shown, at: Nanos, tree: &mut Tree) {
        tree.subtree.flush(shown, at);
        self.queue.push(shown);
        if self.queue.len() >= self.every {
            self.begin(tree);
        }
    }

    /// What is queued is written back.
    pub fn begin(&mut self, tree: &Tree) {
        if self.queue.is_empty() {
            return;
        }
        self.tick += 1;
        let paths = std::mem::take(&mut self.queue);
        let count = paths.len() as u64;
        let mut certain = BTreeSet::new();
        for Shown(lowest) in &paths {
            let mut chunk = *lowest;
            while let Some(bucket) = chunk.filter(|bucket| certain.insert(*bucket)) {
                chunk = tree.shape.parent(bucket);
            }
        }
        let exact = paths.iter().all(|shown| tree.is_whole(*shown));
        self.under_way.push(WriteBack {
            tick: self.tick,
            flushed: (tree.subtree.flushes - count, tree.subtree.flushes),
            paths,
            certain: certain.into_iter().collect(),
            exact,
            sent: Vec::new(),
            ended: Vec::new(),
            last_reply: 0,
            closed: false,
        });
    }

    /// The time stamp of a message's buckets.
    pub fn tick_of(writes: &[(ChunkName, ChunkSeen)]) -> u64 {
        writes.first().map_or(0, |(name, _)| name.version & ((1 << TICK_BITS) - 1))
    }

    /// Whether a write-back of this time stamp has begun.
    pub fn has_begun(&self, tick: u64) -> bool {
        tick <= self.tick
    }

    /// A message of a write-back leaves at `at`. Returns which.
    pub fn send(
        &mut self,
        at: Nanos,
        writes: &[(ChunkName, ChunkSeen)],
        (tree, records): (&mut Tree, u64),
        out: &mut dyn Observer,
    ) -> Step<(u64, usize)> {
        let tick = Self::tick_of(writes);
        let is_before = |one: &WriteBack| !one.closed && one.tick < tick;
        while let Some(before) = self.under_way.iter().position(is_before) {
            self.close(before, tree)?;
        }
        self.acknowledge_ended(tree, records);
        let Some(which) = self.under_way.iter().position(|one| one.tick == tick) else {
            let due = format!("no write-back {tick}, k paths have not come back");
            return fault("write-back-due", due, format!("{} buckets", writes.len()));
        };
        let (window, windows, may_send) = (self.window, self.windows, self.may_send());
        let due = self.turns.due(at);
        let one = &mut self.under_way[which];
        let nth = one.ended.len();
        if !may_send {
            let due = format!("the end of one of {windows} before it");
            return fault("write-back-windows", due, format!("message {nth} of write-back {tick}"));
        }
        check_turn(due, at)?;
        one.check_window(window, writes)?;
        let version = (u64::from(self.opening) << TICK_BITS) | tick;
        for (name, seen) in writes {
            if (name.array.0, name.version) != (self.array, version) {
                let due = format!("version {version:#x} of array {}", self.array);
                return fault("write-back-union", due, format!("{name:x?}"));
            }
            let bytes = self.slots * self.cell_bytes;
            if seen.bytes != bytes {
                return fault(
                    "cell-size",
                    format!("{bytes} bytes"),
                    format!("{} bytes", seen.bytes),
                );
            }
            tree.write((name.chunk, version), &seen.fingerprints);
            tree.subtree.written(name.chunk);
            let fingerprints = &seen.fingerprints[..];
            out.observe(&Observation::Image { chunk: name.chunk, version, fingerprints });
        }
        self.turns.take(at, (writes.len() as u64).saturating_mul(self.slots * self.cell_bytes));
        self.images += writes.len() as u64;
        one.sent.extend(writes.iter().map(|(name, _)| name.chunk));
        one.ended.push(false);
        one.closed = match one.exact {
            true => one.sent.len() == one.certain.len(),
            false => writes.len() < window,
        };
        if one.closed {
            one.check_union(tree)?;
            tree.subtree.known(&one.sent, one.flushed);
        }
        Ok((tick, nth))
    }

    /// A message has ended.
    pub fn ended(&mut self, (tick, nth): (u64, usize)) {
        self.replies += 1;
        let Some(one) = self.under_way.iter_mut().find(|one| one.tick == tick) else { return };
        if let Some(ended) = one.ended.get_mut(nth) {
            *ended = true;
        }
        one.last_reply = self.replies;
    }

    /// Those are acknowledged of which all messages have ended, in the order of their last replies:
    /// which those are may be known only now, if a message is of full size and no further one
    /// follows.
    fn acknowledge_ended(&mut self, tree: &mut Tree, records: u64) {
        let is_over = |one: &mut WriteBack| one.closed && one.has_ended();
        let mut over: Vec<WriteBack> = self.under_way.extract_if(.., is_over).collect();
        over.sort_unstable_by_key(|one| one.last_reply);
        over.into_iter().for_each(|one| self.acknowledge(one, tree, records));
    }

    /// What comes next is no message or reply of a write-back, but for that of time stamp `but`:
    /// replies are taken and messages sent in one go, so a write-back that could send another and
    /// has not has none.
    pub fn close_full(
        &mut self,
        at: Nanos,
        but: Option<u64>,
        (tree, records): (&mut Tree, u64),
    ) -> Step {
        let first = self.under_way.iter().position(|one| !one.closed);
        let may_send = self.may_send() && self.turns.due(at) <= at;
        let open = |which: &usize| {
            let one = &self.under_way[*which];
            !one.exact && !one.sent.is_empty() && may_send && Some(one.tick) != but
        };
        if let Some(which) = first.filter(open) {
            self.close(which, tree)?;
        }
        self.acknowledge_ended(tree, records);
        Ok(())
    }

    /// Nothing more of this one comes.
    fn close(&mut self, which: usize, tree: &mut Tree) -> Step {
        let one = &mut self.under_way[which];
        if one.exact || one.sent.is_empty() {
            let due = format!("message {} of write-back {}", one.ended.len(), one.tick);
            return fault("write-back-windows", due, "one of a later write-back");
        }
        one.check_union(tree)?;
        tree.subtree.known(&one.sent, one.flushed);
        one.closed = true;
        Ok(())
    }

    /// Whether one message more may be under way.
    fn may_send(&self) -> bool {
        let under_way = self.under_way.iter().flat_map(|one| &one.ended);
        under_way.filter(|ended| !**ended).count() < self.windows
    }

    /// How many have not been acknowledged.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    fn acknowledge(&mut self, one: WriteBack, tree: &mut Tree, records: u64) {
        let new = (u64::from(self.opening) << TICK_BITS) | one.tick;
        for chunk in one.sent {
            let known = tree.version(chunk);
            let (old, newest) = (known.min(new), known.max(new));
            tree.written((chunk, new));
            tree.set_version(chunk, newest);
            tree.subtree.acknowledged(chunk, one.flushed.1);
            if let Some((last, saved)) = &mut self.saving
                && one.tick <= *last
            {
                let saved = &mut saved[chunk as usize];
                *saved = (*saved).max(new);
            }
            if old != 0 {
                let array = fogbank_store::ArrayId(self.array);
                let name = ChunkName { array, chunk, version: old };
                let tick = newest & ((1 << TICK_BITS) - 1);
                self.superseded.push(Superseded { name, tick, before: records });
            }
        }
    }

    /// Whether all up to `tick` were acknowledged.
    pub fn acknowledged(&self, tick: u64) -> bool {
        self.under_way.iter().all(|one| one.tick > tick)
    }

    /// Whether none is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A checkpoint of now is about to be written: it refers to what all write-backs so far lead
    /// to.
    pub fn begin_saving(&mut self, tree: &Tree) {
        self.saving = Some((self.tick, tree.versions().to_vec()));
    }

    /// The versions to which the checkpoint refers, once all those were acknowledged.
    pub fn take_saved(&mut self) -> Vec<u64> {
        self.saving.take().map(|(_, versions)| versions).unwrap_or_default()
    }

    /// What a checkpoint that comprises write-backs up to `tick` refers to no more and no path can
    /// name: all records before `oldest` have their paths back.
    pub fn take_superseded(&mut self, tick: u64, oldest: u64) -> Vec<ChunkName> {
        let gone = |old: &Superseded| old.tick <= tick && old.before <= oldest;
        let names = self.superseded.iter().filter(|old| gone(old)).map(|old| old.name).collect();
        self.superseded.retain(|old| !gone(old));
        names
    }

    /// The write-back of the next message, unless that waits for a reply.
    fn next(&self) -> Option<&WriteBack> {
        self.under_way.iter().find(|one| !one.closed).filter(|_| self.may_send())
    }

    /// When it is the turn of the next message.
    pub fn turn_after(&self, at: Nanos) -> Option<Nanos> {
        self.next().map(|_| self.turns.due(at)).filter(|due| *due > at)
    }

    /// Whether nobody can tell at `at` if a write-back has been acknowledged: all that was seen of
    /// it has been, and it is not the turn of what may follow.
    pub fn is_open_at(&self, at: Nanos) -> bool {
        let open = |one: &WriteBack| !one.exact && one.has_ended();
        self.next().is_some_and(open) && self.turns.due(at) > at
    }

    /// What should have left by `at` and has not.
    pub fn check_settled(&self, at: Nanos) -> Step {
        match self.next().filter(|_| self.turns.due(at) <= at) {
            Some(one) if one.ended.is_empty() => {
                fault("write-back-due", format!("write-back {} at once", one.tick), "nothing")
            }
            Some(one) => {
                let due = format!("message {} of write-back {}", one.ended.len(), one.tick);
                fault("write-back-windows", due, "nothing at once")
            }
            None => Ok(()),
        }
    }
}

impl WriteBack {
    fn has_ended(&self) -> bool {
        !self.ended.is_empty() && self.ended.iter().all(|ended| *ended)
    }

    fn check_window(&self, window: usize, writes: &[(ChunkName, ChunkSeen)]) -> Step {
        if self.closed {
            let due = format!("nothing more of write-back {}", self.tick);
            return fault("write-back-union", due, format!("{} buckets", writes.len()));
        }
        let left = self.certain.len() - self.sent.len().min(self.certain.len());
        let count = if self.exact { left.min(window) } else { writes.len().clamp(1, window) };
        if writes.len() != count {
            let due = format!("{count} buckets");
            return fault("write-back-windows", due, format!("{}", writes.len()));
        }
        let mut last = self.sent.last().copied();
        for (at, (name, _)) in writes.iter().enumerate() {
            let due = self.certain.get(self.sent.len() + at).filter(|_| self.exact);
            let fits =
                due.map_or(last.is_none_or(|last| last < name.chunk), |due| *due == name.chunk);
            if !fits {
                let due = due.map_or("a rising bucket".into(), |due| format!("bucket {due}"));
                return fault("write-back-union", due, format!("{name:x?}"));
            }
            last = Some(name.chunk);
        }
        Ok(())
    }

    /// Holds a union that was not known against the paths that it has to be of.
    fn check_union(&self, tree: &Tree) -> Step {
        if self.exact {
            return Ok(());
        }
        let (shape, sent) = (&tree.shape, BTreeSet::from_iter(self.sent.iter().copied()));
        let wrong = |due: String| fault("write-back-union", due, format!("{:?}", self.sent));
        if let Some(chunk) = self.certain.iter().find(|chunk| !sent.contains(*chunk)) {
            return wrong(format!("bucket {chunk}"));
        }
        let lowest = |chunk: &u32| shape.level(*chunk) == shape.leaf_level;
        let leaves: Vec<u32> = sent.iter().copied().filter(lowest).collect();
        let paths = leaves.iter().flat_map(|chunk| shape.path(shape.leaf(*chunk)));
        if paths.collect::<BTreeSet<u32>>() != sent {
            return wrong("whole paths".into());
        }
        // Those that fit fewest leaves first: what one path fits contains what another fits, or has
        // nothing in common with it.
        let mut partial: Vec<Shown> =
            self.paths.iter().copied().filter(|shown| !tree.is_whole(*shown)).collect();
        partial.sort_unstable_by_key(|Shown(lowest)| std::cmp::Reverse(*lowest));
        if let Some(shown) = partial
            .iter()
            .find(|shown| !leaves.iter().any(|chunk| tree.fits(**shown, shape.leaf(*chunk))))
        {
            return wrong(format!("a leaf below {shown:?}"));
        }
        for chunk in leaves.iter().filter(|chunk| !self.certain.contains(chunk)) {
            let leaf = shape.leaf(*chunk);
            match partial.iter().position(|shown| tree.fits(*shown, leaf)) {
                Some(at) => drop(partial.remove(at)),
                None => return wrong(format!("no bucket {chunk}, which no path fits")),
            }
        }
        Ok(())
    }
}
