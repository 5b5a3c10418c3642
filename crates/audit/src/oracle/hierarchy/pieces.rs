//! Pieces of builds: what each reads and writes, when, and whose it is.

use std::collections::BTreeSet;

use fogbank_store::trace::{ChunkSeen, Request};
use fogbank_store::{ArrayId, ArrayShape, ChunkName};

use super::Hierarchy;
use super::cells::DEALT;
use super::client::{AHEAD, Client, Work};
use super::layout::{Chunks, Layout, Table};
use super::rules::{Rule, fault};
use crate::oracle::fault::{Step, Stop};
use crate::{Observation, Observer};

/// A piece that a client has begun: whose it was is known when the whole log is.
pub struct Begun {
    pub who: u32,
    pub table: Table,
    pub number: u32,
    /// How long the log was.
    pub length: u64,
}

impl Hierarchy {
    pub(super) fn makes(&self, array: ArrayId, shape: ArrayShape) -> Step {
        let layout = &self.layout;
        let (level, is_dealt) = ((array.0 % DEALT) as u8, array.0 >= DEALT);
        if level > layout.bottom || array.0 >= 2 * DEALT {
            return fault(Rule::ArrayOfLevel, "an array of a level", format!("{array:?}"));
        }
        let due = ArrayShape {
            chunks: layout.chunks(level, is_dealt),
            cells_per_chunk: layout.chunk_cells(level) as u16,
            cell_bytes: layout.of.cell_bytes,
        };
        if shape != due {
            return fault(Rule::ArrayShape, format!("{due:?}"), format!("{shape:?}"));
        }
        Ok(())
    }

    pub(super) fn reads(&mut self, who: u32, chunks: &[ChunkName]) -> Result<(), Stop> {
        let Some((first, claim)) = self.first_of(chunks)? else {
            return Ok(fault(Rule::ReadOfPiece, "chunks", "none")?);
        };
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        let asked = Chunks {
            is_dealt: claim.is_dealt,
            table: claim.table,
            first: first.chunk,
            count: chunks.len() as u32,
            moved: 0,
        };
        if client.turns.is_empty() {
            // Whoever joins reads the newest table: the values of the epoch before.
            let carry = i64::try_from(client.superblock.0).unwrap_or(i64::MAX) - 2;
            let due = Table { level: 0, index: carry };
            if claim.table == due {
                return Ok(());
            }
            return Ok(fault(Rule::Carry, format!("{due:?}"), format!("{:?}", claim.table))?);
        }
        // 1. Whose piece it is.
        let cell = first.chunk.saturating_mul(layout.chunk_cells(claim.table.level));
        let (table, number) = match claim.is_dealt {
            true => (claim.table, layout.cut(claim.table).filling(cell)),
            false => {
                let parent = layout.parent(claim.table);
                let cut = layout.cut(parent);
                let whole = (cut.deals() == 0 && parent.level > 0).then_some(0);
                (parent, whole.or_else(|| cut.dealing(claim.table, cell)))
            }
        };
        let number = number.unwrap_or(u32::MAX);
        if claim.is_dealt {
            let deals = layout.cut(table).deals();
            let missing = (0..deals).find(|deal| !client.pieces.contains_key(&(table, *deal)));
            if let Some(missing) = missing {
                let expected = format!("piece {missing} of {table:?} to be there");
                return Ok(fault(Rule::PieceNeeds, expected, format!("a read for {number}"))?);
            }
        }
        // 2. What it asks for is what the piece reads, and the log has come so far.
        let work = client.work(layout, (table, number))?;
        let found = work.piece.reads.iter().position(|of| {
            (of.is_dealt, of.table, of.first) == (asked.is_dealt, asked.table, asked.first)
        });
        let length = client.length;
        let work = client.work(layout, (table, number))?;
        let due = found.map(|at| (at, work.piece.reads[at]));
        let ahead = work.piece.reads.len().min(work.read.0.len() + AHEAD);
        Ok(in_time(Rule::PieceReads, (due, ahead), &mut work.read.0, asked.count)
            .and_then(|moved| is_due(length, work.due(moved), (table, number)))?)
    }

