//! What the sweep of an opening lists, looks at and deletes.
//!
//! 1. The journal records are listed of the epoch of which the last commit superseded some; those
//!    of these that are there are got one after the other, in the order of their names. Those of
//!    batches are left over; takeover records stay for good. Which is which the cloud need not read
//!    in them: a takeover is the one that an opening puts. How many of the list the commit
//!    superseded is known but for records of which nobody knows whether they are there.
//! 2. Full checkpoints and deltas are listed. Pieces by older openings that the commit record does
//!    not name are left over.
//! 3. One call deletes all that is left over; there is none if nothing is.
//!
//! A trace says how many names a list had. That has to be as many as are there for certain, and may
//! be as many more as may be there. If it is not, or a record is not the one that was put, the
//! cloud has lied. Nothing of this is verified by the proxy, as it need not be: what it deletes
//! stays useless whoever opens the store. So it goes on, the lie is counted, and what it led to is
//! left open: the cloud has chosen it itself.

use std::ops::{Range, RangeInclusive};

use super::blobs::Blobs;
use crate::oracle::blob::{DELTA, FULL, JOURNAL, Kept, opening_of};
use crate::oracle::fault::{Step, fault};

/// What a sweep has seen so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Sweep {
    /// Records that were listed and are to be looked at: at least and at most.
    records: (u64, u64),
    /// Whether those were as many as can be. If not, the cloud has chosen what is looked at, and it
    /// is counted only.
    possible: bool,
    looks: u64,
    looked: Vec<(String, Fate)>,
    /// Pieces of full checkpoints and of deltas that were listed and are left over.
    left: [Option<u64>; 2],
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    LeftOver,
    /// The cloud has shown another record than was put.
    Open,
}

/// The containers that count, and the opening that asks.
pub(super) struct Counting {
    pub opening: u32,
    pub containers: Vec<String>,
}

impl Counting {
    fn is_left_over(&self, prefix: &str, name: &str) -> bool {
        let older = opening_of(prefix, name).is_some_and(|opening| opening < self.opening);
        older && !self.containers.iter().any(|container| name.starts_with(container))
    }
}

/// Which records a sweep looks at.
pub(super) struct Scope {
    /// What the names begin with that are listed.
    pub prefix: String,
    /// The places of those that are looked at.
    pub places: Range<u32>,
}

impl Scope {
    /// Whether it is looked at if it is listed.
    pub fn holds(&self, name: &str) -> bool {
        let place = name.strip_prefix(&self.prefix).map(|place| u32::from_str_radix(place, 16));
        place.and_then(Result::ok).is_some_and(|place| self.places.contains(&place))
    }

    fn is_possible(&self, names: u64, blobs: &Blobs) -> bool {
        is_possible(names..=names, blobs.under(&self.prefix, None).map(|(_, blob)| blob.certain))
    }

    /// What is listed and passed over: so much for certain, and at most so much.
    fn passed(&self, blobs: &Blobs) -> (u64, u64) {
        let passed = blobs.under(&self.prefix, None).filter(|(name, _)| !self.holds(name));
        passed.fold((0, 0), |(least, most), (_, blob)| (least + u64::from(blob.certain), most + 1))
    }

    /// What may be looked at, in order, and whether it is there for certain.
    fn records<'a>(&'a self, blobs: &'a Blobs) -> Vec<(&'a str, bool)> {
        let known = blobs.under(&self.prefix, None);
        let looked = known.filter(|(name, _)| self.holds(name));
        looked.map(|(name, blob)| (name, blob.certain)).collect()
    }
}

/// Lists and looks.
impl Sweep {
    /// So many records were listed. Whether that can be.
    pub fn records_listed(&mut self, names: u64, blobs: &Blobs, scope: &Scope) -> bool {
        let possible = scope.is_possible(names, blobs);
        let (least, most) = scope.passed(blobs);
        let records = (names.saturating_sub(most), names.saturating_sub(least));
        *self = Self { records, possible, ..Self::default() };
        possible
    }

