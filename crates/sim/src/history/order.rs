//! The version order of every key, inferred from reads, and the anomalies that need no graph.

use hashbrown::{HashMap, HashSet};

use super::within::{Sight, View};
use super::{Class, History, Key, Op, Outcome, Promise, Report, Seen, Transaction, Value};

/// One append as its writer made it.
#[derive(Debug, Clone, Copy)]
struct Write {
    by: u32,
    /// Nothing later in the same transaction changed the key.
    last: bool,
}

/// Who wrote what, whatever came of it.
#[derive(Debug, Default)]
pub(super) struct Writers {
    appends: HashMap<(Key, Value), Write>,
    deletes: HashMap<Key, Vec<u32>>,
}

impl Writers {
    pub(super) fn index(history: &History, report: &mut Report) -> Self {
        let mut writers = Self::default();
        for (at, transaction) in history.transactions.iter().enumerate() {
            let mut previous: HashMap<Key, Value> = HashMap::new();
            for op in &transaction.ops {
                let (key, value) = match op {
                    Op::Append { key, value } => (*key, Some(*value)),
                    Op::Delete { key } => (*key, None),
                    _ => continue,
                };
                writers.overwrite(key, &mut previous, value);
                writers.add(at as u32, key, value, report);
            }
        }
        writers
    }

    fn overwrite(&mut self, key: Key, previous: &mut HashMap<Key, Value>, value: Option<Value>) {
        let before = match value {
            Some(value) => previous.insert(key, value),
            None => previous.remove(&key),
        };
        if let Some(write) = before.and_then(|before| self.appends.get_mut(&(key, before))) {
            write.last = false;
        }
    }

    fn add(&mut self, by: u32, key: Key, value: Option<Value>, report: &mut Report) {
        let Some(value) = value else {
            return self.deletes.entry(key).or_default().push(by);
        };
        if let Some(other) = self.appends.insert((key, value), Write { by, last: true }) {
            let words = format!("T{} and T{by} both appended {value} to {key}", other.by);
            report.add(Class::Malformed, vec![other.by, by], words);
        }
    }

    /// Which transactions count: committed, or of unknown outcome and seen by one that counts.
    pub(super) fn counted(&self, history: &History) -> Vec<bool> {
        let all = &history.transactions;
        let mut counted: Vec<bool> = all.iter().map(|t| t.outcome == Outcome::Committed).collect();
        if !all.iter().any(|t| t.outcome == Outcome::Unknown) {
            return counted;
        }
        let mut open: Vec<usize> = (0..all.len()).filter(|at| counted[*at]).collect();
        let mut followed = HashMap::new();
        while let Some(at) = open.pop() {
            for by in self.seen_writers(all, &all[at].ops, &mut followed) {
                let by = by as usize;
                if !counted[by] && all[by].outcome == Outcome::Unknown {
                    counted[by] = true;
                    open.push(by);
                }
            }
        }
        counted
    }

    /// The writers of what `ops` saw. Only the part of each list beyond the longest followed so
    /// far is looked up: what comes before it is the same list or an anomaly by itself.
    fn seen_writers(
        &self,
        all: &[Transaction],
        ops: &[Op],
        followed: &mut HashMap<Key, usize>,
    ) -> Vec<u32> {
        let mut writers = Vec::new();
        each_seen(ops, |key, seen| match seen {
            Seen::List(list) => {
                let from = followed.entry(key).or_default();
                for value in list.get(*from..).unwrap_or_default() {
                    writers.extend(self.appends.get(&(key, *value)).map(|write| write.by));
                }
                *from = list.len().max(*from);
            }
            Seen::Gone => writers.extend(self.only_deleter(key, all)),
            _ => {}
        });
        writers
    }

    /// Whose delete it must have been, if only one transaction can have committed one.
    fn only_deleter(&self, key: Key, all: &[Transaction]) -> Option<u32> {
        let deletes = self.deletes.get(&key)?.iter().copied();
        let mut able = deletes.filter(|by| all[*by as usize].outcome != Outcome::Aborted);
        able.next().filter(|_| able.next().is_none())
    }
}

