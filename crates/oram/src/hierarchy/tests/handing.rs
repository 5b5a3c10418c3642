//! Pieces change hands: those of who has gone, and late ones; and who builds takes those that
//! begin. One log, and what every client makes of it.

use std::collections::BTreeSet;

use fogbank_env::Nanos;

use super::*;
use crate::hierarchy::building::Outcome;
use crate::hierarchy::builds::{Builds, Due};

/// T, and the epoch whose superblock is the newest: builds of all levels are midway.
const EPOCH: u32 = 32;
const NUMBER: u64 = 191;
const PUBLIC: Nanos = 1_000_000_000;
/// Sessions from here on say that they build.
const BUILDERS: u32 = 8;

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
        let builds = session >= BUILDERS;
        let says = if leaves { Says::Leaves } else { Says::Nothing };
        let entry = Entry { session, turn, seen, seen_digest, query: None, says, builds };
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
    let mut site = Site::new(7, 4);
    assert!(given(&mut site, 4).is_empty());
    site.log(0, true);
    is_spread(&given(&mut site, 8));
}

#[test]
fn pieces_of_who_is_silent_are_given_to_others_after_an_epoch() {
    let (epoch, mut site) = (u64::from(EPOCH), Site::new(7, 4));
    assert!(given(&mut site, epoch * 3 / 4 - 1).is_empty());
    assert!(!site.builds[0].is_to_speak(&site.follower));
    assert!(given(&mut site, 1).is_empty());
    assert!(site.builds[0].is_to_speak(&site.follower));
    is_spread(&given(&mut site, epoch / 4 + 8));
    // Had it said something, they would still be its own.
    let mut site = Site::new(7, 4);
    assert!(given(&mut site, epoch * 7 / 8).is_empty());
    site.log(0, false);
    assert!(given(&mut site, epoch * 7 / 8).is_empty());
}

/// So many clients, when queries need what was begun: the owner of all has gone without a word.
fn late(clients: u32) -> Site {
    let mut site = Site::new(clients, 0);
    let ends = site.follower.schedule.first_of(NUMBER + 1);
    while site.follower.length() < ends {
        site.log(0, false);
    }
    (1..=clients).for_each(|client| site.log(client, false));
    site
}

/// The log stands still and pieces are late, more of them than there are clients. Whoever comes
/// first for one does it, however many there were before: nobody else begins with it meanwhile.
#[test]
fn a_late_piece_is_done_by_one_client() {
    const CLIENTS: u32 = 3;
    let mut site = late(CLIENTS);
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

/// The log goes on meanwhile, each client in its turn: it is the same one that comes first.
#[test]
fn a_late_piece_is_done_by_one_client_while_the_log_goes_on() {
    const CLIENTS: u32 = 7;
    let mut site = late(CLIENTS);
    site.now += PUBLIC;
    let mut takers: BTreeMap<(Table, u32), BTreeSet<u32>> = BTreeMap::new();
    for place in 0..2 * CLIENTS {
        site.log(1 + place % CLIENTS, false);
        for client in 1..=CLIENTS {
            for due in site.due(client) {
                takers.entry((due.pieces.table, due.number)).or_default().insert(client);
            }
        }
    }
    assert!(!takers.is_empty() && takers.values().all(|of| of.len() == 1), "{takers:?}");
}

/// Whose the pieces are that begin while sessions 1 to 3 log `places` in turn. Nobody does any.
fn begun(site: &mut Site, places: u64) -> BTreeMap<u32, usize> {
    let (before, mut begun) = (site.follower.length(), BTreeMap::new());
    for place in 0..places {
        site.log(1 + place as u32 % 3, false);
    }
    let after = site.follower.length();
    for client in 0..site.builds.len() as u32 {
        loop {
            let due = site.due(client);
            if due.is_empty() {
                break;
            }
            for Due { pieces, number, .. } in due {
                let starts = pieces.places()[number as usize].start;
                let is_new = (before..after).contains(&starts);
                *begun.entry(client).or_default() += usize::from(is_new);
                let builds = &mut site.builds[client as usize];
                builds.has_ended(pieces.table, number, Outcome::Done, site.now);
            }
        }
    }
    begun.retain(|_, count| *count > 0);
    begun
}

fn of(begun: &BTreeMap<u32, usize>) -> Vec<u32> {
    begun.keys().copied().collect()
}

#[test]
fn pieces_that_begin_belong_to_those_that_build() {
    let epoch = u64::from(EPOCH);
    let most = epoch * 3 / 4;
    let announced = |sessions: &[u32]| {
        let mut site = Site::new(9, 4);
        sessions.iter().for_each(|session| site.log(*session, false));
        site
    };
    // Without them they are of whoever logs the place.
    let alone = begun(&mut announced(&[]), most);
    assert_eq!(of(&alone), [1, 2, 3], "{alone:?}");
    let all: usize = alone.values().sum();
    let one = begun(&mut announced(&[9]), most);
    assert_eq!(of(&one), [9]);
    // The log is one place ahead then, so another piece may have begun.
    assert!(one[&9].abs_diff(all) <= 1, "{one:?} of {all}");
    // Several take them in turn.
    let two = begun(&mut announced(&[8, 9]), most);
    assert_eq!(of(&two), [8, 9], "{two:?}");
    assert!(two.values().all(|count| 4 * count >= all), "{two:?} of {all}");
    // Of one that leaves, and of one that is silent for an epoch, none.
    let mut left = announced(&[9, 8]);
    left.log(9, true);
    assert_eq!(of(&begun(&mut left, most)), [8]);
    let mut silent = announced(&[9]);
    let next = silent.follower.schedule.first_of(NUMBER + 2); // builds start then
    (silent.follower.length()..next).for_each(|place| silent.log(1 + place as u32 % 3, false));
    for builds in &mut silent.builds {
        builds.is_superblock(&silent.follower, NUMBER + 1, silent.now);
        builds.is_superblock(&silent.follower, NUMBER + 2, silent.now);
    }
    let of_silent = of(&begun(&mut silent, most));
    assert!(!of_silent.is_empty() && of_silent.iter().all(|of| *of < 4), "{of_silent:?}");
    // It shows that it lives before, though it may have nothing to do.
    let mut lives = announced(&[9]);
    (1..epoch * 3 / 4).for_each(|_| lives.log(1, false));
    assert!(!lives.builds[9].is_to_speak(&lives.follower));
    lives.log(1, false);
    assert!(lives.builds[9].is_to_speak(&lives.follower));
    assert!(!lives.builds[8].is_to_speak(&lives.follower));
}

#[test]
fn who_has_a_piece_keeps_it_when_one_comes_that_builds() {
    let others = |site: &mut Site, places| {
        let (before, mut given) = (site.follower.length(), BTreeSet::new());
        for place in 0..places {
            site.log(1 + place as u32 % 3, false);
            for client in 1..site.builds.len() as u32 {
                let due = site.due(client).into_iter();
                let began =
                    due.filter(|due| due.pieces.places()[due.number as usize].start < before);
                given.extend(began.map(|_| client));
            }
        }
        given.into_iter().collect::<Vec<_>>()
    };
    let mut site = Site::new(9, 4);
    site.log(9, false);
    assert_eq!(others(&mut site, u64::from(EPOCH) / 2), [0; 0]);
    // What the owner leaves falls to the one that builds, of all levels.
    let mut site = Site::new(9, 4);
    site.log(9, false);
    site.log(0, true);
    assert_eq!(others(&mut site, 8), [9]);
}