    /// Whether all that may be looked at has been.
    pub fn has_looked(&self) -> bool {
        self.looks >= self.records.1
    }

    /// Whether all may have been looked at.
    pub fn may_have_looked(&self) -> bool {
        self.looks >= self.records.0
    }

    /// A record is looked at.
    pub fn look(&mut self, name: &str, blobs: &Blobs, scope: &Scope) -> Step {
        self.looks += 1;
        if !self.possible {
            return Ok(());
        }
        self.check_look(name, blobs, scope)?;
        self.looked.push((name.into(), Fate::Open));
        Ok(())
    }

    /// Names come in their order; none that is there for certain is passed over, and as many have
    /// to come as were listed.
    fn check_look(&self, name: &str, blobs: &Blobs, scope: &Scope) -> Step {
        let all = scope.records(blobs);
        let after = self.looked.last().and_then(|(last, _)| {
            all.iter().position(|(known, _)| known == last).map(|last| last + 1)
        });
        let left = |records: u64| records.saturating_sub(self.looks);
        let rest = left(self.records.0)..=left(self.records.1);
        let mut due =
            all.iter().enumerate().skip(after.unwrap_or(0)).filter(|(at, (known, certain))| {
                let fits = all[at + 1..].iter().map(|(_, certain)| *certain);
                (*certain || *known == name) && is_possible(rest.clone(), fits)
            });
        let expected = due.next().map_or("the next listed record", |(_, (known, _))| known);
        if expected == name {
            return Ok(());
        }
        fault("blob-order", format!("get {expected}"), format!("get {name}"))
    }

    /// The record that was looked at. Whether it is the one that was put, as far as that is known.
    pub fn looked(&mut self, seen: Option<Kept>, blobs: &Blobs) -> bool {
        let Some((name, fate)) = self.looked.last_mut() else { return true };
        let known = blobs.get(name);
        *fate = match (known, seen) {
            (_, None) => Fate::Stays,
            (Some(blob), Some(seen)) if blob.kept == seen && blob.stays => Fate::Stays,
            (Some(blob), Some(seen)) if blob.kept == seen => Fate::LeftOver,
            _ => Fate::Open,
        };
        seen.is_some() && *fate != Fate::Open
    }

    /// So many pieces were listed. Whether that can be.
    pub fn pieces_listed(
        &mut self,
        prefix: &'static str,
        names: u64,
        (blobs, counting): (&Blobs, &Counting),
    ) -> bool {
        let known = blobs.under(prefix, None);
        let (left, kept): (Vec<_>, Vec<_>) =
            known.partition(|(name, _)| counting.is_left_over(prefix, name));
        let left = left.into_iter().map(|(_, blob)| blob.certain);
        let count = names.checked_sub(kept.len() as u64);
        let count = count.filter(|count| is_possible(*count..=*count, left));
        self.left[usize::from(prefix == DELTA)] = count;
        count.is_some()
    }
}

/// The deletion.
impl Sweep {
    /// Whether nothing is left over.
    pub fn is_clean(&self) -> bool {
        let stays = |(_, fate): &(String, Fate)| *fate == Fate::Stays;
        self.possible && self.looked.iter().all(stays) && self.left == [Some(0); 2]
    }

    /// Whether a lie has left it open if anything is.
    pub fn is_open(&self) -> bool {
        let left_over = |(_, fate): &(String, Fate)| *fate == Fate::LeftOver;
        !self.looked.iter().any(left_over)
            && self.left.iter().all(|left| left.is_none_or(|left| left == 0))
    }

    /// Whether the cloud has told the truth, so that what it did not show is not there.
    pub fn is_true(&self) -> bool {
        let open = |(_, fate): &(String, Fate)| *fate == Fate::Open;
        self.possible && self.left.iter().all(Option::is_some) && !self.looked.iter().any(open)
    }

