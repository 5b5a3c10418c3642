//! The client beside both clouds in memory, which see what they would see, and may lie or die.

#[cfg(feature = "canaries")]
mod canaries;
mod costs;
mod data;
mod deaths;
mod game;
mod imagined;
mod kept;
mod lies;
mod lost;
mod recorded;
mod replay;
mod stale;
mod views;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::Randomness;
use fogbank_mix::message::{Across, Back, FromHolder, FromShuffler, ToHolder, ToShuffler};
use fogbank_mix::signed::{Signer, Signing};
use fogbank_mix::{
    Cells, Holder, HolderSends, KeptRoom, KeptShelf, Seed, Shape, Shuffler, ShufflerSends,
};
use fogbank_seal::{MasterKey, SplitKeys, StoreId, digest};
use fogbank_store::{MemoryStore, Store};
use futures_util::FutureExt;

use super::canary::Canary;
use super::chain::{Uncovering, Work};
use super::journal::{AccessEntry, Entry};
use super::plane::{Effect, MulticloudPlane};
use super::settings::MulticloudSettings;
use super::witness;
use crate::partition::Layout;
use crate::{Access, ImmediateShape, Result, Section};

/// A message on a link, and the partition that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    ToHolder(u16, ToHolder),
    ToShuffler(u16, ToShuffler),
    Across(u16, Across),
    Back(u16, Back),
    FromHolder(u16, FromHolder),
    FromShuffler(u16, FromShuffler),
    /// One that is withheld.
    Lost(u16),
}

impl Message {
    pub fn partition(&self) -> u16 {
        match self {
            Self::ToHolder(partition, _)
            | Self::ToShuffler(partition, _)
            | Self::Across(partition, _)
            | Self::Back(partition, _)
            | Self::FromHolder(partition, _)
            | Self::FromShuffler(partition, _)
            | Self::Lost(partition) => *partition,
        }
    }

    /// From whom to whom: a cloud, or the client (2).
    fn link(&self) -> (u8, u8) {
        let holder = (self.partition() % 2) as u8;
        match self {
            Self::ToHolder(..) => (2, holder),
            Self::ToShuffler(..) => (2, 1 - holder),
            Self::Across(..) => (holder, 1 - holder),
            Self::Back(..) => (1 - holder, holder),
            Self::FromHolder(..) => (holder, 2),
            Self::FromShuffler(..) => (1 - holder, 2),
            Self::Lost(_) => (2, 2),
        }
    }

    /// What comes out at the other end, and how many bytes it took.
    fn carried(&self, cell_bytes: usize) -> (Self, usize) {
        macro_rules! carry {
            ($variant:ident, $type:ident, $partition:expr, $message:expr) => {{
                let bytes = $message.encode();
                let message = $type::decode(&bytes, cell_bytes).unwrap();
                (Self::$variant($partition, message), bytes.len())
            }};
        }
        match self {
            Self::ToHolder(p, message) => carry!(ToHolder, ToHolder, *p, message),
            Self::ToShuffler(p, message) => carry!(ToShuffler, ToShuffler, *p, message),
            Self::Across(p, message) => carry!(Across, Across, *p, message),
            Self::Back(p, message) => carry!(Back, Back, *p, message),
            Self::FromHolder(p, message) => carry!(FromHolder, FromHolder, *p, message),
            Self::FromShuffler(p, message) => carry!(FromShuffler, FromShuffler, *p, message),
            Self::Lost(_) => (self.clone(), 0),
        }
    }
}

/// What befalls a message: it may be changed, or lost.
pub type Fate = Box<dyn FnMut(Message) -> Option<Message>>;

/// What a liar sends behind a message that came.
pub type Added = Box<dyn FnMut(&Message) -> Vec<Message>>;