fn each_seen(ops: &[Op], mut visit: impl FnMut(Key, &Seen)) {
    for op in ops {
        match op {
            Op::Read { key, seen } => visit(*key, seen),
            Op::Scan { range, found, .. } => {
                for (member, seen) in found {
                    visit(Key { range: *range, member: *member }, seen);
                }
            }
            _ => {}
        }
    }
}

/// The versions of one key, oldest first: not yet, one a value, gone.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The longest list read.
    pub values: Vec<Value>,
    /// The writer of each value; `None` if it is nobody's or its writer does not count.
    pub writers: Vec<Option<u32>>,
    /// Whether each value is the last that its writer appended.
    last: Vec<bool>,
    /// Counted writers whose values were never read: they come after all that were.
    pub unplaced: Vec<u32>,
    /// Who deleted the key.
    pub deleter: Option<u32>,
    longest_read_by: u32,
    /// The latest start of a transaction that read the key whole, and which.
    latest_reader: Option<(u64, u32)>,
}

impl Order {
    /// The writer of the first version.
    pub(super) fn creators(&self) -> &[u32] {
        match self.writers.first() {
            Some(Some(first)) => std::slice::from_ref(first),
            Some(None) => &[],
            None => &self.unplaced,
        }
    }
}

/// The order of every key that anyone counted wrote or read.
pub(super) fn infer(
    history: &History,
    writers: &Writers,
    counted: &[bool],
    views: &[View],
    promise: Promise,
    report: &mut Report,
) -> HashMap<Key, Order> {
    let mut orders = HashMap::new();
    longest(history, views, &mut orders);
    let keys: Vec<Key> = orders.keys().copied().collect();
    for key in sorted(keys) {
        if let Some(order) = orders.get_mut(&key) {
            name_writers(history, writers, counted, key, order, report);
        }
    }
    place_writes(history, counted, &mut orders, report);
    for (at, view) in views.iter().enumerate() {
        for sight in &view.sights {
            check_sight(history, writers, &orders, at as u32, sight, report);
        }
    }
    if promise == Promise::Strict {
        lost_appends(history, &orders, report);
    }
    orders
}

fn sorted(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort_unstable();
    keys
}

fn longest(history: &History, views: &[View], orders: &mut HashMap<Key, Order>) {
    for (at, view) in views.iter().enumerate() {
        for sight in &view.sights {
            let order: &mut Order = orders.entry(sight.key).or_default();
            let list = match &sight.seen {
                Seen::List(list) => &list[..],
                Seen::NotYet => &[],
                _ => continue,
            };
            if list.len() > order.values.len() {
                order.values = list.to_vec();
                order.longest_read_by = at as u32;
            }
            let started = history.transactions[at].started;
            order.latest_reader = order.latest_reader.max(Some((started, at as u32)));
        }
    }
}

fn name_writers(
    history: &History,
    writers: &Writers,
    counted: &[bool],
    key: Key,
    order: &mut Order,
    report: &mut Report,
) {
    let values = std::mem::take(&mut order.values);
    check_values(history, writers, order.longest_read_by, key, &values, report);
    for value in &values {
        let write = writers.appends.get(&(key, *value));
        order.last.push(write.is_none_or(|write| write.last));
        order.writers.push(write.map(|write| write.by).filter(|by| counted[*by as usize]));
    }
    order.values = values;
}

/// Reports what is wrong with a list by itself.
fn check_values(
    history: &History,
    writers: &Writers,
    reader: u32,
    key: Key,
    values: &[Value],
    report: &mut Report,
) {
    let mut met = HashSet::new();
    for value in values {
        if !met.insert(*value) {
            let words = format!("T{reader} read {key} with {value} twice: {values:?}");
            report.add(Class::Duplicate, vec![reader], words);
        }
        match writers.appends.get(&(key, *value)) {
            None => {
                let words = format!("T{reader} read {value} in {key}; nobody appended it");
                report.add(Class::Garbage, vec![reader], words);
            }
            Some(write) if aborted(history, write.by) => {
                let words = format!("T{reader} read {value} in {key}, of aborted T{}", write.by);
                report.add(Class::G1a, vec![reader, write.by], words);
            }
            Some(_) => {}
        }
    }
}