    pub(super) fn writes(
        &mut self,
        who: u32,
        writes: &[(ChunkName, ChunkSeen)],
        out: &mut dyn Observer,
    ) -> Result<(), Stop> {
        let names: Vec<ChunkName> = writes.iter().map(|(name, _)| *name).collect();
        let Some((first, claim)) = self.first_of(&names)? else {
            return Ok(fault(Rule::PieceWrites, "chunks", "none")?);
        };
        let claimed = self.cells.claim_of(&first)?.1;
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        let chunk_bytes = layout.chunk_bytes(claim.table.level);
        for (name, seen) in writes {
            if seen.bytes != chunk_bytes {
                let seen = format!("{} of {name:?}", seen.bytes);
                return Ok(fault(Rule::ChunkBytes, chunk_bytes.to_string(), seen)?);
            }
            let (chunk, version) = (name.chunk, name.version);
            // Behind the last slot of a table there are zeros.
            let cells = layout.chunk_cells(claim.table.level);
            let left = layout.slots(claim.table).saturating_sub(chunk.saturating_mul(cells));
            let there = if claim.is_dealt { cells } else { left.min(cells) } as usize;
            let fingerprints = &seen.fingerprints[..there.min(seen.fingerprints.len())];
            out.observe(&Observation::Image { chunk, version, fingerprints });
        }
        self.summary.images += writes.len() as u64;
        let length = client.length;
        let of = (claim.table, claim.number);
        let Some(work) = client.works.get_mut(&of).filter(|work| work.version.is_some()) else {
            return Ok(fault(
                Rule::PieceWrites,
                "a piece that it has claimed",
                format!("{first:?}"),
            )?);
        };
        if work.version != Some(claimed) {
            return Ok(fault(
                Rule::PieceWrites,
                "versions of its own claim",
                format!("{first:?}"),
            )?);
        }
        let found = work.piece.writes.iter().position(|of| of.first == first.chunk);
        let due = found.map(|at| (at, work.piece.writes[at]));
        let ahead = work.piece.writes.len().min(work.written.0.len() + AHEAD);
        let count = writes.len() as u32;
        Ok(in_time(Rule::PieceWrites, (due, ahead), &mut work.written.0, count)
            .and_then(|moved| is_due(length, work.due(moved), of))?)
    }

    /// What was read or written for a piece has come back.
    pub(super) fn moved(&mut self, who: u32, request: &Request) -> Result<(), Stop> {
        let (name, is_read) = match request {
            Request::ReadChunks { chunks } => (chunks.first().copied(), true),
            Request::WriteChunks { writes } => (writes.first().map(|(name, _)| *name), false),
            _ => (None, false),
        };
        let Some(name) = name else { return Ok(()) };
        let (claim, _) = self.cells.claim_of(&name)?;
        let client = self.clients.entry(who).or_default();
        let is_of = |chunks: &Chunks| {
            let of = (chunks.table, chunks.is_dealt, chunks.first);
            of == (claim.table, claim.is_dealt, name.chunk)
        };
        for work in client.works.values_mut() {
            let (all, (_, done)) = match is_read {
                true => (&work.piece.reads, &mut work.read),
                false => (&work.piece.writes, &mut work.written),
            };
            if all.iter().any(is_of) {
                *done += 1;
                client.barriers_due += usize::from(!is_read && work.is_whole());
            }
        }
        Ok(())
    }

    /// Chunks of one array, one behind the other, with versions of what was claimed in the same
    /// way.
    fn first_of(
        &self,
        chunks: &[ChunkName],
    ) -> Result<Option<(ChunkName, super::cells::Claim)>, Stop> {
        let Some(first) = chunks.first().copied() else { return Ok(None) };
        let (claim, _) = self.cells.claim_of(&first)?;
        for (at, name) in (0..).zip(chunks) {
            let (other, _) = self.cells.claim_of(name)?;
            let is_of = (other.table, other.is_dealt) == (claim.table, claim.is_dealt);
            if !is_of || name.chunk != first.chunk + at {
                let expected = format!("the chunk behind {first:?}, of {:?}", claim.table);
                return Ok(fault(Rule::ChunksInOrder, expected, format!("{name:?}"))?);
            }
        }
        Ok(Some((first, claim)))
    }