/// Client and clouds.
pub struct World {
    pub settings: MulticloudSettings,
    pub shape: Shape,
    pub plane: MulticloudPlane,
    pub stores: [Arc<dyn Store>; 2],
    pub holders: [Holder; 2],
    pub shufflers: [Shuffler; 2],
    /// Where shufflers keep what finds no room in memory, and how much there is.
    kept: [KeptShelf; 2],
    rooms: [Arc<KeptRoom>; 2],
    /// Encoded, as far as it is durable.
    pub journal: Vec<Vec<u8>>,
    /// By sender and receiver: what is under way, in order.
    links: [[VecDeque<Message>; 3]; 3],
    /// What each cloud received, in order.
    pub seen: [Vec<Message>; 2],
    /// Bytes of messages between client and clouds, down and up, and between the clouds.
    pub bytes: [u64; 3],
    pub answers: Vec<(u64, Bytes)>,
    /// Chains that are being walked, in order.
    walks: VecDeque<Uncovering>,
    /// What a chain took, at least and at most.
    pub works: Option<(Work, Work)>,
    pub fate: Fate,
    pub added: Added,
    /// Messages and journal entries so far, and the one at which the client dies.
    pub steps: u64,
    pub dies_at: Option<u64>,
    pub is_dead: bool,
    /// Whether clouds are lied to, or forget.
    pub is_strange: bool,
    /// What each cloud signs by, and whether a liar signs what it changes.
    signing: [Signing; 2],
    pub signs: bool,
    /// The last checkpoint, and entries before it.
    saved: (Vec<Section>, usize),
    opening: u32,
    written: Vec<Entry>,
    ledger: Ledger,
    choice: u64,
    seed: u64,
}

pub fn settings(blocks: u32, value_bytes: usize, layout: Layout) -> MulticloudSettings {
    let shape = ImmediateShape { capacity: blocks, value_bytes };
    let usual = MulticloudSettings::of(shape, layout).with_usual_checkpoints().unwrap();
    let signers = signers().map(|signer| signer.key());
    MulticloudSettings { spare: 2, extra: 1, refresh_every: 3, signers, ..usual }
}

fn signers() -> [Arc<Signer>; 2] {
    [1, 2].map(|secret| Arc::new(Signer::new(&Seed::new([secret; 32]))))
}

const STORE: StoreId = StoreId([1; 16]);

/// A tiny one: partitions, levels, blocks of a top, and levels of the client.
pub fn layout(
    blocks: u32,
    partitions: u32,
    levels: u8,
    top_blocks: u16,
    kept_levels: u8,
) -> Layout {
    Layout { blocks, partitions, levels, top_blocks, kept_levels, segment_cells: u16::MAX }
}

fn kept(shape: Shape, store: &Arc<dyn Store>) -> KeptShelf {
    now(KeptShelf::open(store.clone(), shape)).unwrap()
}

fn holder(shape: Shape, point: &Seed, store: &Arc<dyn Store>) -> Holder {
    now(Holder::open(shape, point, store.clone())).unwrap()
}

/// What a store in memory never makes wait.
fn now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().unwrap()
}

fn keys(seed: u64) -> Arc<SplitKeys> {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Arc::new(SplitKeys::derive(&MasterKey::from_bytes(&mut bytes), STORE))
}

impl World {
    pub fn new(settings: MulticloudSettings, seed: u64) -> Self {
        Self::with(settings, seed, Canary::default())
    }

