//! A planned transaction as a program.

use fogbank_txn::{Pause, Program, View};

use super::encode;
use super::plan::Planned;
use super::record::Attempt;
use crate::history::{Key, Op, Seen};

/// A program that does what was planned and writes down what it saw.
pub struct Scripted {
    plan: Vec<Planned>,
    attempt: Attempt,
}

impl Scripted {
    /// The program of `plan`, recorded in `attempt`.
    pub fn new(plan: Vec<Planned>, attempt: Attempt) -> Self {
        Self { plan, attempt }
    }

    fn step(&self, view: &mut View<'_>, planned: &Planned) -> Result<(), Pause> {
        match planned {
            Planned::Read(key) | Planned::Undo(key) => drop(self.read(view, *key)?),
            Planned::ReadMany(keys) => self.read_many(view, keys)?,
            Planned::Append(key) => self.append(view, *key)?,
            Planned::Delete(key) => self.delete(view, *key)?,
            Planned::Scan { range, from, to, limit, reverse, .. } => {
                let stretch = encode::stretch(*range, *from, *to);
                let page = view.scan(&stretch, *limit, *reverse)?;
                let keys = page.iter().map(|(key, _)| encode::found(key));
                let keys = keys.map(|(member, grave)| (member, grave, Seen::Alive)).collect();
                let cut = page.len() == *limit;
                self.attempt.op(scan_op(*range, (*from, *to), keys, cut, *reverse));
            }
        }
        Ok(())
    }

    fn read(&self, view: &mut View<'_>, key: Key) -> Result<Seen, Pause> {
        let record = view.get(&encode::list_key(key))?;
        let grave = record.is_none() && view.stat(&encode::grave_key(key))?.is_some();
        let seen = encode::seen(record.as_ref(), grave);
        self.attempt.op(Op::Read { key, seen: seen.clone() });
        Ok(seen)
    }

    fn read_many(&self, view: &mut View<'_>, keys: &[Key]) -> Result<(), Pause> {
        let lists: Vec<_> = keys.iter().map(|key| encode::list_key(*key)).collect();
        let records = view.get_many(&lists)?;
        for (key, record) in keys.iter().zip(&records) {
            let grave = view.stat(&encode::grave_key(*key))?.is_some();
            let seen = encode::seen(record.as_ref(), grave);
            if grave && record.is_some() {
                self.attempt.op(Op::Read { key: *key, seen: Seen::Gone });
            }
            self.attempt.op(Op::Read { key: *key, seen });
        }
        Ok(())
    }

    fn append(&self, view: &mut View<'_>, key: Key) -> Result<(), Pause> {
        let mut list = match self.read(view, key)? {
            Seen::List(list) => list,
            Seen::NotYet => Vec::new(),
            _ => return Ok(()),
        };
        let value = self.attempt.fresh_value();
        list.push(value);
        let (bytes, attr) = encode::encode(&list);
        view.put(&encode::list_key(key), bytes, attr)?;
        self.attempt.op(Op::Append { key, value });
        Ok(())
    }

    fn delete(&self, view: &mut View<'_>, key: Key) -> Result<(), Pause> {
        if let Seen::List(_) = self.read(view, key)? {
            let (nothing, attr) = encode::encode(&[]);
            view.delete(&encode::list_key(key))?;
            view.put(&encode::grave_key(key), nothing, attr)?;
            self.attempt.op(Op::Delete { key });
        }
        Ok(())
    }
}

impl Program for Scripted {
    type Reply = ();

    fn run(&mut self, view: &mut View<'_>) -> Result<(), Pause> {
        self.attempt.restart();
        self.want_all(view);
        for planned in &self.plan {
            self.step(view, planned)?;
        }
        Ok(())
    }
}

impl Scripted {
    /// Names every key that will be read, so that all misses join one batch.
    fn want_all(&self, view: &mut View<'_>) {
        let keys = self.plan.iter().flat_map(|planned| match planned {
            Planned::Read(key) | Planned::Append(key) | Planned::Delete(key) => vec![*key],
            Planned::ReadMany(keys) => keys.clone(),
            Planned::Undo(_) | Planned::Scan { .. } => Vec::new(),
        });
        let keys: Vec<_> = keys.map(encode::list_key).collect();
        view.want(&keys);
    }
}

/// The record of a scan from what it returned, in the order returned: member, whether that was the
/// grave, and what was seen if it was not. A scan cut by its limit covers only what it returned.
pub(super) fn scan_op(
    range: u32,
    (mut from, mut to): (u32, u32),
    keys: Vec<(u32, bool, Seen)>,
    cut: bool,
    reverse: bool,
) -> Op {
    if let (true, Some((last, ..))) = (cut, keys.last()) {
        *(if reverse { &mut from } else { &mut to }) = *last;
    }
    let seen = |(member, grave, seen)| (member, if grave { Seen::Gone } else { seen });
    let mut found: Vec<(u32, Seen)> = keys.into_iter().map(seen).collect();
    if reverse {
        found.reverse();
    }
    Op::Scan { range, from, to, found }
}