    /// Holds a deletion against what is left over.
    pub fn check(&self, names: &[String], (blobs, counting): (&Blobs, &Counting)) -> Step {
        let mut rest = names;
        for (name, fate) in &self.looked {
            match (fate, rest.split_first()) {
                (Fate::Stays, _) => {}
                (_, Some((first, further))) if first == name => rest = further,
                (Fate::Open, _) => {}
                (Fate::LeftOver, found) => return differs(name, found.map(|(first, _)| first)),
            }
        }
        if !self.possible {
            let chosen = |name: &&String| name.starts_with(JOURNAL);
            rest = &rest[rest.iter().take_while(chosen).count()..];
        }
        for (prefix, left) in [FULL, DELTA].into_iter().zip(self.left) {
            let is = |name: &&String| name.starts_with(prefix);
            let (part, further) = rest.split_at(rest.iter().take_while(is).count());
            match left {
                Some(count) => check_pieces(part, (prefix, count), (blobs, counting))?,
                None => check_useless(part, prefix, counting)?,
            }
            rest = further;
        }
        rest.first().map_or(Ok(()), |first| differs("nothing more", Some(first)))
    }

    /// What is left over of what was looked at and of what was listed.
    pub fn left_over(&self, listed: &[String], counting: &Counting) -> Vec<String> {
        let looked = self.looked.iter().filter(|(_, fate)| *fate == Fate::LeftOver);
        let pieces = [FULL, DELTA].into_iter().flat_map(|prefix| {
            listed.iter().filter(move |name| counting.is_left_over(prefix, name))
        });
        looked.map(|(name, _)| name).chain(pieces).cloned().collect()
    }

    /// The names that are not there any more when a sweep that was told the truth has ended.
    pub fn gone(&self, scope: &Scope, (blobs, counting): (&Blobs, &Counting)) -> Vec<String> {
        let records = blobs.under(&scope.prefix, None);
        let records = records.filter(|(name, blob)| !blob.stays && scope.holds(name));
        let pieces = [FULL, DELTA].into_iter().flat_map(|prefix| {
            let known = blobs.under(prefix, None);
            known.filter(move |(name, _)| counting.is_left_over(prefix, name))
        });
        records.chain(pieces).map(|(name, _)| name.into()).collect()
    }
}

/// `count` of the pieces that may be left over, those that are for certain among them, in order.
fn check_pieces(
    names: &[String],
    (prefix, count): (&str, u64),
    (blobs, counting): (&Blobs, &Counting),
) -> Step {
    let known = blobs.under(prefix, None);
    let left = known.filter(|(name, _)| counting.is_left_over(prefix, name));
    let mut rest = names;
    for (name, blob) in left {
        match rest.split_first() {
            Some((first, further)) if first == name => rest = further,
            found if blob.certain => return differs(name, found.map(|(first, _)| first)),
            _ => {}
        }
    }
    match rest.first() {
        Some(first) => differs("nothing more of that kind", Some(first)),
        None => {
            let found = names.len() as u64;
            if found == count {
                return Ok(());
            }
            let due =
                format!("delete {count} pieces of {prefix}, as many as the list had to spare");
            fault("blob-order", due, format!("delete {found}"))
        }
    }
}

/// Names that the cloud has chosen: none that counts.
fn check_useless(names: &[String], prefix: &str, counting: &Counting) -> Step {
    match names.iter().find(|name| !counting.is_left_over(prefix, name)) {
        None => Ok(()),
        Some(name) => differs("nothing that counts", Some(name)),
    }
}

fn differs(due: &str, found: Option<&String>) -> Step {
    let seen = found.map_or("the end of the call".into(), |name| format!("delete {name}"));
    fault("blob-order", format!("delete {due}"), seen)
}

/// Whether a list can have as many names as one of these, if these may be there, some for certain.
fn is_possible(names: RangeInclusive<u64>, certain: impl Iterator<Item = bool>) -> bool {
    let (mut least, mut most) = (0, 0);
    for certain in certain {
        least += u64::from(certain);
        most += 1;
    }
    *names.start() <= most && *names.end() >= least
}
