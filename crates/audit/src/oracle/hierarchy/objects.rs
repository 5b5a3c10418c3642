//! Objects of a site: when each is put, asked for and removed.

use fogbank_env::Nanos;
use fogbank_store::ChunkName;
use fogbank_store::trace::Condition;

use super::Hierarchy;
use super::cells::TICK_BITS;
use super::layout::Table;
use super::named::{BUILDS_BYTES, Named};
use super::rules::{Rule, fault};
use crate::oracle::fault::{Step, Stop};
use crate::{Observation, Observer};

impl Hierarchy {
    pub(super) fn puts(
        &mut self,
        who: u32,
        name: &str,
        (bytes, condition): (u64, &Condition),
        fingerprint: u64,
        out: &mut dyn Observer,
    ) -> Step {
        let named = self.known(name)?;
        if *condition != Condition::IfAbsent {
            return fault(Rule::PutIfAbsent, "a put if absent", format!("{condition:?} of {name}"));
        }
        let due = named.bytes(&self.layout);
        let builds = matches!(named, Named::Session(_)) && bytes == due + BUILDS_BYTES;
        if bytes != due && !builds {
            return fault(Rule::ObjectBytes, due.to_string(), format!("{bytes} of {name}"));
        }
        let kind = match named {
            Named::Session(_) if !builds => "session",
            Named::Claim(..) => "claim",
            Named::Marks(_) => "marks",
            _ => "", // of several sizes, which were held against the public ones just now
        };
        match kind {
            "" => out.observe(&Observation::Image {
                chunk: 0,
                version: 0,
                fingerprints: &[fingerprint],
            }),
            kind => out.observe(&Observation::Blob { kind, bytes, fingerprint }),
        }
        let (layout, client) = (&self.layout, self.clients.entry(who).or_default());
        let length = client.length;
        match named {
            Named::Header => fault(Rule::CallOfSite, "no header", name),
            Named::Session(_) if client.session.is_none() => {
                client.builds = builds;
                Ok(())
            }
            Named::Session(_) => fault(Rule::SessionOnce, "no other session", name),
            Named::Superblock(number) => {
                let first = layout.first_of(number.saturating_sub(1));
                let newest = client.superblock.0;
                if number != newest + 1 || length < first + u64::from(layout.of.epoch / 2) {
                    let expected = format!("superblock {} in its time", newest + 1);
                    return fault(Rule::SuperblockDue, expected, format!("{number} at {length}"));
                }
                let mut tables = layout.installing(number).into_iter();
                let missing = tables.find(|table| !client.manifests.contains(table));
                if missing.is_some() || !client.has_settled(first) {
                    let expected = "results and tables that are there for all";
                    let seen = format!("superblock {number} without: {missing:?}");
                    return fault(Rule::SuperblockDue, expected, seen);
                }
                Ok(())
            }
            Named::Marks(epoch) if length >= layout.first_of(epoch + 1) => Ok(()),
            Named::Marks(_) => fault(Rule::MarksDue, "marks of an epoch that is over", name),
            Named::Claim(table, number, version) => {
                if Some((version >> TICK_BITS) as u32) != client.session {
                    return fault(Rule::OwnSession, format!("{:?}", client.session), name);
                }
                self.cells.claim((table, number), version)?;
                self.begins(who, (table, number))?;
                let client = self.clients.entry(who).or_default();
                let work = client.work(&self.layout, (table, number))?;
                match work.version.replace(version) {
                    None => Ok(()),
                    Some(_) => fault(Rule::PieceOnce, "one claim of a piece", name),
                }
            }
            Named::Index(table) => {
                let last = layout.cut(table).count() - 1;
                let is_finish = client.work(layout, (table, last))?.piece.writes.is_empty();
                if is_finish {
                    client.barriers_due += 1;
                    self.begins(who, (table, last))
                } else {
                    Ok(())
                }
            }
            Named::Manifest(table) => {
                let last = layout.cut(table).count() - 1;
                self.is_whole(who, (table, last))
            }
            Named::Piece(table, number) => self.is_whole(who, (table, number)),
        }
    }

    /// What is put says what a piece has written, all of it, and it is durable.
    fn is_whole(&self, who: u32, of: (Table, u32)) -> Step {
        let work = self.clients.get(&who).and_then(|client| client.works.get(&of));
        if work.is_some_and(|work| work.is_whole() && work.is_durable) {
            return Ok(());
        }
        let seen = work.map(|work| (work.read.1, work.written.1));
        fault(Rule::PieceWhole, "all of a piece, and a barrier", format!("{seen:?} of {of:?}"))
    }