    pub fn with(settings: MulticloudSettings, seed: u64, canary: Canary) -> Self {
        let random = Randomness::repeatable(seed);
        let mut plane = MulticloudPlane::new(settings.clone(), keys(seed), &random).unwrap();
        plane.canary = canary;
        let shape = plane.public();
        let stores = [0, 1].map(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
        let holder = |cloud| holder(shape, &plane.point(cloud), &stores[usize::from(cloud)]);
        let shuffler = |cloud| Shuffler::new(shape, &plane.point(cloud));
        let (own, volume) = (signers(), witness::number(STORE));
        let other = |at: usize| own[1 - at].key();
        let signing = [0, 1].map(|at| Signing { volume, own: own[at].clone(), other: other(at) });
        Self {
            settings,
            shape,
            holders: [holder(0), holder(1)],
            kept: [0, 1].map(|at: usize| kept(shape, &stores[at])),
            rooms: [KeptRoom::unbounded(), KeptRoom::unbounded()],
            stores,
            shufflers: [shuffler(0), shuffler(1)],
            plane,
            journal: Vec::new(),
            links: Default::default(),
            seen: Default::default(),
            bytes: [0; 3],
            answers: Vec::new(),
            walks: VecDeque::new(),
            works: None,
            fate: Box::new(Some),
            added: Box::new(|_| Vec::new()),
            steps: 0,
            dies_at: None,
            is_dead: false,
            is_strange: false,
            signing,
            signs: true,
            saved: (Vec::new(), 0),
            opening: 1,
            written: Vec::new(),
            ledger: Ledger::default(),
            choice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            seed,
        }
    }

    /// An access arrives; nothing comes back yet.
    pub fn arrive(&mut self, block: u32, access: Access) -> Result<()> {
        let effects = self.plane.arrive(Some(block), access)?;
        self.do_all(effects);
        Ok(())
    }

    /// Lets messages come until none is under way, links in any order.
    pub fn settle(&mut self) -> Result<()> {
        while self.deliver()? {}
        Ok(())
    }

    /// Lets one message come, of a link drawn from those that have any.
    pub fn deliver(&mut self) -> Result<bool> {
        let links: Vec<(usize, usize)> = (0..3)
            .flat_map(|from| (0..3).map(move |to| (from, to)))
            .filter(|(from, to)| match (from, to) {
                (2, 2) => !self.walks.is_empty(),
                _ => !self.links[*from][*to].is_empty(),
            })
            .collect();
        if links.is_empty() || self.is_dead {
            return Ok(false);
        }
        self.choice ^= self.choice << 13;
        self.choice ^= self.choice >> 7;
        self.choice ^= self.choice << 17;
        let (from, to) = links[(self.choice % links.len() as u64) as usize];
        match self.links[from][to].pop_front() {
            Some(message) => {
                let added = (self.added)(&message);
                self.comes(message)?;
                added.into_iter().try_for_each(|message| self.comes(message))?;
            }
            None => self.walk()?,
        }
        Ok(true)
    }

    /// The next chains are walked.
    fn walk(&mut self) -> Result<()> {
        let Some(walk) = self.walks.pop_front() else { return Ok(()) };
        let uncovered = walk.find()?;
        for work in &uncovered.works {
            let (least, most) = self.works.get_or_insert((*work, *work));
            (*least, *most) = ((*least).min(*work), (*most).max(*work));
        }
        let effects = self.plane.uncovered(uncovered)?;
        self.do_all(effects);
        Ok(())
    }

    fn comes(&mut self, message: Message) -> Result<()> {
        let Some(mut message) = (self.fate)(message) else { return Ok(()) };
        let (partition, (from, to)) = (message.partition(), message.link());
        if self.signs {
            self.sign(&mut message);
        }
        let is_theirs = match &message {
            Message::Across(_, message) => self.signing[usize::from(to)].is_theirs(message),
            Message::Back(_, message) => self.signing[usize::from(to)].is_theirs(message),
            _ => true,
        };
        if !is_theirs {
            assert!(self.is_strange, "{message:?}");
            return Ok(());
        }
        let from = usize::from(from);
        if let Some(seen) = self.seen.get_mut(usize::from(to)) {
            seen.push(message.clone());
        }
        let to = usize::from(to);
        match message {
            Message::ToHolder(_, message) => {
                let sent = now(self.holders[to].ask(message));
                let sent = self.of_cloud(sent);
                self.holder_sends(partition, sent);
            }
            Message::Back(_, message) => {
                let sent = now(self.holders[to].level(message));
                let sent = self.of_cloud(sent);
                self.holder_sends(partition, sent);
            }
            Message::ToShuffler(_, message) => {
                let sent = now(self.kept[to].ask(&self.shufflers[to], message));
                let sent = self.of_cloud(sent);
                self.shuffler_sends(partition, sent);
            }
            Message::Across(_, message) => {
                let sent = self.shufflers[to].across(message);
                let sent = self.of_cloud(sent);
                self.shuffler_sends(partition, sent);
            }
            Message::FromHolder(_, message) => {
                let effects = self.plane.holder_says(from, message)?;
                self.do_all(effects);
            }
            Message::FromShuffler(_, message) => {
                let effects = self.plane.shuffler_says(from, message)?;
                self.do_all(effects);
            }
            Message::Lost(_) => {}
        }
        Ok(())
    }

    /// A cloud that is asked for nonsense says nothing; only one that was lied to, or died, is.
    fn of_cloud<T: Default>(&mut self, sent: fogbank_mix::Result<T>) -> T {
        assert!(self.is_strange || sent.is_ok(), "{:?}", sent.err());
        sent.unwrap_or_default()
    }

    fn holder_sends(&mut self, partition: u16, sent: Vec<HolderSends>) {
        for sent in sent {
            self.send(match sent {
                HolderSends::Client(message) => Message::FromHolder(partition, message),
                HolderSends::Shuffler(message) => Message::Across(partition, message),
            });
        }
    }

    fn shuffler_sends(&mut self, partition: u16, sent: Vec<ShufflerSends>) {
        for sent in sent {
            let message = match sent {
                ShufflerSends::Client(message) => Message::FromShuffler(partition, message),
                ShufflerSends::Holder(message) => Message::Back(partition, message),
                ShufflerSends::Store(_) => continue, // it is done
            };
            self.send(message);
        }
    }

    /// Whoever sends it signs it.
    fn sign(&self, message: &mut Message) {
        let (from, _) = message.link();
        match message {
            Message::Across(_, message) => self.signing[usize::from(from)].sign(message),
            Message::Back(_, message) => self.signing[usize::from(from)].sign(message),
            _ => {}
        }
    }

    fn send(&mut self, mut message: Message) {
        self.sign(&mut message);
        let (message, bytes) = message.carried(self.shape.cell_bytes());
        self.ledger.note(&message);
        let (from, to) = message.link();
        let kind = match (from, to) {
            (_, 2) => 0,
            (2, _) => 1,
            _ => 2,
        };
        self.bytes[kind] += bytes as u64;
        self.links[usize::from(from)][usize::from(to)].push_back(message);
    }

    /// In their order; behind a death nothing takes place.
    pub fn do_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.steps += 1;
            self.is_dead |= self.dies_at == Some(self.steps);
            if self.is_dead {
                return; // what stands behind it is lost
            }
            match effect {
                Effect::Journal(entry) => {
                    let bytes = entry.encode(&self.shape);
                    assert_eq!(self.decoded(&bytes), entry);
                    self.journal.push(bytes);
                    self.written.push(entry);
                }
                Effect::Holder(partition, message) => {
                    self.stands_in_journal(&message);
                    self.send(Message::ToHolder(partition, message));
                }
                Effect::Shuffler(partition, message) => {
                    self.send(Message::ToShuffler(partition, message));
                }
                Effect::Uncover(cells) => self.walks.push_back(cells),
                Effect::Answer(number, value) => {
                    let last = self.newest().find(|entry| matches!(entry, Entry::Result(..)));
                    assert!(self.answers.last().is_none_or(|(last, _)| *last < number));
                    let is_durable = matches!(last, Some(Entry::Result(of, _)) if *of == number);
                    assert!(is_durable, "an answer leaves before its result is durable");
                    self.answers.push((number, value));
                }
            }
        }
    }

    /// Nothing is under way, and nobody will look back: what was kept to be looked at later goes.
    pub fn forgets(&mut self) {
        self.ledger = Ledger::default();
        self.journal.clear();
        self.written.clear();
        self.answers.clear();
        self.plane.truths.lock().clear();
        self.seen.iter_mut().for_each(Vec::clear);
    }

    /// The rule of the journal: what a message names is durable before it leaves.
    fn stands_in_journal(&self, message: &ToHolder) {
        let stands = match message {
            ToHolder::Look(look) => self.newest().any(|entry| {
                matches!(entry, Entry::Access(entry) if entry.number == look.read
                    && entry.places == look.places)
            }),
            ToHolder::Commit(commit) => self
                .newest()
                .any(|entry| *entry == Entry::Commit(commit.partition, commit.generation)),
            ToHolder::Carry(carry) => self.newest().any(|entry| {
                matches!(entry, Entry::Job(entry) if entry.partition == carry.partition
                    && entry.generation == carry.generation)
            }),
            _ => true,
        };
        assert!(stands, "the journal does not name {message:?}");
    }

    /// What was written last, the newest first.
    fn newest(&self) -> impl Iterator<Item = &Entry> {
        self.written.iter().rev()
    }

    fn decoded(&self, bytes: &[u8]) -> Entry {
        let of = &self.settings.shape;
        Entry::decode(bytes, &self.shape, of.capacity, of.value_bytes).unwrap()
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Entry> {
        self.journal.iter().map(|bytes| self.decoded(bytes))
    }

    /// A checkpoint is written: of what is behind it the journal is read.
    pub fn saves(&mut self) {
        let sections = self.plane.save(self.opening).unwrap();
        self.saved = (sections.map(|section| section.unwrap()).collect(), self.journal.len());
    }

    /// What is under way is lost, and the client begins again from the journal.
    pub fn recover(&mut self) {
        self.links = Default::default();
        self.walks.clear();
        (self.is_dead, self.dies_at) = (false, None);
        let entries: Vec<Entry> = self.entries().skip(self.saved.1).collect();
        self.opening += 1;
        let random = Randomness::repeatable(self.seed).split(self.steps);
        let canary = std::mem::take(&mut self.plane.canary);
        self.plane = MulticloudPlane::recover(
            canary,
            self.settings.clone(),
            (keys(self.seed), &random),
            (self.saved.0.clone(), self.opening),
        )
        .unwrap();
        entries.into_iter().for_each(|entry| self.plane.replay(entry).unwrap());
        let effects = self.plane.repeat().unwrap();
        self.do_all(effects);
    }

    /// A cloud has a shuffler that knows nothing yet, and what a process before has left in its
    /// store.
    fn opens(&mut self, cloud: u8) {
        let at = usize::from(cloud);
        self.kept[at] = kept(self.shape, &self.stores[at]);
        let shuffler = Shuffler::new(self.shape, &self.plane.point(cloud));
        self.shufflers[at] = shuffler.within(self.rooms[at].clone());
    }

    /// A cloud starts again, and the client does again what is under way.
    pub fn cloud_restarts(&mut self, cloud: u8) -> Result<()> {
        self.cloud_dies(cloud);
        let effects = self.plane.repeat()?;
        self.do_all(effects);
        Ok(())
    }

    /// A cloud ends and is there again, which the client has still to hear of: the shuffler has
    /// lost all, the holder what is not in its store.
    pub fn cloud_dies(&mut self, cloud: u8) {
        let at = usize::from(cloud);
        self.opens(cloud);
        self.holders[at] = holder(self.shape, &self.plane.point(cloud), &self.stores[at]);
        for other in 0..3 {
            self.links[at][other].clear();
            self.links[other][at].clear();
        }
    }
}