fn aborted(history: &History, at: u32) -> bool {
    history.transactions[at as usize].outcome == Outcome::Aborted
}

/// Puts every counted write into its key's order: unplaced appends and deletes.
fn place_writes(
    history: &History,
    counted: &[bool],
    orders: &mut HashMap<Key, Order>,
    report: &mut Report,
) {
    let mut placed: HashSet<(Key, Value)> = HashSet::new();
    for (key, order) in orders.iter() {
        placed.extend(order.values.iter().map(|value| (*key, *value)));
    }
    for (at, transaction) in history.transactions.iter().enumerate() {
        for op in transaction.ops.iter().filter(|_| counted[at]) {
            match op {
                Op::Append { key, value } if !placed.contains(&(*key, *value)) => {
                    let order = orders.entry(*key).or_default();
                    if order.unplaced.last() != Some(&(at as u32)) {
                        order.unplaced.push(at as u32);
                    }
                }
                Op::Delete { key } => set_deleter(orders, *key, at as u32, report),
                _ => {}
            }
        }
    }
}

fn set_deleter(orders: &mut HashMap<Key, Order>, key: Key, by: u32, report: &mut Report) {
    let order = orders.entry(key).or_default();
    match order.deleter.replace(by) {
        Some(other) if other != by => {
            let words = format!("T{other} and T{by} both deleted {key}");
            report.add(Class::DuplicateDelete, vec![other, by], words);
        }
        _ => {}
    }
}

fn check_sight(
    history: &History,
    writers: &Writers,
    orders: &HashMap<Key, Order>,
    at: u32,
    sight: &Sight,
    report: &mut Report,
) {
    let Some(order) = orders.get(&sight.key) else { return };
    let key = sight.key;
    match &sight.seen {
        Seen::List(list) if !order.values.starts_with(list) => {
            check_values(history, writers, at, key, list, report);
            let other = order.longest_read_by;
            let words = format!("T{at} read {key} as {list:?}, T{other} as {:?}", order.values);
            report.add(Class::IncompatibleOrder, vec![at, other], words);
        }
        Seen::List(list) if !list.is_empty() && !order.last[list.len() - 1] => {
            let by = writers.appends.get(&(key, list[list.len() - 1])).map_or(at, |w| w.by);
            if by != at {
                let words = format!("T{at} read {key} as {list:?}, in the midst of T{by}");
                report.add(Class::G1b, vec![at, by], words);
            }
        }
        Seen::Gone if order.deleter.is_none() => {
            gone_without_delete(history, writers, at, key, report);
        }
        _ => {}
    }
}

/// A delete of unknown outcome may be the one; if several may, none of them counts.
fn gone_without_delete(
    history: &History,
    writers: &Writers,
    at: u32,
    key: Key,
    report: &mut Report,
) {
    let deletes = writers.deletes.get(&key).map_or(&[][..], |all| all);
    match deletes.iter().find(|by| !aborted(history, **by)).or(deletes.first()) {
        Some(by) if !aborted(history, *by) => {}
        Some(by) => {
            let words = format!("T{at} saw {key} deleted, by aborted T{by}");
            report.add(Class::G1a, vec![at, *by], words);
        }
        None => {
            let words = format!("T{at} saw {key} deleted; nobody deleted it");
            report.add(Class::Garbage, vec![at], words);
        }
    }
}

/// Under real time, who starts after an append was acknowledged must see it.
fn lost_appends(history: &History, orders: &HashMap<Key, Order>, report: &mut Report) {
    for key in sorted(orders.keys().copied().collect()) {
        let order = &orders[&key];
        let Some((started, reader)) = order.latest_reader else { continue };
        for by in &order.unplaced {
            let writer = &history.transactions[*by as usize];
            if writer.outcome == Outcome::Committed && writer.ended < started {
                let words =
                    format!("T{by} committed an append to {key}; T{reader}, later, did not see it");
                report.add(Class::LostAppend, vec![*by, reader], words);
            }
        }
    }
}
