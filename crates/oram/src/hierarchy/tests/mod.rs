//! Clients beside a server in memory, which see each other through the log alone. Every call of a
//! client takes effect when the test says so, so a slow network, a stalled client and a zombie are
//! orders of steps like any other.

#[cfg(feature = "canaries")]
mod canaries;
mod costs;
mod filters;
mod handing;
mod orders;
mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fogbank_seal::{Digest, MasterKey, SiteKeys, StoreId, digest};

use super::dealing::{Dealer, Filler};
use super::pieces::{Piece, Pieces};
use super::table::Recipe;
use super::*;
use crate::Access;

pub type Query = Option<(u32, Access)>;

/// What can happen next; public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The client seals its next query.
    Ask(usize),
    /// Its first entry that is on its way is appended, and it hears of the log up to it.
    Append(usize),
    /// The touch of a place takes effect.
    Touch(usize, u64),
    /// The put of a result takes effect.
    Publish(usize, u64),
    /// It hears all that is new.
    Sync(usize),
    /// It takes a place over.
    TakeOver(usize, u64),
    /// It stops for ever.
    Crash(usize),
    /// Somebody does a piece of a build, by its number.
    Build(Table, u32),
    /// Somebody puts the next superblock.
    Close,
}

/// What the server sees of a step: of a slot touched, its table and whether the place touched it
/// before.
pub type Event = (Step, u64, Vec<(Table, bool)>);

#[derive(Clone)]
pub struct Server {
    pub log: Vec<(Entry, Digest)>,
    pub results: BTreeMap<u64, Found>,
    pub tables: BTreeMap<Table, Arc<Vec<Body>>>,
    /// What pieces of builds that go on have written, by range.
    pub pieces: BTreeMap<(Table, u32), Arc<Vec<Vec<Body>>>>,
    pub superblock: u64,
    /// By slot: whose place touched it.
    pub touched: BTreeMap<(Table, u32), u64>,
}

#[derive(Clone)]
pub struct World {
    pub schedule: Schedule,
    pub server: Server,
    pub clients: Vec<Client>,
    pub is_dead: Vec<bool>,
    pub pending: Vec<Vec<Effect>>,
    pub programs: Vec<Vec<Query>>,
    /// By client: queries asked, and those answered.
    pub asked: Vec<usize>,
    pub answered: Vec<usize>,
    /// By client: the length of the log in its register.
    pub registered: Vec<u64>,
    pub takeovers: u32,
    pub crashes: u32,
    /// Cells touched, and cells read and written by builds.
    pub moved: [u64; 3],
}

pub fn keys() -> Arc<SiteKeys> {
    Arc::new(SiteKeys::derive(&MasterKey::from_bytes(&mut [7; 32]), StoreId([1; 16])))
}

pub const HEADER: Digest = [5; 32];

pub fn image_value(address: u32) -> Bytes {
    Bytes::from(vec![1, address as u8])
}

pub fn write(address: u32, value: u8) -> Query {
    Some((address, Access::Write { offset: 1, bytes: vec![value].into() }))
}

pub fn read(address: u32) -> Query {
    Some((address, Access::Read))
}

/// The digest of an entry as if it was stored in the clear.
fn stored(entry: &Entry) -> Digest {
    digest(&[format!("{entry:?}").as_bytes()])
}

impl World {
    pub fn new(schedule: Schedule, programs: Vec<Vec<Query>>, canary: Canary) -> Self {
        let canary = Arc::new(canary);
        let clients: Vec<Client> = (0..programs.len() as u32)
            .map(|session| Client::new(session, schedule, keys(), HEADER, 2, canary.clone()))
            .collect();
        let mut tables = BTreeMap::new();
        if let Some(image) = clients[0].follower().known(schedule.image()) {
            let values = (0..schedule.blocks).map(|a| (a, image_value(a))).collect();
            let recipe = Recipe { index: image.clone(), logged: values, sources: Vec::new() };
            let filler = Filler::new(&recipe, 0..image.slots()).unwrap();
            tables.insert(schedule.image(), Arc::new(filler.bodies().unwrap()));
        }
        let count = programs.len();
        Self {
            schedule,
            server: Server {
                log: Vec::new(),
                results: BTreeMap::new(),
                tables,
                pieces: BTreeMap::new(),
                superblock: 1,
                touched: BTreeMap::new(),
            },
            clients,
            is_dead: vec![false; count],
            pending: vec![Vec::new(); count],
            programs,
            asked: vec![0; count],
            answered: vec![0; count],
            registered: vec![0; count],
            takeovers: 0,
            crashes: 0,
            moved: [0; 3],
        }
    }