/// Whether a pad, or a place of an upload, ever covers two things. From what goes over links alone:
/// two cells under one pad show as two cells of one number.
#[derive(Default)]
struct Ledger {
    seeds: HashMap<(&'static str, u16, u64), [u8; 32]>,
    covered: HashMap<([u8; 32], u32), [u8; 32]>,
    uploads: HashMap<(u16, u64, u32), [u8; 32]>,
    orders: HashSet<[u8; 32]>,
}

impl Ledger {
    fn note(&mut self, message: &Message) {
        match message {
            Message::ToHolder(p, ToHolder::Look(look)) => {
                self.seeds.insert(("read", *p, look.read), *look.pads.bytes());
            }
            Message::ToHolder(p, ToHolder::Carry(carry)) => {
                self.seeds.insert(("carry", *p, carry.generation.0), *carry.pads.bytes());
            }
            Message::ToShuffler(p, ToShuffler::Mix(mix)) => {
                self.seeds.insert(("level", *p, mix.generation.0), *mix.pads.bytes());
                assert!(self.orders.insert(*mix.order.bytes()), "an order twice");
            }
            Message::ToShuffler(p, ToShuffler::Upload(upload)) => {
                for (index, cell) in (0..).zip(upload.cells.iter()) {
                    let place = (*p, upload.generation.0, index);
                    let cell = digest(&[cell]);
                    let was = *self.uploads.entry(place).or_insert(cell);
                    assert_eq!(was, cell, "an upload place holds two blocks");
                }
            }
            Message::Across(p, Across::Blinded(all)) => {
                self.covers(("read", *p, all.read), &all.cells)
            }
            Message::Across(p, Across::Moved(all)) => {
                self.covers(("carry", *p, all.generation.0), &all.cells);
            }
            Message::Back(p, Back::Level(all)) => {
                self.covers(("level", *p, all.generation.0), &all.cells);
            }
            _ => {}
        }
    }

    fn covers(&mut self, of: (&'static str, u16, u64), cells: &Cells) {
        let seed = self.seeds[&of];
        for (index, cell) in (0..).zip(cells.iter()) {
            let cell = digest(&[cell]);
            let was = *self.covered.entry((seed, index)).or_insert(cell);
            assert_eq!(was, cell, "a pad covers two cells");
        }
    }
}
