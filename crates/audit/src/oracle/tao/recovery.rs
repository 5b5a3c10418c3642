//! Recovery: the paths of the records that the last checkpoint does not hold are read again, in
//! their order.
//!
//! 1. So many at once; when all are back they are taken in that order, whatever the order of
//!    replies. What falls due to be written back is, before the next is taken.
//! 2. They lead to the leaves that the cloud has seen, as far as it has: buckets are named in the
//!    versions of the checkpoint, so a path may show more or less of its leaf than it did. What
//!    never left before the stop leaves now, by its record.
//! 3. Then there is a checkpoint, and what a stop has left is deleted.

use fogbank_store::ChunkName;

use super::tree::{Shown, Tree};
use super::{Immediate, Own, Stage, Tao};
use crate::oracle::fault::{Step, fault};
use crate::{Observation, Observer};

/// Paths that are read again at once.
const WINDOW: usize = 32;

/// What the traces have shown of a record.
#[derive(Debug, Clone, Default)]
pub(super) struct Journalled {
    /// Its number among the records of this life.
    pub number: Option<u64>,
    pub parts: usize,
    pub paths: Vec<Shown>,
}

/// The paths that are read again.
#[derive(Debug, Clone, Default)]
pub(super) struct Replay {
    /// By path: its record, which of that one's it is, and what was shown of it.
    paths: Vec<(String, usize, Option<Shown>)>,
    /// Where the window at hand begins.
    begins: usize,
    /// By path of the window at hand that has left: what it has shown now.
    seen: Vec<Shown>,
    under_way: usize,
    /// Paths of the window that were taken.
    taken: usize,
}

impl Replay {
    fn window(&self) -> usize {
        (self.paths.len() - self.begins).min(WINDOW)
    }
}

/// Whether both may be of one path.
fn are_one(one: Shown, other: Shown, tree: &Tree) -> bool {
    let (low, high) = (one.0.max(other.0), one.0.min(other.0));
    let mut chunk = low;
    while let (Some(bucket), Some(high)) = (chunk, high) {
        if bucket <= high {
            return bucket == high;
        }
        chunk = tree.shape.parent(bucket);
    }
    high.is_none()
}

/// Requests.
impl Immediate<Tao> {
    /// The store is open: what its journal names is read again, if it names anything.
    pub(super) fn begin_replay(&mut self) {
        let mut replay = Replay::default();
        for name in self.chain.journalled() {
            let known = self.plane.journal.get(&name).cloned().unwrap_or_default();
            for nth in 0..known.parts {
                replay.paths.push((name.clone(), nth, known.paths.get(nth).copied()));
            }
        }
        let any = !replay.paths.is_empty();
        self.stage = if any { Stage::Replaying } else { Stage::SweepList };
        self.plane.replay = replay;
        self.open_window();
    }

    fn open_window(&mut self) {
        let replay = &mut self.plane.replay;
        replay.seen.clear();
        (replay.taken, replay.under_way) = (0, 0);
        self.plane.accesses.put += 1;
    }

    pub(super) fn read_again(&mut self, names: &[ChunkName], out: &mut dyn Observer) -> Step<Own> {
        let shown = self.plane.tree.path(names, self.at)?;
        let (nth, window) = (self.plane.replay.seen.len(), self.plane.replay.window());
        let known = self.plane.replay.paths.get(self.plane.replay.begins + nth);
        let next = known.filter(|_| self.stage == Stage::Replaying && nth < window).cloned();
        let is_it =
            |known: Option<Shown>| known.is_none_or(|k| are_one(k, shown, &self.plane.tree));
        let Some((name, nth, known)) = next.filter(|(_, _, known)| is_it(*known)) else {
            let due = "the paths that the journal names, in its order";
            return fault("replay-exact", due, format!("{names:x?}"));
        };
        self.plane.tree.ask(shown);
        self.plane.replay.seen.push(shown);
        self.plane.replay.under_way += 1;
        if known.is_none() {
            self.note_path(shown, out);
        }
        let journalled = self.plane.journal.entry(name).or_default();
        match journalled.paths.get_mut(nth) {
            Some(known) => *known = Shown(known.0.max(shown.0)),
            None => journalled.paths.push(shown),
        }
        Ok(Own::Again)
    }
}

/// Replies.
impl Immediate<Tao> {
    pub(super) fn again_ended(&mut self) {
        self.plane.replay.under_way -= 1;
        self.take_paths();
    }

    /// Takes the paths of the window in their order, as far as no write-back is waited for.
    pub(super) fn take_paths(&mut self) {
        while self.stage == Stage::Replaying
            && self.plane.replay.seen.len() == self.plane.replay.window()
            && self.plane.replay.under_way == 0
            && self.plane.write_backs.is_idle()
        {
            let Some(shown) = self.plane.replay.seen.get(self.plane.replay.taken).copied() else {
                self.plane.replay.begins += self.plane.replay.seen.len();
                if self.plane.replay.begins == self.plane.replay.paths.len() {
                    self.stage = Stage::Recovering;
                    self.cut(false);
                    return;
                }
                self.open_window();
                return;
            };
            self.plane.replay.taken += 1;
            self.plane.write_backs.flush(shown, self.at, &mut self.plane.tree);
        }
    }

    pub(super) fn note_path(&mut self, shown: Shown, out: &mut dyn Observer) {
        let leaf = self.plane.tree.complete(shown);
        let batch = self.summary.read_batches;
        out.observe(&Observation::Path {
            epoch: self.summary.epochs,
            batch,
            access: self.summary.accesses,
            leaf,
            whole: self.plane.tree.is_whole(shown),
            shown: shown.0.is_some(),
            stretch: batch,
        });
        self.summary.accesses += 1;
        self.summary.silent_paths += u64::from(shown.0.is_none());
    }
}
