//! Predicate reads: what a scan or a count has seen of a range, phantoms included.
//!
//! A scan answered from the directory at timestamp `t` promises that nobody with an earlier
//! timestamp changes what it saw afterwards. So it leaves its range here with `t`; a writer below
//! `t` that inserts, deletes or changes length or attribute inside the range comes too late.
//! Programs run at the newest timestamp and therefore never come too late themselves; while no
//! interactive transaction is active nothing needs to be recorded at all.
//!
//! Ranges inside one group are kept by group. A group that gathers many of them is watched as a
//! whole: coarser, never wrong.

use hashbrown::HashMap;

use crate::key::{Key, KeyRange};
use crate::record::Stat;
use crate::version::Ts;

/// Ranges of one group kept apart before the group is watched as a whole.
const RANGES_PER_GROUP_MAX: usize = 64;

/// What a predicate read depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sight {
    /// Which keys are there.
    Membership,
    /// Also their lengths and attributes.
    Stats,
    /// Every write, even one that leaves length and attribute as they were.
    Writes,
}

#[derive(Debug)]
struct Predicate {
    range: KeyRange,
    sight: Sight,
    ts: Ts,
}

/// The predicate reads of one epoch.
#[derive(Debug, Default)]
pub(crate) struct Predicates {
    by_group: HashMap<Key, Vec<Predicate>>,
    across_groups: Vec<Predicate>,
}

impl Predicates {
    /// A reader of timestamp `ts` has seen `range`.
    pub(crate) fn record(&mut self, range: &KeyRange, sight: Sight, ts: Ts) {
        let group = range.single_group();
        let list = match &group {
            Some(group) => self.by_group.entry_ref(group).or_default(),
            None => &mut self.across_groups,
        };
        if let Some(same) = list.iter_mut().find(|p| p.sight == sight && p.range == *range) {
            same.ts = same.ts.max(ts);
            return;
        }
        list.push(Predicate { range: range.clone(), sight, ts });
        if list.len() > RANGES_PER_GROUP_MAX {
            let newest = list.iter().map(|p| p.ts).max().unwrap_or(ts);
            let range = group.map_or_else(KeyRange::all, |g| KeyRange::group(&g.group()));
            list.clear();
            list.push(Predicate { range, sight: Sight::Writes, ts: newest });
        }
    }

    /// Whether turning `before` into `after` at timestamp `ts` contradicts what somebody saw.
    pub(crate) fn contradicts(
        &self,
        key: &Key,
        ts: Ts,
        before: Option<Stat>,
        after: Option<Stat>,
    ) -> bool {
        if self.is_empty() {
            return false;
        }
        let least = if before.is_some() != after.is_some() {
            Sight::Membership
        } else if before != after {
            Sight::Stats
        } else {
            Sight::Writes
        };
        let sees = |p: &Predicate| p.ts > ts && p.sight >= least && p.range.contains(key);
        let group = self.by_group.get(&key.group_key());
        group.is_some_and(|list| list.iter().any(sees)) || self.across_groups.iter().any(sees)
    }

    /// Forgets what only writers older than `before` could contradict: there are none any more.
    pub(crate) fn forget_before(&mut self, before: Ts) {
        for list in self.by_group.values_mut() {
            list.retain(|p| p.ts > before);
        }
        self.across_groups.retain(|p| p.ts > before);
    }

    fn is_empty(&self) -> bool {
        self.by_group.is_empty() && self.across_groups.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_earlier_writers_that_change_what_was_seen_contradict() {
        let mut predicates = Predicates::default();
        let key = Key::new(b"g", b"m");
        let stat = |attr| Some(Stat { len: 1, attr });
        predicates.record(&KeyRange::group(b"g"), Sight::Membership, 5);
        assert!(predicates.contradicts(&key, 4, None, stat(0)));
        assert!(!predicates.contradicts(&key, 6, None, stat(0)));
        assert!(!predicates.contradicts(&key, 4, stat(1), stat(0)));
        assert!(!predicates.contradicts(&Key::new(b"h", b"m"), 4, None, stat(0)));
        predicates.record(&KeyRange::all(), Sight::Stats, 9);
        assert!(predicates.contradicts(&key, 8, stat(1), stat(0)));
        assert!(!predicates.contradicts(&key, 8, stat(1), stat(1)));
    }

    #[test]
    fn many_ranges_of_a_group_become_one() {
        let mut predicates = Predicates::default();
        for m in 0..=RANGES_PER_GROUP_MAX as u8 {
            predicates.record(&KeyRange::key(&Key::new(b"g", &[m])), Sight::Stats, 3);
        }
        let elsewhere = Key::new(b"g", b"zzz");
        assert!(predicates.contradicts(&elsewhere, 2, None, Some(Stat { len: 0, attr: 0 })));
    }
}
