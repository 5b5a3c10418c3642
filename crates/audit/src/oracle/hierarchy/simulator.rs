//! A program that is given what is public of a run and nothing else, and writes what the server of
//! the site could have seen just as well.
//!
//! 1. [`Transcript`] is what is public: who sent what kind of message when and of which length, for
//!    which epoch each touch was, which touch was made again, and which messages had the same
//!    bytes. Slots and bytes are taken out of it.
//! 2. The simulator puts in their place what it draws: of every table of the epoch one uniform slot
//!    that was not touched before; of a touch that is made again the same ones; and bytes that look
//!    like nothing else.
//!
//! So whatever the server sees of an engine whose traces pass, and are not told from these, could
//! have been written without a single block. Section 11 of the protocol of `hierarchy`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fogbank_env::{Purpose, Randomness, Stream};
use fogbank_store::trace::{ChunkCells, ChunkSeen, Event, LogCall, Outcome, Request};
use fogbank_store::{ArrayId, ChunkName};
use rand_core::Rng;

use super::cells::TICK_BITS;
use super::layout::{Layout, Table};
use super::named::Named;
use super::{HierarchyConfig, Refused};
use crate::oracle::shape::below;

/// What is public of a run: its events, without slots and bytes.
#[derive(Debug, Clone)]
pub struct Transcript {
    events: Vec<Event>,
    /// By the event of a touch: the tables that it names, or the event that it repeats.
    touches: BTreeMap<usize, Touch>,
}

#[derive(Debug, Clone)]
enum Touch {
    Of(Vec<Table>),
    Again(usize),
}

impl Transcript {
    /// Of traces that were joined, as [`super::Together`] has them.
    ///
    /// # Errors
    /// [`Refused`] for what no site has.
    pub fn of(config: &HierarchyConfig, events: Vec<Event>) -> Result<Self, Refused> {
        config.check()?;
        let (layout, mut versions) = (Layout::new(config), Versions::default());
        let (mut touches, mut first, mut prints) =
            (BTreeMap::new(), HashMap::new(), Prints::default());
        let mut public = Vec::with_capacity(events.len());
        for (at, mut event) in events.into_iter().enumerate() {
            versions.event(&layout, &event);
            each_print(&mut event, &mut |print| *print = prints.number(*print));
            if let Event::Sent(sent) = &mut event
                && let Request::ReadCells { reads } = &mut sent.request
            {
                let names: Vec<(ChunkName, Vec<u16>)> =
                    reads.drain(..).map(|read| (read.chunk, read.cells)).collect();
                let tables = names.iter().filter_map(|(name, _)| versions.table_of(&layout, name));
                let touch = match first.get(&names) {
                    Some(before) => Touch::Again(*before),
                    None => Touch::Of(tables.collect()),
                };
                first.entry(names).or_insert(at);
                touches.insert(at, touch);
            }
            public.push(event);
        }
        Ok(Self { events: public, touches })
    }
}

/// See the module.
pub struct Simulator {
    layout: Layout,
    random: Stream,
    versions: Versions,
    touched: BTreeMap<Table, BTreeSet<u32>>,
    /// By event.
    drawn: BTreeMap<usize, Vec<ChunkCells>>,
    /// By request: what was drawn, until it comes back.
    asked: HashMap<u64, Vec<ChunkCells>>,
    /// What was written, by chunk: of each cell.
    written: HashMap<ChunkName, Vec<u64>>,
    prints: HashMap<u64, u64>,
}

impl Simulator {
    /// Of a site of this configuration; what is free follows from `seed`.
    ///
    /// # Errors
    /// [`Refused`] for one that the specification does not follow.
    pub fn new(config: &HierarchyConfig, seed: u64) -> Result<Self, Refused> {
        config.check()?;
        let random = Randomness::repeatable(seed).stream(Purpose::Shuffle);
        let layout = Layout::new(config);
        let (versions, touched, drawn, asked, written, prints) = Default::default();
        Ok(Self { layout, random, versions, touched, drawn, asked, written, prints })
    }

    /// What the server could have seen of such a run.
    ///
    /// # Errors
    /// In words, if it names a chunk that nobody has written.
    pub fn plays(mut self, transcript: &Transcript) -> Result<Vec<Event>, String> {
        let mut events = Vec::with_capacity(transcript.events.len());
        // Which versions count is known before their writer has been told.
        transcript.events.iter().for_each(|event| self.versions.event(&self.layout, event));
        for (at, event) in transcript.events.iter().enumerate() {
            let mut event = event.clone();
            let (prints, random) = (&mut self.prints, &mut self.random);
            each_print(&mut event, &mut |print| {
                *print = *prints.entry(*print).or_insert_with(|| random.next_u64());
            });
            if let Event::Sent(sent) = &mut event
                && let Some(touch) = transcript.touches.get(&at)
            {
                let reads = match touch {
                    Touch::Of(tables) => self.touch(tables)?,
                    Touch::Again(before) => self.drawn.get(before).cloned().unwrap_or_default(),
                };
                self.drawn.insert(at, reads.clone());
                self.asked.insert(sent.id, reads.clone());
                sent.request = Request::ReadCells { reads };
            }
            self.answer(&mut event);
            events.push(event);
        }
        Ok(events)
    }

