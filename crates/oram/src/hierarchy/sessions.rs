//! Who has logged what lately: by it all clients agree on who does what for all.

use std::collections::{BTreeMap, VecDeque};

use super::entry::Entry;

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
    /// Who logged the last places, up to `length`.
    recent: VecDeque<u32>,
    length: u64,
}

/// Places of which it is known who logged them: eight epochs of the usual length.
const RECENT: usize = 2_048;

impl Sessions {
    /// The next place is logged. The last entry of its session before it.
    pub fn logged(&mut self, place: u64, entry: &Entry) -> Option<Last> {
        let Entry { session, turn, leaves, .. } = *entry;
        self.length = place + 1;
        self.recent.push_back(session);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.last.insert(session, Last { turn, place, leaves })
    }

    /// Who logged a place, if that is known.
    pub fn at(&self, place: u64) -> Option<u32> {
        let back = self.length.checked_sub(place + 1)?;
        self.recent.iter().nth_back(usize::try_from(back).ok()?).copied()
    }

    /// The last entry of a session.
    pub fn last_of(&self, session: u32) -> Option<&Last> {
        self.last.get(&session)
    }

    /// Those that have logged something in the last `places` and not left, the last one first.
    pub fn living(&self, places: u64) -> Vec<u32> {
        let lives = |last: &Last| !last.leaves && last.place + places >= self.length;
        let living = self.last.iter().filter(|(_, last)| lives(last));
        let mut living: Vec<(u64, u32)> =
            living.map(|(session, last)| (last.place, *session)).collect();
        living.sort_unstable();
        living.into_iter().rev().map(|(_, session)| session).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(session: u32, turn: u64, leaves: bool) -> Entry {
        Entry { session, turn, seen: 0, seen_digest: [0; 32], query: None, leaves }
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