    /// All that can happen.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for c in (0..self.clients.len()).filter(|c| !self.is_dead[*c]) {
            if self.asked[c] == self.answered[c] && self.asked[c] < self.programs[c].len() {
                steps.push(Step::Ask(c));
            }
            for effect in &self.pending[c] {
                match effect {
                    Effect::Append(_) => steps.push(Step::Append(c)),
                    Effect::Touch(place, _) => steps.push(Step::Touch(c, *place)),
                    Effect::Publish(found) => steps.push(Step::Publish(c, found.place)),
                    other => panic!("{other:?} does not wait"),
                }
            }
            let follower = self.clients[c].follower();
            let knows_all = follower.length() == self.server.log.len() as u64
                && self.clients[c].newest_superblock() == self.server.superblock
                && self.server.results.keys().all(|place| follower.has_result(*place));
            if !knows_all {
                steps.push(Step::Sync(c));
            }
            let is_busy = self.crashes > 0 && self.asked[c] > self.answered[c];
            if is_busy {
                steps.push(Step::Crash(c));
            }
            for place in self.missing().filter(|place| *place < follower.length()) {
                let owner = self.server.log[place as usize].0.session as usize;
                let may = self.takeovers > 0 || self.is_dead[owner];
                let known = self.schedule.epoch_of(place) <= self.clients[c].newest_superblock();
                let busy = self.pending[c].iter().any(|effect| {
                    matches!(effect, Effect::Touch(p, _) if *p == place)
                        || matches!(effect, Effect::Publish(found) if found.place == place)
                });
                if owner != c && may && known && !busy && !follower.has_result(place) {
                    steps.push(Step::TakeOver(c, place));
                }
            }
        }
        steps.extend(self.buildable().into_iter().map(|(table, piece)| Step::Build(table, piece)));
        if self.may_close() {
            steps.push(Step::Close);
        }
        steps
    }

    fn missing(&self) -> impl Iterator<Item = u64> {
        (0..self.server.log.len() as u64).filter(|place| !self.server.results.contains_key(place))
    }

    fn alive(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().zip(&self.is_dead).filter(|(_, dead)| !**dead).map(|(c, _)| c)
    }

    /// Pieces of tables of the next superblocks that some client can do.
    fn buildable(&self) -> Vec<(Table, u32)> {
        let next = self.server.superblock + 1;
        let mut tables = Vec::new();
        for epoch in next.saturating_sub(2)..next + 1 {
            for table in self.schedule.starting(epoch) {
                let sources = self.schedule.sources(table);
                let can = |client: &Client| {
                    let follower = client.follower();
                    follower.known(table).is_some()
                        && (table.level > 0
                            || follower
                                .replay
                                .of_epoch(&self.schedule, table.index as u64)
                                .is_some())
                };
                if self.schedule.installed(table) >= next
                    && !self.server.tables.contains_key(&table)
                    && sources.iter().all(|source| self.server.tables.contains_key(source))
                    && self.alive().any(can)
                {
                    tables.extend(self.piece_of(table).map(|piece| (table, piece)));
                }
            }
        }
        // Large tables start early and are due late.
        tables
    }

    /// The next piece of a table. What comes of one does not depend on what others have done, but
    /// that those are there which it reads; so they are done in their order.
    fn piece_of(&self, table: Table) -> Option<u32> {
        let is_missing = |piece: &u32| !self.server.pieces.contains_key(&(table, *piece));
        (0..Pieces::new(&self.schedule, table).count()).find(is_missing)
    }

    fn may_close(&self) -> bool {
        let next = self.server.superblock + 1;
        let installed = self.schedule.tables(next);
        let mut installed = installed.iter().filter(|t| self.schedule.installed(**t) == next);
        self.server.log.len() as u64 >= self.schedule.first_of(next - 1)
            && installed.all(|table| self.server.tables.contains_key(table))
            && self.alive().any(|client| client.may_close(next))
    }

    /// Lets a step take effect, and checks what a plain map and the rules say of it.
    pub fn step(&mut self, step: Step) -> Event {
        let mut event = (step, 0, Vec::new());
        match step {
            Step::Ask(c) => {
                let query = self.programs[c][self.asked[c]].clone();
                self.asked[c] += 1;
                let effects = self.clients[c].ask(query).unwrap();
                self.take(c, effects);
            }
            Step::Append(c) => {
                let Effect::Append(entry) =
                    self.remove(c, |effect| matches!(effect, Effect::Append(_)))
                else {
                    panic!("no entry")
                };
                event.1 = self.server.log.len() as u64;
                let digest = stored(&entry);
                self.server.log.push((entry, digest));
                self.tell_entries(c);
            }
            Step::Touch(c, place) => event.2 = self.touch(c, place),
            Step::Publish(c, place) => {
                let same =
                    |effect: &Effect| matches!(effect, Effect::Publish(f) if f.place == place);
                let Effect::Publish(found) = self.remove(c, same) else { panic!("no result") };
                let there = self.server.results.entry(place).or_insert_with(|| found.clone());
                assert_eq!(*there, found, "two results of one place");
                self.clients[c].published(place);
            }
            Step::Sync(c) => self.sync(c),
            Step::TakeOver(c, place) => {
                let owner = self.server.log[place as usize].0.session as usize;
                self.takeovers -= u32::from(!self.is_dead[owner]);
                let effects = self.clients[c].take_over(place).unwrap();
                self.take(c, effects);
            }
            Step::Crash(c) => {
                self.crashes -= 1;
                self.is_dead[c] = true;
                self.pending[c].clear();
            }
            Step::Build(table, piece) => event.1 = self.build(table, piece),
            Step::Close => {
                self.server.superblock += 1;
                let (schedule, newest) = (self.schedule, self.server.superblock);
                self.server.tables.retain(|table, _| schedule.superseded(*table) + 1 > newest);
            }
        }
        event
    }

    fn remove(&mut self, c: usize, which: impl Fn(&Effect) -> bool) -> Effect {
        let at = self.pending[c].iter().position(which).unwrap();
        self.pending[c].remove(at)
    }

    fn touch(&mut self, c: usize, place: u64) -> Vec<(Table, bool)> {
        let same = |effect: &Effect| matches!(effect, Effect::Touch(p, _) if *p == place);
        let Effect::Touch(_, slots) = self.remove(c, same) else { panic!("no touch") };
        if slots.iter().any(|(table, _)| !self.server.tables.contains_key(table)) {
            let found = self.server.results.get(&place).cloned();
            let found = found.expect("a table is gone before the result of a query is there");
            let effects = self.clients[c].result(&found).unwrap();
            self.take(c, effects);
            return Vec::new();
        }
        let mut seen = Vec::new();
        for slot in &slots {
            let earlier = self.server.touched.insert(*slot, place);
            assert!(earlier.is_none_or(|p| p == place), "{slot:?} of {earlier:?} and {place}");
            seen.push((slot.0, earlier.is_some()));
        }
        self.moved[0] += slots.len() as u64;
        let body = |(table, slot): &(Table, u32)| self.server.tables[table][*slot as usize].clone();
        let cells: Vec<Body> = slots.iter().map(body).collect();
        let effects = self.clients[c].cells(place, &cells).unwrap();
        self.take(c, effects);
        seen
    }

    fn tell_entries(&mut self, c: usize) {
        let from = self.clients[c].follower().length();
        let entries = self.server.log[from as usize..].to_vec();
        let effects = self.clients[c].entries(from, &entries).unwrap();
        self.take(c, effects);
    }

    fn sync(&mut self, c: usize) {
        self.tell_entries(c);
        let effects = self.clients[c].superblock(self.server.superblock).unwrap();
        self.take(c, effects);
        let from = self.clients[c].follower().replay.length();
        for found in self.server.results.range(from..).map(|(_, f)| f.clone()).collect::<Vec<_>>() {
            let effects = self.clients[c].result(&found).unwrap();
            self.take(c, effects);
        }
    }

    /// Effects that wait for nothing take place; the others are pending.
    fn take(&mut self, c: usize, effects: Vec<Effect>) {
        let mut registered = 0;
        for effect in effects {
            match effect {
                Effect::Register(length, _) => {
                    registered = length;
                    self.registered[c] = self.registered[c].max(length);
                }
                Effect::Answer(turn, value) => {
                    let (place, void) = self.place_of(c, turn);
                    assert!(!void, "a void query is answered");
                    assert!(self.registered[c] > place, "an answer before the register");
                    assert_eq!(value, self.expected(place), "place {place}");
                    self.answered[c] += 1;
                }
                Effect::Void(turn) => {
                    assert!(self.place_of(c, turn).1, "a query that counts is void");
                    self.answered[c] += 1;
                }
                Effect::Touch(place, slots) => {
                    assert!(registered > place, "a touch before the register");
                    self.pending[c].push(Effect::Touch(place, slots));
                }
                other => self.pending[c].push(other),
            }
        }
    }

    fn place_of(&self, c: usize, turn: u64) -> (u64, bool) {
        let mine = |(entry, _): &(Entry, Digest)| entry.session as usize == c && entry.turn == turn;
        let place = self.server.log.iter().position(mine).unwrap() as u64;
        (place, self.is_void(place))
    }

    fn is_void(&self, place: u64) -> bool {
        let epoch = u64::from(self.schedule.epoch);
        let seen = self.server.log[place as usize].0.seen;
        seen < (place / epoch).saturating_sub(2) * epoch
    }

    /// What a plain map says of the block that a place is about, before it.
    fn expected(&self, place: u64) -> Option<Bytes> {
        let (address, _) = self.server.log[place as usize].0.query.as_ref()?;
        Some(self.value(*address, place))
    }

    /// What a plain map holds after the first `upto` places.
    fn value(&self, address: u32, upto: u64) -> Bytes {
        let zeros = Bytes::from(vec![0; 2]);
        let start = if self.schedule.has_image { image_value(address) } else { zeros };
        (0..upto).filter(|place| !self.is_void(*place)).fold(start, |value, place| {
            match &self.server.log[place as usize].0.query {
                Some((a, access)) if *a == address => access.applied_to(&value),
                _ => value,
            }
        })
    }

    /// A piece of a build, done by every client that can: all write the same. Cells written.
    fn build(&mut self, table: Table, number: u32) -> u64 {
        let pieces = Pieces::new(&self.schedule, table);
        let piece = pieces.all().nth(number as usize).unwrap();
        let made = |client: &Client| {
            let recipe = client.follower().recipe(table)?;
            Some(self.made(&recipe, &pieces, &piece, &client.follower().canary))
        };
        let mut all = self.alive().filter_map(made);
        let bodies = all.next().expect("somebody can build it");
        assert!(all.all(|same| same == bodies), "two contents of one piece");
        drop(all);
        self.moved[1] += pieces.moves(&piece)[0];
        let written = bodies.iter().map(|of_range| of_range.len() as u64).sum();
        self.moved[2] += written;
        let is_last = number + 1 == pieces.count();
        self.server.pieces.insert((table, number), Arc::new(bodies));
        if is_last {
            let of_table = |at: u32| self.server.pieces[&(table, at)].concat();
            let fills = pieces.dealt()..pieces.dealt() + pieces.ranges();
            let bodies: Vec<Body> = fills.flat_map(of_table).collect();
            self.server.pieces.retain(|(of, _), _| *of != table);
            self.hold(table, &bodies);
            self.server.tables.insert(table, Arc::new(bodies));
        }
        written
    }

    fn made(
        &self,
        recipe: &Recipe,
        pieces: &Pieces,
        piece: &Piece,
        canary: &Canary,
    ) -> Vec<Vec<Body>> {
        let sources = self.schedule.sources(pieces.table);
        match piece {
            Piece::Deal(source, slots, _) => {
                let bodies = &self.server.tables[&sources[*source]];
                let bodies = bodies[slots.start as usize..slots.end as usize].to_vec();
                let mut dealer = Dealer::new(recipe, pieces, *source);
                dealer.take(slots.start, bodies).unwrap();
                let ranges = 0..pieces.ranges() as usize;
                ranges.map(|range| dealer.bucket(range, canary).unwrap()).collect()
            }
            Piece::Fill(slots) => {
                let mut filler = Filler::new(recipe, slots.clone()).unwrap();
                for number in 0..pieces.dealt() {
                    let dealt = &self.server.pieces[&(pieces.table, number)];
                    filler.take_dealt(dealt[pieces.range_of(slots.start)].clone()).unwrap();
                }
                let whole = sources.iter().enumerate().filter(|_| pieces.dealt() == 0);
                for (source, table) in whole {
                    let bodies = self.server.tables[table].to_vec();
                    filler.take_source(source, 0, bodies).unwrap();
                }
                vec![filler.bodies().unwrap()]
            }
            Piece::Finish => Vec::new(),
        }
    }

    /// Holds a table against a plain map.
    fn hold(&self, table: Table, bodies: &[Body]) {
        let width = u64::from(self.schedule.growth).pow(table.level.into());
        let end = self.schedule.first_of((table.index as u64 + 1) * width);
        if self.schedule.blocks < 100 {
            for (address, value) in bodies.iter().flatten() {
                assert_eq!(*value, self.value(*address, end), "{table:?} of {address}");
            }
        }
        assert_eq!(bodies.len() as u32, self.schedule.slots(table));
    }

    /// Lets what can happen happen in a fixed order, until all queries are answered.
    pub fn settle(&mut self) {
        while self.asked.iter().zip(&self.programs).any(|(a, p)| *a < p.len())
            || self.asked != self.answered
        {
            let steps = self.steps();
            self.step(*steps.last().expect("a living client waits for ever"));
        }
    }
}

/// One client, six epochs, builds at once.
#[test]
fn one_client_reads_what_it_wrote_through_every_level() {
    for (image, piece) in [(true, 64), (false, 64), (true, 3), (false, 5)] {
        let schedule = Schedule::new(8, 4, 2, 4, image).unwrap().in_pieces(piece).unwrap();
        let program = (0..200u32)
            .map(|n| match n % 5 {
                0 | 1 => write(n * 7 % 8, n as u8),
                2 => None,
                _ => read(n * 5 % 8),
            })
            .collect();
        let mut world = World::new(schedule, vec![program], Canary::default());
        world.settle();
        assert_eq!(world.answered, [200]);
        assert!(world.server.superblock >= 49, "{}", world.server.superblock);
    }
}
