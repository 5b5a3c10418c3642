//! Buckets that the proxy has, and so does not ask for.
//!
//! 1. A path that comes back leaves its buckets here.
//! 2. An acknowledged write-back takes those of its buckets away through which no path came back since it
//!    began, and none is under way that was asked for.
//!
//! Where a path has shown a part of its leaf only, nobody can tell which of the buckets below that it leaves here,
//! or holds here: whether one of those is asked for stays open. Once all buckets were written nothing does.

use std::collections::HashMap;

use fogbank_env::Nanos;

use super::tree::Shown;
use crate::oracle::shape::Shape;

/// Whether a bucket is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Here,
    Gone,
    /// Nobody can tell.
    Open,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    presence: Presence,
    /// Since when it is here.
    since: Nanos,
    /// The number of the last flush along it.
    flushed: u64,
    /// Flushes when it went.
    gone_at: u64,
    /// Paths under way through it.
    under_way: u32,
}

/// Paths that have shown the same part of their leaves.
#[derive(Debug, Default, Clone, Copy)]
struct Vague {
    /// The number of the last flush along one of them.
    flushed: u64,
    under_way: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Subtree {
    shape: Shape,
    /// Whether events of one moment have an order that tells: on a grid they have.
    is_ordered: bool,
    /// Flushes so far.
    pub flushes: u64,
    /// Those of which anything is known.
    buckets: HashMap<u32, Bucket>,
    vague: HashMap<Option<u32>, Vague>,
}

impl Subtree {
    pub fn new(shape: Shape, is_ordered: bool) -> Self {
        let (buckets, vague) = (HashMap::new(), HashMap::new());
        Self { shape, is_ordered, flushes: 0, buckets, vague }
    }

    /// A new process.
    pub fn restart(&mut self) {
        *self = Self::new(self.shape, self.is_ordered);
    }

    /// A path that has shown so much is asked for.
    pub fn ask(&mut self, shown: Shown) {
        for chunk in self.upwards(shown.0) {
            self.bucket(chunk).under_way += 1;
        }
        if self.is_vague(shown) {
            self.vague.entry(shown.0).or_default().under_way += 1;
        }
    }

    /// It came back.
    pub fn flush(&mut self, shown: Shown, at: Nanos) {
        self.flushes += 1;
        let flushed = self.flushes;
        for chunk in self.upwards(shown.0) {
            let bucket = self.bucket(chunk);
            let is_new = bucket.presence != Presence::Here;
            let since = if is_new { at } else { bucket.since };
            let under_way = bucket.under_way.saturating_sub(1);
            *bucket = Bucket { presence: Presence::Here, since, flushed, under_way, ..*bucket };
        }
        if self.is_vague(shown) {
            let vague = self.vague.entry(shown.0).or_default();
            *vague = Vague { flushed, under_way: vague.under_way.saturating_sub(1) };
        }
    }

    /// A write-back has begun with this bucket, so it is here.
    pub fn written(&mut self, chunk: u32) {
        self.bucket(chunk).presence = Presence::Here;
    }

    /// A write-back that began after so many flushes, and wrote this bucket, is acknowledged.
    pub fn acknowledged(&mut self, chunk: u32, flushed: u64) {
        let open = self.vaguely(chunk);
        let now = self.flushes;
        let bucket = self.bucket(chunk);
        if bucket.flushed > flushed || bucket.under_way > 0 || bucket.presence == Presence::Gone {
            return;
        }
        bucket.presence = match open.flushed > flushed || open.under_way > 0 {
            true => Presence::Open,
            false => Presence::Gone,
        };
        bucket.gone_at = now;
    }

    /// Whether a bucket is here at `at`.
    pub fn presence(&self, chunk: u32, at: Nanos) -> Presence {
        let known = self.buckets.get(&chunk);
        match known.map_or(Presence::Gone, |bucket| bucket.presence) {
            Presence::Gone if self.vaguely(chunk).flushed > known.map_or(0, |b| b.gone_at) => {
                Presence::Open
            }
            Presence::Here if !self.is_ordered && known.is_some_and(|b| b.since == at) => {
                Presence::Open
            }
            presence => presence,
        }
    }

    /// What paths that may lead through `chunk`, and have not shown it, come to.
    fn vaguely(&self, chunk: u32) -> Vague {
        let above = self.upwards(self.shape.parent(chunk)).map(Some).chain([None]);
        let known = above.filter_map(|shown| self.vague.get(&shown));
        known.fold(Vague::default(), |sum, one| Vague {
            flushed: sum.flushed.max(one.flushed),
            under_way: sum.under_way + one.under_way,
        })
    }

    fn is_vague(&self, shown: Shown) -> bool {
        shown.0.is_none_or(|lowest| self.shape.level(lowest) < self.shape.leaf_level)
    }

    /// A bucket and those above it.
    fn upwards(&self, lowest: Option<u32>) -> impl Iterator<Item = u32> + use<> {
        let shape = self.shape;
        std::iter::successors(lowest, move |chunk| shape.parent(*chunk))
    }

    fn bucket(&mut self, chunk: u32) -> &mut Bucket {
        self.buckets.entry(chunk).or_insert(Bucket {
            presence: Presence::Gone,
            since: 0,
            flushed: 0,
            gone_at: 0,
            under_way: 0,
        })
    }
}