    /// One barrier for each piece that is whole.
    pub(super) fn settles(&mut self, who: u32, id: u64) -> Step {
        let client = self.clients.entry(who).or_default();
        let whole = client.works.values_mut().filter(|work| work.is_whole());
        whole.for_each(|work| _ = work.barriers.insert(id));
        match client.barriers_due.checked_sub(1) {
            Some(left) => client.barriers_due = left,
            None => return fault(Rule::BarrierDue, "one for a piece that is whole", "another"),
        }
        Ok(())
    }

    pub(super) fn has_settled(&mut self, who: u32, id: u64) {
        let client = self.clients.entry(who).or_default();
        let settled = client.works.values_mut().filter(|work| work.barriers.contains(&id));
        settled.for_each(|work| work.is_durable = true);
    }

    /// A client has begun a piece.
    pub(super) fn begins(&mut self, who: u32, (table, number): (Table, u32)) -> Step {
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        let length = client.length;
        let work = client.work(layout, (table, number))?;
        is_due(length, work.piece.places.start, (table, number))?;
        self.begun.push(Begun { who, table, number, length });
        Ok(())
    }

    /// Each piece was its client's, or late.
    pub(super) fn are_owners(&self) -> Step {
        let layout = &self.layout;
        let epoch = u64::from(layout.of.epoch);
        for Begun { who, table, number, length } in &self.begun {
            let Some(piece) = layout.piece(*table, *number) else { continue };
            let Some(client) = self.clients.get(who) else { continue };
            let needed = layout.first_of(layout.installed(*table)).saturating_sub(epoch / 4);
            let (start, end) = (piece.places.start, piece.places.end);
            let is_late = *length > (end + epoch / 4).min(needed);
            // Who has joined since knows less.
            if is_late || client.from.is_none_or(|from| from > start) {
                continue;
            }
            let learnt = match table.level {
                // By what it has found itself it knows earlier than by what it has heard.
                0 => {
                    let replayed = client.replayed.get(&table.index.unsigned_abs());
                    start..replayed.copied().unwrap_or(*length)
                }
                _ => {
                    let known = client.learnt.get(&layout.starts(*table)).copied();
                    let known = known.unwrap_or(start);
                    known..known
                }
            };
            let joined = client.joined.unwrap_or_default();
            let learnt = learnt.start.max(joined)..learnt.end.max(joined);
            let session = client.session.unwrap_or(u32::MAX);
            if !self.sessions.is_of(session, (*table, *number), (start, learnt, *length), epoch) {
                let expected = format!("another session at a log of {length}");
                return fault(
                    Rule::Whose,
                    expected,
                    format!("{session} does {number} of {table:?}"),
                );
            }
        }
        Ok(())
    }
}

impl Client {
    /// A piece that it does, begun now if it was not.
    pub(super) fn work(&mut self, layout: &Layout, of: (Table, u32)) -> Step<&mut Work> {
        if !self.works.contains_key(&of) {
            let possible = layout.piece(of.0, of.1).filter(|_| self.works.len() < WORKS_MAX);
            let Some(piece) = possible else {
                return fault(Rule::ReadOfPiece, "a read of some piece", format!("{of:?}"));
            };
            self.works.insert(of, Work::new(piece));
        }
        match self.works.get_mut(&of) {
            Some(work) => Ok(work),
            None => fault(Rule::ReadOfPiece, "a piece", format!("{of:?}")),
        }
    }
}

/// A request is one of a piece, not asked for before: what was moved before it.
fn in_time(
    rule: Rule,
    (due, ahead): (Option<(usize, Chunks)>, usize),
    asked: &mut BTreeSet<usize>,
    count: u32,
) -> Step<u64> {
    let Some((at, due)) = due else {
        return fault(rule, "the first chunk of a request of the piece", format!("{count} chunks"));
    };
    if due.count != count || at >= ahead || !asked.insert(at) {
        let expected = format!("number {} of the piece, of {} chunks", asked.len(), due.count);
        return fault(rule, expected, format!("number {at}, of {count} chunks"));
    }
    Ok(due.moved)
}

/// The log has come to a place.
fn is_due(length: u64, place: u64, of: (Table, u32)) -> Step {
    if length > place {
        return Ok(());
    }
    fault(Rule::Pace, format!("not before place {place}"), format!("at {length}, for {of:?}"))
}

/// Pieces of which one client is known to do something, at most.
const WORKS_MAX: usize = 1 << 12;
