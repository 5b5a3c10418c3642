//! Buckets that the proxy has, and so does not ask for.
//!
//! 1. A path that comes back leaves its buckets here.
//! 2. An acknowledged write-back takes those of its buckets away through which no path came back
//!    since it began, and none is under way that was asked for.
//!
//! Where a path has shown a part of its leaf only, nobody can tell which of the buckets below that
//! it leaves here, or holds here, until it is written back: whether one of those is asked for stays
//! open until then. It leads to one of the buckets below that were never written when it was asked
//! for.

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
    /// Flushes that the last write-back of it comprised that has been acknowledged.
    acknowledged: u64,
    /// Paths under way through it.
    under_way: u32,
}

/// Paths that may lead through a bucket, and have not shown it.
#[derive(Debug, Default, Clone)]
struct Vague {
    /// The numbers of their flushes, of those that have not been written back.
    flushes: Vec<u64>,
    under_way: u32,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Subtree {
    shape: Shape,
    /// Whether events of one moment have an order that tells: on a grid they have.
    is_ordered: bool,
    /// Flushes so far.
    pub flushes: u64,
    /// Those of which anything is known.
    buckets: HashMap<u32, Bucket>,
    /// By the highest bucket that such a path may lead through; `None`: any.
    vague: HashMap<Option<u32>, Vague>,
    /// By what they have shown: where the vague paths under way may lead.
    asked: HashMap<Option<u32>, Vec<Vec<Option<u32>>>>,
}

impl Subtree {
    pub fn new(shape: Shape, is_ordered: bool) -> Self {
        let (buckets, vague, asked) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { shape, is_ordered, flushes: 0, buckets, vague, asked }
    }

    /// A new process.
    pub fn restart(&mut self) {
        *self = Self::new(self.shape, self.is_ordered);
    }

    /// A path that has shown so much is asked for; below that, `unwritten` were never written.
    pub fn ask(&mut self, shown: Shown, unwritten: &[u32]) {
        for chunk in self.upwards(shown.0) {
            self.bucket(chunk).under_way += 1;
        }
        if self.is_vague(shown) {
            let leads = match shown.0 {
                Some(_) => unwritten.iter().copied().map(Some).collect(),
                None => vec![None],
            };
            for lead in &leads {
                self.vague.entry(*lead).or_default().under_way += 1;
            }
            self.asked.entry(shown.0).or_default().push(leads);
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
        let Some(asked) = self.asked.get_mut(&shown.0) else { return };
        // Which of those that have shown as much it is cannot be told: it may lead wherever one of
        // them may, and the others hold what all but the least of them does.
        let mut leads: Vec<Option<u32>> = asked.iter().flatten().copied().collect();
        leads.sort_unstable();
        leads.dedup();
        for lead in leads {
            self.vague.entry(lead).or_default().flushes.push(flushed);
        }
        let least = asked.iter().enumerate().min_by_key(|(_, leads)| leads.len());
        let ended = least.map(|(at, _)| at).map(|at| asked.swap_remove(at));
        for lead in ended.into_iter().flatten() {
            let vague = self.vague.entry(lead).or_default();
            vague.under_way = vague.under_way.saturating_sub(1);
        }
        if asked.is_empty() {
            self.asked.remove(&shown.0);
        }
    }

    /// A write-back has begun with this bucket, so it is here.
    pub fn written(&mut self, chunk: u32) {
        self.bucket(chunk).presence = Presence::Here;
    }

    /// All buckets of a write-back are known, which comprises the flushes after `before` up to
    /// `last`: so where these led, and what they have kept here although an earlier one was
    /// acknowledged.
    pub fn known(&mut self, buckets: &[u32], (before, last): (u64, u64)) {
        for chunk in buckets {
            // Which of them went through it makes no difference to any other write-back.
            let bucket = self.bucket(*chunk);
            bucket.flushed = bucket.flushed.max(before + 1);
            if bucket.acknowledged <= before {
                bucket.presence = Presence::Here;
            }
        }
        for vague in self.vague.values_mut() {
            vague.flushes.retain(|flush| *flush <= before || *flush > last);
        }
        self.vague.retain(|_, vague| vague.under_way > 0 || !vague.flushes.is_empty());
    }

    /// A write-back that began after so many flushes, and wrote this bucket, is acknowledged.
    pub fn acknowledged(&mut self, chunk: u32, flushed: u64) {
        let bucket = self.bucket(chunk);
        if bucket.flushed <= flushed && bucket.under_way == 0 && bucket.presence != Presence::Gone {
            (bucket.presence, bucket.acknowledged) = (Presence::Gone, flushed);
        }
    }

    /// Whether a bucket is here at `at`.
    pub fn presence(&self, chunk: u32, at: Nanos) -> Presence {
        let known = self.buckets.get(&chunk);
        let acknowledged = known.map_or(0, |bucket| bucket.acknowledged);
        match known.map_or(Presence::Gone, |bucket| bucket.presence) {
            Presence::Gone if self.may_be_here(chunk, acknowledged) => Presence::Open,
            Presence::Here if !self.is_ordered && known.is_some_and(|b| b.since == at) => {
                Presence::Open
            }
            presence => presence,
        }
    }

    /// Whether a path that may lead through `chunk`, and has not shown it, holds it here or has
    /// brought it since flush `acknowledged`.
    fn may_be_here(&self, chunk: u32, acknowledged: u64) -> bool {
        let leads = self.upwards(Some(chunk)).map(Some).chain([None]);
        leads.filter_map(|lead| self.vague.get(&lead)).any(|vague| {
            vague.under_way > 0 || vague.flushes.iter().any(|flush| *flush > acknowledged)
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
            acknowledged: 0,
            under_way: 0,
        })
    }
}