    /// What comes back is what was written there.
    fn answer(&mut self, event: &mut Event) {
        match event {
            Event::Sent(sent) => {
                if let Request::WriteChunks { writes } = &sent.request {
                    let each = writes.iter().map(|(name, seen)| (*name, seen.fingerprints.clone()));
                    self.written.extend(each);
                }
            }
            Event::Done(done) => {
                let Some(reads) = self.asked.remove(&done.id) else { return };
                let Outcome::Cells(cells) = &mut done.outcome else { return };
                for (read, cell) in reads.iter().zip(cells.iter_mut().flatten()) {
                    let prints = self.written.get(&read.chunk);
                    let print = read.cells.first().and_then(|at| prints?.get(usize::from(*at)));
                    cell.fingerprints = print.copied().into_iter().collect();
                }
            }
            _ => {}
        }
    }

    fn touch(&mut self, tables: &[Table]) -> Result<Vec<ChunkCells>, String> {
        let mut reads = Vec::new();
        for table in tables {
            let slots = self.layout.slots(*table);
            let touched = self.touched.entry(*table).or_default();
            if touched.len() as u64 >= slots.into() {
                return Err(format!("{table:?} has no slot left"));
            }
            let slot = loop {
                let slot = below(&mut self.random, slots);
                if touched.insert(slot) {
                    break slot;
                }
            };
            let cells = self.layout.chunk_cells(table.level);
            let chunk = self.versions.that_counts(*table, slot / cells);
            let chunk = chunk.ok_or_else(|| format!("nobody has written {table:?}"))?;
            reads.push(ChunkCells { chunk, cells: vec![(slot % cells) as u16] });
        }
        Ok(reads)
    }
}

/// Which versions of which chunks count, by who has claimed them and who was first to say so.
#[derive(Debug, Default)]
struct Versions {
    /// By version: what was claimed, from which chunk on.
    claims: BTreeMap<u64, (Table, u32, u32, u32)>,
    /// By session and piece.
    own: BTreeMap<(u32, Table, u32), u64>,
    sessions: BTreeMap<u32, u32>,
    asked: HashMap<u64, (u32, Named)>,
    counts: BTreeMap<(Table, u32), u64>,
}

impl Versions {
    fn event(&mut self, layout: &Layout, event: &Event) {
        match event {
            Event::Sent(sent) => {
                let Request::BlobPut { name, .. } = &sent.request else { return };
                let Some(named) = Named::of(name) else { return };
                if let Named::Claim(table, number, version) = named {
                    let writes = layout.piece(table, number).map(|piece| piece.writes);
                    let writes = writes.unwrap_or_default();
                    let count = writes.iter().map(|of| of.count).sum();
                    if let Some(first) = writes.first().filter(|first| !first.is_dealt) {
                        self.claims.insert(version, (table, number, first.first, count));
                        self.own.insert(((version >> TICK_BITS) as u32, table, number), version);
                    }
                }
                self.asked.insert(sent.id, (sent.connection, named));
            }
            Event::Done(done) => {
                let Some((who, named)) = self.asked.remove(&done.id) else { return };
                if done.outcome != Outcome::Put(true) {
                    return;
                }
                match named {
                    Named::Session(number) => _ = self.sessions.insert(who, number),
                    Named::Piece(table, number) => self.count(layout, who, (table, number)),
                    Named::Manifest(table) if layout.cut(table).ranges() == 1 => {
                        self.count(layout, who, (table, layout.cut(table).count() - 1));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// What a client has written for a piece counts.
    fn count(&mut self, layout: &Layout, who: u32, (table, number): (Table, u32)) {
        let session = self.sessions.get(&who).copied().unwrap_or(u32::MAX);
        let Some(version) = self.own.get(&(session, table, number)).copied() else { return };
        let Some((_, _, first, count)) = self.claims.get(&version).copied() else { return };
        let step = u64::from(layout.chunk_cells(table.level));
        for at in 0..count {
            let version = version + u64::from(at) * step;
            self.counts.entry((table, first + at)).or_insert(version);
        }
    }

    fn that_counts(&self, table: Table, chunk: u32) -> Option<ChunkName> {
        let version = self.counts.get(&(table, chunk)).copied()?;
        Some(ChunkName { array: ArrayId(table.level.into()), chunk, version })
    }

    fn table_of(&self, layout: &Layout, name: &ChunkName) -> Option<Table> {
        let (version, (table, _, _, count)) = self.claims.range(..=name.version).next_back()?;
        let step = u64::from(layout.chunk_cells(table.level));
        (name.version < version + u64::from(*count) * step).then_some(*table)
    }
}

/// Equal bytes by a number.
#[derive(Default)]
struct Prints(HashMap<u64, u64>);

impl Prints {
    fn number(&mut self, print: u64) -> u64 {
        let next = self.0.len() as u64;
        *self.0.entry(print).or_insert(next)
    }
}

/// Every fingerprint of an event.
fn each_print(event: &mut Event, of: &mut impl FnMut(&mut u64)) {
    let mut seen = |seen: &mut ChunkSeen| seen.fingerprints.iter_mut().for_each(&mut *of);
    match event {
        Event::Sent(sent) => match &mut sent.request {
            Request::WriteChunks { writes } => writes.iter_mut().for_each(|(_, of)| seen(of)),
            Request::BlobPut { fingerprint, .. }
            | Request::Log(
                LogCall::Append { fingerprint, .. } | LogCall::Publish { fingerprint, .. },
            ) => of(fingerprint),
            _ => {}
        },
        Event::Done(done) => match &mut done.outcome {
            Outcome::Cells(cells) | Outcome::Chunks(cells) => {
                cells.iter_mut().flatten().for_each(seen);
            }
            Outcome::Blob(Some(blob)) => seen(blob),
            _ => {}
        },
        Event::Heard(heard) => of(&mut heard.fingerprint),
        _ => {}
    }
}
