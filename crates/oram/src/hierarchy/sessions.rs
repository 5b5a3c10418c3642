//! Who has logged what lately: by it all clients agree on who does what for all.

use std::collections::{BTreeMap, VecDeque};

use super::entry::{Entry, Says};

/// A session's last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// Its turn.
    pub turn: u64,
    /// Its place.
    pub place: u64,
    /// Whether it says that the session ends.
    pub leaves: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Sessions {
    last: BTreeMap<u32, Last>,
    /// Of those that build: the places that each has logged lately, and whether it left then.
    builders: BTreeMap<u32, VecDeque<(u64, bool)>>,
    /// Who logged the last places, up to `length`.
    recent: VecDeque<u32>,
    length: u64,
}

/// Places of which it is known who logged them: eight epochs of the usual length.
const RECENT: usize = 2_048;

impl Sessions {
    /// The next place is logged. The last entry of its session before it.
    pub fn logged(&mut self, place: u64, entry: &Entry) -> Option<Last> {
        let Entry { session, turn, says, builds, .. } = *entry;
        let leaves = says == Says::Leaves;
        self.length = place + 1;
        self.recent.push_back(session);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if builds {
            let of = self.builders.entry(session).or_default();
            of.push_back((place, leaves));
            // One that is older, too: it may be the last one before a place that is not.
            while of.get(1).is_some_and(|(next, _)| next + (RECENT as u64) < self.length) {
                of.pop_front();
            }
        }
        self.last.insert(session, Last { turn, place, leaves })
    }

    /// Who logged a place, if that is known.
    pub fn at(&self, place: u64) -> Option<u32> {
        let back = self.length.checked_sub(place + 1)?;
        self.recent.iter().nth_back(usize::try_from(back).ok()?).copied()
    }

    /// Whether a session is one that builds.
    pub fn is_builder(&self, session: u32) -> bool {
        self.builders.contains_key(&session)
    }

    /// Those that build and were there when a place was logged: they had logged something in the
    /// `places` up to it, and not left. By number.
    pub fn builders_at(&self, place: u64, places: u64) -> Vec<u32> {
        let is_there = |logged: &VecDeque<(u64, bool)>| {
            let last = logged.iter().rfind(|(of, _)| *of <= place);
            last.is_some_and(|(of, leaves)| !leaves && of + places >= place)
        };
        let there = self.builders.iter().filter(|(_, logged)| is_there(logged));
        there.map(|(session, _)| *session).collect()
    }

    /// The last entry of a session.
    pub fn last_of(&self, session: u32) -> Option<&Last> {
        self.last.get(&session)
    }

    /// Those that have logged something in the last `places` and not left. By number, so that their
    /// order stands while the log goes on.
    pub fn living(&self, places: u64) -> Vec<u32> {
        let lives = |last: &Last| !last.leaves && last.place + places >= self.length;
        let living = self.last.iter().filter(|(_, last)| lives(last));
        living.map(|(session, _)| *session).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(session: u32, turn: u64, leaves: bool) -> Entry {
        let builds = session > 100;
        let says = if leaves { Says::Leaves } else { Says::Nothing };
        Entry { session, turn, seen: 0, seen_digest: [0; 32], query: None, says, builds }
    }

    #[test]
    fn who_builds_is_there_from_its_first_entry_to_its_last_or_its_silence() {
        let mut sessions = Sessions::default();
        for (place, (session, leaves)) in (10..).zip([
            (1, false),
            (101, false),
            (102, false),
            (1, false),
            (102, true),
            (1, false),
        ]) {
            sessions.logged(place, &entry(session, place, leaves));
        }
        let there = (10..16).map(|place| sessions.builders_at(place, 3)).collect::<Vec<_>>();
        assert_eq!(there, [vec![], vec![101], vec![101, 102], vec![101, 102], vec![101], vec![]]);
        assert!(sessions.is_builder(101) && !sessions.is_builder(1));
        // What is long ago goes, and who is there is known as far back as who logged what.
        for place in 16..10_000 {
            sessions.logged(place, &entry(if place % 900 == 0 { 101 } else { 1 }, place, false));
        }
        assert!(sessions.builders[&101].len() < 5, "{:?}", sessions.builders);
        assert_eq!(sessions.builders_at(10_000 - RECENT as u64, 900), [101]);
    }

    #[test]
    fn who_has_left_or_is_silent_does_not_live() {
        let mut sessions = Sessions::default();
        for (place, (session, leaves)) in
            (10..).zip([(1, false), (2, false), (3, false), (2, true), (1, false)])
        {
            sessions.logged(place, &entry(session, place, leaves));
        }
        assert_eq!(sessions.living(5), [1, 3]);
        assert_eq!(sessions.living(2), [1]);
        assert_eq!(sessions.at(12), Some(3));
        assert_eq!([sessions.at(9), sessions.at(15)], [None; 2]);
        assert_eq!(sessions.last_of(2), Some(&Last { turn: 13, place: 13, leaves: true }));
    }
}