    pub(super) fn has_put(
        &mut self,
        who: u32,
        name: &str,
        is_done: bool,
        at: Nanos,
    ) -> Result<(), Stop> {
        let (named, layout) = (self.known(name)?, self.layout.clone());
        if let Named::Session(number) = named
            && is_done
            && self.clients.values().any(|client| client.session == Some(number))
        {
            return Ok(fault(Rule::SessionOnce, "a session of nobody else", name)?);
        }
        let client = self.clients.entry(who).or_default();
        match named {
            Named::Session(number) if is_done => {
                client.session = Some(number);
                if client.builds {
                    self.sessions.builds(number);
                }
            }
            Named::Superblock(number) => {
                client.knows(&layout, number, at);
                if is_done {
                    client.has_put.insert(number);
                    self.newest = self.newest.max(number);
                    self.cells.forget(self.newest);
                }
            }
            Named::Manifest(table) => {
                client.manifests.insert(table);
                client.works.retain(|(of, _), _| *of != table);
            }
            Named::Piece(table, number) => {
                // Who was refused looks at what is there.
                client.pieces.entry((table, number)).or_insert(if is_done { 1 } else { 0 });
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn gets(&mut self, who: u32, name: &str) -> Step {
        let named = self.known(name)?;
        let client = self.clients.entry(who).or_default();
        if let Named::Piece(table, number) = named
            && client.pieces.get(&(table, number)).is_some_and(|times| *times >= ASKED_MAX)
        {
            return fault(Rule::AskedOnce, "what it has not been told", name);
        }
        Ok(())
    }

    pub(super) fn has_got(&mut self, who: u32, name: &str, at: Nanos) -> Result<(), Stop> {
        let (named, layout) = (self.known(name)?, self.layout.clone());
        let client = self.clients.entry(who).or_default();
        match named {
            Named::Superblock(number) => client.knows(&layout, number, at),
            Named::Manifest(table) => _ = client.manifests.insert(table),
            Named::Piece(table, number) => {
                *client.pieces.entry((table, number)).or_default() += 1;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn lists(&mut self, who: u32, prefix: &str) -> Step {
        self.sweeps(who, prefix)?;
        let layout = &self.layout;
        let puts = self.clients.get(&who).into_iter().flat_map(|client| &client.has_put);
        let is_due = |number: &u64| {
            // What comes then, and what went the superblock before; and those before them, too.
            let epochs = (0..2).flat_map(|back| {
                let comes = layout.installing(number.saturating_sub(back));
                let before = number.saturating_sub(back + 2);
                let goes = layout.tables(before).into_iter();
                let goes = goes.filter(move |table| layout.superseded(*table) == before + 1);
                comes.into_iter().chain(goes)
            });
            let levels = epochs.map(|table| table.level);
            let mut due = levels
                .flat_map(|level| ["piece", "claim"].map(|kind| format!("{kind}/{level:02x}/")));
            due.any(|due| due == prefix)
        };
        if puts.rev().any(is_due) {
            return Ok(());
        }
        fault(Rule::SweepDue, "a level in which tables come or go", prefix)
    }

    pub(super) fn deletes(&mut self, who: u32, names: &[String]) -> Step {
        let number = self.sweeps(who, "objects")?;
        let kept = number.checked_sub(self.layout.of.kept_epochs.into());
        for name in names {
            let is_due = match self.known(name)? {
                Named::Piece(table, _) | Named::Claim(table, ..) => {
                    self.layout.installed(table) <= number
                }
                Named::Index(table) | Named::Manifest(table) => {
                    kept.is_some_and(|kept| self.layout.superseded(table) <= kept)
                }
                Named::Marks(epoch) => kept.is_some_and(|kept| epoch < kept),
                _ => false,
            };
            if !is_due {
                return fault(Rule::DeleteDue, "what nobody needs any longer", name.clone());
            }
        }
        Ok(())
    }

    pub(super) fn deletes_chunks(&mut self, who: u32, chunks: &[ChunkName]) -> Result<(), Stop> {
        for name in chunks {
            let (claim, _) = self.cells.claim_of(name)?;
            let client = self.clients.entry(who).or_default();
            let is_own = client.session == Some((name.version >> TICK_BITS) as u32);
            let swept = client.has_put.last().copied().unwrap_or_default();
            let may_go = self.layout.installed(claim.table) <= swept;
            if !(is_own || may_go) || self.cells.is_named(name, claim.table, swept.max(1)) {
                let expected = "chunks that do not count, or no longer";
                return Ok(fault(
                    Rule::DeleteDue,
                    expected,
                    format!("{name:?} of {:?}", claim.table),
                )?);
            }
        }
        Ok(())
    }

    /// The superblock that a client has put, which makes it remove things.
    fn sweeps(&self, who: u32, what: &str) -> Step<u64> {
        match self.clients.get(&who).and_then(|client| client.has_put.last()) {
            Some(number) => Ok(*number),
            None => fault(Rule::SweepDue, "none, for it has put no superblock", what),
        }
    }

    fn known(&self, name: &str) -> Step<Named> {
        match Named::of(name).filter(|named| named.can_be(&self.layout)) {
            Some(named) => Ok(named),
            None => fault(Rule::ObjectKnown, "an object of a site", name),
        }
    }
}

/// How often a client may be told what a piece has written: to look whether it is there, to go on
/// from it, and when its own was refused.
const ASKED_MAX: u32 = 3;
