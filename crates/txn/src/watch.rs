//! Watched keys and ranges: did anybody write them since?
//!
//! A watch outlives epochs, so it cannot look at versions, which do not. Each watched thing is
//! entered in a register; the end of an epoch tells the register which keys its transactions
//! changed and after which timestamp, and the register marks the watches that were there before.
//! Writes of the running epoch are seen in the rows themselves by the program that asks.
//!
//! The register holds weak references: dropping a [`Watch`] ends it, and the register sheds dead
//! references when it has doubled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use fogbank_env::Mutex;
use hashbrown::HashMap;

use crate::key::{Key, KeyRange};
use crate::version::Ts;

/// A set of keys and ranges watched for changes. Clones watch together.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    changed: AtomicBool,
    watched: Mutex<Vec<Watched>>,
}

/// One watched thing and since when.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// A single key is kept as one, so that it is found without a search.
    pub target: Target,
    /// The epoch in which it was entered.
    pub epoch: u64,
    /// The timestamp in that epoch after which changes count.
    pub ts: Ts,
}

/// What is watched.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// One key.
    Key(Key),
    /// A range.
    Range(KeyRange),
}

impl Watch {
    /// Whether a committed epoch has changed something since.
    pub(crate) fn is_changed(&self) -> bool {
        self.0.changed.load(Ordering::Acquire)
    }

    /// What is watched.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        self.0.watched.lock().clone()
    }

    fn push(&self, watched: Watched) {
        self.0.watched.lock().push(watched);
    }
}

#[derive(Debug)]
struct Entry {
    watch: Weak<Inner>,
    range: Option<KeyRange>,
    epoch: u64,
    ts: Ts,
}

impl Entry {
    /// Marks the watch if the change came after it was entered. Whether the entry is still alive.
    fn tell(&self, key: &Key, epoch: u64, ts: Ts) -> bool {
        let Some(watch) = self.watch.upgrade() else { return false };
        let covers = self.range.as_ref().is_none_or(|range| range.contains(key));
        if covers && (epoch, ts) > (self.epoch, self.ts) {
            watch.changed.store(true, Ordering::Release);
        }
        true
    }
}

/// The register of everything watched.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_key: HashMap<Key, Vec<Entry>>,
    by_group: HashMap<Key, Vec<Entry>>,
    across_groups: Vec<Entry>,
    entries: usize,
    shed_at: usize,
}

impl Watches {
    /// Watches `target` from (`epoch`, `ts`) on.
    pub(crate) fn enter(&mut self, watch: &Watch, target: Target, epoch: u64, ts: Ts) {
        let weak = Arc::downgrade(&watch.0);
        let (list, range) = match &target {
            Target::Key(key) => (self.by_key.entry_ref(key).or_default(), None),
            Target::Range(range) => {
                let list = match range.single_group() {
                    Some(group) => self.by_group.entry(group).or_default(),
                    None => &mut self.across_groups,
                };
                (list, Some(range.clone()))
            }
        };
        list.push(Entry { watch: weak, range, epoch, ts });
        watch.push(Watched { target, epoch, ts });
        self.entries += 1;
        if self.entries > self.shed_at.max(1024) {
            self.shed();
        }
    }

    /// Whether nobody watches anything, so that telling can be skipped.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// A committed write changed `key` at (`epoch`, `ts`).
    pub(crate) fn tell(&mut self, key: &Key, epoch: u64, ts: Ts) {
        if let Some(list) = self.by_key.get_mut(key) {
            list.retain(|entry| entry.tell(key, epoch, ts));
        }
        if !self.by_group.is_empty()
            && let Some(list) = self.by_group.get_mut(&key.group_key())
        {
            list.retain(|entry| entry.tell(key, epoch, ts));
        }
        self.across_groups.retain(|entry| entry.tell(key, epoch, ts));
    }

    fn shed(&mut self) {
        let alive = |entry: &Entry| entry.watch.strong_count() > 0;
        let mut count = 0;
        let mut keep = |_: &Key, list: &mut Vec<Entry>| {
            list.retain(alive);
            count += list.len();
            !list.is_empty()
        };
        self.by_key.retain(&mut keep);
        self.by_group.retain(&mut keep);
        self.across_groups.retain(alive);
        self.entries = count + self.across_groups.len();
        self.shed_at = self.entries * 2;
    }
}
