//! Pieces change hands: those of who has gone, and late ones. One log, and what every client makes
//! of it.

use std::collections::BTreeSet;

use fogbank_env::Nanos;

use super::*;
use crate::hierarchy::building::Outcome;
use crate::hierarchy::builds::{Builds, Due};

/// T, and the epoch whose superblock is the newest: builds of all levels are midway.
const EPOCH: u32 = 32;
const NUMBER: u64 = 191;
const PUBLIC: Nanos = 1_000_000_000;

/// Clients that have followed one log, all of whose places session 0 has logged so far.
struct Site {
    follower: Follower,
    builds: Vec<Builds>,
    turns: Vec<u64>,
    now: Nanos,
}

impl Site {
    /// Clients 0 to `clients`, and so many places of the newest epoch.
    fn new(clients: u32, places: u64) -> Self {
        let schedule = Schedule::new(2_048, EPOCH, 2, 4, false).unwrap().in_pieces(128).unwrap();
        let follower = Follower::new(schedule, keys(), HEADER, 2, Arc::default());
        let turns = vec![0; clients as usize + 1];
        let mut site = Self { follower, builds: Vec::new(), turns, now: 0 };
        for _ in 0..schedule.first_of(NUMBER) + places {
            site.log(0, false);
        }
        let builds = |session| Builds::new(&site.follower, PUBLIC, (session, NUMBER), site.now);
        site.builds = (0..=clients).map(builds).collect();
        site
    }

    fn log(&mut self, session: u32, leaves: bool) {
        let turn = &mut self.turns[session as usize];
        *turn += 1;
        let (turn, follower) = (*turn, &mut self.follower);
        let (seen, seen_digest) = (follower.length(), follower.digest());
        let entry = Entry { session, turn, seen, seen_digest, query: None, leaves };
        follower.entry(&entry, &stored(&entry)).unwrap();
        self.builds.iter_mut().for_each(|builds| builds.has_logged(&self.follower, self.now));
    }

    fn due(&mut self, client: u32) -> Vec<Due> {
        self.builds[client as usize].due(&self.follower, self.now)
    }
}

/// By table, the clients that were given a piece of it which had begun before, while the others log
/// `places` in turn.
fn given(site: &mut Site, places: u64) -> BTreeMap<Table, BTreeSet<u32>> {
    let (clients, mut given) = (site.builds.len() as u32 - 1, BTreeMap::new());
    let before = site.follower.length();
    for place in 0..places {
        site.log(1 + place as u32 % clients, false);
        for client in 1..=clients {
            for due in site.due(client) {
                if due.pieces.places()[due.number as usize].start < before {
                    let of: &mut BTreeSet<u32> = given.entry(due.pieces.table).or_default();
                    of.insert(client);
                }
            }
        }
    }
    given
}

/// What session 0 leaves is taken up: each table by one client, and no two tables by the same.
fn is_spread(given: &BTreeMap<Table, BTreeSet<u32>>) {
    assert!(given.len() >= 4, "{given:?}");
    let clients: BTreeSet<u32> = given.values().flatten().copied().collect();
    assert!(given.values().all(|of| of.len() == 1), "{given:?}");
    assert_eq!(clients.len(), given.len(), "{given:?}");
}

#[test]
fn pieces_of_who_leaves_are_given_to_others_at_once() {
    let mut site = Site::new(9, 4);
    assert!(given(&mut site, 4).is_empty());
    site.log(0, true);
    is_spread(&given(&mut site, 8));
}

#[test]
fn pieces_of_who_is_silent_are_given_to_others_after_an_epoch() {
    let (epoch, mut site) = (u64::from(EPOCH), Site::new(9, 4));
    assert!(given(&mut site, epoch * 3 / 4 - 1).is_empty());
    assert!(!site.builds[0].is_to_speak(&site.follower));
    assert!(given(&mut site, 1).is_empty());
    assert!(site.builds[0].is_to_speak(&site.follower));
    is_spread(&given(&mut site, epoch / 4 + 8));
    // Had it said something, they would still be its own.
    let mut site = Site::new(9, 4);
    assert!(given(&mut site, epoch * 7 / 8).is_empty());
    site.log(0, false);
    assert!(given(&mut site, epoch * 7 / 8).is_empty());
}

/// The log stands still and pieces are late, more of them than there are clients. Whoever comes
/// first for one does it, however many there were before: nobody else begins with it meanwhile.
#[test]
fn a_late_piece_is_done_by_one_client() {
    const CLIENTS: u32 = 3;
    let mut site = Site::new(CLIENTS, 0);
    // Up to where queries need what was begun; the owner of all goes without a word.
    let ends = site.follower.schedule.first_of(NUMBER + 1);
    while site.follower.length() < ends {
        site.log(0, false);
    }
    for client in 1..=CLIENTS {
        site.log(client, false);
    }
    // By client: what it does, and when it is done with that.
    let mut doing: Vec<Vec<(Nanos, Table, u32)>> = vec![Vec::new(); CLIENTS as usize + 1];
    let (mut done, mut begun, mut twice) = (BTreeSet::new(), BTreeSet::new(), 0);
    for _ in 0..3_000 {
        site.now += PUBLIC / 100;
        for client in 1..=CLIENTS {
            let mine = std::mem::take(&mut doing[client as usize]);
            for (until, table, number) in mine {
                if until > site.now {
                    doing[client as usize].push((until, table, number));
                    continue;
                }
                done.insert((table, number));
                let builds = &mut site.builds[client as usize];
                builds.has_ended(table, number, Outcome::Done, site.now);
            }
            for due in site.due(client) {
                let piece = (due.pieces.table, due.number);
                assert!(due.may_be_there, "{piece:?}");
                // Those of a table go one after the other at a client.
                let takes = if done.contains(&piece) { 0 } else { PUBLIC / 20 };
                twice += u32::from(takes > 0 && !begun.insert(piece));
                doing[client as usize].push((site.now + takes, piece.0, piece.1));
            }
        }
    }
    assert!(done.len() as u32 > 10 * CLIENTS, "{done:?}");
    assert_eq!(twice, 0, "of {done:?}");
}
